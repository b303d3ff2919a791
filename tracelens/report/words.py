"""The words and number formats every report shares, so that text, HTML and JSON say one thing one way.

In: model values. Out: short strings. A number on screen always has its unit; unknown is "not measured", never 0.
"""

from __future__ import annotations

import unicodedata

from tracelens.model import Breakdown, Diagnosis, Estimate, Stall

UNKNOWN = "not measured"

PARTS = {
    "compute": ("Compute", "kernels run on the GPU"),
    "communication_exposed": ("Communication", "collectives that no compute hides"),
    "copy_exposed": ("Copies", "copies that no compute hides"),
    "idle_sync": ("Idle: synchronize", "GPU idle because the host waited for it and then had to refill the queue"),
    "idle_dataloader": ("Idle: DataLoader", "GPU idle while the loop waited for the next batch"),
    "idle_host": ("Idle: host", "GPU idle because Python and the dispatcher issued work too slowly"),
    "idle_launch": ("Idle: launch", "GPU idle for the latency of one launch after another"),
    "idle_other": ("Idle: other", "GPU idle for a cause the trace does not tell"),
}

BINDING = {
    "host": "the host, which issues work no faster",
    "stream": "the GPU itself, which is busy",
    "copy": "the copies between host and device",
    "loader": "the DataLoader, which delivers no faster",
}

CRITERION = {
    "performance": "Performance",
    "difficulty": "Difficulty",
    "complexity": "Complexity",
    "memory": "Memory",
    "maintainability": "Maintainability",
    "risk": "Risk",
}

VERDICT = {
    "exposed": "costs step time",
    "harmless": "harmless",
    "window_edge": "end of the recording, not a stall",
    "unknown": "not judged",
}

STEP_SOURCE = {
    "profiler_step": "the profiler's own step marks",
    "tracelens": "TraceLens's step marks",
    "dataloader": "DataLoader annotations",
    "optimizer": "optimizer annotations",
    "cycle": "repetition in the launch sequence",
    "none": "no steps found: the whole recording counts as one",
}


def clean(text: str) -> str:
    """Text from outside, safe to show in a terminal: control characters become visible instead of acting."""
    return "".join(c if c == "\t" or unicodedata.category(c)[0] != "C" else f"\\x{ord(c):02x}" for c in text)


def shorten(text: str, limit: int = 60) -> str:
    """At most `limit` characters; the middle goes, because both ends of a path or a kernel name tell the most."""
    text = clean(text)
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def duration(ns: float | None) -> str:
    """A time with the unit that gives it two to four digits."""
    if ns is None:
        return UNKNOWN
    if ns == 0:
        return "0 ms"
    size = abs(ns)
    if size < 1_000:
        return f"{ns:.0f} ns"
    if size < 100_000:
        return f"{ns / 1e3:.1f} µs" if size < 10_000 else f"{ns / 1e3:.0f} µs"
    if size < 1_000_000_000:
        return milliseconds(ns)
    return f"{ns / 1e9:.2f} s"


def milliseconds(ns: float | None) -> str:
    """A time in ms, for columns that are read against each other."""
    if ns is None:
        return UNKNOWN
    value = ns / 1e6
    return f"{value:.2f} ms" if abs(value) < 100 else f"{value:.0f} ms"


def percent(share: float | None, digits: int = 0) -> str:
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def gain(speedup: float) -> str:
    """A speedup as people say it: 100·(base ÷ new − 1), with its sign."""
    value = 100 * (speedup - 1)
    return f"{value:+.1f} %".replace("-", "−") if abs(value) >= 0.05 else "0 %"


def estimate_range(estimate: Estimate) -> str:
    """`12.1 ms (11.8 to 12.6)`."""
    return f"{milliseconds(estimate.step_ns)} ({estimate.low_ns / 1e6:.2f} to {estimate.high_ns / 1e6:.2f})"


def shown_parts(breakdown: Breakdown) -> tuple[tuple[str, int, float], ...]:
    """(part, ns, share of the wall time) of every part that is not zero, in the order of the contract."""
    wall = max(breakdown.wall_ns, 1)
    return tuple((part, ns, ns / wall) for part, ns in ((p, breakdown.parts[p]) for p in PARTS) if ns)


def ranked_stalls(diagnosis: Diagnosis) -> tuple[Stall, ...]:
    """Stalls by what removing them gives back; unknown next by host wait; window edges last."""

    def key(stall: Stall) -> tuple[bool, int, int, str]:
        return (stall.verdict == "window_edge", -(stall.exposed_ns or 0), -stall.wait_ns, stall.id)

    return tuple(sorted(diagnosis.stalls, key=key))


def stall_place(stall: Stall) -> str:
    return clean(str(stall.location)) if stall.location else "source line not recorded"


def headline(diagnosis: Diagnosis) -> str:
    """The verdict: the recommendation's own sentence where there is one, else what the GPU waited for."""
    if diagnosis.recommendation is not None:
        return diagnosis.recommendation.verdict
    return _analysis_sentence(diagnosis)


def _analysis_sentence(diagnosis: Diagnosis) -> str:
    if diagnosis.idle_share is None:
        return "This recording has no GPU events, so what a GPU waited for cannot be told."
    step = milliseconds(diagnosis.steps.median_ns)
    idle = milliseconds(diagnosis.breakdown.wall_ns * diagnosis.idle_share)
    start = f"The GPU is idle {percent(diagnosis.idle_share)} of each step ({idle} of {step})"
    worst = next((s for s in ranked_stalls(diagnosis) if s.verdict == "exposed" and s.exposed_ns), None)
    if worst is not None:
        what = clean(worst.call or worst.api)
        where = f" at {stall_place(worst)}" if worst.location else ""
        return f"{start}; the costliest wait is {what}{where}: {milliseconds(worst.exposed_ns)} per step would come back."
    idle_parts = {p: ns for p, ns in diagnosis.breakdown.parts.items() if p.startswith("idle_")}
    cause = max(idle_parts, key=lambda part: idle_parts[part])
    if not idle_parts[cause]:
        return f"{start}; nothing is there to win by waiting less."
    largest = f"{start}; the largest cause is {PARTS[cause][1].removeprefix('GPU idle ')}"
    return f"{largest}. No single wait costs step time." if diagnosis.stalls else f"{largest}."
