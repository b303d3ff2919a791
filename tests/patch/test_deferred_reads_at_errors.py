"""defer-read where a loop ends by an error: no finished batch is lost, and lines keep their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

ENDINGS = [
    "raise ValueError('full')",
    "raise SystemExit(3)",
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_finished_batch_is_lost_when_the_loop_is_left_by_an_exception(ending: str, tmp_path: Path) -> None:
    text = script(
        f"""
        total = 0.0
        try:
            for step, (x, y) in enumerate(loader):
                STEP
                total += loss.item()  # fires
                print(step, total)
                if step == 13:
                    {ending}
        except BaseException as error:
            print(type(error).__name__, total)
            raise
        """
    )
    patch = patch_of(tmp_path, text)
    left = assert_same(tmp_path, text, patch)
    assert "13 " in left.output


def test_an_error_of_the_loader_comes_after_the_lines_of_the_batches_before_it(tmp_path: Path) -> None:
    text = script(
        """
        def batches():
            yield from loader[:13]
            raise OSError("disk")
        total = 0.0
        for step, (x, y) in enumerate(batches()):
            STEP
            total += loss.item()  # fires
            print(step, total)
        """
    )
    left = assert_same(tmp_path, text, patch_of(tmp_path, text, checked=False))
    assert left.ending == "OSError: disk"


def test_an_error_in_a_deferred_statement_stops_the_loop_and_the_lines_after_it(tmp_path: Path) -> None:
    text = script(
        """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            print(step, 1 / (3 - int(total > 2.5) * 3))
            if step > 11:
                break
        """
    )
    patch = patch_of(tmp_path, text, checked=False)
    assert_same_until_error(tmp_path, text, patch)


def assert_same_until_error(folder: Path, text: str, patch) -> None:
    from tests.support.patching import run

    (folder / "after").mkdir()
    runtime = next(one for one in patch.files if one.path.name == "tracelens_runtime.py")
    (folder / "after" / runtime.path.name).write_bytes(runtime.after)
    before, after = run(folder / "before", text), run(folder / "after", patched_text(patch))
    assert (after.output, after.ending) == (before.output, before.ending)
    assert before.ending.startswith("ZeroDivisionError")
