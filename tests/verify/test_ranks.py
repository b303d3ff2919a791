"""A launch with torchrun: every rank is compared, in a working copy of its own launch."""

import sys
from pathlib import Path

import pytest

from tests.support.lean import PRELUDE
from tests.support.verifying import change
from tracelens.verify import request, result, trial_process
from tracelens.verify.compare import numbers, printed_output
from tracelens.verify.supervisor import session, working_copy

pytestmark = pytest.mark.programs

BODY = """\
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
net = torch.nn.Linear(8, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(40):
    loss = net(torch.randn(8, 8)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
    opt.step()
    scale = 1.0
    print(f"rank {rank} step {step} loss {loss.item():.6f}")
print("done", rank, os.getcwd())
dist.destroy_process_group()
"""
SEEN = '    print(f"rank'


def torchrun(words):
    """The command that was recorded, as a Run has it."""
    here = Path(sys.executable).parent / "torchrun"
    if not here.exists():
        pytest.skip("torchrun is not installed beside this Python")
    command = (str(here), "--standalone", "--nproc-per-node=2", *words)
    return trial_process.Command("command", command, sys.executable, {"OMP_NUM_THREADS": "1"})


def test_a_change_on_one_rank_of_two_is_found_and_named(project):
    path = project / "train.py"
    path.write_text(PRELUDE + BODY)
    second = change(path, SEEN, "    if rank == 1 and step == 20: net.weight.data += 1e-6\n" + SEEN, "second")
    scratch = project.parent / "scratch"
    scratch.mkdir()
    before = working_copy.snapshot((project,))
    asked = request.VerificationRequest(torchrun(("train.py",)), project, project, steps=30, budget_s=300.0)
    found = session.Session(asked, (second,), working_copy.WorkingCopy(scratch, project, project))
    found.originals = [found._run(session.ORIGINAL, None, "numbers", 30)]
    found.versions[0].record = found._attempt(found.versions[0], "numbers", 30)
    difference = numbers.tensor_difference(found.originals[0], found.versions[0].record)
    found.versions[0].difference = difference
    told = result.build_verification(found.measurements(found.versions[0], ()))
    compared = told.details["numbers"]["compared"]
    assert (compared["ranks"], compared["losses"], told.details["environment"]["processes"]) == (2, 60, 2)
    assert {line.split()[1] for line in printed_output.lines(found.originals[0].stdout)} == {"0", "1"}, "both are heard"
    assert told.outcome == "different numbers"
    assert difference.where == "rank 1, backward 22", "rank 0 differs too, one step later"
    assert working_copy.changed(before, working_copy.snapshot((project,))) == ()
