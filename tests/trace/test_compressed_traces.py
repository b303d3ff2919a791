"""Traces packed with gzip and zstd: cut, damaged, in pieces, or of an absurd size."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import loop
from tests.support.loading import FIRST, QUIET, TEXT, complete, written
from tracelens.errors import InputError
from tracelens.trace import chrome, raw_bytes
from tracelens.trace.load_notes import LoadNotes


@given(st.floats(0, 1))
@QUIET
def test_a_gzip_cut_anywhere_keeps_what_can_be_inflated(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(TEXT, 6)
    cut = packed[: int(share * len(packed))]
    text = zlib.decompressobj(31).decompress(cut) if cut else b""
    path = written(tmp_path, cut, "trace.json.gz")
    try:
        trace = chrome.load(path)
    except InputError:
        assert complete(text[FIRST:]) == 0
    else:
        assert len(trace) == complete(text[FIRST:])


@pytest.mark.slow
def test_a_damaged_gzip_keeps_everything_before_the_damage(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(json.dumps(loop(400).document(), indent=1).encode(), 6))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(40)
    trace = chrome.load(written(tmp_path, bytes(packed), "trace.json.gz"))
    assert len(trace) > 400 and any("damage" in warning for warning in trace.warnings)


def test_gzip_members_follow_each_other_and_other_bytes_are_ignored(tmp_path: Path) -> None:
    half = len(TEXT) // 2
    two = gzip.compress(TEXT[:half]) + gzip.compress(TEXT[half:])
    assert len(chrome.load(written(tmp_path, two, "a.json.gz"))) == len(loop().rows)
    trace = chrome.load(written(tmp_path, two + b"junk", "b.json.gz"))
    assert len(trace) == len(loop().rows)
    assert any("after the end" in warning for warning in trace.warnings)


def test_a_gzip_bomb_is_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(b'{"a": "' + b" " * 30_000_000), "bomb.json.gz")
    with pytest.raises(InputError):
        chrome.load(path, max_bytes=1_000_000)


def packed(raw: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    return bytes(zstandard.ZstdCompressor().compress(raw))


def test_zstd_is_told_by_its_content(tmp_path: Path) -> None:
    trace = chrome.load(written(tmp_path, packed(TEXT), "trace.json"))
    assert len(trace) == len(loop().rows) and not trace.warnings
    two = packed(TEXT[:1000]) + packed(TEXT[1000:]) + b"junk"
    trace = chrome.load(written(tmp_path, two, "trace.json.zst"))
    assert len(trace) == len(loop().rows) and any("after the end" in warning for warning in trace.warnings)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_zstd_cut_short_keeps_what_can_be_unpacked(tmp_path: Path, share: float) -> None:
    raw = json.dumps(loop(1000).document(), indent=1).encode()
    data = packed(raw)
    trace = chrome.load(written(tmp_path, data[: int(share * len(data))], "trace.json.zst"))
    assert 0 < len(trace) < len(loop(1000).rows)
    assert any("compressed data ends early" in warning for warning in trace.warnings)


def test_zstd_that_expands_a_millionfold_is_read_in_pieces(tmp_path: Path) -> None:
    path = written(tmp_path, packed(b'{"a": "' + bytes([32]) * 90_000_000), "bomb.json.zst")
    assert path.stat().st_size < 20_000
    assert max(map(len, raw_bytes.pieces(path, LoadNotes()))) <= 32 << 20
    with pytest.raises(InputError, match="only the first 1000000 bytes"):
        chrome.load(path, max_bytes=1_000_000)


def test_zstd_without_its_library_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match="zstandard") as caught:
        chrome.load(written(tmp_path, b"\x28\xb5\x2f\xfd....", "trace.json.zst"))
    assert "zstd -d" in caught.value.hint
