"""The first screen of the page: what it costs, where, what the step becomes, and one command.

In: an IllustratedDiagnosis. Out: a `ReportAnswer`. Its words and numbers are those of the terminal's first screen;
what the page adds is the step now and then as a picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracelens.messages import joined, say, value_in
from tracelens.model import IllustratedDiagnosis, PlannedDiagnosis, on_baseline
from tracelens.report import annotated_source, first_screen, formatting, loader_lines, next_commands, wording
from tracelens.report.annotated_source import AnnotatedFile
from tracelens.report.first_screen import FirstScreen
from tracelens.report.formatting import DASH, clean, gain, percent
from tracelens.report.line_times import recommended_lines
from tracelens.report.outcome import BestLever
from tracelens.units import LEAST_COPIES_SHARE, step_ms, told_speedup

SOURCE = {
    "measured": say("measured: the script as it is"),
    "unprofiled": say("without the profiler"),
    "recorded": say("as recorded, with the profiler"),
}
LEAST_KEY_SHARE = 0.01
"""Of the step: a colour that nobody can see needs no words."""
NOTES = {
    "apply": say("Put it into the script:"),
    "fix": say("See the change, measure it, then decide:"),
    "try": say("Measure it; your files stay as they are:"),
    "verify": say("Measure it; your files stay as they are:"),
    "profile": say("Record it again:"),
    "annotate": say("See it in Perfetto:"),
    "revert": say("Take it out again:"),
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
    undo: str
    """The command that takes out what the command puts in; empty where it puts nothing in."""
    key: tuple[tuple[str, str, str], ...]
    """Of the picture: kind, words and times of each colour."""
    frame: tuple[AnnotatedFile, ...]
    proof: str
    """How it was measured, and how much of the change the frame shows."""


def answer(diagnosis: IllustratedDiagnosis) -> ReportAnswer:
    """Everything of the first screen."""
    diagnosis = on_baseline(diagnosis)
    screen, command = first_screen.first_screen(diagnosis), _command(diagnosis)
    missed = () if screen.strip is not None and len(screen.strip.steps) > 1 else (screen.missed,)  # else above its bar
    title, sub = _unstopped(diagnosis.headline or wording.verdict(diagnosis)), screen.instead or screen.verdict
    return ReportAnswer(
        screen=screen,
        title=title,
        sub="" if sub.rstrip(".") == title else sub,
        where=_where(diagnosis),
        figures=tuple(_figures(diagnosis, screen.then)),
        command=command,
        command_note=_note(command, screen.then),
        undo=_undo(command, diagnosis),
        key=tuple(_key(screen)),
        frame=annotated_source.frame(diagnosis, screen.lines, screen.edit),
        proof=joined(" ", [text for text in (screen.measured, *missed, screen.edit_rest) if text]),
    )


def _undo(command: str, diagnosis: PlannedDiagnosis) -> str:
    writes = command.split()[1:2] == ["apply"]  # fix asks before it writes, and says then how to take it out
    return next_commands.line("revert", *next_commands.which(diagnosis)) if writes else ""


def _key(screen: FirstScreen) -> Iterator[tuple[str, str, str]]:
    """Kind, words and times of each colour: 'GPU idle', '9.6 → 3.2 ms'."""
    strip = screen.strip
    if strip is None:
        return
    for kind, text, kinds in strip.key:
        if max(strip.total_ns(*kinds)) >= LEAST_KEY_SHARE * strip.steps[0].step_ns:
            yield kind, text, say("{time} ms", time=strip.legend(*kinds))


def _unstopped(text: str) -> str:
    """A heading has no full stop; a sentence that has one is a template around what it says."""
    if not text.endswith("."):
        return text
    return value_in(text, "sentence") or text.rstrip(".")


def _where(diagnosis: PlannedDiagnosis) -> str:
    """The lines that the answer is about: where time is lost, and where the change goes if that is elsewhere."""
    two = loader_lines.apart(diagnosis)
    if two:
        return two
    lines = list(recommended_lines(diagnosis))
    if not lines:
        return ""
    path = lines[0][0]
    numbers = [line for other, line in lines if other == path]
    told = {"path": clean(path), "lines": formatting.spans(numbers)}
    return say("{path}, line {lines}", **told) if len(numbers) == 1 else say("{path}, lines {lines}", **told)


def _figures(diagnosis: PlannedDiagnosis, then: BestLever | None) -> Iterator[Figure]:
    steps = diagnosis.steps
    base_ns = steps.best_known_ns if steps.source != "none" else None
    if then is not None:
        now = step_ms(then.base_ns, then.base_ns)
        step, low, high = (step_ms(ns, then.base_ns) for ns in (then.step_ns, then.low_ns, then.high_ns))
        spread = (
            say("{low} to {high} ms, 95 % sure", low=low, high=high)
            if then.evidence == "measured"
            else say("{low} to {high} ms, predicted", low=low, high=high)
        )
        yield Figure(say("Step time"), now, step, "ms", spread)
        rates = say("{now} → {then} steps per second", now=_rate(then.base_ns), then=_rate(then.step_ns))
        yield Figure(
            say("Throughput"), "", gain(told_speedup(then.base_ns, then.step_ns)).removesuffix(" %"), "%", rates
        )
    else:
        now = step_ms(base_ns, base_ns) if base_ns else DASH
        mean_ns = steps.other_mean_ns
        known = SOURCE[steps.baseline_source]
        if mean_ns is not None:
            known = say("{known}; mean {mean} ms", known=known, mean=step_ms(mean_ns, mean_ns))
        yield Figure(say("Step time"), now, "", "ms", known)
        base_ns = mean_ns or base_ns  # what many steps take is told of the mean one
        thousand = (
            say("1,000 steps in {seconds:,.0f} s", seconds=base_ns / 1e6) if base_ns else say("steps were not found")
        )
        yield Figure(say("Throughput"), _rate(base_ns) if base_ns else DASH, "", "steps/s", thousand)
    yield _busy(diagnosis, then)


def _busy(diagnosis: PlannedDiagnosis, then: BestLever | None) -> Figure:
    """Copies that nothing hides are told apart where they matter: a GPU that copies does not compute."""
    busy, parts = diagnosis.gpu_busy_share, diagnosis.breakdown
    copies = parts.copies_share if parts is not None else 0.0
    if busy is not None and copies >= LEAST_COPIES_SHARE:
        kernels = percent(max(busy - copies, 0.0)).removesuffix(" %")
        return Figure(say("GPU kernels"), kernels, "", "%", say("of the step, copies {share}", share=percent(copies)))
    later = then.busy_share if then is not None else None
    return Figure(
        say("GPU busy"),
        DASH if busy is None else percent(busy).removesuffix(" %"),
        "" if later is None else percent(later).removesuffix(" %"),
        "%" if busy is not None else "",
        say("of the step") if busy is not None else say("no GPU work was recorded"),
    )


def _rate(ns: int) -> str:
    value = 1e9 / ns
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _command(diagnosis: PlannedDiagnosis) -> str:
    """What the terminal says is next."""
    if diagnosis.run is not None and diagnosis.run.meta.get("redacted"):
        return ""
    return next_commands.next_command(diagnosis)


def _note(command: str, then: BestLever | None) -> str:
    verb = command.split()[1] if command else ""
    said = NOTES.get(verb, say("Next:"))
    if verb == "apply" and then is not None and then.same_results:
        return say("Measured, same results. {note}", note=said)
    return say("Not tried yet. {note}", note=said) if verb == "try" and then is None else said
