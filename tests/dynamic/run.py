"""The dynamic corpus: public training scripts, original against patched, on this machine.

    python tests/dynamic/run.py DIR --results OUT [--gpus N] [--budget SECONDS] [--only NAME,…] [--rounds N]

In: DIR with the scripts of manifest.json, one folder per repository (`owner+name/path`); none of them is part of this
project. Out: OUT/NAME.json per row. Without a GPU the patches assume that every place fires, and nothing is timed.
One worker per GPU takes row after row; each has an equal share of the processor's cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]


def main() -> int:
    wishes = _parsed()
    context = get_context("fork")
    queue: Any = context.SimpleQueue()
    for entry in wishes.entries:
        queue.put(entry)
    workers = max(1, wishes.gpus)
    for _ in range(workers):
        queue.put(None)
    ends = time.monotonic() + wishes.budget
    processes = [context.Process(target=_work, args=(number, queue, wishes, ends)) for number in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(process.exitcode or 0 for process in processes)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, default=HERE / "manifest.json")
    parser.add_argument("--gpus", type=int, default=0, help="0: the CPU only")
    parser.add_argument("--assume", default="", help="rows to patch at every place, without a recording; all")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds after which nothing new is begun")
    parser.add_argument("--only", default="", help="names of rows in their order, separated by commas")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one batch of arms")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved timed rounds")
    wishes = parser.parse_args()
    entries = json.loads(wishes.manifest.read_text())["rows"]
    named = {one["name"]: one for one in entries}
    wishes.entries = [named[name] for name in wishes.only.split(",")] if wishes.only else entries
    return wishes


def _work(number: int, queue: Any, wishes: argparse.Namespace, ends: float) -> None:
    gpu = wishes.gpus > 0
    os.environ["CUDA_VISIBLE_DEVICES"] = str(number) if gpu else ""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // max(1, wishes.gpus)
    if share >= 1:
        os.sched_setaffinity(0, cores[number * share : (number + 1) * share])
    # Arms run side by side; tiny models on shared cores wait for their own threads only
    os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "4") if gpu else "1"
    import worker

    worker.prepare()
    import row

    scratch = Path(tempfile.mkdtemp(prefix="tracelens-dynamic-"))
    while (entry := queue.get()) is not None:
        if entry.get("kind") in ("races", "tests"):
            if gpu:
                print(entry["name"], _own(entry, scratch, wishes.results.resolve()), flush=True)
            continue
        setting = row.Setting(
            sources=wishes.sources.resolve(),
            scratch=scratch,
            results=wishes.results.resolve(),
            gpu=gpu,
            assume=not gpu or wishes.assume == "all" or entry["name"] in wishes.assume.split(","),
            rounds=wishes.rounds if gpu else 0,
            ends=ends,
            timeout_s=wishes.timeout,
        )
        value = row.Row(row.Entry.of(entry), setting).run()
        print(_line(value), flush=True)


def _own(entry: dict[str, Any], scratch: Path, results: Path) -> str:
    """What is not a public script: how often races are caught, and our own tests that need a GPU."""
    results.mkdir(parents=True, exist_ok=True)
    if entry["kind"] == "races":
        import races

        return json.dumps(races.run(scratch, results)["variants"])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=10", *entry["files"]]
    log = results / "tests.txt"
    with log.open("w") as out:
        subprocess.run(words, cwd=HERE.parents[1], stdout=out, stderr=out, check=False, timeout=entry["timeout_s"])
    return log.read_text().splitlines()[-1]


def _line(value: dict[str, Any]) -> str:
    parts = [value["name"], value["device"], str(value.get("failed") or value.get("cut_short") or "done")]
    for name, version in value["versions"].items():
        if "difference" not in version:
            parts.append(f"{name}: {version.get('same_as') or 'not patched'}")
            continue
        same = "same" if version["difference"] is None else version["difference"]
        late = version.get("interrupted_difference", "?")
        speed = version.get("speed")
        parts.append(f"{name}: {same}; interrupted {late or 'same'}; {speed and round(speed['value'], 3)}")
    return " | ".join(parts) + f" | {value['seconds']}"


if __name__ == "__main__":
    sys.exit(main())
