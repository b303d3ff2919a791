"""A project that an earlier patch has left its helpers in: its other loops are judged as if nothing were there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script
from tracelens.model import Patch
from tracelens.patch.effects.helper_file import is_helper_file
from tracelens.patch.files import vendored

LATER = "# later"
ONE_AFTER_ANOTHER = """
    for step, (x, y) in enumerate(loader):
        STEP
        FIRST  # fires
    for number, (x, y) in enumerate(loader):
        STEP
        SECOND  # later
"""
EVALUATION_WITHIN = """
    def evaluate(epoch):
        for number, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            INNER
    for step, (x, y) in enumerate(loader):
        STEP
        OUTER
        if step % 5 == 4:
            evaluate(step)
"""
FIRST, SECOND = 'print(f"{step} {loss.item():.6f}")', 'print(f"later {number} {loss.item():.6f}")'
FORMS = {
    "one after another": ONE_AFTER_ANOTHER.replace("FIRST", FIRST).replace("SECOND", SECOND),
    "the evaluation last": EVALUATION_WITHIN.replace("OUTER", f"{FIRST}  # fires").replace(
        "INNER", f"{SECOND}  # later"
    ),
    "the evaluation first": EVALUATION_WITHIN.replace("INNER", f"{SECOND}  # fires").replace(
        "OUTER", f"{FIRST}  # later"
    ),
    "numbers and arrays": """
        losses = []
        for step, (x, y) in enumerate(loader):
            STEP
            losses.append(loss.item())
            print(step, loss.item(), loss.detach().cpu().numpy(), loss.tolist())  # fires
        for number, (x, y) in enumerate(loader):
            STEP
            SECOND  # later
        print(sum(losses))
    """.replace("SECOND", SECOND),
}


def patched_twice(folder: Path, text: str) -> tuple[Patch, Patch]:
    """The patch of the reads marked `fires`, and then that of the others in what it wrote."""
    first = patch_of(folder, text, checked=False)
    for one in first.files:
        one.path.write_bytes(one.after)
    again = patched_text(first)
    return first, patch_of(folder, again, defer(again, mark=LATER), checked=False)


def helper(patch: Patch) -> bytes:
    return next((one.after for one in patch.files if one.path.name == "tracelens_runtime.py"), b"")


@pytest.mark.parametrize("form", FORMS)
def test_another_loop_is_patched_as_if_it_were_the_first(form: str, tmp_path: Path) -> None:
    text = script(FORMS[form])
    alone = patch_of(tmp_path, text, defer(text, mark=LATER), checked=False)
    (tmp_path / "twice").mkdir()
    first, second = patched_twice(tmp_path / "twice", text)
    assert is_helper_file(helper(first).decode())
    assert [hunk.tier for hunk in second.hunks] == [hunk.tier for hunk in alone.hunks] == ["safe"]
    if not helper(second):
        (tmp_path / "twice" / "after").mkdir(exist_ok=True)
        (tmp_path / "twice" / "after" / "tracelens_runtime.py").write_bytes(helper(first))
    assert_same(tmp_path / "twice", text, second)


def test_what_a_patched_loop_does_counts(tmp_path: Path) -> None:
    """The statements that wait change `last`, which the loop around reads in each batch."""
    text = script("""
        last = 0.0
        def evaluate(epoch):
            global last
            for number, (x, y) in enumerate(loader):
                loss = criterion(model(x), y)
                last = loss.item()  # fires
                print(f"held out {epoch} {number} {last:.6f}")
        for step, (x, y) in enumerate(loader):
            STEP
            evaluate(step)
            print(f"train {step} {last:.6f} {loss.item():.6f}")  # later
    """)
    (tmp_path / "alone").mkdir()
    alone = patch_of(tmp_path / "alone", text, defer(text, mark=LATER), checked=False)
    _, second = patched_twice(tmp_path, text)
    assert second.hunks == alone.hunks == ()
    assert "`evaluate(…)` does more than print" in second.declined[0].obstacle


def test_helpers_that_somebody_has_changed_are_code_of_the_project() -> None:
    part = vendored.content({"DeferredReads", "DeferredReads.item"}).decode()
    assert is_helper_file(part)
    assert not is_helper_file(part.replace("self._left = False", "self._left = True"))
    assert not is_helper_file("import os\n" + part)
    assert not is_helper_file("def prefetch(loader): ...\n")
