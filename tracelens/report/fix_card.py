"""What `fix` found, on one card: step before and after, the lines, whether the results are the same, and the diff.

In: a diagnosis, the patch, its trial. Out: text for a terminal, and the part of the JSON answer that only `fix` has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text

from tracelens.jsonfile import microseconds
from tracelens.messages import capital, joined, say, say_count
from tracelens.model import OUTCOMES, Diagnosis, Hunk, Patch, PlannedDiagnosis, Verification
from tracelens.report import diff, terminal
from tracelens.report.diff import ChangedFile
from tracelens.report.formatting import short_ms
from tracelens.report.outcome import measured_by
from tracelens.report.screen_text import pictured
from tracelens.report.step_strip import StepStrip, step_strip
from tracelens.report.terminal import TerminalStyle

if TYPE_CHECKING:
    from rich.console import RenderableType

FixOutcome = Literal["written", "already", "not_written", "declined", "nothing", "undecided", "refused"]
SHORT_DIFF = 60
"""Rows of a diff that are shown at once; of a longer one the first so many, and the rest when asked for."""


@dataclass(frozen=True, slots=True)
class FixCard:
    """Everything that is said before the question."""

    said: str
    """The verdict."""
    predicted: str
    """What was predicted; empty where nothing was."""
    strip: StepStrip | None
    """One step before and after; None where the recording or the trial does not tell."""
    places: tuple[tuple[str, str], ...]
    """Each place that is changed, with what stands there."""
    notes: tuple[str, ...]
    """What the change costs: why each hunk may be made."""
    size: str
    files: tuple[ChangedFile, ...]

    @property
    def rows(self) -> int:
        """Of the diff, without files that are all new."""
        return sum(len(file.rows) for file in self.files if not file.created)


def card(diagnosis: PlannedDiagnosis, patch: Patch, trial: Verification) -> FixCard:
    """The card of a change that was measured."""
    files = diff.parse(patch.diff)
    return FixCard(
        said=measured(trial),
        predicted=_predicted(trial),
        strip=_strip(diagnosis, trial),
        places=tuple(dict.fromkeys((str(hunk.location), _source(diagnosis, hunk)) for hunk in patch.hunks)),
        notes=tuple(dict.fromkeys(say("{reason}.", reason=capital(hunk.reason)) for hunk in patch.hunks)),
        size=_size(files),
        files=files,
    )


def _strip(diagnosis: PlannedDiagnosis, trial: Verification) -> StepStrip | None:
    """On the step time of the trial's own originals."""
    then = measured_by(diagnosis, trial)
    if then is None:
        return None
    return step_strip(replace(diagnosis, steps=replace(diagnosis.steps, measured_ns=then.base_ns)), then)


def measured(trial: Verification) -> str:
    """`Faster: 25.4 → 17.5 ms per step, +45 % (95 % sure: +21 to +73 %). Same results, bit for bit.`; where the trial
    says nothing of that kind, its verdict."""
    ratio = trial.ratio
    if ratio is None or trial.speedup is None or trial.outcome not in ("faster", "slower", "no change"):
        return trial.verdict
    if not ratio.tells and trial.outcome != "faster":  # faster beyond doubt is told, however wide its range
        return trial.verdict
    steps = say(
        "{before} → {after} ms per step",
        before=short_ms(trial.base_ns),
        after=short_ms(trial.patched_ns),
    )
    low, high = _percent(ratio.high), _percent(ratio.low)
    gain = say("{gain} % (95 % sure: {low} to {high} %)", gain=_percent(1 / trial.speedup), low=low, high=high)
    outcome = capital(OUTCOMES.get(trial.outcome, trial.outcome))
    return say(
        "{outcome}: {steps}, {gain}. {results}", outcome=outcome, steps=steps, gain=gain, results=_results(trial)
    )


def _results(trial: Verification) -> str:
    if trial.numbers_equal is not True:
        return say("The results are not the same, as its reasons say.")
    noted = (trial.details.get("numbers") or {}).get("deterministic_algorithms")
    if noted:
        return say("Same results, bit for bit (under deterministic algorithms).")
    return say("Same results, bit for bit.")


def _percent(ratio: float) -> str:
    """A ratio of step times, new to old, as a gain in whole percent."""
    return f"{100 * (1 / ratio - 1):+.0f}".replace("-", "−")


def _predicted(trial: Verification) -> str:
    known = trial.predicted
    if known is None:
        return ""
    middle, low, high = (_percent(ns / known.base_ns) for ns in (known.step_ns, known.high_ns, known.low_ns))
    return say("Predicted was {middle} % ({low} to {high} %).", middle=middle, low=low, high=high)


def _source(diagnosis: Diagnosis, hunk: Hunk) -> str:
    lines = diagnosis.sources.get(hunk.location.path, "").splitlines()
    line = hunk.location.line
    return lines[line - 1].strip() if line is not None and 0 < line <= len(lines) else ""


def _size(files: Sequence[ChangedFile]) -> str:
    """`6 lines in, 2 out, no new file.`"""
    kinds = [row.kind for file in files if not file.created for row in file.rows]
    new = [Path(file.path).name for file in files if file.created]
    added, removed = kinds.count("add"), kinds.count("del")
    return say_count(
        "{count} line in, {removed} out, {new}.",
        "{count} lines in, {removed} out, {new}.",
        added,
        removed=removed,
        new=joined(", ", new) if new else say("no new file"),
    )


# ------------------------------------------------------------------------------------------------------------ text


def text(shown: FixCard, style: TerminalStyle) -> str:
    """The card, with the diff as far as it is short."""
    return terminal.draw(_parts(shown), style)


def whole_diff(shown: FixCard, style: TerminalStyle) -> str:
    """All of the diff."""
    return terminal.draw((terminal.diff(shown.files),), style)


def _parts(shown: FixCard) -> Iterator[RenderableType]:
    yield terminal.verdict(shown.said)
    if shown.predicted:
        yield terminal.paragraph(shown.predicted, "dim")
    yield from pictured(shown.strip)
    yield Text()
    for place, source in shown.places:
        yield terminal.paragraph(f"{place}  {source}")
    for note in shown.notes:
        yield terminal.paragraph(note, "dim")
    yield Text()
    yield terminal.diff(_first_rows(shown.files))
    left = shown.rows - SHORT_DIFF
    more = say(" {left} more rows of the diff.", left=left) if left > 0 else ""
    yield terminal.paragraph(f"{shown.size}{more}")


def _first_rows(files: Sequence[ChangedFile]) -> list[ChangedFile]:
    """The first rows of the diff; files that are all new only have a heading."""
    out, room = [], SHORT_DIFF
    for file in files:
        rows = file.rows if file.created else file.rows[: max(room, 0)]
        room -= 0 if file.created else len(file.rows)
        if rows:
            out.append(ChangedFile(file.path, rows, file.created))
    return out


# ------------------------------------------------------------------------------------------------------------ JSON


@dataclass(frozen=True, slots=True)
class FixAnswer:
    """How it ended."""

    outcome: FixOutcome
    reason: str
    levers: tuple[str, ...]
    patch: Patch | None
    trial: Verification | None
    next_command: str


def document(answer: FixAnswer) -> Mapping[str, Any]:
    """`fix` in the JSON answer."""
    patch, trial = answer.patch, answer.trial
    return {
        "outcome": answer.outcome,
        "reason": answer.reason,
        "levers": list(answer.levers),
        "files": [] if patch is None else [_below(file.path, patch.root) for file in patch.files],
        "diff": None if patch is None else patch.diff.encode(errors="backslashreplace").decode(),
        "measured": None if trial is None else _measurement(trial),
        "next": answer.next_command,
    }


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _measurement(trial: Verification) -> dict[str, Any]:
    ratio = trial.ratio
    return {
        "outcome": trial.outcome,
        "numbers_equal": trial.numbers_equal,
        "base_us": microseconds(trial.base_ns),
        "step_us": microseconds(trial.patched_ns),
        "speedup": None
        if ratio is None
        else {"speedup": 1 / ratio.value, "low": 1 / ratio.high, "high": 1 / ratio.low},
        "verdict": trial.verdict,
    }
