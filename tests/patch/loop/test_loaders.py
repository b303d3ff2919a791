"""The loader behind a loop, and the one call that makes it; None as soon as two answers are possible."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.parsed_scripts import call_of, loop_at, parsed
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import loaders

IMPORT = "from torch.utils.data import DataLoader\n"


def a_for(source: SourceFile) -> cst.For:
    """The only loop of a file."""
    (line,) = [n for n, text in enumerate(source.text.splitlines(), 1) if text.lstrip().startswith("for ")]
    loop = loop_at(source, line)
    assert isinstance(loop, cst.For)
    return loop


def made(source: SourceFile) -> str | None:
    """The call that makes the loader of the file's only loop, as text."""
    loader = loaders.loader_of(a_for(source), source.names)
    assert loader is not None
    call = loaders.construction(source, source.names, loader)
    return None if call is None else source.code(call)


# -------------------------------------------------------------------------------------------------- the for line


@pytest.mark.parametrize(
    ("head", "loader"),
    [
        ("loader", "loader"),
        ("self.loader", "self.loader"),
        ("enumerate(loader)", "loader"),
        ("enumerate(tqdm(loader), 1)", "loader"),
        ("metrics.log_every(loader, 10)", "loader"),
        ("DataLoader(data)", "DataLoader(data)"),
        ("range(10)", None),
        ("zip(a, b)", None),
        ("[1, 2]", None),
    ],
)
def test_the_loader_stands_in_the_for_line(head: str, loader: str | None, tmp_path: Path) -> None:
    source = parsed(tmp_path, f"{IMPORT}from tqdm import tqdm\nfor x in {head}:\n    pass\n")
    found = loaders.loader_of(a_for(source), source.names)
    assert (None if found is None else source.code(found)) == loader


# ----------------------------------------------------------------------------------------------- where it is made


@pytest.mark.parametrize(
    "text",
    [
        "loader = DataLoader(data)\nfor x in loader: pass\n",
        "loader = DataLoader(data)\nsame = loader\nfor x in same: pass\n",
        "def make():\n    return DataLoader(data)\nloader = make()\nfor x in loader: pass\n",
        "def train(batches):\n    for x in batches: pass\ntrain(DataLoader(data))\n",
        "def train(n, batches):\n    for x in batches: pass\ntrain(3, batches=DataLoader(data))\n",
        "class T:\n    def __init__(self):\n        self.l = DataLoader(data)\n"
        "    def run(self):\n        for x in self.l: pass\n",
    ],
    ids=["a name", "two names", "a function's result", "an argument", "by keyword", "an attribute"],
)
def test_the_call_is_found_through(text: str, tmp_path: Path) -> None:
    assert made(parsed(tmp_path, IMPORT + text)) == "DataLoader(data)"


@pytest.mark.parametrize(
    "text",
    [
        "loader = DataLoader(a)\nif b:\n    loader = DataLoader(b)\nfor x in loader: pass\n",
        "for x in loader: pass\n",
        "def train(batches):\n    for x in batches: pass\ntrain()\n",
        "a = DataLoader(data)\nb = a\nc = b\nd = c\nfor x in d: pass\n",
        "class DataLoader: ...\nloader = DataLoader(data)\nfor x in loader: pass\n",
    ],
    ids=["two calls", "made elsewhere", "a default", "too many names", "a class of the file's own"],
)
def test_no_call_is_named_where_it_is_not_certain(text: str, tmp_path: Path) -> None:
    assert made(parsed(tmp_path, IMPORT + text)) is None


def test_a_local_name_hides_that_of_the_file(tmp_path: Path) -> None:
    text = "loader = DataLoader(a)\ndef train():\n    loader = DataLoader(b)\n    for x in loader: pass\n"
    assert made(parsed(tmp_path, IMPORT + text)) == "DataLoader(b)"


# ---------------------------------------------------------------------------------------------------- arguments


def test_an_argument_is_found_by_name_or_position(tmp_path: Path) -> None:
    source = parsed(tmp_path, "DataLoader(data, 4, num_workers=2)\n")
    call = call_of(source, "DataLoader")
    values = [loaders.keyword(call, name, at) for name, at in (("batch_size", 1), ("num_workers", 5), ("sampler", 3))]
    assert [None if value is None else source.code(value) for value in values] == ["4", "2", None]


@pytest.mark.parametrize(("arguments", "hidden"), [("data, **options", True), ("*all", True), ("data, 4", False)])
def test_stars_hide_arguments(arguments: str, hidden: bool, tmp_path: Path) -> None:
    assert loaders.has_hidden_arguments(call_of(parsed(tmp_path, f"DataLoader({arguments})\n"), "DataLoader")) is hidden


# ----------------------------------------------------------------------------------------------- parts of a batch


def test_names_of_a_batch_are_followed_into_its_parts(tmp_path: Path) -> None:
    source = parsed(
        tmp_path,
        """
        for step, batch in enumerate(loader):
            x = batch["x"]
            for name, value in batch.items():
                last = value
            loss = model(x)
        """,
    )
    assert loaders.batch_names(loop_at(source, 1)) == {"batch", "x", "name", "value", "last"}  # type: ignore[arg-type]


def test_a_part_leads_back_to_the_whole(tmp_path: Path) -> None:
    source = parsed(
        tmp_path, "for x, targets in loader:\n    moved = [{k: v for k, v in t.items()} for t in targets]\n"
    )
    loop = loop_at(source, 1)
    assert isinstance(loop, cst.For)
    assert loaders.whole_of(loop, "v") == ("v", "t", "targets")
    assert loaders.whole_of(loop, "x") == ("x",)
