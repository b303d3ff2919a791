"""The picture of a loss beside other seeds: known places, and what is not finite."""

from __future__ import annotations

from typing import Any

from tracelens.report import loss_band


def band(*patched: float | str, low: float | str = 1.0, high: float | str = 3.0) -> dict[str, Any]:
    count = len(patched)
    tail = {"low": 1.5, "high": 2.5, "patched": patched[-1]}
    curve = {"low": [low] * count, "high": [high] * count, "patched": list(patched), "outside_share": 0.5, "tail": tail}
    return {"verdict": "diverges", "seeds": 3, "curves": [curve], "reason": None}


def test_each_block_stands_where_the_lever_lies_in_its_band() -> None:
    said, *rows = loss_band.picture("bf16", band(2.0, 2.9, 1.1, 3.5, 0.5, 9.0, -5.0, "nan"))
    assert said == (
        "loss with bf16, 8 blocks of steps: 50 % outside the band of 3 seeds; it ends at nan, the seeds at 1.5 to 2.5"
    )
    assert rows == [
        " above |     * *|",
        "       |   *    |",
        "       |.*......|",
        "  band |*.......|",
        "       |..*.....|",
        "       |    *   |",
        " below |      * |",
    ]


def test_many_blocks_share_columns_and_the_farthest_is_shown() -> None:
    _, *rows = loss_band.picture("x", band(*[2.0] * 7, 9.0), columns=4)
    assert rows[0] == " above |   *|" and rows[3] == "  band |***.|"


def test_a_band_without_ends_or_width_and_no_curve() -> None:
    _, *rows = loss_band.picture("x", band(2.0, "nan", 1e9, -1e9, low="-inf", high="inf"))
    assert rows[3] == "  band |****|", "the original itself is not finite there"
    _, *rows = loss_band.picture("x", band(2.0, 2.1, 2.0, 1.9, low=2.0, high=2.0))
    assert (rows[0], rows[3], rows[6]) == (" above | *  |", "  band |*.*.|", " below |   *|")
    assert loss_band.picture("x", {"curves": [], "seeds": 3}) == []
