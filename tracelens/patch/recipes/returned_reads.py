"""Reads that a step function returns: `return loss.item()` in `train_step`, which a loop calls.

In: a RecipeRequest. Out: `Hoisted`, the same request on the file as it would be if the function returned the tensor and
each call read it: `value = train_step(x, y).item()`. Nothing runs between the two places, so that is the same program,
and lines keep their numbers. Whether the read can wait in its loop is asked of the recipe as for any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import SourceFile, Splice, apply_splices, parse
from tracelens.patch.effects.project import python_files
from tracelens.patch.loop.loops import own_nodes, runs_at_once
from tracelens.patch.proposal import RecipeRequest, Target
from tracelens.patch.recipes.carried_forms import is_item

_BOUND_AND_RETURNED = 2


@dataclass(frozen=True)
class StepFunction:
    """A function that returns values that it reads, and nothing else. `shape`: one value, a tuple or a dict of them."""

    name: str
    reads: tuple[cst.Call, ...]
    shape: type[cst.BaseExpression]
    calls: tuple[cst.Call, ...]


@dataclass(frozen=True)
class Hoisted:
    """The request on the file in which the calls read, and what makes that file of the original one."""

    request: RecipeRequest
    splices: tuple[Splice, ...]
    lines: frozenset[int]
    """Where the functions read."""
    call_lines: frozenset[int]
    """Where the calls read instead."""
    functions: frozenset[str]


def hoisted(request: RecipeRequest) -> Hoisted | None:
    """The file with the reads of its step functions taken to their calls; None where there are none."""
    source = request.source
    wanted = {target.line for target in request.targets}
    steps = [step for step in step_functions(source) if any(source.line(read) in wanted for read in step.reads)]
    steps = [step for step in steps if not _known_elsewhere(request, step.name)]
    if not steps:
        return None
    splices = tuple(splice for step in steps for splice in _splices(source, step))
    changed = parse(source.path, source.shown, apply_splices(source, splices), source.entry)
    moved = {source.line(read): step for step in steps for read in step.reads}
    targets: dict[Target, None] = {}
    for target in request.targets:
        step = moved.get(target.line) if target.line is not None else None
        lines = [source.line(call) for call in step.calls] if step is not None else [target.line]
        targets |= dict.fromkeys(replace(target, line=line) for line in lines)
    return Hoisted(
        replace(request, source=changed, names=changed.names, targets=tuple(targets)),
        splices,
        frozenset(moved),
        frozenset(source.line(call) for step in steps for call in step.calls),
        frozenset(step.name for step in steps),
    )


def step_functions(source: SourceFile) -> Iterator[StepFunction]:
    """Functions of the file that return reads, where all calls of them can read in their place."""
    for name, definitions in source.names.functions.items():
        function = definitions[0]
        found = _returned(source, function) if len(definitions) == 1 else None
        calls = source.calls.get(name, ())
        if found is None or not calls or not _only_called(source, name, calls):
            continue
        shape, reads = found
        step = StepFunction(name, reads, shape, calls)
        if shape is not cst.Tuple or all(_unpacked(source, call, len(reads)) for call in calls):
            yield step


def _returned(
    source: SourceFile, function: cst.FunctionDef
) -> tuple[type[cst.BaseExpression], tuple[cst.Call, ...]] | None:
    """The reads of the function's only `return`, its last statement: one that is below a condition gives None else."""
    inside = list(own_nodes(function))
    returns = [node for node in inside if isinstance(node, cst.Return)]
    if len(returns) != 1 or function.decorators or not runs_at_once(function):
        return None
    line = source.parent(returns[0])
    if line is not function.body.body[-1]:
        return None
    value = returns[0].value
    parts: list[cst.BaseExpression] = []
    if isinstance(value, cst.Tuple):
        parts = [element.value for element in value.elements if isinstance(element, cst.Element)]
        parts = parts if len(parts) == len(value.elements) > 1 else []
    elif isinstance(value, cst.Dict):
        items = [item for item in value.elements if isinstance(item, cst.DictElement)]
        parts = [item.value for item in items] if len(items) == len(value.elements) else []
    elif value is not None:
        parts = [value]
    parts = [_named_before(source, function, returns[0], part) for part in parts]
    reads = [part for part in parts if isinstance(part, cst.Call) and is_item(part)]
    if not reads or len(reads) < len(parts) or value is None:
        return None
    if len(reads) > 1 and not all(source.effects.changes_nothing(source.place(read)) for read in reads):
        return None  # what the second computes may change the first, which is read after both
    return (type(value) if isinstance(value, (cst.Tuple, cst.Dict)) else cst.Call), tuple(reads)


def _named_before(
    source: SourceFile, function: cst.FunctionDef, returned: cst.Return, part: cst.BaseExpression
) -> cst.BaseExpression:
    """The value of a name that is given to it right above the `return`, and is used nowhere else."""
    line = source.parent(returned)
    block = source.parent(line) if line is not None else None
    if (
        not isinstance(part, cst.Name)
        or not isinstance(block, cst.IndentedBlock)
        or not isinstance(line, cst.BaseStatement)
    ):
        return part
    above = list(block.body[: block.body.index(line)])
    while above and isinstance(last := above.pop(), cst.SimpleStatementLine) and len(last.body) == 1:
        small = last.body[0]
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(small, cst.Assign) or not isinstance(small.value, cst.Call) or not is_item(small.value):
            break
        if isinstance(target, cst.Name) and target.value == part.value:
            uses = [node for node in walk(function) if isinstance(node, cst.Name) and node.value == part.value]
            return small.value if len(uses) == _BOUND_AND_RETURNED else part
    return part


def _only_called(source: SourceFile, name: str, calls: tuple[cst.Call, ...]) -> bool:
    """Whether a name is nothing but called: as itself, or as a method of `self`."""
    if any(dotted(call.func) not in (name, f"self.{name}") for call in calls):
        return False
    return len(re.findall(rf"\b{re.escape(name)}\b", source.text)) == 1 + len(calls)


def _unpacked(source: SourceFile, call: cst.Call, count: int) -> bool:
    """`loss, accuracy = step(x)`: a list does as well as a tuple."""
    statement = source.parent(call)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    return (
        isinstance(target, cst.Tuple)
        and len(target.elements) == count
        and not any(isinstance(element, cst.StarredElement) for element in target.elements)
    )


def _known_elsewhere(request: RecipeRequest, name: str) -> bool:
    """Whether another file of the project has the word: it may call the function, or put another in its place."""
    if request.root is None:
        return True
    word = re.compile(rf"\b{re.escape(name)}\b")
    others = (path for path in python_files(request.root) if path != request.source.path and path.is_file())
    return any(word.search(path.read_text(encoding="utf-8", errors="replace")) for path in others)


def _splices(source: SourceFile, step: StepFunction) -> Iterator[Splice]:
    for read in step.reads:
        start, end = source.span(read)
        tensor_end = source.outer_span(cst.ensure_type(read.func, cst.Attribute).value)[1]
        yield Splice(tensor_end, end, "")
    for call in step.calls:
        start, end = source.outer_span(call)
        if step.shape is cst.Tuple:
            yield Splice(start, start, "[value.item() for value in ")
            yield Splice(end, end, "]")
        elif step.shape is cst.Dict:
            yield Splice(start, start, "{name: value.item() for name, value in ")
            yield Splice(end, end, ".items()}")
        else:
            yield Splice(end, end, ".item()")
