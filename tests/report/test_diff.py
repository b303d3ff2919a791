"""A diff becomes rows with both line numbers."""

from __future__ import annotations

from tests.support import report_cases as cases
from tracelens.report import diff

# -------------------------------------------------------------------------------------------------------- diff


def test_a_diff_becomes_rows_with_both_line_numbers() -> None:
    (file,) = diff.parse(cases.DIFF)
    assert file.path == "train.py"
    assert [(row.kind, row.old, row.new) for row in file.rows] == [
        ("hunk", None, None), ("same", 8, 8), ("same", 9, 9), ("same", 10, 10),
        ("del", 11, None), ("del", 12, None), ("add", None, 11), ("same", 13, 12),
    ]  # fmt: skip


def test_removed_lines_that_look_like_headers_stay_lines() -> None:
    text = "--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n-- note\n--- old\n a\n+++ b\n"
    (file,) = diff.parse(text)
    assert [row.kind for row in file.rows] == ["hunk", "del", "del", "same", "add"]


def test_two_files_and_an_empty_diff() -> None:
    assert [file.path for file in diff.parse(cases.DIFF + cases.DIFF.replace("train.py", "u.py"))] == [
        "train.py",
        "u.py",
    ]
    assert diff.parse("") == ()
