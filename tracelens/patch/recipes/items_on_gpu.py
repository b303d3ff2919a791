"""Whether the items of a loader may be on the GPU already: only memory of the host can be pinned.

In: the `DataLoader(…)` call of a loop, and the files that run together. Out: whether anything that makes its items
moves them, as far as the text says: what its arguments are made of, the functions and classes of the project that are
named there, all that these call, and what the names of its data are handed to. A name stands for all that have it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import dotted, last_name, targets, variables, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.words import words
from tracelens.patch.loop.project_trees import definitions

TO_GPU = re.compile(
    r"""\.cuda\(|\.to\(\s*(?!["']cpu|torch\.(?!device)|\w*dtype)|\b(?:device|map_location)\s*=\s*(?!["']cpu|None)"""
    r"""|\btorch\.load\((?!.*\bmap_location\b)"""  # to where it was saved
)
_BY_DEFAULT = re.compile(
    r"set_default_device\(\s*(?![\"']cpu)|set_default_tensor_type\([^)\n]*cuda|\bdef\s+pin_memory\b"
    r"|\bwith\s+(?:\w+\.)*device\b"
)
"""Makes what no line moves, or pins in a way of its own."""
_MAKES_ITEMS = re.compile(r"__getitems?__|\w*collate\w*")
OF_ANYBODY = words(
    "append extend add get items keys values update pop join split format strip replace lower upper copy sort open"
    " read write print len range list dict tuple set int float str min max sum zip enumerate isinstance super train"
    " eval step backward zero_grad forward state_dict parameters main"
)
"""Names that say nothing of which function of the project is called."""
NO_DATA = words(
    "batch_size shuffle num_workers pin_memory drop_last timeout prefetch_factor persistent_workers generator in_order"
    " worker_init_fn multiprocessing_context pin_memory_device"
)
_WRAPS = words("random_split Subset ConcatDataset TensorDataset StackDataset")
_DEEPEST = 4
"""Names followed one after the other, from the loader's arguments to what makes its items."""


def may_be(source: SourceFile, call: cst.Call) -> bool:
    if _BY_DEFAULT.search(source.project_text):
        return True
    given = [one.value for one in call.args if one.keyword is None or one.keyword.value not in NO_DATA]
    assigns = _assigns(source)
    parts = _made(given, assigns)
    if any(TO_GPU.search(source.code(part)) for part in parts):
        return True
    wanted = {last_name(one.func) for part in parts for one in walk(part) if isinstance(one, cst.Call)}
    wanted |= {variable.value for part in parts for variable in variables(part) if isinstance(variable, cst.Name)}
    wanted |= set(_handed(source, call, _data(given, assigns)))
    return _moves(source, frozenset(wanted) | _item_makers(source))


def made_of(source: SourceFile, given: list[cst.BaseExpression]) -> list[cst.CSTNode]:
    """The expressions, and what their names are assigned outside of loops, one after the other."""
    return _made(given, _assigns(source))


def _assigns(source: SourceFile) -> list[cst.Assign]:
    """Those of the file outside of loops."""
    found = (node for node in walk(source.module) if isinstance(node, cst.Assign))
    return [node for node in found if not _is_looped(source, node)]


def _is_looped(source: SourceFile, node: cst.CSTNode) -> bool:
    return any(isinstance(above, cst.For) for above in source.ancestors(node))


def _values(names: set[str], assigns: list[cst.Assign]) -> Iterator[cst.BaseExpression]:
    for assign in assigns:
        if any(dotted(part) in names for target in targets(assign) for part in walk(target)):
            yield assign.value


def _made(given: list[cst.BaseExpression], assigns: list[cst.Assign]) -> list[cst.CSTNode]:
    """What makes the items: the call's arguments, and what their names are assigned."""
    waiting = [(value, _DEEPEST) for value in given]
    parts: list[cst.CSTNode] = []
    while waiting:
        node, depth = waiting.pop()
        parts.append(node)
        names = {dotted(variable) for variable in variables(node)} - {""} if depth else set()
        waiting += [(value, depth - 1) for value in _values(names, assigns)]
    return parts


def _data(given: list[cst.BaseExpression], assigns: list[cst.Assign]) -> frozenset[str]:
    """The names of the data set itself, also below what only wraps it."""
    waiting: list[cst.BaseExpression] = given[:1]
    names: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Call) and last_name(node.func) in _WRAPS:
            waiting += [one.value for one in node.args]
        elif (name := dotted(node)) and name not in names:
            names.add(name)
            waiting += _values({name}, assigns)
    return frozenset(names)


def _handed(source: SourceFile, call: cst.Call, names: frozenset[str]) -> Iterator[str]:
    """The functions that are handed something of these names, or are methods of it, outside of loops."""
    for node in walk(source.module):
        if not isinstance(node, cst.Call) or node is call or _is_looped(source, node):
            continue
        owner = node.func.value if isinstance(node.func, cst.Attribute) else None
        if any(dotted(one.value) in names for one in node.args) or (owner is not None and dotted(owner) in names):
            yield last_name(node.func)


def _item_makers(source: SourceFile) -> frozenset[str]:
    return frozenset(name for name in definitions(source) if _MAKES_ITEMS.fullmatch(name))


@lru_cache(maxsize=PARSED_FILES)
def _moves(source: SourceFile, wanted: frozenset[str]) -> bool:
    """Whether a function or class of these names, or one that it calls, moves anything to a device."""
    defined, known = definitions(source), set(OF_ANYBODY)
    waiting = sorted(wanted)
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        for node in defined.get(name, ()):
            if TO_GPU.search(ast.unparse(node)):
                return True
            calls = (one.func for one in syntax.walk(node) if isinstance(one, ast.Call))
            waiting += [one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls]
    return False
