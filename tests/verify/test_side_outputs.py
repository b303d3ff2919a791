"""What a script tells people elsewhere than on standard output: on standard error, and in text files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.verifying import LINE, TRAIN, change, one_process, script, session
from tracelens.verify import result, trial_process
from tracelens.verify.compare import numbers
from tracelens.verify.supervisor import side_outputs
from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import STANDARD_ERROR


def copy_in(folder: Path) -> WorkingCopy:
    copy = WorkingCopy(folder / "scratch", folder / "project", folder / "project")
    copy.path_of(copy.root).mkdir(parents=True)
    return copy


def test_bars_and_warnings_are_left_out_and_log_lines_are_kept(tmp_path: Path) -> None:
    copy = copy_in(tmp_path)
    errors = (
        f"INFO loss 0.5\n{copy.path_of(copy.root)}/train.py:12: UserWarning: old\n  step()\n"
        " 10%|#  | 1/10\r 20%|## | 2/10\nINFO loss 0.4\n  a second line of it\n"
    )
    told = side_outputs.read(copy, errors.encode(), ())
    assert told == {STANDARD_ERROR: "INFO loss 0.5\nINFO loss 0.4\n  a second line of it\n"}


def test_text_files_of_the_project_are_read_and_nothing_else(tmp_path: Path) -> None:
    copy = copy_in(tmp_path)
    files = {
        "log.csv": b"1,2\n",
        "train.py": b"1",
        "image.png": b"PNG\0",
        "latin.txt": b"\xe9",
        "big.log": b"x" * (side_outputs.MOST_BYTES + 1),
    }
    for name, data in files.items():
        (copy.path_of(copy.root) / name).write_bytes(data)
    (copy.tree / "elsewhere.txt").write_text("cache")
    written = (*(str(copy.root / name) for name in files), str(copy.root / "gone.txt"), "/elsewhere.txt")
    assert side_outputs.read(copy, b"", written) == {STANDARD_ERROR: "", "log.csv": "1,2\n"}


def test_of_a_checkpoint_the_digest_is_told(tmp_path: Path) -> None:
    copy = copy_in(tmp_path)
    told = []
    for data in (b"PK\0 one", b"PK\0 one", b"PK\0 two"):
        (copy.path_of(copy.root) / "last.pt").write_bytes(data)
        told.append(side_outputs.read(copy, b"", (str(copy.root / "last.pt"),))["last.pt"])
    assert told[0] == told[1] != told[2]
    assert told[0].startswith("sha256 ")


def record(**told: str) -> trial_process.ProcessRecord:
    return trial_process.ProcessRecord(
        trial_process.TrialProcess("any", "numbers", 3, 0), 1.0, "", "", ({"rank": 0},), side_outputs=told
    )


@pytest.mark.parametrize(
    ("patched", "where"),
    [
        ({"log": "a 1\nb 2"}, None),
        ({"log": "a 1\nb 3"}, "line 2 of log"),
        ({"log": "a 1"}, "line 2 of log"),
        ({"log": "b 2\na 1"}, "line 1 of log"),
        ({}, "log"),
        ({"log": "a 1\nb 2", "more": "x"}, None),
    ],
)
def test_a_file_that_differs_from_what_both_originals_write_is_a_difference(
    patched: dict[str, str], where: str | None
) -> None:
    original = record(log="a 1\nb 2")
    found, _ = numbers.output_difference([original, original], record(**patched))
    assert (found.where if found else None) == where


def test_what_two_originals_write_differently_says_nothing() -> None:
    originals = [record(log="took 1.25 s\nloss 3", own="a"), record(log="took 1.31 s\nloss 3", other="a")]
    assert numbers.side_output_difference(originals, record(log="took 9.99 s\nloss 3")) is None
    assert numbers.side_output_difference(originals, record(log="took 9.99 s\nloss 4")) is not None
    assert numbers.side_output_difference([record(log="a"), record(log="a\nb")], record(log="c")) is None


def test_a_line_on_standard_error_may_stand_elsewhere_but_not_be_lost() -> None:
    """A library writes at once, while lines of the script are deferred."""
    original = record(**{STANDARD_ERROR: "loss 1\nlibrary: hello\nloss 2"})
    assert (
        numbers.side_output_difference(
            [original, original], record(**{STANDARD_ERROR: "library: hello\nloss 1\nloss 2"})
        )
        is None
    )
    lost = numbers.side_output_difference([original, original], record(**{STANDARD_ERROR: "library: hello\nloss 1"}))
    assert lost is not None
    assert lost.where == STANDARD_ERROR


@pytest.mark.programs
def test_lines_that_a_patch_loses_in_a_file_or_on_standard_error_are_noticed(project: Path) -> None:
    log = (
        '        sys.stderr.write(f"step {step} {shown}\\n")\n'
        '        open("log.csv", "a").write(f"{step},{shown}\\n")\n'
    )
    path = script(project, TRAIN.replace(LINE, LINE + log))
    found = session(
        path,
        change(path, "        sys.stderr", "        # the same\n        sys.stderr"),
        change(path, "        sys.stderr", "        if step != 7: sys.stderr"),
        change(path, "        open(", "        if step != 23: open("),
    )
    found.compare_numbers()
    same, errors, file = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    assert same.numbers_equal is True
    assert same.details["numbers"]["compared"]["error_lines"] == 24
    assert same.details["numbers"]["compared"]["text_files"] == 1
    assert errors.outcome == "different numbers" and "standard error" in errors.verdict
    assert file.outcome == "different numbers" and "line 24 of log.csv" in file.verdict


@pytest.mark.programs
def test_a_script_that_ends_by_os_exit_has_trained_all_the_same(project: Path) -> None:
    path = script(project, TRAIN.replace("range(100_000)", "range(5)") + "sys.stdout.flush(); os._exit(0)\n")
    record, _ = one_process(path)
    assert (record.steps, record.ranks[0]["stopped"]) == (5, "script ended")
