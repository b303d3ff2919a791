"""more-workers (unsafe) and loader-workers: the loader of a training loop gets the number of workers that is asked for.

In: a RecipeRequest. Out: one Proposal per loader. Items are then made in other processes: random draws of the data set
and its transforms come from the workers' generators. As a part of a scheme that needs --unsafe; as a lever of its own
(loader-workers) it is written where a trial has found equal numbers, or where the data set is known to draw none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say, say_count
from tracelens.model import Declined, Location
from tracelens.patch.code.names import method_of, walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop import options, workers
from tracelens.patch.loop.loaders import constructions, has_hidden_arguments, is_data_loader, keyword, loader_of
from tracelens.patch.loop.loops import Blocked, check_framework, check_kept, for_loop_of_training
from tracelens.patch.loop.training_loops import step_bodies
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes.arguments import with_argument

WORKERS, WORKERS_POSITION = "num_workers", 5
DRAWS = say(
    "random draws of the data set and its transforms come from the workers' generators: numbers change where there are"
)
UNPROVED = say("whether the data set, its transforms or the collation draw random numbers")
NO_DRAWS = say("the data set holds tensors and draws nothing, so batches stay the same")


@dataclass(frozen=True)
class Loading:
    """The call that makes the loader of a training loop."""

    call: cst.Call
    bodies: tuple[cst.BaseSuite, ...]
    """What runs per batch, as far as this file holds it."""
    loop: cst.For | None = None
    """The loop, where the call was found from it: all that trains is in its body. Else the recording named the call."""


def propose(request: RecipeRequest) -> RecipeAnswer:
    return of_each_loader(request, _proposal)


def of_each_loader(request: RecipeRequest, make: Callable[[RecipeRequest, Loading], Proposal | None]) -> RecipeAnswer:
    """What `make` proposes for the loaders that the targets mean, each once; it raises `Blocked` to decline one."""
    proposals: dict[tuple[Splice, ...], Proposal] = {}  # two loaders may have their number from one option
    declined: list[Declined] = []
    for loading in _loadings(request, declined):
        try:
            proposal = make(request, loading)
        except Blocked as blocked:
            declined.append(request.decline(_place(loading.call, blocked), blocked))
            continue
        if proposal is not None:
            proposals.setdefault(proposal.splices, proposal)
    return RecipeAnswer(tuple(proposals.values()), tuple(declined))


def _place(call: cst.Call, blocked: Blocked) -> cst.CSTNode:
    """The argument that stands in the way, which may be lines below the call's first; else the call."""
    return next((one.value for one in call.args if one.value is blocked.node), call)


def _loadings(request: RecipeRequest, declined: list[Declined]) -> Iterator[Loading]:
    """The loaders that the targets mean: those made at a line of theirs, else those of the training loops, by a line or
    all of the file."""
    made = _made_there(request)
    if made:
        bodies = step_bodies(request.source)
        yield from (Loading(call, bodies) for call in made if _may_change(request, call, declined))
        return
    for loop in _loops(request):
        try:
            calls = _loader_calls(request, loop)
        except Blocked as blocked:
            declined.append(request.decline(loop, blocked))
        else:
            yield from (Loading(call, (loop.body,), loop) for call in calls)


def _made_there(request: RecipeRequest) -> list[cst.Call]:
    """The calls that make a DataLoader at the line of a target: where the recording saw it made."""
    source, lines = request.source, [target.line for target in request.targets if target.line is not None]
    if not lines:
        return []
    calls = (node for node in walk(source.module) if isinstance(node, cst.Call) and is_data_loader(node, request.names))
    return [call for call in calls if any(source.covers(call, line) for line in lines)]


def _may_change(request: RecipeRequest, call: cst.Call, declined: list[Declined]) -> bool:
    try:
        _check_call(request, call)
    except Blocked as blocked:
        declined.append(request.decline(call, blocked))
        return False
    return True


def _loader_calls(request: RecipeRequest, loop: cst.For) -> tuple[cst.Call, ...]:
    """The calls whose arguments may be changed; raises `Blocked`."""
    source, names = request.source, request.names
    check_framework(names)
    loader = loader_of(loop, names)
    calls = constructions(source, names, loader) if loader is not None else ()
    if not calls:
        raise Blocked(None, say("the loader is made elsewhere"), say("change the arguments of its DataLoader"))
    for call in calls:
        _check_call(request, call)
    return calls


def _check_call(request: RecipeRequest, call: cst.Call) -> None:
    if has_hidden_arguments(call):
        raise Blocked(call, say("the loader's arguments are hidden in `*` or `**`"), say("change them there"))
    check_kept(request.source, call, call)


def _loops(request: RecipeRequest) -> Iterator[cst.For]:
    source = request.source
    lines = {target.line for target in request.targets} - {None}
    found: dict[int, cst.For] = {}
    for node in walk(source.module):
        if method_of(node) != "backward":
            continue
        loop = for_loop_of_training(source, node)
        if loop is not None:  # else in a step function: which loop calls it, and with which loader, is not told here
            found[id(loop)] = loop
    for loop in found.values():
        if not lines or any(source.covers(loop, line) for line in lines):
            yield loop


def _proposal(request: RecipeRequest, loading: Loading) -> Proposal | None:
    source, call, wanted = request.source, loading.call, request.edit.workers
    given = _number(request, call)
    now = given.evaluated_value if given is not None else 0
    if wanted <= now:
        return None
    start = workers.startable(source, call, loading.bodies, request.start_method)
    workers.check_same_in_workers(call, loading.bodies)
    more = say_count(
        "{count} worker instead of {now}", "{count} workers instead of {now}", wanted, now=now or say("none")
    )
    splice = (
        with_argument(source, call, f"{WORKERS}={wanted}")
        if given is None
        else Splice(*source.outer_span(given), str(wanted))
    )
    is_default = given is not None and given is not keyword(call, WORKERS, WORKERS_POSITION)
    if is_default:
        more = say("{change} where the command does not say how many", change=more)
    written = request.place(given if given is not None and is_default else call)  # where a person looks for the change
    if request.edit.kind == "loader-workers":
        # an option may be read at other places, too
        whole = loading.loop is not None and not is_default
        draws_nothing = whole and workers.holds_tensors(source, request.names, call)
        reason = _reason(more, NO_DRAWS if draws_nothing else DRAWS, start)
        return _as_lever(written, reason, splice, draws_nothing)
    reason = _reason(more, DRAWS, start)
    request.check_unsafe(reason)
    return Proposal(
        edit="more-workers",
        tier="unsafe",
        location=written,
        reason=reason,
        evidence=say("the loop waits for its loader (replayed)"),
        splices=(splice,),
    )


def _number(request: RecipeRequest, call: cst.Call) -> cst.Integer | None:
    """The number of workers as it is written, in the call or as the default of a command-line option; None where the
    loader has none. Raises `Blocked` where it comes from somewhere else."""
    given = keyword(call, WORKERS, WORKERS_POSITION)
    if given is None or isinstance(given, cst.Integer):
        return given
    default = options.default_of(request.source, given)
    if default is None:
        text = request.source.code(given)
        raise Blocked(
            given,
            say("the number of workers comes from `{text}`", text=text),
            say("set `{text}` to {workers}", text=text, workers=request.edit.workers),
        )
    check_kept(request.source, default, default)
    return default


def condition_of_workers(source: SourceFile, call: cst.Call, by_hand: str) -> str:
    """The condition that a loader has workers; empty where it certainly has, `Blocked` where none or nobody knows."""
    given = keyword(call, WORKERS, WORKERS_POSITION)
    if isinstance(given, (cst.Name, cst.Attribute)):
        return f"{source.code(given)} > 0"
    if given is None or (isinstance(given, cst.Integer) and given.evaluated_value <= 0):
        raise Blocked(call, say("the loader has no workers"), say("nothing to do"))
    if isinstance(given, cst.Integer):
        return ""
    raise Blocked(call, say("the number of workers comes from `{code}`", code=source.code(given)), by_hand)


def _reason(change: str, draws: str, start: str) -> str:
    return say("{change}: {draws}; {start}", change=change, draws=draws, start=start)


def _as_lever(written: Location, reason: str, splice: Splice, draws_nothing: bool) -> Proposal:
    """The change by itself: proved for a data set of tensors, else to be checked."""
    proposal = Proposal(
        edit="loader-workers",
        tier="safe",
        location=written,
        reason=reason,
        evidence=say("the loop waits for its loader (recorded)"),
        splices=(splice,),
    )
    return proposal if draws_nothing else proposal.as_checked(UNPROVED)
