"""Whole commands, as a user types them: CPU time, wall time and peak memory of the process, imports included.

    python tests/bench/commands.py [--turns 3] [--json OUT] [--trace NAME=FILE]… [--with NAME=PYTHON]…

The sample Runs, a made Run of 12 steps of 10,000 launches (`launches.py`) and the traces given, in turns, so that a
slow minute of the machine hits all of them; beside `import torch`, whose time is the measure of what a start may cost.
`--with` names the interpreter of another version's environment, which runs the same commands in the same turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(path.parent for path in ROOT.glob("sample_traces/*/run/run.json"))
HERE = "here"


def commands(traces: dict[str, Path], many: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of Python for each command."""
    yield "import torch", ["-c", "import torch"]
    for run in SAMPLES:
        for command in ("analyze", "recommend"):
            yield f"{command} {run.parent.name}", ["-m", "tracelens", command, str(run)]
    yield "recommend 12 x 10,000 launches", ["-m", "tracelens", "recommend", str(many)]
    for name, path in traces.items():
        yield f"analyze {name}", ["-m", "tracelens", "analyze", str(path)]


def measured(words: Sequence[str]) -> dict[str, float]:
    """One process from its start to its end."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    child = os.posix_spawn(words[0], words, environment, file_actions=null)
    _, status, used = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"failed: {' '.join(words)}")
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "wall_s": round(time.perf_counter() - began, 3),
        "peak_mb": round(used.ru_maxrss * 1024 / 1e6, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--trace", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME=PYTHON")
    given = parser.parse_args()
    traces = {name: Path(file).resolve() for name, file in (pair.split("=", 1) for pair in given.trace)}
    pythons = {HERE: sys.executable, **dict(pair.split("=", 1) for pair in given.others)}
    rows = []
    with tempfile.TemporaryDirectory(prefix="tracelens-bench-") as folder:
        os.chdir(folder)  # another version is imported from its own environment, not from here
        # In a process of its own: the peak of a child counts from that of its parent, so this one has to stay small.
        made = [sys.executable, str(ROOT / "tests" / "bench" / "launches.py"), str(Path(folder) / "many")]
        many = Path(subprocess.run(made, capture_output=True, text=True, check=True).stdout.strip())
        for turn in range(given.turns):
            for name, arguments in commands(traces, many):
                for version, python in pythons.items():
                    rows.append({"command": name, "version": version, "turn": turn, **measured([python, *arguments])})
    if given.json:
        load = round(os.getloadavg()[0], 1)
        given.json.write_text(json.dumps({"cores": os.cpu_count(), "load_after": load, "runs": rows}, indent=1) + "\n")
    print(table(rows, list(pythons)))
    return 0


def table(rows: Sequence[dict[str, object]], versions: Sequence[str]) -> str:
    """The least CPU time of each command, which other work disturbs least, with the largest peak of memory."""
    lines = ["| command | " + " | ".join(f"{name}: CPU time | peak" for name in versions) + " |"]
    lines.append("|---|" + "---:|---:|" * len(versions))
    for command in dict.fromkeys(str(row["command"]) for row in rows):
        cells = []
        for version in versions:
            own = [row for row in rows if row["command"] == command and row["version"] == version]
            cpu, peak = min(float(str(row["cpu_s"])) for row in own), max(float(str(row["peak_mb"])) for row in own)
            middle = statistics.median(float(str(row["cpu_s"])) for row in own)
            cells.append(f"{cpu:.2f} s (median {middle:.2f}) | {peak:.0f} MB")
        lines.append(f"| {command} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
