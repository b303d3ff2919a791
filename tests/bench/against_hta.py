"""`tracelens analyze` of a long trace against HTA and `import torch`: whole processes, wall time, CPU time, memory.

    python tests/bench/against_hta.py [--turns 3] [--times 10] [--json docs/data/against_hta.json]
    python tests/bench/against_hta.py --turns 1 --times 1       # half a minute, to see that it runs

Every process counts from its start to its end, imports included, with the processes that it starts; they take turns.
Memory of all processes together is sampled in a run of its own, in which memory that they share counts once.
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.commands import measured  # noqa: E402 - found from the root

SOURCE = ROOT.parent / "shared" / "traces" / "hta" / "v100_world2_multistream_5steps.json.gz"
HERE = Path(__file__).resolve().parent
ONCE, LONG = "analyze, the trace as it is", "analyze, the long trace"
HTA = "HTA 0.5.0, the long trace"
SAMPLE_S = 0.02
FASTER, LEAST_MEMORY, MOST_GROWTH = 20, 0.5, 1.1
"""What issue 18 asks for; growth is over that of the trace."""


def processes(folder: Path, times: int) -> tuple[dict[str, list[str]], int]:
    """The arguments of Python for each process, and the raw bytes of the long trace."""
    raw = {}
    for name, count in (("once", 1), ("long", times)):
        made = [sys.executable, str(HERE / "longer.py"), str(SOURCE), str(folder / f"{name}.json.gz"), str(count)]
        raw[name] = int(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
    once, long = (str(folder / f"{name}.json.gz") for name in ("once", "long"))
    return {
        "import torch": ["-c", "import torch"],
        ONCE: ["-m", "tracelens", "analyze", once],
        LONG: ["-m", "tracelens", "analyze", long],
        HTA: [str(HERE / "one.py"), "hta", long],
    }, raw["long"]


def together_mb(words: list[str]) -> float:
    """The most memory that a process and those that it started held at one time, by samples."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    child = os.posix_spawn(words[0], words, dict(os.environ), file_actions=null)
    most = 0
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        most = max(most, sum(map(_held_kb, _family(child))))
        time.sleep(SAMPLE_S)
    return round(most * 1024 / 1e6, 1)


def _family(process: int) -> list[int]:
    try:
        threads = Path(f"/proc/{process}/task").iterdir()
        children = [(thread / "children").read_text().split() for thread in threads]
    except OSError:  # it has ended
        return [process]
    return [process, *(one for named in children for child in named for one in _family(int(child)))]


def _held_kb(process: int) -> int:
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith("Pss:")), 0)


def table(rows: list[dict[str, Any]], together: dict[str, float]) -> str:
    """Medians of the times, the largest peak of one process, and that of all processes together."""
    lines = ["| process | wall time | CPU time | peak of the largest | of all |", "|---|---:|---:|---:|---:|"]
    for name in dict.fromkeys(row["process"] for row in rows):
        wall, cpu, peak = (_of(rows, name, key) for key in ("wall_s", "cpu_s", "peak_mb"))
        both = f"{together[name]:.0f} MB" if name in together else "-"
        lines.append(f"| {name} | {wall:.2f} s | {cpu:.2f} s | {peak:.0f} MB | {both} |")
    return "\n".join(lines)


def _of(rows: list[dict[str, Any]], name: str, key: str) -> float:
    own = [float(row[key]) for row in rows if row["process"] == name]
    return max(own) if key == "peak_mb" else statistics.median(own)


def verdicts(rows: list[dict[str, Any]], together: dict[str, float], raw_bytes: int, times: int) -> list[str]:
    """Each aim of issue 18 about this file with its number here."""
    wall, cpu = (_of(rows, HTA, key) / _of(rows, LONG, key) for key in ("wall_s", "cpu_s"))
    grown = _of(rows, LONG, "wall_s") / _of(rows, ONCE, "wall_s")
    memory = max(together[LONG], _of(rows, LONG, "peak_mb")) / (raw_bytes / 1e6)
    return [
        _verdict(f"times as fast as HTA by wall time, at least {FASTER}", wall, wall >= FASTER),
        _verdict(f"times as fast as HTA by CPU time, at least {FASTER}", cpu, cpu >= FASTER),
        _verdict(f"peak memory over the raw size, at most {LEAST_MEMORY}", memory, memory <= LEAST_MEMORY),
        _verdict(f"times the wall time for {times} times the trace", grown, grown <= MOST_GROWTH * times),
    ]


def _verdict(what: str, value: float, met: bool) -> str:
    return f"- {what}: **{value:.2f}**, {'met' if met else 'missed'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--times", type=int, default=10, help="how many times as long as the real trace of 54 MB")
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "data" / "against_hta.json")
    given = parser.parse_args()
    before, rows = round(os.getloadavg()[0], 1), []
    with tempfile.TemporaryDirectory(prefix="tracelens-bench-") as folder:
        named, raw_bytes = processes(Path(folder), given.times)
        for turn in range(given.turns):
            for name, words in named.items():
                row = {"process": name, "turn": turn, **measured([sys.executable, *words])}
                print(json.dumps(row), file=sys.stderr, flush=True)
                rows.append(row)
        together = {name: together_mb([sys.executable, *named[name]]) for name in (ONCE, LONG)}
    kept = {"cores": os.cpu_count(), "load_before": before, "load_after": round(os.getloadavg()[0], 1)}
    kept |= {"raw_bytes": raw_bytes, "times": given.times, "together_mb": together, "runs": rows}
    given.json.write_text(json.dumps(kept, indent=1) + "\n")
    print("\n".join([table(rows, together), "", *verdicts(rows, together, raw_bytes, given.times)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
