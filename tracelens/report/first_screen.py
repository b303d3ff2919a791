"""What `recommend` answers on one screen, as data: what a step costs, its lines, the levers worth a look.

In: a PlannedDiagnosis. Out: a `FirstScreen`. Renderers only lay it out: all numbers are on the one baseline, recorded
shares are multiplied by it. The rest (scores, plan, guide, what could not be judged) is the long form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tracelens.model import Lever, Location, PlannedDiagnosis, Verification
from tracelens.report import formatting, next_commands, wording

MOST_LINES = 6
"""Source lines shown: a frame of more is not read at a glance."""
LEAST_SHARE = 0.005
"""Of the step. A line below it is no part of the answer."""
MOST_LEVERS = 5
SMALL_NS = 50_000
"""Below this a time is written `<0.1`: the screen has one decimal."""
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class CostlyLine:
    """A line of the user's source. None is unknown; without a GPU there is only the time on the CPU."""

    place: Location
    text: str
    host_blocked_ns: int | None
    gpu_idle_ns: int | None


@dataclass(frozen=True, slots=True)
class LeverRow:
    """One lever as cells. `rank` is `–` where nothing is gained."""

    rank: str
    lever: str
    lines: str
    step: str
    gain: str
    evidence: str


@dataclass(frozen=True, slots=True)
class FirstScreen:
    subject: str
    headline: str
    verdict: str
    lines: tuple[CostlyLine, ...]
    time_columns: tuple[str, str]
    """What the two times of a line are called."""
    beside_lines: str
    """What the lines give back together; empty where each tells for itself."""
    levers: tuple[LeverRow, ...]
    more_levers: int
    """How many are not shown."""
    measured: str
    """How the best lever was measured; empty where it was not."""
    about_patch: str
    """Why there is none of the recommended change, or what of it nothing has proved and the command that checks it."""
    unjudged: int
    """What the recording did not tell."""


def first_screen(diagnosis: PlannedDiagnosis) -> FirstScreen:
    """Everything that the first screen says."""
    rows = _levers(diagnosis)
    with_gpu = "gpu" in diagnosis.timeline.trace.signals
    return FirstScreen(
        subject=_subject(diagnosis),
        headline=diagnosis.headline,
        verdict=wording.verdict(diagnosis),
        lines=_lines(diagnosis),
        time_columns=("host blocked", "GPU idle") if with_gpu else ("waits", "on the CPU"),
        beside_lines=wording.together(diagnosis),
        levers=tuple(_row(lever, diagnosis) for lever in rows[:MOST_LEVERS]),
        more_levers=max(0, len(rows) - MOST_LEVERS),
        measured=_measured(diagnosis),
        about_patch=_about_patch(diagnosis),
        unjudged=len(diagnosis.abstentions),
    )


def short_ms(ns: float | None) -> str:
    """Milliseconds with one decimal, `<0.1` for less, a dash for unknown, 0 for a measured zero."""
    if ns is None:
        return UNKNOWN
    return f"{ns / 1e6:.1f}" if ns >= SMALL_NS else "<0.1" if ns > 0 else "0"


def _subject(diagnosis: PlannedDiagnosis) -> str:
    steps, busy = diagnosis.steps, diagnosis.gpu_busy_share
    script = diagnosis.run.script if diagnosis.run else None
    name = PurePath(script or diagnosis.timeline.trace.path).name
    step = f"{short_ms(steps.best_known_ns)} ms per step" if steps.source != "none" else "steps not found"
    parts = [f"{formatting.clean(name)} on {wording.device(diagnosis.timeline.trace)}: {step}"]
    return ", ".join([*parts, *([f"GPU busy {formatting.percent(busy)}"] if busy is not None else [])])


# --------------------------------------------------------------------------------------------------------- its lines


def _lines(diagnosis: PlannedDiagnosis) -> tuple[CostlyLine, ...]:
    """The lines on which the host is blocked or the GPU idle for a part of the step, in the order of the source."""
    wall_ns = diagnosis.owners.wall_ns
    scale = diagnosis.steps.best_known_ns / wall_ns if wall_ns else 1.0
    blocked, idle = _blocked(diagnosis), _idle(diagnosis)
    at = {(place.path, place.line): place for place in (*blocked, *idle) if place.line is not None}
    sums = {key: (_at(blocked, key), _at(idle, key)) for key in at}
    large = [key for key, times in sums.items() if max(ns or 0 for ns in times) >= LEAST_SHARE * wall_ns]
    chosen = set(_recommended_lines(diagnosis)) & set(at)
    costly = sorted(large, key=lambda key: -max(ns or 0 for ns in sums[key]))[: MOST_LINES - len(chosen)]
    shown = sorted({*costly, *sorted(chosen)[:MOST_LINES]})
    return tuple(
        CostlyLine(at[key], _text(diagnosis.sources, at[key]), *(_scaled(ns, scale) for ns in sums[key]))
        for key in shown
    )


def _blocked(diagnosis: PlannedDiagnosis) -> Mapping[Location, int]:
    """Per place how long the host waits there for the GPU."""
    out: dict[Location, int] = defaultdict(int)
    for stall in diagnosis.stalls:
        if stall.location is not None and stall.verdict != "window_edge":
            out[stall.location] += stall.wait_ns
    return out


def _idle(diagnosis: PlannedDiagnosis) -> Mapping[Location, int]:
    """Per place the idle GPU time that it owns, by its owners, else by its waits; without a GPU the time on the CPU."""
    out: dict[Location, int] = defaultdict(int)
    for owner in diagnosis.owners.owners:
        if owner.locations and owner.kind not in ("gpu", "communication"):
            out[owner.locations[0]] += owner.owned_ns
    owned = frozenset((place.path, place.line) for place in out)
    for stall in diagnosis.stalls:
        place, idle_ns = stall.location, stall.gpu_idle_ns
        if place is not None and idle_ns is not None and (place.path, place.line) not in owned:
            out[place] += idle_ns
    return out


def _at(times: Mapping[Location, int], key: tuple[str, int]) -> int | None:
    """Of all places on one line; None where nothing is known of it."""
    own = [ns for place, ns in times.items() if (place.path, place.line) == key]
    return sum(own) if own else None


def _recommended_lines(diagnosis: PlannedDiagnosis) -> Iterable[tuple[str, int]]:
    edits = diagnosis.recommended.edits if diagnosis.recommended else ()
    stalls = {name for edit in edits for name in edit.stalls}
    places = (stall.location for stall in diagnosis.stalls if stall.id in stalls)
    return [(place.path, place.line) for place in places if place is not None and place.line is not None]


def _text(sources: Mapping[str, str], place: Location) -> str:
    lines = sources.get(place.path, "").splitlines()
    known = place.line is not None and 0 < place.line <= len(lines)
    return lines[(place.line or 1) - 1].expandtabs(4) if known else ""


def _scaled(ns: int | None, scale: float) -> int | None:
    return None if ns is None else round(ns * scale)


# ------------------------------------------------------------------------------------------------------- its levers


def _levers(diagnosis: PlannedDiagnosis) -> list[Lever]:
    """Those that gain for certain, then what nobody tried, then what gains nothing."""
    known = [lever for lever in diagnosis.levers if lever.state in ("measured", "predicted") and lever.known]
    gains = [lever for lever in known if lever.known is not None and lever.known.excludes_zero]
    untried = [lever for lever in diagnosis.levers if lever.state == "not_tried" and lever.command]
    return [*gains, *untried, *(lever for lever in known if lever not in gains)]


def _row(lever: Lever, diagnosis: PlannedDiagnosis) -> LeverRow:
    known, base_ns = lever.known, diagnosis.steps.best_known_ns
    lines = ", ".join(dict.fromkeys(str(place.line) for place in lever.locations if place.line is not None))
    if known is None:
        return LeverRow(UNKNOWN, lever.id, lines, UNKNOWN, UNKNOWN, "not tried")
    step, low, high = (base_ns / ratio for ratio in (known.speedup, known.high, known.low))
    gains = known.excludes_zero
    gain = f"{100 * (known.speedup - 1):+.0f} %".replace("-", "−") if gains else "no gain"
    rank = str(lever.rank) if gains and lever.rank is not None else UNKNOWN
    spread = f"{short_ms(step)} ({short_ms(low)} to {short_ms(high)})"
    return LeverRow(rank, lever.id, lines, spread, gain, lever.state)


def _measured(diagnosis: PlannedDiagnosis) -> str:
    wanted = diagnosis.recommendation.scheme
    trial = next((trial for trial in reversed(diagnosis.verifications) if trial.scheme == wanted), None)
    return _how(trial) if trial is not None and wanted is not None else ""


def _about_patch(diagnosis: PlannedDiagnosis) -> str:
    change = diagnosis.recommended_patch
    if diagnosis.recommendation.scheme is not None and change is None:
        return f"No patch was made: {formatting.clean(next_commands.no_source(diagnosis))}."
    return wording.unchecked(change, next_commands.check(diagnosis)) if change is not None and change.unchecked else ""


def _how(trial: Verification) -> str:
    same = "same results, bit for bit" if trial.numbers_equal else "results not the same"
    steps = trial.details.get("steps")
    over = f" over {steps} steps" if isinstance(steps, int) else ""
    return f"Measured{over}, original and changed script in turns: {same}."
