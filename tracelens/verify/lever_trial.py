"""Levers under trial: what is tried, how much of it fits into a budget, and what was measured.

Values only, and the arithmetic between them. In: levers as toggles and patches. Out: `LeverMeasurement`s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tracelens.errors import Inconclusive
from tracelens.messages import say
from tracelens.model import LeverNumbers, Patch, Speedup, Toggle
from tracelens.verify.policy import POLICY
from tracelens.verify.request import duration_text
from tracelens.verify.trial_process import Command

Standing = Literal["measured", "failed", "already", "refused", "unused", "not_reached"]


@dataclass(frozen=True, slots=True)
class LeverPolicy:
    """Sizes of a trial of levers, with their reasons."""

    least_steps: int = 40
    """Four blocks of ten steps: the fewest from which a loss curve can be judged."""
    most_steps: int = 1000
    """A script has only so many."""
    timed_seconds: float = 2.0
    """A shorter timed span is dominated by scheduling."""
    bases_every: int = 4
    """Levers between two runs of the original in one round: the machine drifts."""
    rounds: int = 5
    """Pairs of a lever that is worth it; Student's t needs 2.8 standard errors with five."""
    least_rounds: int = 3
    hopeless: float = 0.95
    """A lever whose first pair is slower than this is not tried again."""
    harmless: float = 0.98
    """A lever that is not slower than this in its first pair may only be hidden by another: it joins the first
    combination."""
    hiding: float = 2.0
    """A lever that is so many times as fast takes away half of a step and more: what others do to the rest is lost in
    what that half varies by from process to process (beside a `gc.collect()` levers that do nothing there came out at
    0.5 to 1.2). Beside it one is left out of combinations only if it costs more than what goes."""
    promising: float = 1.005
    """... and one whose first two pairs are not faster than this gets no more."""
    first_share: float = 0.6
    """Of the budget, for the first rounds of all levers; the rest is for the promising ones and their combination."""
    worth_adding: float = 1.01
    """A lever joins the combination if that makes it faster by 1 % at least: the least gain that is called one."""
    alternatives: tuple[tuple[str, ...], ...] = (
        ("bf16", "fp16"),
        ("fused", "foreach"),
        ("tf32", "matmul-precision"),
    )
    """Levers of which one excludes the others, besides two values of the same lever; the preferable one first."""


LEVER_POLICY = LeverPolicy()


def _silent(_: str) -> None:
    """No progress is shown."""


def _no_patch(_: tuple[str, ...]) -> Patch | None:
    """Patches of the same file exclude each other."""
    return None


@dataclass(frozen=True, slots=True)
class LeverTrial:
    """One lever, or several together, as a trial process runs them. `factor`: how many times the samples of a step."""

    id: str
    toggles: tuple[Toggle, ...] = ()
    patch: Patch | None = None
    factor: int = 1
    another_training: bool = False
    """Its losses are those of another experiment: comparing them with other seeds says nothing."""
    members: tuple[str, ...] = ()
    """Ids of the levers of a combination; empty for one lever."""


@dataclass(frozen=True, slots=True)
class LeverRequest:
    """A launch as it was recorded, and the budget."""

    command: Command
    cwd: Path
    project: Path
    budget_s: float = 600.0
    seed: int = 0
    step_ns: int | None = None
    """Step time of the recording."""
    start_s: float = POLICY.start_seconds
    """What a process takes before its first step, as the recording shows it."""
    scratch_parent: Path | None = None
    original: Patch | None = None
    """What leads from the files as they are back to the original, where a patch is applied."""
    progress: Callable[[str], None] = field(default=_silent)
    found: Callable[[str], None] = field(default=_silent)
    """Receives one line for each pair that was measured."""
    joined: Callable[[tuple[str, ...]], Patch | None] = field(default=_no_patch)
    """The one patch of several levers whose patches change the same files; None where there is none."""


@dataclass(frozen=True, slots=True)
class LeverMeasurement:
    """What is known of one lever at some moment. `pairs` are (original, lever) step times per sample, ns."""

    trial: LeverTrial
    standing: Standing
    reason: str | None = None
    pairs: tuple[tuple[float, float], ...] = ()
    speedup: Speedup | None = None
    numbers: LeverNumbers | None = None
    difference: Mapping[str, Any] | None = None
    """The first number that differs from the original."""
    seed_band: Mapping[str, Any] | None = None
    memory_bytes_delta: int | None = None
    compiled: Mapping[str, Any] | None = None
    """Graphs, graph breaks, seconds until the loop ran compiled, and after how many steps that has paid."""
    toggles: tuple[Mapping[str, Any], ...] = ()

    @property
    def gains(self) -> bool:
        """Measured, faster beyond doubt, and with numbers that are not known to be another training's."""
        faster = self.speedup is not None and self.speedup.low > 1
        return self.standing == "measured" and faster and self.numbers != "outside_seed_band"


def steps_for(step_ns: int) -> int:
    """Steps per process: what takes two seconds, between the least and the most, in whole blocks."""
    wanted = math.ceil(LEVER_POLICY.timed_seconds * 1e9 / max(step_ns, 1)) + POLICY.warmup_steps
    bounded = min(max(wanted, LEVER_POLICY.least_steps), LEVER_POLICY.most_steps)
    return math.ceil(bounded / POLICY.block_steps) * POLICY.block_steps


def seconds_needed(step_ns: int, levers: int, start_s: float = POLICY.start_seconds) -> float:
    """The least that a statement about `levers` levers takes: two originals, and two runs of each beside another."""
    process = start_s + steps_for(step_ns) * step_ns / 1e9
    return process * (3 + 2 * levers)


def check_budget(request: LeverRequest, levers: int) -> None:
    """Raise `Inconclusive` before the first run where not even one lever can be measured."""
    if request.step_ns is None:
        return
    least = seconds_needed(request.step_ns, 1, request.start_s)
    if request.budget_s < least:
        minutes = math.ceil(seconds_needed(request.step_ns, levers, request.start_s) / 60)
        raise Inconclusive(
            say(
                "{budget} are too short to measure this (about {needed} are needed for one lever)",
                budget=duration_text(request.budget_s),
                needed=duration_text(least),
            ),
            hint=say("give --budget {minutes}m", minutes=minutes),
        )


def exclude_each_other(first: str, second: str) -> bool:
    """Whether two levers cannot be on together: two values of one lever, or two of one kind."""
    a, b = first.partition("=")[0], second.partition("=")[0]
    if a == b and a != "line":
        return True
    return any(a in group and b in group for group in LEVER_POLICY.alternatives)


def preferable(lever_id: str) -> tuple[str, ...]:
    """Ids of the levers that are tried before this one, which is then left out."""
    rule = lever_id.partition("=")[0]
    return next((group[: group.index(rule)] for group in LEVER_POLICY.alternatives if rule in group), ())


def together(
    first: LeverTrial, second: LeverTrial, joined: Callable[[tuple[str, ...]], Patch | None] = _no_patch
) -> LeverTrial | str:
    """Both levers in one trial, or why that cannot be. `joined` makes the patch of levers that change the same file."""
    members = (*(first.members or (first.id,)), *(second.members or (second.id,)))
    if any(exclude_each_other(a, b) for a in (first.members or (first.id,)) for b in (second.members or (second.id,))):
        return say("one excludes the other")
    patch = _patch_of_both(first.patch, second.patch, lambda: joined(members))
    if isinstance(patch, str):
        return patch
    return LeverTrial(
        id="+".join(members),
        toggles=(*first.toggles, *second.toggles),
        patch=patch,
        factor=first.factor * second.factor,
        another_training=first.another_training or second.another_training,
        members=members,
    )


def all_together(
    trials: Sequence[LeverTrial], joined: Callable[[tuple[str, ...]], Patch | None] = _no_patch
) -> LeverTrial | None:
    """As many of these levers in one trial as go together, the first ones first; None where no two do."""
    merged: LeverTrial | None = None
    for trial in trials:
        both = trial if merged is None else together(merged, trial, joined)
        merged = merged if isinstance(both, str) else both
    return merged if merged is not None and merged.members else None


def _patch_of_both(first: Patch | None, second: Patch | None, joined: Callable[[], Patch | None]) -> Patch | str | None:
    if first is None or second is None:
        return first or second
    shared = {file.path for file in first.files} & {file.path for file in second.files}
    if shared:
        return joined() or say("both change {name}", name=min(shared).name)
    return Patch(first.root, (*first.files, *second.files), (), (), "")
