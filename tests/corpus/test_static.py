"""The program behind `make corpus`: what it takes for a training script, a read that only logs, and a failure."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests.corpus import static
from tests.corpus.collect import scripts
from tests.corpus.uses import uses
from tracelens.patch.code.batches import batches
from tracelens.patch.files import rewrite_checks

TRAIN = """
import torch

def main(model, loader, optimizer, scheduler, writer):
    total, k = 0.0, 0.0
    for i, (x, y) in enumerate(loader):
        x = x.cuda()
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        value = loss.item()
        writer.add_scalar("loss", value, i)
        if loss.item() > 9:
            break
        scheduler.step(loss.item())
        norm = float(loss)
        print(norm)
        if i % 50 == 0:
            print(loss.item())
        helper(loss.item())
    return total
"""


WITHOUT_WAITS = "\n".join(
    line for line in TRAIN.splitlines() if not any(word in line for word in ("> 9", "break", "scheduler.", "helper("))
)
"""Beside a wait that stays in each batch, nothing would be gained, and nothing is deferred."""


def test_reads_are_told_apart_by_what_becomes_of_them() -> None:
    found = {use.line: use.purpose for use in uses(batches(ast.parse(TRAIN)))}
    assert found == {
        12: "logging",
        13: "logging",
        15: "control",
        17: "training",
        18: "logging",
        21: "seldom",
        22: "other",
    }


def project(folder: Path) -> Path:
    (folder / "tests").mkdir()
    (folder / "train.py").write_text(WITHOUT_WAITS)
    (folder / "tests" / "train.py").write_text(TRAIN)
    (folder / "model.py").write_text("import torch\nclass Net:\n    def forward(self, x):\n        return x\n")
    (folder / "old.py").write_text("import torch\nprint loss.backward()\n")
    (folder / "unseen.py").write_text(
        "import torch\ndef train(loader, f):\n    for x in loader:\n        f(x).backward()\n"
    )
    return folder


def test_training_scripts_are_those_that_go_backward(tmp_path: Path) -> None:
    assert [path.name for path in scripts(project(tmp_path))] == ["old.py", "train.py", "unseen.py"]


def test_every_verdict_and_the_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(sys, "argv", ["static.py", str(project(tmp_path)), "--list"]):
        assert static.main() == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == "3 files, 1 patched, 1 declined, 1 unchanged, 0 failed"
    assert "logging and metrics: 3 of 3 deferred (100.0%)" in printed
    assert "     1 defer-read: the file does not parse as Python 3, line …" in printed


@pytest.mark.parametrize("broken", ["lost comment", "exception"])
def test_what_goes_wrong_is_a_failure_and_not_silence(broken: str, tmp_path: Path) -> None:
    project(tmp_path)
    error = {"lost comment": {"return_value": "a comment would be lost"}, "exception": {"side_effect": KeyError("x")}}
    with mock.patch.object(rewrite_checks, "rewrite_mistake", **error[broken]):
        result = static.examine(tmp_path / "train.py")
    assert result.verdict == "failed"
    assert result.problem
    assert static.report([result], tmp_path).endswith("1 files, 0 patched, 0 declined, 0 unchanged, 1 failed")


def test_a_second_run_that_changes_more_is_a_failure(tmp_path: Path) -> None:
    project(tmp_path)
    real, calls = static.patched, []

    def forgetful(script: Path):
        calls.append(script)
        if len(calls) > 1:
            script.write_bytes(TRAIN.encode())
        return real(script)

    with mock.patch.object(static, "patched", forgetful):
        result = static.examine(tmp_path / "train.py")
    assert result.verdict == "failed"


def test_without_a_folder_it_says_what_to_name(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(sys, "argv", ["static.py"]), mock.patch.dict("os.environ", {"TRACELENS_CORPUS": ""}):
        assert static.main() == 2
    assert "TRACELENS_CORPUS" in capsys.readouterr().err
