"""Numbers and places as a sentence shows them.

In: nanoseconds, estimates, locations from anywhere. Out: short, printable text of bounded length: paths come from
traces and may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracelens import lever_names, units
from tracelens.messages import joined, say
from tracelens.model import Estimate, Location, Owner, Scheme, Verification

LIMIT = 240  # characters of a verdict
LINES = 3  # lines named in a verdict; a change of more places is told by its diff
PLACE_LENGTH = 48  # of the 240 characters of a verdict; enough for folder/file.py:line


def ms(ns: float) -> str:
    """Milliseconds in a sentence."""
    return units.said_ms(ns)


def step(ns: float, base_ns: float) -> str:
    """A step time, or what is saved of it, beside the step time `base_ns`."""
    return f"{units.step_ms(ns, base_ns)} ms"


def cost(ns: float) -> str:
    """A cost per step."""
    return say("{time} per step", time=ms(ns))


def percent(value: float) -> str:
    """A gain in percent with its sign."""
    return units.signed_percent(value)


def gain_percent(base_ns: float, step_ns: float) -> float:
    """100·(speedup − 1); a step of no length is no step."""
    return 100 * (base_ns / step_ns - 1) if step_ns > 0 else 0.0


def gain(estimate: Estimate, base_ns: float | None = None) -> str:
    """'+14 % (+11 to +17 %, predicted)'; of step times as they are shown on `base_ns`, the one step that is told."""
    return say("{gain} ({range}, {known})", **_gained(estimate, base_ns or estimate.base_ns))


def throughput(estimate: Estimate, base_ns: float) -> str:
    """'+14 % throughput (+11 to +17 %, predicted)': where it stands alone, it is said what grows."""
    return say("{gain} throughput ({range}, {known})", **_gained(estimate, base_ns))


def _gained(estimate: Estimate, base_ns: float) -> Mapping[str, str]:
    scale = base_ns / max(estimate.base_ns, 1)
    low, middle, high = (
        100 * (units.told_speedup(base_ns, ns * scale) - 1)
        for ns in (estimate.high_ns, estimate.step_ns, estimate.low_ns)
    )
    known, span = units.known_by(estimate.evidence), units.percent_range(low, high)
    return {"gain": percent(middle), "range": span, "known": known}


def interval_of(scheme: Scheme) -> int | None:
    """N of every N batches; None where no Edit of it has one."""
    return max((edit.interval for edit in scheme.edits), default=None)


def lever_name(scheme: Scheme) -> str:
    """'Wait every 10th batch'."""
    return lever_names.named(scheme.id, interval_of(scheme))


def tried(trial: Verification) -> str:
    """What a trial measured: a lever, or a change of the user's own."""
    return lever_names.named(trial.scheme, trial.details.get("interval")) if trial.scheme else say("your change")


def loop_place(owner: Owner) -> str:
    """'train.py:95–97' of a loop."""
    first, last = owner.loop or (0, 0)
    return f"{place(owner.locations[0])}{'' if first == last else f'–{last}'}"


def place(location: Location | None) -> str:
    """A location that fits into a sentence: printable, its end kept when it is long."""
    if location is None:
        return ""
    text = "".join(c if c.isprintable() else "?" for c in str(location))
    return text if len(text) <= PLACE_LENGTH else "…" + text[-(PLACE_LENGTH - 1) :]


def places(locations: Iterable[Location | None]) -> str:
    """The places of a change in one phrase, in the order given: `train.py:83, 84`; the rest is counted."""
    found = list(dict.fromkeys((location.path, location.line) for location in locations if location is not None))
    if not found:
        return ""
    path, first = found[0]
    lines = [str(line) for other, line in found[1:] if other == path and line is not None][: LINES - 1]
    rest = len(found) - 1 - len(lines)
    named = joined(", ", [place(Location(path, first)), *lines])
    return say("{places} and {rest} more", places=named, rest=rest) if rest else named


def unstopped(text: str) -> str:
    """Without the full stop that ends the whole sentence."""
    return text.rstrip(".") if text.endswith(".") else text


def bounded(text: str, *additions: str) -> str:
    """The text with the first addition that fits, as one sentence cut at the limit."""
    for addition in additions:
        if addition:
            whole = say("{sentence}; {more}.", sentence=text, more=unstopped(addition))
        else:
            whole = say("{sentence}.", sentence=text)
        if len(whole) <= LIMIT:
            return whole
    return say("{sentence}.", sentence=text) if len(text) < LIMIT else text[: LIMIT - 2] + "…."
