"""anomaly-off: `set_detect_anomaly(True)` becomes `set_detect_anomaly(False)`; so does `detect_anomaly()`.

In: a RecipeRequest. Out: one Proposal per call at a target's line, or, for a target without a line, per call of the
file. Every number stays: anomaly detection looks at gradients and keeps the lines of forward, it computes nothing of
its own. What is lost is its error where a gradient is not a number; whether that comes shows only in a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.model import Declined
from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import Splice
from tracelens.patch.loop.loops import Blocked, check_kept, condition_around
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest

OFF = "set_detect_anomaly(False)"
_SETS = frozenset({"torch.autograd.set_detect_anomaly", "torch.set_anomaly_enabled"})
_DETECTS = "torch.autograd.detect_anomaly"
_MODES = ("mode", "enabled")
"""The names of the argument that decides."""
NO_PLACE = say("no call on this line that switches anomaly detection on")
BY_HAND = say("switch anomaly detection off where the script or its framework has an option for it")
REASON = say(
    "gradients are no longer checked, and forward keeps no lines: one that is not a number ends the training no more, "
    "and an error in backward does not say which line of forward it belongs to"
)
UNPROVED = say(
    "whether a gradient is not a number in some step: anomaly detection ends the training with an error there"
)


def propose(request: RecipeRequest) -> RecipeAnswer:
    proposals: dict[int, Proposal] = {}
    declined: list[Declined] = []
    calls = [node for node in walk(request.source.module) if _is_about_anomalies(request, node)]
    for target in request.targets:
        here = [call for call in calls if target.line is None or request.source.covers(call, target.line)]
        if not here and target.line is not None:
            declined.append(request.decline_target(target, Blocked(None, NO_PLACE, BY_HAND)))
        for call in here:
            try:
                proposals[id(call)] = _proposal(request, cst.ensure_type(call, cst.Call))
            except Blocked as blocked:
                declined.append(request.decline(call, blocked))
    return RecipeAnswer(tuple(proposals.values()), tuple(declined))


def _is_about_anomalies(request: RecipeRequest, node: cst.CSTNode) -> bool:
    """Calls that say `False` already are none."""
    if not isinstance(node, cst.Call):
        return False
    name = request.names.qualified(node.func)
    mode = _mode(node)
    off = mode is not None and isinstance(mode.value, cst.Name) and mode.value.value == "False"
    return name == _DETECTS or (name in _SETS and not off)


def _mode(call: cst.Call) -> cst.Arg | None:
    """The argument that switches it on or off."""
    named = (one for one in call.args if one.keyword is not None and one.keyword.value in _MODES)
    first = call.args[0] if call.args and call.args[0].keyword is None and not call.args[0].star else None
    return first or next(named, None)


def _proposal(request: RecipeRequest, call: cst.Call) -> Proposal:
    source = request.source
    check_kept(source, call, call)
    if condition := condition_around(source, call, "__name__"):
        obstacle = say("it is switched on below `{condition}`", condition=condition)
        raise Blocked(call, obstacle, say("start the training so that this does not hold"))
    seen = say("anomaly detection was on in the recorded steps")
    return request.proposed(call, REASON, seen, tuple(_written(request, call))).as_checked(UNPROVED)


def _written(request: RecipeRequest, call: cst.Call) -> Iterator[Splice]:
    """What makes the call switch it off; raises `Blocked` where it is decided elsewhere or no name leads there."""
    source = request.source
    if request.names.qualified(call.func) != _DETECTS:
        mode = _mode(call)
        if mode is None or not isinstance(mode.value, cst.Name) or mode.value.value != "True":
            obstacle = say("whether it is on comes from `{code}`", code=source.code(mode.value if mode else call))
            raise Blocked(call, obstacle, BY_HAND)
        yield Splice(*source.span(mode.value), "False")
        return
    start, end = source.span(call)
    yield Splice(start, end, f"{_module(request, call)}.{OFF}")


def _module(request: RecipeRequest, call: cst.Call) -> str:
    """What this file calls `torch.autograd`."""
    if isinstance(call.func, cst.Attribute):
        return dotted(call.func.value)
    for name, full in request.names.imports.items():
        if full in ("torch", "torch.autograd"):
            return name if full == "torch.autograd" else f"{name}.autograd"
    raise Blocked(call, say("this file has no name for torch.autograd"), say("write torch.autograd.{off}", off=OFF))
