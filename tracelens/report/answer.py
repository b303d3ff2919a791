"""The first screen of the page: what it costs, where, what the step becomes, and one command.

In: an IllustratedDiagnosis. Out: a `ReportAnswer`. Its words and numbers are those of the terminal's first screen;
what the page adds is the step now and then as a picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracelens.model import IllustratedDiagnosis, PlannedDiagnosis
from tracelens.report import annotated_source, first_screen, next_commands, wording
from tracelens.report.annotated_source import AnnotatedFile
from tracelens.report.first_screen import FirstScreen
from tracelens.report.formatting import DASH, clean, gain, percent, short_ms
from tracelens.report.line_times import recommended_lines
from tracelens.report.outcome import BestLever

SOURCE = {
    "measured": "median of the originals, measured",
    "unprofiled": "without the profiler",
    "recorded": "as recorded, with the profiler",
}
INTERVAL = {"measured": "95 %", "predicted": "predicted"}
NOTES = {
    "apply": "Put it into the script:",
    "fix": "See the change, measure it, then decide:",
    "try": "Measure it; your files stay as they are:",
    "verify": "Measure it; your files stay as they are:",
    "profile": "Record it again:",
    "recommend": "What to do:",
    "revert": "Take it out again:",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One of three numbers: now, then where it is known, and in what range."""

    name: str
    now: str
    then: str
    unit: str
    range: str


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    screen: FirstScreen
    title: str
    sub: str
    """What the recommended change comes to, else the rest of the verdict; empty where the title says it all."""
    where: str
    figures: tuple[Figure, ...]
    command: str
    command_note: str
    frame: tuple[AnnotatedFile, ...]


def answer(diagnosis: IllustratedDiagnosis) -> ReportAnswer:
    """Everything of the first screen."""
    screen, command = first_screen.first_screen(diagnosis), _command(diagnosis)
    title, sub = (diagnosis.headline or wording.verdict(diagnosis)).rstrip("."), screen.instead or screen.verdict
    return ReportAnswer(
        screen=screen,
        title=title,
        sub="" if sub.rstrip(".") == title else sub,
        where=_where(diagnosis),
        figures=tuple(_figures(diagnosis, screen.then)),
        command=command,
        command_note=_note(command, screen.then),
        frame=annotated_source.frame(diagnosis, screen.lines),
    )


def _where(diagnosis: PlannedDiagnosis) -> str:
    """The lines that the answer is about."""
    lines = list(recommended_lines(diagnosis))
    if not lines:
        return ""
    path = lines[0][0]
    numbers = [line for other, line in lines if other == path]
    return f"{clean(path)}, line{'' if len(numbers) == 1 else 's'} {first_screen.spans(numbers)}"


def _figures(diagnosis: PlannedDiagnosis, then: BestLever | None) -> Iterator[Figure]:
    steps = diagnosis.steps
    base_ns = steps.best_known_ns if steps.source != "none" else None
    if then is not None:
        spread = f"{INTERVAL[then.evidence]}: {short_ms(then.low_ns)} to {short_ms(then.high_ns)} ms"
        yield Figure("Step time", short_ms(then.base_ns), short_ms(then.step_ns), "ms", spread)
        rates = f"{_rate(then.base_ns)} → {_rate(then.step_ns)} steps per second"
        yield Figure("Throughput", "", gain(then.speedup).removesuffix(" %"), "%", rates)
    else:
        yield Figure("Step time", short_ms(base_ns), "", "ms", SOURCE[steps.baseline_source])
        thousand = f"1,000 steps in {base_ns / 1e6:,.0f} s" if base_ns else "steps were not found"
        yield Figure("Throughput", _rate(base_ns) if base_ns else DASH, "", "steps/s", thousand)
    busy = diagnosis.gpu_busy_share
    later = then.busy_share if then is not None else None
    yield Figure(
        "GPU busy",
        DASH if busy is None else percent(busy).removesuffix(" %"),
        "" if later is None else percent(later).removesuffix(" %"),
        "%" if busy is not None else "",
        "of the step" if busy is not None else "no GPU work was recorded",
    )


def _rate(ns: int) -> str:
    value = 1e9 / ns
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _command(diagnosis: PlannedDiagnosis) -> str:
    """What the terminal says is next; who reads the report needs no command that makes it."""
    if diagnosis.run is not None and diagnosis.run.meta.get("redacted"):
        return ""
    return next_commands.beside_report(diagnosis)


def _note(command: str, then: BestLever | None) -> str:
    verb = command.split()[1] if command else ""
    said = NOTES.get(verb, "Next:")
    if verb == "apply" and then is not None and then.same_results:
        return f"Measured, same results. {said}"
    return f"Not tried yet. {said}" if verb == "try" and then is None else said
