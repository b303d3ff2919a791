"""Numbers and places as a sentence shows them.

In: nanoseconds, estimates, locations from anywhere. Out: short, printable text of bounded length: paths come from
traces and may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracelens.model import Estimate, Location

LINES = 3  # lines named in a verdict; a change of more places is told by its diff
PLACE_LENGTH = 48  # of the 240 characters of a verdict; enough for folder/file.py:line


def ms(ns: float) -> str:
    """Milliseconds with three significant digits, as people compare step times."""
    value = ns / 1e6
    return f"{value:.{_digits(value)}f} ms"


def cost(ns: float) -> str:
    """A cost per step, and what it adds up to: 1 ms per step is 1 s per 1,000 batches."""
    seconds = ns / 1e6
    return f"{ms(ns)} per step ({seconds:.{_digits(seconds)}f} s per 1,000 batches)"


def percent(value: float) -> str:
    """A gain in percent with its sign; one decimal below 10."""
    if abs(value) < 0.05:  # no "-0.0 %": nothing has no sign of its own
        return "+0.0 %"
    return f"{value:+.1f} %" if abs(value) < 9.95 else f"{value:+.0f} %"


def gain_percent(base_ns: float, step_ns: float) -> float:
    """100·(speedup − 1); a step of no length is no step."""
    return 100 * (base_ns / step_ns - 1) if step_ns > 0 else 0.0


def gain(estimate: Estimate) -> str:
    """'+14 % (+11 to +17 %, replayed)'."""
    low, high = gain_percent(estimate.base_ns, estimate.high_ns), gain_percent(estimate.base_ns, estimate.low_ns)
    middle = gain_percent(estimate.base_ns, estimate.step_ns)
    return f"{percent(middle)} ({percent(low).removesuffix(' %')} to {percent(high)}, {estimate.evidence})"


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
    return ", ".join([place(Location(path, first)), *lines]) + (f" and {rest} more" if rest else "")


def _digits(value: float) -> int:
    """Decimals that leave two to three significant digits."""
    size = abs(value)
    return 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.095 or size == 0 else 4
