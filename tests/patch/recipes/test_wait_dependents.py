"""Signs in a file that something is only right because the host waits for the GPU in each batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import parsed
from tracelens.patch.recipes import wait_dependents
from tracelens.patch.recipes.wait_dependents import Wait


def meanings(folder: Path, text: str, wait: Wait = "sync") -> list[str]:
    return [meaning for _, meaning in wait_dependents.signs(parsed(folder, f"import torch\n{text}\n"), wait)]


# --------------------------------------------------------------------------------------------- copies to the host


@pytest.mark.parametrize(
    "text",
    [
        'y = x.to("cpu", non_blocking=True)',
        'y = x.to("cpu", torch.float32, True)',
        'y = x.to(device="cpu", non_blocking=fast)',
        'y = x.to("cpu", **options)',
        'host = torch.device("cpu")\ny = x.to(host, non_blocking=True)',
        "pinned.copy_(x, True)",
        "pinned.copy_(x, non_blocking=True)",
    ],
)
def test_a_copy_to_the_host_that_nothing_else_waits_for(text: str, tmp_path: Path) -> None:
    assert meanings(tmp_path, text) == [wait_dependents.HOST_COPIES]


@pytest.mark.parametrize(
    "text",
    [
        'y = x.to("cpu")',
        'y = x.to("cpu", non_blocking=False)',
        'y = x.to("cuda", non_blocking=True)',
        "y = x.to(args.device, non_blocking=True)",
        "pinned.copy_(x)",
        "pinned.copy_(x, False)",
        "pinned.copy_(x, non_blocking=False)",
    ],
)
def test_other_copies_rely_on_nothing(text: str, tmp_path: Path) -> None:
    assert meanings(tmp_path, text) == []


# ------------------------------------------------------------------------------------------------- pinned memory


@pytest.mark.parametrize(
    "text",
    [
        "buffer = torch.empty(3, pin_memory=True)\nbuffer[0] = 1",
        "class A:\n    def f(self):\n        self.b = torch.empty(3).pin_memory()\n        self.b.copy_(x)",
        "def f():\n    b = torch.empty(3).pin_memory()\n    for x in y:\n        b.fill_(x)",
    ],
)
def test_pinned_memory_that_is_written_again(text: str, tmp_path: Path) -> None:
    assert meanings(tmp_path, text) == [wait_dependents.KEPT_MEMORY]


@pytest.mark.parametrize(
    "text",
    [
        "buffer = torch.empty(3, pin_memory=True)",
        "for x in y:\n    b = torch.empty(3).pin_memory()\n    b.fill_(x)",
        "b = x.pin_memory().to(device)\nb.fill_(1)",
        "loader = torch.utils.data.DataLoader(d, pin_memory=True)\nloader[0] = 1",
    ],
    ids=["never written", "new in each batch", "on the GPU by then", "a loader's"],
)
def test_pinned_memory_that_no_later_batch_writes(text: str, tmp_path: Path) -> None:
    assert meanings(tmp_path, text) == []


# -------------------------------------------------------------------------------------- events, streams and others


def test_an_event_that_is_asked_may_not_be_over(tmp_path: Path) -> None:
    assert meanings(tmp_path, "if end.query():\n    pass") == [wait_dependents.ASKED]


def test_a_loop_that_asks_until_it_is_over_waits_by_itself(tmp_path: Path) -> None:
    assert meanings(tmp_path, "while not end.query():\n    pass") == []


@pytest.mark.parametrize(("text", "name"), [("import cupy as cp", "cupy"), ("from numba import cuda", "numba.cuda")])
def test_a_library_with_streams_of_its_own(text: str, name: str, tmp_path: Path) -> None:
    assert meanings(tmp_path, text) == [wait_dependents.of_library(name)]


def test_memory_that_goes_to_other_processes(tmp_path: Path) -> None:
    assert meanings(tmp_path, "import torch.multiprocessing as mp\nq = mp.Queue()") == [wait_dependents.PROCESSES]


@pytest.mark.parametrize(
    ("wait", "kinds"),
    [
        ("sync", ["uses side streams", "asks", "uses the GPU"]),
        ("read", ["uses side streams", "asks"]),
        ("copy", ["uses side streams"]),
    ],
)
def test_each_kind_of_wait_has_its_own_signs(wait: Wait, kinds: list[str], tmp_path: Path) -> None:
    text = "import cupy\nside = torch.cuda.Stream()\ndone = end.query()"
    found = meanings(tmp_path, text, wait)
    assert [told[: len(kind)] for told, kind in zip(found, kinds, strict=True)] == kinds
