"""What looks at a clock does so in its batch: a meter of speed whose call came later would tell another speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import defer, patch_of, patched_text, script
from tracelens.model import Edit, Location

METERS = """
import time, datetime
class AverageMeter:
    def __init__(self): self.sum = 0.0
    def update(self, v): self.sum += v
class Speed:
    def __init__(self): self.last = {clock}
    def update(self, v):
        now = {clock}
        print(f"{{1 / (now - self.last):.1f}} it/s, loss {{v:.3f}}")
        self.last = now
{made}
for i, (x, y) in enumerate(loader):
    STEP
    {line}  # fires
"""

CLOCK = "time.perf_counter()"
STAYS = {
    "a meter of speed": (CLOCK, "meter = Speed()", "meter.update(loss.item())"),
    "a date that is computed with": ("datetime.datetime.now()", "meter = Speed()", "meter.update(loss.item())"),
    "a clock by another name": ("clock()", "clock = time.time\nmeter = Speed()", "meter.update(loss.item())"),
    "behind a function": (
        CLOCK,
        "m = Speed()\nclass L:\n    def put(self, v): m.update(v)\nlog = L()",
        "log.put(loss.item())",
    ),
    "one of a dict": (CLOCK, "ms = {'a': AverageMeter(), 'b': Speed()}", "ms['b'].update(loss.item())"),
    "a subclass": (CLOCK, "class Mine(Speed): pass\nm = Mine()", "m.update(loss.item())"),
    "under the name of a list's method": (
        CLOCK,
        "class Log:\n    def append(self, v): print(v, time.time() - START)\nSTART, log = time.time(), Log()",
        "log.append(loss.item())",
    ),
    "a property": (
        CLOCK,
        "class M(AverageMeter):\n    @property\n    def rate(self): return self.sum / time.monotonic()\nm = M()",
        "m.update(loss.item()); print(m.rate)",
    ),
    "a text": (
        CLOCK,
        "class M(AverageMeter):\n    def __str__(self): return str(time.time() - 1)\nm = M()",
        "m.update(loss.item()); print(m)",
    ),
    "a sum that knows when": (
        CLOCK,
        "class M:\n    def __iadd__(self, v): self.t = time.time(); return self\nm = M()",
        "m += loss.item()",
    ),
    "a filter of the log": (
        CLOCK,
        "import logging\nlog = logging.getLogger()\nclass Often(logging.Filter):\n"
        "    def filter(self, record): return time.time() % 2 > 1\nlog.addFilter(Often())",
        "log.info('%f', loss.item())",
    ),
    "an event on the GPU": (
        "torch.cuda.Event(enable_timing=True).record()",
        "meter = Speed()",
        "meter.update(loss.item())",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_looks_at_a_clock_behind_its_call_stays(name: str, tmp_path: Path) -> None:
    clock, made, line = STAYS[name]
    patch = patch_of(tmp_path, script(METERS.format(clock=clock, made=made, line=line)))
    assert patch.empty
    assert any(" a clock" in one.obstacle for one in patch.declined)


MOVES = {
    "another class has the clock": (CLOCK, "speed, m = Speed(), AverageMeter()", "m.update(loss.item())"),
    "one of a dict of others": (CLOCK, "ms = {'a': AverageMeter()}", "ms['a'].update(loss.item())"),
    "an argument": (CLOCK, "m = AverageMeter()", "m.update(loss.item()); print(time.time() - 1, m.sum)"),
    "a date on the line": (
        CLOCK,
        "class Log:\n    def write(self, v): now = datetime.datetime.now(); print(now.isoformat(), v)\nlog = Log()",
        "log.write(loss.item())",
    ),
    "the hour on the line": (
        CLOCK,
        "class Log:\n    def write(self, v): print(time.strftime('%X', time.localtime(time.time())), v)\nlog = Log()",
        "log.write(loss.item())",
    ),
    "a list called speeds": (CLOCK, "speed = []", "speed.append(loss.item())"),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_clock_that_nothing_later_looks_at_is_no_obstacle(name: str, tmp_path: Path) -> None:
    clock, made, line = MOVES[name]
    patch = patch_of(tmp_path, script(METERS.format(clock=clock, made=made, line=line)))
    assert patch.hunks
    assert "ahead.defer(" in patched_text(patch) or "pending_" in patched_text(patch)


OTHER_FILE = """
import time
class AverageMeter:
    def update(self, v): self.v = v
class Gauge:
    def __init__(self): self.clock = Stop()
    def update(self, v): print(v, self.clock.lap())
class Stop:
    def lap(self): return time.time()
"""


@pytest.mark.parametrize(("made", "waits"), [("AverageMeter", True), ("Gauge", False), ("TimeMeter", False)])
def test_classes_of_other_files_are_told_apart(made: str, waits: bool, tmp_path: Path) -> None:
    """`TimeMeter` is in no file of the project: its name says that there is a clock."""
    (tmp_path / "meters.py").write_text(OTHER_FILE)
    text = f"from meters import {made}\nmeter = {made}()\nfor x, y in loader:\n    STEP\n"
    patch = patch_of(tmp_path, script(text + "    meter.update(loss.item())  # fires\n"))
    assert bool(patch.hunks) is waits
    assert waits or "`meter.update(…)` " in patch.declined[0].obstacle


RANKS = """
import torch.distributed as dist
class Meter:
    s = 0.0
    def update(self, v):
        t = torch.tensor([v])
        {meet}
        self.s += t.item()
meter = Meter()
for x, y in loader:
    STEP
    meter.update(loss.item())  # fires
"""


@pytest.mark.parametrize(("meet", "waits"), [("dist.all_reduce(t)", False), ("dist.get_rank()", True)])
def test_ranks_meet_in_their_batch(meet: str, waits: bool, tmp_path: Path) -> None:
    """Each rank drains by its own clock as well, so what it says to the others would come in another order."""
    patch = patch_of(tmp_path, script(RANKS.format(meet=meet)))
    assert bool(patch.hunks) is waits
    assert waits or "`meter.update(…)` waits for other ranks" in patch.declined[0].obstacle


EVENTS = """
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
for x, y in loader:
    start.record()
    STEP
    end.record()
    {wait}
    ahead = model(x)
    print(loss.item())  # fires
    print(start.elapsed_time(end))
"""
"""Behind the wait the GPU gets work, for which the read waits: without that nothing would be gained."""


def test_the_read_that_events_are_waited_for_with_stays(tmp_path: Path) -> None:
    """`elapsed_time` of events that are not over is an error."""
    patch = patch_of(tmp_path, script(EVENTS.format(wait="pass")))
    assert patch.empty
    assert "this read is what waits for them" in patch.declined[0].obstacle
    assert patch_of(tmp_path, script(EVENTS.format(wait="end.synchronize()"))).hunks


def test_the_synchronize_that_events_are_waited_for_with_stays(tmp_path: Path) -> None:
    text = script(EVENTS.format(wait="torch.cuda.synchronize()  # sync"))
    line = 1 + next(n for n, one in enumerate(text.splitlines()) if one.endswith("# sync"))
    sync = Edit("event-sync", locations=(Location("train.py", line),), interval=10)
    patch = patch_of(tmp_path, text, (*defer(text), sync))
    assert "torch.cuda.synchronize()  # sync" in patched_text(patch)
    assert any("both must be over" in one.obstacle for one in patch.declined)
