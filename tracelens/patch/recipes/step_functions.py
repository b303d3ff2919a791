"""Step functions that log or add up what they read themselves: `self.total += loss.item()` in `train_step`.

In: a RecipeRequest. Out: one Proposal per function, `checked`: the loop is in another function, so what happens between
two calls is followed by names only. The function's statements wait in one `DeferredReads` of the file; the loop that
calls the function tells it where batches begin and end, so nothing waits longer than for a read of the loop's own, and
nothing is lost on the way out. Which statements may wait is planned as if the function's body were the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.messages import joined, say, say_count
from tracelens.patch.code.names import dotted, is_output, key, own_names, parameters, walk
from tracelens.patch.code.naming import take_name, unused_name
from tracelens.patch.code.outside import BESIDES, FILES, OUTPUT
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import loop_lines
from tracelens.patch.deferral.function import DeferredFunction, name_of
from tracelens.patch.deferral.planning import Deferral, plan_between
from tracelens.patch.effects.project import python_files
from tracelens.patch.files.vendored import MODULE
from tracelens.patch.loop.clock_spans import clock_spans
from tracelens.patch.loop.doubts import Doubts
from tracelens.patch.loop.facts import facts_of
from tracelens.patch.loop.loops import (
    DECIDES,
    RETURN_TENSOR,
    Blocked,
    Loop,
    check_scope,
    function_without_loop,
    head,
    is_rare,
    own_nodes,
    runs_at_once,
    scope_of,
)
from tracelens.patch.loop.sites import Site, find
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, Target, evidence, matched
from tracelens.patch.recipes.step_bodies import in_loop, top_of

_AROUND = 2
_STEPPERS = re.compile(r"optim|opt$|sched|scaler", re.IGNORECASE)
"""Names of objects of torch, whose methods are no methods of the file."""
_MORE = (cst.Call, cst.NamedExpr, cst.Await)
"""What a loop's condition may not hold: it moves into a function of its own."""


@dataclass(frozen=True)
class CalledStep:
    """A function that is called once per batch, by these calls alone, each in a loop of its own function."""

    node: cst.FunctionDef
    calls: tuple[cst.Call, ...]
    loops: tuple[Loop, ...]

    @property
    def name(self) -> str:
        return self.node.name.value


def propose(request: RecipeRequest, taken: frozenset[int]) -> RecipeAnswer:
    """Proposals for the step functions of the file; `taken`: the lines of loops in which something else changes.

    A function whose calls cannot be told is passed over: it is no step function then.
    """
    source = request.source
    found, _ = matched(request, "read")
    groups: dict[cst.FunctionDef, list[tuple[Site, Target]]] = {}
    for site, target in found:
        function = function_without_loop(source, site.node)
        if function is not None:
            groups.setdefault(function, []).append((site, target))
    proposals, declined, used = [], [], set[str]()
    for function, members in groups.items():
        try:
            step = step_function(source, function)
        except Blocked:
            continue  # is declined as a place outside of loops
        try:
            proposals.append(_proposal(request, step, members, taken, used))
        except Blocked as blocked:
            declined += [request.decline(site.node, blocked) for site, _ in members]
    return RecipeAnswer(tuple(proposals), tuple(declined))


def _proposal(
    request: RecipeRequest,
    step: CalledStep,
    members: Sequence[tuple[Site, Target]],
    taken: frozenset[int],
    used: set[str],
) -> Proposal:
    source = request.source
    if any(source.line(loop) in taken for loop in step.loops):
        raise Blocked(step.loops[0], say("the loop that calls it is changed already"), RETURN_TENSOR)
    made = in_loop(source, step.node)
    spans = {source.span(site.node) for site, _ in members}
    seeds = [site for site in find(made.source) if site.kind == "read" and made.before(site.node) in spans]
    if any(isinstance(site.statement, cst.Return) for site in seeds):
        raise Blocked(None, say("the value is returned"), RETURN_TENSOR)
    if not all(isinstance(site.statement, cst.BaseSmallStatement) for site in seeds) or not seeds:
        raise Blocked(None, DECIDES[0], RETURN_TENSOR)
    statements = list({id(site.statement): site.statement for site in seeds}.values())
    facts = replace(facts_of(made.source, made.loop), doubts=Doubts(asks_project=False))
    deferral = plan_between(facts, statements)
    _check_clocks(source, step, deferral)
    if any(not deferral.facts.in_rare_branch(drain) for drain in deferral.drains):
        raise Blocked(None, say("`{name}` uses the value in the same batch", name=step.name), RETURN_TENSOR)
    drains = list(_drains(source, step, _results(step.node, deferral)))
    ahead = take_name("ahead", source.identifiers, used)
    names = [take_name(name_of(facts, run), source.identifiers, used) for run in deferral.runs]
    moved = [DeferredFunction(facts, run, name, ahead) for run, name in zip(deferral.runs, names, strict=True)]
    inside = [one.call() for one in moved]
    inside += [_drain(made.source, node, ahead) for node in deferral.drains if isinstance(node, cst.BaseStatement)]
    splices = (
        *map(made.outside, inside),
        _defined(source, step, deferral, moved),
        *(_drain(source, node, ahead) for node in drains),
        *(splice for loop in dict.fromkeys(step.loops) for splice in _around(source, loop, ahead)),
        _made(source, step, ahead, request.edit.interval),
    )
    return _told(request, step, members, deferral, splices)


def _check_clocks(source: SourceFile, step: CalledStep, deferral: Deferral) -> None:
    """Raise `Blocked` where a clock is read between the call and the end of its batch, where the values are read."""
    timed = deferral.places.clock is not None
    for call, loop in zip(step.calls, step.loops, strict=True):
        spans, end = clock_spans(source, loop), source.span(loop)[1] - 1
        timed = timed or spans.loses(spans.start(call), [end])
    if timed:
        told = say("a time is measured around `{name}`, and the wait for the value is a part of it", name=step.name)
        raise Blocked(step.node, told, RETURN_TENSOR)


def _told(
    request: RecipeRequest,
    step: CalledStep,
    members: Sequence[tuple[Site, Target]],
    deferral: Deferral,
    splices: tuple[Splice, ...],
) -> Proposal:
    source, interval = request.source, request.edit.interval
    values = say_count(
        "{count} value read in each call of `{name}` and only logged or summed",
        "{count} values read in each call of `{name}` and only logged or summed",
        len(members),
        name=step.name,
    )
    when = say("every {interval} batches", interval=interval) if interval > 1 else say("as soon as the GPU has it")
    lines = ", ".join(str(source.line(loop)) for loop in dict.fromkeys(step.loops))
    proposal = Proposal(
        edit="defer-read",
        tier="safe",
        location=request.place(members[0][0].node, step.name),
        reason=joined(
            "; ",
            (
                say("{values}: read {when} of the loop in line {lines} instead", values=values, when=when, lines=lines),
                *deferral.notes,
            ),
        ),
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        splices=splices,
        needs_runtime=True,
        covers=tuple(request.place(site.node) for site, _ in members),
    )
    names = ", ".join(f"`{name}`" for name in sorted(deferral.state - {OUTPUT, FILES} - _bound_by(step.node)))
    looked = say("who looks at {names} or at lines", names=names) if names else say("who looks at lines")
    proposal = proposal.as_checked(
        say("{looked} between two calls of `{name}` is followed by names only", looked=looked, name=step.name)
    )
    return proposal.as_checked(deferral.unproved) if deferral.unproved else proposal


# ------------------------------------------------------------------------------------------- who calls it


def step_function(source: SourceFile, function: cst.FunctionDef) -> CalledStep:
    """The function with its calls; raises `Blocked` where it may be called otherwise than once per batch."""
    name, owner = function.name.value, _owner(source, function)
    if function.decorators or not runs_at_once(function):
        raise Blocked(
            function, say("`{name}` is decorated, a generator, or defines functions", name=name), RETURN_TENSOR
        )
    mentions = list(_mentions(source, name, isinstance(owner, cst.ClassDef)))
    calls = tuple(parent for parent in map(source.parent, mentions) if isinstance(parent, cst.Call))
    called = all(call.func in mentions for call in calls) and len(calls) == len(mentions) > 0
    if owner is None or not called or len(source.names.functions.get(name, ())) != 1:
        raise Blocked(function, say("who calls `{name}` cannot be told from this file", name=name), RETURN_TENSOR)
    if _known_elsewhere(source, name):
        raise Blocked(function, say("another file, which imports this one, knows `{name}`", name=name), RETURN_TENSOR)
    return CalledStep(function, calls, tuple(_loop_around(source, call) for call in calls))


def _owner(source: SourceFile, function: cst.FunctionDef) -> cst.CSTNode | None:
    """The class or the module that defines a function; None for one within another function or a condition."""
    block = source.parent(function)
    owner = source.parent(block) if isinstance(block, cst.IndentedBlock) else block
    return owner if isinstance(owner, (cst.ClassDef, cst.Module)) else None


def _mentions(source: SourceFile, name: str, is_method: bool) -> Iterator[cst.CSTNode]:
    """Where the file means the function: `self.step`, or any `step` of an object that is not known; a plain name."""
    for node in walk(source.module):
        if isinstance(node, cst.Attribute) and is_method and node.attr.value == name:
            if _STEPPERS.search(dotted(node.value).rpartition(".")[2]):
                continue  # `self.optimizer.step()`
            yield node if dotted(node) == f"self.{name}" else node.attr  # another object's: no call of this one
        elif isinstance(node, cst.SimpleString) and node.evaluated_value == name:
            yield node
        elif isinstance(node, cst.Name) and not is_method and node.value == name:
            parent = source.parent(node)
            named = isinstance(parent, (cst.FunctionDef, cst.Attribute)) or (
                isinstance(parent, cst.Arg) and parent.keyword is node
            )
            if not named or (isinstance(parent, cst.Attribute) and parent.value is node):
                yield node


def _known_elsewhere(source: SourceFile, name: str) -> bool:
    """Whether a file of the project that imports this one has the word."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    importing = re.compile(rf"^\s*(from|import)\b.*\b{re.escape(source.path.stem)}\b", re.MULTILINE)
    for path in python_files(source.root):
        if path != source.path and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if word.search(text) and importing.search(text):
                return True
    return False


def _loop_around(source: SourceFile, call: cst.Call) -> Loop:
    for ancestor in source.ancestors(call):
        if isinstance(ancestor, (cst.For, cst.While)):
            scope = scope_of(source, ancestor)
            check_scope(scope)
            if ancestor.orelse is not None or (isinstance(ancestor, cst.For) and ancestor.asynchronous is not None):
                break
            if call not in set(walk(ancestor.body)) or MODULE in source.code(head(ancestor)):
                break
            if isinstance(ancestor, cst.While) and any(isinstance(part, _MORE) for part in walk(ancestor.test)):
                break
            return ancestor
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.BaseComp)):
            break
    raise Blocked(call, say("it is called outside of a plain loop"), RETURN_TENSOR)


# --------------------------------------------------------------------------------------- who sees the results


def _bound_by(function: cst.FunctionDef) -> frozenset[str]:
    """Names that are the function's own: nobody else means the same by them."""
    return frozenset(own_names(function))


def _results(function: cst.FunctionDef, deferral: Deferral) -> frozenset[str]:
    """The results that others may look at; raises `Blocked` for an object that was handed over."""
    handed = sorted((deferral.state & parameters(function)) - {"self"})
    if handed or "self" in deferral.state:
        obstacle = say("`{handed}` was handed over, and is known by other names", handed=(handed or ["self"])[0])
        raise Blocked(function, obstacle, RETURN_TENSOR)
    return deferral.state - _bound_by(function)


def _drains(source: SourceFile, step: CalledStep, results: frozenset[str]) -> Iterator[cst.BaseStatement]:
    """Rare statements before which all that waits has to run; raises `Blocked` for one of each batch."""
    done = set[cst.CSTNode]()
    for part in _between(source, step):
        for node in walk(part):
            why = _sees(source, node, results) if node not in step.calls else ""
            if not why or node in done:
                continue
            around = (one for one in source.ancestors(node) if isinstance(one, cst.If) and node in set(walk(one.body)))
            block = next((one for one in around if is_rare(one.test, frozenset())), None)
            if block is None or not isinstance(block.body, cst.IndentedBlock):
                raise Blocked(node, say("it {why} in each batch", why=why), RETURN_TENSOR)
            done |= set(walk(block.body))
            yield block.body.body[0]


def _between(source: SourceFile, step: CalledStep) -> Iterator[cst.CSTNode]:
    """What runs between two calls: the loops' bodies and heads, and the functions of the file that they call."""
    seen: set[str] = {step.name}
    waiting: list[cst.CSTNode] = [part for loop in step.loops for part in (loop.body, head(loop))]
    while waiting:
        part = waiting.pop()
        yield part
        for node in walk(part):
            name = dotted(node.func).rpartition(".")[2] if isinstance(node, cst.Call) else ""
            if name and name not in seen:
                seen.add(name)
                waiting += [function.body for function in source.names.functions.get(name, ())]


def _sees(source: SourceFile, node: cst.CSTNode, results: frozenset[str]) -> str:
    if isinstance(node, (cst.Name, cst.Attribute)) and key(node) in results - BESIDES:
        return say("uses `{name}`", name=key(node))
    if isinstance(node, cst.Attribute) and f"self.{node.attr.value}" in results:
        return say("uses `{name}`", name=source.code(node))
    if isinstance(node, cst.Call) and results & BESIDES and is_output(node, source.names):
        return say("writes lines")
    return ""


# ------------------------------------------------------------------------------------------------- lines


def _defined(source: SourceFile, step: CalledStep, deferral: Deferral, moved: Sequence[DeferredFunction]) -> Splice:
    """The definitions, at the top of the function, below its docstring."""
    statements = list(step.node.body.body)
    documented = step.node.get_docstring() is not None and len(statements) > 1
    first = statements[1 if documented else 0]
    top = source.line_start(top_of(source, first))
    indent = source.indentation(first)
    gone = frozenset(node for run in deferral.runs for statement in run.statements for node in walk(statement))
    bindings = [f"{indent}{name} = None\n" for name in sorted({n for one in moved for n in one.unbound(gone)})]
    text = "\n".join([*bindings, *(one.definition(indent) for one in moved)])
    return Splice(top, top, f"{text}\n", loop_lines.BEFORE)


def _drain(source: SourceFile, node: cst.BaseStatement, ahead: str) -> Splice:
    begin = source.line_start(source.line(node))
    return Splice(begin, begin, f"{source.indentation(node)}{ahead}.drain()\n", loop_lines.INSIDE)


def _around(source: SourceFile, loop: Loop, ahead: str) -> Iterator[Splice]:
    """The loop's first line, which then tells where batches begin and end, and what runs after a `break`."""
    start, end = source.outer_span(head(loop))
    if isinstance(loop, cst.While):
        name = unused_name("_batch", source.identifiers)
        yield Splice(source.span(loop)[0], start, f"for {name} in {ahead}.iterate_while(lambda: ")
        yield Splice(end, end, ")", _AROUND)
    else:
        bare = isinstance(loop.iter, cst.Tuple) and not loop.iter.lpar
        opening, closing = ("((", "))") if bare else ("(", ")")
        yield Splice(start, start, f"{ahead}.iterate{opening}", -_AROUND)
        yield Splice(end, end, closing, _AROUND)
    if any(isinstance(node, cst.Break) for node in own_nodes(loop.body)):
        line = loop_lines.line_after(source, loop)
        yield loop_lines.whole_line(source, line, f"{source.indentation(loop)}{ahead}.drain()")


def _made(source: SourceFile, step: CalledStep, ahead: str, every: int) -> Splice:
    """The line that makes `ahead`, above the first statement of the file that has to do with it."""
    places = (step.node, *step.loops)
    tops = [next(one for one in source.module.body if any(part is place for part in walk(one))) for place in places]
    first = min(tops, key=source.line)
    top = source.line_start(loop_lines.first_line(source, first))
    interval = every if every > 1 else None
    apart = "\n\n" if isinstance(first, (cst.FunctionDef, cst.ClassDef)) else ""
    return Splice(top, top, f"{ahead} = {MODULE}.DeferredReads(every={interval})\n{apart}", loop_lines.BEFORE)
