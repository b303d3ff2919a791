"""Whether the batches of a loader are tensors and numbers that torch itself puts together, in its own lists and dicts.

In: the `DataLoader(…)` call of a loop. Out: yes or no. Pinned, such a batch is the same; an object of another class may
lose something, and a batch that the project puts together may be anything. Of a data set of the project the text of its
`__getitem__` tells it, where no class of the project is a container that torch would copy item by item.
"""

from __future__ import annotations

import ast
import re

import libcst as cst

from tracelens.patch.code.names import FileNames, dotted, variables, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.raising import walk_without
from tracelens.patch.effects.scopes import FUNCTIONS
from tracelens.patch.loop import workers
from tracelens.patch.loop.loaders import keyword
from tracelens.patch.loop.project_trees import definitions

_PICTURES = "torchvision.datasets."
_OWN_CONTAINERS = re.compile(
    r"class\s+\w+\([^)]*\b(?:\w*Mapping|\w*Sequence|UserDict|UserList|dict|list|tuple|NamedTuple|OrderedDict)\b"
    r"|\bnamedtuple\(|\bTensorDict\b|\bBatchEncoding\b|\btensorclass\b"
)
_DISPLAYS = (ast.Tuple, ast.List, ast.Dict)


def has_plain_items(source: SourceFile, names: FileNames, call: cst.Call) -> bool:
    """Whether all of them are: of a TensorDataset, of torchvision's data sets, or of a data set of the project."""
    batch_size = keyword(call, "batch_size", 1)
    if isinstance(batch_size, cst.Name) and batch_size.value == "None":
        return False

    def is_known(made: cst.Call) -> bool:
        full = names.qualified(made.func)
        if full in workers.TENSOR_SETS or full.startswith(_PICTURES):
            return True
        return _is_of_project(source, made, full.rpartition(".")[2]) and not _is_filled(source, call)

    return workers.is_data_of(source, call, is_known)


def _is_of_project(source: SourceFile, made: cst.Call, name: str) -> bool:
    """Whether a call makes a data set of a class of the project whose items are displays, out of what is known here."""
    found = definitions(source).get(name, ())
    if len(found) != 1 or not isinstance(found[0], ast.ClassDef) or _OWN_CONTAINERS.search(source.project_text):
        return False
    given = {variable.value for one in made.args for variable in variables(one.value) if isinstance(variable, cst.Name)}
    assigned = {part.value for node in walk(source.module) for part in _bound(node)}
    functions = (one for one in source.ancestors(made) if isinstance(one, cst.FunctionDef))
    handed = {part.name.value for one in functions for part in walk(one.params) if isinstance(part, cst.Param)}
    return given <= (assigned | set(source.names.imports)) - handed and _gives_displays(source, found[0])


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
    named = {one.id for value in values if value is not None for one in ast.walk(value) if isinstance(one, ast.Name)}
    return bool(values) and all(isinstance(value, _DISPLAYS) for value in values) and named.isdisjoint(classes)


def _is_filled(source: SourceFile, call: cst.Call) -> bool:
    """Whether a method of the data set is handed something: `data.push(state, reward)`."""
    dataset = keyword(call, "dataset", 0)
    name = dotted(dataset) if dataset is not None else ""
    methods = (node for node in walk(source.module) if isinstance(node, cst.Call) and node.args)
    owners = (node.func.value for node in methods if isinstance(node.func, cst.Attribute))
    return bool(name) and any(dotted(owner) == name for owner in owners)
