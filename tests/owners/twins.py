"""Are owners, their lines and what they would give back right on a GPU? Planted loops against their hand-mended twins.

    python tests/owners/twins.py record -o OUT [--untuned] [--fresh] [--outside] [--others]
                                        [--rounds 2] [--only PLANT/SIZE,…] [--budget 500] [--gpus N]
    python tests/owners/twins.py judge OUT…

`record` needs a GPU. Per plant and size: the loop is recorded; then it and its twin are timed in turn, in fresh
processes that hold both. On several GPUs rows run side by side, one per GPU with its share of the cores. Rows that are
in OUT already are left out, so that it can be called again. `judge` analyzes the recordings, on any machine, and holds
what they say against the twins, whose gain counts as a share of the step: processes differ in speed. It writes
`judged.json` into each OUT. From `--rounds 8` on the gain has a 95 % interval, and what is said of a row is off only
where its range does not meet that. What is said is one owner's number, and a range that is wider than `standing.WIDEST`
is counted apart.
`--untuned`: the loops of `gpu_untuned.py`, which nothing was fitted to; `--fresh`: those of `gpu_fresh.py`, which came
after everything else; `--outside` and `--others`: those of `gpu_outside.py` and `gpu_others.py`, by two who had built
nothing of the tool.
Without a GPU: `known.py`.
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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.accuracy import placement  # noqa: E402
from tests.owners import standing  # noqa: E402
from tests.owners.forked_runs import ForkedRuns  # noqa: E402
from tests.owners.intervals import interval  # noqa: E402

SIZES = ("small", "large")
STEPS = {"small": 200, "large": 40, "only": 40}
KINDS: dict[str, tuple[str, ...]] = {
    "collect": ("host_line", "allocator"),
    "cache": ("allocator", "host_line"),
    "json": ("host_line",),
    "tokens": ("host_line",),
    "print": ("host_line", "wait"),
    "average": ("host_line", "launch"),
    "norms": ("wait", "launch"),
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
UNTUNED: dict[str, tuple[str, ...]] = {
    "augment": ("dataloader",),
    "unpinned": ("copy",),
    "tokenize": ("dataloader",),
    "average": ("host_line", "launch"),
    "sweep": ("host_line", "allocator"),
    "churn": ("allocator", "host_line"),
    "confusion": ("host_line", "wait"),
    "snapshot": ("wait", "copy", "host_line"),
    "clip": ("wait", "launch"),
    "journal": ("host_line", "wait"),
    "healthy_conv": ("gpu",),
    "healthy_gpt": ("gpu",),
}
FRESH: dict[str, tuple[str, ...]] = {
    "memory": ("host_line",),
    "shadow": ("host_line", "launch"),
    "numpy_images": ("dataloader",),
    "classes": ("wait",),
    "gradients": ("wait", "launch"),
    "records": ("host_line", "wait"),
    "accuracy": ("wait", "copy"),
    "boxes": ("wait", "launch", "host_line"),
}
OUTSIDE: dict[str, tuple[str, ...]] = {
    "crops": ("launch", "host_line"),
    "checkpoint": ("host_line", "wait", "copy"),
    "mining": ("host_line", "wait"),
    "reshuffle": ("dataloader", "host_line"),
    "finite": ("wait",),
    "ranking": ("host_line", "wait"),
    "edges": ("host_line", "copy"),
    "rollout": ("wait", "launch", "copy", "host_line"),
    "healthy_denoise": ("gpu",),
}
OTHERS: dict[str, tuple[str, ...]] = {
    "hooked": ("wait", "copy", "host_line"),
    "pairs": ("wait", "launch", "host_line", "backward"),
    "tabular": ("dataloader", "host_line"),
    "sinusoid": ("host_line", "copy"),
    "replay": ("host_line", "wait", "copy"),
    "grids": ("host_line", "wait", "copy"),
    "packing": ("host_line", "copy"),
    "maxnorm": ("launch", "host_line"),
    "healthy_speech": ("gpu",),
}
PLANTED = {
    "gpu_plants.py": KINDS,
    "gpu_untuned.py": UNTUNED,
    "gpu_fresh.py": FRESH,
    "gpu_outside.py": OUTSIDE,
    "gpu_others.py": OTHERS,
}
ONE_SIZE = ("gpu_untuned.py", "gpu_outside.py", "gpu_others.py")
LEAST_PROCESSES = 8
"""Below, the spread between processes is not known well enough for an interval."""
NO_TWIN = ("launches", "healthy", "healthy_conv", "healthy_gpt", "healthy_denoise", "healthy_speech")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("-o", "--out", type=Path, required=True)
    recording.add_argument("--rounds", type=int, default=2, help="fresh processes")
    recording.add_argument("--only", default="")
    recording.add_argument("--untuned", dest="scripts", action="append_const", const="gpu_untuned.py")
    recording.add_argument("--fresh", dest="scripts", action="append_const", const="gpu_fresh.py")
    recording.add_argument("--outside", dest="scripts", action="append_const", const="gpu_outside.py")
    recording.add_argument("--others", dest="scripts", action="append_const", const="gpu_others.py")
    recording.add_argument("--budget", type=float, default=1e9, help="seconds after which no row is begun")
    recording.add_argument("--gpus", type=int, help="use so many of the GPUs, the first ones; all")
    recording.add_argument("--timings-only", action="store_true", help="record nothing: the recordings are elsewhere")
    judging = commands.add_parser("judge")
    judging.add_argument("out", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "record":
        record(options)
        return 0
    for folder in options.out:
        judged = []
        for path in sorted(folder.glob("row-*.json")):
            judged.append(judge(json.loads(path.read_text()), folder))
            print(shown(judged[-1]), flush=True)
        (folder / "judged.json").write_text(json.dumps(judged, indent=1) + "\n")
    return 0


def record(options: argparse.Namespace) -> None:
    """Record and time the rows that OUT does not have, as far as the budget goes."""
    options.out.mkdir(parents=True, exist_ok=True)
    scripts = {row: script for script in options.scripts or ("gpu_plants.py",) for row in _rows(script)}
    rows = options.only.split(",") if options.only else list(scripts)
    rows = [row for row in rows if not _file(options.out, row).exists()]
    until = time.monotonic() + options.budget
    free: SimpleQueue[_Gpu] = SimpleQueue()

    def one(row: str) -> None:
        gpu = free.get()
        os.sched_setaffinity(0, gpu.cpus)  # of this thread, and of what it starts
        try:
            if time.monotonic() < until:
                _file(options.out, row).write_text(json.dumps(measure(scripts[row], row, gpu, options)) + "\n")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
            said = getattr(error, "stderr", "") or ""
            print(f"{row}: {error} {said[-800:]}", flush=True)
        finally:
            free.put(gpu)

    gpus = options.gpus or _gpus()
    with ExitStack() as stack, ThreadPoolExecutor(gpus) as pool:
        for number, cores in enumerate(placement.split(placement.cores(), gpus)):
            cpus = {cpu for core in cores for cpu in core}
            os.sched_setaffinity(0, cpus)
            path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(number), "PYTHONPATH": path}
            parents = {script: ForkedRuns(_script(script), environment) for script in set(scripts.values())}
            free.put(_Gpu(environment, cpus, {name: stack.enter_context(one) for name, one in parents.items()}))
        list(pool.map(one, rows))


@dataclass(frozen=True)
class _Gpu:
    """The environment in which one GPU is seen, its CPUs, and per script the parent of the runs timed on it."""

    environment: dict[str, str]
    cpus: set[int]
    runs: dict[str, ForkedRuns]


def _rows(script: str) -> list[str]:
    sizes = ("only",) if script in ONE_SIZE else SIZES
    return [f"{plant}/{size}" for plant in PLANTED[script] for size in sizes]


def measure(script: str, row: str, gpu: _Gpu, options: argparse.Namespace) -> dict[str, Any]:
    """One row: the loop is recorded, then it and its twin are timed."""
    plant, size = row.split("/")
    folder = options.out / f"run-{plant}-{size}"
    profile = [
        sys.executable,
        "-m",
        "tracelens",
        "profile",
        "--stop-after-window",
        "-o",
        str(folder),
        str(_script(script)),
    ]
    if not folder.exists() and not options.timings_only:
        _run([*profile, plant, size, "plain", "4000"], gpu.environment)
    plain, mended, processes = [], [], 0
    for _ in range(0 if plant in NO_TWIN else options.rounds):
        took = json.loads(gpu.runs[script].run([plant, size, "both", str(STEPS[size])]))
        plain += took["plain_us"]
        mended += took["mended_us"]
        processes += 1
    timed = {"processes": processes, "plain_us": plain, "mended_us": mended}
    return {"script": script, "plant": plant, "size": size, **timed}


def judge(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A row with what the analysis says, and whether that is right."""
    plant, plain, mended = row["plant"], row["plain_us"], row["mended_us"]
    script = row.get("script", "gpu_plants.py")
    analyze = [sys.executable, "-m", "tracelens", "recommend", str(folder / f"run-{plant}-{row['size']}")]
    analysis: dict[str, Any] = json.loads(_run([*analyze, "--format", "json"], dict(os.environ)))
    owners = analysis["owners"]
    right = [owner for owner in owners if owner["kind"] in PLANTED[script][plant] and _at(owner, script, plant)]
    largest = owners[0]
    gain = statistics.median(plain) - statistics.median(mended) if plain else None
    rare = analysis.get("slow_steps")  # what comes in some steps is told of the mean step, as a twin is timed
    step = rare["mean_us"] if rare else analysis["steps"]["unprofiled_median_us"]
    scaled = gain * step / statistics.median(plain) if gain is not None else None
    interval = gain_interval(row, step)
    middle = scaled if interval is None else sum(interval) / 2
    judged = {
        **row,
        "lines": planted_lines(script).get(plant, []),
        "gain_us": gain,
        "gain_in_recording_us": middle,
        "gain_interval_us": interval,
        "found": bool(right),
        "largest": largest,
        "largest_is_right": largest in right,
        "owned_us": sum(owner["us_per_step"] for owner in right),
        "recoverable_us": [[owner[key] for key in standing.KEYS] for owner in right],
        "verdict": analysis["verdict"],
        "steps": analysis["steps"],
        "gpu_busy_share": analysis["gpu_busy_share"],
        "owners": [*owners[:10], *(owner for owner in right if owner not in owners[:10])],
        "loops": analysis["loops"],
    }
    return {**judged, "standing": None if middle is None else standing.of_number(judged)}


def gain_interval(row: dict[str, Any], step_us: float) -> list[float] | None:
    """What the twin gains of a step, as a 95 % interval (Student's t over processes, each with its own share of its own
    step); None with too few processes."""
    count = row.get("processes") or 0
    if count < LEAST_PROCESSES:
        return None
    turns = len(row["plain_us"]) // count
    each = [slice(number * turns, (number + 1) * turns) for number in range(count)]
    shares = [1 - statistics.fmean(row["mended_us"][part]) / statistics.fmean(row["plain_us"][part]) for part in each]
    known = interval(shares)
    return [step_us * known[end] for end in ("low", "high")]


def planted_lines(script: str) -> dict[str, list[int]]:
    """Lines of each plant."""
    found: dict[str, list[int]] = {}
    for number, text in enumerate(_script(script).read_text().splitlines(), 1):
        if match := re.search(r"# plant: (\w+)$", text):
            found.setdefault(match[1], []).append(number)
    return {**found, "workers": found.get("loader", [])}


def _script(name: str) -> Path:
    return Path(__file__).with_name(name)


def _at(owner: dict[str, Any], script: str, plant: str) -> bool:
    """Whether the planted line is the owner's; a line that runs in a worker, and no line at all, cannot be."""
    if plant in ("workers", "augment", *NO_TWIN):
        return True
    return any(location["line"] in planted_lines(script)[plant] for location in owner["locations"])


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
    gained = row["gain_in_recording_us"]
    gain = "no twin" if gained is None else f"{gained / 1e3:8.2f} ms gained by the twin"
    back = [tuple(round(us / 1e3, 2) for us in each) for each in row["recoverable_us"] if each[0] is not None]
    return (
        f"{row['plant']:9s} {row['size']:5s} {'found' if row['found'] else 'MISSED'}, "
        f"number {row['standing'] or '-'}, verdict names {standing.about(row)}; "
        f"largest: {largest['kind']:10s} line {where!s:5s} {largest['callee'] or '':28.28s} "
        f"owned {row['owned_us'] / 1e3:8.2f} ms, recoverable {back}, {gain}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
