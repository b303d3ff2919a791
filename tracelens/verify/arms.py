"""Run one arm: one fresh process (tree) of the original or of a patched version, and what it left behind.

In: the launch, the place, what this arm is for. Out: an `ArmRecord`, or an error of the family that says which version
failed and how. Streams go to files, never to the user's terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tracelens.errors import Inconclusive, InputError, Refused, TracelensError
from tracelens.launch import supervisor
from tracelens.model import Patch
from tracelens.verify import agent, copy, papers
from tracelens.verify.copy import Place
from tracelens.verify.policy import POLICY
from tracelens.verify.times import Stretch

AGENT = "tracelens.verify.agent"
EARLY = Path(__file__).parent / "early" / "sitecustomize.py"
ERROR_LINES = 8
"""Last lines of standard error that an error message quotes."""
Mode = Literal["numbers", "timed", "window"]


class ArmFailed(Inconclusive):
    """The script ended with an error of its own before the last step."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: a script with its arguments, a module with its arguments, or any command."""

    kind: Literal["script", "module", "command"]
    words: tuple[str, ...]
    python: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Arm:
    """What one process is for. `version` is "original" or the name of a patch."""

    version: str
    mode: Mode
    steps: int
    seed: int
    block: int = POLICY.block_steps
    deterministic: bool = False
    deadline_s: float | None = None
    """The first run ends early at this age, so that one slow script does not eat the whole budget."""
    timeout_s: float | None = None
    seed_shift: int = 0
    """Added to every seed that the script sets itself: another run of the same experiment."""
    poison: bool = False
    """Freed GPU memory is overwritten, so that a race between streams shows in the numbers."""

    @property
    def warmup(self) -> int:
        return min(POLICY.warmup_steps, int(self.steps * POLICY.warmup_share))


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """What one arm left behind. `ranks` are the agents' records, by rank; traces are moved to `kept`."""

    arm: Arm
    seconds: float
    stdout: str
    stderr_tail: str
    ranks: tuple[Mapping[str, Any], ...]
    refused: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    """Files that the arm made or changed in its working copy, by the path they stand for."""
    papers: Mapping[str, str] = field(default_factory=dict)
    """What it told elsewhere than on standard output, where its numbers are compared."""

    @property
    def steps(self) -> int:
        return min(int(rank["steps"]) for rank in self.ranks)

    @property
    def startup_seconds(self) -> float:
        """Everything but the steps: imports, building, compiling, tearing down."""
        return max(0.0, self.seconds - self.steps * self.seconds_per_step)

    @property
    def seconds_per_step(self) -> float:
        host = self.ranks[0]["clock"]["host_ns"]
        return (host[-1] - host[0]) / 1e9 / (len(host) - 1) if len(host) > 1 else self.seconds

    def stretch(self) -> Stretch | None:
        """The timed steps of the slowest rank; None where the script ended within the warm-up."""
        found = [stretch for rank in self.ranks if (stretch := stretch_of(rank["clock"])) is not None]
        return max(found, key=lambda one: one.step_ns) if len(found) == len(self.ranks) else None


def unwatched(_group: int) -> None:
    """Nobody needs to know which process group runs."""


def run(
    arm: Arm, command: Command, place: Place, patch: Patch | None, runs: Callable[[int], None] = unwatched
) -> ArmRecord:
    """Build a fresh working copy, start the command in it, wait for its end, read what it left.

    `runs` is told the process group that has been started, and 0 when it has ended.
    """
    copy.fresh(place, patch)
    config = _config(arm, place, patch)
    launch = supervisor.Launch(_words(command, place), AGENT, config, place.copy_of(place.cwd))
    with supervisor.bootstrap(launch, place.scratch / "arm" / "boot") as boot:
        early = _early_folder(boot, place)
        seed = arm.seed + arm.seed_shift
        variables = copy.environment(
            {**os.environ, **command.environment}, place, seed=seed, deterministic=arm.deterministic
        )
        paths = (str(boot), str(early), variables.get("PYTHONPATH", ""))
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        since = time.time()
        begun = time.monotonic()
        try:
            status = _wait(launch, variables, place, arm, runs)
        finally:
            runs(0)
        seconds = time.monotonic() - begun
        reached = supervisor.handshakes(boot)
    record, written = _record(arm, place, status, seconds, reached), copy.written(place, since)
    told = papers.read(place, (place.out / "stderr").read_bytes(), written) if arm.mode == "numbers" else {}
    return replace(record, written=written, papers=told)


def stretch_of(clock: Mapping[str, Any]) -> Stretch | None:
    """Step times after warm-up from one rank's clock: CUDA events where there are any, else the host's."""
    warmup, block, host = clock["warmup"], clock["block"], clock["host_ns"]
    spans = clock["cuda_blocks"]
    if spans:
        total = sum(span["ns"] for span in spans)
        steps = spans[-1]["last"] - spans[0]["first"]
        full = [span for span in spans if span["last"] - span["first"] == block]
        return Stretch(total / steps, tuple(span["ns"] / block for span in full), steps, "cuda_event")
    ends = host[max(warmup, 1) - 1 :]
    if len(ends) < 2:
        return None
    blocks = tuple((ends[i + block] - ends[i]) / block for i in range(0, len(ends) - block, block))
    return Stretch((ends[-1] - ends[0]) / (len(ends) - 1), blocks, len(ends) - 1, "host")


# ------------------------------------------------------------------------------------------------------- the start


def _config(arm: Arm, place: Place, patch: Patch | None) -> dict[str, Any]:
    size = max(POLICY.window_steps, arm.block)  # a whole drain interval, else the counts depend on its phase
    first = max(1, arm.steps - size - (arm.steps - size) // 4)
    return {
        "mode": arm.mode,
        "out": str(place.out),
        "scratch": str(place.scratch),
        "tree": str(place.tree),
        "project": str(place.root),
        "steps": arm.steps,
        "least_steps": POLICY.least_steps,
        "warmup": arm.warmup,
        "block": arm.block,
        "seed": arm.seed + arm.seed_shift,
        "seed_shift": arm.seed_shift,
        "poison": arm.poison,
        "deterministic": arm.deterministic,
        "deadline_s": arm.deadline_s,
        "linger_s": POLICY.linger_seconds,
        "window_first": first,
        "window_warmup": min(POLICY.window_warmup, first - 1),
        "window_steps": size,
        "patched": [str(file.path.resolve()) for file in patch.files] if patch is not None else [],
    }


def _words(command: Command, place: Place) -> tuple[str, ...]:
    words = copy.arguments(command.words, place)
    if command.kind == "module":
        return (command.python, "-m", *words)
    if command.kind == "command":
        return words
    if not (place.cwd / command.words[0]).is_file():
        raise InputError(
            f"script {place.cwd / command.words[0]} does not exist", hint="was it moved since it was recorded?"
        )
    return (command.python, *words)


def _early_folder(boot: Path, place: Place) -> Path:
    folder = place.scratch / "arm" / "early"
    folder.mkdir()
    shutil.copyfile(boot / "config.json", folder / "config.json")
    shutil.copyfile(EARLY, folder / "sitecustomize.py")
    return folder


def _wait(
    launch: supervisor.Launch, variables: Mapping[str, str], place: Place, arm: Arm, runs: Callable[[int], None]
) -> int:
    """Run to the end in a session of its own, so that everything it started can be ended with it."""
    with (place.out / "stdout").open("wb") as out, (place.out / "stderr").open("wb") as err:
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
                f"{launch.command[0]} cannot be started: {error.strerror}", hint="is it still installed here?"
            ) from error
        try:
            runs(child.pid)
            return child.wait(timeout=arm.timeout_s)
        except subprocess.TimeoutExpired:
            raise Inconclusive(
                f"the {arm.version} version did not reach step {arm.steps} within {arm.timeout_s:.0f} s",
                hint="give a larger --budget, or fewer --steps",
            ) from None
        finally:
            _end_session(child)


def _end_session(child: subprocess.Popen[bytes]) -> None:
    """End what the arm left running (loader workers, ranks); it must not disturb the next arm."""
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


def _record(
    arm: Arm, place: Place, status: int, seconds: float, reached: tuple[supervisor.Handshake, ...]
) -> ArmRecord:
    refused = _lines(place.out.glob("refused-*.txt"))
    errors = (place.out / "stderr").read_bytes()[-20_000:].decode(errors="replace")
    tail = "\n".join(errors.replace(str(place.tree), "").strip().splitlines()[-ERROR_LINES:])
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(place.out.glob("record-*.json"))]
    ranks.sort(key=lambda one: (one["rank"], one["pid"]))
    if status != 0 or not ranks:
        stopped = bool(ranks) and all(rank["stopped"] == "steps" for rank in ranks)
        when = f"when it was stopped after step {arm.steps}" if stopped else f"before step {arm.steps}"
        raise _failure(arm, _Ended(status, when, tail), refused, reached)
    foreign = sorted({path for rank in ranks for path in rank["foreign"]})
    if foreign:
        raise Inconclusive(
            f"the patched file {foreign[0]} was imported from its original place, not from the working copy",
            hint="the project is installed in a way that bypasses sys.path; run it from its source folder",
        )
    return ArmRecord(
        arm=arm,
        seconds=seconds,
        stdout=(place.out / "stdout").read_bytes().decode(errors="replace"),
        stderr_tail=tail,
        ranks=tuple(ranks),
        refused=refused,
    )


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended, when, and its last words."""

    status: int
    when: str
    tail: str

    @property
    def how(self) -> str:
        if self.status > 0:
            return f"exit code {self.status}"
        known = {number.value: number.name for number in signal.Signals}
        return f"signal {known.get(-self.status, -self.status)}"


def _failure(
    arm: Arm, ended: _Ended, refused: tuple[str, ...], reached: tuple[supervisor.Handshake, ...]
) -> TracelensError:
    quoted = f":\n{ended.tail}" if ended.tail else ""
    if refused:
        listed = "\n  ".join(refused)
        return Refused(
            f"the {arm.version} version wants to write outside the working copy, which verify does not let it:\n"
            f"  {listed}",
            hint="make these paths relative to the script or to the working directory, then verify again",
        )
    if ended.status == agent.GAVE_UP:
        return Inconclusive(f"the {arm.version} version could not be observed{quoted}", hint="please report this")
    if ended.status != 0:
        return ArmFailed(
            f"the {arm.version} version ended with {ended.how} {ended.when}{quoted}",
            hint="it was run in a copy of the project, offline, with standard input closed; does it run by hand?",
        )
    if not reached:
        return Inconclusive(
            f"no Python process of the {arm.version} version could be observed{quoted}",
            hint="does it import torch? python -I, -E and -S ignore PYTHONPATH, which is how the observer gets in",
        )
    failed = [one.agent for one in reached if one.agent != "armed"]
    if failed:
        return Inconclusive(f"the observer could not be armed: {failed[0]}", hint="which torch version is this?")
    return Inconclusive(
        f"the {arm.version} version made no training step (no optimizer step, no backward){quoted}",
        hint="give the arguments with which it trains",
    )


def _lines(paths: Any) -> tuple[str, ...]:
    found = [line for path in sorted(paths) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(dict.fromkeys(found))
