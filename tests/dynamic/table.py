"""docs/dynamic.md from the rows in docs/data/dynamic: `python tests/dynamic/table.py > docs/dynamic.md`.

In: one JSON file per row, as run.py wrote it. Out: the page. Every row is in it, also those that were declined, that
gained nothing, that failed or were cut short; the numbers on top are counted from the same files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.dynamic import tables  # noqa: E402
from tests.dynamic.facts import (  # noqa: E402
    BY_HAND,
    NEVER_BELOW,
    NOT_REACHED,
    best_of,
    compared,
    is_recommended,
    reads_in_each_batch,
    rows_of,
    says,
    timed,
)

DATA = ROOT / "docs" / "data" / "dynamic"
WORTH = 1.03
"""A hand-made variant that gains less is no yardstick."""
SHARE_OF_HAND = 0.85
UNSAFE_HEAD = 5
"""Lines above the rows of that table."""
LONG = 1000
"""Steps over which memory must be flat."""
NEWEST = "h200_27_november"
"""Of the patcher as it is: what it changes is counted on top."""
FOLDERS = {
    NEWEST: "On an H200 by the patcher of commit 6629286, every place assumed to fire, checked hunks too",
    "h200_27_november_timed": "On an H200 by the patcher of commit 6629286, recorded and timed: dcgan and diffusion",
    "h200": "Every row on an H200",
    "h200_again": "On an H200 once more, fourteen of the rows by the patcher of commit bd7bb8d",
    "h200_engine": "On an H200 by the patcher of commit abe5e89: twelve of the rows left, and dcgan and diffusion",
    "cpu": "On the CPU, every place assumed to fire",
}
SESSIONS = {
    NEWEST: "Four at a time on one GPU with three and a half cores each, with another training beside them; nothing was"
    ' timed. "--checked" has the hunks that a trial has to confirm as a Run gets them, "--checked, plain" as'
    " `tracelens patch --checked` writes them. What these lose where they are stopped the hunks say. The original of"
    " imagenet, whose loader has twelve workers, did not end in 130 s; softmax_gan fails without a patch, and in dino"
    " nothing is patched. Our own tests that need a GPU ran the same day on two H200: 32 passed in 122 s (runtime,"
    " arrays, timing, overwritten storage), beside them those of signals, of a kernel and of a collective that hang.",
    "h200_27_november_timed": "Each alone on one of two GPUs, with sixteen cores.",
    "h200_engine": "dcgan and diffusion were recorded and compared side by side, then the others, five at a time on one"
    " GPU; what is timed had it alone.",
}
"""What is to be known of a session before its numbers."""
HEAD = """\
# The dynamic corpus: public scripts, original against patched

Public training scripts that we did not write, with synthetic data in place of downloads: what TraceLens makes of them,
held against what they were. Made by `python tests/dynamic/table.py > docs/dynamic.md` from the files in
`docs/data/dynamic`; no number on this page is typed. The rows of the CPU, but for dino and dino_linear, were made
before the patcher had learned the last of what [patching](patching.md) names.
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
            found = tables.versions(rows, folder in ("h200", NEWEST))
            sections = (_counts(rows), found, tables.notes(rows), _speeds(folder, rows))
            said = [f"{SESSIONS[folder]}\n"] if folder in SESSIONS else []
            parts += [f"## {title}\n", *said, *(text + "\n" for lines in sections if (text := "\n".join(lines)))]
    unsafe = list(tables.unsafe([row for folder in FOLDERS for row in rows_of(data / folder)]))
    if len(unsafe) > UNSAFE_HEAD:
        parts += ["## With --unsafe\n", "\n".join(unsafe) + "\n"]
    races = data / "h200" / "races.json"
    if races.is_file():
        parts += [
            "## A prefetcher without `record_stream`\n",
            "\n".join(tables.races(json.loads(races.read_text()))) + "\n",
        ]
    return "\n".join(parts)


def _speeds(folder: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """The times of a later session; those of the first are at the top of the page."""
    times = timed(rows)
    if folder != "h200" and times:
        yield from (*_paid(rows), "", *tables.speeds(times))


def _short(data: Path) -> Iterator[str]:
    """What was tried on the GPU, what changed, what paid."""
    rows = rows_of(data / "h200")
    if not rows:
        return
    yield "## In short\n"
    newest = rows_of(data / NEWEST)
    if newest:
        yield f"{FOLDERS[NEWEST]}:\n"
        yield "\n".join((*_counts(newest), *_waits_left(newest))) + "\n"
        yield f"{FOLDERS['h200']}, by earlier patchers:\n"
    parts = (_tried(rows), _counts(rows), _waits_left(rows), _memory(rows), _paid(rows), _own_tests(data / "h200"))
    yield "\n".join(line for part in parts for line in part) + "\n"
    times = timed(rows)
    if times:
        yield "\n".join(tables.speeds(times)) + "\n"


def _tried(rows: list[dict[str, Any]]) -> Iterator[str]:
    patched = {row["name"] for row, name, _ in compared(rows) if name != BY_HAND}
    advised = [row["name"] for row in rows if "recommended" in row["versions"]]
    left = [row["name"] for row in rows if row["name"] not in patched]
    yield f"- **Tried:** {len(rows)} runs of public scripts on an H200. For {len(patched)} there is a patch and it was"
    yield f"  compared; in {len(left)} nothing that fires in each batch can be patched, or the script itself fails."
    if several := [row["name"] for row in rows if row.get("compared_at_once", 1) > 1]:
        yield f"  Recorded and compared two at a time on one GPU, eight processor cores each: {', '.join(several)};"
        yield "  all others one at a time, and so was whatever was timed."
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
    """Reads before and after, over the versions that defer reads; plain lines still read value by value, of ten batches
    at once."""
    found = [
        (row, name, one)
        for row, name, one in compared(rows)
        if "defer-read" in one["hunks"] and one.get("syncs") and "lines_lost" not in one
    ]
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


if __name__ == "__main__":
    sys.stdout.write(page())
