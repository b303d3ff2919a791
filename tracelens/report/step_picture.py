"""One training step as a picture: lanes of rectangles on one time axis.

In: a Timeline. Out: `StepPicture`, geometry in pixels that the template only has to write down. The step shown is the
kept one whose length is nearest the median. Times are binned below a pixel, so a step of ten thousand kernels stays a
page of some hundred rectangles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tracelens.messages import say
from tracelens.model import Timeline, TraceTable
from tracelens.report.formatting import clean, milliseconds
from tracelens.trace import streams
from tracelens.trace.tables import among

WIDTH = 920.0
"""Drawing width in SVG units; the page scales it."""
LABEL_WIDTH = 132.0
ROOM_FOR_LABEL = 58.0
LANE_HEIGHT = 22.0
LANE_GAP = 10.0
TICKS = 6
FEWEST = 3
VARIES = 0.3
"""Of the median, between the 10th and the 90th percentile: above it one step does not stand for the others."""
MAX_STREAMS = 8
"""Streams drawn, the busiest first; jobs with NCCL have dozens that hold one kernel each."""
BIN = 0.5
"""Width of a bin: half a unit is below a pixel of most screens."""
VISIBLE, MOSTLY = 0.15, 0.5
"""Work is drawn where it fills a seventh of a bin, so that a lone kernel is seen; idle time only where it prevails."""
LABELS = {
    "loader": (say("LOADER"), say("waiting for the next batch")),
    "idle_sync": (say("SYNC"), say("GPU idle after a synchronize")),
    "idle_dataloader": (say("LOADER"), say("GPU idle, the batch is not there")),
    "idle_host": (say("HOST"), say("GPU idle, the host issues too slowly")),
    "idle_launch": (say("LAUNCH"), say("GPU idle for the latency of a launch")),
    "idle_other": (say("OTHER"), say("GPU idle, cause not told by the trace")),
}


@dataclass(frozen=True, slots=True)
class Box:
    """`kind` is the CSS class; `label` is drawn inside, `title` is the tooltip and the text for screen readers."""

    x: float
    width: float
    kind: str
    label: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class PictureLane:
    name: str
    y: float
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class StepPicture:
    """Everything the template draws; `ticks` are (x, text)."""

    step: int
    lanes: tuple[PictureLane, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float
    kinds: tuple[str, ...]
    caption: str
    steps: int = 1


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """A stretch on the axis: [start, end) in ns and the drawing scale."""

    start: int
    end: int
    left: float = LABEL_WIDTH

    @property
    def scale(self) -> float:
        return (WIDTH - self.left) / max(self.end - self.start, 1)

    def x(self, ns: float) -> float:
        return self.left + (min(max(ns, self.start), self.end) - self.start) * self.scale

    def inside(self, frame: TraceTable) -> TraceTable:
        return frame[(frame["end_ns"] > self.start) & (frame["start_ns"] < self.end)]


def draw_step(timeline: Timeline) -> StepPicture | None:
    """None where there is no step to show."""
    view = typical_view(timeline.tables.steps)
    if view is None:
        return None
    window = TimeAxis(view.start_ns, view.end_ns)
    named = [(name, boxes) for name, boxes in _named_lanes(timeline, window) if boxes]
    lanes = tuple(PictureLane(n, i * (LANE_HEIGHT + LANE_GAP), tuple(boxes)) for i, (n, boxes) in enumerate(named))
    return StepPicture(
        step=view.numbers[0],
        lanes=lanes,
        ticks=ticks(window),
        height=len(lanes) * (LANE_HEIGHT + LANE_GAP),
        kinds=tuple(sorted({box.kind for lane in lanes for box in lane.boxes})),
        caption=view.caption,
        steps=len(view.numbers),
    )


def overview(timeline: Timeline) -> tuple[Box, ...]:
    """The whole recording as one bar across the picture: work of the GPU, and its idle time by cause."""
    tables = timeline.tables
    frames = [frame for frame in (tables.ops, tables.calls, tables.gaps, tables.loader) if len(frame)]
    if not frames:
        return ()
    start = min(int(frame["start_ns"].min()) for frame in frames)
    end = max(int(frame["end_ns"].max()) for frame in frames)
    causes = by_word(tables.gaps, "cause", "idle_")
    return tuple(boxes({"kernel": tables.ops, **causes}, TimeAxis(start, end, left=0.0), VISIBLE))


def stream_name(device: int, stream: int, several: bool) -> str:
    """`several`: more than one device has a lane."""
    if several:
        return say("GPU {device} stream {stream}", device=device, stream=stream)
    return say("Stream {stream}", stream=stream)


def by_word(table: TraceTable, name: Literal["kind", "cause"], prefix: str = "") -> dict[str, TraceTable]:
    """The rows of each word that occurs in a column, in the order of the words, by the word after a prefix."""
    column = table[name]
    present = (column.words[code] for code in np.unique(column.codes).tolist())
    return {prefix + word: table[among(column, word)] for word in present}


def typical(steps: TraceTable) -> dict[str, Any] | None:
    """The kept step whose length is nearest the median; None without steps."""
    kept = steps[steps["kept"]] if steps["kept"].any() else steps
    if not len(kept):
        return None
    length = kept["end_ns"] - kept["start_ns"]
    return kept.row(int(np.argmin(np.abs(length - np.median(length)))))


@dataclass(frozen=True, slots=True)
class TypicalView:
    """The stretch that a picture begins with."""

    numbers: tuple[int, ...]
    start_ns: int
    end_ns: int
    caption: str


def typical_view(steps: TraceTable) -> TypicalView | None:
    """The step nearest the median; two neighbours where steps vary, because then none stands for the others."""
    chosen = typical(steps)
    if chosen is None:
        return None
    pair = _pair(steps) if varies(steps) else None
    rows = [chosen] if pair is None else pair
    start, end = int(rows[0]["start_ns"]), int(rows[-1]["end_ns"])
    numbers = tuple(int(row["number"]) for row in rows)
    told = {"first": numbers[0], "last": numbers[-1], "time": milliseconds(end - start)}
    if len(numbers) == 1:
        caption = say("Step {first}, {time} as recorded; the one nearest the median.", **told)
    else:
        caption = say(
            "Steps {first} and {last}, together {time} as recorded: steps vary, so two neighbours are shown.", **told
        )
    return TypicalView(numbers, start, end, caption)


def varies(steps: TraceTable) -> bool:
    """Whether one step is a bad picture of the others."""
    kept = steps[steps["kept"]]
    length = kept["end_ns"] - kept["start_ns"]
    if len(length) < FEWEST or np.median(length) <= 0:
        return False
    low, high = np.percentile(length, (10, 90))
    return bool(high - low > VARIES * np.median(length))


def _pair(steps: TraceTable) -> list[dict[str, Any]] | None:
    """The neighbours that are together nearest twice the mean."""
    kept = steps[steps["kept"]]
    length = (kept["end_ns"] - kept["start_ns"]).astype(np.float64)
    apart = np.diff(kept["number"]) != 1
    off = np.abs(length[1:] + length[:-1] - 2 * length.mean()) + np.where(apart, np.inf, 0.0)
    best = int(off.argmin()) if len(off) else 0
    return [kept.row(best), kept.row(best + 1)] if len(off) and np.isfinite(off[best]) else None


def _named_lanes(timeline: Timeline, window: TimeAxis) -> Iterator[tuple[str, Sequence[Box]]]:
    tables = timeline.tables
    waits = window.inside(tables.waits)
    waiting = np.zeros(len(tables.calls), dtype=np.bool_)
    waiting[tables.waits["call"]] = True
    calls = window.inside(tables.calls.with_columns(waiting=waiting))
    yield say("Python thread"), _host(calls, waits, timeline.main_thread, window, whole=True)
    for thread in timeline.autograd_threads:
        if thread != timeline.main_thread:
            yield say("Autograd thread"), _host(calls, waits, thread, window, whole=False)
    loader = window.inside(tables.loader)
    yield "DataLoader", boxes({"loader": loader}, window, VISIBLE)
    yield from _streams(window.inside(tables.ops), window)
    gaps = window.inside(tables.gaps)
    causes = by_word(gaps, "cause", "idle_")
    yield say("GPU idle"), boxes(causes, window, MOSTLY)


def _host(calls: TraceTable, waits: TraceTable, thread: int | None, window: TimeAxis, *, whole: bool) -> Sequence[Box]:
    mine = calls[calls["thread"] == thread] if thread is not None else calls
    blocked = waits[waits["thread"] == thread] if thread is not None else waits
    work = mine[~mine["waiting"]]
    base = [Box(window.x(window.start), window.x(window.end) - window.x(window.start), "host")] if whole else []
    return [*base, *boxes({"call": work}, window, VISIBLE), *_wait_boxes(blocked, window)]


def _wait_boxes(waits: TraceTable, window: TimeAxis) -> Iterator[Box]:
    for row in map(waits.row, range(len(waits))):
        x, width = window.x(row["start_ns"]), window.x(row["end_ns"]) - window.x(row["start_ns"])
        call = clean(row["api"])
        if row["path"] is not None and row["line"] is not None:
            call = say("{call} at {where}", call=call, where=f"{clean(row['path'])}:{row['line']}")
        blocked, idle = milliseconds(row["wait_ns"]), milliseconds(row["gpu_idle_ns"])
        title = say("{call}: host blocked {wait}, GPU idle {idle}", call=call, wait=blocked, idle=idle)
        label = (say("COPY") if row["kind"] == "h2d" else say("SYNC")) if width >= ROOM_FOR_LABEL else ""
        yield Box(round(x, 1), round(max(width, 1.5), 1), "wait", label, title)


def _streams(ops: TraceTable, window: TimeAxis) -> Iterator[tuple[str, Sequence[Box]]]:
    known, position = streams.distinct_streams(ops)
    chosen = streams.busiest(streams.busy_ns(ops, position, len(known)), MAX_STREAMS)
    several = len({known[number][0] for number in chosen}) > 1
    for number in chosen:
        kinds = by_word(ops[position == number], "kind")
        yield stream_name(*known[number], several), boxes(kinds, window, VISIBLE)


def boxes(groups: Mapping[str, TraceTable], window: TimeAxis, least: float) -> list[Box]:
    """Rectangles of one lane: per bin the kind that covers most of it, where anything covers `least` of it."""
    kinds = list(groups)
    if not kinds:
        return []
    edges = np.linspace(window.start, window.end, round((WIDTH - window.left) / BIN) + 1)
    covered = np.array([_coverage(rows, edges) for rows in groups.values()])
    winner = np.where(covered.sum(axis=0) >= least, covered.argmax(axis=0), -1)
    borders = np.flatnonzero(np.diff(winner)) + 1
    out = []
    for first, last in zip([0, *borders], [*borders, len(winner)], strict=True):
        if winner[first] >= 0:
            span = float(edges[last] - edges[first])
            out.append(_box(kinds[winner[first]], window.x(float(edges[first])), span, window))
    return out


def _coverage(rows: TraceTable, edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Share of each bin that the rows cover; rows of one kind in one lane do not overlap by more than a hair."""
    order = np.argsort(rows["start_ns"], kind="stable")
    starts = rows["start_ns"][order]
    ends = np.maximum.accumulate(rows["end_ns"][order])
    starts = np.maximum(starts, np.concatenate(([starts[0]], ends[:-1]))) if len(starts) else starts
    times = np.column_stack((starts, ends)).ravel()
    lengths = np.cumsum(np.column_stack((np.zeros(len(starts)), ends - starts)).ravel())
    if not len(times):
        return np.zeros(len(edges) - 1)
    share: np.ndarray[Any, Any] = np.diff(np.interp(edges, times, lengths)) / np.diff(edges)
    return share


def _box(kind: str, x: float, span_ns: float, window: TimeAxis) -> Box:
    width = span_ns * window.scale
    label, title = LABELS.get(kind, ("", ""))
    text = label if width >= ROOM_FOR_LABEL else ""
    tip = say("{what}, {time}", what=title, time=milliseconds(span_ns)) if title and width >= 2 else ""
    return Box(round(x, 1), round(width, 1), kind, text, tip)


def ticks(window: TimeAxis) -> tuple[tuple[float, str], ...]:
    """Round times along the axis, counted from the step's start."""
    length = (window.end - window.start) / 1e6
    raw = length / TICKS
    power = 10.0 ** np.floor(np.log10(raw)) if raw > 0 else 1.0
    spacing = next((m * power for m in (1, 2, 5, 10) if m * power >= raw), raw or 1.0)
    digits = max(0, -int(np.floor(np.log10(spacing)))) if spacing else 0
    count = int(length / spacing + 1e-9)
    return tuple(
        (round(window.x(window.start + i * spacing * 1e6), 1), f"{i * spacing:.{digits}f}") for i in range(count + 1)
    )
