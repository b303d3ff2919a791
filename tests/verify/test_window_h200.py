"""What a recorded window says of a trial process, on real H200 loops whose calls can be counted in their source."""

from __future__ import annotations

import pytest

from tests.support.builders import Machine
from tests.support.places import SHARED
from tracelens.trace import chrome, timeline
from tracelens.verify.compare import window_statistics

TRACES = SHARED / "traces" / "h200"


@pytest.mark.parametrize(
    ("name", "syncs", "copies"),
    [
        ("mlp_base_ns", 2.0, 2.0),  # torch.cuda.synchronize() and .item(); two pageable .to(device)
        ("tf_base_ns", 2.0, 2.0),
        ("conv_base_ns", 2.0, 2.0),
        ("mlp_v23_ns", 0.25, 2.0),  # one drain in eight steps: an event synchronize and one read
    ],
)
def test_a_call_of_the_user_is_counted_once(name: str, syncs: float, copies: float) -> None:
    path = TRACES / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip("the shared traces are not part of the project")
    facts = window_statistics._facts(timeline.build(chrome.load(path)))
    assert facts["syncs_per_step"] == syncs
    assert facts["blocking_copies_per_step"] == copies


def test_waiting_for_results_and_for_copies_are_told_apart() -> None:
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            machine.copy("h2d", "pageable", copy_us=500, nbytes=8 << 20)
            machine.launch("gemm", kernel_us=300)
            machine.synchronize()
    facts = window_statistics._facts(timeline.build(machine.trace()))
    assert facts["syncs_per_step"] == 1.0
    assert facts["blocking_copies_per_step"] == 1.0
    assert facts["sync_wait_ns"] > 200_000
    assert facts["copy_wait_ns"] > 400_000
