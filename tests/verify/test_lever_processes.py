"""A trial of levers with real processes on the CPU: two levers and the original, a few steps each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.verifying import script
from tracelens.levers.line_edit import place, without_call
from tracelens.model import FilePatch, Patch, Toggle
from tracelens.verify.lever_trial import LEVER_POLICY, LeverRequest, LeverTrial
from tracelens.verify.request import script_command
from tracelens.verify.supervisor import lever_session, working_copy

pytestmark = pytest.mark.programs

TRAIN = """\
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Linear(16, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100_000):
    loss = net(torch.randn(8, 16)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    time.sleep(0.012)
    if loss.dtype == torch.bfloat16:
        raise TypeError("bfloat16 cannot be printed here")
"""


def test_a_slow_line_costs_what_it_costs_and_a_crash_is_a_row(project, monkeypatch):
    monkeypatch.setattr(lever_session, "LEVER_POLICY", replace(LEVER_POLICY, rounds=2))
    path = script(project, TRAIN)
    text = path.read_text()
    line = 1 + text[: text.index("time.sleep")].count("\n")
    changed = without_call(text, place(f"train.py:{line}"))
    patch = Patch(project, (FilePatch(path, text.encode(), changed.encode()),), (), (), "")
    slow = LeverTrial(f"line=train.py:{line}", patch=patch)
    cast = LeverTrial("bf16", (Toggle("autocast", "", "bfloat16"),))
    told: list[str] = []
    request = LeverRequest(
        script_command(path.name), project, project, 1_000.0, step_ns=500_000_000, progress=told.append
    )
    before = working_copy.snapshot((project,))
    kept = []
    result = lever_session.try_levers(request, [slow, cast], kept.append)
    without, failed = result.levers
    assert (without.standing, without.numbers) == ("measured", "same")
    assert all(lever < original / 2 for original, lever in without.pairs)
    assert failed.standing == "failed"
    assert "TypeError: bfloat16 cannot be printed here" in str(failed.reason)
    assert result.sources == ("train.py",)
    assert [len(one.levers) for one in kept] == [2] * len(kept)
    assert told[0].startswith("original, first run  (at most 17 min left)")
    assert working_copy.changed(before, working_copy.snapshot((project,))) == ()
