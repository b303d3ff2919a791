"""What a trial of levers came to, for a terminal: one table, the best combination, and what was not tried.

In: levers of one Run with their states, and the best combination. Out: text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracelens import lever_names
from tracelens.messages import joined, say
from tracelens.model import Lever, LeverCombination, LeverNumbers, MedianPair, Speedup
from tracelens.report import formatting, gain_words, loss_band, terminal
from tracelens.report.terminal import TerminalStyle
from tracelens.units import step_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

NOTHING = "–"
MOST_PICTURES = 4
"""Of losses: more do not fit a screen."""
NUMBERS: dict[LeverNumbers | None, str] = {
    "same": say("same results, bit for bit"),
    "inside_seed_band": say("losses differ, as much as other seeds do"),
    "outside_seed_band": say("losses differ, more than other seeds do"),
    "unknown": say("losses differ; not compared with other seeds"),
    None: NOTHING,
}
_COLUMNS = (say("lever"), say("step, ms"), say("gain"), say("memory"), say("results"))


@dataclass(frozen=True, slots=True)
class TrialOfLevers:
    """What is shown. `shown` are the ids that belong into the table."""

    levers: Sequence[Lever]
    combination: LeverCombination | None
    shown: Collection[str]
    warning: str | None = None
    interrupted: bool = False
    apart: Sequence[str] = ()
    """Levers that gain, and were not tried beside the best for lack of time."""
    begun: Mapping[str, MedianPair] = field(default_factory=dict)
    """By id what was seen of levers whose time ran out before there was a number: a single pair tells no range."""
    bands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By id of a lever that changes losses, where it lies among the original's seeds."""
    interval: int | None = None
    """N of every N batches, which is a part of some names."""

    def name(self, lever: str) -> str:
        """'Wait every 10th batch (event-interval)': what it is, and what was typed for it."""
        return lever_names.with_id(lever, self.interval)


def text(trial: TrialOfLevers, style: TerminalStyle, after: str) -> str:
    """The whole answer, with the next command."""
    return terminal.draw(_parts(trial, after), style)


def _parts(trial: TrialOfLevers, after: str) -> Iterator[RenderableType]:
    if trial.warning is not None:
        yield terminal.verdict(trial.warning)
    measured = [lever for lever in trial.levers if lever.id in trial.shown and lever.measured is not None]
    if measured:
        yield terminal.heading(say("Measured beside the original, in turns"))
        rows = [_row(trial.name(lever.id), lever) for lever in measured]
        yield terminal.table(_COLUMNS, [*rows, *_together(trial)], frozenset({1, 2, 3}))
    for name, band in list(trial.bands.items())[:MOST_PICTURES]:
        if lines := loss_band.picture(name, band):
            yield terminal.heading("")
            yield terminal.paragraph(lines[0])
            yield terminal.listing("\n".join(lines[1:]))
    yield terminal.verdict(verdict(trial))
    if trial.apart:
        names = joined(", ", map(trial.name, trial.apart))
        yield terminal.paragraph(
            say("Not measured together with it, for lack of time: {levers}. Give a larger --budget.", levers=names)
        )
    if trial.begun:
        yield terminal.heading(say("Seen in too few turns for a range: give a larger --budget"))
        rows = [(trial.name(name), *_seen(pair)) for name, pair in trial.begun.items()]
        yield terminal.table((say("lever"), say("step, ms"), say("one turn")), rows, frozenset({1, 2}))
    for lever in measured:
        if lever.reason:
            yield terminal.paragraph(say("{lever}: {reason}", lever=trial.name(lever.id), reason=lever.reason))
    yield from _others(trial)
    yield terminal.next_command(after)


def verdict(trial: TrialOfLevers) -> str:
    """One sentence: the best that was measured, and whether its results are the original's."""
    best = trial.combination
    if best is not None:
        said = _faster(best, trial)
    else:
        known = any(lever.measured is not None and lever.id in trial.shown for lever in trial.levers)
        said = _nothing(trial) if not known else say("No lever is faster beyond doubt.")
    return say("Interrupted; what was measured is kept. {sentence}", sentence=said) if trial.interrupted else said


def _nothing(trial: TrialOfLevers) -> str:
    if not trial.begun:
        return say("Nothing could be measured.")
    name, pair = min(trial.begun.items(), key=lambda one: one[1].after_ns / one[1].before_ns)
    if pair.after_ns >= pair.before_ns:
        return say("Too few turns for a number; in one turn each, no lever was faster.")
    gain = formatting.gain(pair.before_ns / pair.after_ns)
    return say("Too few turns for a number; in one turn {gain} with {lever}.", lever=trial.name(name), gain=gain)


def _seen(pair: MedianPair) -> tuple[str, str]:
    before, after = (step_ms(ns, pair.before_ns) for ns in (pair.before_ns, pair.after_ns))
    return say("{before} → {after}", before=before, after=after), formatting.gain(pair.before_ns / pair.after_ns)


def _faster(best: LeverCombination, trial: TrialOfLevers) -> str:
    told = {
        "levers": joined(" and ", [lever_names.named(name, trial.interval) for name in best.levers]),
        "gain": gain_words.of_pair(best.measured, best.pair),
        "low": formatting.gain(best.measured.low),
        "high": formatting.gain(best.measured.high),
        "results": NUMBERS[best.numbers],
    }
    if len(best.levers) > 1:
        return say("Faster: {levers} together {gain} (95 % sure: {low} to {high}); {results}.", **told)
    return say("Faster: {levers} {gain} (95 % sure: {low} to {high}); {results}.", **told)


def _together(trial: TrialOfLevers) -> Iterator[tuple[str, ...]]:
    best = trial.combination
    if best is not None and len(best.levers) > 1:
        yield _row(say("together"), best)


def _row(name: str, one: Lever | LeverCombination) -> tuple[str, ...]:
    memory, results = _bytes(one.memory_bytes_delta), NUMBERS[one.numbers]
    if one.measured is None:
        return name, NOTHING, NOTHING, memory, results
    return name, _step(one.measured, one.pair), gain_words.of_pair(one.measured, one.pair), memory, results


def _step(measured: Speedup, pair: MedianPair | None) -> str:
    """The median pair: each lever was measured beside originals of its own, which need not have taken the same time."""
    if pair is None:
        return NOTHING
    ends = (pair.before_ns / measured.high, pair.before_ns / measured.low)
    before, after, low, high = (step_ms(ns, pair.before_ns) for ns in (pair.before_ns, pair.after_ns, *ends))
    return say("{before} → {after} ({low} to {high})", before=before, after=after, low=low, high=high)


def _bytes(delta: int | None) -> str:
    if delta is None:
        return NOTHING
    sign = "+" if delta > 0 else "−" if delta < 0 else ""
    return f"{sign}{abs(delta) / 1e6:.0f} MB"


def _others(trial: TrialOfLevers) -> Iterator[RenderableType]:
    """Levers without a number, by why they have none."""
    for title, state in (
        (say("Failed"), "measured"),
        (say("Done already"), "done"),
        (say("Does not apply"), "not_applicable"),
    ):
        rows = [
            (trial.name(lever.id), lever.reason or "")
            for lever in trial.levers
            if lever.state == state and lever.measured is None and lever.id in trial.shown
        ]
        if rows:
            yield terminal.heading(title)
            yield terminal.table((say("lever"), say("why")), rows, frozenset())
    left = [
        trial.name(lever.id)
        for lever in trial.levers
        if lever.state in ("not_tried", "predicted") and lever.id not in trial.begun
    ]
    if left:
        yield terminal.heading(say("Not tried"))
        yield terminal.paragraph(joined(", ", left))
