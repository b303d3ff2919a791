"""The dynamic corpus: public training scripts, original against patched, on this machine.

    python tests/dynamic/run.py DIR --results OUT [--gpus N] [--budget SECONDS] [--only NAME,…] [--rounds N]
                                [--decide NAME,… --processes N]

In: DIR with the scripts of manifest.json, one folder per repository (`owner+name/path`); none of them is part of this
project. Out: OUT/NAME.json per row. Without a GPU the patches assume that every place fires.

Three phases. First every row is recorded and its versions are compared, one worker per GPU. When all are done, and with
the machine quiet, come the times: of fresh processes by turns, and of processes that host all versions by turns. Each
worker has an equal share of the processor's cores for itself. With --scratch, the times can be taken by a second call
on the same machine (--times-only).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
OWN_KINDS = ("races", "tests")


def main() -> int:
    wishes = _parsed()
    wishes.results = wishes.results.resolve()
    wishes.results.mkdir(parents=True, exist_ok=True)
    kept = wishes.scratch is not None
    wishes.scratch = wishes.scratch if kept else Path(tempfile.mkdtemp(prefix="tracelens-dynamic-"))
    wishes.ends = time.monotonic() + wishes.budget
    # Arms run side by side; tiny models on shared cores wait for their own threads only
    os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "4") if wishes.gpus else "1"
    import entry
    import timing
    import worker

    begun = time.monotonic()
    worker.prepare((entry.COMPARED_IMAGES, entry.MANY_IMAGES))
    print(f"imports: {time.monotonic() - begun:.1f} s", flush=True)
    try:
        if not wishes.times_only:
            _side_by_side(wishes, wishes.entries, _compare, wishes.per_gpu)
        entries = [entry.Entry.of(one) for one in wishes.entries if one.get("kind") not in OWN_KINDS]
        if wishes.rounds:
            fresh = [one for one in entries if not wishes.fresh or one.name in wishes.fresh.split(",")]
            _side_by_side(wishes, timing.plan(fresh, wishes.results, wishes.rounds, wishes.more), _time)
        if wishes.processes:
            _side_by_side(wishes, _hosts(entries, wishes), _within)
        timing.merge(wishes.results)
    finally:
        if not kept:
            shutil.rmtree(wishes.scratch, ignore_errors=True)
    print(f"all: {time.monotonic() - begun:.1f} s", flush=True)
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, default=HERE / "manifest.json")
    parser.add_argument("--gpus", type=int, default=0, help="0: the CPU only")
    parser.add_argument("--per-gpu", type=int, default=1, help="rows that are compared at once on one GPU; timed: one")
    parser.add_argument("--assume", default="", help="rows to patch at every place, without a recording; all")
    parser.add_argument("--record-on-cpu", action="store_true", help="record without a GPU: a trial of the recording")
    parser.add_argument("--budget", type=float, default=7200.0, help="seconds after which nothing new is begun")
    parser.add_argument("--reserve", type=float, default=0.0, help="seconds of the budget that are kept for the times")
    parser.add_argument("--only", default="", help="names of rows in their order, separated by commas")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one batch of arms")
    parser.add_argument("--rounds", type=int, default=0, help="interleaved timed rounds of each row")
    parser.add_argument("--more", type=int, default=3, help="further rounds where the intervals do not decide")
    parser.add_argument("--scratch", type=Path, help="a folder that outlives this call: its plans can be timed later")
    parser.add_argument("--times-only", action="store_true", help="the rows of --scratch and --results are compared")
    parser.add_argument("--fresh", default="", help="rows for --rounds; all")
    parser.add_argument("--processes", type=int, default=0, help="processes that host all versions of a row by turns")
    parser.add_argument(
        "--decide", default="", help="rows to host so, separated by commas; NAME*3 for three times as many"
    )
    parser.add_argument("--hosted", type=float, default=20.0, help="seconds of each such process")
    parser.add_argument("--compared", default="", help="rows that another run has compared: only their times are taken")
    parser.add_argument("--versions", default="", help="time these versions only, separated by commas")
    wishes = parser.parse_args()
    entries = json.loads(wishes.manifest.read_text())["rows"]
    named = {one["name"]: one for one in entries}
    wishes.entries = [named[name] for name in wishes.only.split(",")] if wishes.only else entries
    return wishes


def _side_by_side(wishes: argparse.Namespace, jobs: list[Any], do: Callable[..., str], each: int = 1) -> None:
    """So many workers per GPU take job after job; all are forked from this process, which has never touched a GPU."""
    context = get_context("fork")
    queue: Any = context.SimpleQueue()
    workers = max(1, wishes.gpus) * each
    for job in [*jobs, *[None] * workers]:
        queue.put(job)
    processes = [
        context.Process(target=_work, args=((number, workers), queue, wishes, do)) for number in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _work(place: tuple[int, int], queue: Any, wishes: argparse.Namespace, do: Callable[..., str]) -> None:
    number, workers = place
    os.environ["CUDA_VISIBLE_DEVICES"] = str(number % wishes.gpus) if wishes.gpus else ""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // workers
    if share >= 1:
        os.sched_setaffinity(0, cores[number * share : (number + 1) * share])
    while (job := queue.get()) is not None:
        begun = time.monotonic()
        print(f"[{number}] {do(job, wishes, number)} | {time.monotonic() - begun:.1f} s", flush=True)


def _setting(wishes: argparse.Namespace, number: int, *, assume: bool = False, timed: bool = False) -> Any:
    import entry

    return entry.Setting(
        sources=wishes.sources.resolve(),
        scratch=wishes.scratch,
        results=wishes.results,
        gpu=wishes.gpus > 0,
        assume=assume,
        ends=wishes.ends if timed else wishes.ends - wishes.reserve,
        timeout_s=wishes.timeout,
        worker=number,
    )


def _compare(line: dict[str, Any], wishes: argparse.Namespace, number: int) -> str:
    import entry
    import row

    if line.get("kind") in OWN_KINDS:
        return f"{line['name']}: {_own(line, wishes) if wishes.gpus else 'only on a GPU'}"
    recorded = wishes.gpus > 0 or wishes.record_on_cpu
    assume = not recorded or wishes.assume == "all" or line["name"] in wishes.assume.split(",")
    known = line["name"] in wishes.compared.split(",")
    return _line(row.Row(entry.Entry.of(line), _setting(wishes, number, assume=assume)).run(compare=not known))


def _time(stretch: Any, wishes: argparse.Namespace, number: int) -> str:
    import timing

    only = tuple(wishes.versions.split(",")) if wishes.versions else ()
    return timing.run(stretch, _setting(wishes, number, timed=True), only)


def _hosts(entries: list[Any], wishes: argparse.Namespace) -> list[Any]:
    """Jobs in the order of the wish, one process of each row first: what time is left for repeats them."""
    import within

    wanted = dict((*one.split("*"), "1")[:2] for one in wishes.decide.split(",") if one)
    named = {entry.name: entry for entry in entries}
    jobs = [
        within.Together(named[name], number, wishes.hosted)
        for name, times in wanted.items()
        for number in range(int(times) * wishes.processes)
    ]
    return sorted(jobs, key=lambda job: job.number)


def _within(job: Any, wishes: argparse.Namespace, number: int) -> str:
    import within

    only = tuple(wishes.versions.split(",")) if wishes.versions else ()
    return within.run(job, _setting(wishes, number, timed=True), only)


def _own(entry: dict[str, Any], wishes: argparse.Namespace) -> str:
    """What is not a public script: how often races are caught, and our own tests that need a GPU."""
    if entry["kind"] == "races":
        import races

        return json.dumps(races.run(wishes.scratch, wishes.results)["variants"])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=15", *entry["words"]]
    log = wishes.results / f"{entry['name']}.txt"
    with log.open("w") as out:
        try:
            subprocess.run(words, cwd=HERE.parents[1], stdout=out, stderr=out, check=False, timeout=entry["timeout_s"])
        except subprocess.TimeoutExpired:
            return "ran out of time"
    return log.read_text().splitlines()[-1]


def _line(value: dict[str, Any]) -> str:
    parts = [value["name"], value["device"], str(value.get("failed") or value.get("cut_short") or "done")]
    for name, version in value["versions"].items():
        if "difference" not in version:
            parts.append(f"{name}: {version.get('same_as') or 'not patched'}")
            continue
        same = "same" if version["difference"] is None else version["difference"]
        late = version.get("interrupted_difference", "?")
        parts.append(f"{name}: {same}; interrupted {late or 'same'}")
    return " | ".join(parts) + f" | {value['seconds']}"


if __name__ == "__main__":
    sys.exit(main())
