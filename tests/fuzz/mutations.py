"""Damage for trace files: bytes in, damaged bytes out, decided by plain numbers so that a case can be repeated.

Both users share it: `test_damage.py` lets hypothesis choose the numbers (and shrink them), `__main__.py`
takes them from a seeded generator for as long as it is told to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KINDS = ("flip", "overwrite", "delete", "insert", "truncate", "repeat", "splice", "token")
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"null", b"NaN", b"Infinity", b"-", b"1e999",
    b"99999999999999999999", b"-1", b"0.5", b"true", b'"ph":"B",', b'"ph":"E",', b'"ts":"1",', b'"args":null,',
    b'"traceEvents":[', b"]}", b"},{", b'{"ph":"X"}', b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\n", b"/*", b"N/A",
    b'"dur":-1,', b'"dur":1e18,', b'"ts":1e15,', b'"tid":{},', b'"name":[],', b'"args":{"stream":[1]},',
)  # fmt: skip
"""What JSON, Chrome's format and Kineto's habits are made of; random bytes alone seldom get past the first quote."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One act of damage. `at` and `other` are shares (0-1) of the length, `size` a number of bytes."""

    kind: str
    at: float
    size: int
    other: float
    data: bytes


def mutated(data: bytes, edits: Sequence[Edit]) -> bytes:
    """`data` after all edits, one after the other."""
    for edit in edits:
        data = _edited(data, edit)
    return data


def _edited(data: bytes, edit: Edit) -> bytes:
    at = min(int(edit.at * len(data)), max(len(data) - 1, 0))
    before, after = data[:at], data[at:]
    start = int(edit.other * len(data))
    instead = {
        "flip": bytes([after[0] ^ (1 << edit.size % 8)]) + after[1:] if after else b"",
        "overwrite": edit.data + after[len(edit.data) :],
        "delete": after[edit.size :],
        "insert": edit.data + after,
        "truncate": b"",
        "repeat": after[: edit.size] * 3 + after[edit.size :],
        "splice": data[start : start + edit.size] + after,
        "token": TOKENS[edit.size % len(TOKENS)] + after,
    }
    return before + instead[edit.kind]
