"""A loop that is left on purpose has read all by then; what another exit loses is said in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

LEFT = """
    import sys
    class Finished(Exception):
        pass
    history = []
    def epoch():
        for step, (x, y) in enumerate(loader):
            STEP
            history.append(loss.item())  # fires
            if step == 16:
                END
    try:
        for _ in range(2):
            epoch()
    except (StopIteration, Finished, KeyboardInterrupt, SystemExit, ValueError):
        print(len(history), history[-1])
"""
ENDS = (
    "raise StopIteration",
    "raise Finished('all steps')",
    "raise KeyboardInterrupt",
    "sys.exit(3)",
    "raise ValueError",
)


@pytest.mark.parametrize("end", ENDS)
def test_what_leaves_a_loop_on_purpose_loses_nothing(end: str, tmp_path: Path) -> None:
    text = script(LEFT.replace("END", end))
    patch = patch_of(tmp_path, text, checked=True)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert assert_same(tmp_path, text, patch).output.startswith("17 ")


def test_an_error_of_what_waits_comes_before_one_that_the_loop_raises(tmp_path: Path) -> None:
    """No error gets out of an iterator that is closed by another one."""
    text = script("""
    known = {step: step for step in range(14)}
    for step, (x, y) in enumerate(loader):
        STEP
        print(known[step], loss.item())  # fires
        if step == 15:
            raise RuntimeError("diverged")
    """)
    patch = patch_of(tmp_path, text, lossy=False)
    assert assert_same(tmp_path, text, patch).ending == "KeyError: 14"
    assert "tracelens_runtime.DeferredReads" in patched_text(patch)


def test_from_a_loop_within_it_is_left_as_well(tmp_path: Path) -> None:
    within = "for part in range(2):\n                    if part:\n                        raise Finished(str(part))"
    text = script(LEFT.replace("END", within))
    assert assert_same(tmp_path, text, patch_of(tmp_path, text, checked=True)).output.startswith("17 ")


def test_before_an_error_that_is_not_expected_nothing_is_read(tmp_path: Path) -> None:
    text = script(LEFT.replace("END", "raise RuntimeError('no such mode')"))
    lines = patched_text(patch_of(tmp_path, text, checked=True)).splitlines()
    above = lines[next(number for number, line in enumerate(lines) if "no such mode" in line) - 1]
    assert above.strip() == "if step == 16:"


LOOKS_LATER = {
    "a context of the project": """
        class Run:
            def __init__(self):
                self.kept = []
            def log(self, value):
                self.kept.append(value)
            def __enter__(self):
                return self
            def __exit__(self, *error):
                print(len(self.kept))
        with Run() as run:
            for x, y in loader:
                STEP
                run.log(loss.item())  # fires
    """,
    "at exit": """
        import atexit
        totals = []
        def show():
            print(len(totals))
        atexit.register(show)
        def main():
            for x, y in loader:
                STEP
                totals.append(loss.item())  # fires
        main()
    """,
    "a function that keeps them": """
        import contextlib
        groups = []
        def log_scalar(name, value):
            for group in groups:
                group.setdefault(name, []).append(value)
        @contextlib.contextmanager
        def grouped():
            groups.append({})
            try:
                yield groups[-1]
            finally:
                print(len(groups.pop()["loss"]))
        def main():
            with grouped():
                for x, y in loader:
                    STEP
                    log_scalar("loss", loss.item())  # fires
        main()
    """,
}


@pytest.mark.parametrize("name", LOOKS_LATER)
def test_what_somebody_sees_after_an_exception_is_said(name: str, tmp_path: Path) -> None:
    (hunk,) = patch_of(tmp_path, script(LOOKS_LATER[name]), checked=True).hunks
    assert hunk.tier == "checked"
    assert "where an exception or a signal ends the loop, " in hunk.unproved
    assert "of the last 9 batches at most" in hunk.unproved


def test_rows_of_a_csv_file_are_flushed_as_they_are_written(tmp_path: Path) -> None:
    text = script(
        "import csv, io\nfile = io.StringIO()\nwriter = csv.writer(file)\nfor x, y in loader:\n    STEP\n"
        "    writer.writerow([loss.item()])  # fires\n    file.flush()\nprint(file.getvalue())\n"
    )
    patch = patch_of(tmp_path, text, checked=True)
    assert (
        "for loss_value in pending_losses:\n    writer.writerow([loss_value.item()])\n    file.flush()\n"
        in patched_text(patch)
    )
    assert_same(tmp_path, text, patch)


def test_a_bar_below_with_that_is_moved_by_hand_gets_its_text_every_n_batches(tmp_path: Path) -> None:
    text = script(
        "from tqdm import tqdm\nwith tqdm(total=23) as bar:\n    for x, y in loader:\n        STEP\n"
        "        bar.set_postfix(loss=loss.item())  # fires\n        bar.update(1)\n"
    )
    plain, helped = (patch_of(tmp_path, text, lossy=allowed) for allowed in (True, False))
    assert "lines and results of the last 9 batches" in plain.hunks[0].unproved
    assert "== 10:" in patched_text(plain)
    assert [one.path.name for one in helped.files] == ["train.py", "tracelens_runtime.py"]
    assert "lines and results" not in helped.hunks[0].unproved


EXIT = """
    import math, sys
    def epoch():
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            if ASKED:
                print("ends", step)
                sys.exit(SAID)
            total += loss.item()  # fires
            if step % 5 == 4:
                print(total)
        return total
    AROUND
"""
IS_NAN = "math.isnan(loss.item()) or step == 17"


def reads_before_the_exit(folder: Path, asked: str = IS_NAN, said: str = "", around: str = "print(epoch())") -> bool:
    text = script(EXIT.replace("ASKED", asked).replace("SAID", said).replace("AROUND", around))
    patch = patch_of(folder, text)
    assert not patch.empty
    assert_same(folder, text, patch)
    lines = [line.strip() for line in patched_text(patch).splitlines()]
    return lines[lines.index(f"sys.exit({said})") - 1] != 'print("ends", step)'


def test_a_sum_that_nobody_sees_is_not_made_before_the_process_ends(tmp_path: Path) -> None:
    assert not reads_before_the_exit(tmp_path)


@pytest.mark.parametrize("asked", ["step == 17", "int(step) == 17", "x.sum().item() < -99 or step == 17"])
def test_it_is_made_where_nothing_has_waited_for_the_batches_before(asked: str, tmp_path: Path) -> None:
    """An error of theirs would have come before the exit, which is that of a training that has gone well."""
    assert reads_before_the_exit(tmp_path, asked)


def test_it_is_made_where_the_exit_says_it(tmp_path: Path) -> None:
    assert reads_before_the_exit(tmp_path, said="f'{total:.4f}'")


def test_what_somebody_sees_behind_the_exit_is_made(tmp_path: Path) -> None:
    around = "total = 0.0\n    try:\n        epoch()\n    except SystemExit:\n        print(total)"
    text = script(EXIT.replace("ASKED", IS_NAN).replace("SAID", "").replace("AROUND", around))
    text = text.replace("    total = 0.0\n    for", "    global total\n    for")
    patch = patch_of(tmp_path, text)
    assert_same(tmp_path, text, patch)
    assert "global total" in text
