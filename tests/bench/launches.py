"""A Run folder of many launches: 12 recorded steps of 10,000 launches, each with a synchronize and a read.

    python tests/bench/launches.py PROJECT [STEPS LAUNCHES]     # prints the Run folder, for: tracelens recommend

PROJECT also gets the training script, so that `recommend` makes its patches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support import run_cases

STEPS, LAUNCHES = 12, 10_000
STEP_US = 51
"""Per launch: a kernel of 50 µs and the gap to the next one, which is longer than the host needs for a launch."""


def write(project: Path, steps: int = STEPS, launches: int = LAUNCHES) -> Path:
    """The Run folder below the project, with an unprofiled step time, so that the profiler's cost has to be fitted."""
    project.mkdir(parents=True, exist_ok=True)
    unprofiled = STEP_US * launches * 1000
    rank: dict[str, Any] = {
        "rank": 0,
        "trace": "rank0/made.pt.trace.json.gz",
        "clock": {"unprofiled_ns": [unprofiled] * 20},
        "loaders": [{"num_workers": 2, "pin_memory": True}],
    }
    return run_cases.placed(
        project, run_cases.SCRIPT, lambda path: run_cases.trace(path, steps, launches), ranks=[rank]
    )


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), *map(int, sys.argv[2:])))
