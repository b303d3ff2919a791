"""read-at-once: values that are read one by one, for one tensor after the other, are read by one copy.

In: a RecipeRequest. Out: one Proposal per loop or comprehension over tensors whose reads (`.item()`, `float(…)`) are of
one number made of the loop's tensor, say its norm. The numbers are made first and kept in a list, one
`torch.stack(…).tolist()` reads them all, and what the loop did with each value is done with those. The values are the
same: `tolist` converts each element as `item` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, rebound, walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import Blocked, check_framework
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, by_target
from tracelens.patch.recipes.scalar_expressions import is_one_number
from tracelens.patch.recipes.tensor_loops import check_replaceable, in_place_of, loop_at, method_call, unused_variable

BY_HAND = say("keep the values on the GPU in a list, and read them at once: torch.stack(values).tolist()")
NO_LOOP = say("no loop over tensors on this line that reads one value of each")
REASON = say("one copy reads the values of all tensors, where each had a wait of its own")
UNPROVED = say(
    "whether all values are of one type and on one device, and whether what is done with "
    "one value changes a tensor that is read after it"
)
_NEVER_EMPTY = ("parameters", "named_parameters")
_EVALUATED_ONCE = (
    *(cst.Arg, cst.Attribute, cst.BinaryOperation, cst.Call, cst.Element, cst.List, cst.Tuple, cst.UnaryOperation),
    *(cst.FormattedString, cst.FormattedStringExpression),
    *(cst.AnnAssign, cst.Assign, cst.AugAssign, cst.Expr, cst.Return),
)
_Comprehension = cst.ListComp | cst.SetComp | cst.GeneratorExp


@dataclass(frozen=True)
class _Values:
    """What is read of each tensor: `[number for target in tensors if condition …]`."""

    number: str
    target: str
    tensors: str
    conditions: tuple[str, ...]
    maybe_empty: bool
    name: str
    """Of one value."""

    def kept(self, name: str) -> str:
        """The statement that keeps the numbers in a list of this name."""
        conditions = "".join(f" if {each}" for each in self.conditions)
        return f"{name} = [{self.number} for {self.target} in {self.tensors}{conditions}]"

    def read(self, name: str) -> str:
        """The expression that reads that list."""
        read = f"torch.stack({name}).tolist()"
        return f"({read} if {name} else [])" if self.maybe_empty else read


def propose(request: RecipeRequest) -> RecipeAnswer:
    return by_target(request, _found)


def _found(request: RecipeRequest, line: int | None) -> tuple[cst.CSTNode, Proposal]:
    source = request.source
    check_framework(request.names)
    for node in walk(source.module):
        if isinstance(node, _Comprehension) and source.covers(node, line) and _reads_in(node.elt):
            return node, _of_comprehension(request, node)
    loop = loop_at(source, line)
    if loop is None:
        raise Blocked(None, NO_LOOP, BY_HAND)
    return loop, _of_loop(request, loop)


# --------------------------------------------------------------------------------------------------- comprehensions


def _of_comprehension(request: RecipeRequest, node: _Comprehension) -> Proposal:
    source, over = request.source, node.for_in
    statement = _statement_around(source, node)
    if over.inner_for_in is not None or over.asynchronous is not None:
        raise Blocked(node, say("it runs over more than one set"), BY_HAND)
    reads = _reads_in(node.elt)
    variables = _names_in(over.target)
    number = _one_number(source, reads, variables, {})
    if _mentioned(node.elt, reads) & variables:
        raise Blocked(node, say("it uses the tensor, or its name, beside the value"), BY_HAND)
    conditions = tuple(_condition(source, each.test, {}) for each in over.ifs)
    values = _values(source, (over.target, over.iter), number, conditions, _value_name(reads[0]))
    check_replaceable(request, node, (), BY_HAND)
    name = unused_variable(source, f"{values.name}s")
    one = unused_variable(source, values.name)
    start = source.span(statement)[0]
    first, last = source.span(over)
    if node.elt is reads[0] and not isinstance(node, cst.SetComp):
        changed = [Splice(*source.span(node), values.read(name))]
    else:  # the space before `for` is part of its span
        changed = [Splice(*source.span(read), one) for read in reads]
        changed.append(Splice(first, last, f" for {one} in {values.read(name)}"))
    splices = (Splice(start, start, f"{values.kept(name)}\n{source.indentation(statement)}"), *changed)
    return _proposal(request, node, splices)


def _statement_around(source: SourceFile, node: cst.CSTNode) -> cst.SimpleStatementLine:
    """The statement that evaluates a comprehension once, whenever it runs."""
    for above in source.ancestors(node):
        if isinstance(above, cst.SimpleStatementLine) and len(above.body) == 1:
            return above
        if not isinstance(above, _EVALUATED_ONCE):
            break
    raise Blocked(node, say("it is not part of a plain statement"), BY_HAND)


# ------------------------------------------------------------------------------------------------------------ loops


def _of_loop(request: RecipeRequest, loop: cst.For) -> Proposal:
    source = request.source
    if loop.orelse is not None or loop.asynchronous is not None:
        raise Blocked(loop, NO_LOOP, BY_HAND)
    bound: dict[str, cst.BaseExpression] = {}
    conditions: list[str] = []
    statements = _after_preparing(source, loop.body, bound, conditions)
    reads = tuple(read for statement in statements for read in _reads_in(statement))
    variables = _names_in(loop.target)
    number = _one_number(source, reads, variables, bound)
    _check_used(loop, statements, reads, variables | bound.keys(), number)
    values = _values(source, (loop.target, loop.iter), number, tuple(conditions), _value_name(reads[0]))
    check_replaceable(request, loop, variables | bound.keys(), BY_HAND)
    name = unused_variable(source, f"{values.name}s")
    one = values.name if values.name in bound else unused_variable(source, values.name)
    lines = [values.kept(name), f"for {one} in {values.read(name)}:"]
    lines += [f"    {_with_values(source, statement, reads, one)}" for statement in statements]
    return _proposal(request, loop, (in_place_of(source, loop, lines),))


def _after_preparing(
    source: SourceFile, body: cst.BaseSuite, bound: dict[str, cst.BaseExpression], conditions: list[str]
) -> list[cst.SimpleStatementLine]:
    """The statements that use the values. What is before them is noted: expressions that get a name, conditions under
    which a tensor is left out."""
    rest = list(body.body)
    while rest:
        first = rest[0]
        if isinstance(first, cst.If) and _skips(first):
            conditions.append(_condition(source, first.test, bound, negated=True))
        elif isinstance(first, cst.If) and first.orelse is None and len(rest) == 1:
            conditions.append(_condition(source, first.test, bound))
            return _after_preparing(source, first.body, bound, conditions)
        elif (named := _named(first)) is not None and not _reads_in(first):
            bound[named[0]] = named[1]
        else:
            break
        rest = rest[1:]
    lines = [each for each in rest if isinstance(each, cst.SimpleStatementLine)]
    if len(lines) != len(rest) or not lines or any(len(each.body) != 1 for each in lines):
        raise Blocked(body, say("it does more with each tensor than read one value"), BY_HAND)
    return lines


def _skips(node: cst.If) -> bool:
    """`if …: continue`"""
    body = node.body.body
    line = body[0] if len(body) == 1 else None
    small = line.body if isinstance(line, cst.SimpleStatementLine) else body
    return node.orelse is None and len(small) == 1 and isinstance(small[0], cst.Continue)


def _named(statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    line = statement if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    small = line.body[0] if line is not None else None
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    return (target.value, small.value) if isinstance(small, cst.Assign) and isinstance(target, cst.Name) else None


def _check_used(
    loop: cst.For, statements: Sequence[cst.SimpleStatementLine], reads: Sequence[cst.Call], own: set[str], number: str
) -> None:
    """Raise `Blocked` where the statements do more than use the values of all tensors in turn."""
    for statement in statements:
        small = statement.body[0]
        if not isinstance(small, (cst.Expr, cst.Assign, cst.AugAssign)):
            raise Blocked(statement, say("what it does with a value may end the loop"), BY_HAND)
        if any(isinstance(node, (cst.Yield, cst.Await, cst.NamedExpr)) for node in walk(small)):
            raise Blocked(statement, NO_LOOP, BY_HAND)
        if _mentioned(small, reads) & own:
            raise Blocked(statement, say("it uses the tensor, or its name, beside the value"), BY_HAND)
        written = {name.partition(".")[0] for name in rebound(small)}
        if written & (_names_in(cst.parse_expression(number)) | _names_in(loop.iter)):
            raise Blocked(statement, say("what it reads of one tensor depends on the values before"), BY_HAND)


def _with_values(source: SourceFile, statement: cst.SimpleStatementLine, reads: Sequence[cst.Call], name: str) -> str:
    """The text of a statement in which `name` stands for the value that it read."""
    start, end = source.span(statement.body[0])
    text, inside = source.text[start:end], []
    for read in reads:
        first, last = source.span(read)
        if start <= first and last <= end:
            inside.append((first - start, last - start))
    for first, last in sorted(inside, reverse=True):
        text = text[:first] + name + text[last:]
    return text


# ----------------------------------------------------------------------------------------------------------- values


def _reads_in(node: cst.CSTNode) -> tuple[cst.Call, ...]:
    """The calls that read a value; `float` only where nothing else does."""
    calls = [each for each in walk(node) if isinstance(each, cst.Call)]
    items = [each for each in calls if (method := method_call(each)) is not None and method[1] == "item"]
    floats = [each for each in calls if isinstance(each.func, cst.Name) and each.func.value == "float"]
    return tuple(items or floats)


def _behind(read: cst.Call) -> cst.BaseExpression:
    """What a read reads; a move to the CPU before it goes with it."""
    method = method_call(read)
    if method is not None and read.args:
        raise Blocked(read, say("it reads one element of several"), BY_HAND)
    inner = method[0] if method is not None else read.args[0].value if len(read.args) == 1 else read
    while (moved := method_call(inner)) is not None and moved[1] == "cpu" and not moved[2]:
        inner = moved[0]
    return inner


def _one_number(
    source: SourceFile, reads: Sequence[cst.Call], variables: set[str], bound: dict[str, cst.BaseExpression]
) -> str:
    """The text of what all reads read, made of the loop's variables alone."""
    texts = {_inlined(source, _behind(read), bound) for read in reads}
    if len(texts) != 1:
        raise Blocked(reads[0] if reads else None, NO_LOOP if not reads else say("it reads several values"), BY_HAND)
    (text,) = texts
    if not is_one_number(cst.parse_expression(text), variables):
        raise Blocked(reads[0], say("what it reads is not known to be one number of each tensor"), BY_HAND)
    return text


def _inlined(source: SourceFile, node: cst.BaseExpression, bound: dict[str, cst.BaseExpression]) -> str:
    """The text of an expression, with what the loop gave names to in the place of the names."""
    start, end = source.span(node)
    text = source.text[start:end]
    named = [each for each in walk(node) if isinstance(each, cst.Name) and each.value in bound]
    attributes = {id(each.attr) for each in walk(node) if isinstance(each, cst.Attribute)}
    keywords = {id(each.keyword) for each in walk(node) if isinstance(each, cst.Arg)}
    for name in sorted(named, key=lambda each: -source.span(each)[0]):
        if id(name) in attributes or id(name) in keywords:
            continue
        inner = bound[name.value]
        whole = _inlined(source, inner, {key: one for key, one in bound.items() if key != name.value})
        if not isinstance(inner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
            whole = f"({whole})"
        first, last = source.span(name)
        text = text[: first - start] + whole + text[last - start :]
    return text


def _condition(
    source: SourceFile, test: cst.BaseExpression, bound: dict[str, cst.BaseExpression], *, negated: bool = False
) -> str:
    """A test that runs nothing, as text."""
    if any(isinstance(node, (cst.Call, cst.Await, cst.Yield, cst.NamedExpr, cst.Subscript)) for node in walk(test)):
        raise Blocked(test, say("whether a tensor counts is decided by a call"), BY_HAND)
    text = _inlined(source, test, bound)
    if not negated:
        return text
    is_none = isinstance(test, cst.Comparison) and text.endswith(" is None") and len(test.comparisons) == 1
    return f"{text.removesuffix('None')}not None" if is_none else f"not ({text})"


def _values(
    source: SourceFile,
    header: tuple[cst.BaseExpression, cst.BaseExpression],
    number: str,
    conditions: tuple[str, ...],
    name: str,
) -> _Values:
    target, tensors = header
    over = method_call(tensors)
    maybe_empty = bool(conditions) or over is None or over[1] not in _NEVER_EMPTY
    return _Values(number, source.code(target), source.code(tensors), conditions, maybe_empty, name)


def _value_name(read: cst.Call) -> str:
    """The name that the loop gave to the number, else what it is."""
    inner = _behind(read)
    if isinstance(inner, cst.Name):
        return inner.value
    made = method_call(inner)
    return "norm" if made is not None and made[1] == "norm" else "value"


def _names_in(node: cst.CSTNode) -> set[str]:
    return {each.value for each in walk(node) if isinstance(each, cst.Name)}


def _mentioned(node: cst.CSTNode, reads: Sequence[cst.Call]) -> set[str]:
    """Names in a node outside of its reads."""
    inside = {id(each) for read in reads for each in walk(read)}
    return {each.value for each in walk(node) if isinstance(each, cst.Name) and id(each) not in inside and dotted(each)}


def _proposal(request: RecipeRequest, node: cst.CSTNode, splices: tuple[Splice, ...]) -> Proposal:
    seen = say("each read waits for all work before it (recorded)")
    return request.proposed(node, REASON, seen, splices).as_checked(UNPROVED)
