"""event-sync and interval-sync: what takes the place of a synchronize in each batch, and where it has to stay."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from tests.support.patching import assert_same, fired, patch_of, patched_text, run, script
from tracelens.model import Edit

LOOP = """
    def main():
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            if device.type == "cuda":
                torch.cuda.synchronize()  # wait here  # fires
            total += loss.item()  # reads
            if step % 4 == 0:
                print(step, total)
        return total
    result = main()
"""


def edits(text: str, *kinds: str, interval: int = 10) -> tuple[Edit, ...]:
    marks = {"defer-read": "# reads"}
    return tuple(Edit(k, locations=fired(text, marks.get(k, "# fires")), interval=interval) for k in kinds)


def test_an_event_is_recorded_in_place_of_the_synchronize(tmp_path: Path) -> None:
    text = script(LOOP)
    patch = patch_of(tmp_path, text, edits(text, "event-sync", interval=1))
    after = patched_text(patch)
    assert added(text, after) == [
        "batch_done = None",
        "batch_done = torch.cuda.Event()",
        "batch_done.record()",  # "wait here" was said of the call that is gone
        "if batch_done is not None:",
        "batch_done.synchronize()",
    ]
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert [(hunk.id, hunk.edit) for hunk in patch.hunks] == [("TL201", "event-sync")]
    assert_same(tmp_path, text, patch)


def test_an_interval_alone_keeps_the_synchronize_for_every_nth_batch(tmp_path: Path) -> None:
    text = script(LOOP)
    patch = patch_of(tmp_path, text, edits(text, "interval-sync", interval=7))
    after = patched_text(patch)
    assert added(text, after) == [
        "batches_issued = 0",
        "batches_issued += 1",
        "if batches_issued % 7 == 0:",
        "if batches_issued % 7:",
        "torch.cuda.synchronize()",
    ]
    assert "    torch.cuda.synchronize()  # wait here  # fires\n" in after
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert_same(tmp_path, text, patch)


def added(before: str, after: str) -> list[str]:
    known = [line.strip() for line in before.splitlines()]
    return [line.strip() for line in after.splitlines() if line.strip() not in known]


SHORT = """
    batch_done = batches_issued = batches_marked = "mine"
    for step, (x, y) in enumerate(loader):
        STEP
        if device.type == "cuda":
            torch.cuda.synchronize()  # fires
        # last words of the loop
"""


@pytest.mark.parametrize(
    "shape", [lambda t: t, lambda t: t.replace("    ", "\t"), lambda t: t.replace("\n", "\r\n"), str.rstrip]
)
@pytest.mark.parametrize("kinds", [("event-sync",), ("interval-sync",), ("event-sync", "interval-sync")])
def test_plain_lines_keep_the_layout_of_the_file_and_its_names(kinds: tuple[str, ...], shape, tmp_path: Path) -> None:
    text = shape(script(SHORT))
    patch = patch_of(tmp_path, text, edits(text, *kinds, interval=1 if kinds == ("event-sync",) else 5))
    after = patched_text(patch)
    assert patch.declined == ()
    assert "tracelens_runtime" not in after
    assert after.count("# last words of the loop") == 1
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in text else 0)
    assert after.endswith("\n") == text.endswith("\n")
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("kinds", [("event-sync",), ("interval-sync",), ("event-sync", "interval-sync")])
@pytest.mark.parametrize("batches", [0, 1, 10, 23])
def test_plain_lines_wait_as_often_as_they_say(kinds: tuple[str, ...], batches: int, tmp_path: Path) -> None:
    """With a CUDA of our own that counts: every tenth batch, and once after the last if that was no tenth."""
    text = script(
        """
        for step, (x, y) in enumerate(loader):
            STEP
            torch.cuda.synchronize()  # fires
            # note
        """,
        batches,
    )
    patch = patch_of(tmp_path, text, edits(text, *kinds, interval=1 if kinds == ("event-sync",) else 10))
    waits: list[str] = []

    class Event:
        def record(self) -> None:
            pass

        def synchronize(self) -> None:
            waits.append("event")

    with mock.patch.multiple("torch.cuda", Event=Event, synchronize=lambda: waits.append("device")):
        assert run(tmp_path / "after", patched_text(patch)).ending == ""
    expected = bool(batches) if kinds == ("event-sync",) else -(-batches // 10)
    assert waits == ["device" if kinds == ("interval-sync",) else "event"] * expected


def test_helpers_can_come_from_the_installed_tracelens(tmp_path: Path) -> None:
    text = script(LOOP.replace("if step % 4 == 0:\n                print(step, total)", "print(step, total)"))
    patch = patch_of(tmp_path, text, edits(text, "event-sync", "defer-read", interval=1), import_runtime=True)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert "from tracelens import runtime as tracelens_runtime\n" in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_event_and_interval_at_one_place_are_one_hunk_and_share_the_loop_with_the_reads(tmp_path: Path) -> None:
    text = script(LOOP)
    patch = patch_of(tmp_path, text, edits(text, "event-sync", "interval-sync", "defer-read"))
    after = patched_text(patch)
    assert [(hunk.id, hunk.edit) for hunk in patch.hunks] == [("TL201", "event-sync"), ("TL101", "defer-read")]
    assert "every 10 batches" in patch.hunks[0].reason
    assert added(text, after) == [
        "batches_marked = []",
        "pending_losses = []",
        "batches_marked.append(torch.cuda.Event())",
        "batches_marked[-1].record()",
        "if len(batches_marked) == 10:",
        "batches_marked.pop().synchronize()",
        "batches_marked.clear()",
        "pending_losses.append(loss.detach().clone())",
        "for loss_value in pending_losses:",
        "total += loss_value.item()  # reads",
        "pending_losses.clear()",
        "if batches_marked:",
        "batches_marked[-1].synchronize()",
        "for loss_value in pending_losses:",
        "total += loss_value.item()",
    ]
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert_same(tmp_path, text, patch)


def test_what_is_read_where_it_is_shown_needs_nobody_who_knows_when_it_has_arrived(tmp_path: Path) -> None:
    """An event per batch, and reads as soon as can be: the print of every fourth batch waits for them anyway."""
    text = script(LOOP)
    patch = patch_of(tmp_path, text, edits(text, "event-sync", "defer-read", interval=1))
    assert added(text, patched_text(patch)) == [
        "batch_done = None",
        "pending_losses = []",
        "batch_done = torch.cuda.Event()",
        "batch_done.record()",
        "pending_losses.append(loss.detach().clone())",
        "for loss_value in pending_losses:",
        "total += loss_value.item()  # reads",
        "pending_losses.clear()",
        "if batch_done is not None:",
        "batch_done.synchronize()",
        "for loss_value in pending_losses:",
        "total += loss_value.item()",
    ]
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert_same(tmp_path, text, patch)


BESIDE_READS = {
    "as soon as it is there": (1, "", "torch.cuda.synchronize()  # fires\n    print(loss.item())  # reads"),
    "two of them": (10, "", "torch.cuda.synchronize()  # fires\n    torch.cuda.synchronize()  # fires"),
    "a time": (10, "    start = time.time()\n", "torch.cuda.synchronize()  # fires\n    print(time.time() - start)"),
    "within a line": (10, "", "torch.cuda.synchronize(); y = x  # fires"),
}


@pytest.mark.parametrize("case", BESIDE_READS)
def test_where_a_wait_needs_the_helper_the_reads_of_its_loop_share_it(case: str, tmp_path: Path) -> None:
    interval, above, wait = BESIDE_READS[case]
    loop = f"{above}    STEP\n    {wait}\n    total += loss.item()  # reads\nprint(total)\n"
    text = script(f"import time\ntotal = 0.0\nfor x, y in loader:\n{loop}")
    patch = patch_of(tmp_path, text, edits(text, "event-sync", "interval-sync", "defer-read", interval=interval))
    assert {hunk.edit for hunk in patch.hunks} >= {"event-sync", "defer-read"}
    assert patched_text(patch).count("DeferredReads(") == 1
    assert "pending_" not in patched_text(patch)


@pytest.mark.parametrize("kinds", [("interval-sync", "defer-read"), ("event-sync", "interval-sync", "defer-read")])
def test_lines_of_both_can_stand_side_by_side_at_the_end_of_a_file(kinds: tuple[str, ...], tmp_path: Path) -> None:
    text = script(
        """
        losses = []
        for x, y in loader:
            STEP
            if device.type == "cuda":
                torch.cuda.synchronize()  # fires
            losses.append(loss.item())  # reads
        """,
        batches=23,
    ).rstrip()
    patch = patch_of(tmp_path, text, edits(text, *kinds))
    assert "tracelens_runtime" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_a_hunk_can_be_left_out_by_its_id(tmp_path: Path) -> None:
    text = script(LOOP)
    wanted = edits(text, "event-sync", "interval-sync", "defer-read")
    without = patch_of(tmp_path, text, wanted, skip=("TL201",))
    assert [hunk.id for hunk in without.hunks] == ["TL101"]
    assert "torch.cuda.synchronize()" in patched_text(without)
    alone = patch_of(tmp_path, text, wanted, only=("TL201",))
    assert [hunk.id for hunk in alone.hunks] == ["TL201"]
    assert "total += loss.item()" in patched_text(alone)
    assert_same(tmp_path, text, alone)


STAYS = {
    "the time since the start of the training": (
        """
        import time
        begun = time.perf_counter()
        for x, y in loader:
            STEP
            torch.cuda.synchronize()  # fires
            print(time.perf_counter() - begun)
        """,
        "the loop reads the clock",
    ),
    "a clock that does not count in seconds": (
        """
        import time
        for x, y in loader:
            start = time.perf_counter_ns()
            STEP
            torch.cuda.synchronize()  # fires
            print(time.perf_counter_ns() - start)
        """,
        "does not count in seconds",
    ),
    "the time decides": (
        """
        import time
        for x, y in loader:
            start = time.time()
            STEP
            torch.cuda.synchronize()  # fires
            if time.time() - start > 3600:
                break
        """,
        "decides",
    ),
    "the time is looked at after the loop": (
        """
        import time
        for x, y in loader:
            start = time.time()
            STEP
            torch.cuda.synchronize()  # fires
            print(time.time() - start)
        print(start)
        """,
        "used in another way",
    ),
    "a point in time is printed": (
        """
        import time
        for x, y in loader:
            now = time.time()
            STEP
            torch.cuda.synchronize()  # fires
            print(now, time.time() - now)
        """,
        "used in another way",
    ),
    "every few batches already": (
        """
        for step, (x, y) in enumerate(loader):
            STEP
            if step % 50 == 0:
                torch.cuda.synchronize()  # fires
        """,
        "some batches already",
    ),
    "side streams": (
        """
        class Copier:
            def __init__(self):
                self.stream = torch.cuda.Stream()
        copier = Copier()
        for x, y in loader:
            STEP
            torch.cuda.synchronize()  # fires
        """,
        "side streams",
    ),
    "host memory that is filled without blocking": (
        """
        for x, y in loader:
            STEP
            seen = loss.detach().to("cpu", non_blocking=True)
            torch.cuda.synchronize()  # fires
        """,
        "copies to the host without blocking",
    ),
    "several GPUs": (
        """
        import torch.distributed as dist
        dist.init_process_group("nccl")
        for x, y in loader:
            STEP
            torch.cuda.synchronize()  # fires
        """,
        "several GPUs",
    ),
    "threads": (
        """
        from threading import Thread
        for x, y in loader:
            STEP
            torch.cuda.synchronize()  # fires
        Thread(target=print)
        """,
        "threads",
    ),
    "graph capture": (
        """
        graph = torch.cuda.CUDAGraph()
        for x, y in loader:
            STEP
            torch.cuda.synchronize()  # fires
        """,
        "graphs",
    ),
    "hidden in a helper": (
        """
        def wait():
            torch.cuda.synchronize()  # fires
        for x, y in loader:
            STEP
            wait()
        """,
        "not in a loop",
    ),
    "kept": (
        """
        for x, y in loader:
            STEP
            torch.cuda.synchronize()  # tracelens: keep  # fires
        """,
        "keep",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_a_synchronize_that_something_may_rely_on_stays(name: str, tmp_path: Path) -> None:
    body, words = STAYS[name]
    text = script(body)
    patch = patch_of(tmp_path, text, edits(text, "event-sync"))
    assert patch.empty
    assert [words in declined.obstacle for declined in patch.declined] == [True]


TIMED = {
    "start and clock": (
        """
        import time
        times = []
        for i, (x, y) in enumerate(loader):
            start = time.perf_counter()
            STEP
            if device.type == "cuda":
                torch.cuda.synchronize()  # fires
            times.append(time.perf_counter() - start)
        print(len(times), all(0 < t < 60 for t in times))
        times = start = None
        """,
        ["start = ahead.tick(time.perf_counter)", "ahead.elapsed(start, ahead.tick(time.perf_counter))"],
    ),
    "start, stop and what is made of them": (
        """
        import time
        rates = 0
        for i, (x, y) in enumerate(loader):
            if device.type == "cuda": torch.cuda.synchronize()  # fires
            t0 = time.time()
            STEP
            if device.type == "cuda": torch.cuda.synchronize()  # fires
            t1 = time.time()
            dt = t1 - t0
            rate = len(x) / (dt + 1e-9)
            rates += rate > 0
            if i % 10 == 0:
                print(i, f"{dt * 1000:.0f} ms" != "")
        print(rates)
        t0 = t1 = dt = rate = None
        """,
        ["t0 = ahead.tick(time.time)", "t1 = ahead.tick(time.time)", "ahead.elapsed(t0, t1)"],
    ),
    "meters of the time of a batch": (
        """
        import time
        class Meter:
            count = total = 0
            def update(self, value):
                assert 0 <= value < 60
                self.count += 1
                self.total += value
        data_time, batch_time = Meter(), Meter()
        end = time.time()
        for i, (x, y) in enumerate(loader):
            data_time.update(time.time() - end)
            STEP
            if device.type == "cuda": torch.cuda.synchronize()  # fires
            batch_time.update(time.time() - end)
            end = time.time()
        print(data_time.count, batch_time.count)
        end = None
        """,
        ["end = ahead.tick(time.time)", "ahead.elapsed(end, ahead.tick(time.time))"],
    ),
}


@pytest.mark.parametrize("kind", ["event-sync", "interval-sync"])
@pytest.mark.parametrize("name", TIMED)
def test_times_around_a_synchronize_become_pairs_of_events(name: str, kind: str, tmp_path: Path) -> None:
    body, lines = TIMED[name]
    text = script(body)
    patch = patch_of(tmp_path, text, edits(text, kind))
    assert patch.declined == ()
    assert "the GPU's alone" in patch.hunks[0].reason
    assert all(line in patched_text(patch) for line in lines)
    assert assert_same(tmp_path, text, patch).ending == ""


def test_an_iterator_that_may_time_the_batches_is_named(tmp_path: Path) -> None:
    text = script(
        """
        class Log:
            def every(self, items):
                return items
        log = Log()
        for x, y in log.every(loader):
            STEP
            if device.type == "cuda":
                torch.cuda.synchronize()  # fires
        """
    )
    patch = patch_of(tmp_path, text, edits(text, "event-sync"))
    assert "times that `log.every(…)` may measure" in patch.hunks[0].reason
    assert_same(tmp_path, text, patch)


def test_times_and_deferred_reads_share_their_statements(tmp_path: Path) -> None:
    text = script(
        """
        import time
        total = 0.0
        for i, (x, y) in enumerate(loader):
            start = time.time()
            STEP
            if device.type == "cuda": torch.cuda.synchronize()  # fires
            total += loss.item()  # reads
            print(i, total, time.time() - start < 60)
        print(total)
        start = None
        """
    )
    patch = patch_of(tmp_path, text, edits(text, "event-sync", "defer-read"))
    assert patched_text(patch).count("def ") == 1
    assert_same(tmp_path, text, patch)


def test_aliases_are_followed_and_conditional_expressions_changed(tmp_path: Path) -> None:
    text = script(
        """
        from torch import cuda
        from torch.cuda import synchronize as sync
        for x, y in loader:
            STEP
            cuda.synchronize() if cuda.is_available() else None  # fires
            if cuda.is_available(): sync(device)  # fires
        """
    )
    patch = patch_of(tmp_path, text, edits(text, "event-sync"))
    after = patched_text(patch)
    assert "    ahead.record() if cuda.is_available() else None  # fires\n" in after
    assert "    if cuda.is_available(): ahead.record(device)  # fires\n" in after
    assert_same(tmp_path, text, patch)
