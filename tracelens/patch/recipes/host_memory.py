"""Who may write into the host's memory while a copy from it is under way, where the loop's file does not show it.

In: a loop whose copies of the batch shall not block. Out: what is not known, as a clause; empty where the memory is
the loader's own and nobody is handed it. What pins memory itself may fill it again: as a view of NumPy, from a queue,
in another file. Memory that nobody pins is safe: CUDA has read it when the call returns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, root_key, targets
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects import places, syntax
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loaders import construction, has_hidden_arguments, keyword, loader_of, whole_of
from tracelens.patch.loop.loops import own_nodes
from tracelens.patch.loop.sites import Site
from tracelens.patch.proposal import RecipeRequest
from tracelens.patch.recipes.memory_writes import shows, text_of, views

_FACTORIES = words(
    "empty zeros ones full rand randn randint randperm arange linspace eye tensor as_tensor normal empty_like"
    " zeros_like ones_like full_like rand_like randn_like randint_like empty_strided new_empty new_zeros new_ones"
    " new_full new_tensor complex from_file"
)
_REGISTERS = words("cudaHostRegister cudaHostAlloc hipHostRegister hipHostMalloc")
_WITHOUT_BLOCKING = re.compile(r"\bnon_blocking\b|\.(copy_|to|cuda)\([^()\n]*,\s*True\b")
_MAKES_BATCHES = (("collate_fn", 6), ("batch_sampler", 4))


def doubt(request: RecipeRequest, loop: cst.For, sites: Iterable[Site]) -> str:
    """Why the memory that the loop copies from may change before it is copied, as far as that is not known."""
    source = request.source
    pinned = _pinned_by_hand(source)
    if pinned and not _is_of_a_loader(request, loop):
        return say("{place} pins memory, and whether it is written again during the copy is not known", place=pinned)
    handed = next(filter(None, (_handed_on(source, loop, site) for site in sites)), None)
    return say("whether `{code}` writes into the batch during the copy is not known", code=handed) if handed else ""


def doubt_of_waits(source: SourceFile) -> str:
    """Why a wait of the loop may be what keeps memory safe that another file copies without blocking; its own file is
    read by `wait_dependents`."""
    pinned = _pinned_by_hand(source) if _WITHOUT_BLOCKING.search(source.project_text) else ""
    if pinned:
        return say("{place} pins memory, and whether it is written before it is copied is not known", place=pinned)
    others = ((path, node) for path, tree in source.trees.items() if path != source.path for node in syntax.walk(tree))
    copied = next((_place(source, path, node) for path, node in others if _copies_to_host(node)), "")
    if not copied:
        return ""
    return say("{place} copies to the host without blocking, and who waits for that is not known", place=copied)


def _copies_to_host(node: ast.AST) -> TypeGuard[ast.Call]:
    """`host.copy_(x, True)`, `x.to("cpu", non_blocking=True)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    named = {one.arg: one.value for one in node.keywords}
    by_place = {"copy_": 1, "to": 2}.get(node.func.attr)
    if by_place is None:
        return False
    value = named.get("non_blocking", node.args[by_place] if len(node.args) > by_place else None)
    blocks = value is None or (isinstance(value, ast.Constant) and value.value is False)
    device = named.get("device", node.args[0] if node.args else None)
    return not blocks and (node.func.attr == "copy_" or (device is not None and "cpu" in ast.unparse(device)))


def _is_of_a_loader(request: RecipeRequest, loop: cst.For) -> bool:
    """Whether the batches are put together by torch, in memory of their own."""
    loader = loader_of(loop, request.names)
    call = construction(request.source, request.names, loader) if loader is not None else None
    if call is None or has_hidden_arguments(call) or any(keyword(call, *one) for one in _MAKES_BATCHES):
        return False
    size = keyword(call, "batch_size", 1)
    return size is None or dotted(size) != "None"


def _pinned_by_hand(source: SourceFile) -> str:
    """The place at which a file that can run keeps pinned memory of its own; empty where none does."""
    found = ((path, node) for path, tree in source.trees.items() for node in _pins(tree))
    return next((_place(source, path, node) for path, node in found), "")


def _place(source: SourceFile, path: Path, node: ast.expr) -> str:
    file = source.project.file(path)
    return f"{file.shown if file is not None else path.name}:{node.lineno}"


def _pins(node: ast.AST) -> Iterator[ast.expr]:
    """Calls that give pinned memory which stays: neither `x.pin_memory().to(device)` nor what a loader calls itself."""
    for child in syntax.children(node):
        if isinstance(child, ast.FunctionDef) and child.name == "pin_memory":
            continue
        if isinstance(child, ast.Attribute) and child.attr in ("to", "cuda") and _pins_itself(child.value):
            yield from _pins(child.value)
            continue
        if _pins_itself(child) and isinstance(child, ast.expr):
            yield child
        yield from _pins(child)


def _pins_itself(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    last = places.last_name(node.func)
    if last in _REGISTERS or (last == "pin_memory" and isinstance(node.func, ast.Attribute)):
        return True
    named = {one.arg: one.value for one in node.keywords}
    value = named.get("pin_memory")
    off = value is None or (isinstance(value, ast.Constant) and value.value is False)
    return last in _FACTORIES and (None in named or not off)


def is_gone(loop: cst.For, site: Site, owner: cst.BaseExpression) -> bool:
    """Whether the statement that copies gives the name to the copy: nobody can write into the host's tensor by it."""
    whole = whole_of(loop, root_key(owner) or "")
    bound = targets(site.statement) if isinstance(site.statement, cst.Assign) else ()
    return any(text_of(target) in (whole[-1], text_of(owner)) for target in bound)


def _handed_on(source: SourceFile, loop: cst.For, site: Site) -> str:
    """The call that hands the host's batch to a function of another file of the project."""
    call = cst.ensure_type(site.node, cst.Call)
    owner = cst.ensure_type(call.func, cst.Attribute).value
    reached = source.effects.reached(source.line(loop))
    if reached is None or is_gone(loop, site, owner):
        return ""
    memory = views(loop.body, {text_of(owner), *whole_of(loop, root_key(owner) or "")})
    for node in own_nodes(loop.body):
        if not isinstance(node, cst.Call) or dotted(node.func) in source.names.functions:
            continue
        handed = any(shows(argument.value, memory) for argument in node.args)
        after = source.span(node)[0] > source.span(site.node)[0]
        if handed and after and reached.at(source.place(node)).of_project:
            return " ".join(source.code(node).split())
    return ""
