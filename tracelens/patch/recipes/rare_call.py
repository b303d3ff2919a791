"""rare-call: a call that the training does not need in each batch is made every N batches only.

In: a RecipeRequest. Out: one Proposal per loop or function, for `gc.collect()`, `torch.cuda.empty_cache()` and the
flushing of a stream. The call stays where it stands, below a condition on the number of the batch; where that is not
known, as in a method that some loop calls, it counts itself. None of them computes anything; what else in the project
may notice that it comes later decides between `safe` and `checked`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import libcst as cst

from tracelens.messages import joined, say
from tracelens.model import Declined, Location
from tracelens.patch.code import movers
from tracelens.patch.code.names import dotted, method_of, rebound, walk
from tracelens.patch.code.naming import take_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral.loop_lines import below, first_line
from tracelens.patch.effects.project import MAX_BYTES, python_files
from tracelens.patch.loop.loops import (
    Blocked,
    check_framework,
    check_kept,
    check_unpatched,
    for_loop_of_training,
    is_rare,
)
from tracelens.patch.loop.thinned import MARK, is_thinned
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, Target
from tracelens.patch.recipes.every_nth import condition, groups, line_at

BY_HAND = say("put the call below `if step % N == 0`, or take it out of the loop")
NO_PLACE = say("no call on this line that rare-call makes rarer")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A call that may be made more rarely: what happens then, and who could notice."""

    effect: Callable[[str], str]
    """What happens then, of how many passes."""
    noticed_by: re.Pattern[bytes]
    """Text anywhere in the project after which nobody knows whether it is noticed."""
    unproved: str


_COLLECT = _Kind(
    lambda passes: say("objects in reference cycles stay in memory for up to {passes}", passes=passes),
    re.compile(
        rb"weakref|__del__|tracemalloc|ResourceWarning|gc\.(?:disable|freeze|garbage|callbacks|get_|set_|isenabled)"
    ),
    say("whether finalizers, weak references or settings of the collector in this project depend on when it runs"),
)
_EMPTY = _Kind(
    lambda passes: say(
        "memory that PyTorch keeps for reuse goes back to the driver every {passes}; where "
        "it runs out of memory, PyTorch gives it back by itself",
        passes=passes,
    ),
    re.compile(rb"memory_(?:reserved|stats|snapshot|summary|cached)|mem_get_info|nvidia-smi|pynvml|\bnvml"),
    say("whether the project acts on how much memory is free"),
)
_FLUSH = _Kind(
    lambda passes: say("lines are written out every {passes}, and at the end", passes=passes),
    re.compile(rb""),  # always: other programs, and this one, can read a file
    say("whether somebody reads the file while the training runs"),
)
_DEVICES = ("cuda", "cuda.memory", "accelerator", "accelerator.memory", "xpu", "mps")
_FUNCTIONS = {"gc.collect": _COLLECT} | {f"torch.{device}.empty_cache": _EMPTY for device in _DEVICES}


def propose(request: RecipeRequest) -> RecipeAnswer:
    found: dict[tuple[int, int], tuple[_Where, list[cst.SimpleStatementLine]]] = {}
    declined: list[Declined] = []
    for target in request.targets:
        try:
            where, line = _place(request, target)
        except Blocked as blocked:
            at_target = request.decline_target(target, blocked)
            declined.append(at_target if blocked.node is None else request.decline(blocked.node, blocked))
            continue
        lines = found.setdefault((id(where.loop), id(where.function)), (where, []))[1]
        if not any(line is other for other in lines):
            lines.append(line)
    taken: set[str] = set()
    proposals = tuple(_proposal(request, where, lines, taken) for where, lines in found.values())
    return RecipeAnswer(proposals, tuple(declined))


@dataclass(frozen=True)
class _Where:
    """What a call is counted by: the batches of a loop, or, where that is None, itself."""

    loop: cst.For | None
    function: cst.FunctionDef | None


def _where(request: RecipeRequest, line: cst.SimpleStatementLine) -> _Where:
    """Raises `Blocked` where the call is made in few batches already."""
    source = request.source
    inside = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
    function = next((above for above in source.ancestors(line) if isinstance(above, inside)), None)
    around = function if isinstance(function, cst.FunctionDef) else None
    loop = for_loop_of_training(source, line)
    counted = _counter_above(source, loop, line)
    if counted is not None and _is_certain(counted):
        raise Blocked(line, say("it is made every few batches only"), say("nothing to do"))
    if loop is None or counted is not None:
        return _Where(None, around)
    if not all(source.means_builtin(name) for name in ("enumerate", "range")):
        return _Where(None, around)
    check_unpatched(loop, request.names)
    return _Where(loop, around)


def _counter_above(source: SourceFile, loop: cst.For | None, line: cst.CSTNode) -> cst.BaseExpression | None:
    """The condition around a call that holds in some batches only."""
    for above in source.ancestors(line):
        if above is loop or isinstance(above, (cst.FunctionDef, cst.ClassDef)):
            return None
        if isinstance(above, cst.If) and is_rare(above.test, frozenset()):
            return above.test
    return None


def _is_certain(test: cst.BaseExpression) -> bool:
    """Whether a condition holds in few batches whatever its arguments: `step % 10 == 0`, and not `step % args.every`,
    which can be 1. The recording found the call in the step, so that it is counted by itself there."""
    counts = [node for node in walk(test) if isinstance(node, cst.BinaryOperation)]
    counts = [node for node in counts if isinstance(node.operator, cst.Modulo)]
    return not counts or any(isinstance(node.right, cst.Integer) for node in counts)


def _place(request: RecipeRequest, target: Target) -> tuple[_Where, cst.SimpleStatementLine]:
    """What counts, and the statement that a target means; raises `Blocked`."""
    source = request.source
    line = line_at(source, target.line)
    if line is None or _kind(request, line) is None:
        raise Blocked(None, NO_PLACE, say("take the call that this line makes out of the loop"))
    check_framework(request.names)
    if is_thinned(source, line):
        raise Blocked(line, say("it is made every few batches only"), say("nothing to do"))
    where = _where(request, line)
    check_kept(source, line.body[0], line)
    if not isinstance(source.parent(line), cst.IndentedBlock):
        raise Blocked(line, say("it does not stand in a block of its own"), BY_HAND)
    return where, line


def _kind(request: RecipeRequest, line: cst.SimpleStatementLine) -> _Kind | None:
    """What the statement calls, if that is all that it does."""
    small = line.body[0]
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return None
    if method_of(call) == "flush" and not call.args:
        return _FLUSH if dotted(call.func) else None
    plain = all(isinstance(argument.value, cst.Integer) and not argument.star for argument in call.args)
    name = request.names.qualified(call.func)
    owner, _, last = name.rpartition(".")
    if last == "empty_cache" and _is_device_module(request, owner):
        name = "torch.cuda.empty_cache"
    return _FUNCTIONS.get(name) if plain else None


def _is_device_module(request: RecipeRequest, name: str) -> bool:
    """Whether a name always is torch's module of some device: `getattr(torch, kind)`, `torch.get_device_module()`."""
    bound = [node for node in walk(request.source.module) if name in _bound(node)]
    calls = [node.value for node in bound if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call)]
    return bool(calls) and len(calls) == len(bound) and all(_gives_device_module(request, call) for call in calls)


def _bound(node: cst.CSTNode) -> frozenset[str]:
    if isinstance(node, cst.Param):
        return frozenset({node.name.value})
    return rebound(node) if isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)) else frozenset()


def _gives_device_module(request: RecipeRequest, call: cst.Call) -> bool:
    of_torch = bool(call.args) and request.names.qualified(call.args[0].value) == "torch"
    called = request.names.qualified(call.func)
    return called == "torch.get_device_module" or (called == "getattr" and of_torch)


def _proposal(
    request: RecipeRequest, where: _Where, lines: Sequence[cst.SimpleStatementLine], taken: set[str]
) -> Proposal:
    source, every = request.source, request.edit.interval
    ordered = sorted(lines, key=source.line)
    test, splices = condition(request, where.loop) if where.loop is not None else ("", [])
    counters: list[str] = []
    for group in groups(source, ordered):
        if where.loop is None:
            counters.append(_counter(source, group[0], taken))
            test = f"next({counters[-1]}) % {every} == 0"
        splices += below(source, group, f"if {test}:  {MARK}")
    kinds = list(dict.fromkeys(kind for line in ordered if (kind := _kind(request, line)) is not None))
    count = {"every": every}
    passes = say("{every} batches", **count) if where.loop is not None else say("{every} calls", **count)
    proposal = Proposal(
        edit="rare-call",
        tier="safe",
        location=request.place(ordered[0], source.function_around(ordered[0])),
        reason=joined("; ", (kind.effect(passes) for kind in kinds)),
        evidence=say("the line keeps Python busy in each batch (recorded)"),
        splices=(*splices, *_counters(source, ordered[0], counters)),
        covers=tuple(Location(source.shown, source.line(line)) for line in ordered),
    )
    for kind in kinds:
        if _is_noticed(request, kind):
            proposal = proposal.as_checked(kind.unproved)
    return proposal


def _counter(source: SourceFile, line: cst.SimpleStatementLine, taken: set[str]) -> str:
    """A name for what counts a call: `collect_calls`."""
    call = next(node for node in walk(line) if isinstance(node, cst.Call))
    return take_name(f"{source.code(call.func).rpartition('.')[2]}_calls", source.identifiers, taken)


def _counters(source: SourceFile, line: cst.SimpleStatementLine, names: Sequence[str]) -> Iterator[Splice]:
    """The counters of calls, above the function, class or loop of the file that makes the call."""
    if not names:
        return
    top = next(part for part in source.module.body if part is line or part in source.ancestors(line))
    start = source.line_start(first_line(source, top))
    head = "" if "itertools" in source.names.imports else "import itertools\n\n"
    counters = "".join(f"{name} = itertools.count()\n" for name in names)
    yield Splice(start, start, f"{head}{counters}\n\n")


def _is_noticed(request: RecipeRequest, kind: _Kind) -> bool:
    texts = (request.source.data, *(_texts(request.root) if request.root is not None else ()))
    return any(kind.noticed_by.search(text) for text in texts)


@lru_cache(maxsize=movers.REMEMBERED)
def _texts(root: Path) -> tuple[bytes, ...]:
    """The Python files of a project, as far as they are searched."""
    return tuple(_read(python_files(root)))


def _read(paths: Iterator[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            if path.is_file() and path.stat().st_size <= MAX_BYTES:
                yield path.read_bytes()
        except OSError:
            continue
