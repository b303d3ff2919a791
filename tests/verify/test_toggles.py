"""Levers switched on in real processes on the CPU: what is on, what was on already, and what cannot be."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.verifying import one_process, script
from tracelens.model import Toggle
from tracelens.verify.lever_trial import LeverTrial
from tracelens.verify.supervisor import lever_results

pytestmark = pytest.mark.programs

LOOP = """\

torch.set_num_threads(1)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        return torch.full((3, 4, 4), index / 4000)
class Loader(torch.utils.data.DataLoader):
    def __init__(self, data):
        super().__init__(data, 4)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.linear = torch.nn.Conv2d(3, 2, 3), torch.nn.Linear(8, 1)
    def forward(self, x):
        y = self.convolution(x)
        seen.add((x.shape[0], x.is_contiguous(memory_format=torch.channels_last), y.dtype))
        return self.linear(y.flatten(1))
seen = set()
torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loader = Loader(Data())
for batch in loader:
    opt.zero_grad(set_to_none=False)
    loss = net(batch).float().pow(2).mean()
    loss.backward()
    gradients = {parameter.grad.dtype for parameter in net.parameters()}
    print(sorted(map(str, seen)), loader.num_workers, opt.defaults.get("foreach"), gradients, opt.defaults["lr"])
    opt.step()
"""


def ran(project, *toggles, body=LOOP, steps=4):
    """The record of one process with these toggles, and by kind and name what became of each."""
    path = script(project, body)
    record, _ = one_process(path, mode="numbers", steps=steps, toggles=toggles)
    return record, {(t["kind"], t["name"]): (t["state"], t["detail"]) for t in record.ranks[0]["toggles"]}


def test_arguments_of_any_loader_and_optimizer_are_changed(project):
    record, became = ran(
        project,
        Toggle("batch", "", "2x"),
        Toggle("loader-argument", "prefetch_factor", 4),
        Toggle("loader-argument", "pin_memory", True),
        Toggle("optimizer-argument", "foreach", True),
        Toggle("zero-grad", "", True),
        Toggle("flag", "anomaly-detection", False),
        Toggle("channels-last"),
    )
    assert became["batch", ""] == ("applied", "8 samples instead of 4")
    assert became["loader-argument", "prefetch_factor"] == ("refused", "the DataLoader has no workers")
    assert became["loader-argument", "pin_memory"] == ("refused", "there is no GPU")
    assert became["optimizer-argument", "foreach"] == ("applied", "SGD")
    assert became["zero-grad", ""][0] == "applied"
    assert became["flag", "anomaly-detection"] == ("already", "it is False already")
    assert became["channels-last", ""] == ("applied", "Net")
    last = record.stdout.splitlines()[-1]
    assert "(8, True, torch.float32)" in last
    assert "True {torch.float32} 0.1" in last


def test_autocast_covers_forward_and_loss_and_leaves_weights_and_gradients_alone(project):
    record, became = ran(project, Toggle("autocast", "", "bfloat16"))
    assert became["autocast", ""] == ("applied", "cpu, bfloat16")
    assert "torch.bfloat16" in record.stdout
    assert "{torch.float32}" in record.stdout.splitlines()[-1]
    plain, _ = ran(project)
    losses = [[loss["first"][0] for loss in run.ranks[0]["losses"]] for run in (record, plain)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.05), (
        "weights that were cast once and kept would stop the descent"
    )


def test_a_loop_with_its_own_autocast_has_the_lever_already(project):
    own = LOOP.replace(
        "    loss = net(batch)", "    with torch.autocast('cpu', dtype=torch.bfloat16):\n        loss = net(batch)"
    )
    record, became = ran(project, Toggle("autocast", "", "bfloat16"), body=own)
    assert became["autocast", ""] == ("already", "the script has an autocast of its own (torch.bfloat16)")
    assert lever_results.standing(LeverTrial("bf16"), record)[0] == "already"


NO_LOADER = """\
weight = torch.ones(4, requires_grad=True)
for step in range(1000):
    loss = (weight * step).sum()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
"""


def test_a_loop_without_loader_module_or_optimizer_says_so(project):
    toggles = (
        Toggle("loader-argument", "num_workers", 2),
        Toggle("compile", "", "default"),
        Toggle("optimizer-argument", "fused", True),
        Toggle("flag", "matmul-precision", "high"),
    )
    record, became = ran(project, *toggles, body=NO_LOADER)
    assert {name: state for name, (state, _) in became.items()} == {
        ("loader-argument", "num_workers"): "unused",
        ("compile", ""): "unused",
        ("optimizer-argument", "fused"): "unused",
        ("flag", "matmul-precision"): "applied",
    }
    trial = LeverTrial("workers=2", toggles[:1])
    assert lever_results.standing(trial, record) == ("unused", "no DataLoader was iterated over")


WORKERS = """\
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(torch.ones(400, 4))
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(Stream(), 4):
    opt.zero_grad()
    net(batch).sum().backward()
    opt.step()
"""


def test_workers_are_not_given_to_a_stream_that_each_of_them_would_repeat(project):
    _, became = ran(project, Toggle("loader-argument", "num_workers", 2), body=WORKERS)
    state, reason = became["loader-argument", "num_workers"]
    assert (state, reason) == ("refused", "an IterableDataset decides by itself what each worker yields")


def test_workers_of_a_loader_class_of_the_project_s_own_give_the_same_numbers():
    with tempfile.TemporaryDirectory() as folder:  # workers pass tensors through sockets, whose names must be short
        project = Path(folder) / "project"
        project.mkdir()
        path = script(project, LOOP)
        plain, _ = one_process(path, mode="numbers", steps=4)
        toggle = Toggle("loader-argument", "num_workers", 1)
        with_workers, _ = one_process(path, mode="numbers", steps=4, toggles=(toggle,))
    assert with_workers.ranks[0]["toggles"][0]["state"] == "applied"
    assert [x["sha256"] for x in plain.ranks[0]["losses"]] == [x["sha256"] for x in with_workers.ranks[0]["losses"]]


COMPILED = """\
import torch
from tracelens.verify.inside.toggles.modules import compile_counts, compile_in_place

class Own(torch.nn.Module):
    def forward(self, x):
        return x.sin().cos()

for module in (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.nn.Linear(4, 4), Own()):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    batch = torch.ones(2, 4)
    before = module(batch)
    compile_in_place(module, backend="eager")
    print(type(module).__name__, torch.equal(module(batch), before), compile_counts()["graphs"])
"""


def test_compiling_makes_graphs_of_torch_s_own_modules_too():
    # In a process of its own, as in a trial: what other tests left in torch decides what its compiler passes over.
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Sequential True 1", "Linear True 1", "Own True 1"], done.stderr


def test_a_lever_that_compiles_nothing_is_not_said_to_be_measured(project):
    record, _ = ran(project, Toggle("flag", "matmul-precision", "high"))
    rank = {**record.ranks[0], "toggles": [{"kind": "compile", "name": "", "state": "applied", "detail": "Net"}]}
    none = replace(record, ranks=({**rank, "compiled": {"graphs": 0, "breaks": 0}},))
    some = replace(record, ranks=({**rank, "compiled": {"graphs": 2, "breaks": 0}},))
    said = "torch.compile made no graph of the modules that the loop calls"
    assert lever_results.standing(LeverTrial("compile"), none) == ("unused", said)
    assert lever_results.standing(LeverTrial("compile"), some) == ("measured", None)
