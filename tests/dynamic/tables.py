"""The tables and lists of docs/dynamic.md, line by line.

In: rows. Out: lines of Markdown. Every row is in them, also those that were declined, that gained nothing, that failed
or were cut short.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.dynamic.facts import NOT_REACHED, UNSAFE, counts_as, is_recommended, judged, says

PREDICTED = re.compile(r"[+-][\d.]+ % \([^)]*?%")
"""In the verdict: the predicted gain and its range."""


def speeds(times: list[tuple[dict[str, Any], str, dict[str, Any]]]) -> Iterator[str]:
    yield "| script | version | in one process | original again | fresh processes | of these, ms | says | predicted |"
    yield "|---|---|---|---|---|---|---|---|"
    for row, name, version in times:
        scheme = row["recommended"]["scheme"] if name == "recommended" else name
        shown = f"**{scheme}** (recommended)" if is_recommended(row, name) else scheme
        said = PREDICTED.search(row["recommended"]["verdict"]) if is_recommended(row, name) else None
        inside = _shown_speed(version.get("speed_within"), "processes")
        fresh = _shown_speed(version.get("speed"), "pairs")
        again = _shown_speed(row["original"].get("speed_within"), None) if inside else ""
        cells = (row["name"], shown, inside, again, fresh, _steps(row, name), says(row, version))
        yield f"| {' | '.join((*cells, f'{said[0]})' if said else ''))} |"
    yield ""
    yield "Judged by the first interval there is; where it does not decide, its middle is not named, and where the"
    yield "original differs from itself by as much, nothing is decided. In brackets: how many processes or pairs (of"
    yield "these, in ms: the median original, the fastest and the slowest). Most of these scripts wait for the"
    yield "processor."
    for key, what in (
        ("rounds_of", "The pairs of fresh processes"),
        ("within_of", "The processes that host all versions"),
    ):
        names: dict[str, set[str]] = {}
        for row, _, _ in times:
            if row.get(key):
                names.setdefault(row[key], set()).add(row["name"])
        yield from (f"{what} of {', '.join(sorted(of))} were timed {then}." for then, of in sorted(names.items()))
    yield from _turns({row["name"]: row for row, _, _ in times if row.get("within")})


def _turns(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """How much the turns of one version in one process differ: what hosting all versions cannot take away."""
    apart = {
        name: statistics.median(
            max(took) / min(took) - 1
            for process in row["within"]
            for version in (process["rounds"] or [{}])[0]
            if (took := [one[version] for one in process["rounds"]])
        )
        for name, row in rows.items()
    }
    if apart:
        shown = ", ".join(f"{100 * value:.0f} % ({name})" for name, value in sorted(apart.items(), key=lambda x: x[1]))
        yield "To host all versions in one process helps less than was hoped: the slowest and the fastest turn of one"
        yield f"version in one process, a few seconds apart, differ by {shown}"
        yield "(medians). What differs is the moment, not only the process."


def _shown_speed(speed: dict[str, Any] | None, what: str | None) -> str:
    if speed is None or (what and not counts_as(speed, what)):
        return ""
    return _speed(speed) + (f" [{speed[what]}]" if what else "")


def unsafe(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What was asked for with --unsafe: its losses against those of other seeds."""
    yield "Patched with `--unsafe`: thinned lines, guards that look every N batches, workers. The losses are held"
    yield "against the band of three seeds of the original, as `tracelens verify` does it"
    yield "(`tracelens/verify/compare/seed_tolerance.py`)."
    yield ""
    yield "| script | on | version | hunks | losses | against three seeds | lines printed |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        for name, version in row["versions"].items():
            if name.endswith(UNSAFE) and version.get("same_as"):
                yield f"| {row['name']} | {row['device']} | {name} | the same patch as {version['same_as']} | | | |"
            elif name.endswith(UNSAFE) and version.get("seed_noise"):
                yield f"| {row['name']} | {row['device']} | {name} | {' | '.join(_against_seeds(version))} |"


def _against_seeds(version: dict[str, Any]) -> Iterator[str]:
    noise = version["seed_noise"]
    yield ", ".join(f"{count} {kind}" for kind, count in version["hunks"].items())
    yield "the same" if noise["equal_losses"] else f"differ: {_one_line(version['difference'] or '', 80)}"
    outside = max((curve["outside_share"] for curve in noise["curves"]), default=None)
    share = f", {100 * outside:.0f} % of the blocks outside" if outside is not None else f": {noise['reason']}"
    yield f"{noise['verdict'] or 'no verdict'}{share}"
    yield " → ".join(map(str, noise["lines"]))


def versions(rows: list[dict[str, Any]], on_gpu: bool) -> Iterator[str]:
    yield "| script | version | numbers | interrupt | revert |" + (" waits per step before → after |" if on_gpu else "")
    yield "|---|---|---|---|---|" + ("---|" if on_gpu else "")
    for row in rows:
        shown = [
            (name, version)
            for name, version in row["versions"].items()
            if not name.endswith(UNSAFE) and ("difference" in version or version.get("same_as"))
        ]
        if row.get("not_comparable") or not any("difference" in version for _, version in shown):
            shown = []
        for name, version in shown:
            yield "| " + " | ".join(_cells(row, name, version, on_gpu)) + " |"
        if not shown:
            original = row.get("original") or {}
            more = f" {_waits(original)} |" if on_gpu else ""
            yield f"| {row['name']} | – | {_unpatched(row)} | | |{more}"


def _unpatched(row: dict[str, Any]) -> str:
    if row.get("not_comparable"):
        return f"not comparable: {_one_line(row['not_comparable'], 900)}"
    what = row.get("failed", row.get("cut_short"))
    return f"not compared: {_one_line(what)}" if what else "nothing to patch that fires in each batch, or declined"


def _cells(row: dict[str, Any], name: str, version: dict[str, Any], on_gpu: bool) -> Iterator[str]:
    scheme = row["recommended"]["scheme"] if name == "recommended" else name
    yield row["name"]
    advised = is_recommended(row, name) and not version.get("same_as")
    yield f"**{scheme}** (recommended)" if advised else scheme
    if version.get("same_as"):
        yield from (f"the same patch as {version['same_as']}", "", "", *([""] if on_gpu else ()))
        return
    under = ", det." if row.get("noise") else ""
    yield ("same" if version["difference"] is None else f"**{_one_line(version['difference'])}**") + under
    yield _at_an_interrupt(version)
    yield {True: "exact", False: "**not exact**", None: "–"}[version.get("revert_exact")]
    if on_gpu:
        yield f"{_waits(row['original'])} → {_waits(version)}"


def _at_an_interrupt(version: dict[str, Any]) -> str:
    if "lines_lost" in version:
        return f"{version['lines_lost']} lines lost, as said"
    late = version.get("interrupted_difference", "–")
    return {None: "same", NOT_REACHED: "not reached", "–": "–"}.get(late) or f"**{_one_line(late)}**"


def notes(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where each script is, what the tool says of it, and why places were left alone."""
    for row in rows:
        place = f"https://github.com/{row['repository']}/blob/{row['commit']}/{row['path']}"
        verdict = _one_line((row.get("recommended") or {}).get("verdict") or "", 300)
        if again := row.get("recorded_again"):
            verdict += f" {_recorded_again(again)}"
        patched = f"patched from {row.get('patched_from', 'every place')}"
        yield f"- {row['name']}: [{row['repository']} {row['path']}]({place}), {patched}. {verdict}".rstrip()
        reasons = Counter(
            one.split(": ", 1)[1]
            for one in sorted({one for version in row["versions"].values() for one in version.get("declined", ())})
        )
        for reason, count in reasons.most_common():
            yield f"    - declined at {count} place{'' if count == 1 else 's'}: {_one_line(reason, 200)}"


def _recorded_again(again: dict[str, Any]) -> str:
    """Another recording of the same script on another day's machine: what was recommended then, and its times."""
    ratios = [
        statistics.median(one["original"] / one["recommended"] for one in process["rounds"])
        for process in again["within"]
    ]
    said = f"Recorded again, alone on its GPU: {_one_line(again['recommended']['verdict'], 300)}"
    shown = " and ".join(f"{ratio:.3f}" for ratio in ratios)
    said += f" Timed in {len(ratios)} processes: {shown} x, too few for an interval."
    if before := again.get("before"):
        said += f" {before['scheme']} had been timed before: {_speed(before['speed_within'])}."
    return said


def races(value: dict[str, Any]) -> Iterator[str]:
    yield f"`{value['script']}` on an {value['device']}, ten runs of each variant, five at a time. A run is caught when"
    yield "its losses or weights differ from the plain copy's. `verify` runs a version with a copy stream of its own"
    yield "once more with freed GPU memory overwritten (`tracelens/verify/inside/freed_memory_fill.py`)."
    yield ""
    yield "| variant | runs with other numbers |"
    yield "|---|---|"
    for name, one in value["variants"].items():
        yield f"| {name} | {one['other_numbers']} of {one['runs']} |"


def _waits(value: dict[str, Any]) -> str:
    syncs = value.get("syncs")
    if syncs is None:
        return "not counted"
    kinds: Counter[str] = Counter()
    for place, count in syncs["places"].items():
        kinds[place.rsplit(" ", 1)[0]] += count
    return ", ".join(f"{kind} {count:.2f}" for kind, count in sorted(kinds.items()) if count >= 0.01) or "none"


def _steps(row: dict[str, Any], name: str) -> str:
    """Median, fastest and slowest process of the original, of the rounds in which the version ran."""
    took = [one["original"] / 1000 for one in row.get("rounds_us", ()) if name in one and "original" in one]
    if not took:
        return ""
    return f"{statistics.median(took):.1f} ({min(took):.1f} to {max(took):.1f})"


def _speed(speed: dict[str, Any]) -> str:
    interval = f"{speed['low']:.3f} to {speed['high']:.3f}"
    if not speed["tells"]:
        return "the pairs scatter too much"
    return interval if judged(speed) == "undecided" else f"{speed['value']:.3f} ({interval})"


def _one_line(text: str, most: int = 160) -> str:
    flat = " ".join(text.split()).replace("|", "/")
    return flat if len(flat) <= most else flat[: most - 1] + "…"
