"""persistent-workers (unsafe): the loader's worker processes stay alive from one epoch to the next.

In: a RecipeRequest. Out: one Proposal per loader of a loop that runs more than once. A loader with such workers draws
the seed of their generators once only, from the generator that the shuffling uses: from the second epoch on, that one
gives other numbers.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, targets, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import workers
from tracelens.patch.loop.loaders import keyword
from tracelens.patch.loop.loops import Blocked, Loop, innermost_loop
from tracelens.patch.proposal import NO_RECORD, Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes.arguments import with_argument
from tracelens.patch.recipes.more_workers import (
    WORKERS,
    WORKERS_POSITION,
    Loading,
    condition_of_workers,
    of_each_loader,
)

PERSISTENT, _KEYWORD_ONLY = "persistent_workers", 99
SHUFFLE = say(
    "the workers are started once and not in each epoch; the loader then draws its base "
    "seed once only, so from the second epoch on the shuffle and the random numbers "
    "drawn on the CPU differ"
)


def propose(request: RecipeRequest) -> RecipeAnswer:
    return of_each_loader(request, _proposal)


def _proposal(request: RecipeRequest, loading: Loading) -> Proposal | None:
    source, call = request.source, loading.call
    if keyword(call, PERSISTENT, _KEYWORD_ONLY) is not None:
        return None
    value = condition_of_workers(source, call, say("add {persistent}=True", persistent=PERSISTENT)) or "True"
    number = keyword(call, WORKERS, WORKERS_POSITION)
    if isinstance(number, cst.Integer) and number.evaluated_value == request.workers:
        raise Blocked(call, say("its workers are new"), say("record the run with them first"))
    if loading.loop is not None and not _runs_again(source, loading.loop):
        raise Blocked(loading.loop, say("the loop runs once: there is no second epoch"), say("nothing to do"))
    workers.check_same_in_workers(call, loading.bodies)
    _check_dataset_stays(source, call)
    request.check_unsafe(SHUFFLE)
    return Proposal(
        edit="persistent-workers",
        tier="unsafe",
        location=request.place(call),
        reason=SHUFFLE,
        evidence=NO_RECORD,
        splices=(with_argument(source, call, f"{PERSISTENT}={value}"),),
    )


def _runs_again(source: SourceFile, loop: Loop) -> bool:
    """Whether the loop is inside another one, or in a function that is called in one."""
    for ancestor in source.ancestors(loop):
        if isinstance(ancestor, (cst.For, cst.While)):
            return True
        if isinstance(ancestor, cst.FunctionDef):
            calls = source.calls.get(ancestor.name.value, ())
            return any(innermost_loop(source, call) is not None for call in calls)
    return False


def _check_dataset_stays(source: SourceFile, call: cst.Call) -> None:
    """Workers that stay alive keep their copy of the data set: it must not change between two epochs."""
    given = keyword(call, "dataset", 0)
    for node in walk(source.module):
        for changed in _changed(node):
            name = dotted(changed)
            same = name != "" and (name.endswith(".dataset") or (given is not None and name == dotted(given)))
            if same and innermost_loop(source, node) is not None:
                obstacle = say(
                    "the data set may change between two epochs, which workers that stay alive would not see"
                )
                raise Blocked(node, obstacle, say("start the workers anew where that happens"))


def _changed(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The objects that a statement stores into, or that a call is a method of."""
    if isinstance(node, cst.Call):
        return [node.func.value] if isinstance(node.func, cst.Attribute) else []
    found = targets(node) if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)) else ()
    return [one.value for one in found if isinstance(one, (cst.Attribute, cst.Subscript))]
