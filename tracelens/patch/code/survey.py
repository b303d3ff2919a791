"""What names mean in one file: its imports, functions and classes, and which of its names write lines.

In: a parsed file. Out: `FileNames`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from tracelens.patch.code.names import (
    CONSTANTS,
    FileNames,
    bound_name,
    dotted,
    is_output,
    key,
    of_kinds,
    parameters,
    rebound,
    targets,
    variables,
    walk,
)

_SURVEYED = (cst.Attribute, cst.Assign, cst.AnnAssign, cst.ClassDef, cst.Import, cst.ImportFrom, cst.FunctionDef)


def survey(module: cst.Module, brought: Mapping[str, str]) -> FileNames:
    """Read the imports and functions of a file. `brought`: names that it has by a star, which its own take over."""
    classes: dict[str, cst.ClassDef] = {}
    attributes: set[str] = set()
    makers: dict[str, tuple[str, ...]] = {}
    imports: dict[str, str] = {}
    bound: set[str] = set()
    functions: dict[str, tuple[cst.FunctionDef, ...]] = {}
    types: set[str] = set()
    members: dict[str, frozenset[str]] = {}
    for node in of_kinds(module, _SURVEYED):
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            members[node.value.value] = members.get(node.value.value, frozenset()) | {node.attr.value}
        if isinstance(node, cst.Assign) and _names_cuda_type(node.value):
            types |= rebound(node)
        if isinstance(node, (cst.Assign, cst.AnnAssign)):
            bound |= rebound(node)
            attributes |= {key(t) for t in targets(node) if isinstance(t, cst.Attribute)}
            for name, maker in _made(node):
                makers[name] = (*makers.get(name, ()), maker)
        elif isinstance(node, cst.ClassDef):
            classes[node.name.value] = node
            attributes |= {f"self.{name}" for part in node.body.body for name in _bound_in_class(part)}
        elif isinstance(node, cst.Import):
            for alias in node.names:
                full = dotted(alias.name)
                name = bound_name(alias)
                imports[name] = full if alias.asname else full.partition(".")[0]
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            base = "." * len(node.relative) + (dotted(node.module) if node.module else "")
            for alias in node.names:
                imports[bound_name(alias)] = f"{base}.{dotted(alias.name)}"
        elif isinstance(node, cst.FunctionDef):
            functions[node.name.value] = (*functions.get(node.name.value, ()), node)
    own = bound | set(functions) | set(classes)
    imports = {**{name: full for name, full in brought.items() if name not in own}, **imports}
    names = FileNames(imports, functions, frozenset())
    printing = _printing(names) | _other_printers(module, names)
    return FileNames(imports, functions, printing, frozenset(types), classes, frozenset(attributes), makers, members)


def _made(statement: cst.Assign | cst.AnnAssign) -> Iterator[tuple[str, str]]:
    """Names, and what is called for their values; `a, b = list(), dict()` has two."""
    values = statement.value.elements if isinstance(statement.value, (cst.Tuple, cst.List)) else ()
    names = list(targets(statement))
    made = [one.value for one in values] if len(values) == len(names) else [statement.value] * len(names)
    for name, value in zip(names, made, strict=True):
        for part in (value.body, value.orelse) if isinstance(value, cst.IfExp) else (value,):
            if isinstance(part, cst.Call):
                yield dotted(name), dotted(part.func)


def _bound_in_class(statement: cst.CSTNode) -> frozenset[str]:
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return frozenset().union(*(rebound(one) for one in small))


def _names_cuda_type(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.IfExp):
        return _names_cuda_type(node.body) or _names_cuda_type(node.orelse)
    return isinstance(node, cst.Attribute) and dotted(node.value) == "torch.cuda" and node.attr.value.endswith("Tensor")


def _other_printers(module: cst.Module, names: FileNames) -> frozenset[str]:
    """Names that are bound once, to `print` by another name: `functools.partial(print, flush=True)`, a lambda."""
    bound: dict[str, list[cst.BaseExpression | None]] = {}
    for node in walk(module):
        for name in rebound(node) if isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)) else ():
            bound.setdefault(name, []).append(node.value if isinstance(node, cst.Assign) else None)
        if isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef)):
            bound.setdefault(node.name.value, []).append(None)
    return frozenset(
        name
        for name, values in bound.items()
        if len(values) == 1 and values[0] is not None and _prints(values[0], names)
    )


def _prints(value: cst.BaseExpression, names: FileNames) -> bool:
    """Whether a value is `print` with nothing but constants beside what it is given."""
    if isinstance(value, cst.Call) and names.qualified(value.func) == "functools.partial" and value.args:
        first, *others = value.args
        constant = all(isinstance(one.value, (cst.Name, cst.SimpleString)) and not one.star for one in others)
        names_only = all(dotted(one.value) in ("", *CONSTANTS) for one in others)
        return names.qualified(first.value) == "print" and constant and names_only
    if isinstance(value, cst.Lambda) and isinstance(value.body, cst.Call):
        taken = {key(one) for one in variables(value.body)} - {"print"}
        return names.qualified(value.body.func) == "print" and taken <= parameters(value)
    return names.qualified(value) == "print"


def _printing(names: FileNames) -> frozenset[str]:
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        now = FileNames(names.imports, names.functions, frozenset(found))
        for name, definitions in names.functions.items():
            calls = (part for node in definitions for part in walk(node) if isinstance(part, cst.Call))
            if name not in found and any(is_output(call, now) for call in calls):
                found.add(name)
                grown = True
    return frozenset(found)
