"""A small training script and its changes, and verifying them: whole sessions or one process."""

import subprocess
import sys
import textwrap

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import ROOT
from tracelens.model import FilePatch, Patch
from tracelens.verify import request
from tracelens.verify.request import PatchedVersion, VerificationRequest
from tracelens.verify.supervisor import processes
from tracelens.verify.supervisor.session import Session
from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import TrialProcess

TRAIN = """\
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def main():
    total = 0.0
    for step in range(100_000):
        loss = net(torch.randn(8, 16)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        shown = loss.item()
        total += shown
        print(f"step {step} loss {shown:.6f} total {total:.6f} at {time.time():.4f}")
        time.sleep(0.004)
        opt.step()
main()
"""
LINE = "        shown = loss.item()\n"
READ = TRAIN[TRAIN.index(LINE) : TRAIN.index("        time.sleep")]


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


def script(project, body=TRAIN):
    path = project / "train.py"
    path.write_text(PRELUDE + textwrap.dedent(body))
    return path


def whole_script(project, body=TRAIN):
    """With all of torch: its profiler and its deterministic mode import its compiler."""
    path = project / "train.py"
    path.write_text("import os, sys, time, torch\n" + body)
    return path


def change(path, old, new, name="patched"):
    before = path.read_text()
    assert before.count(old) >= 1
    file = FilePatch(path, before.encode(), before.replace(old, new).encode())
    return PatchedVersion(Patch(path.parent, (file,), (), (), ""), name, interval=10)


def asked(path, **options):
    command = request.script_command(path.name)
    options = {"steps": 24, "budget_s": 1_000.0, **options}
    return VerificationRequest(command, path.parent, path.parent, **options)


def session(path, *changes):
    scratch = path.parent.parent / "scratch"
    scratch.mkdir()
    return Session(asked(path), changes, WorkingCopy(scratch, path.parent, path.parent))


def one_process(path, mode="timed", steps=24, words=None, **options):
    """Run the original once; returns its record and the working copy that it ran in."""
    copy = WorkingCopy(path.parent.parent / "scratch", path.parent, path.parent)
    copy.scratch.mkdir(exist_ok=True)
    command = request.script_command(*(words or (path.name,)))
    options = {"timeout_s": 60.0, **options}
    return processes.run(TrialProcess("original", mode, steps, 0, **options), command, copy, None), copy


def landlock():
    """Whether this kernel can keep a process from writing outside of given folders."""
    probe = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tracelens.verify.inside import sandbox; "
    code = probe + "sys.exit(0 if sandbox.ask_kernel(('/dev',)) else 1)"
    return sys.platform == "linux" and subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
