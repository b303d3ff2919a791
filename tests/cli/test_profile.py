"""`profile` and `verify` hand over what the user typed; the script's own exit code comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import run_cases as cases
from tracelens import trials
from tracelens.capture.supervisor import recording as session
from tracelens.cli import main
from tracelens.model import Ratio, Verification

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[session.ProfileOptions]:
    """Stands in for a recording: keeps the options, closes no window."""
    seen: list[session.ProfileOptions] = []

    def profile(options: session.ProfileOptions, on_window: Any = None) -> session.Outcome:
        seen.append(options)
        return session.Outcome(tmp_path, 3, False, "no training step was seen", 0, options.stop_after_window)

    monkeypatch.setattr(session, "profile", profile)
    return seen


@pytest.mark.parametrize(
    ("words", "kind", "passed"),
    [
        (["train.py"], "script", ("train.py",)),
        (["train.py", "--steps", "9", "-m", "-q"], "script", ("train.py", "--steps", "9", "-m", "-q")),
        (["train.py", "--", "x"], "script", ("train.py", "--", "x")),
        (["-m", "pkg.train", "--lr", "1"], "module", ("pkg.train", "--lr", "1")),
        (["--", "torchrun", "--nproc-per-node=4", "t.py"], "command", ("torchrun", "--nproc-per-node=4", "t.py")),
        (["--steps", "5", "--", "torchrun", "t.py"], "command", ("torchrun", "t.py")),
    ],
)
def test_arguments_reach_the_script_untouched(
    words: list[str], kind: str, passed: tuple[str, ...], recorded: list[session.ProfileOptions]
) -> None:
    main(["profile", *words])
    assert (recorded[0].kind, recorded[0].words) == (kind, passed)


def test_options_before_the_script_are_ours(recorded: list[session.ProfileOptions], tmp_path: Path) -> None:
    main(["profile", "--steps", "7", "-o", str(tmp_path / "out"), "train.py"])
    assert recorded[0].plan.clean == 7 and recorded[0].out == tmp_path / "out"


def test_an_option_of_ours_after_the_script_is_the_scripts_and_we_say_so(
    recorded: list[session.ProfileOptions], capsys: Capture
) -> None:
    main(["profile", "--stop-after-window", "train.py", "--steps", "9", "--lr", "3"])
    assert recorded[0].words == ("train.py", "--steps", "9", "--lr", "3")
    said = capsys.readouterr().err
    assert "--steps 9 goes to train.py. For TraceLens, put it first:" in said
    assert "tracelens profile --stop-after-window --steps 9 train.py --lr 3" in said
    main(["profile", "train.py", "--lr", "3"])
    main(["profile", "--", "torchrun", "train.py", "--steps", "9"])
    assert "goes to" not in capsys.readouterr().err


def test_after_a_usage_error_the_next_command_does_not_repeat_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    refused = session.Outcome(tmp_path, 2, False, "the script ended", 0, False)
    monkeypatch.setattr(session, "profile", lambda *_: refused)
    assert main(["profile", "train.py", "--steps=9"]) == 2
    said = capsys.readouterr().err.rstrip()
    assert said.endswith("next: tracelens profile --steps=9 train.py")
    assert "train.py does not know --steps=9. For TraceLens, put it first" in said


def test_after_a_crash_the_scripts_own_error_comes_first_and_no_command_repeats_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    crashed = session.Outcome(tmp_path, 1, False, "the script ended", 0, False)
    monkeypatch.setattr(session, "profile", lambda *_: crashed)
    assert main(["profile", "train.py", "--lr", "3"]) == 1
    said = capsys.readouterr().err
    assert "next: " not in said
    assert said.rstrip().endswith(
        "the script failed (exit code 1): its own error, above, is the next thing to mend. Then:\n"
        "           tracelens profile train.py --lr 3"
    )


def test_the_scripts_exit_code_comes_back(recorded: list[session.ProfileOptions], capsys: Capture) -> None:
    assert main(["profile", "train.py"]) == 3
    assert "no training step was seen" in capsys.readouterr().err
    assert main(["profile", "--stop-after-window", "train.py"]) == 0


def test_a_script_that_is_not_there_is_4_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "absent.py"]) == 4
    assert "absent.py" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_script_with_nearly_that_name_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    assert main(["profile", "trian.py"]) == 4
    assert "did you mean train.py?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_report_appears_when_the_window_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)

    def profile(options: session.ProfileOptions, on_window: Any = None) -> session.Outcome:
        on_window(folder)
        return session.Outcome(folder, 0, True, None, 1, False)

    monkeypatch.setattr(session, "profile", profile)
    assert main(["profile", "train.py"]) == 0
    streams = capsys.readouterr()
    assert streams.out == ""  # standard output is the script's
    assert "Two waits block Python for" in streams.err and "Wait each batch for an event saves " in streams.err
    ending = streams.err.splitlines()[-2:]
    where = folder.relative_to(tmp_path)
    assert ending == [f"next: tracelens fix {where}/", f"report: {where}/report.html"]
    assert (folder / "report.html").is_file()


@pytest.mark.parametrize(
    ("kind", "words", "name"),
    [
        ("script", ("src/my train.py",), "src/my train.py"),
        ("module", ("package.train", "--lr", "3"), "train"),
        ("command", ("torchrun", "--nproc-per-node=4", "fit.py"), "fit.py"),
        ("command", ("torchrun", "absent.py"), "torchrun"),
    ],
)
def test_a_run_is_called_after_its_script(kind: Any, words: tuple[str, ...], name: str, tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("")
    assert session._name(session.ProfileOptions(kind, words, cwd=tmp_path)) == name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "code"),
    [("faster", 0), ("no change", 0), ("slower", 1), ("different numbers", 1), ("inconclusive", 3)],
)
def test_verify_exits_by_its_outcome(
    outcome: Any, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = cases.recorded(tmp_path)
    asked: list[tuple[str, ...]] = []

    def measured(diagnosis: Any, names: tuple[str, ...], trial: trials.TrialOptions) -> tuple[Verification, ...]:
        asked.append(names)
        return (Verification(names[0], outcome, True, Ratio(0.9, 0.88, 0.92), 10, 9, None, "said."),)

    monkeypatch.setattr(trials, "verify_schemes", measured)
    words = ["--all"] if outcome == "faster" else []
    assert main(["verify", str(folder), *words]) == code
    wanted = {"event-interval", "interval-sync", "event-sync"} if words else {"event-sync"}
    assert set(asked[0]) == wanted and "said." in capsys.readouterr().out


def test_verify_two_scripts_hands_over_their_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    seen: list[Any] = []

    def measured(*words: Any) -> tuple[Verification, ...]:
        seen.append(words[:3])
        return (Verification(None, "no change", True, None, None, None, None, "no change"),)

    monkeypatch.setattr(trials, "verify_scripts", measured)
    assert main(["verify", "a.py", "b.py", "--", "--epochs", "1"]) == 0
    assert seen == [(Path("a.py"), Path("b.py"), ("--epochs", "1"))]


def test_ranks_and_a_shared_folder_are_handed_over(recorded: list[session.ProfileOptions], tmp_path: Path) -> None:
    main(["profile", "--ranks", "0,4-6,5", "--run-dir", str(tmp_path / "run"), "--", "torchrun", "t.py"])
    assert recorded[0].ranks == (0, 4, 5, 6)
    assert (recorded[0].out, recorded[0].join) == (tmp_path / "run", True)
    main(["profile", "train.py"])
    assert (recorded[1].ranks, recorded[1].join) == (None, False)


@pytest.mark.parametrize("given", ["", "x", "3-1", "1,", "-1", "0-999999999"])
def test_what_is_no_list_of_ranks_is_refused(
    given: str, recorded: list[session.ProfileOptions], capsys: Capture
) -> None:
    assert main(["profile", f"--ranks={given}", "train.py"]) == 2
    assert "no list of ranks" in capsys.readouterr().err
    assert not recorded


def test_one_run_folder_is_enough(recorded: list[session.ProfileOptions], tmp_path: Path) -> None:
    assert main(["profile", "-o", str(tmp_path / "a"), "--run-dir", str(tmp_path / "b"), "train.py"]) == 2
    assert not recorded
