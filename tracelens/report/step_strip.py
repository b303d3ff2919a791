"""One step now and one step then as totals, not in their order, on one scale.

In: a PlannedDiagnosis and what becomes of its step. Out: `StepStrip`, lanes of segments in percent of the longer step:
the one drawing of now and then, for page, card and terminal.
Totals, because of a measured step only totals are kept: where the idle time lies within a step is in the timeline. So a
lane has each kind once, and the two have no clock in common. What one lane lacks is left out, never drawn as zero. The
parts of a measured step come from a recording of the changed script; without one it is one undivided bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracelens.messages import joined, say
from tracelens.model import (
    ISSUING_KINDS,
    Diagnosis,
    DrawnStep,
    IllustratedDiagnosis,
    PlannedDiagnosis,
    Verification,
    on_baseline,
)
from tracelens.report import line_times, wording
from tracelens.report.outcome import BestLever, drawn_copies_ns, exposed_copies_ns, recorded_work_ns
from tracelens.units import saved_ns, step_ms

LEAST_APART_SHARE = 0.02
"""Of the step: idle time of a cause below it is not drawn apart from the rest."""
MOVED_SHARE = 0.05
"""Of the step: a wait that grows by less needs no explanation."""
OTHER_SHARE = 0.02
"""Of the GPU's work: two recordings of the same kernels that differ by less look the same."""
ROOM, NARROW_ROOM = 9.0, 18.0
"""Percent of the picture that a label needs, on a wide window and on a phone."""
PYTHON, GPU = say("Python thread"), say("GPU")
OF_GPU = ("lost", "late", "issuing", "copy", "network", "gpu", "whole")
"""Kinds of segments of the GPU's lane."""
IDLE = ("late", "issuing", "lost")
"""Kinds of idle time of the GPU: beside a loop that waits for a batch, beside Python that launches, the rest."""
BLOCKED = ("await", "hold", "block")
"""Kinds of time that Python is blocked: until a batch is there, a copy is made, the GPU is done."""
KEY = (
    (IDLE, say("GPU idle")),
    (("gpu",), say("kernels")),
    (("copy",), say("copies")),
    (("network",), say("collectives")),
    (BLOCKED, say("host blocked")),
    (("batch",), say("makes a batch")),
    (("issue",), say("Python works")),
    (("whole",), say("parts unknown")),
)
"""What each colour is; all waits of Python have the same, and all idle time of the GPU."""
WORDS = {
    "batch": say("makes the next batch"),
    "await": say("waits for a batch"),
    "issue": say("works"),
    "hold": say("waits for copies"),
    "block": say("waits for the GPU"),
    "late": say("idle, no batch"),
    "issuing": say("idle at launches"),
    "lost": say("idle"),
    "copy": say("copies"),
    "network": say("collectives"),
    "gpu": say("works"),
    "whole": say("measured as a whole"),
}
SHORT = {
    "batch": say("batch"),
    "await": say("waits"),
    "hold": say("waits"),
    "block": say("waits"),
    "late": say("idle"),
    "issuing": say("idle"),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """`label` is drawn where the window is wide, `short` where it is narrow."""

    kind: str
    ns: float
    x: float
    width: float
    label: str
    short: str
    title: str


@dataclass(frozen=True, slots=True)
class StripLane:
    name: str
    segments: tuple[Segment, ...]
    said: str

    @property
    def is_whole(self) -> bool:
        """Whether nobody knows the parts of it."""
        return any(one.kind == "whole" for one in self.segments)

    def total_ns(self, *kinds: str) -> float:
        return sum(one.ns for one in self.segments if one.kind in kinds)


@dataclass(frozen=True, slots=True)
class StripStep:
    title: str
    step_ns: int
    time: str
    lanes: tuple[StripLane, ...]
    end: float

    @property
    def gpu(self) -> StripLane | None:
        """None where the GPU's part of the step is not known."""
        return next((lane for lane in self.lanes if lane.name == GPU), None)

    @property
    def worked_ns(self) -> float | None:
        """How long the GPU's kernels run; None where the GPU's part of the step is not known, or not divided."""
        lane = self.gpu
        return None if lane is None or lane.is_whole else lane.total_ns("gpu")


@dataclass(frozen=True, slots=True)
class StepStrip:
    steps: tuple[StripStep, ...]
    saved: str
    kinds: tuple[str, ...]
    moved: str = ""
    """Why Python waits longer for a batch although the step is shorter; empty where it does not."""
    recordings: str = ""
    """Where the parts of a measured step come from; empty where there are none, and of what was predicted."""

    def total_ns(self, *kinds: str) -> tuple[float, ...]:
        """What the segments of some kinds of one lane come to in each step (ns); nothing where it is not known."""
        lanes = [lane for step in self.steps for lane in step.lanes if (lane.name == GPU) == (kinds[0] in OF_GPU)]
        return tuple(lane.total_ns(*kinds) for lane in lanes if lane.is_whole == ("whole" in kinds))

    @property
    def key(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """A kind of each colour, its words, and the kinds that have it; without those that are told on every bar."""
        there = [(kinds, text) for kinds, text in KEY if set(kinds) & set(self.kinds) and not self._is_told(kinds)]
        return tuple((next(one for one in kinds if one in self.kinds), text, kinds) for kinds, text in there)

    def _is_told(self, kinds: tuple[str, ...]) -> bool:
        own = [one for step in self.steps for lane in step.lanes for one in lane.segments if one.kind in kinds]
        return set(kinds) <= {"batch", "issue", "whole"} and all(WORDS[one.kind] in one.label for one in own)

    def legend(self, *kinds: str) -> str:
        """'14.7 → 13.1': what a colour comes to, for those who cannot read it off its label."""
        told = [step_ms(ns, self.steps[0].step_ns) for ns in self.total_ns(*kinds)]
        return told[0] if len(set(told)) == 1 else " → ".join(told)

    @property
    def has_undivided(self) -> bool:
        """Whether the GPU's parts of one of the steps are not known."""
        return any(step.gpu is not None and step.gpu.is_whole for step in self.steps)


Totals = dict[str, tuple[tuple[str, float], ...]]
"""Per lane the kinds with their ns, each once, as they are drawn."""


def step_strip(diagnosis: PlannedDiagnosis, then: BestLever | None) -> StepStrip | None:
    """None where the GPU's time of a step is not known: what is left of it would be one bar."""
    base_ns = diagnosis.steps.best_known_ns
    now = _now(diagnosis, base_ns)
    if GPU not in now or diagnosis.steps.source == "none" or base_ns <= 0:
        return None
    longest = max(base_ns, then.step_ns if then else 0)
    steps = [_step(say("Now"), (base_ns, base_ns), now, longest)]
    if then is not None:
        steps.append(
            _step(
                say("{lever}, {evidence}", lever=then.name, evidence=wording.STATE[then.evidence]),
                (then.step_ns, base_ns),
                _then(diagnosis, then),
                longest,
            )
        )
    kinds = tuple(dict.fromkeys(s.kind for step in steps for lane in step.lanes for s in lane.segments))
    saved = (
        say("{saved} ms less", saved=step_ms(saved_ns(base_ns, then.step_ns), base_ns))
        if then and then.step_ns < base_ns
        else ""
    )
    return StepStrip(tuple(steps), saved, kinds, _moved(steps, base_ns), _recordings(steps, then))


def _moved(steps: Sequence[StripStep], base_ns: int) -> str:
    waits = [
        sum(segment.ns for lane in step.lanes for segment in lane.segments if segment.kind == "await") for step in steps
    ]
    if len(waits) < 2 or waits[1] - waits[0] < MOVED_SHARE * base_ns:
        return ""
    return say(
        "Waiting for a batch goes from {before} to {after} ms: the GPU is done sooner, the workers are not.",
        before=step_ms(waits[0], base_ns),
        after=step_ms(waits[1], base_ns),
    )


def _recordings(steps: Sequence[StripStep], then: BestLever | None) -> str:
    worked = [ns for step in steps if (ns := step.worked_ns) is not None]
    if then is None or then.trial is None or len(worked) < 2:
        return ""
    if abs(worked[1] - worked[0]) < OTHER_SHARE * worked[0]:
        return say("parts from a recording of its own")
    if worked[1] < worked[0]:
        return say("parts from a recording of its own, whose kernels were shorter")
    return say("parts from a recording of its own, whose kernels took longer")


# --------------------------------------------------------------------------------------------------------- totals


def _now(diagnosis: Diagnosis, base_ns: int) -> Totals:
    diagnosis = on_baseline(diagnosis)
    out: Totals = {}
    calls = [stall for stall in diagnosis.stalls if stall.verdict != "window_edge"]
    copies = sum(stall.wait_ns for stall in calls if stall.kind == "h2d")
    waits = sum(stall.wait_ns for stall in calls if stall.kind != "h2d")
    loader_kind, loader_ns = loader(diagnosis)
    if calls or loader_ns:
        out[PYTHON] = _host(base_ns, loader_kind, loader_ns, copies, waits)
    parts = diagnosis.breakdown
    if parts is not None and "gpu" in diagnosis.timeline.trace.signals:
        known = parts.known
        out[GPU] = (
            ("gpu", known.get("compute", 0.0)),
            ("network", known.get("communication_exposed", 0.0)),
            ("copy", known.get("copy_exposed", 0.0)),
            *_idle(diagnosis, base_ns, sum(ns for part, ns in known.items() if part.startswith("idle_"))),
        )
    return out


def _idle(diagnosis: Diagnosis, base_ns: int, idle_ns: float) -> Iterator[tuple[str, float]]:
    """The idle time beside the DataLoader (last, as the DataLoader is) and beside Python that launches, as their owners
    have it, and the rest."""
    owners, apart = diagnosis.owners.owners, []
    for kind, held in (("late", ("dataloader",)), ("issuing", ISSUING_KINDS)):
        held_ns = min(sum(owner.owned_ns for owner in owners if owner.kind in held), idle_ns)
        if held_ns >= LEAST_APART_SHARE * base_ns:
            apart.append((kind, held_ns))
            idle_ns -= held_ns
    yield from (("lost", idle_ns), *reversed(apart))


def loader(diagnosis: Diagnosis) -> tuple[str, float]:
    """What the training thread does in the DataLoader, and for how long in a step (ns)."""
    found = line_times.loader_time(diagnosis)
    return ("await" if found.has_workers else "batch"), found.ns


def _host(
    step_ns: float, loader_kind: str, loader_ns: float, copies: float, waits: float
) -> tuple[tuple[str, float], ...]:
    """Issuing work is the rest; what does not fit into a step is cut. What Python does while the GPU works stands above
    its work, what it does while the GPU idles above its idle time: bars are read one above the other all the same."""
    loader_ns = min(loader_ns, step_ns)
    copies = min(copies, step_ns - loader_ns)
    waits = min(waits, step_ns - loader_ns - copies)
    return (
        ("block", waits),
        ("hold", copies),
        ("issue", step_ns - loader_ns - copies - waits),
        (loader_kind, loader_ns),
    )


def _then(diagnosis: PlannedDiagnosis, then: BestLever) -> Totals:
    if then.trial is not None:
        return _measured(diagnosis, then, then.trial)
    steps = diagnosis.drawn if isinstance(diagnosis, IllustratedDiagnosis) else ()
    drawn = next((step for step in steps if step.scheme == then.lever), None)
    if drawn is not None:
        return _replayed(diagnosis, drawn, then)
    return _busy(then) or {GPU: (("whole", then.step_ns),)}


def _measured(diagnosis: PlannedDiagnosis, then: BestLever, trial: Verification) -> Totals:
    """What the window of the changed version kept; without the work of the GPU in it, one bar as long as the step."""
    facts, out = trial.window("after"), _busy(then)
    if not out:
        return {GPU: (("whole", then.step_ns),)}
    sync, copy, host = (facts.get(f"{name}_wait_us_per_step") for name in ("sync", "copy", "host"))
    worked, copies = recorded_work_ns(trial), exposed_copies_ns(trial)
    if isinstance(sync, int | float) and isinstance(copy, int | float) and isinstance(host, int | float):
        kind, _ = loader(diagnosis)
        out[PYTHON] = _host(then.step_ns, kind, 1000 * max(host - sync - copy, 0), 1000 * copy, 1000 * sync)
    if worked is not None and copies is not None:
        busy = min(worked, then.step_ns)
        out[GPU] = (("gpu", busy - copies), ("copy", copies), ("lost", then.step_ns - busy))
    return {name: out[name] for name in (PYTHON, GPU) if name in out}


def _busy(then: BestLever) -> Totals:
    if then.busy_share is None:
        return {}
    busy = then.busy_share * then.step_ns
    return {GPU: (("gpu", busy), ("lost", then.step_ns - busy))}


def _replayed(diagnosis: PlannedDiagnosis, drawn: DrawnStep, then: BestLever) -> Totals:
    """Totals of the step that the replay laid out; the host's brought to the length that the levers are listed with."""
    scale = then.step_ns / max(drawn.length_ns, 1)
    host = [(bar.name, bar.end_ns - bar.start_ns) for bar in drawn.bars if bar.lane == "host"]
    kind, _ = loader(diagnosis)
    loaded = scale * sum(ns for name, ns in host if name == "DataLoader")
    waits = scale * sum(ns for name, ns in host if "Synchronize" in name)
    copies = sum(ns for name, ns in host if "Memcpy" in name)
    out: Totals = {PYTHON: _host(then.step_ns, kind, loaded, copies, waits), **_busy(then)}
    if GPU in out:
        busy = dict(out[GPU])["gpu"]
        copied = min(drawn_copies_ns(drawn), busy)
        out[GPU] = (("gpu", busy - copied), ("copy", copied), ("lost", then.step_ns - busy))
    return out


# -------------------------------------------------------------------------------------------------------- geometry


def _step(title: str, times: tuple[int, int], totals: Totals, longest: int) -> StripStep:
    """`times`: of this step, and of the step now."""
    step_ns, base_ns = times
    lanes = tuple(_lane(name, parts, (longest, base_ns)) for name, parts in totals.items())
    time = say("{time} ms per step", time=step_ms(step_ns, base_ns))
    return StripStep(title, step_ns, time, lanes, round(100 * step_ns / longest, 2))


def _lane(name: str, parts: Sequence[tuple[str, float]], scale: tuple[int, int]) -> StripLane:
    segments = tuple(_segments(parts, *scale))
    said = joined(", ", [segment.title for segment in segments])
    return StripLane(name, segments, say("{name}: {parts}", name=name, parts=said))


def _segments(parts: Sequence[tuple[str, float]], longest: int, base_ns: int) -> Iterator[Segment]:
    x = 0.0
    for kind, ns in parts:
        width = 100 * ns / longest
        if ns <= 0:
            continue
        time, words = step_ms(ns, base_ns), WORDS[kind]
        label = (
            say("{words} {time}", words=words, time=time)
            if width >= ROOM + len(words) * 0.7
            else time
            if width >= ROOM / 2
            else ""
        )
        short = (
            say("{words} {time}", words=SHORT.get(kind, words), time=time)
            if width >= NARROW_ROOM + 6
            else time
            if width >= NARROW_ROOM / 2
            else ""
        )
        yield Segment(
            kind, ns, round(x, 2), round(width, 2), label, short, say("{words} {time} ms", words=words, time=time)
        )
        x += width
