"""fused-optimizer (unsafe): torch's own optimizers are made with `fused=True`, wherever in the project that is.

In: a RecipeRequest. Out: one Proposal per call of an optimizer class that has the argument. The update rule is the
same, computed in one kernel for all parameters, which rounds in another order.
"""

from __future__ import annotations

import ast

import libcst as cst

from tracelens.messages import say
from tracelens.model import Declined
from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import Splice
from tracelens.patch.effects import syntax
from tracelens.patch.loop.loaders import has_hidden_arguments
from tracelens.patch.loop.loops import Blocked, check_kept
from tracelens.patch.loop.project_trees import full_name, is_started
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import rounding
from tracelens.patch.recipes.arguments import with_argument

FUSED, FOREACH = "fused", "foreach"
HAVE_IT = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""Classes of torch.optim that take `fused`."""
HAVE_NONE = frozenset(
    {"Adadelta", "Adafactor", "Adamax", "ASGD", "LBFGS", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SparseAdam"}
)
REASON = say("the optimizer updates all parameters in one kernel: the same rule, rounded in another order")
WRITTEN = say("write {fused}=True where the optimizer is made, if its class has that argument", fused=FUSED)


def propose(request: RecipeRequest) -> RecipeAnswer:
    proposals: list[Proposal] = []
    declined: list[Declined] = []
    calls = [node for node in walk(request.source.module) if isinstance(node, cst.Call)]
    for call in calls:
        name = _torch_class(request, call)
        if name in HAVE_NONE:
            obstacle = say("torch has no fused {name}", name=name)
            declined.append(request.decline(call, Blocked(call, obstacle, say("nothing to do"))))
        if name not in HAVE_IT:
            continue
        try:
            proposals += _proposed(request, call)
        except Blocked as blocked:
            declined.append(request.decline(call, blocked))
    if is_started(request.source) and not _is_made_somewhere(request):
        obstacle = say("no optimizer of torch is made by its name in the files of this project")
        declined.append(rounding.declined(request, None, obstacle, WRITTEN))
    return rounding.answer(request, proposals, declined)


def _torch_class(request: RecipeRequest, call: cst.Call) -> str:
    """`AdamW` for a call of torch.optim.AdamW; "" for any other call."""
    full = request.names.qualified(call.func)
    return full.rpartition(".")[2] if full.startswith("torch.optim.") else ""


def _proposed(request: RecipeRequest, call: cst.Call) -> list[Proposal]:
    """The call with the argument; raises `Blocked`. Nothing where it has it."""
    source = request.source
    check_kept(source, call, call)
    if has_hidden_arguments(call):
        obstacle = say("the optimizer's arguments are hidden in `*` or `**`")
        raise Blocked(call, obstacle, say("add {fused}=True there", fused=FUSED))
    given = {one.keyword.value: one for one in call.args if one.keyword is not None}
    if "differentiable" in given and dotted(given["differentiable"].value) != "False":
        raise Blocked(call, say("a fused optimizer is not differentiable"), say("nothing to do"))
    argument = given.get(FUSED) or given.get(FOREACH)
    if argument is None:
        return [rounding.proposal(request, source.line(call), REASON, [with_argument(source, call, f"{FUSED}=True")])]
    code = source.code(argument.value)
    if code not in ("True", "False", "None"):
        obstacle = say("{argument} comes from `{code}`", argument=source.code(argument), code=code)
        raise Blocked(call, obstacle, say("start the script so that it is made with {fused}=True", fused=FUSED))
    if argument is given.get(FUSED) and code == "True":
        return []
    if FUSED in given and FOREACH in given:
        raise Blocked(call, say("it has both {fused} and {foreach}", fused=FUSED, foreach=FOREACH), WRITTEN)
    assert argument.keyword is not None
    start, (_, end) = source.span(argument.keyword)[0], source.outer_span(argument.value)
    return [rounding.proposal(request, source.line(call), REASON, [Splice(start, end, f"{FUSED}=True")])]


def _is_made_somewhere(request: RecipeRequest) -> bool:
    known = {f"torch.optim.{name}" for name in HAVE_IT | HAVE_NONE}
    trees = request.source.trees.values()
    calls = ((tree, node.func) for tree in trees for node in syntax.walk(tree) if isinstance(node, ast.Call))
    return any(full_name(tree, called) in known for tree, called in calls)
