"""compile-modules (unsafe): the modules that the loop calls are compiled in place, before it.

In: a RecipeRequest. Out: one Proposal per module, where its name is bound: `model.compile()`, which keeps the names of
its parameters. torch passes over frames of its own files, so of a class of torch itself the forward method is compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracelens.messages import say
from tracelens.model import Declined
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.loop.forward_pass import Unclear
from tracelens.patch.loop.loops import Blocked, check_framework
from tracelens.patch.loop.module_calls import ModuleCalls, module_calls
from tracelens.patch.loop.module_homes import Home, homes
from tracelens.patch.loop.project_trees import dotted, is_started
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import rounding

MOST_MODULES = 8
"""A loop that calls more modules by itself has its forward pass in the loop; `try` stops at the same number."""
REASON = say(
    "the forward pass and its gradients are compiled, which fuses operations and rounds in another order; the first "
    "steps take longer"
)
BY_HAND = say("call model.compile() before the loop, or take the forward pass into one module")
_OTHER_COMPILERS = frozenset({"re", "sys", "regex", "template"})
_ORDER = 1
"""A module is compiled below the line that puts it into another order."""


def propose(request: RecipeRequest) -> RecipeAnswer:
    source = request.source
    why = _obstacle(source) or _of_framework(request)
    if why:
        left = [rounding.declined(request, None, why, BY_HAND)] if is_started(source) else []
        return rounding.answer(request, (), left)
    found = homes(source)
    modules = [one for one in found if isinstance(one, Home)]
    declined = list(_declined(request, [one for one in found if isinstance(one, Unclear)]))
    if is_started(source) and (len(modules) > MOST_MODULES or not found):
        text = say("the loop calls more than {most} modules, one by one", most=MOST_MODULES)
        none = say("no module that a loop calls was found")
        declined.append(rounding.declined(request, None, text if modules else none, BY_HAND))
    if len(modules) > MOST_MODULES:
        return rounding.answer(request, (), declined)
    proposals: list[Proposal] = []
    for home in modules:
        if home.path == source.path:
            try:
                proposals.append(_proposed(request, home))
            except Blocked as blocked:
                place = rounding.declined(request, home.statement.lineno, blocked.obstacle, blocked.by_hand)
                declined.append(place)
    return rounding.answer(request, proposals, declined)


def _declined(request: RecipeRequest, unclear: list[Unclear]) -> Iterator[Declined]:
    """What is not clear of this file."""
    for one in unclear:
        if one.path == request.source.path:
            yield rounding.declined(request, one.line, one.obstacle, one.by_hand)


def _obstacle(source: SourceFile) -> str:
    """Where the project compiles something itself, or does what compiled code cannot; "" where it does neither."""
    for path, tree in source.trees.items():
        for node in syntax.walk(tree):
            if not isinstance(node, ast.Attribute | ast.keyword):
                continue
            place = say("{path}:{line}", path=path.relative_to(source.root).as_posix(), line=node.lineno)
            if isinstance(node, ast.keyword):
                if node.arg == "create_graph":
                    return say("{place} takes gradients of gradients, which compiled code has none of", place=place)
            elif node.attr == "compile" and last_name(node.value) not in _OTHER_COMPILERS:
                return say("{place} compiles something already", place=place)
    return ""


def _of_framework(request: RecipeRequest) -> str:
    try:
        check_framework(request.names, reads=True)
    except Blocked as blocked:
        return blocked.obstacle
    return ""


def _is_of_method(modules: ModuleCalls, call: ast.Call) -> bool:
    """Whether it is `model.loss(x)`, and not `model(x)` or `compute(model, x)`."""
    return isinstance(call.func, ast.Attribute) and modules.called(call) is call.func.value


def _proposed(request: RecipeRequest, home: Home) -> Proposal:
    """Raises `Blocked`."""
    source, mode = request.source, request.edit.choice
    rounding.check_line(source, home.statement)
    modules = module_calls(source)
    method = next((call.func for call in home.calls if _is_of_method(modules, call)), None)
    if method is not None:
        obstacle = say("the loop calls `{method}`, which compiling the module leaves as it is", method=dotted(method))
        raise Blocked(None, obstacle, say("compile that method, or call the module itself"))
    argument = f'mode="{mode}"' if mode and mode != "default" else ""
    text = f"{home.name}.compile({argument})"
    if home.made.startswith("torch.nn.") and "Parallel" not in home.made:
        torch = rounding.name_of_torch(request.names)
        if not torch:
            raise Blocked(None, say("this file has no name for torch"), BY_HAND)
        inner = ", ".join(part for part in (f"{home.name}.forward", argument) if part)
        text = f"{home.name}.forward = {torch}.compile({inner})"
    line = rounding.line_before if home.above else rounding.line_after
    return rounding.proposal(request, home.statement.lineno, REASON, [line(source, home.statement, text, _ORDER)])
