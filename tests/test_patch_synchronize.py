"""event-sync and interval-sync: what takes the place of a synchronize in each batch, and where it has to stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from patching import assert_same, fired, patch_of, patched_text, script

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
    assert "    ahead.record()  # wait here  # fires\n" in after
    assert "RunAhead(every=None)" in after
    assert [(hunk.id, hunk.edit) for hunk in patch.hunks] == [("TL201", "event-sync")]
    assert_same(tmp_path, text, patch)


def test_an_interval_alone_keeps_the_synchronize_for_every_nth_batch(tmp_path: Path) -> None:
    text = script(LOOP)
    patch = patch_of(tmp_path, text, edits(text, "interval-sync", interval=7))
    after = patched_text(patch)
    assert "ahead.synchronize()" in after
    assert "RunAhead(every=7)" in after
    assert_same(tmp_path, text, patch)


def test_event_and_interval_at_one_place_are_one_hunk_and_share_the_loop_with_the_reads(tmp_path: Path) -> None:
    text = script(LOOP)
    patch = patch_of(tmp_path, text, edits(text, "event-sync", "interval-sync", "defer-read"))
    after = patched_text(patch)
    assert [(hunk.id, hunk.edit) for hunk in patch.hunks] == [("TL201", "event-sync"), ("TL101", "defer-read")]
    assert "every 10 batches" in patch.hunks[0].reason
    assert after.count("RunAhead(") == 1
    assert "ahead.record()" in after
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
    "between two clock reads": (
        """
        import time
        for x, y in loader:
            start = time.perf_counter()
            STEP
            torch.cuda.synchronize()  # fires
            print(time.perf_counter() - start)
        """,
        "clock",
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
        copies = torch.cuda.Stream()
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
