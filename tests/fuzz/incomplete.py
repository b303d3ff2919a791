"""A campaign of damaged and stripped real traces: does the program say anything that is not so?

    python -m tests.fuzz.incomplete --damaged 2000 --stripped 500 --largest 1500000

Damaged: cut, cut and damaged archives, and files with holes, at random places, from all shared traces up to a size;
what is said is held against the whole file, read in plain Python (`support/judged`). Stripped: one to three signals
taken away; no number may become 0 that was not, and none may be said that needs what is missing. A case has a number
that makes it again; a failing one is printed. Files that are refused (exit code 4) are counted, not judged.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support import plain_trace
from tests.support.judged import diagnosed, untruths
from tests.support.places import TRACES
from tests.support.plain_trace import STRIPPED, PlainTrace
from tracelens.errors import TracelensError
from tracelens.findings.signal_dependencies import NEEDS
from tracelens.report import json as json_report

OTHER_STEP = ("step marks", "calls")
"""Without these a step is something else, so that a 0 may be measured."""


def damaged(file: PlainTrace, chance: random.Random) -> tuple[str, bytes]:
    """A file name, whose ending is the format, and its bytes."""
    share = chance.uniform(0.2, 0.999)
    kind = chance.choice(("cut", "archive", "broken", "holes"))
    if kind == "cut":
        return "cut.json", plain_trace.cut(file.raw, share)
    if kind == "archive":
        return "cut.json.gz", plain_trace.cut_archive(file.raw, share)
    if kind == "broken":
        return "broken.json.gz", plain_trace.broken_archive(file.raw, share)
    holes = [chance.random() for _ in range(chance.randrange(1, 6))]
    return "holes.json", plain_trace.with_holes(file.raw, holes, chance.choice((80, 300, 5_000)))


def judge_damaged(file: PlainTrace, path: Path) -> Iterator[str]:
    diagnosis = diagnosed(path)
    whole = diagnosis.timeline.trace.completeness
    if whole.reason or len(diagnosis.timeline.trace) < len(file.rows):
        yield from untruths(file, diagnosis)


def judge_stripped(before: dict[str, Any], path: Path, names: list[str]) -> Iterator[str]:
    after = json_report.document(diagnosed(path))
    for key in [key for key in NEEDS if "[]" not in key] + ["gpu_busy_share", "idle_share", "breakdown.wall_us"]:
        was, now = (_at(document, key) for document in (before, after))
        if now == 0 and was not in (0, None) and not set(names) & set(OTHER_STEP):
            yield f"{key} was {was} and is 0 without {', '.join(names)}"
        if key in NEEDS and "correlation" in names and now is not None:
            yield f"{key} is {now} without correlation"
    parts = (after["breakdown"] or {"parts": {}})["parts"].values()
    wall = (after["breakdown"] or {"wall_us": 0})["wall_us"]
    if abs(sum(us for us in parts if us is not None) - wall) > 0.01:
        yield "the parts do not add up to the wall time"


def _at(document: dict[str, Any], key: str) -> Any:
    value: Any = document
    for name in key.split("."):
        value = None if value is None else value[name]
    return value


def campaign(kind: str, count: int, first: int, files: list[PlainTrace], folder: Path) -> Counter[str]:
    """Results of `count` cases of a kind, the failing ones printed."""
    results: Counter[str] = Counter()
    for number in range(first, first + count):
        chance = random.Random(f"{kind} {number}")
        file = chance.choice(files)
        try:
            wrong = list(CASES[kind](file, chance, folder))
        except TracelensError:
            results["refused"] += 1
            continue
        except Exception:
            wrong = [traceback.format_exc()]
        results["wrong" if wrong else "right"] += 1
        for sentence in wrong:
            print(f"{kind} case {number} of {file.name}: {sentence}", flush=True)
    return results


def _damaged_case(file: PlainTrace, chance: random.Random, folder: Path) -> Iterator[str]:
    name, data = damaged(file, chance)
    (folder / name).write_bytes(data)
    yield from judge_damaged(file, folder / name)


def _stripped_case(file: PlainTrace, chance: random.Random, folder: Path) -> Iterator[str]:
    names = chance.sample(sorted(STRIPPED), chance.randrange(1, 4))
    before, path = folder / f"{file.name}.whole.json", folder / "stripped.json"
    if not before.exists():
        source = folder / "whole.json"
        source.write_bytes(file.raw)
        before.write_text(json.dumps(json_report.document(diagnosed(source))), encoding="utf-8")
    left = file
    for name in names:
        left = dataclasses.replace(left, document=STRIPPED[name](left))
    path.write_text(json.dumps(left.document), encoding="utf-8")
    yield from judge_stripped(json.loads(before.read_text(encoding="utf-8")), path, names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damaged", type=int, default=2000)
    parser.add_argument("--stripped", type=int, default=500)
    parser.add_argument(
        "--largest", type=int, default=200_000, help="packed bytes of a trace; larger ones are left out"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    given = parser.parse_args()
    paths = [path for path in sorted(TRACES.glob("*/*.json.gz")) if path.stat().st_size <= given.largest]
    files = [plain_trace.read(path) for path in paths]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tracelens-incomplete-") as folder:
        cases: tuple[tuple[str, int], ...] = (("damaged", given.damaged), ("stripped", given.stripped))
        for kind, count in cases:
            results = campaign(kind, count, given.first, files, Path(folder))
            failed += results["wrong"]
            print(f"{kind}: {count} files from {len(files)} traces: {dict(results)}", flush=True)
    return 1 if failed else 0


CASES: dict[str, Callable[..., Iterator[str]]] = {"damaged": _damaged_case, "stripped": _stripped_case}

if __name__ == "__main__":
    sys.exit(main())
