"""thin-logs (unsafe): lines that show a value of each batch are written every N batches only.

In: a RecipeRequest. Out: one Proposal per loop. Statements stay where they stand, below a condition on the number of
the batch, so that those that are written show what they always showed. Sums, meters and lists are not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.model import Declined, Location
from tracelens.patch.code.names import dotted, is_output, key, method_of, root_key, variables, walk
from tracelens.patch.code.outside import BESIDES
from tracelens.patch.deferral.loop_lines import below
from tracelens.patch.effects.file_lines import SETS_BAR_TEXT
from tracelens.patch.effects.words import words
from tracelens.patch.loop import guards, host
from tracelens.patch.loop.facts import LoopFacts, facts_of, is_pure
from tracelens.patch.loop.loops import (
    Blocked,
    Loop,
    check_framework,
    check_kept,
    check_unpatched,
    declared,
    for_loop_of_training,
)
from tracelens.patch.loop.sites import find, read_of
from tracelens.patch.loop.thinned import BY_HAND, MARK, check_unwatched, is_thinned
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, Target, evidence
from tracelens.patch.recipes.every_nth import condition, groups, line_at

_SHOWS = SETS_BAR_TEXT | words(
    "add_scalar add_scalars add_text write writelines writerow log_metric log_metrics report_scalar"
)
"""Methods of progress bars, event files, files and trackers: they show a value and keep nothing for the script."""
_ASKS = ("time.", "datetime.", "torch.cuda.memory", "torch.cuda.max_memory", "torch.cuda.get_device")
"""Calls that only tell something."""


def propose(request: RecipeRequest) -> RecipeAnswer:
    found: dict[int, tuple[Loop, list[tuple[_Place, Target]]]] = {}
    declined: list[Declined] = []
    for target in request.targets:
        place = _place(request, target)
        if place is None:
            continue
        try:
            _check(request, place)
        except Blocked as blocked:
            declined.append(request.decline(place.lines[0], blocked))
            continue
        found.setdefault(id(place.loop), (place.loop, []))[1].append((place, target))
    proposals = [_proposal(request, loop, members) for loop, members in found.values()]
    if request.unsafe:
        return RecipeAnswer(tuple(proposals), tuple(declined))
    for proposal in proposals:
        why = say("needs --unsafe: {reason}", reason=proposal.reason)
        by_hand = say("apply with --unsafe, or {else_}", else_=BY_HAND)
        declined.append(Declined("thin-logs", proposal.location, why, by_hand))
    return RecipeAnswer((), tuple(declined))


@dataclass(frozen=True)
class _Place:
    """Lines that show a value: the statement that the recording names, and those that show what it assigns."""

    loop: cst.For
    lines: tuple[cst.SimpleStatementLine, ...]


def _place(request: RecipeRequest, target: Target) -> _Place | None:
    """What stands at a line, if it is of this kind at all: written, shown, or read for nothing else."""
    line = line_at(request.source, target.line)
    if line is None:
        return None
    loop = for_loop_of_training(request.source, line)
    if loop is None or is_thinned(request.source, line) or _ends(request, loop, line):
        return None
    small = line.body[0]
    if _shows(small, request):
        return _Place(loop, (line,))
    users = _users(request, loop, line) if isinstance(small, cst.Assign) else ()
    return _Place(loop, (line, *users)) if users else None


def _ends(request: RecipeRequest, loop: Loop, line: cst.CSTNode) -> bool:
    """Whether a line is in a branch that leaves the batch: such a line is not written in each batch."""
    for above in request.source.ancestors(line):
        if above is loop:
            return False
        last = above.body[-1] if isinstance(above, cst.IndentedBlock) else None
        small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None
        if isinstance(small, (cst.Raise, cst.Return, cst.Break, cst.Continue, cst.Assert)):
            return request.source.parent(above) is not loop
        if small is not None and guards.is_exit(small, request.names):
            return request.source.parent(above) is not loop
    return False


def _shows(small: cst.CSTNode, request: RecipeRequest) -> bool:
    """`print(…)`, `logger.info(…)`, `bar.set_postfix(…)`, `writer.add_scalar(…)`, `file.write(…)`."""
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    return is_output(call, request.names) or method_of(call) in _SHOWS


def _users(request: RecipeRequest, loop: cst.For, line: cst.SimpleStatementLine) -> tuple[cst.SimpleStatementLine, ...]:
    """The lines that show the value of a plain assignment, where nothing else in its function looks at it."""
    assign = cst.ensure_type(line.body[0], cst.Assign)
    target = assign.targets[0].target
    if len(assign.targets) > 1 or not isinstance(target, cst.Name) or read_of(assign.value) is None:
        return ()
    source, facts = request.source, facts_of(request.source, loop)
    if target.value in declared(facts.scope, cst.Global):
        return ()
    uses = [v for v in variables(facts.scope) if key(v) == target.value and v is not target]
    block = source.parent(line)
    out: dict[int, cst.SimpleStatementLine] = {}
    for use in uses:
        shown = next((one for one in source.ancestors(use) if isinstance(one, cst.SimpleStatementLine)), None)
        if shown is None or not any(above is block for above in source.ancestors(shown)):
            return ()
        if source.line(shown) <= source.line(line) or len(shown.body) > 1 or not _shows(shown.body[0], request):
            return ()
        out[id(shown)] = shown
    return tuple(out.values())


def _check(request: RecipeRequest, place: _Place) -> None:
    """Raise `Blocked` where the lines do more than show a value, or must stay for another reason."""
    check_framework(request.names, reads=True)
    check_unpatched(place.loop, request.names)
    if place.loop.asynchronous is not None:
        raise Blocked(place.loop, say("the training loop is an async for"), BY_HAND)
    if not all(request.source.means_builtin(name) for name in ("enumerate", "range")):
        raise Blocked(place.loop, say("`enumerate` or `range` is the file's own"), BY_HAND)
    facts = facts_of(request.source, place.loop)
    for line in place.lines:
        small = line.body[0]
        check_unwatched(facts, line)
        check_kept(request.source, small, line)
        if not isinstance(request.source.parent(line), cst.IndentedBlock):
            raise Blocked(line, say("it does not stand in a block of its own"), BY_HAND)
        values = [small.value] if isinstance(small, cst.Assign) else _values(small)
        for value in values:
            _check_value(value, facts)
        if isinstance(small, cst.Expr):
            _check_call(cst.ensure_type(small.value, cst.Call), facts)


def _values(small: cst.CSTNode) -> list[cst.BaseExpression]:
    call = cst.ensure_type(cst.ensure_type(small, cst.Expr).value, cst.Call)
    owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    return [*owner, *(argument.value for argument in call.args)]


def _check_call(call: cst.Call, facts: LoopFacts) -> None:
    """The call itself: one of the file's own functions, or an object of the training, may do more than show."""
    name = dotted(call.func)
    root = root_key(call.func.value) if isinstance(call.func, cst.Attribute) else ""
    if name in facts.names.functions and not _only_shows(call, name, facts):
        raise Blocked(call, say("`{name}(…)` does more than print", name=name), BY_HAND)
    if root and (host.TRAINERS.search(root.rpartition(".")[2]) or root in facts.trained):
        raise Blocked(call, say("the value reaches `{name}(…)`, which takes part in the training", name=name), BY_HAND)
    if method_of(call) and facts.alone(call).of_project:  # a class of the project
        raise Blocked(call, say("`{name}(…)` may do more than write a line", name=name), BY_HAND)


def _check_value(value: cst.BaseExpression, facts: LoopFacts) -> None:
    """Whatever is not evaluated any more must not have changed anything: no draw, no update, no other batch taken."""
    for part in walk(value):
        if isinstance(part, (cst.NamedExpr, cst.Await, cst.Yield)):
            raise Blocked(part, say("the line also binds a name, or waits"), BY_HAND)
        if isinstance(part, cst.Call) and not _tells(part, facts):
            raise Blocked(
                part, say("`{call}(…)` in it may change something", call=dotted(part.func) or "a call"), BY_HAND
            )
        if isinstance(part, cst.Attribute) and facts.behind(part).changed:
            raise Blocked(part, say("`{attr}` in it may change something", attr=part.attr.value), BY_HAND)


def _tells(call: cst.Call, facts: LoopFacts) -> bool:
    full = facts.names.qualified(call.func)
    if is_pure(full) or full.startswith(_ASKS) or read_of(call) is not None:
        return True
    if full in facts.names.functions:
        return _only_shows(call, full, facts)
    return host.repeats(call, facts)


def _only_shows(call: cst.Call, name: str, facts: LoopFacts) -> bool:
    """Whether a function of the file computes and writes lines, and neither draws nor changes anything."""
    behind, names = facts.behind(call), facts.names
    inner = [part for node in names.functions[name] for part in walk(node.body) if isinstance(part, cst.Call)]
    plain = all(names.qualified(part.func) == "print" or host.repeats(part, facts) for part in inner)
    return plain and host.host_only(name, names) and not behind.draws and not behind.changed - BESIDES


# --------------------------------------------------------------------------------------------------- the hunk


def _proposal(request: RecipeRequest, loop: Loop, members: Sequence[tuple[_Place, Target]]) -> Proposal:
    source, every = request.source, request.edit.interval
    over = cst.ensure_type(loop, cst.For)
    lines = {id(line): line for place, _ in members for line in place.lines}
    ordered = sorted(lines.values(), key=source.line)
    test, head = condition(request, over)
    splices = [*head]
    for group in groups(source, ordered):
        splices += below(source, group, f"if {test}:  {MARK}")
    inside = {id(node) for line in ordered for node in walk(line)}
    sites = find(source)
    covered = {target.line for _, target in members} | {source.line(line) for line in ordered}
    return Proposal(
        edit="thin-logs",
        tier="unsafe",
        location=request.place(ordered[0], source.function_around(ordered[0])),
        reason=say("only the lines of every {every}th batch are written: the others are lost", every=every),
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        splices=tuple(splices),
        rare=tuple(n for n, site in enumerate(sites) if id(site.node) in inside),
        covers=tuple(Location(source.shown, line) for line in sorted(n for n in covered if n is not None)),
    )
