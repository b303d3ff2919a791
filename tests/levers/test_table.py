"""The page of `try`: its table comes from the raw rows."""

from __future__ import annotations

from typing import Any

from tests.levers import table


def test_the_table_is_that_of_the_raw_rows() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page) == page


def test_a_row_says_how_sure_it_is_and_a_combination_has_a_line_of_its_own() -> None:
    def measured(name: str, **changes: Any) -> dict[str, Any]:
        pairs = [[9000.0, 6000.0]] * (1 if changes.get("speedup") is None else 3)
        return {
            "id": name, "members": [], "standing": "measured", "reason": None, "speedup": None, "pairs_us": pairs,
            "numbers": "same", "memory_bytes_delta": -2_000_000, **changes,
        }  # fmt: skip

    sure = {"speedup": 2.0, "low": 1.9, "high": 2.1}
    both = measured("bf16+fused", members=["bf16", "fused"], speedup=sure, numbers="inside_seed_band")
    levers = [
        measured("by-hand"),
        measured("bf16", speedup=sure),
        measured("fused", standing="unused", reason="no optimizer"),
        measured("tf32", standing="not_reached"),
    ]
    row = {"loop": "conv", "by_hand": levers[0], "try": {"base_us": 9000.0, "levers": levers, "combination": both}}
    assert table.table([row]).splitlines()[2:] == [
        "| conv | 9.0 | by hand | 1.50 | 1 | same results | −2 |",
        "| conv | 9.0 | `bf16` | 2.00 (1.90 to 2.10) | 3 | same results | −2 |",
        "| conv | 9.0 | `fused` | unused: no optimizer | – | – | – |",
        "| conv | 9.0 | `bf16+fused` | 2.00 (1.90 to 2.10) | 3 | inside the band | −2 |",
    ]


def test_the_best_says_who_chose_the_levers_and_what_was_measured_too_seldom() -> None:
    def measured(name: str, ms: float, pairs: int) -> dict[str, Any]:
        return {"id": name, "members": name.split("+"), "speedup": None, "pairs_us": [[9.0, ms]] * pairs}

    hand, both = measured("by-hand", 6.0, 1), measured("bf16+compile", 4.5, 2)
    row = {
        "loop": "gpt", "command": "MODE=planned bash on_gpu.sh OUT", "words": [], "by_hand": hand,
        "try": {"combination": None, "tried_together": [both]},
    }  # fmt: skip
    doubtful = "| gpt | by default | `bf16+compile`, not beyond doubt | 2.00 | 2 | 1.50 | 1 | 2.00 |"
    assert table.best([row]).splitlines()[2:] == [doubtful]
    taken = {**row, "command": "measure.py together gpt", "try": {"combination": both, "tried_together": [both]}}
    assert table.best([taken]).splitlines()[2:] == [
        "| gpt | given, at once | `bf16+compile` | 2.00 | 2 | 1.50 | 1 | 2.00 |"
    ]
    assert "| gpt | all | `bf16+compile`" in table.best([{**row, "words": ["all"]}])
    nothing = {**row, "words": ["bf16"], "try": {"combination": None}}
    assert table.best([nothing]).splitlines()[2:] == [
        "| gpt | named | none gains beyond doubt | – | – | 1.50 | 1 | – |"
    ]
