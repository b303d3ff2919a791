"""The parent and the bootstrap, with programs that need no torch: status, signals, streams, sitecustomize."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tracelens.errors import InputError, UsageError
from tracelens.launch import supervisor

PARENT = """
import sys
from pathlib import Path
from tracelens.launch import supervisor
launch = supervisor.Launch(command=tuple(sys.argv[2:]), agent="none", config={})
with supervisor.bootstrap(launch, Path(sys.argv[1])) as boot:
    status = supervisor.run(launch, boot, lambda pid: None)
raise SystemExit(supervisor.end_as(status))
"""


def parent(tmp_path: Path, *command: str) -> list[str]:
    return [sys.executable, "-c", PARENT, str(tmp_path / "boot"), *command]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@pytest.mark.programs
@pytest.mark.parametrize("ending", ["sys.exit(0)", "sys.exit(3)", "sys.exit('text')", "1/0", "os._exit(7)"])
def test_status_and_streams_are_the_programs_own(tmp_path: Path, ending: str) -> None:
    program = [sys.executable, "-c", f"import os, sys; print(sys.stdin.read(), flush=True); {ending}"]
    plain, ours = (
        subprocess.run(command, input="in", capture_output=True, text=True, env=environment(), check=False)
        for command in (program, parent(tmp_path, *program))
    )
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert not (tmp_path / "boot").exists()


@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL])
def test_death_by_a_signal_is_our_death_by_it(tmp_path: Path, number: signal.Signals) -> None:
    program = [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})"]
    done = subprocess.run(parent(tmp_path, *program), env=environment(), check=False)
    assert done.returncode == -number
    assert supervisor.finish(-number) == 128 + number


@pytest.mark.programs
def test_signals_reach_the_child_and_its_answer_counts(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import signal, sys, time
        got = []
        def asked(*_):
            got.append(1)
            print("asked", flush=True)
        signal.signal(signal.SIGUSR1, asked)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5 + len(got)))
        print("ready", flush=True)
        while True:
            time.sleep(0.02)
    """)
    with subprocess.Popen(
        parent(tmp_path, sys.executable, "-c", program), stdout=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)  # only to the parent: it leaves Ctrl-C to the child
        child.send_signal(signal.SIGUSR1)
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=120) == 6


@pytest.mark.programs
def test_ctrl_c_reaches_the_child_once(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import signal, time
        caught = []
        signal.signal(signal.SIGINT, lambda *_: caught.append(1))
        print("ready", flush=True)
        end = time.monotonic() + 60
        while not caught and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.5)  # for a second one
        raise SystemExit(10 + len(caught))
    """)
    with subprocess.Popen(
        parent(tmp_path, sys.executable, "-c", program),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(timeout=120) == 11


@pytest.mark.programs
def test_the_users_own_sitecustomize_still_runs_and_the_path_is_as_before(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.own_ran = __file__\n")
    program = (
        "import sys, json, sitecustomize;"
        "print(json.dumps([sys.own_ran, sitecustomize.__file__, [p for p in sys.path if p.endswith('boot')]]))"
    )
    done = subprocess.run(
        parent(tmp_path, sys.executable, "-c", program),
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=f"{own}{os.pathsep}{ROOT}"),
        check=True,
    )
    file = str(own / "sitecustomize.py")
    assert json.loads(done.stdout) == [file, file, []]
    assert done.stderr == ""


def test_a_disk_without_room_for_our_code_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(supervisor.shutil, "copyfile", full)
    launch = supervisor.Launch(("true",), "none", {})
    with (
        pytest.raises(UsageError, match=r"cannot be written to .*boot: No space left"),
        supervisor.bootstrap(launch, tmp_path / "boot"),
    ):
        pass
    assert not (tmp_path / "boot").exists()


@pytest.mark.programs
def test_a_broken_agent_leaves_the_program_alone_and_says_why(tmp_path: Path) -> None:
    fake = tmp_path / "lib"
    fake.mkdir()
    (fake / "torch.py").write_text("loaded = True\n")
    launch = supervisor.Launch(
        command=(
            sys.executable,
            "-c",
            "import importlib.util as u; u.find_spec('torch'); import torch; print(torch.loaded)",
        ),
        agent="tracelens.no_such_agent",
        config={},
        environment={"PYTHONPATH": str(fake)},
    )
    with supervisor.bootstrap(launch, tmp_path / "boot") as boot:
        assert supervisor.run(launch, boot, lambda pid: None) == 0
        (hand,) = supervisor.handshakes(boot)
    assert "no_such_agent" in hand.agent


@pytest.mark.programs
def test_a_program_without_torch_shakes_no_hands(tmp_path: Path) -> None:
    launch = supervisor.Launch((sys.executable, "-c", "pass"), "none", {})
    with supervisor.bootstrap(launch, tmp_path / "a:b" / "boot") as boot:
        assert os.pathsep not in str(boot)
        assert supervisor.run(launch, boot, lambda pid: None) == 0
        assert supervisor.handshakes(boot) == ()


def test_a_folder_is_a_script_only_with_a_main_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a folder without __main__\.py"):
        supervisor.command_line("script", (str(tmp_path),), sys.executable)
    (tmp_path / "__main__.py").write_text("")
    assert supervisor.command_line("script", (str(tmp_path),), "py") == ("py", str(tmp_path))


def test_what_is_not_there_is_said_before_anything_starts() -> None:
    with pytest.raises(InputError, match=r"no_such\.py does not exist"):
        supervisor.command_line("script", ("no_such.py",), sys.executable)
    with pytest.raises(InputError, match="no_such_command was not found"):
        supervisor.command_line("command", ("no_such_command",), sys.executable)
    assert supervisor.command_line("module", ("pkg.train", "-x"), "py") == ("py", "-m", "pkg.train", "-x")


def test_the_bootstrap_is_readable_by_old_pythons() -> None:
    import ast

    ast.parse(supervisor.BOOTSTRAP.read_text(encoding="utf-8"), feature_version=(3, 6))
