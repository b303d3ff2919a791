"""Are the owners of a step right? Loops with one planted cost each, recorded and analyzed like any other script.

    python tests/owners/known.py -o OUT.json [--python PYTHON] [--only NAME,…]

Per plant: the largest owner beside the loop's own optimizer and backward pass, its line, and its time against stamps of
the very same steps. PYTHON (default: this one) runs the scripts; it needs torch. With a GPU: `twins.py`.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tracelens import pipeline  # noqa: E402
from tracelens.model import Diagnosis, Owner  # noqa: E402

SCRIPT = Path(__file__).with_name("plants.py")
STEPS = 200
KINDS = {
    **dict.fromkeys(("item", "transform", "collate", "workers"), "dataloader"),
    "optimizer": "optimizer",
    "backward": "backward",
}
"""Of the plants that are not host lines."""
OWN_WORK = ("unknown", "optimizer", "backward")
"""What these loops do anyway; how long it takes depends on who else uses the machine."""
NEAR_SHARE, NEAR_NS = 0.10, 200_000


@dataclass(frozen=True)
class Judged:
    """One plant. Times are ms per step; `owned` is what the owner with the right kind and line holds."""

    plant: str
    kind: str
    line: int
    named_kind: str
    named_line: int | None
    callee: str | None
    right: bool
    taken: float
    owned: float
    near: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(planted_lines())
    rows = []
    for plant in wanted:
        rows.append(judge(plant, options.python))
        print(_shown(rows[-1]), flush=True)
    right, near = (sum(getattr(row, key) for row in rows) for key in ("right", "near"))
    print(f"{right} of {len(rows)} owners right, {near} within {NEAR_SHARE:.0%} or {NEAR_NS / 1e6:g} ms")
    options.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


def planted_lines() -> dict[str, int]:
    """Line of each plant."""
    found = {}
    for number, text in enumerate(SCRIPT.read_text().splitlines(), 1):
        if match := re.search(r"# plant: (\w+)$", text):
            found[match[1]] = number
    return {**found, "workers": found["item"]}


def judge(plant: str, python: str) -> Judged:
    """Record one plant and hold its owners against the stamps."""
    kind, line = KINDS.get(plant, "host_line"), planted_lines()[plant]
    with tempfile.TemporaryDirectory() as folder:
        diagnosis, taken = recorded(plant, python, Path(folder))
    assert diagnosis.owners is not None
    rare = diagnosis.owners.of_slow_steps  # what comes now and then is told of the mean step
    owners = rare or diagnosis.owners.owners
    mine = [owner for owner in owners if owner.kind == kind and at(owner, line)]
    named = next(owner for owner in owners if kind == owner.kind or owner.kind not in OWN_WORK)
    owned = sum((owner.recoverable_ns or 0) if rare else owner.owned_ns for owner in mine)
    if plant == "workers":  # the line runs in another process, and the main one waits for it
        owned, right = named.owned_ns, named.kind == kind
    else:
        right = named in mine
    near = plant == "workers" or abs(owned - taken) <= max(NEAR_SHARE * taken, NEAR_NS)
    first = named.locations[0].line if named.locations else None
    return Judged(plant, kind, line, named.kind, first, named.callee, right, taken / 1e6, owned / 1e6, near)


def at(owner: Owner, line: int) -> bool:
    """Whether the line is the owner's, or led to it."""
    return any(location.line == line for location in owner.locations)


def recorded(plant: str, python: str, folder: Path) -> tuple[Diagnosis, float]:
    """The analysis, and what the plant took per clean step; where it comes now and then, per step of all."""
    command = [sys.executable, "-m", "tracelens", "profile", "-o", str(folder / "run"), "--"]
    command += [python, str(SCRIPT), plant, str(STEPS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    taken: list[int] = json.loads(done.stdout.splitlines()[-1])
    diagnosis = pipeline.diagnose(pipeline.open_inputs((folder / "run",)))
    if diagnosis.owners is not None and diagnosis.owners.of_slow_steps:
        return diagnosis, statistics.fmean(taken)
    steps = diagnosis.timeline.steps()
    numbers = [int(number) for number in steps["number"][steps["kept"]]]
    return diagnosis, statistics.fmean(taken[number - 1] for number in numbers)


def _shown(row: Judged) -> str:
    said = f"{row.named_kind} at line {row.named_line} ({row.callee})"
    verdict = "right" if row.right else "WRONG"
    return f"{row.plant:12s} {verdict}  took {row.taken:7.2f} ms, owned {row.owned:7.2f} ms  {said}"


if __name__ == "__main__":
    raise SystemExit(main())
