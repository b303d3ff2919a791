"""One recording, seen from the parent: start the command, collect its ranks' files, write run.json.

In: what to run and how to record it. Out: a Run folder and the command's own exit status.

run.json is written when the folder is made (complete: false), again when the ranks' windows have closed, and at the
end.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelens import run
from tracelens.capture.hardware_monitor import HardwareMonitor
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.capture.supervisor.multi_node import SharedRunFolder
from tracelens.capture.window_plan import KINETO_SILENT, WindowPlan
from tracelens.errors import UsageError
from tracelens.launch import supervisor
from tracelens.messages import joined, say, say_count

AGENT = "tracelens.capture.inside.agent"
BOOT_FOLDER = "boot"
_OUT_OF_REACH = say(
    "it started one with -I, -E or -S, with a PYTHONPATH of its own, in a container, with a "
    "cleaned environment, or in the background"
)
MOST_NAMED = 8
"""Ranks that a message names; the others are "…"."""
RANKS_SECONDS = 5.0
"""How long the other ranks' windows are waited for after the first: ranks step together, but writing takes time."""


@dataclass(frozen=True)
class ProfileOptions:
    """What to run and how. `words`: the script (or module, or command) and its arguments."""

    kind: supervisor.Kind
    words: tuple[str, ...]
    out: Path | None = None
    """The Run folder itself; None makes a new one below `parent`."""
    parent: Path = Path(run.RUNS_FOLDER)
    join: bool = False
    """`out` is shared with the parents on other nodes: all their ranks make one Run."""
    plan: WindowPlan = field(default_factory=WindowPlan)
    stop_after_window: bool = False
    ranks: tuple[int, ...] | None = None
    """Which ranks record; None: all of them."""
    interval: int = 10
    """N of interval-sync and defer-read, kept in the Run for the commands that follow."""
    monitor: bool = True
    python: str = sys.executable
    cwd: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True)
class Outcome:
    """The result of a recording. `status` is the command's own: negative if a signal ended it (`supervisor.finish`)."""

    folder: Path
    status: int
    complete: bool
    reason: str | None
    """Why the recording is not complete: one sentence for the user."""
    ranks: int
    stopped: bool
    """The script was ended by `stop_after_window`, not by itself."""
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    """Ctrl-C was pressed while the command ran, whatever it made of that."""
    steps_too_few: int | None = None
    """How many steps a script made that was over before its window, where its loop did not say how many there are."""


def profile(options: ProfileOptions, on_window: Callable[[Path], None] | None = None) -> Outcome:
    """Run the command under observation. `on_window(folder)` is called once, when every rank's window has closed, while
    training goes on; not if nothing was recorded. Raises `InputError` before anything is created if the script is
    missing, `UsageError` if the Run folder cannot be made.
    """
    command = supervisor.command_line(options.kind, options.words, options.python, options.cwd)
    folder = _make_folder(options)
    recording = _Recording(options, folder, command, on_window)
    return recording.record()


class _Recording:
    """The state of one recording while its command runs."""

    def __init__(
        self,
        options: ProfileOptions,
        folder: Path,
        command: tuple[str, ...],
        on_window: Callable[[Path], None] | None,
    ) -> None:
        self._options = options
        self._folder = folder
        self._command = command
        self._on_window = on_window
        self._shared_folder = SharedRunFolder(folder) if options.join else None
        self._run_json = RunJsonWriter(folder, _start(options, command))
        self._first_entry_at: float | None = None
        self._announced = on_window is None
        self._monitor: HardwareMonitor | None = None
        self._error: Exception | None = None
        self._in_python = False
        self._written = True
        self._interrupted = False

    def record(self) -> Outcome:
        if self._leads():
            self._begin()
        boot_folder = BOOT_FOLDER if self._shared_folder is None else self._shared_folder.boot_folder
        launch = supervisor.Launch(
            command=self._command,
            agent=AGENT,
            config={
                "run": str(self._folder.resolve()),
                "cwd": str(self._options.cwd.resolve()),
                "plan": self._options.plan.as_dict(),
                "stop_after_window": self._options.stop_after_window,
                "ranks": self._options.ranks,
                "environment": KINETO_SILENT,
            },
            cwd=self._options.cwd,
        )
        with supervisor.bootstrap(launch, self._folder / boot_folder) as boot:
            try:
                status = supervisor.run(launch, boot, self._poll, self._started, self._note_interrupt)
            finally:
                if self._monitor is not None:
                    self._monitor.stop()
            reached = supervisor.handshakes(boot)
            self._in_python = supervisor.reached(boot)
        self._collect()
        if self._shared_folder is not None and self._shared_folder.leads:
            self._shared_folder.wait(self._run_json, self._options.ranks)
        outcome = self._conclude(status, reached)
        if self._leads() and self._written:
            self._run_json.clear()
        if self._shared_folder is not None:
            self._shared_folder.close() if self._shared_folder.leads else self._shared_folder.follow(self._run_json)
        return outcome

    def _begin(self) -> None:
        try:
            self._run_json.write()
        except OSError as error:
            raise UsageError(
                say(
                    "the run folder cannot be written: {folder}: {strerror}",
                    folder=self._folder,
                    strerror=error.strerror,
                ),
                hint=say("give a folder on a disk with room with -o"),
            ) from error

    def _leads(self) -> bool:
        return self._shared_folder is None or self._shared_folder.leads

    # ------------------------------------------------------------------------------------ while it runs

    def _started(self, process: int) -> None:
        if self._options.monitor:
            self._monitor = HardwareMonitor(self._folder / run.MONITOR_FILE, process)
            self._monitor.start()

    def _note_interrupt(self) -> None:
        self._interrupted = True

    def _poll(self, _process: int) -> None:
        if self._announced or not self._leads():
            return
        self._collect()
        if self._window_closed():
            self._announce()

    def _collect(self) -> None:
        self._run_json.collect()
        if self._first_entry_at is None and self._run_json.entries:
            self._first_entry_at = time.monotonic()

    def _window_closed(self) -> bool:
        if self._first_entry_at is None or not self._run_json.recorded(final=True):
            return False
        return (
            not self._run_json.missing(self._options.ranks) or time.monotonic() - self._first_entry_at > RANKS_SECONDS
        )

    def _announce(self) -> None:
        self._announced = True
        with suppress(OSError):  # the command is still running, and it is tried again when it has ended
            self._run_json.write()
        if self._on_window is None:
            return
        try:
            self._on_window(self._folder)
        except Exception as error:  # noqa: BLE001 -- the command is still running; raised when it has ended
            self._error = error

    # ------------------------------------------------------------------------------------- when it ended

    def _conclude(self, status: int, reached: tuple[supervisor.Handshake, ...]) -> Outcome:
        entries = self._run_json.entries
        stopped = any(entry.get("stopped") for entry in entries)
        if stopped:
            status = 0
        reason = self._reason(status, reached)
        if self._leads():
            try:
                self._run_json.close(supervisor.finish(status), reason)
            except OSError as error:  # the command has ended; its exit status must still be returned
                self._written = False
                unwritten = say("run.json could not be written: {reason}", reason=error.strerror)
                reason = joined("; ", (unwritten, reason)) if reason else unwritten
        if not self._announced and self._run_json.recorded() and self._leads():
            self._announce_ended()
        if self._error is not None:
            raise self._error
        return Outcome(
            folder=self._folder,
            status=status,
            complete=reason is None,
            reason=reason,
            ranks=len(self._run_json.recorded()),
            stopped=stopped,
            notes=self._run_json.notes(),
            interrupted=self._interrupted,
            steps_too_few=None if status or reason is None else _steps_too_few(entries),
        )

    def _announce_ended(self) -> None:
        self._announced = True
        if self._on_window is not None:
            self._on_window(self._folder)

    def _reason(self, status: int, reached: tuple[supervisor.Handshake, ...]) -> str | None:
        """Why the recording is not complete; None if it is."""
        reasons = [entry["reason"] for entry in self._run_json.entries if entry.get("reason")]
        if self._run_json.entries:
            lost = self._run_json.missing(self._options.ranks)
            if lost:
                ranks = joined(", ", map(str, lost))
                reasons.append(
                    say_count(
                        "rank {ranks} left no recording", "ranks {ranks} left no recording", len(lost), ranks=ranks
                    )
                )
        if self._run_json.recorded():
            return joined("; ", dict.fromkeys(reasons)) or None
        return joined("; ", dict.fromkeys(reasons)) or self._why_nothing(status, reached)

    def _why_nothing(self, status: int, reached: tuple[supervisor.Handshake, ...]) -> str:
        """Why no process has written an entry."""
        failures = [hand.agent for hand in reached if hand.agent != "armed"]
        unwritten = [path for path in self._folder.glob("rank*") if not (path / "rank.json").is_file()]
        if failures:
            return say("TraceLens could not work inside the process: {failures}", failures=failures[0])
        if unwritten:
            return say(
                "{name} was not written to its end: was the process killed, or is the disk full?",
                name=unwritten[0].name,
            )
        if status and self._in_python:
            one = say("the command {ended} before anything was saved", ended=_ended(status))
            return one if reached else say("the command {ended} before it imported torch", ended=_ended(status))
        if reached:
            return self._why_no_step(len(reached))
        if self._in_python:
            return say(
                "no Python process below the command imported torch, unless {out_of_reach}", out_of_reach=_OUT_OF_REACH
            )
        before = say("the command {ended}, and ", ended=_ended(status)) if status else ""
        return say(
            "{before}injection did not reach any Python process: the command started none, or {out_of_reach}",
            before=before,
            out_of_reach=_OUT_OF_REACH,
        )

    def _why_no_step(self, processes: int) -> str:
        """Why no process wrote an entry although some with torch were reached."""
        asked = self._options.ranks
        if asked is not None:
            named = ", ".join(map(str, asked[:MOST_NAMED])) + (", …" if len(asked) > MOST_NAMED else "")
            return say("no rank that was asked for ({named}) made a training step", named=named)
        return say_count(
            "no training step was seen: no optimizer stepped and too few batches were read to tell a "
            "loop (in {count} process with torch)",
            "no training step was seen: no optimizer stepped and too few batches were read to tell a "
            "loop (in {count} processes with torch)",
            processes,
        )


# ---------------------------------------------------------------------------------------------------- helpers


def _steps_too_few(entries: Sequence[Mapping[str, Any]]) -> int | None:
    """The steps of a script that ended while its length was unknown; None if a window was made, or it was known."""
    unknown = [not entry.get("complete") and entry.get("plan", {}).get("open_ended") for entry in entries]
    return min(entry.get("steps_seen", 0) for entry in entries) if unknown and all(unknown) else None


def _make_folder(options: ProfileOptions) -> Path:
    out = options.out
    place = (options.cwd / (out or options.parent)).absolute()
    if not str(place).isprintable():  # Kineto drops control characters and needs UTF-8
        raise UsageError(
            say("the profiler cannot write to a path with such characters: {place}", place=place),
            hint=say("name another run folder with -o"),
        )
    try:
        if out is None:
            return run.new_folder(_name(options), options.cwd / options.parent)
        out = options.cwd / out
        if not options.join and out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                say("{out} exists and is not an empty folder", out=out), hint=say("give another folder with -o")
            )
        out.mkdir(parents=True, exist_ok=True)
        return out
    except OSError as error:
        raise UsageError(
            say(
                "the run folder cannot be made: {filename}: {strerror}",
                filename=error.filename or out,
                strerror=error.strerror,
            ),
            hint=say("give a folder that can be written with -o"),
        ) from error


def _start(options: ProfileOptions, command: tuple[str, ...]) -> LaunchRecord:
    return LaunchRecord(
        kind=options.kind,
        command=command,
        cwd=options.cwd,
        script=options.words[0] if options.kind == "script" else _script_among(options),
        plan=options.plan.as_dict(),
        stop_after_window=options.stop_after_window,
        interval=options.interval,
    )


def _ended(status: int) -> str:
    if status > 0:
        return say("ended with exit code {status}", status=status)
    try:
        return say("was killed by {name}", name=signal.Signals(-status).name)
    except ValueError:  # a real-time signal
        return say("was killed by signal {status}", status=-status)


def _name(options: ProfileOptions) -> str:
    """What the Run folder is named after: the script, also where a launcher starts it; for a module its last name."""
    word = options.words[0]
    if options.kind == "command":
        return _script_among(options) or word
    return word.rpartition(".")[2] if options.kind == "module" else word


def _script_among(options: ProfileOptions) -> str | None:
    """The first Python file in a launcher's command; None for `-m`, where the rank reports its script."""
    if options.kind == "module":
        return None
    return next((word for word in options.words if word.endswith(".py") and (options.cwd / word).is_file()), None)
