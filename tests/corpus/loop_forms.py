"""Counts the forms of training loops under a folder: which of them tell how many steps are left?

    python -m tests.corpus.loop_forms DIR

The recording reads this from the running loops (`tracelens.capture.inside.loop_bounds`); docs/capture.md has the counts
by which the forms that it reads were chosen.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.corpus.collect import scripts
from tracelens.patch.code.batches import Loop, batches
from tracelens.patch.effects.project import parsed

_LOADER_WORDS = ("load", "dl", "iter")
_WRAPPERS = ("tqdm", "track", "zip", "prefetch")


def forms(loop: Loop, around: list[Loop]) -> Iterator[str]:
    """What one training loop has, with the loops around it in its function, innermost first."""
    yield "training loops"
    yield _form(loop)
    for outer in around:
        yield f"inside: {_form(outer)}"
    if any(_leaves_at_a_comparison(each) for each in (loop, *around)):
        yield "a comparison leads to break or return"


def _form(loop: Loop) -> str:
    if isinstance(loop, ast.While):
        return "while, a comparison" if isinstance(loop.test, ast.Compare) else "while, anything else"
    return _iterable_form(loop.iter)


def _iterable_form(iterable: ast.expr) -> str:
    if isinstance(iterable, ast.Call):
        name = str(getattr(iterable.func, "id", getattr(iterable.func, "attr", "")))
        if name in ("range", "trange"):
            return "for, over range"
        if name == "enumerate":
            return "for, over enumerate"
        if name in _WRAPPERS and iterable.args:
            return _iterable_form(iterable.args[0])
        if name != "DataLoader":
            return "for, over another call"
    loader = any(word in ast.unparse(iterable).lower() for word in _LOADER_WORDS)
    return "for, over a loader" if loader else "for, over anything else"


def _leaves_at_a_comparison(loop: Loop) -> bool:
    return any(
        isinstance(statement, ast.If)
        and any(isinstance(inner, (ast.Break, ast.Return)) for inner in statement.body)
        and any(isinstance(part, ast.Compare) for part in ast.walk(statement.test))
        for statement in loop.body
    )


def count(folder: Path) -> Counter[str]:
    counted: Counter[str] = Counter()
    for path in scripts(folder):
        tree = parsed(path.read_bytes())
        if tree is None:
            continue
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for loop in batches(tree).loops:
            around: list[Loop] = []
            node: ast.AST = loop
            while node in parents and not isinstance(node, (ast.FunctionDef, ast.Lambda)):
                node = parents[node]
                if isinstance(node, Loop):
                    around.append(node)
            counted.update(set(forms(loop, around)))
    return counted


if __name__ == "__main__":
    for form, number in count(Path(sys.argv[1])).most_common():
        print(f"{number:5}  {form}")
