"""Which statements that wait share one list: all of a loop where they can, else those that touch the same results.

In: a `Deferral`. Out: a run for each list, at the place of the last of its statements; what the others keep is taken
where they stand, unless it is the same by then. One list of tuples keeps the order of the statements, and is made, read
and emptied once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import meets, rebound, targets, walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.deferral import value_types
from tracelens.patch.deferral.captures import Capture, counts
from tracelens.patch.deferral.direct_calls import has_comments
from tracelens.patch.deferral.planning import Deferral, StatementRun
from tracelens.patch.deferral.unchanged import unchanged
from tracelens.patch.deferral.waiting import changed_by
from tracelens.patch.effects.kind import RESHAPE
from tracelens.patch.loop.facts import LoopFacts

_JUMPS = (cst.Break, cst.Continue, cst.Return, cst.Raise)
_RESHAPES = re.compile(rf"\.({'|'.join(sorted(RESHAPE))}|resize)\(|\.(data|shape)\s*=[^=]|def\s+size\(|\bshape\(self")
"""What gives a tensor or an array another size in its place, or says what its size is."""


def lists(deferral: Deferral, likely: bool) -> list[StatementRun | None]:
    """The runs as one, whose list holds all values of a batch; where they cannot be, one for those that share results.

    None for runs that have to be together and cannot. `likely`: a value that is read twice is kept once also where it
    is only likely to be the same both times.
    """
    runs = [_typed(deferral.facts, run) for run in deferral.runs]
    together = _joined(deferral, runs, likely)
    if together is not None:
        return [together]
    typed = dict(zip(deferral.runs, runs, strict=True))
    groups = [[typed[run] for run in group] for group in _sharing(deferral)]
    return [_joined(deferral, group, likely) or _of_one_text(deferral.facts, group) for group in groups]


def _of_one_text(facts: LoopFacts, runs: Sequence[StatementRun]) -> StatementRun | None:
    """Runs of several branches that say the same of the same values, as with and without autocast: what one of them has
    kept, the lines of the other read. A comment is another text, since one of the two would be lost."""
    first = runs[0]
    same = (_told(facts, run) == _told(facts, first) for run in runs[1:])
    if any(has_comments(node) for run in runs[1:] for node in run.statements) or not all(same):
        return None
    return replace(first, again=tuple(runs[1:]))


def _told(facts: LoopFacts, run: StatementRun) -> tuple[object, ...]:
    texts = tuple(facts.source.code(node).strip() for node in run.statements)
    return texts, tuple((one.name, one.text, one.read, len(one.nodes)) for one in run.captures)


def _sharing(deferral: Deferral) -> list[list[StatementRun]]:
    """The runs, those together that touch the same results and so keep their order."""
    groups: list[tuple[frozenset[str], list[StatementRun]]] = []
    for run in deferral.runs:
        keys = _keys(deferral, run)
        meeting = [group for group in groups if meets(group[0], keys)]
        joined = [*(one for _, runs in meeting for one in runs), run]
        groups = [group for group in groups if group not in meeting]
        groups.append((keys.union(*(group[0] for group in meeting)), joined))
    return [sorted(runs, key=deferral.runs.index) for _, runs in groups]


def _keys(deferral: Deferral, run: StatementRun) -> frozenset[str]:
    facts = deferral.facts
    touched = frozenset(name for statement in run.statements for name in facts.touched(statement))
    changed = frozenset(name for statement in run.statements for name in changed_by(facts, statement))
    results = frozenset(name for name in touched | changed if meets(frozenset({name}), deferral.state))
    return facts.aliases(results & deferral.state) | results


def _joined(deferral: Deferral, runs: Sequence[StatementRun], likely: bool) -> StatementRun | None:
    """Runs as one, at the place of the last; None where what the others keep could be another value by then."""
    if len(runs) == 1:
        return runs[0]
    facts = deferral.facts
    block = facts.source.parent(runs[0].statements[0])
    if any(facts.source.parent(run.statements[0]) is not block for run in runs) or not isinstance(
        block, (cst.IndentedBlock, cst.Module)
    ):
        return None
    own = {statement for run in runs for statement in run.statements}
    body = list(block.body)
    first = next(n for n, node in enumerate(body) if node is runs[0].statements[0])
    last = next(n for n, node in enumerate(body) if node is runs[-1].statements[-1])
    between = [node for node in body[first : last + 1] if node not in own]
    inside = {part for node in between for part in walk(node)}
    if any(isinstance(part, _JUMPS) for part in inside) or any(drain in inside for drain in deferral.drains):
        return None
    captures: dict[str, Capture] = {}
    for run in runs:
        for capture in run.captures:
            early = run is not runs[-1] and not _stays_the_same(facts, capture, between)
            again = early and any(_is_the_same(capture, other) for other in runs[-1].captures)
            certain = unchanged(facts, capture, between) if again else ""
            if certain == "proved" or (certain and likely):
                capture, early = replace(capture, likely=certain == "likely"), False
            if capture.name in captures and not capture.nodes and (early or captures[capture.name].early):
                return None  # one name of the script for two values
            _add(captures, facts, _taken_early(captures, facts, capture, run) if early else capture)
    return StatementRun(tuple(node for run in runs for node in run.statements), tuple(captures.values()))


def _taken_early(captures: dict[str, Capture], facts: LoopFacts, capture: Capture, run: StatementRun) -> Capture:
    """The value as it is where its own statement stands: what follows there may change it, as a step a parameter."""
    taken = {name for one in captures.values() for name in (one.name, one.early)}
    name = unused_name(f"kept_{capture.name.removesuffix('_value')}", facts.taken, taken)
    return replace(capture, at=run.statements[-1], early=name)


def _add(captures: dict[str, Capture], facts: LoopFacts, capture: Capture) -> None:
    for name, known in captures.items():
        if _is_the_same(known, capture):
            captures[name] = replace(known, nodes=(*known.nodes, *capture.nodes))
            return
    name = unused_name(capture.name, captures, facts.taken) if capture.name in captures else capture.name
    captures[name] = replace(capture, name=name)


def _is_the_same(one: Capture, other: Capture) -> bool:
    return (one.text, one.read, one.at) == (other.text, other.read, other.at)


def _stays_the_same(facts: LoopFacts, capture: Capture, between: Sequence[cst.CSTNode]) -> bool:
    """Whether a value can be taken after some statements as well as before them: a name that they leave alone, or a
    size of what it stands for.

    A tensor is what its memory holds, which any call may change, and any store: whoever has it by another name.
    """
    sized = None if _may_reshape(facts.source) else _sized(capture.value)
    value = sized if sized is not None else capture.value
    if not isinstance(value, cst.Name):
        return False
    parts = [part for node in between for part in walk(node)]
    statements = [part for part in parts if isinstance(part, (cst.BaseSmallStatement, cst.For, cst.With))]
    if any(value.value in rebound(part) for part in statements):
        return False
    return sized is not None or not capture.read or not any(_may_store(part) for part in (*parts, *statements))


@lru_cache(maxsize=PARSED_FILES)
def _may_reshape(source: SourceFile) -> bool:
    return _RESHAPES.search(source.project_text) is not None


def _may_store(part: cst.CSTNode) -> bool:
    """Whether the memory of some tensor may be another afterwards."""
    if isinstance(part, (cst.Call, cst.AugAssign, cst.Del, cst.With)):
        return True
    return isinstance(part, (cst.Assign, cst.AnnAssign, cst.For)) and not all(
        isinstance(target, cst.Name) for target in targets(part)
    )


def is_size(value: cst.BaseExpression) -> bool:
    """Whether a value is written as one of the sizes of a tensor: `x.size(0)`, `x.shape[0]`, `x.size()[0]`."""
    return _sized(value) is not None


def _sized(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a size is one of."""
    of = value.value if isinstance(value, cst.Subscript) else value
    called = isinstance(of, cst.Call) and (of is value) == bool(of.args)
    made = of.func if isinstance(of, cst.Call) and called else of
    whole = isinstance(made, cst.Attribute) and made.attr.value == ("size" if called else "shape")
    return made.value if isinstance(made, cst.Attribute) and whole and (called or of is not value) else None


def _typed(facts: LoopFacts, run: StatementRun) -> StatementRun:
    """A run in which what is a number, or counts as one does, is kept as it is, whatever it is used for."""
    captures = (
        replace(capture, read="") if value_types.is_number(capture.value, facts) or _counts(facts, capture) else capture
        for capture in run.captures
    )
    return StatementRun(run.statements, tuple(captures))


def _counts(facts: LoopFacts, capture: Capture) -> bool:
    """Whether a value that is shown is a counter of the loop, `step += 1`, whatever it began with."""
    shown = capture.read in ("formatted", "number") and isinstance(capture.value, cst.Name)
    return shown and counts(cst.ensure_type(capture.value, cst.Name).value, facts)
