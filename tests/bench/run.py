"""`make bench`: how long and in how much memory a trace is read, beside two other readers, on this machine, now.

    python tests/bench/run.py             # 1x, 3x, 10x and 30x of the 54 MB trace: some ten minutes, 10 GB of memory
    python tests/bench/run.py --quick     # 1x alone: half a minute

Builds the longer traces in a temporary folder (`longer.py`), measures each reader in a fresh process (`one.py`), the
readers in turn so that a slow minute of the machine hits all of them, prints a table, and with --keep writes it into
docs/performance.md and the raw results beside it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT.parent / "shared" / "traces" / "hta" / "v100_world2_multistream_5steps.json.gz"
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "docs" / "data" / "performance.json"
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
NAMES = {
    "tracelens": "load + timeline + all findings",
    "analyze": "the same + replay (`tracelens analyze`)",
    "json": "`json.loads` of the file alone",
    "hta": "HTA 0.5.0: parse + temporal + idle-time breakdown",
}
TIMEOUT_S = 1200


@dataclass(frozen=True, slots=True)
class Round:
    """How often each reader reads a trace of one length."""

    times: int
    readers: dict[str, int]


PLAN = (
    Round(1, {"tracelens": 7, "json": 5, "hta": 5, "analyze": 3}),
    Round(3, {"tracelens": 5, "json": 3, "hta": 2, "analyze": 2}),
    Round(10, {"tracelens": 5, "json": 3, "hta": 2, "analyze": 2}),
    Round(30, {"tracelens": 3}),  # the others need more memory than a small machine has
)


def measured(plan: tuple[Round, ...], folder: Path) -> list[dict[str, Any]]:
    """One row per process, in the order in which they ran."""
    rows = []
    for part in plan:
        path = folder / f"x{part.times}.json.gz"
        print(f"building the {part.times}x trace ...", file=sys.stderr, flush=True)
        raw = int(_output("longer.py", str(SOURCE), str(path), str(part.times)))
        for turn in range(max(part.readers.values())):
            for reader, count in part.readers.items():
                if turn < count:
                    row = {"times": part.times, "raw_bytes": raw, "reader": reader, **_one(reader, path)}
                    print(json.dumps(row), file=sys.stderr, flush=True)
                    rows.append(row)
        path.unlink()
    return rows


def _one(reader: str, path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(_output("one.py", reader, str(path)).splitlines()[-1])
    except subprocess.CalledProcessError as error:
        return {"failed": f"exit {error.returncode}: {(error.stderr.splitlines() or ['no message'])[-1]}"}
    return result


def _output(script: str, *arguments: str) -> str:
    """In a process of its own. This one stays small: a child's peak memory counts from its parent's."""
    command = [sys.executable, str(HERE / script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True, cwd=ROOT, env=environment
    )
    return done.stdout


def summary(rows: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, float]]:
    """Per length and reader: medians of the times, the largest of the peaks."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        if "failed" not in row:
            found.setdefault((row["times"], row["reader"]), []).append(row)
    return {
        key: {
            "raw_mb": same[0]["raw_bytes"] / 1e6,
            "wall_s": statistics.median(row["wall_s"] for row in same),
            "cpu_s": statistics.median(row["cpu_s"] for row in same),
            "peak_mb": max(row["peak_mb"] for row in same),
            "runs": len(same),
        }
        for key, same in found.items()
    }


def table(found: dict[tuple[int, str], dict[str, float]]) -> str:
    lines = [
        "| trace (raw text) | reader | time | CPU time | against ours | peak memory | of the raw size |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for (times, reader), row in found.items():
        ours = found.get((times, "tracelens"))
        ratio = f"{row['cpu_s'] / ours['cpu_s']:.1f} x" if ours else "-"
        lines.append(
            f"| {times} x ({row['raw_mb']:.0f} MB) | {NAMES[reader]} | {row['wall_s']:.2f} s | {row['cpu_s']:.2f} s "
            f"| {ratio} | {row['peak_mb']:.0f} MB | {row['peak_mb'] / row['raw_mb']:.2f} |"
        )
    return "\n".join(lines)


def targets(found: dict[tuple[int, str], dict[str, float]]) -> list[str]:
    """What issue 3 asks for, each with its number here: of CPU time, which other work on the machine changes least
    (every reader uses one core)."""
    lines = []
    for times in (1, 10):
        ours, parse, hta = (found.get((times, reader)) for reader in ("tracelens", "json", "hta"))
        if ours and hta:
            lines.append(
                _verdict(f"{times} x: times as fast as HTA, at least 12", hta["cpu_s"] / ours["cpu_s"], 12, True)
            )
        if ours and parse:
            lines.append(
                _verdict(f"{times} x: times as fast as json.loads, above 1", parse["cpu_s"] / ours["cpu_s"], 1, True)
            )
    long, short = found.get((10, "tracelens")), found.get((1, "tracelens"))
    if long and short:
        lines.append(_verdict("10 x: peak memory over raw size, at most 1", long["peak_mb"] / long["raw_mb"], 1, False))
        lines.append(
            _verdict("10 x against 1 x: times the time, at most 11", long["cpu_s"] / short["cpu_s"], 11, False)
        )
    return lines


def _verdict(what: str, value: float, bound: float, at_least: bool) -> str:
    met = value >= bound if at_least else value <= bound
    return f"- {what}: **{value:.2f}**, {'met' if met else 'missed'}"


def conditions() -> dict[str, Any]:
    versions = {
        name: importlib.metadata.version(name)
        for name in ("numpy", "pandas", "msgspec", "isal", "HolisticTraceAnalysis")
    }
    load = os.getloadavg()[0]
    return {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 1), **versions}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the trace as it is")
    parser.add_argument("--keep", action="store_true", help="write docs/performance.md and docs/data/performance.json")
    given = parser.parse_args()
    if not SOURCE.exists():
        print("the shared traces are not at hand: nothing to measure", file=sys.stderr)
        return 0
    now = conditions()
    with tempfile.TemporaryDirectory(prefix="tracelens-bench-") as folder:
        rows = measured(PLAN[:1] if given.quick else PLAN, Path(folder))
    found = summary(rows)
    text = "\n".join(
        [
            ", ".join(f"{key} {value}" for key, value in now.items()) + ".",
            "",
            table(found),
            "",
            *targets(found),
        ]
    )
    print(text)
    if given.keep:
        RESULTS.write_text(json.dumps({"conditions": now, "runs": rows}, indent=1) + "\n")
        page = PAGE.read_text()
        before, after = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
        PAGE.write_text(f"{before}\n\n{text}\n\n{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
