"""Where one step time does not describe the recorded steps: they are of two kinds, or the profiler stretched them.

In: a Diagnosis. Out: one sentence for the first screen, empty where there is nothing to say.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tracelens.messages import say
from tracelens.model import Diagnosis
from tracelens.units import step_ms

FEWEST = 6
"""Steps: of fewer, two kinds are not told from two steps that something disturbed."""
LEAST_PART = 0.3
"""Of the steps, which each kind must have."""
LEAST_GAP = 0.3
"""Of the median step, between the longest short step and the shortest long one."""
STRETCHED = 1.25
"""Times the baseline: a recorded step that is longer is not the one that people know from their own clock."""


MEAN_OF = {
    "measured": say("the mean of many more, timed in turns"),
    "unprofiled": say("the mean of those before the profiler"),
    "recorded": say("what lies between"),
}
"""By where the one step time comes from."""


def said(diagnosis: Diagnosis) -> str:
    """'Of 10 recorded steps 5 took about 4.1 ms, 5 about 16.2; 11.8 is …'; else what the profiler did."""
    steps = diagnosis.steps
    if steps.source == "none" or not steps.certain:
        return ""
    base_ns, kinds = steps.best_known_ns, two_kinds(_kept(diagnosis))
    if kinds is not None and max(kinds[0]) < base_ns < min(kinds[1]):
        return _of_two_kinds(kinds, base_ns, MEAN_OF[steps.baseline_source])
    if steps.median_ns < STRETCHED * base_ns:
        return ""
    told = {"recorded": step_ms(steps.median_ns, steps.median_ns), "step": step_ms(base_ns, base_ns)}
    return say(
        "Under the profiler, which slows Python, a step took {recorded} ms; all times here are brought to {step}.",
        **told,
    )


def _of_two_kinds(kinds: tuple[Sequence[float], Sequence[float]], base_ns: int, what: str) -> str:
    short, long = (step_ms(statistics.median(kind), base_ns) for kind in kinds)
    return say(
        "Of {all} recorded steps {few} took about {short} ms, {many} about {long}; {step} is {what}.",
        few=len(kinds[0]),
        many=len(kinds[1]),
        all=len(kinds[0]) + len(kinds[1]),
        short=short,
        long=long,
        step=step_ms(base_ns, base_ns),
        what=what,
    )


def two_kinds(lengths: Sequence[float]) -> tuple[Sequence[float], Sequence[float]] | None:
    """The short steps and the long ones, where a wide gap parts them; None where the steps are of one kind."""
    if len(lengths) < FEWEST:
        return None
    ordered, least = sorted(lengths), max(2, round(LEAST_PART * len(lengths)))
    places = range(least, len(ordered) - least + 1)
    cut = max(places, key=lambda place: ordered[place] - ordered[place - 1])
    wide = ordered[cut] - ordered[cut - 1] >= LEAST_GAP * statistics.median(ordered)
    return (ordered[:cut], ordered[cut:]) if wide else None


def _kept(diagnosis: Diagnosis) -> Sequence[float]:
    steps = diagnosis.timeline.tables.steps
    kept = steps[steps["kept"]]
    return [float(length) for length in (kept["end_ns"] - kept["start_ns"]).tolist()]
