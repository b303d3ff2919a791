"""What a recording leaves behind in a process that goes on, where a GPU is: nothing that slows or breaks it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracelens.capture.inside import cupti_detach
from tracelens.capture.supervisor.recording import Outcome, ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

HEAD = """
import torch
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
rows = torch.ones(32, 64, device="cuda")

def steps(count, also=lambda: None):
    for _ in range(count):
        model(rows).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        also()
    torch.cuda.synchronize()

def kernels():
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
        steps(3)
    return sum(e.device_type() == torch.autograd.DeviceType.CUDA for e in session.profiler.kineto_results.events())

def graph():
    (rows @ rows.T).sum()  # libraries set themselves up at the first call, which no graph may hold
    one = torch.cuda.CUDAGraph()
    with torch.cuda.graph(one):
        made = (rows @ rows.T).sum()
    one.replay()
    torch.cuda.synchronize()
    return one, made
"""
PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, unprofiled_most_steps=40, clean=5)


def recorded(folder: Path, text: str, capfd: pytest.CaptureFixture[str]) -> tuple[Outcome, str, str]:
    """The outcome, what it printed with us, and what it prints without."""
    (folder / "train.py").write_text(HEAD + text)
    words = (sys.executable, "train.py")
    plain = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    capfd.readouterr()
    outcome = profile(ProfileOptions("command", words, cwd=folder, plan=PLAN, monitor=False))
    said = capfd.readouterr()
    assert outcome.status == 0, said.err[-3000:]
    assert outcome.complete, outcome
    return outcome, said.out, plain.stdout


def test_afterwards_the_script_may_profile_and_capture_graphs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome, ours, plain = recorded(
        tmp_path,
        "steps(120); print(kernels()); print(kernels()); g, v = graph(); print(float(v)); steps(50)\n"
        "g.replay(); print(float(v)); print(kernels())\n"
        "import os; print(os.environ.get('TEARDOWN_CUPTI'))\n",
        capfd,
    )
    assert ours == plain
    assert not [note for note in outcome.notes if note.startswith(cupti_detach.ATTACHED)]


def test_a_process_with_cuda_graphs_keeps_the_tracer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcome, ours, plain = recorded(tmp_path, "g, v = graph(); steps(120, g.replay); print(float(v))\n", capfd)
    assert ours == plain
    assert cupti_detach.ATTACHED + "CUDA graphs were captured" in outcome.notes


def test_blocks_in_a_row_see_the_same_work(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(
        HEAD
        + "import tracelens\n"
        + "for number in range(3):\n"
        + "    with tracelens.profile(f'out{number}', steps=4, monitor=False, quiet=True) as recording: steps(200)\n"
        + "    print(recording.complete, kernels())\n"
    )
    root = str(Path(cupti_detach.__file__).parents[2])
    code = f"import sys, runpy; sys.path.insert(0, {root!r}); runpy.run_path('train.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.split("\n")[:3]
    assert len(set(lines)) == 1, lines
    assert lines[0].startswith("True ")
    events = [json.loads((tmp_path / f"out{n}" / "run.json").read_text())["complete"] for n in range(3)]
    assert events == [True] * 3
