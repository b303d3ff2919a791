"""docs/dynamic.md from the rows in docs/data/dynamic: `python tests/dynamic/table.py > docs/dynamic.md`.

In: one JSON file per row, as run.py wrote it. Out: the page. Every row is in it, also those that were declined, that
gained nothing, that failed or were cut short; the numbers on top are counted from the same files.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "docs" / "data" / "dynamic"
NOT_REACHED = "the script ended before that step"
OBSERVER = ("numbers.py", "clock.py")
"""Where our own observer waits once, after the last step."""
EVERY_BATCH = 0.95
"""A place that waits in so many of the steps waits in each batch; others are guarded."""
FOLDERS = {"h200": "On an H200", "cpu": "On the CPU, every place assumed to fire"}
HEAD = """\
# The dynamic corpus: public scripts, original against patched

Made by `python tests/dynamic/table.py > docs/dynamic.md` from the files in `docs/data/dynamic`.

Public single-file training scripts that we did not write, with synthetic data in place of downloads. The manifest
(`tests/dynamic/manifest.json`) names repository, path, commit and arguments; the scripts are no part of this project.
`python tests/dynamic/run.py DIR --results OUT --gpus N` runs them again from a folder DIR that holds them.

Per script the original runs twice, each patched version once. Where two originals differ, everything is compared again
under deterministic algorithms ("det."). **Numbers** are equal when every loss that backward starts from, every weight
and buffer at the end, and every printed line, in order, are the same bit for bit; tokens that differ between the two
originals (times) are masked. **Interrupt** is a SIGINT at the end of a step in mid-epoch: "same" means that what was
printed before it, and the weights, equal those of the original interrupted at the same step, so that no line of a
finished batch is lost. **Waits** are the calls per step at which the host waits for the GPU, counted by torch's own
warnings and by wrapping the explicit ones: reads of values, copies to the GPU, synchronizes; of a patched script also
its drain, and the prefetcher's gate, which waits for a batch four steps back. **Speed** is step time of the original ÷
patched, from interleaved fresh processes, with its 95 % interval. `event-interval` and `full-pipeline` are patched
because they were asked for by name, whether they pay or not; what is recommended is marked.
"""


def page(data: Path = DATA) -> str:
    """The whole page."""
    parts = [HEAD]
    for folder, title in FOLDERS.items():
        rows = rows_of(data / folder)
        if rows:
            sections = (_summary(rows), _table(rows, folder == "h200"), _notes(rows))
            parts += [f"## {title}\n", *("\n".join(lines) + "\n" for lines in sections)]
    races = data / "h200" / "races.json"
    if races.is_file():
        parts += ["## A prefetcher without `record_stream`\n", "\n".join(_races(json.loads(races.read_text()))) + "\n"]
    return "\n".join(parts)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    values = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [value for value in values if "versions" in value]


def compared(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(row, name, version) of every patched version whose numbers were compared."""
    return [
        (row, name, version)
        for row in rows
        for name, version in row["versions"].items()
        if "difference" in version and version["difference"] != "not comparable"
    ]


def reads_in_each_batch(value: dict[str, Any]) -> int | None:
    """Places at which a value is read in every batch; None where waits were not counted."""
    syncs = value.get("syncs")
    if syncs is None:
        return None
    return sum(place.startswith("read ") and count >= EVERY_BATCH for place, count in syncs["places"].items())


def is_recommended(row: dict[str, Any], name: str) -> bool:
    return name in ("recommended", (row.get("recommended") or {}).get("scheme"))


def _summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    found = compared(rows)
    versions = [version for _, _, version in found]
    losses, lines = (sum((one.get("compared") or {}).get(key, 0) for one in versions) for key in ("losses", "lines"))
    tried = [one for one in versions if one.get("interrupted_difference") != NOT_REACHED]
    reverted = [one for one in versions if "revert_exact" in one]
    scripts = {row["name"] for row, _, _ in found}
    yield f"- {len(rows)} scripts; {len(scripts)} of them were compared, in {len(found)} patched versions."
    changed = sum(one["difference"] is not None for one in versions)
    yield f"- Changed numbers: **{changed}** of {len(versions)} ({losses:,} losses, {lines:,} printed lines compared)."
    lost = sum(one["interrupted_difference"] is not None for one in tried)
    yield f"- Interrupts that lost a line or changed a weight: **{lost}** of {len(tried)}."
    yield f"- Reverts that were not exact: **{sum(not one['revert_exact'] for one in reverted)}** of {len(reverted)}."
    yield from _gains(found)


def _gains(found: list[tuple[dict[str, Any], str, dict[str, Any]]]) -> Iterator[str]:
    """What the summary says of waits and speed, where they were measured."""
    deferred = [(row, one) for row, _, one in found if "defer-read" in one["hunks"] and one.get("syncs")]
    if deferred:
        before = sum(reads_in_each_batch(row["original"]) or 0 for row, _ in deferred)
        after = sum(reads_in_each_batch(one) or 0 for _, one in deferred)
        yield f"- Reads in every batch, over the {len(deferred)} versions that defer them: {before}, then **{after}**."
    timed = [one["speed"] for _, _, one in found if "speed" in one]
    if timed:
        advised = [one["speed"]["value"] for row, name, one in found if is_recommended(row, name) and "speed" in one]
        decided = sum(one["low"] > 1 or one["high"] < 1 for one in timed)
        slow = sum(value < 0.99 for value in advised)
        yield f"- Recommended versions timed with an interval: {len(advised)}, of which below 0.99 x: {slow}."
        yield f"- Intervals that decide about a speed: {decided} of {len(timed)}; each is of two or three pairs, and"
        yield "  four loops shared one host."


def _table(rows: list[dict[str, Any]], on_gpu: bool) -> Iterator[str]:
    yield "| script | version | numbers | interrupt | revert |" + (
        " waits per step before → after | step, ms | speed |" if on_gpu else ""
    )
    yield "|---|---|---|---|---|" + ("---|---|---|" if on_gpu else "")
    for row in rows:
        shown = [
            (name, version)
            for name, version in row["versions"].items()
            if "difference" in version or version.get("same_as")
        ]
        if not any("difference" in version for _, version in shown):
            shown = []
        for name, version in shown:
            yield "| " + " | ".join(_cells(row, name, version, on_gpu)) + " |"
        if not shown:
            original = row.get("original") or {}
            more = f" {_waits(original)} | {_step(original)} | |" if on_gpu else ""
            yield f"| {row['name']} | – | {_unpatched(row)} | | |{more}"


def _unpatched(row: dict[str, Any]) -> str:
    what = row.get("failed", row.get("cut_short"))
    return f"not compared: {_one_line(what)}" if what else "nothing to patch that fires in each batch, or declined"


def _cells(row: dict[str, Any], name: str, version: dict[str, Any], on_gpu: bool) -> Iterator[str]:
    scheme = row["recommended"]["scheme"] if name == "recommended" else name
    yield row["name"]
    yield f"**{scheme}** (recommended)" if is_recommended(row, name) else scheme
    if version.get("same_as"):
        yield from (f"the same patch as {version['same_as']}", "", "", *([""] * 3 if on_gpu else ()))
        return
    under = ", det." if row.get("noise") else ""
    yield ("same" if version["difference"] is None else f"**{_one_line(version['difference'])}**") + under
    late = version.get("interrupted_difference", "not tried")
    yield {None: "same", NOT_REACHED: "not reached"}.get(late) or f"**{_one_line(late)}**"
    yield {True: "exact", False: "**not exact**", None: "not tried"}[version.get("revert_exact")]
    if on_gpu:
        yield f"{_waits(row['original'])} → {_waits(version)}"
        yield f"{_step(row['original'])} → {_step(version)}"
        yield _speed(row["original"], version)


def _notes(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where each script is, what the tool says of it, and why places were left alone."""
    for row in rows:
        place = f"https://github.com/{row['repository']}/blob/{row['commit']}/{row['path']}"
        verdict = _one_line((row.get("recommended") or {}).get("verdict") or "", 300)
        patched = f"patched from {row.get('patched_from', 'every place')}"
        yield f"- {row['name']}: [{row['repository']} {row['path']}]({place}), {patched}. {verdict}".rstrip()
        reasons = Counter(
            one.split(": ", 1)[1]
            for one in sorted({one for version in row["versions"].values() for one in version.get("declined", ())})
        )
        for reason, count in reasons.most_common():
            yield f"    - declined at {count} place{'' if count == 1 else 's'}: {_one_line(reason, 200)}"


def _races(value: dict[str, Any]) -> Iterator[str]:
    yield f"`{value['script']}` on an {value['device']}, ten runs of each variant, five at a time. A run is caught when"
    yield "its losses or weights differ from the plain copy's. `verify` runs a version with a copy stream of its own"
    yield "once more with freed GPU memory overwritten (`tracelens/verify/inside/poison.py`)."
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
        kind, where = place.rsplit(" ", 1)
        if where.rsplit(":", 1)[0] not in OBSERVER:
            kinds[kind] += count
    return ", ".join(f"{kind} {count:.2f}" for kind, count in sorted(kinds.items()) if count >= 0.01) or "none"


def _step(value: dict[str, Any]) -> str:
    steps = value.get("step_us")
    return f"{statistics.median(steps) / 1000:.2f}" if steps else "–"


def _speed(original: dict[str, Any], version: dict[str, Any]) -> str:
    speed, before, after = version.get("speed"), original.get("step_us"), version.get("step_us")
    if speed:
        low, high = (f"{speed[key]:.3f}" for key in ("low", "high"))
        return f"{speed['value']:.3f} ({low} to {high}, {speed['pairs']} pairs)"
    return f"{before[0] / after[0]:.3f} (one pair)" if before and after else "not timed"


def _one_line(text: str, most: int = 160) -> str:
    flat = " ".join(text.split()).replace("|", "/")
    return flat if len(flat) <= most else flat[: most - 1] + "…"


if __name__ == "__main__":
    sys.stdout.write(page())
