"""Columns of a Timeline: rows are chosen, columns replaced, DataFrames made, and nothing is changed by any of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tracelens.model import TextColumn, TraceTable

APIS = ("launch", "copy", "sync")


def table() -> TraceTable:
    return TraceTable(
        {
            "start_ns": np.array([10, 20, 30, 40]),
            "kind": TextColumn.coded(np.array([0, 1, 0, 2]), APIS),
            "path": np.array(["a.py", None, "b.py", None], dtype=object),
        }
    )


def test_rows_are_chosen_by_mask_position_and_slice() -> None:
    for rows in (np.array([False, True, False, True]), np.array([1, 3]), slice(1, None, 2)):
        chosen = table()[rows]
        assert len(chosen) == 2
        assert (chosen["start_ns"].tolist(), list(chosen["kind"])) == ([20, 40], ["copy", "sync"])


def test_a_row_is_in_pythons_own_values() -> None:
    row = table().row(2)
    assert row == {"start_ns": 30, "kind": "launch", "path": "b.py"}
    assert type(row["start_ns"]) is int


def test_a_table_with_other_columns_leaves_the_first_as_it_was() -> None:
    first = table()
    changed = first.with_columns(start_ns=first["start_ns"] + 1, step=np.zeros(4))
    assert (changed["start_ns"].tolist(), "step" in changed) == ([11, 21, 31, 41], True)
    assert (first["start_ns"].tolist(), "step" in first) == ([10, 20, 30, 40], False)


def test_a_dataframe_is_its_own() -> None:
    first = table()
    frame = first.frame()
    assert isinstance(frame["kind"].dtype, pd.CategoricalDtype) and list(frame["kind"]) == list(first["kind"])
    assert list(frame["kind"].dtype.categories) == list(APIS)
    assert frame["path"].dtype == object and frame["path"].tolist() == ["a.py", None, "b.py", None]
    frame.loc[0, "start_ns"] = 99
    frame["step"] = 0
    assert first["start_ns"][0] == 10 and "step" not in first


@pytest.mark.parametrize(("count", "width"), [(3, 1), (127, 1), (128, 2), (32767, 2), (32768, 4)])
def test_codes_are_as_narrow_as_the_words_allow(count: int, width: int) -> None:
    column = TextColumn.coded(np.arange(count), map(str, range(count)))
    assert column.codes.itemsize == width
    assert column[count - 1] == str(count - 1) and column.codes.min() == 0


def test_only_words_that_occur_are_used() -> None:
    assert table()["kind"].used() == set(APIS)
    assert table()["kind"][np.array([0, 2])].used() == {"launch"}
    assert len(TraceTable({})) == 0
