"""The loops of `seed_loops` on real streams: same numbers while kernels are slow, nothing that the sanitizer sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support.patching import patched_text, run, script
from tests.support.places import ROOT
from tests.support.seed_loops import FORMS, KINDS, patch_for

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SLOW = """
class Slow(nn.Module):
    def forward(self, x):
        torch.cuda._sleep(3_000_000)
        return x

model = nn.Sequential(Slow(), nn.Linear(4, 3), Slow()).to(device)
torch.cuda.synchronize()  # the weights are there before another stream reads them
"""
ROUNDS = 3
ALL = "event, interval and reads"


def on_gpu(form: str, batches: int) -> str:
    text = script(FORMS[form], batches).replace('torch.device("cpu")', 'torch.device("cuda")')
    text = text.replace("model = nn.Linear(4, 3)\n", SLOW)
    copies = "x, y = x.to(device), y.to(device)" in text or "x.to(device) * 1" in text
    return text if copies else text.replace("criterion(model(x), y)", "criterion(model(x.to(device)), y.to(device))")


def written(folder: Path, text: str, kinds: str) -> str:
    """The patched text, with its helpers beside where it runs."""
    patch = patch_for(folder, text, *KINDS[kinds])
    (folder / "after").mkdir()
    for one in patch.files:
        if one.path.name == "tracelens_runtime.py":
            (folder / "after" / one.path.name).write_bytes(one.after)
    return patched_text(patch)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_numbers_and_output_are_the_same(form: str, kinds: str, tmp_path: Path) -> None:
    text = on_gpu(form, 25)
    after = written(tmp_path, text, kinds)
    before = run(tmp_path / "before", text)
    assert before.ending == ""
    for _ in range(ROUNDS):
        now = run(tmp_path / "after", after)
        assert (now.output, now.ending) == (before.output, "")
        assert {name: now.results.get(name) for name in before.results} == before.results


@pytest.mark.parametrize("form", FORMS)
def test_the_sanitizer_finds_no_more_than_before(form: str, tmp_path: Path) -> None:
    text = on_gpu(form, 12)
    after = written(tmp_path, text, ALL)
    first, second = sanitized(tmp_path / "before", text), sanitized(tmp_path / "after", after)
    assert first.returncode == 0, first.stderr[-2000:]
    assert second.returncode == 0, second.stderr[-2000:]
    assert second.stdout == first.stdout


def sanitized(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(text)
    environment = os.environ | {"TORCH_CUDA_SANITIZER": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
