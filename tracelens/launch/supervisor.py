"""The parent process: starts any command with an agent inside it and behaves as if it were that command.

In: a command, and the agent's configuration for the bootstrap folder. Out: the command's own exit status. The parent
leaves the child in its process group (a terminal's Ctrl-C reaches it once), passes the streams through and forwards
signals. Recording and `verify` both start programs this way.
"""

from __future__ import annotations

import difflib
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import tracelens
from tracelens.errors import InputError, UsageError
from tracelens.messages import say

Kind = Literal["script", "module", "command"]

POLL_SECONDS = 0.1
"""How often the parent looks for a closed window and the child's end; no cost was measured."""
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
REACHED_FILE = "reached"
BOOTSTRAP = Path(__file__).parent / "bootstrap" / "sitecustomize.py"


@dataclass(frozen=True)
class Launch:
    """A command to start. `agent` names the module whose `arm(config)` runs in each process that imports torch."""

    command: tuple[str, ...]
    agent: str
    config: Mapping[str, Any]
    """The argument of `arm`, with `root` and `agent` added. Variables in its `environment` are set before torch is
    imported."""
    cwd: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the child in addition to the inherited ones."""


@dataclass(frozen=True)
class Handshake:
    """A process below the command that imported torch. `agent` is "armed", or why the agent is not."""

    pid: int
    python: str
    agent: str


def command_line(kind: Kind, words: tuple[str, ...], python: str, cwd: Path | None = None) -> tuple[str, ...]:
    """The command to execute in `cwd` for a script, for `-m module`, or for any command. Raises `InputError` if it is
    missing."""
    if kind == "module":
        return (python, "-m", *words)
    if kind == "script":
        script = (cwd or Path.cwd()) / words[0]
        if not script.exists() or (script.is_dir() and not (script / "__main__.py").is_file()):
            raise InputError(
                say("script {script} is a folder without __main__.py", script=words[0])
                if script.is_dir()
                else say("script {script} does not exist", script=words[0]),
                hint=_similar(script) or say("give the path of the training script, relative to the current folder"),
            )
        return (python, *words)
    if shutil.which(words[0]) is None:
        raise InputError(
            say("command {command} was not found", command=words[0]),
            hint=say("after -- give a program on PATH, with its arguments"),
        )
    return words


def _similar(script: Path) -> str:
    """'did you mean train.py?', where a script beside it has nearly this name; else empty."""
    try:
        beside = sorted(path.name for path in script.parent.glob("*.py"))
    except OSError:
        return ""
    near = difflib.get_close_matches(script.name, beside, n=1)
    return say("did you mean {near}?", near=near[0]) if near else ""


def run(
    launch: Launch,
    boot: Path,
    on_poll: Callable[[int], None],
    started: Callable[[int], None] | None = None,
    interrupted: Callable[[], None] | None = None,
) -> int:
    """Start the command with `boot` (see `bootstrap`) on its path and return its status (negative: a signal ended it).

    `on_poll(pid)` is called about ten times a second while the child runs; `started(pid)` once; `interrupted()` at each
    Ctrl-C, which the child gets from the terminal as we do.
    """
    environment = {**os.environ, **launch.environment}
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{boot}{os.pathsep}{inherited}" if inherited else str(boot)
    with _forwarding(interrupted) as adopt:
        try:
            child = subprocess.Popen(launch.command, cwd=launch.cwd, env=environment)
        except OSError as error:
            raise InputError(
                say("{command} cannot be started: {strerror}", command=launch.command[0], strerror=error.strerror),
                hint=say("is it executable?"),
            ) from error
        adopt(child)
        try:
            if started:
                started(child.pid)
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return child.wait(timeout=POLL_SECONDS)
                on_poll(child.pid)
        finally:
            child.wait()  # an error in the parent must not leave the command running alone


@contextmanager
def bootstrap(launch: Launch, folder: Path) -> Iterator[Path]:
    """Create the bootstrap folder for one run, and remove it afterwards."""
    if os.pathsep in str(folder):  # PYTHONPATH has no way to quote its separator
        folder = Path(tempfile.mkdtemp(prefix="tracelens-boot-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    root = Path(tracelens.__file__).resolve().parent.parent
    config = {**launch.config, "agent": launch.agent, "root": str(root)}
    try:
        _fill(folder, config)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, config: Mapping[str, Any]) -> None:
    try:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        shutil.copyfile(BOOTSTRAP, folder / "sitecustomize.py")
    except OSError as error:
        raise UsageError(
            say(
                "what goes into the process cannot be written to {folder}: {strerror}",
                folder=folder,
                strerror=error.strerror,
            ),
            hint=say("make room there, or give another place with -o"),
        ) from error


def handshakes(boot: Path) -> tuple[Handshake, ...]:
    """The processes with torch that the injection has reached so far."""
    reached_processes = []
    for path in sorted(boot.glob("process-*.json")):
        with suppress(OSError, ValueError, KeyError):
            entry = json.loads(path.read_text(encoding="utf-8"))
            reached_processes.append(Handshake(int(entry["pid"]), str(entry["python"]), str(entry["agent"])))
    return tuple(reached_processes)


def reached(boot: Path) -> bool:
    """Whether any Python process has started with the bootstrap folder on its path, with or without torch."""
    return (boot / REACHED_FILE).exists()


def finish(status: int) -> int:
    """The exit code that a shell shows for a status: the status itself, or 128 + the signal's number."""
    return 128 - status if status < 0 else status


def end_as(status: int) -> int:
    """End this process by the signal that `status` names, without a core dump; otherwise return it as exit code."""
    if status < 0:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL's action cannot be set, and is the default anyway
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
        time.sleep(1)  # only a blocked signal does not end the process before this
    return finish(status)


# ------------------------------------------------------------------------------------------------------- signals


@contextmanager
def _forwarding(interrupted: Callable[[], None] | None) -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Forward signals to the child that the yielded function gets, including those that arrived before it."""
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if children:
            children[0].send_signal(number)
        else:
            early.append(number)

    def adopt(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            child.send_signal(number)

    def leave_to_child(_number: int, _frame: FrameType | None) -> None:
        """A terminal sends Ctrl-C to the whole process group; the child decides what it means."""
        if interrupted is not None:
            interrupted()

    before = {}
    for number in (*FORWARDED, signal.SIGINT):
        # An ignored signal (nohup) stays ignored, in the child as well; a handler is not inherited, SIG_IGN is.
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, leave_to_child if number == signal.SIGINT else forward)
    try:
        yield adopt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
