"""The helper file that a patch puts beside the training script: what of the runtime its scripts call, and no more.

In: the folder, and the patched sources. Out: the file's name and its bytes. Apart because the runtime is
read as data here: this package must work where torch is not installed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from tracelens.patch.effects.helper_file import DOCSTRING, RUNTIME
from tracelens.patch.files.source_part import part_of

MODULE = RUNTIME
_FIRST_WORDS = b"# tracelens runtime "
FIRST_WITH_THESE_NAMES = 6
"""Scripts that were patched with an earlier version of the runtime call names that it has no longer."""


def content(called: Collection[str] | None = None) -> bytes:
    """The helper file: all of the runtime, or what is needed for the names that are `called` (see `calls`)."""
    runtime = files("tracelens").joinpath("runtime.py").read_bytes()
    return runtime if called is None else part_of(runtime, frozenset(called), DOCSTRING)


def calls(patched: bytes) -> frozenset[str]:
    """What a patched source calls of the runtime: `prefetch`, `DeferredReads`, and its methods `DeferredReads.item`."""
    tree = ast.parse(patched)
    out: set[str] = set()
    objects: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == MODULE:
            out.add(node.attr)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = ast.unparse(node.value.func).removeprefix(f"{MODULE}.")
            objects |= {target.id: made for target in node.targets if isinstance(target, ast.Name)}
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    of_names = ((node.value.id, node.attr) for node in attributes if isinstance(node.value, ast.Name))
    return frozenset(out | {f"{objects[name]}.{method}" for name, method in of_names if objects.get(name) in out})


def offers(helpers: bytes) -> frozenset[str]:
    """What a helper file that is there already has for the scripts beside it."""
    out: set[str] = set()
    for node in ast.parse(helpers).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out.add(node.name)
        if isinstance(node, ast.ClassDef):
            out |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(name for name in out if not name.startswith("_") and "._" not in name)


def place(folder: Path) -> Path:
    """The helper file of a folder."""
    return folder / f"{MODULE}.py"


def is_ours(data: bytes) -> bool:
    """Whether a file of that name was written by TraceLens, in any version."""
    return data.startswith(_FIRST_WORDS)


def version(data: bytes) -> int | None:
    """Which version of the runtime a file of ours is; None where its first line does not say."""
    number = data.removeprefix(_FIRST_WORDS).partition(b":")[0]
    return int(number) if is_ours(data) and number.isdigit() else None
