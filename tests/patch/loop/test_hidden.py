"""What `**kwargs` can bring along: known only where one function shows all that happens to the dict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import call_of, parsed
from tracelens.patch.loop import hidden


def names(folder: Path, text: str) -> set[str] | None:
    """The names that can be handed to the only call of `DataLoader`."""
    source = parsed(folder, f"{text}\n")
    found = hidden.names(source, call_of(source, "DataLoader"))
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("DataLoader(data)", set()),
        ('DataLoader(data, **{"a": 1, "b": 2})', {"a", "b"}),
        ("k = dict(a=1)\nDataLoader(data, **k)", {"a"}),
        ('k = {"a": 1}\nk["b"] = 2\nk.update(c=3)\nDataLoader(data, **k)', {"a", "b", "c"}),
        ('k = {"a": 1} if gpu else {}\nDataLoader(data, **k)', {"a"}),
        ('k = {"a": 1}\nm = {"b": 2}\nk.update(m)\nDataLoader(data, **k)', {"a", "b"}),
        ('k = {"a": 1}\nm = {**k, "b": 2}\nDataLoader(data, **m)', {"a", "b"}),
        ('k = {"a": 1}\nprint(len(k), k)\nDataLoader(data, **k)', {"a"}),
        ('def f():\n    k = {"a": 1}\n    return DataLoader(data, **k)', {"a"}),
    ],
)
def test_every_key_is_seen(text: str, known: set[str], tmp_path: Path) -> None:
    assert names(tmp_path, text) == known


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader(*given)",
        "DataLoader(data, **given)",
        "DataLoader(data, **make())",
        "k = {name: 1}\nDataLoader(data, **k)",
        'k = {"a": 1}\nchange(k)\nDataLoader(data, **k)',
        'k = {"a": 1}\nother = k\nDataLoader(data, **k)',
        "k = {}\nk[name] = 1\nDataLoader(data, **k)",
        "def f():\n    global k\n    k = {}\nk = {}\nDataLoader(data, **k)",
        "def dict(**given): ...\nk = dict(a=1)\nDataLoader(data, **k)",
        "def f(**k):\n    DataLoader(data, **k)",
    ],
    ids=["star", "given", "a call", "a name as key", "handed on", "another name", "stored", "global", "own dict", "**"],
)
def test_where_somebody_else_could_add_a_key_nothing_is_known(text: str, tmp_path: Path) -> None:
    assert names(tmp_path, text) is None
