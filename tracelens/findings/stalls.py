"""Host waits grouped into Stalls: one per API and source line, or per position in the step where no line is known.

In: a Timeline. Out: Stalls per kept step, the most costly first, with stable ids s1, s2, … A position that waits in few
steps only is not kept apart: ten reads in every tenth step are one Stall and not ten. The replay computes what a wait
really costs; `with_exposed` adds its answer. A synchronize that only completes a copy (`copy` in the waits table)
belongs to the Stall of that copy: it is the second half of one call such as `.cpu()` or a blocking `.to(device)`. Waits
at the edge of the recording are the profiler's own: their verdict is `window_edge`, and they enter no sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings import kept_steps
from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import NEGLIGIBLE_SHARE
from tracelens.messages import say
from tracelens.model import Location, Stall, Timeline, TraceTable, Verdict
from tracelens.trace import idle_gaps, intervals, recorded_rows, streams
from tracelens.trace.waits import KINDS, kinds_of_calls
from tracelens.units import ms

RowPositions = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger[Any]]

MOST_POSITIONS = 32
"""Waits of one API without source lines are told apart by their order in the step, up to this many of them: a longer
list would not be read."""
LEAST_POSITION_SHARE = 0.5
"""A position in the step is told apart if it waits in half of the steps: an occasional wait has no position."""
_NO_POSITION = -1


@dataclass(frozen=True, slots=True)
class _StallKeys:
    """The grouping keys per wait: waits that agree in all of them are one Stall."""

    edge: npt.NDArray[np.bool_]
    origin: RowPositions
    """The row whose API and kind count: the wait itself, or of a copy's second half the copy's wait."""
    api: Codes
    kind: Codes
    place: RowPositions
    """The first row with the same path, line and function."""
    position: RowPositions


def group(timeline: Timeline, row_ns: float = 0.0) -> tuple[Stall, ...]:
    """Stalls of the kept steps and of the window's edge; `exposed_ns` is not known yet. `row_ns`: what recording a row
    took of the idle time."""
    if not timeline.coverage.judged:
        return ()
    kept = kept_steps.select(timeline)
    waits = timeline.tables.waits
    chosen = np.flatnonzero(kept.holds(waits["step"]) | waits["window_edge"])
    if not len(chosen):
        return ()
    waits = waits[chosen]
    starts, ends = waits["start_ns"], waits["start_ns"] + waits["wait_ns"]
    idle = waits["wait_ns"] - intervals.covered(streams.working(timeline.tables.ops), starts, ends)
    taken = recorded_rows.profiler_spans(timeline, kept.covered, row_ns)
    waits = waits.with_columns(
        position=chosen,
        idle_inside_ns=idle,
        profiler_inside_ns=intervals.covered(taken, starts, ends),
        profiler_ns=idle_gaps.idle_per_wait(timeline.tables.gaps, len(timeline.tables.waits), taken)[chosen],
    )
    keys = _keys(waits, kept.count)
    same = _alike(keys.edge, keys.api, keys.kind, keys.place, keys.position)
    order = np.argsort(same, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(same[order])) + 1)
    stalls = sorted((_stall(waits, rows, keys, kept.count) for rows in parts), key=_cost)
    return tuple(replace(stall, id=f"s{number}") for number, stall in enumerate(stalls, start=1))


def with_exposed(stalls: tuple[Stall, ...], exposed: Mapping[str, int], step_ns: int) -> tuple[Stall, ...]:
    """The same Stalls with what removing each alone gives back, and their verdict."""
    return tuple(_judged(stall, exposed.get(stall.id), step_ns) for stall in stalls)


def described(stall: Stall, rank: AnalyzedRank) -> str:
    """'cudaDeviceSynchronize, 1 call per step, blocks the host for 310 µs, the GPU idles 120 µs for it'."""
    told = {"call": f"{stall.call} ({stall.api})" if stall.call else stall.api, "time": ms(rank.waited_ns(stall))}
    if stall.calls_per_step == 1:
        text = say("{call}, 1 call per step, blocks the host for {time}", **told)
    else:
        calls = f"{stall.calls_per_step:.3g}"
        text = say("{call}, {calls} calls per step, blocks the host for {time}", calls=calls, **told)
    if stall.gpu_idle_ns is None:
        return text
    return say("{text}, the GPU idles {time} for it", text=text, time=ms(rank.idle_ns(stall)))


def _judged(stall: Stall, exposed_ns: int | None, step_ns: int) -> Stall:
    if exposed_ns is None or stall.verdict == "window_edge":
        return stall
    verdict: Verdict = "harmless" if exposed_ns < NEGLIGIBLE_SHARE * step_ns else "exposed"
    return replace(stall, exposed_ns=exposed_ns, verdict=verdict)


def _keys(waits: TraceTable, steps: int) -> _StallKeys:
    row_of = {call: row for row, call in enumerate(waits["call"].tolist())}
    copy = np.array([row_of.get(call, -1) for call in waits["copy"].tolist()], dtype=np.int64)
    origin = np.where(copy >= 0, copy, np.arange(len(waits)))
    edge = waits["window_edge"]
    api, kind = waits["api"].codes, kinds_of_calls(waits).codes
    place, known = _places(waits, origin)
    first = np.flatnonzero(copy < 0)
    position = np.full(len(waits), _NO_POSITION)
    position[first] = _positions(waits[first], api[first], kind[first], (known | edge)[first], steps)
    return _StallKeys(edge, origin, api[origin], kind[origin], place[origin], position[origin])


def _places(waits: TraceTable, origin: RowPositions) -> tuple[RowPositions, npt.NDArray[np.bool_]]:
    """`_StallKeys.place`, and whether there is one; of the two waits of one call of the user's, what either knows."""
    path, line, function = (_numbered(waits[key]) for key in ("path", "line", "function"))
    place, known = _alike(path, line, function), path >= 0
    telling = np.flatnonzero(known & ~known[origin])
    place[origin[telling]] = place[telling]
    return place, known[place]


def _positions(waits: TraceTable, api: Codes, kind: Codes, placed: npt.NDArray[np.bool_], steps: int) -> RowPositions:
    """The ordinal of each wait among those of its API and kind in its step, where no source line is known."""
    step, start = waits["step"], waits["start_ns"]
    in_step = _alike(step, api, kind)
    order = np.lexsort((start, in_step))
    position = np.empty(len(waits), dtype=np.int64)
    position[order] = np.arange(len(waits)) - np.searchsorted(in_step[order], in_step[order])
    position[placed] = _NO_POSITION
    anywhere, here = _alike(api, kind), _alike(api, kind, position)
    most = np.full(len(waits), _NO_POSITION)
    np.maximum.at(most, anywhere, position)
    once_per_step = np.flatnonzero(_alike(here, step) == np.arange(len(waits)))
    seen = np.bincount(here[once_per_step], minlength=len(waits))
    rare = seen[here] < LEAST_POSITION_SHARE * steps
    position[(most[anywhere] >= MOST_POSITIONS) | rare] = _NO_POSITION
    return position


def _numbered(values: npt.NDArray[np.object_]) -> Codes:
    """A number for each distinct value, -1 for None."""
    numbers: dict[object, int] = {None: -1}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values.tolist()], dtype=np.int64)


def _alike(*keys: npt.NDArray[Any]) -> RowPositions:
    """For each row the first row that agrees with it in every key."""
    order = np.lexsort(keys)
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
    out = np.empty(len(order), dtype=np.int64)
    out[order] = order[new][np.cumsum(new) - 1]
    return out


def _stall(waits: TraceTable, rows: RowPositions, keys: _StallKeys, steps: int) -> Stall:
    own, first = waits[rows], rows[0]
    edge, step = bool(keys.edge[first]), own["step"]
    wait, idle = int(own["wait_ns"].sum()), int(own["gpu_idle_ns"].sum())
    verdict: Verdict = "window_edge" if edge else "harmless" if wait == 0 and idle == 0 else "unknown"
    return Stall(
        id="",
        api=waits["api"][keys.origin[first]],
        kind=KINDS[keys.kind[first]],  # type: ignore[arg-type]  # nothing but WaitKinds
        calls_per_step=(int(np.count_nonzero(keys.origin[rows] == rows)) or len(rows)) / steps,
        wait_ns=round(wait / steps),
        gpu_idle_ns=round(idle / steps),
        exposed_ns=None,
        verdict=verdict,
        location=_location(waits, keys.place[first]),
        waits=tuple(own["position"].tolist()),
        call=_call(own),
        step_share=None if edge else len(np.unique(step)) / steps,
        idle_inside_ns=round(int(own["idle_inside_ns"].sum()) / steps),
        profiler_ns=int(own["profiler_ns"].sum()) // steps,
        profiler_inside_ns=int(own["profiler_inside_ns"].sum()) // steps,
    )


def _location(waits: TraceTable, row: int) -> Location | None:
    path, line, function = (waits[key][row] for key in ("path", "line", "function"))
    return Location(path, line, function) if path is not None else None


def _call(waits: TraceTable) -> str | None:
    """What the user called; None where a place has two different calls."""
    names = set(waits["user_call"].tolist()) - {None} if "user_call" in waits else set()
    return names.pop() if len(names) == 1 else None


def _cost(stall: Stall) -> tuple[bool, int, int, str, str, int]:
    """Sort key: what idles the GPU most comes first, the window's edge last, and ties have a fixed order."""
    edge = stall.verdict == "window_edge"
    return (edge, -(stall.gpu_idle_ns or 0), -stall.wait_ns, stall.api, str(stall.location or ""), min(stall.waits))
