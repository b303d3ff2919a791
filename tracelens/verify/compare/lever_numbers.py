"""Whether a lever changes numbers: bit for bit, then beside what other seeds change.

In: the records of the original, of the lever, and of the original under other seeds. Out: the first difference, and
what it is called.

What a lever adds by itself is no number of the training: the entry `fused` of an optimizer, or the modules that
torch.compile makes while it traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracelens.model import LeverNumbers
from tracelens.verify.compare import numbers, seed_tolerance
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.compare.seed_tolerance import SeedTolerance
from tracelens.verify.trial_process import ProcessRecord

_OWN_SETTINGS = ("fused", "foreach")


def difference(original: ProcessRecord, record: ProcessRecord) -> Difference | None:
    """The first loss, setting, parameter or buffer that differs; None where all are equal, bit for bit."""
    names = [{entry["name"] for entry in rank["state"]} for rank in original.ranks]
    plain = replace(original, ranks=tuple(_without_own(rank, None) for rank in original.ranks))
    known = names if len(names) == len(record.ranks) else [None] * len(record.ranks)
    other = replace(
        record, ranks=tuple(_without_own(rank, keep) for rank, keep in zip(record.ranks, known, strict=True))
    )
    return numbers.tensor_difference(plain, other)


def _without_own(rank: Mapping[str, Any], names: set[str] | None) -> dict[str, Any]:
    settings = [entry for entry in rank.get("settings", ()) if not entry["name"].endswith(_OWN_SETTINGS)]
    state = [entry for entry in rank["state"] if names is None or entry["name"] in names]
    return {**rank, "settings": settings, "state": state}


def tolerance(originals: Sequence[ProcessRecord], record: ProcessRecord, block: int) -> SeedTolerance:
    """The loss curve of a lever beside those of the original under several seeds; the rank that fits least."""
    per_rank = []
    for number in range(len(record.ranks)):
        curves = [seed_tolerance.losses_of(run.ranks[number]) for run in originals]
        losses = seed_tolerance.losses_of(record.ranks[number])
        per_rank.append(seed_tolerance.judge(curves, losses, record.steps, block))
    return next((judged for judged in per_rank if judged.verdict == "diverges"), per_rank[0])


def called(judged: SeedTolerance | None) -> LeverNumbers:
    """The word for numbers that differ."""
    if judged is None or judged.verdict is None:
        return "unknown"
    return "inside_seed_band" if judged.verdict == "within seed noise" else "outside_seed_band"
