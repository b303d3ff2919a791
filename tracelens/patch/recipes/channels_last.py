"""channels-last (unsafe): convolutional modules and their images, in channels-last order.

In: a RecipeRequest. Out: one Proposal per module, where its name is bound, and one per batch that it is given, at the
copy to the device, else above its forward pass. Only for modules that are known to take one batch of images.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracelens.messages import say
from tracelens.model import Declined
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import around, last_name
from tracelens.patch.loop.forward_pass import Unclear
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.module_calls import ModuleCalls, module_calls
from tracelens.patch.loop.module_homes import Home, homes
from tracelens.patch.loop.project_trees import above, is_started, own_tree
from tracelens.patch.loop.training_loops import function_around
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import rounding

REASON = say(
    "weights and images are stored with their channels last, for which other kernels are taken, which round otherwise"
)
IMAGES = say("the images of a batch are stored with their channels last, as the model's weights are")
BY_HAND = say("write model.to(memory_format=torch.channels_last), and the same for each batch of images")
_CONVOLUTIONS = frozenset({"Conv2d", "ConvTranspose2d"})
_COPIES = frozenset({"to", "cuda"})
_OF_IMAGES = ("torchvision.models.", "timm.")
_OTHERS = ("video", "detection")


def propose(request: RecipeRequest) -> RecipeAnswer:
    source, found = request.source, homes(request.source)
    if any(last_name(node) == "channels_last" for tree in source.trees.values() for node in syntax.walk(tree)):
        return _left(request, say("the project has channels-last order already"))
    if not found:
        return _left(request, say("no module that a loop calls was found"))
    unclear = next((one for one in found if isinstance(one, Unclear)), None)
    if unclear is not None:
        where = unclear.path.name if unclear.path is not None else source.shown
        return _left(request, say("{path}:{line}: {why}", path=where, line=unclear.line, why=unclear.obstacle))
    modules = module_calls(source)
    images = [one for one in found if isinstance(one, Home) and _is_convolutional(modules, one)]
    if not images:
        return _left(request, say("no module of the loop is known to be for images"))
    torch = rounding.name_of_torch(request.names)
    try:
        proposals = [*_of_modules(request, images, torch), *_of_batches(request, images, torch)]
    except Blocked as blocked:
        return _left(request, blocked.obstacle)
    others = [one for one in found if isinstance(one, Home) and one not in images and one.path == source.path]
    why = say("this module is not known to be for images")
    left = [rounding.declined(request, one.statement.lineno, why, BY_HAND) for one in others]
    return rounding.answer(request, proposals, left)


def _left(request: RecipeRequest, obstacle: str) -> RecipeAnswer:
    """Told once for a project, in the script that was started."""
    left: list[Declined] = []
    if is_started(request.source):
        left.append(rounding.declined(request, None, obstacle, BY_HAND))
    return rounding.answer(request, (), left)


def _is_convolutional(modules: ModuleCalls, home: Home) -> bool:
    """Whether a module is of a class with convolutions over images, or of a library's models for them."""
    if home.made.startswith(_OF_IMAGES):
        return not any(word in home.made for word in _OTHERS)
    made = modules.classes.get(home.made.rpartition(".")[2])
    return any(_has_convolutions(modules, node, set()) for node in (*home.bound, *((made,) if made else ())))


def _has_convolutions(modules: ModuleCalls, node: ast.AST, seen: set[str]) -> bool:
    names = {last_name(part) for part in syntax.walk(node) if isinstance(part, ast.Name | ast.Attribute)}
    others = (names & set(modules.classes)) - seen
    seen |= others
    return bool(names & _CONVOLUTIONS) or any(
        _has_convolutions(modules, modules.classes[name], seen) for name in others
    )


def _of_modules(request: RecipeRequest, images: list[Home], torch: str) -> Iterator[Proposal]:
    """Raises `Blocked`."""
    for home in images:
        if home.path == request.source.path:
            _check_torch(torch)
            rounding.check_line(request.source, home.statement)
            line = rounding.line_before if home.above else rounding.line_after
            text = f"{home.name}.to(memory_format={torch}.channels_last)"
            splices = [line(request.source, home.statement, text)]
            yield rounding.proposal(request, home.statement.lineno, REASON, splices)


def _of_batches(request: RecipeRequest, images: list[Home], torch: str) -> Iterator[Proposal]:
    """What the calls in this file are given; raises `Blocked` where that is not one plain batch."""
    tree, done = own_tree(request.source), set[Splice]()
    own = {id(node) for node in syntax.walk(tree)}
    for call in dict.fromkeys(call for home in images for call in home.calls):
        if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            raise Blocked(
                None, say("line {line} gives the model more than one batch of images", line=call.lineno), BY_HAND
            )
        if id(call) not in own:
            continue
        _check_torch(torch)
        line, splice = _converted(request.source, tree, call, torch)
        if splice is not None and splice not in done:
            done.add(splice)
            yield rounding.proposal(request, line, IMAGES, [splice])


def _check_torch(torch: str) -> None:
    if not torch:
        raise Blocked(None, say("a file has no name for torch"), BY_HAND)


def _converted(source: SourceFile, tree: ast.Module, call: ast.Call, torch: str) -> tuple[int, Splice | None]:
    """The line and the change that converts what a call is given; none for what a module of the loop has made."""
    given, order = call.args[0], f"memory_format={torch}.channels_last"
    if isinstance(given, ast.Call) and last_name(given.func) in _COPIES:
        return given.lineno, _with_keyword(source, given, order)
    if not isinstance(given, ast.Name):
        raise Blocked(None, say("line {line} gives the model a value without a name", line=call.lineno), BY_HAND)
    if _is_result(source, tree, call, given.id):
        return call.lineno, None
    copy = _copy_of(tree, call, given.id)
    if copy is not None:
        return copy.lineno, _with_keyword(source, copy, order)
    statement = next(one for one in above(tree, call) if isinstance(one, ast.stmt))
    rounding.check_line(source, statement)
    text = f"{given.id} = {given.id}.contiguous({order})"
    return statement.lineno, rounding.line_before(source, statement, text)


def _is_result(source: SourceFile, tree: ast.Module, call: ast.Call, name: str) -> bool:
    """Whether a module made the value: its results are in channels-last order already."""
    modules = module_calls(source)
    return any(modules.computes(value) for value, _ in _values(tree, call, name))


def _copy_of(tree: ast.Module, call: ast.Call, name: str) -> ast.Call | None:
    """The last copy to the device that binds a name in the function of a call."""
    copies = [value for value, own in _values(tree, call, name) if own and last_name(_called(value)) in _COPIES]
    return next((one for one in reversed(copies) if isinstance(one, ast.Call)), None)


def _called(value: ast.AST) -> ast.AST | None:
    return value.func if isinstance(value, ast.Call) else None


def _values(tree: ast.Module, call: ast.Call, name: str) -> Iterator[tuple[ast.expr, bool]]:
    """What the statements above a call, of its function, bind to a name; whether that is the name's own value."""
    scope: ast.AST = function_around(tree, call) or tree
    for node in syntax.walk(scope):
        if isinstance(node, ast.Assign) and node.lineno < call.lineno and node in around(tree):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value, True
                elif isinstance(target, ast.Tuple):
                    yield from _of_tuple(target, node.value, name)


def _of_tuple(target: ast.Tuple, value: ast.expr, name: str) -> Iterator[tuple[ast.expr, bool]]:
    places = [at for at, one in enumerate(target.elts) if isinstance(one, ast.Name) and one.id == name]
    same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
    for at in places:
        yield (value.elts[at], True) if same and isinstance(value, ast.Tuple) else (value, False)


def _with_keyword(source: SourceFile, call: ast.Call, text: str) -> Splice:
    """One more argument at the end of a call."""
    parts = [*call.args, *(one.value for one in call.keywords)]
    if parts:
        last = max(parts, key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0))
        at = _offset(source, last.end_lineno or 0, last.end_col_offset or 0)
        return Splice(at, at, f", {text}")
    at = _offset(source, call.end_lineno or 0, call.end_col_offset or 0) - 1
    return Splice(at, at, text)


def _offset(source: SourceFile, line: int, column: int) -> int:
    """Characters before a place that Python's parser counts in bytes."""
    return source.line_start(line) + len(source.line_text(line).encode()[:column].decode())
