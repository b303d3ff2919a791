"""docs/dynamic.md from the rows in docs/data/dynamic: `python tests/dynamic/table.py > docs/dynamic.md`.

In: one JSON file per row, as run.py wrote it. Out: the page. Every row is in it, also those that were declined, that
gained nothing, that failed or were cut short; the numbers on top are counted from the same files.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "docs" / "data" / "dynamic"
NOT_REACHED = "the script ended before that step"
BY_HAND = "by hand"
UNSAFE = " --unsafe"
EVERY_BATCH = 0.95
"""A place that waits in so many of the steps waits in each batch; others are guarded."""
PREDICTED = re.compile(r"[+-][\d.]+ % \([^)]*?%")
"""In the verdict: the predicted gain and its range."""
NEVER_BELOW = 0.99
"""What no recommended patch may measure below."""
WORTH = 1.03
"""A hand-made variant that gains less is no yardstick."""
SHARE_OF_HAND = 0.85
UNSAFE_HEAD = 5
"""Lines above the rows of that table."""
LONG = 1000
"""Steps over which memory must be flat."""
LEAST_PAIRS = 3
"""As in `tracelens verify`: fewer pairs say nothing."""
FOLDERS = {"h200": "Every row on an H200", "cpu": "On the CPU, every place assumed to fire"}
HEAD = """\
# The dynamic corpus: public scripts, original against patched

Public training scripts that we did not write, with synthetic data in place of downloads: what TraceLens makes of them,
held against what they were. Made by `python tests/dynamic/table.py > docs/dynamic.md` from the files in
`docs/data/dynamic`; no number on this page is typed. The rows of the H200 were made with everything that
[patching](patching.md) names; those of the CPU, but for dino and dino_linear, before the patcher had learned the last
of it.
"""
METHOD = """\
## How it is measured

The manifest (`tests/dynamic/manifest.json`) names repository, path, commit and arguments; the scripts are no part of
this project. `python tests/dynamic/run.py DIR --results OUT --gpus N --rounds 5` runs all of them again from a folder
DIR that holds them.

Per script the original runs twice, each patched version once. Where two originals differ, everything is compared under
deterministic algorithms ("det."). **Numbers** are equal when every loss that backward starts from, every weight and
buffer at the end, and every printed line, in order, are the same bit for bit; tokens that differ between the two
originals (times) are masked. **Interrupt** is a SIGINT at the end of a step in mid-epoch: "same" means that what was
printed before it, and the weights, equal those of the original interrupted at the same step, so that no line of a
finished batch is lost. **Waits** are the calls per step at which the host waits for the GPU, counted by torch's own
warnings and by wrapping the explicit ones: reads of values, copies to the GPU, synchronizes, checkpoints; of a patched
script also its drain, and the prefetcher's gate, which waits for a batch four steps back. **Speed** is step time of the
original ÷ patched with its 95 % interval, one process per GPU and sixteen processor cores, taken in two ways. *Fresh
processes*: original and versions by turns, every second round in reverse order, each forked from a process that has
imported torch and has never touched a GPU. *One process*: all versions are threads of one process, each a run of the
whole script; all but one hold still at the start of a batch, with the GPU idle and their loader's workers stopped; a
turn is ten steps that do not count and some tens that do, timed by CUDA events (`tests/dynamic/within.py`). What one
process is slower by than the next (its cores, clock, memory) is then the same for all its versions. Each process counts
once, with the median of its rounds; the original takes part twice, and what the second one shows is the method's error.

`event-interval` and `full-pipeline` are patched because they were asked for by name, whether they pay or not; what is
recommended is marked. "By hand" is what somebody who knows the script would change (pinned loader, non-blocking copies,
fewer reads, fewer printed lines): the replaced texts are in the manifest. Its losses and weights are compared, its
output is not.
"""


def page(data: Path = DATA) -> str:
    """The whole page."""
    parts = [HEAD, *_short(data), METHOD]
    for folder, title in FOLDERS.items():
        rows = rows_of(data / folder)
        if rows:
            sections = (_counts(rows), _table(rows, folder == "h200"), _notes(rows))
            parts += [f"## {title}\n", *("\n".join(lines) + "\n" for lines in sections)]
    unsafe = list(_unsafe([row for folder in FOLDERS for row in rows_of(data / folder)]))
    if len(unsafe) > UNSAFE_HEAD:
        parts += ["## With --unsafe\n", "\n".join(unsafe) + "\n"]
    races = data / "h200" / "races.json"
    if races.is_file():
        parts += ["## A prefetcher without `record_stream`\n", "\n".join(_races(json.loads(races.read_text()))) + "\n"]
    return "\n".join(parts)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    values = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [value for value in values if isinstance(value, dict) and "versions" in value]


def compared(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(row, name, version) of every patched version whose numbers were compared."""
    return [
        (row, name, version)
        for row in rows
        for name, version in row["versions"].items()
        if "difference" in version and version["difference"] != "not comparable" and not name.endswith(UNSAFE)
    ]


def reads_in_each_batch(value: dict[str, Any]) -> int | None:
    """Places at which a value is read in every batch; None where waits were not counted."""
    syncs = value.get("syncs")
    if syncs is None:
        return None
    return sum(place.startswith("read ") and count >= EVERY_BATCH for place, count in syncs["places"].items())


def timed(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(row, name, version) of every version with enough pairs; what matters comes first."""
    found = [
        (row, name, version)
        for row in rows
        for name, version in row["versions"].items()
        if _counts_as(version.get("speed"), "pairs") or _counts_as(version.get("speed_within"), "processes")
    ]
    return sorted(
        found, key=lambda one: (not is_recommended(one[0], one[1]), one[1] != BY_HAND, one[1], one[0]["name"])
    )


def _counts_as(speed: dict[str, Any] | None, what: str) -> bool:
    return speed is not None and speed[what] >= LEAST_PAIRS


def best_of(version: dict[str, Any]) -> dict[str, Any] | None:
    """The speed to judge by: where processes hosted all versions theirs, else that of fresh processes."""
    inside, fresh = version.get("speed_within"), version.get("speed")
    if _counts_as(inside, "processes"):
        return inside
    return fresh if _counts_as(fresh, "pairs") else None


def judged(speed: dict[str, Any] | None) -> str:
    """What an interval says."""
    if speed is None:
        return "not timed"
    if speed["high"] < NEVER_BELOW:
        return "slower"
    if speed["low"] > 1:
        return "faster"
    return "not slower" if speed["low"] >= NEVER_BELOW else "undecided"


def says(row: dict[str, Any], version: dict[str, Any]) -> str:
    """What is known of a version's speed; nothing, where the original differs from itself by as much."""
    speed, again = best_of(version), row["original"].get("speed_within")
    said = judged(speed)
    blind = (
        again is not None and speed is version.get("speed_within") and again["low"] <= speed["value"] <= again["high"]
    )
    return "undecided" if blind and said in ("faster", "slower") else said


def is_recommended(row: dict[str, Any], name: str) -> bool:
    return name in ("recommended", (row.get("recommended") or {}).get("scheme"))


def _short(data: Path) -> Iterator[str]:
    """What was tried on the GPU, what changed, what paid."""
    rows = rows_of(data / "h200")
    if not rows:
        return
    yield "## In short\n"
    parts = (_tried(rows), _counts(rows), _waits_left(rows), _memory(rows), _paid(rows), _own_tests(data / "h200"))
    yield "\n".join(line for part in parts for line in part) + "\n"
    times = timed(rows)
    if times:
        yield "\n".join(_speeds(times)) + "\n"


def _tried(rows: list[dict[str, Any]]) -> Iterator[str]:
    patched = {row["name"] for row, name, _ in compared(rows) if name != BY_HAND}
    advised = [row["name"] for row in rows if "recommended" in row["versions"]]
    left = [row["name"] for row in rows if row["name"] not in patched]
    yield f"- **Tried:** {len(rows)} runs of public scripts on an H200. For {len(patched)} there is a patch and it was"
    yield f"  compared; in {len(left)} nothing that fires in each batch can be patched, or the script itself fails."
    yield f"- **Recommended:** a patch for {len(advised)} of them ({', '.join(advised) or 'none'}); for the others the"
    yield "  advice is to do nothing, and what is patched below was asked for by name."


def _counts(rows: list[dict[str, Any]]) -> Iterator[str]:
    found = [one for one in compared(rows) if one[1] != BY_HAND]
    versions = [version for _, _, version in found]
    losses, lines = (sum((one.get("compared") or {}).get(key, 0) for one in versions) for key in ("losses", "lines"))
    reached = [one for one in versions if one.get("interrupted_difference", NOT_REACHED) != NOT_REACHED]
    reverted = [one for one in versions if "revert_exact" in one]
    changed = sum(one["difference"] is not None for one in versions)
    scripts = len({row["name"] for row, _, _ in found})
    yield f"- **Numbers** changed in **{changed}** of {len(versions)} patched versions of {scripts} scripts"
    yield f"  ({losses:,} losses and {lines:,} printed lines were compared)."
    lost = sum(one["interrupted_difference"] is not None for one in reached)
    yield f"- **Interrupts** that lost a line or changed a weight: **{lost}** of {len(reached)}; **reverts** that were"
    yield f"  not exact: **{sum(not one['revert_exact'] for one in reverted)}** of {len(reverted)}."


def _waits_left(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Reads before and after, over the versions that defer them."""
    found = [(row, name, one) for row, name, one in compared(rows) if "defer-read" in one["hunks"] and one.get("syncs")]
    if not found:
        return
    before = sum(reads_in_each_batch(row["original"]) or 0 for row, _, _ in found)
    after = sum(reads_in_each_batch(one) or 0 for _, _, one in found)
    kept = sorted({row["name"] for row, _, one in found if reads_in_each_batch(one)})
    yield f"- **Waits:** places that read a value in every batch, over the {len(found)} versions that defer reads:"
    yield f"  {before} before, **{after}** after" + (f" ({', '.join(kept)}; the reason is below)." if kept else ".")


def _memory(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Growth beyond the original's, in versions that were watched long enough."""
    found = [
        one["memory"]["device_growth_bytes"] - row["original"]["memory"]["device_growth_bytes"]
        for row, name, one in compared(rows)
        if name != BY_HAND and (one.get("memory") or {}).get("steps", 0) >= LONG
    ]
    if found:
        yield f"- **Memory** on the GPU over {LONG:,} steps, in {len(found)} patched versions: at most"
        yield f"  **{max(0, *found):,}** bytes more growth than in the original."


def _paid(rows: list[dict[str, Any]]) -> Iterator[str]:
    times = timed(rows)
    if not times:
        return
    said = Counter(says(row, version) for row, name, version in times if is_recommended(row, name))
    parts = [f"{count} {what}" for what, count in said.items()]
    yield f"- **Speed** of the recommended versions, by their intervals: {', '.join(parts) or 'not measured'}; below"
    yield f"  {NEVER_BELOW} x: **{said['slower']}**. All that were timed are in the table below."
    left = sorted({row["name"] for row, _, _ in compared(rows)} - {row["name"] for row, _, _ in times})
    if left:
        yield f"- **Not timed**, for want of time on the machine: {', '.join(left)}."
    for row in rows:
        speeds = {name: best_of(version) for name, version in row["versions"].items()}
        hand, own = speeds.get(BY_HAND), speeds.get("recommended")
        if hand and own and hand["value"] > WORTH and hand["low"] > 1:
            share = (own["value"] - 1) / (hand["value"] - 1)
            yield f"- **By hand** {row['name']} gains {100 * (hand['value'] - 1):.1f} %, the recommended patch"
            yield f"  {100 * (own['value'] - 1):.1f} %: {share:.2f} of it (at least {SHARE_OF_HAND} is the aim)."


def _own_tests(folder: Path) -> Iterator[str]:
    if (folder / "tests.json").is_file():
        for one in json.loads((folder / "tests.json").read_text()):
            files = ", ".join(Path(file).name for file in one["files"])
            yield f"- **Our own tests that need a GPU**, on the same machine, {files}: {one['ended']}."


def _speeds(times: list[tuple[dict[str, Any], str, dict[str, Any]]]) -> Iterator[str]:
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
    if then := {row["rounds_of"] for row, _, _ in times if row.get("rounds_of")}:
        yield f"The pairs of fresh processes were timed {'; '.join(sorted(then))}."
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
    if speed is None or (what and not _counts_as(speed, what)):
        return ""
    return _speed(speed) + (f" [{speed[what]}]" if what else "")


def _unsafe(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What was asked for with --unsafe: its losses against those of other seeds."""
    yield "Patched with `--unsafe`: thinned lines, guards that look every N batches, workers. The losses are held"
    yield "against the band of three seeds of the original, as `tracelens verify` does it (`tracelens/verify/band.py`)."
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


def _table(rows: list[dict[str, Any]], on_gpu: bool) -> Iterator[str]:
    yield "| script | version | numbers | interrupt | revert |" + (" waits per step before → after |" if on_gpu else "")
    yield "|---|---|---|---|---|" + ("---|" if on_gpu else "")
    for row in rows:
        shown = [
            (name, version)
            for name, version in row["versions"].items()
            if not name.endswith(UNSAFE) and ("difference" in version or version.get("same_as"))
        ]
        if not any("difference" in version for _, version in shown):
            shown = []
        for name, version in shown:
            yield "| " + " | ".join(_cells(row, name, version, on_gpu)) + " |"
        if not shown:
            original = row.get("original") or {}
            more = f" {_waits(original)} |" if on_gpu else ""
            yield f"| {row['name']} | – | {_unpatched(row)} | | |{more}"


def _unpatched(row: dict[str, Any]) -> str:
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
    late = version.get("interrupted_difference", "–")
    yield {None: "same", NOT_REACHED: "not reached", "–": "–"}.get(late) or f"**{_one_line(late)}**"
    yield {True: "exact", False: "**not exact**", None: "–"}[version.get("revert_exact")]
    if on_gpu:
        yield f"{_waits(row['original'])} → {_waits(version)}"


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


if __name__ == "__main__":
    sys.stdout.write(page())
