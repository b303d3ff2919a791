"""Which traces a folder or a file stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.loading import loaded, row, written
from tracelens.errors import InputError
from tracelens.trace import chrome
from tracelens.trace.discover import discover


@pytest.mark.parametrize("name", ["absent.json", ".", "nul\0byte"])
def test_paths_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        chrome.load(f"{tmp_path}/{name}")
    assert caught.value.hint


# ------------------------------------------------------------------------------------------------------- discovery


def test_a_folder_means_its_traces_in_order_of_rank(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        (tmp_path / f"rank{rank}").mkdir()
        written(tmp_path / f"rank{rank}", [row()], "host_1.2.pt.trace.json")
        written(tmp_path / f"rank{rank}", {}, "sources.json")
    written(tmp_path, {}, "run.json")
    assert [chrome.rank_from_name(path) for path in discover(tmp_path)] == [0, 2, 10]
    assert discover(str(tmp_path / "rank*" / "*.json")) == discover(tmp_path)


def test_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, [row()], "whatever.bin")
    assert discover(path) == (path,)
    assert discover("-") == (Path("-"),)
    assert discover("/dev/null") == (Path("/dev/null"),)


@pytest.mark.parametrize("name", ["", "absent", "*.json", "x" * 300])
def test_nothing_to_discover_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        discover(tmp_path / name)


def test_names_are_distinct_after_cleaning(tmp_path: Path) -> None:
    trace = loaded(tmp_path, [row(name="a\tb"), row(name="a b", ts=20), row(name=5, ts=30), row(name="5", ts=40)])
    assert trace.names == ("a b", "5")
    assert list(trace.frame["name"]) == ["a b", "a b", "5", "5"]
