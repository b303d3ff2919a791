"""Whether the batches of a loader are tensors and numbers that torch itself puts together, in its own lists and dicts.

In: the `DataLoader(…)` call of a loop. Out: yes or no. Pinned, such a batch is the same; an object of another class may
lose something, and a batch that the project puts together may be anything. Of a data set of the project the text of its
`__getitem__` tells it, where no class of the project is a container that torch would copy item by item.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst

from tracelens.patch.code.names import FileNames, dotted, root_key, variables, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.raising import walk_without
from tracelens.patch.effects.scopes import FUNCTIONS
from tracelens.patch.effects.words import words
from tracelens.patch.loop import workers
from tracelens.patch.loop.loaders import has_hidden_arguments, keyword
from tracelens.patch.loop.project_trees import definitions
from tracelens.patch.recipes import items_on_gpu

_PICTURES = "torchvision.datasets."
_OWN_CONTAINERS = re.compile(
    r"class\s+\w+\([^)]*\b(?:\w*Mapping|\w*Sequence|UserDict|UserList|dict|list|tuple|NamedTuple|OrderedDict)\b"
    r"|\bnamedtuple\(|\bTensorDict\b|\bBatchEncoding\b|\btensorclass\b"
)
_NO_BATCHES = re.compile(r"\bbatch_size['\"]?\s*[:=]\s*None")
_FILLS = words("append extend insert add appendleft")
_DISPLAYS = (ast.Tuple, ast.List, ast.Dict)


def has_plain_items(source: SourceFile, names: FileNames, call: cst.Call) -> bool:
    """Whether all of them are: of a TensorDataset, of torchvision's data sets, or of a data set of the project."""
    batch_size = keyword(call, "batch_size", 1)
    none = isinstance(batch_size, cst.Name) and batch_size.value == "None"
    if none or (has_hidden_arguments(call) and _NO_BATCHES.search(source.text)):
        return False

    def is_plain(made: cst.Call) -> bool:
        full = names.qualified(made.func)
        if full in workers.TENSOR_SETS or full.startswith(_PICTURES):
            return _is_known(source, made)
        return _is_of_project(source, made, full.rpartition(".")[2]) and not _is_filled(source, call)

    return workers.is_data_of(source, call, is_plain)


def _is_of_project(source: SourceFile, made: cst.Call, name: str) -> bool:
    """Whether a call makes a data set of a class of the project whose items are displays, out of what is known here."""
    found = definitions(source).get(name, ())
    if len(found) != 1 or not isinstance(found[0], ast.ClassDef) or _OWN_CONTAINERS.search(source.project_text):
        return False
    return _is_known(source, made) and _gives_displays(source, found[0])


def _is_known(source: SourceFile, made: cst.Call) -> bool:
    """Whether what a data set is made of is made in the file, and not item by item in a loop, where an item may be on
    the GPU."""
    given = {variable.value for one in made.args for variable in variables(one.value) if isinstance(variable, cst.Name)}
    nodes = list(walk(source.module))
    assigned = {part.value for node in nodes for part in _bound(node)}
    functions = (one for one in source.ancestors(made) if isinstance(one, cst.FunctionDef))
    unknown = {part.name.value for one in functions for part in walk(one.params) if isinstance(part, cst.Param)}
    filled = {name for node in nodes for name in _filled(node)}
    parts = items_on_gpu.made_of(source, [one.value for one in made.args])
    used = {root_key(variable) for part in parts for variable in variables(part)}
    return given <= (assigned | set(source.names.imports)) - unknown and filled.isdisjoint(used)


def _filled(node: cst.CSTNode) -> Iterator[str | None]:
    """What grows by an item: `states.append(state)`, `states += [state]`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _FILLS:
        yield root_key(node.func.value)
    elif isinstance(node, cst.AugAssign):
        yield root_key(node.target)


def _bound(node: cst.CSTNode) -> list[cst.Name]:
    if not isinstance(node, cst.Assign):
        return []
    return [part for target in node.targets for part in walk(target.target) if isinstance(part, cst.Name)]


def _gives_displays(source: SourceFile, made: ast.ClassDef) -> bool:
    plain = all(ast.unparse(base).rpartition(".")[2] == "Dataset" for base in made.bases)
    methods = {part.name: part for part in made.body if isinstance(part, ast.FunctionDef)}
    item = methods.get("__getitem__")
    if not plain or made.keywords or made.decorator_list or item is None or "__getitems__" in methods:
        return False
    inside = walk_without(item, lambda node: isinstance(node, FUNCTIONS) and node is not item)
    values = [node.value for node in inside if isinstance(node, ast.Return)]
    classes = {
        name for name, found in definitions(source).items() if any(isinstance(one, ast.ClassDef) for one in found)
    }
    named = {one.id for value in values if value is not None for one in syntax.walk(value) if isinstance(one, ast.Name)}
    return bool(values) and all(isinstance(value, _DISPLAYS) for value in values) and named.isdisjoint(classes)


def _is_filled(source: SourceFile, call: cst.Call) -> bool:
    """Whether a method of the data set is handed something: `data.push(state, reward)`."""
    dataset = keyword(call, "dataset", 0)
    name = dotted(dataset) if dataset is not None else ""
    methods = (node for node in walk(source.module) if isinstance(node, cst.Call) and node.args)
    owners = (node.func.value for node in methods if isinstance(node.func, cst.Attribute))
    return bool(name) and any(dotted(owner) == name for owner in owners)
