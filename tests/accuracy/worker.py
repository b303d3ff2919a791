"""One worker: bound to one GPU and its share of the cores, takes rows until none is left or the time is up.

In: see `--help`. Out: per row a JSON file in OUT/rows, and its recording in OUT/runs. A worker imports torch once and
forks every process from there; it never touches the GPU itself. Every row gets its first rounds before any row gets
more; rows that keep the machine's memory busy run at most two at a time.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.accuracy import arm as arms
from tests.accuracy import disturbance, pilot, placement, rounds
from tests.accuracy import rows as listed

HEAVY_AT_ONCE = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--known", type=Path, required=True, help="rows that are there already are left out")
    parser.add_argument("--again", action="store_true", help="measure rows anew that are there already")
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--placement", choices=("shared", "apart"), default="shared")
    parser.add_argument("--until", type=float, default=math.inf, help="Unix time after which no row is begun")
    parser.add_argument("--stop", type=float, default=math.inf, help="Unix time after which no process is started")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the harness without a GPU")
    parser.add_argument("--pilot", action="store_true", help="no rows: compare placements on tuning loops")
    parser.add_argument("--check", action="store_true", help="first see whether rows at once disturb each other")
    parser.add_argument("--benchmark", choices=("pinning", "streams", "pinmain"), help="run it after the rows")
    parser.add_argument("--oracle", action="store_true", help="record each patched version as well")
    options = parser.parse_args()
    mine = placement.split(placement.cores(), options.workers)[options.number]
    if mine:
        os.sched_setaffinity(0, [cpu for core in mine for cpu in core])
    _import_everything()
    place = placement.share(mine)
    setting = rounds.Setting(
        out=options.out,
        place=place if options.placement == "apart" else arms.EVERYWHERE,
        placement=options.placement if place.own else "shared",
        stop=options.stop,
        small=options.small,
        oracle=options.oracle,
    )
    if options.check:
        disturbance.measured(options.number, setting)
    if options.pilot:
        pilot.measured(options.number, setting, place)
    else:
        _measure(options, setting)
    if options.benchmark:
        out, log = options.out / f"{options.benchmark}.json", options.out / f"{options.benchmark}.log"
        if not arms.forked(lambda: _benchmark(options.benchmark, out), 2 * rounds.ARM_SECONDS, log):
            print(f"{options.benchmark} failed: {rounds.tail(log)}", flush=True)
    return 0


def _measure(options: argparse.Namespace, setting: rounds.Setting) -> None:
    """The first rounds of as many rows as there is time for, then more rounds of those that scatter."""
    waiting = [row for row in listed.chosen(options.rows) if options.again or not _known(options.known, row)]
    begun: list[rounds.Row] = []
    while waiting and time.time() < options.until:
        for row in list(waiting):
            with _heavy(setting.out, row) as free:
                if not free:
                    continue
                waiting.remove(row)
                if _claim(setting.out, row):
                    begun += _first(row, setting)
                    break
        else:
            if not any(_more(one) for one in begun):
                time.sleep(0.2)
    while time.time() < setting.stop:
        if not sum(_more(one) for one in begun):
            if not any(one.open for one in begun):
                return
            time.sleep(0.2)


def _first(row: listed.Row, setting: rounds.Setting) -> list[rounds.Row]:
    """A row's first rounds; nothing where the row failed: one loop that fails must not cost the others."""
    started = time.monotonic()
    try:
        one = rounds.Row(row, setting.out / "work" / row.name, setting)
        one.begin()
        while one.rounds < rounds.FIRST_ROUNDS and time.time() < setting.stop:
            one.round()
            one.write()
    except Exception as error:
        _failed(row, setting, error)
        return []
    print(f"{row.name}: {time.monotonic() - started:.0f} s, {len(one.arms)} processes", flush=True)
    return [one]


def _more(one: rounds.Row) -> bool:
    """One more round, if the row is open and may run now."""
    with _heavy(one.setting.out, one.row) as free:
        if not (free and one.open):
            return False
        try:
            one.round()
        except Exception as error:
            _failed(one.row, one.setting, error)
            one.rounds = rounds.MOST_ROUNDS  # what was measured before stays
            return True
        one.write()
        print(f"{one.row.name}: round {one.rounds}", flush=True)
    return True


def _failed(row: listed.Row, setting: rounds.Setting, error: Exception) -> None:
    folder = setting.out / "failed"
    folder.mkdir(exist_ok=True)
    (folder / f"{row.name}.json").write_text(json.dumps({"row": row.name, "failed": repr(error)}), encoding="utf-8")
    print(f"{row.name} failed: {error!r}", flush=True)


def _known(known: Path, row: listed.Row) -> bool:
    return (known / f"{row.name}.json").exists()


def _claim(out: Path, row: listed.Row) -> bool:
    folder = out / "claims"
    folder.mkdir(exist_ok=True)
    try:
        os.close(os.open(folder / row.name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@contextmanager
def _heavy(out: Path, row: listed.Row) -> Iterator[bool]:
    """Whether the row may run beside what runs now; holds its place while it does."""
    if not row.heavy:
        yield True
        return
    for place in range(HEAVY_AT_ONCE):
        with (out / f"heavy-{place}").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield True
            return
    yield False


def _benchmark(name: str, out: Path) -> None:
    from importlib import import_module

    found = import_module(f"accuracy.{name}").measured()
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _import_everything() -> None:
    """All that the forked processes need, without touching CUDA."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import timm  # noqa: F401
    import torch.utils.data
    import torchvision.models  # noqa: F401

    import tracelens.capture.inside.agent
    import tracelens.patch.recipes
    import tracelens.pipeline  # noqa: F401

    assert not torch.cuda.is_initialized()


if __name__ == "__main__":
    sys.exit(main())
