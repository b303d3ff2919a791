"""Two arms held against each other, and what one arm shows: numbers, waits, memory, what its patch changes.

In: what the arms left behind. Out: JSON values for the row's file, None where there is no difference.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

from worker import Result

from tracelens.model import Patch
from tracelens.verify import trial_process
from tracelens.verify.compare import numbers
from tracelens.verify.compare.window_statistics import memory_slope


def described(patch: Patch) -> dict[str, Any]:
    return {
        "hunks": dict(Counter(hunk.edit for hunk in patch.hunks)),
        "tiers": dict(Counter(hunk.tier for hunk in patch.hunks)),
        "declined": [f"{one.location.path}:{one.location.line} {one.edit}: {one.obstacle}" for one in patch.declined],
        "patched": not patch.empty,
        "sha256": hashlib.sha256(b"".join(file.after for file in patch.files)).hexdigest(),
    }


def record(result: Result) -> trial_process.ProcessRecord:
    arm = trial_process.TrialProcess("version", "numbers", 0, 0)
    ranks = (result.record,) if result.record is not None else ()
    return trial_process.ProcessRecord(arm, result.seconds, result.stdout, result.stderr, ranks)


def parted(original: Result, other: Result, more: tuple[Result, ...] = ()) -> str | None:
    """Where two arms part: how they ended, losses, weights, buffers, then the printed lines in order."""
    if original.status != other.status:
        return f"ended with {other.status}, the original with {original.status}"
    if (original.record is None) != (other.record is None):
        return "only one of them made a training step"
    if original.record is not None:
        found = numbers.tensor_difference(record(original), record(other))
        if found is not None:
            return f"{found.part}: {found}"
    if not more:
        return None
    printed, mask = numbers.output_difference([record(one) for one in (original, *more)], record(other))
    if not mask.comparable:
        return "two originals print different numbers of lines"
    return None if printed is None else f"{printed.part}: {printed}"


def lines_lost(original: Result, patched: Result) -> int:
    """How many fewer a version has printed where both were ended."""
    return len(original.stdout.splitlines()) - len(patched.stdout.splitlines())


def as_long_as(patched: Result, *originals: Result) -> list[Result]:
    """The originals without the lines behind the last that a version has printed which loses some where it is ended."""
    count = len(patched.stdout.splitlines())
    return [replace(one, stdout="".join(one.stdout.splitlines(keepends=True)[:count])) for one in originals]


def left(result: Result) -> dict[str, Any]:
    if result.record is None:
        return {"ended": result.status}
    return {"ended": result.status, **numbers.compared_counts(record(result)), "stopped": result.record["stopped"]}


def memory(samples: list[tuple[int, int, int]]) -> dict[str, Any] | None:
    """How much more is held in the last tenth of the steps than in the second one; None for a short run."""
    tenth = len(samples) // 10
    if tenth < 10:
        return None
    early, late = samples[tenth : 2 * tenth], samples[-tenth:]
    grown = [max(one[column] for one in late) - max(one[column] for one in early) for column in (1, 2)]
    return {
        "steps": samples[-1][0],
        "device_growth_bytes": grown[0],
        "host_growth_bytes": grown[1],
        "device_slope_bytes_per_step": memory_slope([(step, held) for step, held, _ in samples]),
    }


def syncs(result: Result) -> dict[str, Any] | None:
    if result.syncs is None:
        return None
    steps, kinds = result.syncs["steps"], Counter()
    for place, count in result.syncs["places"].items():
        kinds[place.rsplit(" ", 1)[0]] += count
    return {
        "per_step": {kind: round(count / steps, 3) for kind, count in sorted(kinds.items())},
        "places": {place: round(count / steps, 3) for place, count in sorted(result.syncs["places"].items())},
    }
