"""Functions of the project that hand on what they are given: one that renames the keys of a dict, one that fills it.

In: a call. Out: the function that it means, the parameter that an argument is bound to, and whether the function's
result has the same values. Apart because both sides of a call need it.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.recipes.called_functions import function_of_name


def function_called(source: SourceFile, call: cst.Call) -> tuple[SourceFile, cst.FunctionDef] | None:
    """The only function of the project that a call can mean: by its name, or as a method of `self`."""
    owner, _, last = dotted(call.func).rpartition(".")
    if not owner:
        called = function_of_name(source, last)
        return None if called is None else (called.source, called.function)
    mine = source.innermost(cst.ClassDef, call)
    functions = source.names.functions.get(last, ()) if owner == "self" else ()
    found = [one for one in functions if source.innermost(cst.ClassDef, one) is mine]
    return (source, found[0]) if len(found) == 1 else None


def parameter_of(call: cst.Call, function: cst.FunctionDef, argument: cst.CSTNode) -> str:
    """The name of the parameter that gets an argument; "" where that is not plain."""
    names = [one.name.value for one in function.params.params]
    static = any(dotted(one.decorator) == "staticmethod" for one in function.decorators)
    if isinstance(call.func, cst.Attribute) and not static:
        names = names[1:]
    for number, given in enumerate(call.args):
        if given.star:
            return ""
        if given.value is argument:
            if given.keyword is not None:
                return given.keyword.value
            return names[number] if number < len(names) else ""
    return ""


def renames(function: cst.FunctionDef, parameter: str) -> bool:
    """`return {f"{prefix}/{key}": value for key, value in metrics.items()}`: a dict of the same values."""
    body = list(function.body.body)
    line = body[-1] if body else None
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    made = small.value if isinstance(small, cst.Return) else None
    documented = len(body) - (function.get_docstring() is not None)
    if documented != 1 or not isinstance(made, cst.DictComp) or not isinstance(made.value, cst.Name):
        return False
    loop = made.for_in
    parts = loop.target.elements if isinstance(loop.target, cst.Tuple) else ()
    if len(parts) != len(("key", "value")) or loop.inner_for_in is not None or loop.ifs:
        return False
    asked = loop.iter.func if isinstance(loop.iter, cst.Call) and not loop.iter.args else None
    items = isinstance(asked, cst.Attribute) and dotted(asked) == f"{parameter}.items"
    used = sum(isinstance(one, cst.Name) and one.value == made.value.value for one in walk(made.key))
    return items and dotted(parts[1].value) == made.value.value and not used
