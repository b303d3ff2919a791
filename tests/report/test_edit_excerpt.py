"""The excerpt of an edit: a line at a recorded place, and the one that takes its place."""

from __future__ import annotations

import pytest

from tracelens.report import diff, edit_excerpt

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
