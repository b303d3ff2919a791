"""rare-call: a call that the training does not need in each batch is made every N batches only.

In: a RecipeRequest. Out: one Proposal per loop, for `gc.collect()`, `torch.cuda.empty_cache()` and the flushing of a
stream. The call stays where it stands, below a condition on the number of the batch. None of them computes anything;
what else in the project may notice that it comes later decides between `safe` and `checked`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import libcst as cst

from tracelens.model import Declined, Location
from tracelens.patch.code import movers
from tracelens.patch.code.names import dotted
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import Blocked, check_framework, check_unpatched, is_rare, training_loop
from tracelens.patch.loop.thinned import MARK, is_thinned
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, Target
from tracelens.patch.recipes.called_helpers import Helper, helper_of
from tracelens.patch.recipes.every_nth import below, condition, counted_by, groups, line_at

BY_HAND = "put the call below `if step % N == 0`, or take it out of the loop"
NO_PLACE = "no call on this line that rare-call makes rarer"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A call that may be made more rarely: what happens then, and who could notice."""

    effect: str
    noticed_by: re.Pattern[bytes]
    """Text anywhere in the project after which nobody knows whether it is noticed."""
    unproved: str


_COLLECT = _Kind(
    "objects in reference cycles stay in memory for up to {n} batches",
    re.compile(
        rb"weakref|__del__|tracemalloc|ResourceWarning|gc\.(?:disable|freeze|garbage|callbacks|get_|set_|isenabled)"
    ),
    "whether finalizers, weak references or settings of the collector in this project depend on when it runs",
)
_EMPTY = _Kind(
    "memory that PyTorch keeps for reuse goes back to the driver every {n} batches; where it runs out of memory, "
    "PyTorch gives it back by itself",
    re.compile(rb"memory_(?:reserved|stats|snapshot|summary|cached)|mem_get_info|nvidia-smi|pynvml|\bnvml"),
    "whether the project acts on how much memory is free",
)
_FLUSH = _Kind(
    "lines are written out every {n} batches, and at the end",
    re.compile(rb""),  # always: other programs, and this one, can read a file
    "whether somebody reads the file while the training runs",
)
_FUNCTIONS = {"gc.collect": _COLLECT, "torch.cuda.empty_cache": _EMPTY, "torch.cuda.memory.empty_cache": _EMPTY}


def propose(request: RecipeRequest) -> RecipeAnswer:
    found: dict[tuple[int, int], tuple[_Where, list[cst.SimpleStatementLine]]] = {}
    declined: list[Declined] = []
    for target in request.targets:
        try:
            where, line = _place(request, target)
        except Blocked as blocked:
            declined.append(_declined(request, target, blocked))
            continue
        lines = found.setdefault((id(where.loop), id(where.function)), (where, []))[1]
        if not any(line is other for other in lines):
            lines.append(line)
    proposals = tuple(_proposal(request, where, lines) for where, lines in found.values())
    return RecipeAnswer(proposals, tuple(declined))


@dataclass(frozen=True)
class _Where:
    """The loop that makes the calls, itself or in a helper that it calls."""

    loop: cst.For | cst.While
    helper: Helper | None = None

    @property
    def function(self) -> cst.FunctionDef | None:
        return self.helper.function if self.helper is not None else None


def _where(source: SourceFile, line: cst.CSTNode) -> _Where:
    """Raises `Blocked` where no training loop makes the call."""
    inside = (cst.FunctionDef, cst.For, cst.While)
    nearest = next((above for above in source.ancestors(line) if isinstance(above, inside)), None)
    if isinstance(nearest, cst.FunctionDef):
        helper = helper_of(source, line)
        return _Where(helper.loop, helper)
    loop = training_loop(source, line)
    if isinstance(loop, cst.While) and counted_by(source, loop, 1) is None:
        raise Blocked(loop, "the training loop is a while loop, whose batches nothing counts", BY_HAND)
    return _Where(loop)


def _place(request: RecipeRequest, target: Target) -> tuple[_Where, cst.SimpleStatementLine]:
    """The loop and the statement that a target means; raises `Blocked`."""
    source = request.source
    line = line_at(source, target.line)
    if line is None or _kind(request, line) is None:
        raise Blocked(None, NO_PLACE, "take the call that this line makes out of the loop")
    check_framework(request.names)
    if is_thinned(source, line):
        raise Blocked(line, "it is made every few batches only", "nothing to do")
    where = _where(source, line)
    loop = where.loop
    check_unpatched(loop, request.names)
    called = where.helper.calls if where.helper is not None else ()
    if any(_is_below_a_counter(request, loop, node) for node in (line, *called)):
        raise Blocked(line, "it is made every few batches only", "nothing to do")
    if source.kept_by_comment(line.body[0]):
        raise Blocked(line, "it is marked `# tracelens: keep`", "remove the comment to have it patched")
    if not isinstance(source.parent(line), cst.IndentedBlock):
        raise Blocked(line, "it does not stand in a block of its own", BY_HAND)
    if not all(source.means_builtin(name) for name in ("enumerate", "range")):
        raise Blocked(loop, "`enumerate` or `range` is the file's own", BY_HAND)
    return where, line


def _kind(request: RecipeRequest, line: cst.SimpleStatementLine) -> _Kind | None:
    """What the statement calls, if that is all that it does."""
    small = line.body[0]
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "flush" and not call.args:
        return _FLUSH if dotted(call.func) else None
    plain = all(isinstance(argument.value, cst.Integer) and not argument.star for argument in call.args)
    return _FUNCTIONS.get(request.names.qualified(call.func)) if plain else None


def _is_below_a_counter(request: RecipeRequest, loop: cst.For | cst.While, line: cst.CSTNode) -> bool:
    for above in request.source.ancestors(line):
        if above is loop:
            return False
        if isinstance(above, cst.If) and is_rare(above.test, frozenset()):
            return True
    return False


def _declined(request: RecipeRequest, target: Target, blocked: Blocked) -> Declined:
    if blocked.node is not None:
        return request.decline(blocked.node, blocked)
    return Declined(request.edit.kind, Location(request.source.shown, target.line), blocked.obstacle, blocked.by_hand)


def _proposal(request: RecipeRequest, where: _Where, lines: Sequence[cst.SimpleStatementLine]) -> Proposal:
    source, every = request.source, request.edit.interval
    ordered = sorted(lines, key=source.line)
    test, splices = _condition(request, where.loop)
    splices, reason = [*splices], ""
    if where.helper is not None:
        splices += where.helper.splices(source, test)
        test, reason = where.helper.parameter, f" (in `{where.helper.function.name.value}`, which the loop calls)"
    for group in groups(source, ordered):
        splices += below(source, group, f"if {test}:  {MARK}")
    kinds = list(dict.fromkeys(kind for line in ordered if (kind := _kind(request, line)) is not None))
    proposal = Proposal(
        edit="rare-call",
        tier="safe",
        location=request.place(ordered[0], source.function_around(ordered[0])),
        reason="; ".join(kind.effect.format(n=every) for kind in kinds) + reason,
        evidence="the line keeps Python busy in each batch (recorded)",
        splices=tuple(splices),
        covers=tuple(Location(source.shown, source.line(line)) for line in ordered),
    )
    for kind in kinds:
        if _is_noticed(request, kind):
            proposal = proposal.as_checked(kind.unproved)
    return proposal


def _condition(request: RecipeRequest, loop: cst.For | cst.While) -> tuple[str, list[Splice]]:
    if isinstance(loop, cst.For):
        return condition(request, loop)
    counted = counted_by(request.source, loop, request.edit.interval)
    assert counted is not None, "a while loop without a count was declined"
    return counted, []


def _is_noticed(request: RecipeRequest, kind: _Kind) -> bool:
    texts = (request.source.data, *(_texts(request.root) if request.root is not None else ()))
    return any(kind.noticed_by.search(text) for text in texts)


@lru_cache(maxsize=movers.REMEMBERED)
def _texts(root: Path) -> tuple[bytes, ...]:
    """The Python files of a project, as far as they are searched."""
    return tuple(_read(movers.python_files(root)))


def _read(paths: Iterator[Path]) -> Iterator[bytes]:
    for path in paths:
        try:
            if path.is_file() and path.stat().st_size <= movers.MAX_BYTES:
                yield path.read_bytes()
        except OSError:
            continue
