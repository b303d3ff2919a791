"""The helper file beside a patched script has what the scripts of its folder call, and works by itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script
from tracelens.patch.every_place import patch_files
from tracelens.patch.files import vendored
from tracelens.patch.files.source_part import part_of
from tracelens.patch.recipes import PatchOptions

READS_IN_TWO_LOOPS = """
    total = 0.0
    for step, (x, y) in enumerate(loader):
        STEP
        total += loss.item()  # fires
    else:
        print(step)
    print(total)
"""
"""A loop with an `else` needs the runtime."""

MODULE = b'''# first line
"""The module."""

import os
from typing import Any, Iterator

LIMIT = 3
"""What a constant means."""
UNUSED = 4


class Box(_Base):
    """A box."""

    def __init__(self) -> None:
        self.size = LIMIT

    def called(self) -> Any:
        return self.inner()

    def inner(self) -> int:
        return os.getpid()

    def left_out(self) -> Iterator[int]:
        yield UNUSED


class _Base:
    pass


def left_out() -> None: ...
'''


def test_a_part_has_what_is_wanted_and_what_that_needs() -> None:
    assert part_of(MODULE, frozenset({"Box", "Box.called"}), "Part.").decode() == (
        '# first line\n"""Part."""\n\nimport os\nfrom typing import Any\n\n'
        'LIMIT = 3\n"""What a constant means."""\n\n\n'
        'class Box(_Base):\n    """A box."""\n\n    def __init__(self) -> None:\n        self.size = LIMIT\n\n'
        "    def called(self) -> Any:\n        return self.inner()\n\n    def inner(self) -> int:\n"
        "        return os.getpid()\n\n\nclass _Base:\n    pass\n"
    )


@pytest.mark.parametrize("offered", sorted(vendored.offers(vendored.content()) - {"DeferredReads", "Streams"}))
def test_each_helper_works_without_those_that_it_does_not_need(offered: str) -> None:
    part = vendored.content({offered.partition(".")[0], offered})
    assert len(part) < len(vendored.content())
    assert vendored.is_ours(part)
    assert offered in vendored.offers(part)
    names = {node.id for node in ast.walk(ast.parse(part)) if isinstance(node, ast.Name)}
    space: dict[str, object] = {}
    exec(compile(part, "part", "exec"), space)  # every global name that it mentions is defined in it
    runtime = ast.parse(vendored.content()).body
    known = {part.name for part in runtime if isinstance(part, (ast.FunctionDef, ast.ClassDef))}
    assert not (names & known) - set(space)


def test_what_the_loop_leaves_to_a_subclass_is_in_the_part_that_has_it() -> None:
    part = ast.parse(vendored.content({"DeferredReads", "DeferredReads.iterate", "DeferredReads.defer"}))
    base, derived = (
        next(node for node in part.body if isinstance(node, ast.ClassDef) and node.name == name)
        for name in ("_Terminable", "DeferredReads")
    )
    methods = {one.name: one for one in base.body if isinstance(one, ast.FunctionDef)}
    abstract = {name for name, one in methods.items() if "NotImplementedError" in ast.unparse(one)}
    assert abstract == {"drain"} <= {one.name for one in derived.body if isinstance(one, ast.FunctionDef)}


def test_a_patch_brings_the_helpers_that_it_calls(tmp_path: Path) -> None:
    text = script(READS_IN_TWO_LOOPS)
    patch = patch_of(tmp_path, text)
    helpers = next(file.after for file in patch.files if file.path.name == "tracelens_runtime.py")
    assert vendored.calls(patch.files[0].after) == {
        "DeferredReads",
        "DeferredReads.iterate",
        "DeferredReads.defer",
        "DeferredReads.item",
    }
    assert "def prefetch" not in helpers.decode()
    assert "def tick" not in helpers.decode()
    assert_same(tmp_path, text, patch)


def test_what_other_scripts_of_the_folder_call_stays(tmp_path: Path) -> None:
    (tmp_path / "tracelens_runtime.py").write_bytes(vendored.content({"prefetch"}))
    patch = patch_of(tmp_path, script(READS_IN_TWO_LOOPS))
    helpers = next(file for file in patch.files if file.path.name == "tracelens_runtime.py")
    assert {"prefetch", "DeferredReads.item"} <= vendored.offers(helpers.after)
    assert helpers.before == vendored.content({"prefetch"})


def test_two_scripts_of_one_folder_share_a_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(script(READS_IN_TWO_LOOPS).replace('"cpu"', '"cuda"'))
    second.write_text(first.read_text().replace("loss.item()", "float(loss)"))
    patch = patch_files([first, second], tmp_path, {"defer-read": 10}, PatchOptions())
    helpers = next(file.after for file in patch.files if file.path.name == "tracelens_runtime.py")
    assert {"DeferredReads.item", "DeferredReads.number"} <= vendored.offers(helpers)
