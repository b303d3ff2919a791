"""The calls of a Timeline as columns: every one keeps the name of what it launches."""

from __future__ import annotations

import numpy as np

from tests.support.builders import Machine
from tests.support.replaying import timeline_and_stalls
from tracelens.replay.calibration import Calibration
from tracelens.replay.call_columns import call_columns
from tracelens.replay.call_timings import measure_calls


def test_each_kernel_keeps_its_name_however_many_there_are() -> None:
    """126 names fit in codes of one byte, but not behind the names of the calls."""
    names = [f"kernel {number}" for number in range(126)]

    def body(machine: Machine) -> None:
        for name in names:
            machine.launch(name, 10)
        machine.synchronize()
        machine.stream_synchronize()

    picture, _ = timeline_and_stalls(body, steps=3)
    columns = call_columns(picture, measure_calls(picture, Calibration()))
    assert [columns.call(int(at)).op for at in np.flatnonzero(columns.launched)] == names * 3
