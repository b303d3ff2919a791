"""The excerpt of an edit: a short one whole; of a long one the recorded places, and what makes the names there."""

from __future__ import annotations

from dataclasses import replace

from tracelens.report import diff, edit_excerpt
from tracelens.report.edit_excerpt import EditExcerpt, EditRow

LONG = """\
--- a/train.py
+++ b/train.py
@@ -1,2 +1,3 @@
 import torch
+import tracelens_runtime

@@ -7,5 +8,7 @@
-    for step, batch in enumerate(loader):
+    ahead = DeferredReads(every=10)
+
+    for step, batch in ahead.iterate(enumerate(loader)):
         loss = step(batch)
-        torch.cuda.synchronize()
-        print(loss.item())
+        ahead.record()
+        ahead.defer(print, ahead.item(loss))
         rest()
"""
"""Eight lines that say something; `torch.cuda.synchronize()` is line 9."""

SHORT = "--- a/x.py\n+++ b/x.py\n@@ -4,2 +4,3 @@\n a\n+b\n-c\n+d\n"


def telling(text: str, *lines: int) -> list[tuple[str, int, str]]:
    rows = edit_excerpt._telling(edit_excerpt._blocks(diff.parse(text)[0].rows), set(lines))
    return [(row.kind, row.line, row.text.strip()) for row in rows]


def test_a_short_change_is_shown_whole_with_the_lines_of_the_file_as_it_is() -> None:
    assert telling(SHORT) == [("add", 5, "b"), ("del", 5, "c"), ("add", 5, "d")]
    assert telling("--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n a\n+b\n") == [("add", 2, "b")], "behind the last line"
    assert telling("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1 @@\n a\n-b\n") == [("del", 2, "b")]


def test_of_a_long_change_the_recorded_places_are_shown_and_what_makes_the_names_there() -> None:
    """`ahead` is nowhere in the file: the reader would look for it in vain. It is made before the loop, not in it."""
    assert telling(LONG, 9, 10) == [
        ("add", 7, "ahead = DeferredReads(every=10)"),
        ("del", 9, "torch.cuda.synchronize()"),
        ("del", 10, "print(loss.item())"),
        ("add", 9, "ahead.record()"),
        ("add", 9, "ahead.defer(print, ahead.item(loss))"),
    ]


def test_where_no_place_was_recorded_the_first_line_that_is_replaced_is_shown() -> None:
    assert telling(LONG)[:1] == [("del", 7, "for step, batch in enumerate(loader):")]


def test_the_half_of_a_call_is_not_shown() -> None:
    broken = LONG.replace("DeferredReads(every=10)\n", "DeferredReads(\n")
    assert not [row for row in telling(broken, 9) if "DeferredReads" in row[2]]


def test_a_function_that_the_change_makes_is_shown_by_its_first_line() -> None:
    """`log_loss` came from nowhere."""
    made = LONG.replace("+    ahead = Def", "+    def log_loss(value, step):\n+        print(value)\n+    ahead = Def")
    made = made.replace("@@ -7,5 +8,7 @@", "@@ -7,5 +8,9 @@").replace("ahead.defer(print,", "ahead.defer(log_loss,")
    assert telling(made, 9, 10)[:2] == [
        ("add", 7, "def log_loss(value, step): …"),
        ("add", 7, "ahead = DeferredReads(every=10)"),
    ]


def excerpt(shown: int, changed: int, *new_files: str) -> EditExcerpt:
    return EditExcerpt("a.py", tuple(EditRow("del", 3 + n, "wait()") for n in range(shown)), changed, new_files)


def test_how_much_of_the_change_is_shown_is_counted() -> None:
    said = edit_excerpt.rest_of(excerpt(3, 6), "tracelens apply run")
    assert said == "3 of 6 lines; all: tracelens apply run --dry-run"
    helpers = replace(excerpt(2, 2, "helpers.py"), new_lines=90)
    assert edit_excerpt.rest_of(helpers, "tracelens fix run") == "2 of 2 lines, 1 new file of 90 lines; fix shows all."
    assert edit_excerpt.rest_of(helpers, "") == "2 of 2 lines, 1 new file of 90 lines."
    assert edit_excerpt.rest_of(excerpt(2, 2), "tracelens apply run") == ""


def test_a_change_stands_at_its_first_line_that_goes_else_where_the_first_one_comes() -> None:
    come = EditRow("add", 2, "b")
    assert EditExcerpt("a.py", (come, EditRow("del", 9, "c")), 2, ()).line == 9
    assert EditExcerpt("a.py", (come,), 1, ()).line == 2
