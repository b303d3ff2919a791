"""The wait for the GPU counts in the span of a loop's clock in which it counted before, or the read stays."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from unittest import mock

import pytest
import torch

from tests.support.patching import assert_same, defer, patch_of, patched_text, run, script
from tracelens.model import Patch

METER = """
import time
class AverageMeter:
    def __init__(self):
        self.val = self.sum = self.count = 0
    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n
    @property
    def avg(self):
        return self.sum / self.count
"""
TIMER = """
class Timer:
    def __init__(self):
        self.total, self.start = 0.0, time.time()
    def tic(self):
        self.start = time.time()
    def toc(self):
        self.total += time.time() - self.start
"""
WORK_S = 1.0
"""What the imagined GPU does in each batch; nothing else takes time."""


class Gpu:
    """A clock that stands still unless the host waits for the work that is queued."""

    def __init__(self) -> None:
        self.now, self.queued = 100.0, 0.0

    def queue(self, *_: object, **__: object) -> None:
        self.queued += WORK_S

    def wait(self) -> None:
        self.now, self.queued = self.now + self.queued, 0.0

    def clock(self) -> float:
        return self.now


def lines(folder: Path, text: str) -> list[str]:
    """What a script prints where each backward is a second of work and each read waits for all of it."""
    gpu, item, tolist = Gpu(), torch.Tensor.item, torch.Tensor.tolist

    def waited(read: object) -> object:
        return lambda tensor: (gpu.wait(), read(tensor))[1]  # type: ignore[operator]

    clocks = dict.fromkeys(("time", "perf_counter"), gpu.clock)
    copied = waited(lambda tensor: tensor.clone())  # `type` stands for a copy that blocks
    with (
        mock.patch.multiple(torch.Tensor, item=waited(item), tolist=waited(tolist), backward=gpu.queue, type=copied),
        mock.patch.multiple("time", **clocks),
    ):
        outcome = run(folder, text)
    assert outcome.ending == ""
    return outcome.output.splitlines()


def both(folder: Path, text: str, patch: Patch) -> tuple[list[str], list[str]]:
    for one in patch.files:
        (folder / "after").mkdir(exist_ok=True)
        (folder / "after" / one.path.name).write_bytes(one.after)
    return lines(folder / "before", text), lines(folder / "after", patched_text(patch))


PLACES = {"module": "{body}", "function": "def train():\n{indented}\ntrain()\n", "method": ""}
METHOD = "class Trainer:\n    def train(self):\n{method}\nTrainer().train()\n"
CAUGHT = "def train():\n    try:\n{method}\n    except KeyboardInterrupt:\n        print('stopped')\ntrain()\n"


def placed(body: str, place: str) -> str:
    """A loop at the top of a file, in a function, in a method, or where only the helpers can defer."""
    body = textwrap.dedent(body).strip("\n")
    forms = {
        "module": body + "\n",
        "function": "def train():\n" + textwrap.indent(body, "    ") + "\ntrain()\n",
        "method": METHOD.format(method=textwrap.indent(body, "        ")),
        "helper": CAUGHT.format(method=textwrap.indent(body, "        ")),
    }
    return forms[place]


EVERYWHERE = pytest.mark.parametrize("place", ["module", "function", "method", "helper"])
CLOCKS = pytest.mark.parametrize("clock", ["time.time", "time.perf_counter"])

DATA_TIME = """
    batch_time, data_time, losses = AverageMeter(), AverageMeter(), AverageMeter()
    end = CLOCK()
    for i, (x, y) in enumerate(loader):
        data_time.update(CLOCK() - end)
        STEP
        losses.update(loss.item(), x.size(0))  # fires
        batch_time.update(CLOCK() - end)
        end = CLOCK()
        if i % 5 == 4:
            print(f"{i} {batch_time.val:.3f} {batch_time.avg:.3f} {data_time.avg:.3f} {losses.avg:.4f}")
    print(f"{data_time.avg:.3f} {losses.avg:.4f}")
"""


@CLOCKS
@EVERYWHERE
def test_the_wait_is_no_data_time_of_the_next_batch(place: str, clock: str, tmp_path: Path) -> None:
    text = script(METER + placed(DATA_TIME.replace("CLOCK", clock), place))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    left, kept = both(tmp_path, text, patch)
    assert kept == left
    assert left[0].startswith("4 1.000 1.000 0.000 ")


def test_the_reads_stand_above_the_clock_in_the_batches_that_show_them(tmp_path: Path) -> None:
    text = script(METER + placed(DATA_TIME.replace("CLOCK", "time.time"), "function"))
    patch = patch_of(tmp_path, text)
    added = [line[1:].strip() for line in patch.diff.splitlines() if line.startswith("+") and line[1:2] != "+"]
    assert added == [
        "pending_losses = []",
        "pending_losses.append((loss.detach().clone(), x.size(0)))",
        "if i % 5 == 4 or (i + 1) % 5 == 4:",
        "for loss_value, x_size in pending_losses:",
        "losses.update(loss_value.item(), x_size)  # fires",
        "pending_losses.clear()",
        "for loss_value, x_size in pending_losses:",
        "losses.update(loss_value.item(), x_size)",
    ]


WITHOUT_ENUMERATE = """
    batch_time, losses, step = AverageMeter(), AverageMeter(), 0
    end = time.time()
    for x, y in loader:
        STEP
        losses.update(loss.item())  # fires
        batch_time.update(time.time() - end)
        end = time.time()
        step += 1
        if step % 5 == 0:
            print(f"{batch_time.avg:.3f} {losses.avg:.4f}")
"""


@EVERYWHERE
def test_a_condition_on_what_is_counted_behind_the_clock_cannot_be_asked_before(place: str, tmp_path: Path) -> None:
    """`step += 1` comes later, so nobody knows in time whether the line is due."""
    text = script(METER + placed(WITHOUT_ENUMERATE, place))
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert "whether it is due is known only behind the clock" in patch.declined[0].obstacle


SPAN = """
    avg = AverageMeter()
    start = CLOCK()
    for i, (x, y) in enumerate(loader):
        STEP
        avg.update(loss.item())  # fires
        if i % 5 == 4:
            elapsed = CLOCK() - start
            print(f"{i} {elapsed:.2f} {avg.val:.3f} {avg.avg:.3f}")
            start = CLOCK()
"""


@CLOCKS
@EVERYWHERE
def test_the_wait_is_within_the_span_that_a_line_shows(place: str, clock: str, tmp_path: Path) -> None:
    text = script(METER + placed(SPAN.replace("CLOCK", clock), place))
    patch = patch_of(tmp_path, text)
    left, kept = both(tmp_path, text, patch)
    assert kept == left
    assert left[0].startswith("4 5.00 ")


def test_a_time_of_several_batches_is_what_it_was(tmp_path: Path) -> None:
    text = script(METER + placed(SPAN.replace("CLOCK", "time.time"), "function"))
    assert "a measured time" not in patch_of(tmp_path, text).hunks[0].reason
    text = script(METER + placed(DATA_TIME.replace("CLOCK", "time.time"), "function"))
    assert "in a batch that is shown a measured time holds its own wait" in patch_of(tmp_path, text).hunks[0].reason


CONDITIONS = {
    "i % 5 == 4": "i % 5 == 4 or (i + 1) % 5 == 4",
    "rank == 0 and (i + 1) % 5 == 0": "rank == 0 and ((i + 1) % 5 == 0 or (i + 2) % 5 == 0)",
    "(i % 5 == 4 or i < 2) and rank == 0": "rank == 0 and ((i % 5 == 4 or i < 2) or ((i + 1) % 5 == 4 or (i + 1) < 2))",
    "i % 5 == 4 or (\n            i < 2)": "(i % 5 == 4 or (\n+            i < 2)) or "
    "((i + 1) % 5 == 4 or (\n+            (i + 1) < 2))",
    "args.i % 5 == i": "args.i % 5 == i or args.i % 5 == (i + 1)",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_values_are_read_in_the_batch_before_as_well(condition: str, tmp_path: Path) -> None:
    """Else the time of the batch that is shown would hold the wait for all of those before it."""
    body = DATA_TIME.replace("CLOCK", "time.time").replace("i % 5 == 4", condition)
    head = "from types import SimpleNamespace\nrank, args = 0, SimpleNamespace(i=5)\n"
    text = script(METER + head + placed(body, "function"))
    patch = patch_of(tmp_path, text)
    assert f"if {CONDITIONS[condition]}:" in patch.diff
    left, kept = both(tmp_path, text, patch)
    assert kept == left


COPIED = """
    total = 0.0
    for i, (x, y) in enumerate(loader):
        begin = CLOCK()
        x = x.type()
        data_time = CLOCK() - begin
        STEP
        total += loss.item()  # fires
        if i % 5 == 4:
            print(f"{i} {total:.4f} {data_time:.3f}")
            total = 0.0
"""


@CLOCKS
@pytest.mark.parametrize("place", ["module", "function", "method"])
def test_a_wait_in_a_span_that_begins_a_shown_batch_is_not_that_for_all_before_it(
    place: str, clock: str, tmp_path: Path
) -> None:
    text = script(placed("import time\n" + textwrap.dedent(COPIED.replace("CLOCK", clock)), place))
    left, kept = both(tmp_path, text, patch_of(tmp_path, text))
    assert kept == left
    assert left[0].startswith("4 ") and left[0].endswith(" 0.000")


OF_TIMERS = """
    timer, losses = Timer(), AverageMeter()
    for i, (x, y) in enumerate(loader):
        timer.tic()
        STEP
        losses.update(loss.item())  # fires
        timer.toc()
        if i % 5 == 4:
            print(f"{i} {timer.total:.2f} {losses.avg:.3f}")
"""


@EVERYWHERE
def test_a_timer_of_the_file_is_a_clock(place: str, tmp_path: Path) -> None:
    text = script(METER + TIMER + placed(OF_TIMERS, place))
    left, kept = both(tmp_path, text, patch_of(tmp_path, text))
    assert kept == left
    assert left[0].startswith("4 5.00 ")


SUMMED = """
    total = took = 0.0
    for x, y in loader:
        start = time.time()
        STEP
        total += loss.item()  # fires
        took += time.time() - start
    print(f"{total:.4f} {took:.2f}")
"""


@EVERYWHERE
def test_times_that_are_summed_up_hold_the_wait_of_all_but_the_last_batches(place: str, tmp_path: Path) -> None:
    """Without a line in the loop the values are read every ten batches, in front of the clock: 20 of 23."""
    text = script(placed("import time\n" + textwrap.dedent(SUMMED), place))
    patch = patch_of(tmp_path, text)
    left, kept = both(tmp_path, text, patch)
    assert left[0].endswith(" 23.00")
    assert kept[0] == left[0].replace(" 23.00", " 20.00")
    assert "that for the last ones is in no time" in patch.hunks[0].reason


PER_BATCH = {
    "a rate": """
        total, tokens, update = 0.0, 0, time.time()
        for i, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            update = time.time() - update
            print({"throughput": x.size(0) / update}, i)
            update = time.time()
    """,
    "a rate that is logged with the value": """
        seen, update = 0, time.time()
        for i, (x, y) in enumerate(loader):
            STEP
            value = loss.item()  # fires
            took = time.time() - update
            speed = x.size(0) / took
            print({"loss": value, "speed": speed})
            update = time.time()
    """,
    "a rate of what is read before the clock, as in GaLore": """
        seen = before = 0
        update = time.time()
        for i, (x, y) in enumerate(loader):
            seen += (y >= 0).sum().item()  # fires
            STEP
            update = time.time() - update
            tokens, before = seen - before, seen
            print({"loss": 1.0, "throughput": tokens / update}, i)
            update = time.time()
    """,
    "the time of a batch that its own count does not tell": """
        total, step, then = 0.0, 0, time.time()
        for x, y in loader:
            STEP
            total += loss.item()  # fires
            now = time.time()
            took, then = now - then, now
            if step % 5 == 0:
                print(total, took)
            step += 1
    """,
    "a time in the line of the value": """
        for i, (x, y) in enumerate(loader):
            start = time.time()
            STEP
            print(f"{loss.item():.4f} {time.time() - start:.3f}s")  # fires
    """,
    "the time of the batch before": """
        total, then = 0.0, time.time()
        for x, y in loader:
            now = time.time()
            took, then = now - then, now
            STEP
            total += loss.item()  # fires
            print(took)
    """,
}


@pytest.mark.parametrize("place", ["module", "function", "helper"])
@pytest.mark.parametrize("name", PER_BATCH)
def test_a_duration_that_is_shown_in_each_batch_keeps_its_read(name: str, place: str, tmp_path: Path) -> None:
    text = script("import time\n" + placed(PER_BATCH[name], place))
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert any(word in one.obstacle for word in ("clock", "duration", "time of one batch") for one in patch.declined), (
        patch.declined
    )


MOVES = {
    "the wait is in no span": """
        for i, (x, y) in enumerate(loader):
            start = time.time()
            STEP
            took = time.time() - start
            print(f"{loss.item():.4f} {took:.3f}s")  # fires
    """,
    "a date": """
        for i, (x, y) in enumerate(loader):
            STEP
            print(f"{loss.item():.4f}", time.time())  # fires
    """,
}


@pytest.mark.parametrize("name", MOVES)
def test_a_span_without_the_wait_is_no_obstacle(name: str, tmp_path: Path) -> None:
    text = script("import time\n" + placed(MOVES[name], "function"))
    assert patch_of(tmp_path, text).hunks


def test_a_clock_behind_a_synchronize_is_no_obstacle(tmp_path: Path) -> None:
    """It shows the same whoever waited before: what stands in the way is the wait itself, which stays."""
    body = """
        for i, (x, y) in enumerate(loader):
            start = time.time()
            STEP
            print(f"{loss.item():.4f}")  # fires
            torch.cuda.synchronize()
            print(f"{time.time() - start:.3f}s")
    """
    patch = patch_of(tmp_path, script("import time\n" + placed(body, "function")))
    assert "nothing would be gained" in patch.declined[0].obstacle


NAMED = {
    "shown behind the clock": """
        took = 0.0
        for i, (x, y) in enumerate(loader):
            start = time.time()
            STEP
            value = loss.item()  # fires
            took += time.time() - start
            if i % 5 == 4:
                print(f"{i} {took:.2f} {value:.4f}")
    """,
    "used behind the loop": """
        took = 0.0
        for i, (x, y) in enumerate(loader):
            start = time.time()
            STEP
            value = loss.item()  # fires
            took += time.time() - start
        print(f"{took:.2f} {value:.4f}")
    """,
}


@pytest.mark.parametrize("name", NAMED)
def test_a_value_with_a_name_is_not_read_behind_the_clock(name: str, tmp_path: Path) -> None:
    text = script("import time\n" + placed(NAMED[name], "function"))
    patch = patch_of(tmp_path, text)
    left, kept = both(tmp_path, text, patch)
    assert patch.hunks
    assert kept == [line.replace("23.00", "20.00") for line in left]


STEP_FUNCTION = """
import time
class Trainer:
    def __init__(self):
        self.total = self.took = 0.0
    def step(self, x, y):
        STEP
        {inside}
    def train(self):
        for i, (x, y) in enumerate(loader):
            start = time.time()
            {call}
            self.took += time.time() - start
        print(self.total, self.took)
Trainer().train()
"""
CALLED = {
    "adds up itself": ("self.total += loss.item()  # fires", "self.step(x, y)"),
    "gives the value": ("return loss.item()  # fires", "value = self.step(x, y)"),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_time_around_a_step_function_keeps_its_read(name: str, tmp_path: Path) -> None:
    inside, call = CALLED[name]
    text = STEP_FUNCTION.format(inside=inside, call=call)
    text = text if name == "adds up itself" else text.replace("print(", "print(value, ")
    patch = patch_of(tmp_path, script(text))
    left, kept = both(tmp_path, script(text), patch) if patch.hunks else ([], [])
    assert [line.replace("23.0", "20.0") for line in left] == kept
    assert patch.hunks or "time" in patch.declined[0].obstacle


def test_where_nothing_waits_any_more_no_time_can_hold_the_wait(tmp_path: Path) -> None:
    """An interval of one batch: values are read once the GPU has them."""
    text = script("import time\n" + placed(SUMMED, "function"))
    patch = patch_of(tmp_path, text, defer(text, interval=1))
    assert patch.empty
    assert "would lack the wait" in patch.declined[0].obstacle


def test_two_reads_with_a_clock_between_them_do_not_wait_together(tmp_path: Path) -> None:
    body = """
        first = second = went = 0.0
        for i, (x, y) in enumerate(loader):
            start = time.time()
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            first += loss.item()  # fires
            went += time.time() - start
            loss.backward()
            optimizer.step()
            second += loss.item() * 2  # fires
            if i % 5 == 4:
                print(first, second, went)
    """
    text = script("import time\n" + placed(body, "function"))
    patch = patch_of(tmp_path, text, defer(text))
    assert any("clock" in one.obstacle for one in patch.declined)


def test_a_list_of_the_times_of_single_batches_keeps_its_read(tmp_path: Path) -> None:
    """One of ten would hold the wait of ten batches, and the wait for the last backward besides."""
    text = script(
        "import time\ntimes, losses = [], []\nfor x, y in loader:\n    start = time.time()\n"
        "    loss = criterion(model(x), y)\n    losses.append(loss.item())  # fires\n    optimizer.zero_grad()\n"
        "    loss.backward()\n    optimizer.step()\n    end = time.time()\n    times.append(end - start)\n"
        "print(sum(times), losses)\n"
    )
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert "keeps the time of each batch" in patch.declined[0].obstacle


JOINED = """
def train(loader):
    batch_time, data_time, losses = AverageMeter(), AverageMeter(), AverageMeter()
    end = time.time()
    for i, (x, y) in enumerate(loader):
        # the time for data
        data_time.update(time.time() - end)
        out = model(x)
        loss = criterion(out, y)
        losses.update(loss.item(), len(y))  # fires
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # the time for all
        batch_time.update(time.time() - end)
        end = time.time()
        if i % 4 == 0:
            print(i, losses.avg, losses.count, batch_time.count, data_time.count)
            for meter in (losses, data_time, batch_time):
                print(meter.count)
train(loader)
"""


@pytest.mark.parametrize("comments", [True, False])
def test_a_meter_of_times_that_waits_with_the_losses_is_whole_where_it_is_shown(comments: bool, tmp_path: Path) -> None:
    """The losses are read above the clock; the time that is taken there comes behind them, before the line."""
    text = script(METER + JOINED)
    text = text if comments else re.sub(r"\n *# the time.*", "", text)
    patch = patch_of(tmp_path, text, checked=True, lossy=True)
    assert_same(tmp_path, text, patch)
    assert "ahead.read_due()" in patched_text(patch)


def test_meters_that_are_gone_through_behind_the_loop_are_not_one_in_it(tmp_path: Path) -> None:
    body = METER + JOINED.replace("            for meter", "    for meter").replace(
        "                print(m", "        print(m"
    )
    text = script(body)
    patch = patch_of(tmp_path, text, checked=True, lossy=True)
    assert_same(tmp_path, text, patch)
    assert "batch_time.update(time.time() - end)\n" in patched_text(patch)
    assert "data_time.update(time.time() - end)\n" in patched_text(patch)


SHOWN_BY_ANOTHER_NAME = """
def train(loader):
    losses, others = AverageMeter(), AverageMeter()
    for meter in (others, losses):
        meter.update(0.0)
    {before}
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item(), len(y))  # fires
        {inside}
    print(meter.avg)
train(loader)
"""


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("", "print(meter.count)"),
        ("last = [meter]", "print(last[0].count)"),
        ("show = lambda: print(meter.count)", "show()"),
        ("show = meter.__str__", "print(show())"),
        ("def show():\n        print(meter.count)", "show()"),
    ],
)
def test_a_meter_that_the_loop_sees_under_another_name_is_the_same(before: str, inside: str, tmp_path: Path) -> None:
    text = script(METER + SHOWN_BY_ANOTHER_NAME.format(before=before, inside=inside))
    text = text.replace("    @property", "    def __str__(self):\n        return f'{self.avg}'\n    @property")
    for checked in (False, True):
        patch = patch_of(tmp_path, text, checked=checked, lossy=checked)
        if not patch.empty:
            assert_same(tmp_path, text, patch)
