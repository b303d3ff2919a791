"""Do rows that run at once disturb each other? Two tuning loops alone on the machine, then on all workers at once.

In: a worker. Out: `disturbance-N.json`. The first worker times them alone while the others wait.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.accuracy import rows as listed
from tests.accuracy.rounds import Row, Setting
from tests.accuracy.stats import median

LOOPS = (("mlp-w0", 2500), ("large_images-b16", 12000))
"""With their step in µs, roughly."""


def measured(number: int, setting: Setting) -> None:
    """Time both loops with this worker."""
    gate, work = setting.out / "alone-done", setting.out / "work"
    found = {}
    if number == 0:
        found["alone"] = _timed(work / "alone-0", setting)
        gate.touch()
    while not gate.exists():
        time.sleep(0.05)
    found["together"] = _timed(work / f"together-{number}", setting)
    (setting.out / f"disturbance-{number}.json").write_text(json.dumps(found), encoding="utf-8")
    print(f"disturbance: {found}", flush=True)


def _timed(folder: Path, setting: Setting) -> dict[str, float]:
    found = {}
    for name, step_us in LOOPS:
        one = Row(next(row for row in listed.ROWS if row.name == name), folder / name, setting)
        one.step_us = step_us
        one.run("base")
        found[name] = median(one.arms[0]["block_us"])
    return found
