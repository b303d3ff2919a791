"""gradients-to-none: `zero_grad(set_to_none=False)` without its argument, as PyTorch has it since 2.0.

In: a RecipeRequest. Out: one Proposal per call at a target's line. Filling with zeros takes a kernel per gradient, and
the backward pass then adds to them. What differs: an optimizer leaves a parameter without a gradient alone, and moves
one whose gradient is zero by its momentum, averages or weight decay. Which of them there are shows in a trial.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import method_of
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import Blocked, check_framework, check_kept
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, by_target
from tracelens.patch.recipes.every_nth import line_at

ARGUMENT, METHOD = "set_to_none", "zero_grad"
NO_PLACE = say("no zero_grad(set_to_none=False) on this line")
BY_HAND = say("call zero_grad() without set_to_none=False")
REASON = say("gradients are freed instead of being filled with zeros, and the backward pass stores instead of adding")
UNPROVED = say(
    "whether a parameter that gets no gradient in some step is moved by momentum, "
    "averages or weight decay, and whether something reads .grad before the next "
    "backward pass"
)


def propose(request: RecipeRequest) -> RecipeAnswer:
    return by_target(request, _found)


def _found(request: RecipeRequest, line: int | None) -> tuple[cst.Call, Proposal]:
    call = _call(request.source, line)
    check_framework(request.names)
    return call, _proposal(request, call)


def _call(source: SourceFile, line: int | None) -> cst.Call:
    statement = line_at(source, line)
    small = statement.body[0] if statement is not None else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or method_of(call) != METHOD or not _fills(call):
        raise Blocked(statement, NO_PLACE, BY_HAND)
    if source.line(call) != source.last_line(call):
        raise Blocked(statement, say("the call has more than one line"), BY_HAND)
    check_kept(source, cst.ensure_type(small, cst.Expr), statement)
    return call


def _fills(call: cst.Call) -> bool:
    """Whether its one argument is `set_to_none=False`, by name or in its place."""
    if len(call.args) != 1 or call.args[0].star:
        return False
    (argument,) = call.args
    named = argument.keyword is None or argument.keyword.value == ARGUMENT
    return named and isinstance(argument.value, cst.Name) and argument.value.value == "False"


def _proposal(request: RecipeRequest, call: cst.Call) -> Proposal:
    source = request.source
    _, name_end = source.outer_span(call.func)
    opening, (_, end) = source.text.index("(", name_end) + 1, source.span(call)
    seen = say("filling them takes a part of the step (recorded)")
    return request.proposed(call, REASON, seen, (Splice(opening, end - 1, ""),)).as_checked(UNPROVED)
