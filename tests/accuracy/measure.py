"""Run rows on every GPU of this machine at once, one worker per GPU, each with its share of the cores.

    python tests/accuracy/measure.py tuning --out OUT [--budget 540] [--check] [--small]

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

HERE = Path(__file__).resolve().parent
KNOWN = HERE.parents[1] / "docs" / "data" / "accuracy"
ARCHIVE_BYTES = 14 << 20
"""Recordings are packed into archives of at most about this size."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", help="rows, loops, or: tuning, held-out, all")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no row is begun")
    parser.add_argument("--stop", type=float, help="seconds after which no process is started; rows may stay short")
    parser.add_argument("--quick", action="store_true", help="shorter stretches, three rounds and no more")
    parser.add_argument("--check", action="store_true", help="first see whether workers disturb each other")
    parser.add_argument("--oracle", action="store_true", help="record each patched version as well")
    parser.add_argument("--benchmarks", nargs="*", default=[], help="one per worker after its rows: pinning, streams …")
    parser.add_argument("--small", action="store_true", help="tiny sizes: try the harness on a CPU")
    parser.add_argument("--workers", type=int, help="default: one per GPU")
    options = parser.parse_args()
    began = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    workers = options.workers or _gpus()
    cores = (os.cpu_count() or 1) // workers
    running = []
    for number in range(workers):
        command = [sys.executable, "-W", "ignore", str(HERE / "worker.py"), *options.rows, "--out", str(options.out)]
        command += ["--known", str(KNOWN), "--until", str(began + options.budget)]
        command += ["--cores", f"{number * cores}-{(number + 1) * cores - 1}"]
        command += ["--stop", str(began + options.stop)] if options.stop else []
        command += ["--quick"] if options.quick else []
        command += ["--small"] if options.small else []
        command += ["--oracle"] if options.oracle else []
        if number < len(options.benchmarks):
            command += ["--benchmark", options.benchmarks[number]]
        command += ["--check", "other" if number else "first"] if options.check else []
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(number), "PYTHONUNBUFFERED": "1"}
        running.append(subprocess.Popen(command, env=environment))
    status = max(worker.wait() for worker in running)
    _pack(options.out)
    print(f"{len(list(options.out.glob('rows/*.json')))} rows in {time.time() - began:.0f} s", flush=True)
    return status


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
