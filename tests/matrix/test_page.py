"""docs/capture.md says what the kept results say, and every row of its table is a test that exists."""

from __future__ import annotations

import ast

import pytest

from tests.matrix import collect
from tests.matrix.rows import ELSEWHERE, ROWS
from tests.support.places import ROOT


def test_the_page_is_what_the_results_say() -> None:
    page = collect.PAGE.read_text(encoding="utf-8")
    assert collect.filled(page) == page, "run: python tests/matrix/collect.py --table"


def test_rows_are_told_apart_by_name() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert {row.name for row in ROWS if row.gpus} >= {"plain@gpu", "ddp@gpu", "fsdp@gpu"}


def test_results_are_of_rows_that_exist() -> None:
    names = {row.name for row in ROWS}
    for machine, rows in collect.results().items():
        assert set(rows) <= names, machine


@pytest.mark.parametrize(("title", "test"), ELSEWHERE)
def test_a_row_elsewhere_is_a_test_that_exists(title: str, test: str) -> None:
    path, name = test.split("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, title
