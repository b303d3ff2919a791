"""The bundled training scripts, patched for every scheme and run on the CPU: same lines, whatever the scheme."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.patching import assert_same, patched_text
from tests.support.places import SAMPLES
from tracelens.model import Edit, Location
from tracelens.patch.recipes import PatchOptions, make

CASES = sorted(path.parent.name for path in SAMPLES.glob("*/train.py"))
PATTERNS = {
    "defer-read": ".item()",
    "event-sync": "torch.cuda.synchronize()",
    "interval-sync": "torch.cuda.synchronize()",
    "async-copy": " = ",
    "prefetch": " = ",
}
SCHEMES = {
    "more-streams": ("async-copy", "prefetch"),
    "event-sync": ("event-sync", "defer-read"),
    "interval-sync": ("interval-sync", "defer-read"),
    "event-interval": ("event-sync", "interval-sync", "defer-read"),
    "full-pipeline": ("event-sync", "interval-sync", "defer-read", "async-copy", "prefetch"),
}
INTERVALS = {"event-sync": {"defer-read": 1, "event-sync": 1}}
ARGUMENTS = {
    "sync_every_batch": ("--epochs", "2", "--batches", "13", "--width", "64", "--batch-size", "4"),
    "loader_bound": ("--batches", "53", "--workers", "0", "--words", "20", "--batch-size", "4"),
    "gpu_bound": ("--batches", "53", "--batch-size", "2", "--context", "16", "--depth", "1"),
}


def edits(text: str, scheme: str) -> tuple[Edit, ...]:
    out = []
    for kind in SCHEMES[scheme]:
        lines = [n for n, line in enumerate(text.splitlines(), 1) if _fires(line, kind)]
        places = tuple(Location("train.py", n) for n in lines)
        interval = INTERVALS.get(scheme, {}).get(kind, 10)
        if places:
            out.append(Edit(kind, locations=places, interval=interval, depth=1))  # type: ignore[arg-type]
    return tuple(out)


def _fires(line: str, kind: str) -> bool:
    inside = line.startswith("            ") or (line.startswith("        ") and not line.startswith("         "))
    if kind in ("async-copy", "prefetch"):
        return inside and ".to(device" in line
    return inside and PATTERNS[kind] in line


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", CASES)
def test_every_scheme_is_made_on_every_sample(case: str, scheme: str, tmp_path: Path) -> None:
    text = (SAMPLES / case / "train.py").read_text()
    (tmp_path / "train.py").write_text(text)
    patch = make(tmp_path, tmp_path / "train.py", edits(text, scheme), (), PatchOptions(unsafe=True))
    if scheme in ("event-sync", "interval-sync", "event-interval"):
        assert patch.declined == ()
        after = patched_text(patch).splitlines() if patch.files else []
        below = {line.strip() for above, line in pairwise(after) if "batches_issued % 10 == 0:" in above}
        often = {line.strip() for line in after} - below
        waiting = {place.line for edit in edits(text, scheme) for place in edit.locations if place.line}
        assert [n for n in waiting if text.splitlines()[n - 1].strip() in often] == []


RUNS = [(case, "full-pipeline") for case in CASES] + [("sync_every_batch", "event-sync")]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "scheme"), RUNS)
def test_the_patched_samples_print_the_same(case: str, scheme: str, tmp_path: Path) -> None:
    text = (SAMPLES / case / "train.py").read_text()
    (tmp_path / "train.py").write_text(text)
    patch = make(tmp_path, tmp_path / "train.py", edits(text, scheme), (), PatchOptions(unsafe=True))
    left = assert_same(tmp_path, text, patch, ARGUMENTS.get(case, ("--batches", "53")))
    assert left.ending == ""
    assert "loss" in left.output or "D " in left.output
