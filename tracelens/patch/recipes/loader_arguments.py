"""loader-ahead and loader-pinning: one more argument of the training loop's DataLoader, each a lever of its own.

In: a RecipeRequest. Out: one Proposal per loader. Neither changes which samples a batch has nor draws a random number:
workers get their batches in turn however many they prepare, and a pinned tensor has the same values. What a data set,
a sampler or a batch of the project's own makes of it is not known, and a trial decides.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.source import Splice
from tracelens.patch.loop import workers
from tracelens.patch.loop.loaders import keyword
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import batch_writes, plain_items
from tracelens.patch.recipes.arguments import with_argument
from tracelens.patch.recipes.more_workers import Loading, condition_of_workers, of_each_loader
from tracelens.patch.recipes.pinned import PIN, UNPROVED, where_there_is_a_gpu, with_doubts

AHEAD, PINNED = "prefetch_factor", PIN
_AHEAD_POSITION, _PINNED_POSITION = 99, 7
UNPROVED_AHEAD = say("whether the data set or a sampler of the project notices that its batches are made earlier")
PINNING = say("batches are put into pinned memory, from which copies to the GPU are faster; their values are the same")
EVIDENCE = say("the loop waits for its loader or its copies (recorded)")
USUAL_AHEAD = 2
"""torch's own number where none is given."""


def propose(request: RecipeRequest) -> RecipeAnswer:
    return of_each_loader(request, _ahead if request.edit.kind == "loader-ahead" else _pinned)


def _ahead(request: RecipeRequest, loading: Loading) -> Proposal | None:
    call, wanted = loading.call, request.edit.depth
    given = keyword(call, AHEAD, _AHEAD_POSITION)
    if given is not None and not isinstance(given, cst.Integer):
        raise Blocked(
            call,
            say("{ahead} comes from `{code}`", ahead=AHEAD, code=request.source.code(given)),
            say("set it to {wanted}", wanted=wanted),
        )
    now = given.evaluated_value if isinstance(given, cst.Integer) else USUAL_AHEAD
    if wanted <= now:
        return None
    by_hand = say("add {ahead}={wanted}", ahead=AHEAD, wanted=wanted)
    condition = condition_of_workers(request.source, call, by_hand)
    value = f"{wanted} if {condition} else None" if condition else str(wanted)
    workers.check_same_in_workers(call, loading.bodies)
    splice = (
        with_argument(request.source, call, f"{AHEAD}={value}")
        if given is None
        else Splice(*request.source.outer_span(given), value)
    )
    earlier = say(
        "each worker prepares {wanted} batches ahead instead of {now}; they are the same batches in the same order",
        wanted=wanted,
        now=now,
    )
    tensors = workers.holds_tensors(request.source, request.names, call)
    return _proposed(request, loading, splice, (earlier, UNPROVED_AHEAD), tensors)


def _pinned(request: RecipeRequest, loading: Loading) -> Proposal | None:
    source, call = request.source, loading.call
    given = keyword(call, PINNED, _PINNED_POSITION)
    value = where_there_is_a_gpu(request.names)
    if given is None:
        splice = with_argument(source, call, f"{PINNED}={value}")
    elif isinstance(given, cst.Name) and given.value == "False":
        splice = Splice(*source.outer_span(given), value)
    elif isinstance(given, cst.Name) and given.value == "True":
        return None
    else:
        raise Blocked(
            call,
            say("{pinned} comes from `{code}`", pinned=PINNED, code=source.code(given)),
            say("set it to True where there is a GPU"),
        )
    batch_writes.check(source, call)
    plain = plain_items.has_plain_items(source, request.names, call)
    return with_doubts(_proposed(request, loading, splice, (PINNING, UNPROVED), plain), request, call)


def _proposed(
    request: RecipeRequest, loading: Loading, splice: Splice, words: tuple[str, str], proved: bool
) -> Proposal:
    call, (reason, unproved) = loading.call, words
    proposal = Proposal(
        edit=request.edit.kind,
        tier="safe",
        location=request.place(call),
        reason=reason,
        evidence=EVIDENCE,
        splices=(splice,),
    )
    return proposal if proved and loading.loop is not None else proposal.as_checked(unproved)
