"""Whole commands, as a user types them: CPU time, wall time and peak memory of the process, imports included.

    python tests/bench/commands.py [--only samples|many] [--turns 3] [--json OUT] [--trace NAME=FILE]…
                                   [--with NAME=PYTHON]…

The sample Runs, a made Run of 12 steps of 10,000 launches (`launches.py`) and the traces given, in turns, so that a
slow minute of the machine hits all of them; beside `import torch`, whose time is the measure of what a start may cost:
`import torch` of the same turn is what each time is divided by. `--with` names the interpreter of another version's
environment, which runs the same commands in the same turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(path.parent for path in ROOT.glob("sample_traces/*/run/run.json"))
HERE = "here"


TORCH, MANY = "import torch", "recommend 12 x 10,000 launches"
MOST_OF_TORCH = {"analyze": 0.5, "recommend": 0.8}
MOST_S = 5.0
"""What issue 18 asks for: wall time of a command on a sample over that of `import torch`, and of `MANY`."""


def commands(traces: dict[str, Path], many: Path | None, samples: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of Python for each command."""
    yield TORCH, ["-c", "import torch"]
    for run in samples:
        for command in MOST_OF_TORCH:
            yield f"{command} {run.parent.name}", ["-m", "tracelens", command, str(run)]
    if many is not None:
        yield MANY, ["-m", "tracelens", "recommend", str(many)]
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
    parser.add_argument("--only", choices=("samples", "many"), help="the sample Runs, or the Run of many launches")
    parser.add_argument("--trace", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="NAME=PYTHON")
    given = parser.parse_args()
    traces = {name: Path(file).resolve() for name, file in (pair.split("=", 1) for pair in given.trace)}
    pythons = {HERE: sys.executable, **dict(pair.split("=", 1) for pair in given.others)}
    rows: list[dict[str, Any]] = []
    json_file, before = given.json and given.json.resolve(), round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory(prefix="tracelens-bench-") as folder:
        os.chdir(folder)  # another version is imported from its own environment, not from here
        many = None if given.only == "samples" else _many(Path(folder))
        samples = [] if given.only == "many" else _copied(Path(folder))
        for turn in range(given.turns):
            for name, arguments in commands(traces, many, samples):
                for version, python in pythons.items():
                    row = {"command": name, "version": version, "turn": turn, **measured([python, *arguments])}
                    rows.append({**row, "trace": name.partition(" ")[2] in traces})
    if json_file:
        kept = {"cores": os.cpu_count(), "load_before": before, "load_after": round(os.getloadavg()[0], 1)}
        json_file.write_text(json.dumps({**kept, "runs": rows}, indent=1) + "\n")
    print("\n".join([table(rows, list(pythons)), "", *verdicts(rows)]))
    return 0


def _many(folder: Path) -> Path:
    """In a process of its own: the peak of a child counts from that of its parent, so this one has to stay small."""
    made = [sys.executable, str(ROOT / "tests" / "bench" / "launches.py"), str(folder / "many")]
    return Path(subprocess.run(made, capture_output=True, text=True, check=True).stdout.strip())


def _copied(folder: Path) -> list[Path]:
    """Copies of the samples: a command writes its answer into the Run."""
    return [Path(shutil.copytree(run.parent, folder / run.parent.name)) / "run" for run in SAMPLES]


def table(rows: Sequence[dict[str, Any]], versions: Sequence[str]) -> str:
    """Per version: median of the times, each also over `import torch` of the same turn, and the largest peak."""
    heads = " | ".join(f"{name}: wall | of torch | CPU | of torch | peak" for name in versions)
    lines = [f"| command | {heads} |", "|---|" + "---:|" * 5 * len(versions)]
    for command in dict.fromkeys(str(row["command"]) for row in rows):
        cells = []
        for version in versions:
            own = [row for row in rows if row["command"] == command and row["version"] == version]
            for key in ("wall_s", "cpu_s"):
                cells += [f"{statistics.median(row[key] for row in own):.2f} s", f"{_of_torch(rows, own, key):.2f}"]
            cells.append(f"{max(row['peak_mb'] for row in own):.0f} MB")
        lines.append(f"| {command} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_torch(rows: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]], key: str) -> float:
    torch = {(row["version"], row["turn"]): row[key] for row in rows if row["command"] == TORCH}
    return statistics.median(row[key] / torch[row["version"], row["turn"]] for row in own)


def verdicts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each aim of issue 18 about these commands with its number here, of the version at hand."""
    ours = [row for row in rows if row["version"] == HERE]
    lines = []
    for command in dict.fromkeys(str(row["command"]) for row in ours):
        own = [row for row in ours if row["command"] == command]
        kind, sample = command.split()[0], command not in (TORCH, MANY) and not own[0].get("trace")
        if sample and kind in MOST_OF_TORCH:
            lines.append(
                _verdict(f"{command} over import torch, wall", _of_torch(ours, own, "wall_s"), MOST_OF_TORCH[kind])
            )
        elif command == MANY:
            lines.append(_verdict(f"{command}, wall seconds", statistics.median(row["wall_s"] for row in own), MOST_S))
    return lines


def _verdict(what: str, value: float, most: float) -> str:
    return f"- {what}, at most {most:g}: **{value:.2f}**, {'met' if value <= most else 'missed'}"


if __name__ == "__main__":
    sys.exit(main())
