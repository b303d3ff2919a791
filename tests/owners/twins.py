"""Are owners, their lines and what they would give back right on a GPU? Planted loops against their hand-mended twins.

    python tests/owners/twins.py -o OUT [--rounds 3] [--only PLANT/SIZE,…] [--budget 500]

Per plant and size: the loop is recorded and analyzed; then it and its twin are timed in fresh processes in turn. On
several GPUs rows run side by side, one per GPU. Rows that are in OUT already are left out, so that it can be called
again. Without a GPU: `known.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("gpu_plants.py")
SIZES = ("small", "large")
STEPS = {"small": 300, "large": 120}
KINDS: dict[str, tuple[str, ...]] = {
    "collect": ("host_line", "allocator"),
    "cache": ("allocator", "host_line"),
    "json": ("host_line",),
    "tokens": ("host_line",),
    "print": ("host_line", "wait"),
    "average": ("host_line", "launch"),
    "norms": ("wait",),
    "sync": ("wait",),
    "mask": ("wait",),
    "copies": ("copy",),
    "loader": ("dataloader",),
    "workers": ("dataloader",),
    "optimizer": ("optimizer",),
    "backward": ("backward",),
    "launches": ("launch",),
    "healthy": ("gpu",),
}
"""Which kinds are right; `launches` and `healthy` have no twin: nothing is planted."""
NEAR_SHARE = 0.15
NO_TWIN = ("launches", "healthy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no row is begun")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = options.only.split(",") if options.only else [f"{plant}/{size}" for plant in KINDS for size in SIZES]
    rows = [row for row in rows if not _file(options.out, row).exists()]
    free: SimpleQueue[int] = SimpleQueue()
    gpus = _gpus()
    for gpu in range(gpus):
        free.put(gpu)
    until = time.monotonic() + options.budget

    def one(row: str) -> None:
        gpu = free.get()
        try:
            if time.monotonic() < until:
                _file(options.out, row).write_text(json.dumps(measure(row, gpu, options), indent=1) + "\n")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            said = getattr(error, "stderr", "") or ""
            print(f"{row}: {error} {said[-800:]}", flush=True)
        finally:
            free.put(gpu)

    with ThreadPoolExecutor(gpus) as pool:
        list(pool.map(one, rows))
    for path in sorted(options.out.glob("row-*.json")):
        print(shown(json.loads(path.read_text())))
    return 0


def measure(row: str, gpu: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row: what the analysis says, and what mending really gives."""
    plant, size = row.split("/")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu), "PYTHONPATH": str(ROOT)}
    analysis = _analysis(plant, size, environment, options.out / f"run-{plant}-{size}")
    plain, mended = [], []
    for _ in range(0 if plant in NO_TWIN else options.rounds):
        plain.append(_timed(plant, size, "plain", environment))
        mended.append(_timed(plant, size, "mended", environment))
    owners = analysis["owners"]
    right = [owner for owner in owners if owner["kind"] in KINDS[plant] and _at(owner, plant)]
    largest = owners[0]
    gain = statistics.median(plain) - statistics.median(mended) if plain else None
    return {
        "plant": plant,
        "size": size,
        "lines": planted_lines().get(plant, []),
        "plain_us": plain,
        "mended_us": mended,
        "gain_us": gain,
        "found": bool(right),
        "largest": largest,
        "largest_is_right": largest in right,
        "owned_us": sum(owner["us_per_step"] for owner in right),
        "recoverable_us": [owner["recoverable_us_per_step"] for owner in right],
        "recoverable_is_right": None if gain is None else any(_near(owner, gain) for owner in right),
        "verdict": analysis["verdict"],
        "steps": analysis["steps"],
        "gpu_busy_share": analysis["gpu_busy_share"],
        "owners": owners[:10],
    }


def planted_lines() -> dict[str, list[int]]:
    """Lines of each plant."""
    found: dict[str, list[int]] = {}
    for number, text in enumerate(SCRIPT.read_text().splitlines(), 1):
        if match := re.search(r"# plant: (\w+)$", text):
            found.setdefault(match[1], []).append(number)
    return {**found, "workers": found["loader"]}


def _near(owner: dict[str, Any], gain: float) -> bool:
    """What is said to be recoverable is within 15 % of what was gained, or its range holds that."""
    middle, low, high = (owner[key] for key in ("recoverable_us_per_step", "low_us", "high_us"))
    if middle is None:
        return False
    return abs(middle - gain) <= NEAR_SHARE * abs(gain) or (low is not None and low <= gain <= high)


def _at(owner: dict[str, Any], plant: str) -> bool:
    """Whether the planted line is the owner's; a line that runs in a worker, and no line at all, cannot be."""
    if plant in ("workers", *NO_TWIN):
        return True
    return any(location["line"] in planted_lines()[plant] for location in owner["locations"])


def _analysis(plant: str, size: str, environment: dict[str, str], folder: Path) -> dict[str, Any]:
    profile = [sys.executable, "-m", "tracelens", "profile", "--stop-after-window", "-o", str(folder), str(SCRIPT)]
    if not folder.exists():
        _run([*profile, plant, size, "plain", "4000"], environment)
    analysis: dict[str, Any] = json.loads(
        _run([sys.executable, "-m", "tracelens", "recommend", str(folder), "--format", "json"], environment)
    )
    return analysis


def _timed(plant: str, size: str, variant: str, environment: dict[str, str]) -> float:
    said = _run([sys.executable, str(SCRIPT), plant, size, variant, str(STEPS[size])], environment)
    return float(json.loads(said.splitlines()[-1])["step_us"])


def _run(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=240
    ).stdout


def _gpus() -> int:
    said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return max(1, len(said.splitlines()))


def _file(out: Path, row: str) -> Path:
    return out / f"row-{row.replace('/', '-')}.json"


def shown(row: dict[str, Any]) -> str:
    """One line of the table."""
    largest = row["largest"]
    where = largest["locations"][0]["line"] if largest["locations"] else None
    gain = "no twin" if row["gain_us"] is None else f"{row['gain_us'] / 1e3:8.2f} ms gained by the twin"
    back = [round(us / 1e3, 2) for us in row["recoverable_us"] if us is not None]
    return (
        f"{row['plant']:9s} {row['size']:5s} {'found' if row['found'] else 'MISSED'}, "
        f"{'right' if row['recoverable_is_right'] else 'off'}; "
        f"largest: {largest['kind']:10s} line {where!s:5s} {largest['callee'] or '':28.28s} "
        f"owned {row['owned_us'] / 1e3:8.2f} ms, recoverable {back}, {gain}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
