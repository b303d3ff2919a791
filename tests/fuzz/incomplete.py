"""A campaign of damaged and stripped real traces: does the program say anything that is not so?

    python -m tests.fuzz.incomplete --damaged 2000 --stripped 500 --largest 4000000 --seconds 3000 --json OUT.json

Damaged: cut, cut and damaged archives, and files with holes, at random places, from all shared traces up to a size;
what is said is held against the whole file, read in plain Python (`support/judged`). Stripped: one to three signals
taken away; no number may become 0 that was not, and none may be said that needs what is missing. A case has a number
that makes it again; a failing one is printed. Files that are refused (exit code 4) are counted, not judged. Both kinds
take turns, so that a campaign that runs out of time has cases of both.

Every case also runs `tracelens check`, the whole command, with one to four budgets that everything keeps which can be
measured: it may end with 0 neither on a file that lost rows nor where a budgeted number is not known.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import plain_trace
from tests.support.judged import diagnosed, untruths
from tests.support.places import TRACES
from tests.support.plain_trace import STRIPPED, PlainTrace
from tracelens import cli
from tracelens.errors import TracelensError
from tracelens.findings.signal_dependencies import NEEDS
from tracelens.report import json as json_report

KEPT_EVERY = 50
PASSED, INCONCLUSIVE = 0, 3
"""Exit codes of `check`."""
OTHER_STEP = ("step marks", "calls")
"""Without these a step is something else, so that a 0 may be measured."""
BUDGETS: Mapping[str, tuple[str, str | None]] = {
    "--max-syncs-per-step": ("1e9", None),
    "--max-exposed-ms": ("1e9", "exposed_together_us_per_step"),
    "--max-idle-share": ("1", "idle_share"),
    "--max-step-ms": ("1e9", None),
}
"""Each limit of `check` that everything keeps, and the key of the JSON without which it cannot be judged."""


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


def checked(path: Path, budgets: list[str]) -> int:
    """The exit code of `tracelens check`."""
    limits = [word for name in budgets for word in (name, BUDGETS[name][0])]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return cli.main(["check", str(path), *limits])


def some_budgets(chance: random.Random) -> list[str]:
    return chance.sample(sorted(BUDGETS), chance.randrange(1, len(BUDGETS) + 1))


def judge_damaged(file: PlainTrace, path: Path, budgets: list[str], ended: dict[int, int]) -> Iterator[str]:
    diagnosis = diagnosed(path)
    whole = diagnosis.timeline.trace.completeness
    if whole.reason or len(diagnosis.timeline.trace) < len(file.rows):
        yield from untruths(file, diagnosis)
        code = _counted(checked(path, budgets), ended)
        if code != INCONCLUSIVE:
            yield f"check {' '.join(budgets)} ends with {code}"


def _counted(code: int, ended: dict[int, int]) -> int:
    ended[code] = ended.get(code, 0) + 1
    return code


def judge_stripped(
    before: dict[str, Any], path: Path, names: list[str], budgets: list[str], ended: dict[int, int]
) -> Iterator[str]:
    after = json_report.document(diagnosed(path))
    code = _counted(checked(path, budgets), ended)
    unknown = [key for name in budgets if (key := BUDGETS[name][1]) and after[key] is None]
    unknown += ["syncs"] if "--max-syncs-per-step" in budgets and "calls" in names else []
    if code not in (PASSED, INCONCLUSIVE) or (code == PASSED and unknown):
        yield f"check {' '.join(budgets)} ends with {code}, without {', '.join(names)}; unknown: {unknown}"
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


@dataclasses.dataclass
class Results:
    """Of the cases of one kind."""

    asked: int
    done: int = 0
    right: int = 0
    refused: int = 0
    of_trace: dict[str, int] = dataclasses.field(default_factory=dict)
    check: dict[int, int] = dataclasses.field(default_factory=dict)
    """How often `check` ended with which exit code; a damaged file that lost nothing is not checked."""
    wrong: list[str] = dataclasses.field(default_factory=list)
    """The sentences that were not so, with the case and the trace."""


def run_case(kind: str, number: int, files: list[PlainTrace], folder: Path, results: Results) -> None:
    """One case, counted in `results`; what is wrong is printed, too."""
    chance = random.Random(f"{kind} {number}")
    (file,) = chance.choices(files, [len(file.raw) ** -0.5 for file in files])  # large files cost the most time
    results.done += 1
    results.of_trace[file.name] = results.of_trace.get(file.name, 0) + 1
    try:
        wrong = list(CASES[kind](file, chance, folder, results.check))
    except TracelensError:
        results.refused += 1
        return
    except Exception:
        wrong = [traceback.format_exc()]
    results.right += not wrong
    for sentence in wrong:
        results.wrong.append(f"{kind} case {number} of {file.name}: {sentence}")
        print(results.wrong[-1], flush=True)


def campaign(
    asked: Mapping[str, int], first: int, files: list[PlainTrace], seconds: float
) -> Iterator[dict[str, Results]]:
    """The results after each case; ends with the last case, or when the time is over."""
    results = {kind: Results(count) for kind, count in asked.items()}
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="tracelens-incomplete-") as folder:
        while time.monotonic() < end:
            left = [kind for kind, row in results.items() if row.done < row.asked]
            if not left:
                return
            kind = min(left, key=lambda kind: results[kind].done / results[kind].asked)
            run_case(kind, first + results[kind].done, files, Path(folder), results[kind])
            yield results


def _damaged_case(file: PlainTrace, chance: random.Random, folder: Path, ended: dict[int, int]) -> Iterator[str]:
    name, data = damaged(file, chance)
    (folder / name).write_bytes(data)
    yield from judge_damaged(file, folder / name, some_budgets(chance), ended)


def _stripped_case(file: PlainTrace, chance: random.Random, folder: Path, ended: dict[int, int]) -> Iterator[str]:
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
    whole = json.loads(before.read_text(encoding="utf-8"))
    yield from judge_stripped(whole, path, names, some_budgets(chance), ended)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damaged", type=int, default=2000)
    parser.add_argument("--stripped", type=int, default=500)
    parser.add_argument(
        "--largest", type=int, default=200_000, help="packed bytes of a trace; larger ones are left out"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seconds", type=float, default=3600.0, help="no case is begun after that")
    parser.add_argument("--json", type=Path, help="file for the results, written anew every now and then")
    given = parser.parse_args()
    paths = [path for path in sorted(TRACES.glob("*/*.json.gz")) if path.stat().st_size <= given.largest]
    files = [plain_trace.read(path) for path in paths]
    asked = {"damaged": given.damaged, "stripped": given.stripped}
    results = {kind: Results(count) for kind, count in asked.items()}
    for results in campaign(asked, given.first, files, given.seconds):
        if given.json and sum(row.done for row in results.values()) % KEPT_EVERY == 0:
            _keep(given, results, paths)
    if given.json:
        _keep(given, results, paths)
    for kind, row in results.items():
        counts = f"{row.right} right, {row.refused} refused, {len(row.wrong)} wrong"
        print(
            f"{kind}: {row.done} of {row.asked} files from {len(files)} traces: {counts}; check: {row.check}",
            flush=True,
        )
    return 1 if any(row.wrong for row in results.values()) else 0


def _keep(given: argparse.Namespace, results: dict[str, Results], paths: list[Path]) -> None:
    words = [f"--{name} {getattr(given, name):g}" for name in ("damaged", "stripped", "largest", "first", "seconds")]
    document = {
        "command": f"python -m tests.fuzz.incomplete {' '.join(words)}",
        "traces": [f"{path.parent.name}/{path.name}" for path in paths],
        "cpu_seconds": round(time.process_time()),
        "results": {kind: dataclasses.asdict(row) for kind, row in results.items()},
    }
    given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


CASES: dict[str, Callable[..., Iterator[str]]] = {"damaged": _damaged_case, "stripped": _stripped_case}

if __name__ == "__main__":
    sys.exit(main())
