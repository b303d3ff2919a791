"""Guards: an `if` or `assert` that ends the training where a value is not a number.

In: a parsed file. Out: `Guard` values with how they end it; what in their tests is looked at; and the statements of a
loop before which a guard that was moved must have looked. Apart from `host` because nothing here is deferred by
default: a guard that looks later lets the training go on for some batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import FileNames, dotted, last_name, walk, written
from tracelens.patch.code.outside import OUTPUT
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import DECIDES, Blocked, Loop, innermost_loop
from tracelens.patch.loop.sites import reads_in

CHECKS = words("isnan isinf isfinite isneginf isposinf")
_JOINS = words("any all")
_WRAPS = _JOINS | words("item bool")
_EXITS = words("sys.exit exit quit")
_SAVES = re.compile(r"save|checkpoint|ckpt|\bdump\b|state_dict$", re.IGNORECASE)
"""Calls that may write the weights somewhere: no name that says so is ever called with weights nobody looked at."""

GUARD_BY_HAND = DECIDES[1]


@dataclass(frozen=True, eq=False)
class Guard:
    """One guard. `other` says what it does beside ending the training, where it does something else instead."""

    node: cst.If | cst.Assert
    ending: str
    """`raises an error`, `ends the program`, `ends the loop`; "" where it does something else."""
    other: str = ""
    breaks: bool = False
    """Whether it ends the loop alone."""


@lru_cache(maxsize=PARSED_FILES)
def find(source: SourceFile) -> tuple[Guard, ...]:
    """All statements of a file that check a value for not-a-number or infinity, in the order of the text."""
    found = []
    for node in walk(source.module):
        if isinstance(node, cst.Assert) and is_check(node.test, source):
            found.append(Guard(node, say("raises an error")))
        elif isinstance(node, cst.If) and is_check(node.test, source):
            found.append(_guard(node, source))
    return tuple(found)


def is_check(test: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether a condition asks for nothing but not-a-number, infinity, or a value past a fixed limit beside that."""
    leaves = list(looked_at(test, source.names))
    return any(_checks(leaf, source) for leaf in leaves) and all(
        _checks(leaf, source) or _limits(leaf) for leaf in leaves
    )


def looked_at(test: cst.BaseExpression, names: FileNames) -> Iterator[cst.BaseExpression]:
    """The parts of a condition that `not`, `and` and `or` join."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from looked_at(test.expression, names)
    elif isinstance(test, cst.BooleanOperation):
        yield from looked_at(test.left, names)
        yield from looked_at(test.right, names)
    elif isinstance(test, cst.Call) and dotted(test.func) in _JOINS and _displayed(test):
        for element in cst.ensure_type(test.args[0].value, cst.List).elements:
            yield from looked_at(element.value, names)
    else:
        yield test


def parts(node: cst.CSTNode, names: FileNames) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
    """What a guard (or its end) looks at and says; with each part what of it is a tensor that nothing reads as such."""
    test = node.test if isinstance(node, (cst.If, cst.Assert)) else None
    for leaf in looked_at(test, names) if test is not None else ():
        yield leaf, None if any(True for _ in reads_in(leaf)) else _tensor_in(leaf, names)
    if isinstance(node, cst.If):  # its message may read before it is known whether there will be one
        yield from ((read.node, None) for read in reads_in(node.body) if isinstance(read.tensor, cst.Name))
    elif isinstance(node, cst.Assert) and node.msg is not None:
        yield node.msg, None
    said = node.exc if isinstance(node, cst.Raise) else node.value if isinstance(node, cst.Expr) else None
    for argument in said.args if isinstance(said, cst.Call) else ():
        yield argument.value, None


def _tensor_in(leaf: cst.BaseExpression, names: FileNames) -> cst.BaseExpression:
    """The argument of `math.isfinite`, the whole of `torch.isnan(x)`."""
    full = names.qualified(leaf.func) if isinstance(leaf, cst.Call) else ""
    if isinstance(leaf, cst.Call) and full.startswith(("math.", "numpy.")) and len(leaf.args) == 1:
        return leaf.args[0].value
    return leaf


def ends(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether a small statement is the end of a guard that looks later, or is such a guard itself."""
    if not facts.guards:
        return False
    ending = isinstance(node, (cst.Raise, cst.Break, cst.Assert)) or is_exit(node, facts.names)
    return ending and (node in facts.guards or any(one in facts.guards for one in facts.source.ancestors(node)))


def is_exit(node: cst.CSTNode, names: FileNames) -> bool:
    call = node.value if isinstance(node, cst.Expr) else None
    return isinstance(call, cst.Call) and names.qualified(call.func) in _EXITS


def inside(facts: LoopFacts, node: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements in a guard that looks later; they run later with it."""
    if node not in facts.guards or not isinstance(node, cst.If):
        return []
    return [part for part in walk(node.body) if isinstance(part, cst.BaseSmallStatement)]


def last_words(facts: LoopFacts, members: Sequence[cst.CSTNode]) -> frozenset[str]:
    """Returns `{OUTPUT}` where, of the deferred statements, only moved guards print; an empty set otherwise.

    A moved guard prints its message when it ends the training, up to N batches later. What the loop's own iterator
    prints in these batches then comes before the message.
    """
    own = {part for guard in facts.guards for part in walk(guard)}
    others = (member for member in members if member not in own)
    if not facts.guards or any(OUTPUT in written(member, facts.names) for member in others):
        return frozenset()
    return frozenset({OUTPUT})


def lookouts(facts: LoopFacts, moved: frozenset[cst.CSTNode]) -> tuple[cst.CSTNode, ...]:
    """Statements before which a moved guard must have looked: what leaves the function, and what may save weights."""
    out: list[cst.CSTNode] = []
    for leaf in facts.leaves if facts.guards else ():
        if leaf in moved or not isinstance(leaf, cst.BaseSmallStatement):
            continue
        saves = _saves(facts, leaf, frozenset())
        if not saves and not isinstance(leaf, cst.Return):
            continue
        if not any(isinstance(one, cst.If) for one in _up_to(facts.source, leaf, facts.loop)):
            obstacle = say("the loop saves in each batch, and the guard has to look before that")
            raise Blocked(leaf, obstacle, say("save every N batches"))
        line = facts.source.parent(leaf)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        out.append(line if alone and line is not None else leaf)
        if _breaks(facts) and not leaves_loop(facts, out[-1]):
            raise Blocked(leaf, say("a `break` that comes later would not stop this"), say("keep the check"))
    return tuple(out)


def _saves(facts: LoopFacts, node: cst.CSTNode, seen: frozenset[str]) -> bool:
    """Whether a statement, or a function of the file that it calls, may write the weights somewhere."""
    names = facts.names
    for part in walk(node):
        if isinstance(part, cst.Call):
            called = dotted(part.func)
            last = called.rpartition(".")[2]
            inner = names.functions.get(last, ()) if last not in seen else ()
            if _SAVES.search(called) or any(_saves(facts, one.body, seen | {last}) for one in inner):
                return True
    return False


def leaves_loop(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether the loop has to be left in front of a statement, where a guard that has looked says so by a `break`."""
    inner = innermost_loop(facts.source, node)
    return _breaks(facts) and inner is facts.loop and not isinstance(node, cst.BaseSmallStatement)


def _breaks(facts: LoopFacts) -> bool:
    return any(isinstance(part, cst.Break) for guard in facts.guards for part in walk(guard))


def _guard(node: cst.If, source: SourceFile) -> Guard:
    last = _last(node)
    doing = [part for part in walk(node.body) if isinstance(part, (cst.Continue, cst.Return, cst.Raise, cst.Break))]
    if node.orelse is not None:
        return Guard(node, "", say("it has an `else`"))
    if any(part is not last for part in doing) or last is None:
        return Guard(node, "", _other(doing))
    if isinstance(last, cst.Raise) and last.cause is None:
        other = _GENERATORS if _ends_generators(last.exc) else ""
        return Guard(node, "" if other else say("raises an error"), other)
    if isinstance(last, cst.Assert) or is_exit(last, source.names):
        return Guard(node, say("raises an error") if isinstance(last, cst.Assert) else say("ends the program"))
    if isinstance(last, cst.Break):
        return Guard(node, say("ends the loop"), breaks=True)
    return Guard(node, "", _other(doing))


def _other(doing: Sequence[cst.CSTNode]) -> str:
    if not doing:
        return say("it does something else than to end the training")
    word = type(doing[0]).__name__.lower()
    return say("it does something else than to end the training (`{word}`)", word=word)


_GENERATORS = say("it raises what ends a generator, and the loop runs over one then")


def _ends_generators(raised: cst.BaseExpression | None) -> bool:
    called = raised.func if isinstance(raised, cst.Call) else raised
    return dotted(called) in ("StopIteration", "StopAsyncIteration", "GeneratorExit")


def _last(node: cst.If) -> cst.CSTNode | None:
    """The last small statement of the block, if it stands in the block itself."""
    statement = node.body.body[-1] if node.body.body else None
    if isinstance(statement, cst.SimpleStatementLine):
        return statement.body[-1]
    return statement if isinstance(statement, cst.BaseSmallStatement) else None


def _displayed(call: cst.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0].value, cst.List)


def _checks(node: cst.BaseExpression, source: SourceFile) -> bool:
    """`math.isnan(x)`, `torch.isfinite(x).all()`, `x.isnan() | x.isinf()`, `x != x`."""
    if isinstance(node, cst.Call):
        name = last_name(node.func)
        inner = node.args[0].value if node.args else getattr(node.func, "value", None)
        wraps = name in _WRAPS and isinstance(inner, cst.BaseExpression) and _checks(inner, source)
        return name in CHECKS or wraps
    if isinstance(node, cst.BinaryOperation):
        joined = isinstance(node.operator, (cst.BitOr, cst.BitAnd))
        return joined and _checks(node.left, source) and _checks(node.right, source)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and _checks(node.expression, source)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        part = node.comparisons[0]
        same = source.code(node.left) == source.code(part.comparator)
        return same and isinstance(part.operator, (cst.NotEqual, cst.Equal)) and isinstance(node.left, cst.Name)
    return False


def _limits(node: cst.BaseExpression) -> bool:
    """`loss > 1e5`, `loss == float("inf")`."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    limit = node.comparisons[0].comparator
    if isinstance(limit, cst.UnaryOperation):
        limit = limit.expression
    infinite = isinstance(limit, cst.Call) and dotted(limit.func) == "float"
    return isinstance(limit, cst.BaseNumber) or infinite or dotted(limit) in ("math.inf", "np.inf", "torch.inf")


def _up_to(source: SourceFile, node: cst.CSTNode, loop: Loop) -> Iterator[cst.CSTNode]:
    for ancestor in source.ancestors(node):
        if ancestor is loop:
            return
        yield ancestor
