"""Run rows on every GPU of this machine at once, one worker per GPU, each with its share of the cores.

    python tests/accuracy/measure.py tuning --out OUT [--budget 480 --stop 540] [--again] [--small]

Rows whose JSON is in docs/data/accuracy already are left out, so it can be called again until all are there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.accuracy import pilot  # noqa: E402

KNOWN = HERE.parents[1] / "docs" / "data" / "accuracy"
ARCHIVE_BYTES = 14 << 20
"""Recordings are packed into archives of at most about this size."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="rows, loops, or: tuning, held-out, all; in this order")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no row is begun")
    parser.add_argument("--stop", type=float, help="seconds after which no process is started; rows may stay short")
    parser.add_argument("--placement", choices=("shared", "apart"), default="shared", help="see placement.py")
    parser.add_argument("--again", action="store_true", help="measure rows anew that are there already")
    parser.add_argument("--pilot", action="store_true", help="no rows: compare placements on tuning loops")
    parser.add_argument("--check", action="store_true", help="first see whether rows at once disturb each other")
    parser.add_argument("--oracle", action="store_true", help="record each patched version as well")
    parser.add_argument("--benchmarks", nargs="*", default=[], help="one per worker after its rows: pinning, streams …")
    parser.add_argument("--small", action="store_true", help="tiny sizes: try the harness on a CPU")
    parser.add_argument("--workers", type=int, help="default: one per GPU")
    options = parser.parse_args()
    began = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    workers = options.workers or _gpus()
    running = [subprocess.Popen(**_worker(number, workers, began, options)) for number in range(workers)]
    status = max(worker.wait() for worker in running)
    if options.pilot:
        print(pilot.summary(options.out), flush=True)
    _pack(options.out)
    print(f"{len(list(options.out.glob('rows/*.json')))} rows in {time.time() - began:.0f} s", flush=True)
    return status


def _worker(number: int, workers: int, began: float, options: argparse.Namespace) -> dict[str, Any]:
    """How to start one worker."""
    command = [sys.executable, "-W", "ignore", str(HERE / "worker.py"), *options.rows, "--out", str(options.out)]
    command += ["--known", str(KNOWN), "--until", str(began + options.budget), "--placement", options.placement]
    command += ["--number", str(number), "--workers", str(workers)]
    command += ["--stop", str(began + options.stop)] if options.stop else []
    for name in ("small", "oracle", "again", "pilot", "check"):
        command += [f"--{name}"] if getattr(options, name) else []
    if number < len(options.benchmarks):
        command += ["--benchmark", options.benchmarks[number]]
    return {"args": command, "env": {**os.environ, "CUDA_VISIBLE_DEVICES": str(number), "PYTHONUNBUFFERED": "1"}}


def _gpus() -> int:
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return max(1, listing.stdout.count("GPU "))


def _pack(out: Path) -> None:
    """Rows in one archive, recordings in several of limited size."""
    with tarfile.open(out / "rows.tar.gz", "w:gz") as archive:
        for name in ("rows", "failed"):
            if (out / name).exists():
                archive.add(out / name, name)
        for path in out.glob("*.json"):
            archive.add(path, path.name)
    for number, folders in enumerate(_shares(out / "runs")):
        with tarfile.open(out / f"runs{number}.tar", "w") as archive:
            for folder in folders:
                archive.add(folder, folder.name)


def _shares(runs: Path) -> list[list[Path]]:
    """The recordings, in order, in groups that fit into an archive."""
    shares: list[list[Path]] = []
    size = ARCHIVE_BYTES
    for folder in sorted(runs.glob("*")):
        own = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size + own > ARCHIVE_BYTES:
            shares.append([])
            size = 0
        shares[-1].append(folder)
        size += own
    return shares


if __name__ == "__main__":
    sys.exit(main())
