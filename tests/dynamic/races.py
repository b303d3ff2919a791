"""How often a missing `record_stream` is caught: by chance, and with freed GPU memory overwritten.

In: tests/dynamic/racy_prefetch.py, run many times. Out: races.json: per variant, how many runs of how many ended with
other numbers than the plain copy. The right prefetcher and the hidden race must never be called wrong.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import worker
from worker import Arm, Result

SCRIPT = Path(__file__).with_name("racy_prefetch.py")
RUNS, AT_ONCE = 10, 5
VARIANTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "plain copy": (("--plain",), False),
    "race": ((), False),
    "race, freed memory overwritten": ((), True),
    "race hidden by a read per step": (("--read",), False),
    "race hidden by a read per step, freed memory overwritten": (("--read",), True),
    "record_stream, freed memory overwritten": (("--record-stream",), True),
}


def run(scratch: Path, results: Path) -> dict[str, Any]:
    """All variants; the first run of the plain copy is the reference."""
    reference: Result | None = None
    counted: dict[str, Any] = {}
    for name, (flags, poison) in VARIANTS.items():
        found: list[Result] = []
        while len(found) < RUNS:
            arms = [_arm(scratch / f"race-{number}", flags, poison) for number in range(AT_ONCE)]
            found += worker.run(arms)
        reference = reference or found[0]
        if reference.record is None:
            raise RuntimeError(f"the plain copy ended with {reference.status}: {reference.stderr[-500:]}")
        seconds = sum(result.seconds for result in found) / len(found)
        wrong = sum(_numbers(result) != _numbers(reference) for result in found)
        counted[name] = {"runs": len(found), "other_numbers": wrong, "seconds": round(seconds, 1)}
        counted[name]["ended"] = sorted({result.status for result in found})
    device = reference.record["device"] if reference is not None and reference.record else None
    value = {"script": f"tests/dynamic/{SCRIPT.name}", "device": device, "variants": counted}
    results.mkdir(parents=True, exist_ok=True)
    (results / "races.json").write_text(json.dumps(value, indent=1) + "\n")
    return value


def _arm(folder: Path, flags: tuple[str, ...], poison: bool) -> Arm:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(SCRIPT, folder)
    return Arm(folder, SCRIPT.name, flags, "numbers", steps=1000, images=100, poison=poison)


def _numbers(result: Result) -> Any:
    if result.record is None:
        return result.stderr[-300:]
    return result.stdout, [entry["sha256"] for entry in result.record["state"]]
