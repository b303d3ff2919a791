"""Host waits grouped into Stalls: one per API and source line, or per place in the step where no line is known.

In: a Timeline. Out: Stalls per kept step, the most costly first, with ids s1, s2, … that stay. A place in the step that
waits in few steps only is no place: ten reads in every tenth step are one Stall, not ten. How much a wait really
costs is for the replay to say: `with_exposed` takes its answer. A synchronize that only completes a copy (`copy` in the
waits) is in the Stall of that copy: it is the second half of one call such as `.cpu()` or a blocking `.to(device)`.
Waits at the edge of the recording are the profiler's own and never enter a sum: they are kept apart by their verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracelens.findings import window
from tracelens.findings.policy import POLICY
from tracelens.model import Location, Stall, Timeline, Verdict
from tracelens.trace.waits import kinds_of_calls, second_halves

Positions = npt.NDArray[np.int64]

_KEY = ["window_edge", "api", "kind", "path", "line", "function", "position"]
_NO_LINE, _NO_POSITION, _NO_CALL = -1, -1, -2


def group(timeline: Timeline) -> tuple[Stall, ...]:
    """Stalls of the kept steps and of the window's edge; `exposed_ns` is not known yet."""
    kept = window.of(timeline)
    waits = timeline.syncs()
    chosen = waits[kept.holds(waits["step"]) | waits["window_edge"].astype(bool)]
    if chosen.empty:
        return ()
    keyed = _keyed(chosen, kept.count)
    found = [_stall(key, rows, kept.count) for key, rows in keyed.groupby(_KEY, sort=False, observed=True)]
    found.sort(key=_cost)
    return tuple(replace(stall, id=f"s{number}") for number, stall in enumerate(found, start=1))


def with_exposed(stalls: tuple[Stall, ...], exposed: Mapping[str, int], step_ns: int) -> tuple[Stall, ...]:
    """The same Stalls with what removing each alone gives back, and their verdict."""
    return tuple(_judged(stall, exposed.get(stall.id), step_ns) for stall in stalls)


def _judged(stall: Stall, exposed_ns: int | None, step_ns: int) -> Stall:
    if exposed_ns is None or stall.verdict == "window_edge":
        return stall
    verdict: Verdict = "harmless" if exposed_ns < POLICY.harmless_share * step_ns else "exposed"
    return replace(stall, exposed_ns=exposed_ns, verdict=verdict)


def _keyed(waits: pd.DataFrame, steps: int) -> pd.DataFrame:
    """The waits with keys that can be grouped by: no missing values, and a position where there is no line."""
    rows = _pairs_at_one_place(
        waits.assign(
            window_edge=waits["window_edge"].astype(bool),
            api=waits["api"].astype(str),
            kind=kinds_of_calls(waits),
            path=waits["path"].astype(object).where(waits["path"].notna(), ""),
            line=waits["line"].astype("Float64").fillna(_NO_LINE).astype("int64"),
            function=waits["function"].astype(object).where(waits["function"].notna(), ""),
            second=second_halves(waits),
        )
    )
    first = rows[~rows["second"]].sort_values("start_ns", kind="stable")
    order = first.groupby(["step", "api", "kind"], observed=True).cumcount()
    known = (rows["path"] != "") | rows["window_edge"]
    rows["position"] = order.reindex(rows.index).fillna(_NO_POSITION).astype("int64").where(~known, _NO_POSITION)
    most = rows.groupby(["api", "kind"], observed=True)["position"].transform("max")
    seen = rows[~rows["second"]].groupby(["api", "kind", "position"], observed=True)["step"].transform("nunique")
    seldom = seen.reindex(rows.index).fillna(steps) < POLICY.position_share * steps
    rows.loc[(most >= POLICY.positions) | seldom, "position"] = _NO_POSITION
    return _as_their_copies(rows, ["api", "kind", "position"])


def _pairs_at_one_place(rows: pd.DataFrame) -> pd.DataFrame:
    """The two waits of one call of the user's, at the place that either of them knows."""
    place, known = ["path", "line", "function"], (rows["path"] != "").to_numpy()
    copy = pd.Index(rows["call"]).get_indexer(rows["copy"].where(rows["second"], _NO_CALL))
    telling = np.flatnonzero(known & (copy >= 0) & ~known[copy])
    return _as_their_copies(_taken(rows, place, copy[telling], telling), place)


def _as_their_copies(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The rows, where a synchronize that completes a copy has these keys of the copy's own wait: they are one."""
    copy = pd.Index(rows["call"]).get_indexer(rows["copy"].where(rows["second"], _NO_CALL))
    second = np.flatnonzero(copy >= 0)
    return _taken(rows, keys, second, copy[second])


def _taken(rows: pd.DataFrame, keys: list[str], into: Positions, origin: Positions) -> pd.DataFrame:
    """The rows, where those at `into` have the keys of those at `origin`."""
    source = np.arange(len(rows))
    source[into] = origin
    return rows.assign(**{key: rows[key].to_numpy()[source] for key in keys})


def _stall(key: tuple[object, ...], rows: pd.DataFrame, steps: int) -> Stall:
    edge, api, kind, path, line, function, _ = key
    number = None if line == _NO_LINE else int(str(line))
    location = Location(str(path), number, str(function) or None) if path else None
    wait, idle = int(rows["wait_ns"].sum()), int(rows["gpu_idle_ns"].sum())
    verdict: Verdict = "window_edge" if edge else "harmless" if wait == 0 and idle == 0 else "unknown"
    return Stall(
        id="",
        api=str(api),
        kind=str(kind),  # type: ignore[arg-type]  # the timeline writes nothing but WaitKinds
        calls_per_step=(int((~rows["second"]).sum()) or len(rows)) / steps,
        wait_ns=round(wait / steps),
        gpu_idle_ns=round(idle / steps),
        exposed_ns=None,
        verdict=verdict,
        location=location,
        waits=tuple(int(position) for position in rows.index),
        call=_call(rows),
        step_share=None if edge else rows["step"].nunique() / steps,
    )


def _call(rows: pd.DataFrame) -> str | None:
    """What the user called; a place with two different calls has no single answer."""
    names = set(rows["user_call"].dropna()) if "user_call" in rows else set()
    return str(names.pop()) if len(names) == 1 else None


def _cost(stall: Stall) -> tuple[bool, int, int, str, str, int]:
    """Sort key: what idles the GPU most comes first, the window's edge last, and never by chance."""
    edge = stall.verdict == "window_edge"
    return (edge, -stall.gpu_idle_ns, -stall.wait_ns, stall.api, str(stall.location or ""), min(stall.waits))
