"""Does a placement of its own make the processes of a loop agree? Asked of tuning loops before anything is measured.

In: a worker's share. Out: `pilot-N.json`. Each worker runs one loop as it is, its processes in turn with all CPUs of
the share in common and with the training process apart from its loader workers. Beside it: what a first touch of
memory costs on this machine, when it is fresh, when it was given back just now, and a while ago.
"""

from __future__ import annotations

import json
import mmap
import time
from dataclasses import replace
from pathlib import Path

from tests.accuracy import arm as arms
from tests.accuracy import rows as listed
from tests.accuracy.placement import Share, described
from tests.accuracy.rounds import Row, Setting
from tests.accuracy.stats import center, half_width, median

LOOPS = (("resnet18-b128", 27_000), ("mlp-w0", 4200), ("lstm_lm-small", 4300), ("mlp-w4", 4100))
"""Per worker, with its step in µs: many loader workers, none, a small model, a loop that waits for its loader."""
TURNS = 5
TOUCHED = 256 << 20
PAGE = 4096


def measured(number: int, setting: Setting, place: Share) -> None:
    """Run this worker's loop under both placements, in turn."""
    name, step_us = LOOPS[number % len(LOOPS)]
    row = next(row for row in listed.ROWS if row.name == name)
    sides = {}
    for word, side in (("shared", arms.EVERYWHERE), ("apart", place)):
        one = Row(row, setting.out / "work" / f"pilot-{number}-{word}", replace(setting, place=side, placement=word))
        one.step_us = step_us
        sides[word] = one
    for _ in range(TURNS):
        for one in sides.values():
            if time.time() < setting.stop:
                one.run("base")
    found: dict[str, object] = {"row": name, "own": place.own, "loaders": place.loaders, "machine": described()}
    found |= {word: one.arms for word, one in sides.items()}
    if number == 0:
        found["touch_us_per_page"] = _touches(setting.out)
    (setting.out / f"pilot-{number}.json").write_text(json.dumps(found), encoding="utf-8")


def summary(out: Path) -> str:
    """A line per loop and placement."""
    lines = []
    for path in sorted(out.glob("pilot-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        for word in ("shared", "apart"):
            times = [median(arm["block_us"]) for arm in found[word]]
            if len(times) > 1:
                steps = " ".join(f"{value / 1e3:.2f}" for value in times)
                spread = f"{center(times) / 1e3:6.2f} ms ±{100 * half_width(times):4.1f} %: {steps}"
                troubles = [(arm["displaced"], arm["stolen_ticks"]) for arm in found[word]]
                lines.append(f"{found['row']:15s} {word:7s} {spread} | displaced, stolen {troubles}")
        lines.append(
            f"   own {found['own']} loaders {found['loaders']} {found['machine'] if path.stem[-1] == '0' else ''}"
        )
        lines += [f"   touch, µs per page: {found['touch_us_per_page']}"] if "touch_us_per_page" in found else []
    return "\n".join(lines)


def _touches(out: Path) -> dict[str, float]:
    found = {}
    file = out / "touch.json"
    for word, wait in (("fresh", 0.0), ("again", 0.0), ("again after 5 s", 5.0)):
        time.sleep(wait)
        if arms.forked(lambda: _write(file, _touch()), 60.0, out / "touch.log"):
            found[word] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _write(file: Path, value: float) -> None:
    file.write_text(json.dumps(value), encoding="utf-8")


def _touch() -> float:
    """µs per page of writing to each page of new memory once."""
    with mmap.mmap(-1, TOUCHED) as memory:
        started = time.perf_counter()
        memory[::PAGE] = bytes([1]) * (TOUCHED // PAGE)
        return round((time.perf_counter() - started) * 1e6 / (TOUCHED // PAGE), 3)
