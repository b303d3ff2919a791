"""What was said of a wait goes with the wait, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelens.patch.code.source import parse
from tracelens.patch.files.outdated_comments import without_outdated
from tracelens.patch.files.rewrite_checks import rewrite_mistake

SYNC = "torch.cuda.synchronize()"


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (f"{SYNC}  # wait for the step to finish", "done.record()  # wait for the step to finish", "done.record()"),
        ("x += y.item()  # the host waits here", "x += value  # the host waits here", "x += value"),
        ("x += float(y)  # forces a sync", "x += value  # forces a sync", "x += value"),
        (f"{SYNC}  # wait", f"if n % 10 == 0:\n    {SYNC}  # wait", f"if n % 10 == 0:\n    {SYNC}  # wait"),
        (f"{SYNC}  # see issue 12", "done.record()  # see issue 12", "done.record()  # see issue 12"),
        (f"{SYNC}  # noqa: wait", "done.record()  # noqa: wait", "done.record()  # noqa: wait"),
        (f"{SYNC}  # TODO wait less", "done.record()  # TODO wait less", "done.record()  # TODO wait less"),
        ("x = f(y)  # wait for it", "x = g(y)  # wait for it", "x = g(y)  # wait for it"),
        (f"{SYNC}  # wait\r", "done.record()  # wait\r", "done.record()\r"),
    ],
)
def test_only_a_comment_on_a_wait_that_is_gone_goes(before: str, after: str, left: str) -> None:
    found = without_outdated(f"{before}\n".encode(), f"{after}\n".encode())
    assert found == f"{left}\n".encode()


def test_the_same_comment_stays_behind_a_wait_that_stays() -> None:
    text = f"{SYNC}  # wait\nrest()\n{SYNC}  # wait\n"
    after = text.replace(SYNC, "done.record()", 1)
    assert without_outdated(text.encode(), after.encode()).decode() == f"done.record()\nrest()\n{SYNC}  # wait\n"


def test_a_file_in_another_encoding_keeps_its_bytes() -> None:
    text = f"# -*- coding: latin-1 -*-\nname = 'é'\n{SYNC}  # wait\n"
    after = text.replace(SYNC, "done.record()")
    assert without_outdated(text.encode("latin-1"), after.encode("latin-1")) == (
        b"# -*- coding: latin-1 -*-\nname = '\xe9'\ndone.record()\n"
    )


def test_no_other_comment_may_be_lost(tmp_path: Path) -> None:
    source = parse(tmp_path / "a.py", "a.py", f"{SYNC}  # wait\nx = 1  # wait for nobody\n".encode())
    assert rewrite_mistake(source, b"done.record()\nx = 1  # wait for nobody\n") is None
    assert "would be lost" in (rewrite_mistake(source, b"done.record()\nx = 1\n") or "")
