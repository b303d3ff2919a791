"""Run one trial process in a fresh working copy, and read what it left there.

In: the launch, the working copy, the settings of the process. Out: a `ProcessRecord`, or an error that says which
version failed and how. Its streams go to files, never to the user's terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracelens.errors import Inconclusive, InputError, Refused, TracelensError
from tracelens.launch import supervisor
from tracelens.messages import say
from tracelens.model import Patch
from tracelens.verify import exchange
from tracelens.verify.exchange import AgentConfig
from tracelens.verify.policy import POLICY
from tracelens.verify.supervisor import side_outputs, working_copy
from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import Command, ProcessRecord, TrialProcess

EARLY = Path(__file__).parents[1] / "inside" / "early" / "sitecustomize.py"
ERROR_LINES = 8
"""Last lines of standard error that an error message quotes."""


class ProcessFailed(Inconclusive):
    """The script ended with an error of its own before the last step."""


def ignore_group(_group: int) -> None:
    """The default for `on_group`: the process group is of no interest."""


def run(
    process: TrialProcess,
    command: Command,
    copy: WorkingCopy,
    patch: Patch | None,
    on_group: Callable[[int], None] = ignore_group,
) -> ProcessRecord:
    """Build a fresh working copy, start the command in it, wait for its end, read what it left.

    `on_group` receives the process group that was started, and 0 when it has ended. Raises `InputError` for a command
    that cannot be started, `Refused` for writes outside the copy, `ProcessFailed` for an error of the script's, and
    `Inconclusive` where nothing was observed in time.
    """
    working_copy.build(copy, patch)
    config = _config(process, copy, patch)
    launch = supervisor.Launch(_words(command, copy), exchange.AGENT, config, copy.path_of(copy.cwd))
    with supervisor.bootstrap(launch, copy.folder / "boot") as boot:
        variables = _variables(process, command, copy, boot)
        since, begun = time.time(), time.monotonic()
        try:
            status = _wait(launch, variables, copy, process, on_group)
        finally:
            on_group(0)
        seconds = time.monotonic() - begun
        reached = supervisor.handshakes(boot)
    record, written = _record(process, copy, _Ended(status, seconds, reached)), working_copy.written(copy, since)
    if process.mode != "numbers":
        return replace(record, written=written)
    texts = side_outputs.read(copy, (copy.out / "stderr").read_bytes(), written)
    return replace(record, written=written, side_outputs=texts)


# ------------------------------------------------------------------------------------------------------- the start


def _config(process: TrialProcess, copy: WorkingCopy, patch: Patch | None) -> AgentConfig:
    size = max(POLICY.window_steps, process.block)  # a whole drain interval, else the counts depend on its phase
    first = max(1, process.steps - size - (process.steps - size) // 4)
    return {
        "mode": process.mode,
        "out": str(copy.out),
        "scratch": str(copy.scratch),
        "tree": str(copy.tree),
        "project": str(copy.root),
        "patched": [str(file.path.resolve()) for file in patch.files] if patch is not None else [],
        "steps": process.steps,
        "least_steps": POLICY.least_steps,
        "warmup": process.warmup,
        "block": process.block,
        "seed": process.seed + process.seed_shift,
        "seed_shift": process.seed_shift,
        "freed_memory_fill": process.freed_memory_fill,
        "deterministic": process.deterministic,
        "deadline_s": process.deadline_s,
        "linger_s": POLICY.linger_seconds,
        "window_first": first,
        "window_warmup": min(POLICY.window_warmup, first - 1),
        "window_steps": size,
        "toggles": [{"kind": t.kind, "name": t.name, "value": t.value} for t in process.toggles],
    }


def _words(command: Command, copy: WorkingCopy) -> tuple[str, ...]:
    words = working_copy.arguments(command.words, copy)
    if command.kind == "module":
        return (command.python, "-m", *words)
    if command.kind == "command":
        return words
    if not (copy.cwd / command.words[0]).is_file():
        raise InputError(
            say("script {cwd} does not exist", cwd=copy.cwd / command.words[0]),
            hint=say("was it moved since it was recorded?"),
        )
    return (command.python, *words)


def _variables(process: TrialProcess, command: Command, copy: WorkingCopy, boot: Path) -> dict[str, str]:
    """The environment of the process; the launcher's bootstrap comes before our own sitecustomize."""
    seed = process.seed + process.seed_shift
    switched = {toggle.name: str(toggle.value) for toggle in process.toggles if toggle.kind == "environment"}
    inherited = {**os.environ, **command.environment, **switched}
    variables = working_copy.environment(inherited, copy, seed=seed, deterministic=process.deterministic)
    paths = (str(boot), str(_early_folder(boot, copy)), variables.get("PYTHONPATH", ""))
    return {**variables, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _early_folder(boot: Path, copy: WorkingCopy) -> Path:
    folder = copy.folder / "early"
    folder.mkdir()
    shutil.copyfile(boot / "config.json", folder / "config.json")
    shutil.copyfile(EARLY, folder / "sitecustomize.py")
    return folder


def _wait(
    launch: supervisor.Launch,
    variables: Mapping[str, str],
    copy: WorkingCopy,
    process: TrialProcess,
    on_group: Callable[[int], None],
) -> int:
    """Run to the end in a session of its own, so that everything it started can be ended with it."""
    with (copy.out / "stdout").open("wb") as out, (copy.out / "stderr").open("wb") as err:
        try:
            child = subprocess.Popen(
                launch.command,
                cwd=launch.cwd,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise InputError(
                say("{command} cannot be started: {strerror}", command=launch.command[0], strerror=error.strerror),
                hint=say("is it still installed here?"),
            ) from error
        try:
            on_group(child.pid)
            return child.wait(timeout=process.timeout_s)
        except subprocess.TimeoutExpired:
            raise Inconclusive(
                say(
                    "the {version} version did not reach step {steps} within {timeout_s:.0f} s",
                    version=process.version,
                    steps=process.steps,
                    timeout_s=process.timeout_s,
                ),
                hint=say("give a larger --budget, or fewer --steps"),
            ) from None
        finally:
            _end_session(child)


def _end_session(child: subprocess.Popen[bytes]) -> None:
    """End the loader workers and ranks that are still running; they would disturb the next process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        except PermissionError:  # a group whose members are all zombies, on some systems
            break
        time.sleep(0.05 if child.poll() is not None else 0.5)
    child.wait()


# ----------------------------------------------------------------------------------------------------- the reading


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended, after how long, and which Python processes the launcher's bootstrap reached."""

    status: int
    seconds: float
    reached: tuple[supervisor.Handshake, ...]

    @property
    def how(self) -> str:
        if self.status > 0:
            return say("exit code {status}", status=self.status)
        known = {number.value: number.name for number in signal.Signals}
        return say("signal {known}", known=known.get(-self.status, -self.status))


def _record(process: TrialProcess, copy: WorkingCopy, ended: _Ended) -> ProcessRecord:
    refused = _lines(copy.out.glob(exchange.REFUSED_WRITES.format(pid="*")))
    errors = (copy.out / "stderr").read_bytes()[-20_000:].decode(errors="replace")
    tail = "\n".join(errors.replace(str(copy.tree), "").strip().splitlines()[-ERROR_LINES:])
    files = sorted(copy.out.glob(exchange.RECORD.format(rank="*", pid="*")))
    ranks = sorted((json.loads(path.read_text(encoding="utf-8")) for path in files), key=_rank_and_pid)
    if ended.status != 0 or not ranks:
        stopped = bool(ranks) and all(rank["stopped"] == "steps" for rank in ranks)
        when = (
            say("when it was stopped after step {steps}", steps=process.steps)
            if stopped
            else say("before step {steps}", steps=process.steps)
        )
        if refused:
            raise _refusal(process, refused)
        raise _failure(process, ended, when, f":\n{tail}" if tail else "")
    _check_sources(ranks)
    return ProcessRecord(
        process=process,
        seconds=ended.seconds,
        stdout=(copy.out / "stdout").read_bytes().decode(errors="replace"),
        stderr_tail=tail,
        ranks=tuple(ranks),
        refused=refused,
    )


def _rank_and_pid(record: Mapping[str, Any]) -> tuple[int, int]:
    return record["rank"], record["pid"]


def _check_sources(ranks: list[dict[str, Any]]) -> None:
    """Raise `Inconclusive` where a patched file was imported from its original place."""
    foreign = sorted({path for rank in ranks for path in rank["foreign"]})
    if foreign:
        raise Inconclusive(
            say(
                "the patched file {foreign} was imported from its original place, not from the working copy",
                foreign=foreign[0],
            ),
            hint=say("the project is installed in a way that bypasses sys.path; run it from its source folder"),
        )


def _refusal(process: TrialProcess, refused: tuple[str, ...]) -> Refused:
    listed = "\n  ".join(refused)
    return Refused(
        say(
            "the {version} version wants to write outside the working copy, which verify does not let it:\n  {listed}",
            version=process.version,
            listed=listed,
        ),
        hint=say("make these paths relative to the script or to the working directory, then verify again"),
    )


def _failure(process: TrialProcess, ended: _Ended, when: str, quoted: str) -> TracelensError:
    """The error for a process that failed or was not observed; `quoted` is the end of its standard error."""
    version = process.version
    if ended.status == exchange.OBSERVER_FAILED:
        return Inconclusive(
            say("the {version} version could not be observed{quoted}", version=version, quoted=quoted),
            hint=say("please report this"),
        )
    if ended.status != 0:
        return ProcessFailed(
            say(
                "the {version} version ended with {how} {when}{quoted}",
                version=version,
                how=ended.how,
                when=when,
                quoted=quoted,
            ),
            hint=say("it was run in a copy of the project, offline, with standard input closed; does it run by hand?"),
        )
    if not ended.reached:
        return Inconclusive(
            say("no Python process of the {version} version could be observed{quoted}", version=version, quoted=quoted),
            hint=say("does it import torch? python -I, -E and -S ignore PYTHONPATH, which is how the observer gets in"),
        )
    failed = [handshake.agent for handshake in ended.reached if handshake.agent != "armed"]
    if failed:
        return Inconclusive(
            say("the observer could not be armed: {failed}", failed=failed[0]), hint=say("which torch version is this?")
        )
    return Inconclusive(
        say(
            "the {version} version made no training step (no optimizer step, no backward){quoted}",
            version=version,
            quoted=quoted,
        ),
        hint=say("give the arguments with which it trains"),
    )


def _lines(paths: Iterable[Path]) -> tuple[str, ...]:
    lines = [line for path in sorted(paths) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(dict.fromkeys(lines))
