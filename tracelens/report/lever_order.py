"""The order of a Run's levers for people, and the few that the first screen has room for.

In: a PlannedDiagnosis, whose levers have ranks. Out: the same levers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tracelens.model import Lever, PlannedDiagnosis
from tracelens.report import next_commands

MOST_LEVERS = 5
ENOUGH_LEVERS = 3
"""That gain: beside so many what nobody tried is left to `-v`."""


def ordered_levers(diagnosis: PlannedDiagnosis) -> list[Lever]:
    """Those that gain for certain, then what nobody tried, then what gains nothing; variants of one stay together.

    Where nothing gains for certain, what was measured against the largest loss comes before what nobody tried.
    """
    known = [lever for lever in diagnosis.levers if lever.state in ("measured", "predicted") and lever.known]
    gains = [lever for lever in known if lever.known is not None and lever.known.excludes_zero]
    untried = [lever for lever in diagnosis.levers if lever.state == "not_tried" and lever.command]
    recommended = diagnosis.recommendation.scheme or diagnosis.recommendation.lever
    largest = diagnosis.owners.remedies_of_largest
    first = gains or [lever for lever in known if lever.state == "measured" and setting(lever) in largest]
    ordered = (*_with_variants(first, recommended), *_with_variants(untried, recommended))
    return [*ordered, *(lever for lever in known if lever not in first)]


def _with_variants(levers: Iterable[Lever], recommended: str | None) -> Iterator[Lever]:
    """Values of one setting behind one another, in the place of the best of them, the recommended one first."""
    groups: dict[str, list[Lever]] = {}
    for lever in levers:
        groups.setdefault(setting(lever), []).append(lever)
    for group in groups.values():
        yield from sorted(group, key=lambda lever: lever.id != recommended)


def setting(lever: Lever) -> str:
    """What it sets: `workers` of `workers=8`."""
    return lever.id.partition("=")[0]


def first_levers(levers: Sequence[Lever], diagnosis: PlannedDiagnosis) -> Sequence[Lever]:
    """Few of them, and beside three that gain none that nobody tried; of those one value each, as on the page."""
    known = [lever for lever in levers[:MOST_LEVERS] if lever.known is not None]
    kept = {
        *{setting(lever): lever.id for lever in reversed(levers)}.values(),
        *next_commands.worth_a_trial(diagnosis),
    }
    few = [lever for lever in levers if lever.known is not None or lever.id in kept]
    return known if len(known) >= ENOUGH_LEVERS else few[:MOST_LEVERS]
