"""What each line of the user's source costs a step: how long the host is blocked there, how long the GPU is idle.

In: a Diagnosis. Out: two times per line on the one baseline, and the lines that pay only as a group. First screen,
annotated source and card show the same numbers because they come from here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tracelens.messages import say
from tracelens.model import Diagnosis, Location, Owner, PlannedDiagnosis, Stall, baseline_of, on_baseline
from tracelens.report import wording
from tracelens.report.formatting import short_ms
from tracelens.trace import intervals, recorded_rows
from tracelens.units import step_ms

OFTEN = 0.5
"""Calls per step. What waits more rarely may stand outside the loop of the steps."""
BY_WORKERS = "MultiProcessing"
Line = tuple[str, int]
"""Path and number."""


@dataclass(frozen=True, slots=True)
class CostlyLine:
    """A line of the user's source, per step. None is unknown; without a GPU the second is the time on the CPU."""

    place: Location
    text: str
    host_blocked_ns: int | None
    gpu_idle_ns: int | None
    base_ns: int = 0
    """The step that its times are parts of: they have its digits."""
    changed: bool = False
    """Whether the recommended change acts on it: several such lines are one remedy."""

    def told(self, ns: int | None) -> str:
        """One of its times as it is shown, in the digits of headline and picture."""
        return short_ms(ns) if ns is None or not self.base_ns else step_ms(ns, self.base_ns)

    @property
    def most_ns(self) -> int:
        return max(self.host_blocked_ns or 0, self.gpu_idle_ns or 0)


def line_times(diagnosis: Diagnosis) -> Mapping[Line, CostlyLine]:
    """Every line of which a time is known, in the order of the source; on the baseline."""
    diagnosis = on_baseline(diagnosis)
    blocked, idle = _blocked(diagnosis), _idle(diagnosis)
    at = {(place.path, place.line): place for place in (*blocked, *idle) if place.line is not None}
    return {
        key: CostlyLine(
            at[key],
            source_line(diagnosis.sources, at[key]),
            _sum_at(blocked, key),
            _sum_at(idle, key),
            diagnosis.steps.best_known_ns,
        )
        for key in sorted(at)
    }


def idle_ns(diagnosis: Diagnosis) -> int | None:
    """How long the GPU idles in a step, on the baseline; None without a GPU."""
    parts = on_baseline(diagnosis).breakdown
    return None if parts is None else sum(ns for part, ns in parts.known.items() if part.startswith("idle_"))


def untimed(diagnosis: Diagnosis, line: Line) -> CostlyLine:
    """A line of which no time is known."""
    place = Location(*line)
    return CostlyLine(place, source_line(diagnosis.sources, place), None, None, diagnosis.steps.best_known_ns)


def group(diagnosis: PlannedDiagnosis) -> tuple[Line, ...]:
    """The waits that the recommended change removes, where they give back more together than one by one; else none."""
    scheme, stalls = diagnosis.recommended, list(_recommended(diagnosis))
    lines = tuple(recommended_lines(diagnosis))
    if scheme is None or scheme.estimate is None or len(lines) < 2:
        return ()
    alone = sum(stall.exposed_ns or 0 for stall in stalls)
    least_ns = wording.TOGETHER_SHARE * diagnosis.steps.best_known_ns
    return lines if scheme.estimate.base_ns - scheme.estimate.step_ns - alone >= least_ns else ()


def recommended_lines(diagnosis: Diagnosis) -> Iterable[Line]:
    """Where the recommended change acts, in the order of the source; none before there is one."""
    if not isinstance(diagnosis, PlannedDiagnosis):
        return ()
    places = [stall.location for stall in _recommended(diagnosis)]
    if diagnosis.recommended is None:
        wanted = diagnosis.recommendation.lever
        places += [place for lever in diagnosis.levers if lever.id == wanted for place in lever.locations]
    return sorted({(place.path, place.line) for place in places if place is not None and place.line is not None})


def source_line(sources: Mapping[str, str], place: Location) -> str:
    """The text of a line; empty where the source is not at hand."""
    lines = sources.get(place.path, "").splitlines()
    known = place.line is not None and 0 < place.line <= len(lines)
    return lines[(place.line or 1) - 1].expandtabs(4) if known else ""


def _recommended(diagnosis: PlannedDiagnosis) -> Iterator[Stall]:
    edits = diagnosis.recommended.edits if diagnosis.recommended else ()
    ids = {name for edit in edits for name in edit.stalls}
    yield from (stall for stall in diagnosis.stalls if stall.id in ids)


def _blocked(diagnosis: Diagnosis) -> Mapping[Location, int]:
    """Per place how long the host waits there for the GPU."""
    out: dict[Location, int] = defaultdict(int)
    for stall in diagnosis.stalls:
        if stall.location is not None and stall.verdict != "window_edge":
            out[stall.location] += stall.wait_ns
    loader = loader_time(diagnosis)
    asked = next((owner for owner in diagnosis.owners.owners if owner.kind == "dataloader"), None)
    place = place_of(asked, diagnosis) if asked is not None and loader.has_workers else None
    if place is not None:
        out[place] += loader.ns
    return out


@dataclass(frozen=True, slots=True)
class LoaderTime:
    """What the training thread spends in the DataLoader in a step: waiting for workers, else working."""

    ns: int
    has_workers: bool


def loader_time(diagnosis: Diagnosis) -> LoaderTime:
    """On the baseline; zero where the recording has no marks of a DataLoader."""
    table, steps = diagnosis.timeline.tables.loader, diagnosis.timeline.tables.steps
    count = int(steps["kept"].sum())
    if not len(table) or not count:
        return LoaderTime(0, False)
    kept = table[np.isin(table["step"], np.flatnonzero(steps["kept"]))]
    workers = any(BY_WORKERS in name for name in table["name"].used())
    spans = intervals.union(kept["start_ns"], kept["end_ns"])
    row_ns = diagnosis.breakdown.row_ns if diagnosis.breakdown else 0.0
    times = recorded_rows.host_time(diagnosis.timeline, spans, row_ns)
    return LoaderTime(baseline_of(diagnosis).spent(*(ns // count for ns in times)), workers)


def _idle(diagnosis: Diagnosis) -> Mapping[Location, int]:
    """Per place the idle GPU time that it owns, by its owners, else by its waits; without a GPU the time on the CPU."""
    out: dict[Location, int] = defaultdict(int)
    for owner in diagnosis.owners.owners:
        place = place_of(owner, diagnosis)
        group = owner.kind in ("wait", "copy") and len(owner.locations) > 1  # each of its waits has its own time
        if owner.line_shares:
            for line, share in owner.line_shares:
                out[line] += round(share * owner.owned_ns)
        elif place is not None and owner.kind not in ("gpu", "communication") and not group:
            out[place] += owner.owned_ns
    owned = frozenset((place.path, place.line) for place in out)
    for stall in diagnosis.stalls:
        found, idle_ns = stall.location, stall.gpu_idle_ns
        if found is not None and idle_ns is not None and (found.path, found.line) not in owned:
            out[found] += idle_ns
    return out


def place_of(owner: Owner, diagnosis: Diagnosis) -> Location | None:
    """Where the owner is shown; a DataLoader whose line was not recorded stands in the head of the loop."""
    if owner.locations:
        return owner.locations[0]
    return loop_head(diagnosis) if owner.kind == "dataloader" else None


def loop_head(diagnosis: Diagnosis) -> Location | None:
    """The `for` around everything that waits in each step: there the next batch is asked for. None where the waits do
    not tell it, and for a loop over numbers, which asks nobody."""
    places = [stall.location for stall in diagnosis.stalls if stall.calls_per_step >= OFTEN and stall.location]
    lines = {place.line for place in places if place.line is not None}
    if len({place.path for place in places}) != 1 or not lines or places[0].path not in diagnosis.sources:
        return None
    loops = [loop for loop in _loops(diagnosis.sources[places[0].path]) if _holds(loop, lines)]
    inner = max(loops, key=lambda loop: loop.lineno, default=None)
    if inner is None or (isinstance(inner.iter, ast.Call) and getattr(inner.iter.func, "id", "") == "range"):
        return None
    return Location(places[0].path, inner.lineno, places[0].function)


def _loops(source: str) -> list[ast.For]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.For)]


def _holds(loop: ast.For, lines: Iterable[int]) -> bool:
    return all(loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0) for line in lines)


def _sum_at(times: Mapping[Location, int], key: Line) -> int | None:
    """Of all places on one line; None where nothing is known of it."""
    own = [ns for place, ns in times.items() if (place.path, place.line) == key]
    return sum(own) if own else None


def wait_verdict(stall: Stall, diagnosis: Diagnosis) -> str:
    """Of waits that cost something only together, none is free."""
    if stall.verdict == "harmless" and wording.together(diagnosis):
        return say("costs together")
    return wording.VERDICT[stall.verdict]
