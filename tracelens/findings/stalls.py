"""Host waits grouped into Stalls: one per API and source line, or per place in the step where no line is known.

In: a Timeline. Out: Stalls per kept step, the most costly first, with ids s1, s2, … that stay. A place in the step that
waits in few steps only is no place: ten reads in every tenth step are one Stall, not ten. How much a wait really
costs is for the replay to say: `with_exposed` takes its answer. A stream synchronize right behind a copy to the GPU is
the second half of a blocking `.to(device)` and counts as `h2d`: it goes when the copy stops blocking, and no earlier.
Waits at the edge of the recording are the profiler's own and never enter a sum: they are kept apart by their verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from tracelens.findings import window
from tracelens.findings.policy import POLICY
from tracelens.model import Location, Stall, Timeline, Verdict

_KEY = ["window_edge", "api", "kind", "path", "line", "function", "position"]
_NO_LINE, _NO_POSITION = -1, -1
_PASSING = ("other", "event_query", "event_record")  # calls that may stand between a copy and its synchronize


def group(timeline: Timeline) -> tuple[Stall, ...]:
    """Stalls of the kept steps and of the window's edge; `exposed_ns` is not known yet."""
    kept = window.of(timeline)
    waits = timeline.syncs()
    chosen = waits[kept.holds(waits["step"]) | waits["window_edge"].astype(bool)]
    if chosen.empty:
        return ()
    keyed = _keyed(chosen, behind_copies(timeline, chosen), kept.count)
    found = [_stall(key, rows, kept.count) for key, rows in keyed.groupby(_KEY, sort=False, observed=True)]
    found.sort(key=_cost)
    return tuple(replace(stall, id=f"s{number}") for number, stall in enumerate(found, start=1))


def with_exposed(stalls: tuple[Stall, ...], exposed: Mapping[str, int], step_ns: int) -> tuple[Stall, ...]:
    """The same Stalls with what removing each alone gives back, and their verdict."""
    return tuple(_judged(stall, exposed.get(stall.id), step_ns) for stall in stalls)


def behind_copies(timeline: Timeline, waits: pd.DataFrame) -> pd.Series[bool]:
    """Which waits are a stream synchronize whose last call before it, on its thread, copied to the GPU."""
    calls, ops = timeline.calls(), timeline.ops()
    mark = pd.Series(False, index=waits.index)
    candidates = waits[(waits["kind"] == "stream") & ~_asked_for(waits)]
    if candidates.empty or ops.empty:
        return mark
    doing = calls[~calls["kind"].isin(_PASSING)].sort_values("start_ns", kind="stable")
    copying = (ops["direction"] == "h2d").to_numpy()
    for thread, rows in candidates.groupby("thread"):
        own = doing[doing["thread"] == thread]
        before = own["start_ns"].searchsorted(rows["start_ns"]) - 1
        op = own["op"].to_numpy()[before.clip(0)] if len(own) else before * 0 - 1
        mark[rows.index] = (before >= 0) & (op >= 0) & copying[op.clip(0)]
    return mark


def _judged(stall: Stall, exposed_ns: int | None, step_ns: int) -> Stall:
    if exposed_ns is None or stall.verdict == "window_edge":
        return stall
    verdict: Verdict = "harmless" if exposed_ns < POLICY.harmless_share * step_ns else "exposed"
    return replace(stall, exposed_ns=exposed_ns, verdict=verdict)


def _keyed(waits: pd.DataFrame, behind_copies: pd.Series[bool], steps: int) -> pd.DataFrame:
    """The waits with keys that can be grouped by: no missing values, and a position where there is no line."""
    rows = waits.assign(
        window_edge=waits["window_edge"].astype(bool),
        api=waits["api"].astype(str),
        kind=waits["kind"].astype(str).where(~behind_copies, "h2d"),
        path=waits["path"].astype(object).where(waits["path"].notna(), ""),
        line=waits["line"].astype("Float64").fillna(_NO_LINE).astype("int64"),
        function=waits["function"].astype(object).where(waits["function"].notna(), ""),
    )
    order = rows.sort_values("start_ns", kind="stable").groupby(["step", "api", "kind"], observed=True).cumcount()
    rows["second"] = behind_copies | ((rows["kind"] == "h2d") & rows["api"].str.endswith("Synchronize"))
    rows["api"] = _as_one_call(rows)
    known = (rows["path"] != "") | rows["window_edge"]
    rows["position"] = order.reindex(rows.index).where(~known, _NO_POSITION)
    most = rows.groupby(["api", "kind"], observed=True)["position"].transform("max")
    seen = rows.groupby(["api", "kind", "position"], observed=True)["step"].transform("nunique")
    rows.loc[(most >= POLICY.positions) | (seen < POLICY.position_share * steps), "position"] = _NO_POSITION
    return rows


def _as_one_call(rows: pd.DataFrame) -> pd.Series[str]:
    """The API of each row, where a copy and the synchronize behind it on one source line are one: the copy's."""
    place = ["path", "line", "function"]
    first = rows[(rows["kind"] == "h2d") & ~rows["second"] & (rows["path"] != "")].drop_duplicates(place)
    name = first.set_index(place)["api"]
    of_row = pd.Series(name.reindex(pd.MultiIndex.from_frame(rows[place])).to_numpy(), index=rows.index)
    return rows["api"].where(~(rows["second"] & of_row.notna()), of_row)


def _asked_for(waits: pd.DataFrame) -> pd.Series[bool]:
    """Waits that the user asked for by name, where the recording knows the call."""
    if "user_call" not in waits:
        return pd.Series(False, index=waits.index)
    return waits["user_call"].astype(str).str.endswith("synchronize")


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
