"""The text of a bar that the loop runs over, in plain lines: it is set every N batches, and in the last one.

In: the plan of such a loop. Out: whether plain lines can do it, and the lines where nothing but texts waits:

    for step, (x, y) in enumerate(bar):
        if step % 10 == 0 or step + 1 == bar.total:
            bar.set_postfix(loss=loss.item())
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tracelens.patch.code.names import dotted, method_of, walk
from tracelens.patch.code.source import Splice
from tracelens.patch.deferral import loop_lines
from tracelens.patch.deferral.planning import Deferral
from tracelens.patch.effects.file_lines import SETS_BAR_TEXT
from tracelens.patch.loop.bars import Bar, number_of
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import Loop, own_nodes
from tracelens.patch.loop.sites import read_of

_LEAVES = (cst.Break, cst.Return)
_OUT = (cst.Return, cst.Raise, cst.Expr)
"""What may leave a loop from one within it; an expression may be `sys.exit()`."""


def fits(deferral: Deferral) -> bool:
    """Whether plain lines know in time that the bar is about to close: each batch comes by what waits, unless it leaves
    the loop on a line of its own."""
    facts, bar = deferral.facts, deferral.bar
    if bar is None:
        return True
    body, last = facts.loop.body, max(facts.source.span(run.statements[-1])[1] for run in deferral.runs)
    always = all(facts.source.parent(run.statements[-1]) is body for run in deferral.runs)
    jumps = [node for node in of_loop(facts.loop) if isinstance(node, (cst.Continue, *_LEAVES))]
    passed = any(isinstance(node, cst.Continue) and facts.source.span(node)[0] < last for node in jumps)
    alone = all(isinstance(facts.source.parent(node), cst.SimpleStatementLine) for node in jumps)
    return always and not passed and alone and number_of(facts, bar) is not None


def of_loop(loop: Loop) -> Iterator[cst.CSTNode]:
    """The nodes of a loop whose `break` and `continue` are its own, and what leaves it from a loop within."""
    inner = {
        part for node in own_nodes(loop.body) if isinstance(node, (cst.For, cst.While)) for part in walk(node.body)
    }
    return (node for node in own_nodes(loop.body) if node not in inner or isinstance(node, _OUT))


def shows_text(deferral: Deferral) -> bool:
    """Whether the bar has to be open for what waits: a line above it is written when it has closed, too."""
    bar = deferral.bar
    if bar is None:
        return False
    parts = (part for run in deferral.runs for statement in run.statements for part in walk(statement))
    uses = (part for part in parts if isinstance(part, cst.Attribute) and dotted(part.value) == bar.name)
    return any(part.attr.value != "write" for part in uses)


def is_text_alone(deferral: Deferral) -> bool:
    """Whether nothing waits but texts, which are made of what the batch has and are worth nothing once others come."""
    facts, bar = deferral.facts, deferral.bar
    lines = [statement for run in deferral.runs for statement in run.statements]
    leaves = any(isinstance(node, _LEAVES) for node in of_loop(facts.loop))
    return bar is not None and not leaves and all(_is_text(facts, bar, line) for line in lines)


def _is_text(facts: LoopFacts, bar: Bar, line: cst.CSTNode) -> bool:
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) else None
    if not isinstance(func, cst.Attribute) or func.attr.value not in SETS_BAR_TEXT or dotted(func.value) != bar.name:
        return False
    inner = (part for part in walk(line) if isinstance(part, cst.Call) and part is not call)
    return all(read_of(part) is not None or _only_computes(facts, part) for part in inner)


def _only_computes(facts: LoopFacts, call: cst.Call) -> bool:
    full = facts.names.qualified(call.func)
    within = any(isinstance(part, cst.Call) and read_of(part) is not None for part in walk(call.func))
    method = method_of(call)
    return is_pure(full) or method in ("format", "mean", "sum", "detach", "cpu", "size") or within


def splices(deferral: Deferral, every: int) -> list[Splice]:
    """The lines below a condition, and what the `for` line needs for it."""
    bar, source = deferral.bar, deferral.facts.source
    number = number_of(deferral.facts, bar) if bar is not None else None
    assert bar is not None and number is not None
    test = f"if {number.is_nth(every)} or {bar.is_last(number.passed)}:"
    groups = (tuple(cst.ensure_type(one, cst.SimpleStatementLine) for one in run.statements) for run in deferral.runs)
    return [*number.splices, *(splice for group in groups for splice in loop_lines.below(source, group, test))]
