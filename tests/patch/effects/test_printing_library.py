"""Python's own library, asked by its text: what prints by it is not silent by the vocabulary."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracelens.patch.effects import vocabulary
from tracelens.patch.effects.objects import OUTPUT

_SCREENS = ("stdout", "stderr", "__stdout__", "__stderr__")
_OF_WORDS = {"plain": "plain", "data": "data", "new data": "data", "list": "list", "args": "data"}
SILENT = {
    "logging.StreamHandler": "writes when a logger does",
    "logging.handlers.NTEventLogHandler": "the same, of Windows",
    "shutil.get_terminal_size": "asks the screen how wide it is",
    "base64.test": "tries the module",
}
ROOTS = sorted(
    {name.partition(".")[0] for name in vocabulary._entries()} & sys.stdlib_module_names - {"multiprocessing"}
)
"""All but what runs at another time: that has no order."""


def _prints(function: ast.AST) -> bool:
    """Whether a function of the library calls `print`, or has the screen in its text."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys" and node.attr in _SCREENS:
            return True
    return False


def _files(root: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(root)
    path = Path(spec.origin) if spec is not None and spec.origin is not None else None
    if path is None or path.suffix != ".py":
        return
    yield root, path
    if path.name == "__init__.py":
        for one in path.parent.rglob("*.py"):
            parts = one.relative_to(path.parent).with_suffix("").parts
            if parts[-1] != "__init__" and "test" not in parts:
                yield ".".join((root, *parts)), one


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    public = (one for one in body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"))
    return (one for one in public if _prints(one))


def _silent(full: str) -> bool:
    entry = vocabulary.lookup(full)
    return entry is not None and OUTPUT not in entry.does


def _found(module: str, tree: ast.Module) -> Iterator[str]:
    """What prints in a module, and is silent by the vocabulary: functions, and methods of what its classes give."""
    yield from (one for one in (f"{module}.{each.name}" for each in _functions(tree.body)) if _silent(one))
    for made in (one for one in tree.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")):
        entry = vocabulary.lookup(f"{module}.{made.name}")
        kind = _OF_WORDS.get(entry.gives, entry.gives.strip("<>")) if entry is not None else "unknown"
        methods = _functions(made.body) if kind != "unknown" else ()
        yield from (f"{module}.{made.name}.{one.name}" for one in methods if _silent(f"<{kind}>.{one.name}"))


@pytest.mark.parametrize("root", ROOTS)
def test_what_prints_by_its_text_prints_by_the_vocabulary(root: str) -> None:
    modules = [(module, path) for module, path in _files(root) if "._" not in module]
    found = {one for module, path in modules for one in _found(module, ast.parse(path.read_bytes()))}
    assert found <= SILENT.keys()


def test_no_pattern_takes_what_a_library_makes_for_a_number_or_a_text() -> None:
    """What is plain has no method that does anything, so that `pprint.PrettyPrinter()` must not be."""
    patterns = {name: entry for name, entry in vocabulary._entries().items() if name.endswith(".*")}
    plain = {name for name, entry in patterns.items() if entry.gives == "plain" and not name.startswith("<")}
    texts = {"colorama.Fore.*", "colorama.Style.*", "rich.table.*", "rich.pretty.*", "time.*"}
    screens = {"sys.stdout.*", "sys.stderr.*", "sys.__stdout__.*", "sys.__stderr__.*"}
    assert plain == texts | screens | {"runpy.*"}  # which sees every name
