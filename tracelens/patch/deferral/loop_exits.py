"""Where the text of a loop leaves it: what waits is read there before.

In: the facts of a loop. Out: the statements. A `return` and `sys.exit()` do so, and a `raise` that ends a training,
such as that of `StopIteration` at the last step. An error that no handler of the file names is not expected to come:
plain lines say with the patch what it loses, and the helpers lose nothing but an error of what waits, which would have
come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.patch.code.names import dotted, root_key, walk
from tracelens.patch.deferral import bar_texts
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.guards import is_exit
from tracelens.patch.loop.sites import reads_in


def leaving(facts: LoopFacts, breaks: bool, errors: bool = False) -> Iterator[cst.CSTNode]:
    """The lines that leave the loop, with those of its own `break`s and of errors where these count."""
    for node in bar_texts.of_loop(facts.loop):
        line = facts.source.parent(node)
        jumps = isinstance(node, cst.Return) or (breaks and isinstance(node, cst.Break))
        jumps = jumps or (errors and isinstance(node, cst.Raise) and isinstance(line, cst.SimpleStatementLine))
        if line is not None and (jumps or _ends_training(facts, node)):
            yield line


def hides_nothing(facts: LoopFacts, line: cst.CSTNode, waiting: Sequence[cst.CSTNode]) -> bool:
    """Whether sums that nobody sees once an exception has left the loop need not be made where the process exits.

    They are to be added up, and what decides on the exit has waited for a value of the same name: an error of the
    batches before comes there. Without that wait they are made, as the exit would hide it.
    """
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    if small is None or not is_exit(small, facts.names) or not all(map(_adds, waiting)):
        return False
    block = facts.source.parent(line)
    above = facts.source.parent(block) if block is not None else None
    return isinstance(above, cst.If) and block is above.body and bool(_read_in(above.test) & _read_in(*waiting))


def _read_in(*nodes: cst.CSTNode) -> frozenset[str]:
    """The names of the tensors that are read; `int(step)` may be of a number."""
    reads = (read for node in nodes for read in reads_in(node) if read.kind not in ("number", "formatted"))
    return frozenset(name for read in reads if (name := root_key(read.tensor)) is not None)


def _adds(statement: cst.CSTNode) -> bool:
    """`total += loss.item()`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(small, cst.AugAssign) or not isinstance(small.target, cst.Name):
        return False
    return isinstance(small.operator, (cst.AddAssign, cst.SubtractAssign))


def _ends_training(facts: LoopFacts, node: cst.CSTNode) -> bool:
    if not isinstance(facts.source.parent(node), cst.SimpleStatementLine):
        return False
    if not isinstance(node, cst.Raise) or node.exc is None:
        return is_exit(node, facts.names)
    made = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
    name = dotted(made).rpartition(".")[2]
    return bool(name) and (not name.endswith("Error") or _is_caught(facts, name))


def _is_caught(facts: LoopFacts, name: str) -> bool:
    """Whether a handler of the file is for that error."""
    handlers = (part.type for part in walk(facts.source.module) if isinstance(part, cst.ExceptHandler))
    named = (part for kind in handlers if kind is not None for part in walk(kind))
    return any(isinstance(part, cst.Name) and part.value == name for part in named)
