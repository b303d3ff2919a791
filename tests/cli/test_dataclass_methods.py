"""Methods of dataclasses are compiled once, and never taken from a file that is not whole or of another Python."""

from __future__ import annotations

import builtins
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tracelens.cli import dataclass_methods


def defined() -> type[Any]:
    """A new class each time, with the same text."""

    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: int = 2

    return Point


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the module compiles."""
    texts: list[str] = []

    def counting(text: str, *arguments: Any, **options: Any) -> Any:
        texts.append(text)
        return compile(text, *arguments, **options)

    monkeypatch.setattr(dataclass_methods, "compile", counting, raising=False)
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    return texts


def works(point: type[Any]) -> bool:
    return point(1) == point(1, 2) < point(1, 3) and repr(point(1)).endswith("Point(x=1, y=2)")


def test_the_second_command_compiles_nothing(tmp_path: Path, compiled: list[str]) -> None:
    place = tmp_path / "kept.pyc"
    with dataclass_methods.kept(place):
        assert works(defined())
    assert compiled
    compiled.clear()
    with dataclass_methods.kept(place):
        assert works(defined())
    assert compiled == []


def test_afterwards_dataclasses_compile_by_themselves(tmp_path: Path) -> None:
    with dataclass_methods.kept(tmp_path / "kept.pyc"):
        assert vars(dataclasses)["exec"] is not builtins.exec
    assert vars(dataclasses)["exec"] is builtins.exec


def test_two_commands_within_each_other(tmp_path: Path) -> None:
    with dataclass_methods.kept(tmp_path / "kept.pyc"):
        with dataclass_methods.kept(tmp_path / "kept.pyc"):
            assert works(defined())
        assert works(defined())
    assert vars(dataclasses)["exec"] is builtins.exec


def one_bit(data: bytes) -> bytes:
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


@pytest.mark.parametrize("damage", [one_bit, lambda data: data[:-40], lambda _: b"", lambda data: data[16:]])
def test_a_damaged_file_is_not_read(damage: Any, tmp_path: Path, compiled: list[str]) -> None:
    place = tmp_path / "kept.pyc"
    with dataclass_methods.kept(place):
        defined()
    whole = place.read_bytes()
    place.write_bytes(damage(whole))
    compiled.clear()
    with dataclass_methods.kept(place):
        assert works(defined())
    assert compiled
    assert place.read_bytes() == whole


def test_another_python_reads_nothing(tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "kept.pyc"
    with dataclass_methods.kept(place):
        defined()
    compiled.clear()
    monkeypatch.setattr(dataclass_methods, "_PYTHON", b"4.0")
    with dataclass_methods.kept(place):
        assert works(defined())
    assert compiled


def test_a_file_that_has_grown_too_large_is_begun_anew(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kept.pyc"
    with dataclass_methods.kept(place):
        defined()
    compiled.clear()
    monkeypatch.setattr(dataclass_methods, "MOST_KEPT", 1)
    with dataclass_methods.kept(place):
        defined()
    assert compiled


def test_nothing_is_written_where_python_writes_no_byte_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    with dataclass_methods.kept(tmp_path / "kept.pyc"):
        assert works(defined())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with dataclass_methods.kept(tmp_path / "file" / "kept.pyc"):
        assert works(defined())
