"""The excerpt of an edit: a line at a recorded place, and the one that takes its place."""

from __future__ import annotations

import pytest

from tracelens.report import diff, edit_excerpt, first_screen

DIFF = """\
--- a/train.py
+++ b/train.py
@@ -1,2 +1,3 @@
 import torch
+import tracelens_runtime

@@ -7,4 +8,4 @@
-    for step, batch in enumerate(loader):
+    for step, batch in ahead.iterate(enumerate(loader)):
         loss = step(batch)
-        torch.cuda.synchronize()
+        ahead.record()
         print(step)
"""


def telling(text: str, *lines: int) -> tuple[str, str]:
    rows = edit_excerpt._rows(diff.parse(text)[0])
    before, after = edit_excerpt._telling(rows, set(lines))
    return before.text.strip() if before else "", after.text.strip() if after else ""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((9,), ("torch.cuda.synchronize()", "ahead.record()")),
        ((), ("for step, batch in enumerate(loader):", "for step, batch in ahead.iterate(enumerate(loader)):")),
    ],
)
def test_a_recorded_place_goes_before_the_first(lines: tuple[int, ...], expected: tuple[str, str]) -> None:
    assert telling(DIFF, *lines) == expected


def test_a_line_that_only_comes_or_goes_stands_alone() -> None:
    added = "--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n a\n+b\n"
    assert telling(added) == ("", "b")
    assert telling(added.replace("@@ -1 +1,2 @@", "@@ -1,2 +1 @@").replace("\n+b", "\n-b")) == ("b", "")


def made_by(diff_text: str, added: str) -> tuple[str, int]:
    return edit_excerpt._maker(edit_excerpt._rows(diff.parse(diff_text)[0]), added)


def test_the_line_that_makes_a_name_is_shown_beside_the_one_that_uses_it() -> None:
    """`ahead` is nowhere in the file: the reader would look for it in vain."""
    made = DIFF.replace("@@ -7,4 +8,4 @@\n", "@@ -7,4 +8,5 @@\n+    ahead = DeferredReads(every=10)\n")
    assert made_by(made, "ahead.record()") == ("ahead = DeferredReads(every=10)", 7)
    assert made_by(made, "other.record()") == ("", 0)
    replaced = DIFF.replace("+    for step", "+    ahead = DeferredReads()\n+    for step")
    assert made_by(replaced, "ahead.record()") == ("ahead = DeferredReads()", 7), (
        "in place of the loop's head, not in it"
    )
    assert made_by(made.replace("every=10)", "every="), "ahead.record()") == ("", 0), "not the half of a call"
    assert made_by(DIFF, "ahead.record()") == ("", 0)


@pytest.mark.parametrize(
    ("removed", "added", "said"),
    [
        ("torch.cuda.synchronize()  # wait", "ahead.record()  # wait", "ahead.record()"),
        ("x = x.to(d)  # copy", "x = x.to(d, non_blocking=True)  # copy", "x = x.to(d, non_blocking=True)  # copy"),
        ("wait()  # now", "ahead.record()  # later", "ahead.record()  # later"),
        ('wait("# a")', 'mark("# a")', 'mark("# a")'),
    ],
)
def test_a_comment_on_what_is_gone_goes_with_it(removed: str, added: str, said: str) -> None:
    assert edit_excerpt._without_old_comment(removed, added) == said


def test_how_much_of_the_change_is_shown_is_counted() -> None:
    edit = edit_excerpt.EditExcerpt("a.py", 3, "wait()", "mark()", 4, 2, (), "mark = later()", 1)
    assert (edit.shown, edit.whole) == (3, False)
    said = first_screen._rest_of(edit, "tracelens apply run")
    assert said == "3 of 6 changed lines; add --dry-run to see all."
    helpers = edit_excerpt.EditExcerpt("a.py", 3, "wait()", "mark()", 1, 1, ("helpers.py",))
    assert first_screen._rest_of(helpers, "tracelens fix run").endswith(
        "2 of 2 changed lines, 1 new file; fix shows all."
    )
    assert first_screen._rest_of(helpers, "") == "2 of 2 changed lines, 1 new file."
    whole = edit_excerpt.EditExcerpt("a.py", 3, "wait()", "mark()", 1, 1, ())
    assert first_screen._rest_of(whole, "tracelens apply run") == ""
