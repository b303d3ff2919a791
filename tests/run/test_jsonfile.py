"""The shapes of our JSON files: what fits passes, the first thing that does not is named with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracelens import jsonfile
from tracelens.errors import InputError

SHAPE: jsonfile.Shape = {"count": int, "share": float, "on": bool, "kind": frozenset({"a", "b"}), "rows": [{"x": str}]}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"count": 3, "share": 1, "on": False, "kind": "a", "rows": [{"x": "y", "more": 1}], "unknown": []},
        {"count": None, "share": None, "on": None, "kind": None, "rows": None},
        {"rows": [{"x": None}]},
    ],
)
def test_what_fits_passes(value: Any) -> None:
    jsonfile.check(value, SHAPE)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], r"^it should be an object, but is \[\]$"),
        ({"count": True}, "^count should be a whole number, but is true$"),
        ({"count": 1.5}, "^count should be a whole number"),
        ({"count": 1 << 63}, "^count should be a whole number"),
        ({"share": "1"}, '^share should be a number, but is "1"$'),
        ({"on": 1}, "^on should be true or false, but is 1$"),
        ({"kind": "c"}, '^kind should be one of a, b, but is "c"$'),
        ({"kind": []}, "^kind should be one of a, b"),
        ({"rows": {}}, "^rows should be a list"),
        ({"rows": [{}, None]}, r"^rows\[1\] is null$"),
        ({"rows": [{}, {"x": 2}]}, r"^rows\[1\]\.x should be text, but is 2$"),
    ],
)
def test_what_does_not_fit_is_named(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        jsonfile.check(value, SHAPE)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b'{"a": Infinity}', b"[" * 100_000])
def test_what_is_no_object_is_an_input_error_with_the_hint(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(InputError, match="does not exist") as missing:
        jsonfile.read(path, missing="make it", damaged="mend it")
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.json") as damaged:
        jsonfile.read(path, missing="make it", damaged="mend it")
    assert (missing.value.hint, damaged.value.hint) == ("make it", "mend it")
