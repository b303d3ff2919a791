"""What combinations of Edits buy, and a drawn step of each, for reports in which people select Edits.

In: a ReplayTrace, the Edits of several schemes. Out: a `WhatIf` with one replay per combination, and `DrawnStep` steps.
Each combination is replayed as one set, because the gains of single Edits do not add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from tracelens.edit_kinds import EditKind, NotReplayed, one_change, replay_rule
from tracelens.model import Combination, DrawnStep, Edit, Estimate, PlannedDiagnosis, WhatIf
from tracelens.replay import estimate
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.step_timeline import draw_step

MOST_CHANGES = 4
"""16 combinations: each further change doubles the time that a report takes, 1 to 4 s at this number."""


def illustrations(trace: ReplayTrace, planned: PlannedDiagnosis) -> tuple[WhatIf | None, tuple[DrawnStep, ...]]:
    """Combinations and pictures; none where the trace does not carry a replay."""
    if trace.unresolved_waits or planned.breakdown is None:
        return None, ()
    known = {scheme.edits: planned.replayed[scheme.id] for scheme in planned.schemes if scheme.id in planned.replayed}
    after = _shown(planned)
    pictures = (draw_step(trace, (), None), *((draw_step(trace, after[1], after[0]),) if after else ()))
    tried = what_if(trace, [scheme.edits for scheme in planned.schemes], known)
    return tried, pictures


def _shown(planned: PlannedDiagnosis) -> tuple[str, tuple[Edit, ...]] | None:
    """Id and Edits of what is recommended, a scheme or a lever that can be replayed, else of the scheme that the replay
    finds fastest."""
    replayed = {scheme.id: scheme.edits for scheme in planned.schemes if scheme.id in planned.replayed}
    levers = {name: own for name, own in planned.edits_of_levers.items() if name in planned.replayed and _drawable(own)}
    for wanted in (planned.recommendation.scheme, planned.recommendation.lever):
        if wanted is not None and (chosen := {**levers, **replayed}.get(wanted)):
            return wanted, chosen
    fastest = min(replayed, key=lambda name: planned.replayed[name].step_ns, default=None)
    return None if fastest is None else (fastest, replayed[fastest])


def _drawable(edits: Sequence[Edit]) -> bool:
    return not any(isinstance(replay_rule(edit.kind), NotReplayed) for edit in edits)


def what_if(
    trace: ReplayTrace, schemes: Sequence[Sequence[Edit]], known: Mapping[tuple[Edit, ...], Estimate]
) -> WhatIf | None:
    """Every combination of the schemes' changes; `known` are replays that were made already. None without Edits.

    Of two schemes that change the same place in different ways, the earlier one counts.
    """
    changes = _changes(schemes)[:MOST_CHANGES]
    sets = [chosen for size in range(1, len(changes) + 1) for chosen in combinations(range(len(changes)), size)]
    out = []
    for chosen in sets:
        edits = tuple(edit for position in chosen for edit in changes[position])
        answer = known.get(edits) or estimate.predict(trace, edits)
        if isinstance(answer, Estimate):
            out.append(Combination(chosen, answer))
    return WhatIf(changes, tuple(out)) if out else None


def _changes(schemes: Iterable[Sequence[Edit]]) -> tuple[tuple[Edit, ...], ...]:
    """One change per kind of Edit, as the first scheme has it that has one."""
    by_family: dict[frozenset[EditKind], tuple[Edit, ...]] = {}
    for edits in schemes:
        mine: dict[frozenset[EditKind], tuple[Edit, ...]] = {}
        for edit in edits:
            family = one_change(edit.kind)
            mine[family] = (*mine.get(family, ()), edit)
        by_family |= {family: change for family, change in mine.items() if family not in by_family}
    return tuple(by_family.values())
