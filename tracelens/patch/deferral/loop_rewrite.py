"""Turns the plan for one loop into splices: the functions before it, the calls in it, the wrapper around its items.

In: a `LoopChange`. Out: splices of one file. Everything that the patch writes into a loop is written here, so that
one loop gets one `DeferredReads` however many Edits touch it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.naming import take_name, unused_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import loop_lines, plain_reads, plain_torch
from tracelens.patch.deferral.direct_calls import direct_calls
from tracelens.patch.deferral.function import DeferredFunction, first_comment, name_of
from tracelens.patch.deferral.loop_exits import leaving
from tracelens.patch.deferral.plain_plan import PlainPlan
from tracelens.patch.deferral.planning import Deferral
from tracelens.patch.deferral.read_places import ReadPlace, once
from tracelens.patch.files.vendored import MODULE
from tracelens.patch.loop import guards, stream_order
from tracelens.patch.loop.bars import Bar
from tracelens.patch.loop.between import Looks
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import head, own_nodes

_AROUND = 2


@dataclass(frozen=True)
class LoopChange:
    """All that happens to one loop. `every` None: values are used as soon as the GPU has them."""

    facts: LoopFacts
    every: int | None
    deferral: Deferral | None = None
    syncs: tuple[tuple[cst.Call, str], ...] = ()
    """Calls to replace, each with the method of the runtime that takes its place."""
    ticks: tuple[cst.Call, ...] = ()
    """Clock reads that become events."""
    reads: PlainPlan | None = None
    """The deferral as lines of plain torch."""


def file_splices(changes: Sequence[LoopChange]) -> list[Splice]:
    """The splices for all loops of a file that change."""
    plans = (change.deferral for change in changes)
    runs = [run for plan in plans if plan is not None for run in plan.runs]
    gone = frozenset(node for run in runs for statement in run.statements for node in walk(statement))
    used: set[str] = set()
    return [splice for change in changes for splice in _loop_splices(change, used, gone)]


def _loop_splices(change: LoopChange, used: set[str], gone: frozenset[cst.CSTNode]) -> list[Splice]:
    """The splices for one loop; `used` collects new names, `gone` holds every node that leaves its function."""
    facts = change.facts
    if not needs_helper(change):
        return [*_plain_waits(change, used), *_plain_reads(change, used)]
    ahead = take_name("ahead", facts.taken, used)
    moved = _moved(change, ahead, used)
    out = [one.call() for one in moved]
    if change.deferral is not None:
        out += _reads(change.deferral, ahead)
    for call, method in change.syncs:
        arguments = facts.source.code(call.args[0].value) if call.args else stream_order.owner(facts, call)
        out.append(Splice(*facts.source.span(call), f"{ahead}.{method}({arguments})"))
    for call in change.ticks:
        out.append(Splice(*facts.source.span(call), f"{ahead}.tick({facts.source.code(call.func)})"))
    return [*out, *_ordered(change), *_around(change, moved, ahead, gone, used)]


def _ordered(change: LoopChange) -> list[Splice]:
    """Behind each wait that is taken out, the lines that keep the order of the streams without it."""
    facts, runs = change.facts, change.deferral.runs if change.deferral is not None else ()
    waits: list[tuple[cst.CSTNode, cst.CSTNode]] = [(call, call) for call, _ in change.syncs]
    for run in runs:
        read = next((capture.nodes[0] for capture in run.captures if capture.read and capture.nodes), None)
        waits += [(read, run.statements[-1])] if read is not None else []
    lines: dict[cst.CSTNode, dict[str, None]] = {}
    for wait, statement in waits:
        text = "\n".join(stream_order.lines(facts, wait))
        if text:
            lines.setdefault(stream_order.place(facts, statement), {})[text] = None
    return [_behind(facts.source, node, list(texts)) for node, texts in lines.items()]


def _behind(source: SourceFile, node: cst.CSTNode, texts: list[str]) -> Splice:
    indent = source.indentation(node)
    lines = plain_torch.indented(tuple(line for text in texts for line in text.split("\n")), source)
    return loop_lines.whole_line(source, source.last_line(node) + 1, "\n".join(f"{indent}{line}" for line in lines))


def needs_helper(change: LoopChange) -> bool:
    """Whether the change of a loop calls the runtime."""
    waits = change.deferral is not None and change.reads is None
    return waits or (bool(change.syncs) and plain(change) is None)


def plain(change: LoopChange, used: set[str] | None = None) -> plain_torch.Lines | None:
    """The few lines of torch that take the place of a loop's synchronize, or None where it needs the runtime."""
    if change.ticks or len(change.syncs) != 1:
        return None
    taken = set() if used is None else used
    call, method = change.syncs[0]
    return plain_torch.lines_for(
        change.facts, call, method, change.every, lambda name: take_name(name, change.facts.taken, taken)
    )


def _plain_reads(change: LoopChange, used: set[str]) -> list[Splice]:
    if change.reads is None:
        return []
    return plain_reads.splices(change.reads, change.every or 1, lambda name: take_name(name, change.facts.taken, used))


def _plain_waits(change: LoopChange, used: set[str]) -> list[Splice]:
    lines = plain(change, used)
    if lines is None:
        return []
    source, loop = change.facts.source, change.facts.loop
    indent, top = source.indentation(loop), source.line_start(loop_lines.first_line(source, loop))
    before = "".join(f"{indent}{line}\n" for line in lines.before)
    after = "\n".join(f"{indent}{line}" for line in plain_torch.indented(lines.after, source))
    out = [
        Splice(top, top, before, loop_lines.BEFORE),
        loop_lines.whole_line(source, loop_lines.line_after(source, loop), after),
    ]
    return [*out, *plain_torch.splices(change.facts, change.syncs[0][0], lines), *_ordered(change)]


def _moved(change: LoopChange, ahead: str, used: set[str]) -> list[DeferredFunction]:
    facts, runs = change.facts, change.deferral.runs if change.deferral is not None else ()
    out = []
    for written in runs:
        run = DeferredFunction(facts, written, "", ahead).named()
        calls = direct_calls(facts, run)
        name = "" if calls else take_name(name_of(facts, run), facts.taken, used)
        out.append(DeferredFunction(facts, run, name, ahead, calls))
    return out


def _around(
    change: LoopChange, moved: Sequence[DeferredFunction], ahead: str, gone: frozenset[cst.CSTNode], used: set[str]
) -> list[Splice]:
    source, loop = change.facts.source, change.facts.loop
    indent = source.indentation(loop)
    first = loop_lines.first_line(source, loop)
    top = source.line_start(first)
    blocks = _functions(moved, indent, gone)
    looks = change.deferral.looks if change.deferral is not None else None
    asking = take_name(f"{looks.function}_shows_them", change.facts.taken, used) if looks is not None else ""
    bar = change.deferral.bar if change.deferral is not None else None
    blocks += [_asked(looks, asking, source, indent)] if looks is not None else []
    making = f"{indent}{ahead} = {MODULE}.DeferredReads(every={change.every})\n"
    above = source.line_text(first - 1).strip() if first > 1 else ""
    apart = "\n" if blocks and above and not above.endswith((":", '"""')) else ""
    out = [
        Splice(top, top, apart + "\n".join([*blocks, making]), loop_lines.BEFORE),
        *_head(change.facts, ahead, used, asking or _closing(bar)),
    ]
    if any(isinstance(node, cst.Break) for node in own_nodes(loop.body)):
        out.append(loop_lines.whole_line(source, loop_lines.line_after(source, loop), f"{indent}{ahead}.drain()"))
    return out


def _closing(bar: Bar | None) -> str:
    """What says that a bar is about to close."""
    if bar is None:
        return ""
    batch = unused_name("batch", {bar.name})
    return f"lambda {batch}: {bar.is_last(f'{batch} + 1')}"


def _asked(looks: Looks, name: str, source: SourceFile, indent: str) -> str:
    """A function that says after which batches the iterator shows the results."""
    given = "".join(f", {parameter}={text}" for parameter, text in looks.given)
    inner = indent + source.module.default_indent
    return (
        f"{indent}def {name}({looks.counter}{given}):\n"
        f'{inner}"""Whether `{looks.function}` ({looks.place}) shows results after this batch (TraceLens)."""\n'
        f"{inner}return {looks.condition}\n"
    )


def _head(facts: LoopFacts, ahead: str, used: set[str], asking: str = "") -> list[Splice]:
    """The loop's first line, which then tells `ahead` where batches begin and end."""
    source, loop = facts.source, facts.loop
    start, end = source.outer_span(head(loop))
    if isinstance(loop, cst.While):
        name = take_name("_batch", facts.taken, used)
        before = f"for {name} in {ahead}.iterate_while(lambda: "
        return [Splice(source.span(loop)[0], start, before), Splice(end, end, ")", _AROUND)]
    bare_tuple = isinstance(loop.iter, cst.Tuple) and not loop.iter.lpar
    opening, closing = ("((", "))") if bare_tuple else ("(", f", {asking})" if asking else ")")
    return [Splice(start, start, f"{ahead}.iterate{opening}", _AROUND), Splice(end, end, closing, _AROUND)]


def _functions(moved: Sequence[DeferredFunction], indent: str, gone: frozenset[cst.CSTNode]) -> list[str]:
    """Blocks of lines: the functions, and before them a line for each name that only they bind from now on."""
    unbound = sorted({name for one in moved for name in one.unbound(gone)})
    bindings = "".join(f"{indent}{name}: object  # bound by a function below\n" for name in unbound)
    return [*([bindings] if bindings else []), *(one.definition() for one in moved if not one.calls)]


def _reads(deferral: Deferral, ahead: str) -> list[Splice]:
    """The calls that run what waits: where the plan says so, before the loop is left on purpose, as no error of theirs
    gets out of an iterator that is closed, and N batches together where a clock is read next."""
    shown = (*deferral.places.shown, *deferral.places.behind)
    waits = {node for run in deferral.runs for statement in run.statements for node in walk(statement)}
    there = waits.union(place.statement for place in shown)
    left = (ReadPlace(line, line) for line in leaving(deferral.facts, breaks=False, errors=True) if line not in there)
    clock, source = deferral.places.clock, deferral.facts.source
    above = {
        statement: source.line_start(first_comment(source, run.statements[0]))
        for run in deferral.runs
        for statement in run.statements
    }
    """Where what moves begins, with the comments above it."""
    places = once(deferral.facts, (*shown, *left), deferral.runs)
    out = [_drain_before(deferral.facts, place, ahead, above.get(place.statement)) for place in places]
    if clock is not None:
        begin = above.get(clock, source.line_start(source.line(clock)))
        out.append(Splice(begin, begin, f"{source.indentation(clock)}{ahead}.read_due()\n", loop_lines.INSIDE))
    return out


def _drain_before(facts: LoopFacts, place: ReadPlace, ahead: str, above: int | None) -> Splice:
    """The drain for a place. `above`: where it goes as the statement moves with others, whose first one is there."""
    source, node = facts.source, place.statement
    start, _ = source.span(node)
    if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        indent = source.indentation(node)
        begin = above if above is not None else source.line_start(loop_lines.line_of(source, place))
        if place.test:
            inner = indent + source.module.default_indent
            return Splice(begin, begin, f"{indent}if {place.test}:\n{inner}{ahead}.drain()\n", loop_lines.INSIDE)
        if guards.leaves_loop(facts, node):
            inner = indent + source.module.default_indent
            return Splice(begin, begin, f"{indent}if {ahead}.drain():\n{inner}break\n", loop_lines.INSIDE)
        return Splice(begin, begin, f"{indent}{ahead}.drain()\n", loop_lines.INSIDE)
    return Splice(start, start, f"{ahead}.drain(); ", loop_lines.INSIDE)
