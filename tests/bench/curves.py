"""Where the cost of a command grows: with the steps, the launches per step, the ranks and the places to patch.

    python tests/bench/curves.py [--turns 2] [--json docs/data/curves.json] [--quick]

Each point is a whole command in a process of its own, on made input (`launches.py`; for patches a file of training
loops that each read a value per batch). Points of all curves take turns, so that a slow minute hits all of them. The
table has the least CPU time of the turns, and how often more than at the first point. `--quick`: two points a curve.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.commands import measured  # noqa: E402 - found from the root

STEPS, LAUNCHES, RANKS, LOOPS = (3, 6, 12, 24, 48), (300, 1_000, 3_000, 10_000, 30_000), (1, 2, 4, 8), (5, 10, 20, 40)
USUAL_STEPS, USUAL_LAUNCHES = 12, 1_000
LOOP = """
def train_{n}(model, loader, optimizer, criterion):
    total_{n} = 0.0
    for step, (x, y) in enumerate(loader):
        x, y = x.to("cuda"), y.to("cuda")
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total_{n} += loss.item()
        if step % 100 == 0:
            print("step", step, "loss", total_{n} / (step + 1))
    return total_{n}
"""


@dataclass(frozen=True)
class Point:
    """A command at one size."""

    curve: str
    size: int
    arguments: tuple[str, ...]


def points(folder: Path, most: int | None = None) -> Iterator[Point]:
    """The first so many points of all curves, with their input written below the folder."""
    for steps in STEPS[:most]:
        run = _made(folder / f"steps{steps}", steps, USUAL_LAUNCHES)
        yield Point("analyze, steps of 1,000 launches", steps, ("analyze", str(run)))
    for launches in LAUNCHES[:most]:
        run = _made(folder / f"launches{launches}", USUAL_STEPS, launches)
        yield Point("recommend, launches in each of 12 steps", launches, ("recommend", str(run)))
    (trace,) = _made(folder / "of_ranks", USUAL_STEPS, USUAL_LAUNCHES).rglob("*.json.gz")
    for ranks in RANKS[:most]:
        named = [folder / f"of{ranks}" / f"rank{rank}.pt.trace.json.gz" for rank in range(ranks)]
        for path in named:
            path.parent.mkdir(exist_ok=True)
            shutil.copy(trace, path)
        yield Point("analyze, ranks of 12 x 1,000 launches", ranks, ("analyze", *map(str, named)))
    for loops in LOOPS[:most]:
        script = folder / f"train_{loops}.py"
        script.write_text("import torch\n" + "".join(LOOP.format(n=n) for n in range(loops)), encoding="utf-8")
        yield Point("patch --every-place, loops in a file", loops, ("patch", str(script), "--every-place", "--dry-run"))


def _made(project: Path, steps: int, launches: int) -> Path:
    """In a process of its own: the peak of a child counts from that of its parent, so this one has to stay small."""
    command = [sys.executable, str(ROOT / "tests" / "bench" / "launches.py"), str(project), str(steps), str(launches)]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def table(rows: list[dict[str, object]]) -> str:
    """One row per point."""
    lines = ["| command | size | CPU time | of the first | peak |", "|---|---:|---:|---:|---:|"]
    first: dict[str, tuple[int, float]] = {}
    for curve, size in dict.fromkeys((str(row["curve"]), int(str(row["size"]))) for row in rows):
        own = [row for row in rows if (row["curve"], row["size"]) == (curve, size)]
        cpu, peak = min(float(str(row["cpu_s"])) for row in own), max(float(str(row["peak_mb"])) for row in own)
        begun = first.setdefault(curve, (size, cpu))
        grown = f"{size / begun[0]:.0f} x the size: {cpu / begun[1]:.1f} x"
        lines.append(f"| {curve} | {size:,} | {cpu:.2f} s | {grown} | {peak:.0f} MB |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="the first two points of each curve")
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="tracelens-curves-") as folder:
        asked = list(points(Path(folder), 2 if given.quick else None))
        for turn in range(given.turns):
            for point in asked:
                command = [sys.executable, "-m", "tracelens", *point.arguments]
                rows.append({"curve": point.curve, "size": point.size, "turn": turn, **measured(command)})
    if given.json:
        load = round(os.getloadavg()[0], 1)
        given.json.write_text(json.dumps({"cores": os.cpu_count(), "load_after": load, "runs": rows}, indent=1) + "\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
