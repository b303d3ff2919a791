"""A loop in which only a synchronize changes, in a few lines of plain torch: no helper, no file beside the script.

In: the call, and what should take its place. Out: lines and splices, or None where more is needed (reads that wait,
several calls, a call within a larger statement); then `rewrite` uses the runtime.

    batches_issued += 1                          batches_marked.append(torch.cuda.Event())
    if batches_issued % 10 == 0:                 batches_marked[-1].record()
        torch.cuda.synchronize()                 if len(batches_marked) == 10:
                                                     batches_marked.pop().synchronize()
                                                     batches_marked.clear()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import loop_lines
from tracelens.patch.loop import stream_order
from tracelens.patch.loop.facts import LoopFacts

Unused = Callable[[str], str]
"""Makes a name that the file does not have."""
UNIT = "\t"
"""Stands for one level of indentation until the file's own is known."""


@dataclass(frozen=True)
class Lines:
    """What goes before the loop, around the call, and after the loop: lines without their indentation."""

    before: tuple[str, ...]
    above: tuple[str, ...]
    call: str
    deeper: bool
    below: tuple[str, ...]
    after: tuple[str, ...]


def splices(facts: LoopFacts, call: cst.Call, lines: Lines) -> list[Splice]:
    """What changes at the call itself; its comments stay on its line."""
    source, first = facts.source, facts.source.line(call)
    indent = source.indentation(_statement(facts, call))
    start = source.line_start(first)
    deeper = source.module.default_indent if lines.deeper else ""
    out = [
        Splice(start, start, "".join(f"{indent}{line}\n" for line in lines.above) + deeper),
        Splice(*source.span(call), lines.call),
    ]
    below = "\n".join(f"{indent}{line}" for line in indented(lines.below, source))
    return [*out, loop_lines.whole_line(source, first + 1, below)] if below else out


def indented(lines: tuple[str, ...], source: SourceFile) -> list[str]:
    """Lines of a block, in the file's own indentation."""
    return [line.replace(UNIT, source.module.default_indent) for line in lines]


def lines_for(facts: LoopFacts, call: cst.Call, method: str, every: int | None, unused: Unused) -> Lines | None:
    """The lines that take the place of a call, or None where the runtime is needed."""
    if not _alone(facts, call):
        return None
    owner = stream_order.owner(facts, call)
    if every is not None and (method == "synchronize" or owner):
        return _every_nth(facts.source.code(call), every, unused("batches_issued"))
    if stream_order.is_event(facts, call):
        return _kept(owner, unused("batch_done"))
    if owner:
        return _marked(stream_order.cuda(facts), unused("batch_done"), owner)
    torch = facts.source.code(call.func).removesuffix(".synchronize")
    if method != "record" or call.args or not torch.endswith("cuda"):
        return None
    return _marked(torch, unused("batch_done")) if every is None else _marked_every(torch, every, unused)


def _every_nth(call: str, every: int, count: str) -> Lines:
    above = (f"{count} += 1", f"if {count} % {every} == 0:")
    return Lines((f"{count} = 0",), above, call, True, (), (f"if {count} % {every}:", f"{UNIT}{call}"))


def _marked(torch: str, name: str, stream: str = "") -> Lines:
    after = (f"if {name} is not None:", f"{UNIT}{name}.synchronize()")
    return Lines((f"{name} = None",), (f"{name} = {torch}.Event()",), f"{name}.record({stream})", False, (), after)


def _kept(event: str, name: str) -> Lines:
    after = (f"if {name} is not None:", f"{UNIT}{name}.synchronize()")
    return Lines((f"{name} = None",), (), f"{name} = {event}", False, (), after)


def _marked_every(torch: str, every: int, unused: Unused) -> Lines:
    name = unused("batches_marked")
    below = (f"if len({name}) == {every}:", f"{UNIT}{name}.pop().synchronize()", f"{UNIT}{name}.clear()")
    after = (f"if {name}:", f"{UNIT}{name}[-1].synchronize()")
    above = (f"{name}.append({torch}.Event())",)
    return Lines((f"{name} = []",), above, f"{name}[-1].record()", False, below, after)


def _alone(facts: LoopFacts, call: cst.Call) -> bool:
    """Whether the call is all of a statement on a line of its own."""
    source, statement = facts.source, _statement(facts, call)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    small = statement.body[0]
    whole = isinstance(small, cst.Expr) and small.value is call and source.last_line(call) == source.line(call)
    return whole and isinstance(source.parent(statement), cst.IndentedBlock)


def _statement(facts: LoopFacts, call: cst.Call) -> cst.CSTNode:
    for ancestor in facts.source.ancestors(call):
        if isinstance(ancestor, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return ancestor
    return facts.loop
