"""A name says one thing: no function is called `of`, and a class name occurs once in the package."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.support.sources import MODULES, name_of, nodes_of


def definitions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    return [
        (name_of(path), node)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def test_no_function_is_called_of() -> None:
    offenders = [
        f"{file}:{node.lineno}"
        for file, node in definitions()
        if not isinstance(node, ast.ClassDef) and node.name == "of"
    ]
    assert offenders == []


def test_a_class_name_occurs_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file, node in definitions():
        if isinstance(node, ast.ClassDef):
            places[node.name].append(f"{file}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice == {}
