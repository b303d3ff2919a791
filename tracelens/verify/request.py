"""The request for a verification, and its plan: how many steps and rounds fit into the budget.

In: a recorded launch and one or more patched versions. Out: `VerificationRequest` and `PatchedVersion` values, and a
`VerificationPlan` that fits the budget.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tracelens.errors import InputError, UsageError
from tracelens.messages import joined, say
from tracelens.model import Estimate, FilePatch, Patch
from tracelens.verify import imported_sources
from tracelens.verify.policy import POLICY
from tracelens.verify.trial_process import Command

BUDGET_MARGIN = 1.25
"""A machine that is a quarter slower than in the first run still ends in time."""
BUDGET_STEP_S = 30


def _silent(_: str) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True)
class PatchedVersion:
    """A version of the sources. `scheme` is None for a change made by hand; `interval` is the N of deferred reads."""

    patch: Patch
    scheme: str | None = None
    predicted: Estimate | None = None
    interval: int = POLICY.block_steps

    @property
    def name(self) -> str:
        return self.scheme or "patched"

    @property
    def unsafe(self) -> tuple[str, ...]:
        """Reasons why its numbers may change: those of the hunks of tier `unsafe`."""
        return tuple(dict.fromkeys(hunk.reason for hunk in self.patch.hunks if hunk.tier == "unsafe"))


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """A launch as it was recorded, and the budget. `project` is the folder whose sources a working copy needs."""

    command: Command
    cwd: Path
    project: Path
    change: PatchedVersion | None = None
    original: Patch | None = None
    """What leads from the files as they are back to the original, where a patch is applied already."""
    steps: int = POLICY.default_steps
    budget_s: float = 600.0
    seed: int = 0
    step_ns: int | None = None
    """Step time of the recording, for the first estimate of the duration."""
    device: str | None = None
    """The GPU that predictions are about; None where none was recorded."""
    scratch_parent: Path | None = None
    progress: Callable[[str], None] = field(default=_silent)
    """Receives one line before each run."""
    found: Callable[[str], None] | None = None
    """Receives one line for each thing that was found; None: `progress` does."""


@dataclass(frozen=True, slots=True)
class VerificationPlan:
    """How many steps per timed process, how many interleaved rounds, and the time all takes (None: not known yet)."""

    steps: int
    rounds: int
    seconds: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Pace:
    """The duration of one process: everything but its steps, and each step."""

    startup_s: float
    step_s: float

    def seconds_for(self, steps: int) -> float:
        return self.startup_s + steps * self.step_s


def script_command(
    path: str, *arguments: str, python: str | None = None, environment: Mapping[str, str] | None = None
) -> Command:
    """The command `python path arguments…`."""
    return Command("script", (path, *arguments), python or sys.executable, environment or {})


def hand_made(before: Path, after: Path) -> Patch:
    """AFTER.py, with the sources beside it that it imports, in the place of BEFORE.py."""
    for path in (before, after):
        if not path.is_file():
            raise InputError(
                say("{path} does not exist", path=path),
                hint=say("give two scripts: tracelens verify BEFORE.py AFTER.py"),
            )
    before, after = before.resolve(), after.resolve()
    files = [FilePatch(before, before.read_bytes(), after.read_bytes())]
    if after.parent != before.parent:
        for path in imported_sources.imported(after):
            target = before.parent / path.relative_to(after.parent)
            if target != before:
                old = target.read_bytes() if target.is_file() else None
                files.append(FilePatch(target, old, path.read_bytes()))
    return Patch(before.parent, tuple(file for file in files if file.before != file.after), (), (), "")


def opening(request: VerificationRequest) -> str:
    """What can be said before the first run: its pace decides how long the rest takes, and no guess is told before."""
    return say(
        "verify takes at most {budget} (--budget); how long is said after the first run",
        budget=duration_text(request.budget_s),
    )


def fit(request: VerificationRequest, changes: int, pace: Pace, left_s: float) -> VerificationPlan:
    """The most steps and rounds that fit into `left_s`: steps are given up before rounds, down to the least of both."""
    fixed = (2 + changes) * pace.seconds_for(request.steps) + (1 + changes) * pace.seconds_for(
        min(request.steps, window_steps())
    )
    longest = min(request.steps * POLICY.most_longer, math.ceil(POLICY.timed_seconds / max(pace.step_s, 1e-6)))
    seconds = 0.0
    for steps, rounds in _choices(max(request.steps, longest)):
        seconds = fixed + rounds * (1 + changes) * pace.seconds_for(steps)
        if seconds <= left_s:
            return VerificationPlan(steps, rounds, seconds, _text(changes, steps, rounds, seconds))
    needed = sufficient_budget(request.budget_s - left_s + seconds)
    text = say(
        "the budget of {budget} is too small for a statement about speed: about "
        "{needed} are needed (--budget {seconds}s); numbers are compared first",
        budget=duration_text(request.budget_s),
        needed=duration_text(needed),
        seconds=needed,
    )
    return VerificationPlan(steps, rounds, seconds, text)


def sufficient_budget(seconds: float) -> int:
    """A budget in s that is enough for what took or will take `seconds`, though the machine may be busier next time."""
    return math.ceil(BUDGET_MARGIN * seconds / BUDGET_STEP_S) * BUDGET_STEP_S


def seconds_needed(pace: Pace, steps: int, changes: int = 1) -> float:
    """The least that a verdict takes: numbers and a recorded window of each version, and the fewest pairs."""
    processes = (2 + changes) + (1 + changes) + POLICY.least_pairs * (1 + changes)
    return processes * pace.seconds_for(steps)


def window_steps(block: int = POLICY.block_steps) -> int:
    """Steps of the run that records a window: warm-up, memory samples, the window."""
    return POLICY.warmup_steps + POLICY.memory_steps + max(POLICY.window_steps, block)


def check(request: VerificationRequest, changes: tuple[PatchedVersion, ...]) -> None:
    """Raise `UsageError` for what cannot be verified."""
    if not changes:
        raise UsageError(say("nothing to verify: no change was given"), hint=say("name a scheme, or two scripts"))
    for change in changes:
        if change.patch.empty and change.scheme is None:
            raise UsageError(
                say("the two scripts are the same, byte for byte"), hint=say("give the version before and after")
            )
        if change.patch.empty:
            raise UsageError(
                say("the patch of {change} changes nothing, there is nothing to verify", change=change.name),
                hint=say("see why with: tracelens apply --dry-run"),
            )
    if request.steps < POLICY.least_steps:
        raise UsageError(
            say("--steps {steps} is less than {least_steps}", steps=request.steps, least_steps=POLICY.least_steps),
            hint=say("the default is 200"),
        )
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise UsageError(
            say("a scheme was given twice: {names}", names=joined(", ", sorted(names))),
            hint=say("name each lever once"),
        )


def pair_text(original_ns: float, changed_ns: float) -> str:
    """Two step times that ran beside each other, and what the second one gains."""
    gain = f"{100 * (original_ns / changed_ns - 1):+.0f} %".replace("-", "−")
    return say(
        "{before:.1f} → {after:.1f} ms per step  {gain}",
        before=original_ns / 1e6,
        after=changed_ns / 1e6,
        gain=gain,
    )


def duration_text(seconds: float) -> str:
    """A duration for people."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"


def _choices(most: int) -> list[tuple[int, int]]:
    """Steps and rounds, the best first: halving the steps costs less precision than going below five rounds."""
    sizes = [most]
    while sizes[-1] // 2 >= 2 * POLICY.least_steps:
        sizes.append(sizes[-1] // 2)
    return [(size, POLICY.pairs) for size in sizes] + [
        (sizes[-1], n) for n in range(POLICY.pairs - 1, POLICY.least_pairs - 1, -1)
    ]


def _text(changes: int, steps: int, rounds: int, seconds: float) -> str:
    versions = say("the patched version") if changes == 1 else say("{changes} patched versions", changes=changes)
    return say(
        "verify takes about {duration}: two runs of the original and one of {versions} compare "
        "the numbers, one recorded run of each counts synchronizations, {rounds} interleaved rounds "
        "of {steps} steps compare the times; all in a working copy",
        duration=duration_text(seconds),
        versions=versions,
        rounds=rounds,
        steps=steps,
    )
