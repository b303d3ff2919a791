"""Compiled templates are kept beside Python's compiled modules, and never used for another source."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from tracelens.report.compiled_templates import CompiledTemplates


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def drawn(source: str, settings: str = "same") -> str:
    loader = jinja2.DictLoader({"page": source})
    return (
        jinja2.Environment(loader=loader, bytecode_cache=CompiledTemplates(settings)).get_template("page").render(n=3)
    )


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn("{{ n }} waits") == "3 waits"
    assert len(kept(tmp_path)) == 1
    monkeypatch.setattr(jinja2.Environment, "_compile", lambda *_: pytest.fail("compiled again"))
    assert drawn("{{ n }} waits") == "3 waits"


@pytest.mark.parametrize("other", [("{{ n }} stalls", "same", "3 stalls"), ("{{ n }} waits", "other", "3 waits")])
def test_other_text_or_settings_are_compiled_anew(other: tuple[str, str, str], tmp_path: Path) -> None:
    drawn("{{ n }} waits")
    before = kept(tmp_path)[0].read_bytes()
    assert drawn(*other[:2]) == other[2]
    assert kept(tmp_path)[0].read_bytes() != before


@pytest.mark.parametrize("damage", [b"", b"no byte code", b"\0" * 200])
def test_a_damaged_file_is_made_again(damage: bytes, tmp_path: Path) -> None:
    drawn("{{ n }} waits")
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    for data in (damage, whole[: len(whole) // 2]):
        file.write_bytes(data)
        assert drawn("{{ n }} waits") == "3 waits"
        assert file.read_bytes() == whole


def test_nothing_is_kept_where_nothing_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert drawn("{{ n }} waits") == "3 waits"
    assert kept(tmp_path) == []
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "file"))
    assert drawn("{{ n }} waits") == "3 waits"
