"""Verification of a real CUDA loop: events time it, waits are counted, a deferred read keeps every number."""

from dataclasses import replace

import pytest

from tracelens.model import FilePatch, Patch
from tracelens.verify import request, result
from tracelens.verify.policy import POLICY
from tracelens.verify.request import PatchedVersion, VerificationRequest
from tracelens.verify.supervisor import session as run
from tracelens.verify.supervisor import working_copy

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

BEFORE = """\
import torch
torch.manual_seed(1)
device = torch.device("cuda")
net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)]).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(100_000):
    x = torch.randn(256, 1024).to(device)
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    torch.cuda.synchronize()
    print(f"step {step} loss {loss.item():.9f}")
    opt.step()
"""
READ = BEFORE[BEFORE.index("    torch.cuda.synchronize") : BEFORE.index("    opt.step()")]
DEFERRED = """\
    pending.append((step, loss.detach().clone()))
    if len(pending) == 10:
        drain()
"""
AFTER = (
    BEFORE.replace(READ, DEFERRED)
    .replace(
        "for step in",
        """\
pending = []
def drain():
    values = torch.stack([value for _, value in pending]).tolist() if pending else []
    for (step, _), value in zip(pending, values):
        print(f"step {step} loss {value:.9f}")
    pending.clear()
try:
  for step in""",
    )
    .replace("\n    ", "\n      ")
    .replace("      values =", "    values =")
    .replace("      for (step, _)", "    for (step, _)")
    .replace("          print(f", "        print(f")
    .replace("      pending.clear", "    pending.clear")
    + "finally:\n  drain()\n"
)


def test_a_deferred_read_keeps_every_number_and_removes_waits_on_the_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "POLICY", replace(POLICY, most_pairs=3))
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    project.mkdir()
    scratch.mkdir()
    path = project / "train.py"
    path.write_text(BEFORE)
    patch = Patch(project, (FilePatch(path, BEFORE.encode(), AFTER.encode()),), (), (), "")
    asked = VerificationRequest(request.script_command("train.py"), project, project, steps=60)
    session = run.Session(
        asked, (PatchedVersion(patch, "event-interval"),), working_copy.WorkingCopy(scratch, project, project)
    )
    session.compare_numbers()
    session.record_windows()
    session.plan = replace(session.plan, rounds=3)
    session.compare_times()
    done = result.build_verification(session.measurements(session.versions[0], ()))
    assert done.numbers_equal is True, done.verdict
    assert done.details["times"]["clock"] == "cuda_event"
    before, after = done.details["windows"]["before"], done.details["windows"]["after"]
    assert (before["reason"], after["reason"]) == (None, None)
    assert before["steps"] >= 8
    assert before["syncs_per_step"] >= 2
    assert after["syncs_per_step"] < before["syncs_per_step"] - 1
    assert before["memory_of"] == "device"
    assert before["peak_memory_bytes"] > 12 * 4 * 1024 * 1024
    assert abs(after["memory_slope_bytes"]) < 1024
    assert done.details["environment"]["device"] != "cpu"
