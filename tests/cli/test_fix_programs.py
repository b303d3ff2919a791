"""`tracelens fix` end to end on the CPU: in a pipe, in a terminal, and interrupted at each stage.

A loop that collects garbage in each step comes back faster, with the same numbers. Whenever Ctrl-C comes, the script is
as it was, or holds the whole change.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import ROOT
from tracelens.cli import main
from tracelens.run import RUNS_FOLDER, read

pytest.importorskip("torch")
pytestmark = [pytest.mark.programs, pytest.mark.slow]

SCRIPT = f"""{PRELUDE}
import gc

ROWS = [[number, [number]] for number in range(100_000)]  # what the loop below asks for garbage: most of a step

def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    print("begins", flush=True)
    for step in range(24):
        x = torch.randn(8, 16)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        gc.collect()
    print(f"loss {{loss.item():.4f}}")


main()
"""
PROGRAM = """
import sys
from tracelens.verify.policy import POLICY
for name, value in (("pairs", 3), ("timed_seconds", 0.1)):  # the fewest pairs that a verdict takes
    object.__setattr__(POLICY, name, value)
{extra}
from tracelens.cli import main
sys.exit(main(sys.argv[1:]))
"""
TRY_FIRST = "from tracelens.fixing import choice; choice.possible = lambda *_: ('gc-collect', 'gc-collect')"
IN_THE_MIDDLE = """
import os, signal, time
from tracelens import run
write, times = run.write_bytes, []
def interrupted(path, *given, **named):
    write(path, *given, **named)
    if path.name == "train.py" and not times:
        times.append(1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
run.write_bytes = interrupted
"""
"""Ctrl-C when the file is written and nothing has noted it yet."""
SWALLOWED = """
import os, signal, sys
from tracelens import pipeline
plan = pipeline.plan
def interrupted(*given, **named):
    try:
        print("planning", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass
    return plan(*given, **named)
pipeline.plan = interrupted
"""
"""Ctrl-C inside a library that drops it, as import locks and LibCST's visitors do."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def program(*words: str, extra: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(extra=extra), *words]


def said(folder: Path, *words: str, extra: str = "") -> subprocess.CompletedProcess[str]:
    command = program(*words, extra=extra)
    return subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=400, env=ENVIRONMENT
    )


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The project, fixed and taken back: its run holds what was measured."""
    folder = tmp_path_factory.mktemp("fix")
    (folder / "train.py").write_text(SCRIPT)
    done = said(folder, "fix", "train.py", "--yes")
    (folder / "fixed.py").write_text((folder / "train.py").read_text())
    said(folder, "revert")
    return folder, done


@pytest.fixture
def project(fixed: tuple[Path, object], tmp_path: Path) -> Path:
    copied = tmp_path / "project"
    shutil.copytree(fixed[0], copied)
    return copied


def test_garbage_collected_in_each_step_is_found_measured_and_written(
    fixed: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = fixed
    assert done.returncode == 0, done.stderr
    assert "gc.collect() " in done.stdout.splitlines()[0]
    assert "Faster: " in done.stdout and "Same results, bit for bit." in " ".join(done.stdout.split())
    assert "-        gc.collect()\n+        if step % 100 == 0:  # thinned by tracelens\n" in done.stdout
    assert "Written: train.py" in done.stdout and "undo: tracelens revert tracelens-runs/" in done.stdout
    assert "results  24 losses, 2 tensors  equal, bit for bit" in done.stderr and "pair 3   " in done.stderr
    assert "begins" in done.stderr and "begins" not in done.stdout
    assert "            gc.collect()" in (folder / "fixed.py").read_text()
    assert (folder / "train.py").read_text() == SCRIPT


def test_the_recording_names_the_line_and_a_lever_takes_it_out_and_puts_it_back(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the commands say one by one: `recommend` before anything is measured, the others beside what `fix` left."""

    def answer(*words: str) -> str:
        capsys.readouterr()
        assert main([*words]) == 0
        return capsys.readouterr().out

    monkeypatch.chdir(project)
    (measured,) = project.glob("tracelens-runs/*/verify.json")
    kept = measured.read_text()
    (entry,) = json.loads(kept)["entries"]
    assert (entry["scheme"], entry["numbers_equal"]) == ("gc-collect", True)
    measured.unlink()
    said = json.loads(answer("recommend", "--format", "json"))
    assert said["headline"].startswith("gc.collect() takes ")
    line = 1 + SCRIPT.splitlines().index("        gc.collect()")
    assert f"train.py:{line} (gc.collect)" in said["verdict"]
    assert said["recommendation"]["lever"] == "gc-collect"
    (owner,) = (owner for owner in said["owners"] if owner["callee"] == "gc.collect")
    assert owner["remedies"][0] == "gc-collect"
    measured.write_text(kept)
    answer("apply", "--lever", "gc-collect")
    assert (project / "train.py").read_text() == (project / "fixed.py").read_text()
    answer("revert")
    assert (project / "train.py").read_text() == SCRIPT


def terminal(project: Path, *words: str, answers: tuple[tuple[bytes, bytes], ...], extra: str = "") -> tuple[int, str]:
    """Run in a terminal of its own, answer each text with bytes that a keyboard sends; the exit code and the screen."""
    keyboard, screen = pty.openpty()
    child = subprocess.Popen(
        program(*words, extra=extra),
        cwd=project,
        env=ENVIRONMENT,
        preexec_fn=lambda: os.login_tty(screen),  # noqa: PLW1509 - no other thread runs here
    )
    os.close(screen)
    seen, todo = b"", list(answers)
    while True:
        try:
            seen += os.read(keyboard, 65_536)
        except OSError:  # the other side was closed
            break
        if todo and todo[0][0] in seen:
            os.write(keyboard, todo.pop(0)[1])
    code = child.wait(timeout=60)
    os.close(keyboard)
    return code, seen.decode()


@pytest.mark.parametrize(
    ("key", "code", "ending"), [(b"y\n", 0, "Written: train.py"), (b"\x03", 130, "Your files are as they were.")]
)
def test_in_a_terminal_it_asks_and_ctrl_c_is_no(key: bytes, code: int, ending: str, project: Path) -> None:
    status, screen = terminal(project, "fix", answers=((b"Put it into train.py? [y/N]", key),))
    assert status == code and ending in screen, screen
    expected = (project / "fixed.py").read_text() if code == 0 else SCRIPT
    assert (project / "train.py").read_text() == expected
    assert "Measuring" not in screen, "what was measured of the very same files counts"


def interrupted(project: Path, *words: str, when: str, extra: str = "") -> tuple[int, str]:
    """Ctrl-C, as a terminal sends it to the whole group, once the program has said `when`."""
    with subprocess.Popen(
        program(*words, extra=extra),
        cwd=project,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stderr is not None
        seen = ""
        for line in child.stderr:
            seen += line
            if when in line:
                time.sleep(0.3)
                os.killpg(child.pid, signal.SIGINT)
                break
        seen += child.stderr.read()
        return child.wait(timeout=60), seen


def without_verification(project: Path) -> None:
    next(project.glob("tracelens-runs/*/verify.json")).unlink()


def untouched(_: Path) -> None:
    """The run as it is."""


@pytest.mark.parametrize(
    ("words", "when", "prepare", "extra"),
    [
        (("fix", "train.py", "--yes"), "begins", untouched, ""),
        (("fix", "--yes"), "original, first run", without_verification, TRY_FIRST),
        (("fix", "--yes"), "original, first run", without_verification, ""),
        (("fix", "--yes"), "nothing is said", untouched, IN_THE_MIDDLE),
    ],
    ids=["recording", "trying", "verifying", "writing"],
)
def test_ctrl_c_leaves_the_script_as_it_was(
    words: tuple[str, ...], when: str, prepare: Callable[[Path], None], extra: str, project: Path
) -> None:
    prepare(project)
    code, seen = interrupted(project, *words, when=when, extra=extra)
    assert (project / "train.py").read_text() == SCRIPT
    assert code == 130 and "Interrupted. Your files are as they were." in seen, seen
    assert "this is a bug in TraceLens" not in seen
    assert not list(project.glob("tracelens-runs/*/backup/manifest.json"))


def test_an_interrupt_that_a_library_drops_ends_the_command_before_anything_is_measured(project: Path) -> None:
    done = said(project, "fix", "--yes", extra=SWALLOWED)
    assert done.returncode == 130 and "Interrupted. Your files are as they were." in done.stderr, done.stderr
    assert done.stdout == "" and "Measuring" not in done.stderr
    assert (project / "train.py").read_text() == SCRIPT


def test_what_a_module_of_the_project_switches_on_is_found_by_the_recording_and_patched_there(tmp_path: Path) -> None:
    """Anomaly detection, in a file that the script imports; nothing is measured here, so nothing is written."""
    on = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\nSIZE = 16\n"
    (tmp_path / "parts.py").write_text(on)
    script = SCRIPT.replace(PRELUDE, "import torch\nfrom parts import SIZE\n")  # a lean torch has no anomaly detection
    (tmp_path / "train.py").write_text(script.replace("        gc.collect()\n", "").replace("16, 1)", "SIZE, 1)"))
    recorded = said(tmp_path, "profile", "--stop-after-window", "-o", "run", "train.py")
    assert recorded.returncode == 0, recorded.stderr
    shown = said(tmp_path, "apply", "run", "--lever", "anomaly-off", "--dry-run")
    assert "TL15-01  parts.py:3" in shown.stdout, shown.stderr
    assert "next: tracelens verify run/ --lever anomaly-off" in shown.stdout, "it is not proved"
    assert (tmp_path / "parts.py").read_text() == on


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('data is broken')\n", "could not be recorded: the command ended with exit code 1"),
        ("import torch\nprint(torch.ones(2).sum())\n", "no training step was seen"),
    ],
)
def test_a_script_that_fails_or_does_not_train_is_told(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRELUDE.replace("import torch\n", "") + text if "raise" in text else text)
    done = said(tmp_path, "fix", "train.py", "--yes")
    assert done.returncode == 4 and why in done.stderr, done.stderr
    assert "tracelens: train.py could not be recorded" in done.stderr


def test_a_script_that_was_over_too_soon_is_recorded_again_with_the_number_of_its_steps(tmp_path: Path) -> None:
    """24 steps of a loop that does not say so, of which the first recording times more than there are.

    Interrupted where the measurement of a change begins: by then there is a recording, and something to change.
    """
    (tmp_path / "train.py").write_text(SCRIPT.replace("range(24)", "(number for number in range(24))"))
    code, seen = interrupted(tmp_path, "fix", "train.py", "--yes", when="original, first run")
    assert "train.py was over after 24 steps: recording it again in shorter windows" in seen
    assert "Measuring first" in seen and code == 130, seen
    first, again = sorted((tmp_path / RUNS_FOLDER).iterdir())
    assert (read(first).complete, read(again).complete) == (False, True)


def test_an_update_written_by_hand_counts_from_its_ninth_backward(tmp_path: Path) -> None:
    body = SCRIPT.replace(
        "        optimizer.step()\n", "        with torch.no_grad():\n            model.weight -= model.weight.grad\n"
    )
    body = body.replace("optimizer.zero_grad()", "model.zero_grad()")
    (tmp_path / "train.py").write_text(
        body.replace("    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)\n", "")
    )
    recorded = said(tmp_path, "profile", "--stop-after-window", "-o", "run", "train.py")
    assert recorded.returncode == 0, recorded.stderr
