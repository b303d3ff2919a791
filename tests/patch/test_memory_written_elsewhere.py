"""A copy that does not block is not called safe where code that the loop's file does not show may write its memory."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.copies import DATA
from tests.support.patching import fired, patch_of, script
from tracelens.model import Edit, Patch

_PIN = "import torch\nPIN = torch.cuda.is_available()\n"
FEEDS = {
    "a generator": "def feed():\n    buf = torch.empty(4, pin_memory=PIN)\n    for i in range(9):\n"
    "        buf.fill_(i)\n        yield buf\n",
    "a view of NumPy": "def feed():\n    buf = torch.empty(4, pin_memory=PIN)\n    arr = buf.numpy()\n"
    "    for i in range(9):\n        arr[:] = i\n        yield buf\n",
    "a function that a map calls": "buf = torch.empty(4, pin_memory=PIN)\ndef fill(i):\n    return buf.fill_(i)\n"
    "def feed():\n    return map(fill, range(9))\n",
    "an iterator": "class Feed:\n    def __init__(self):\n        self.buf, self.i = torch.empty(4).pin_memory(), 0\n"
    "    def __iter__(self):\n        return self\n    def __next__(self):\n        self.i += 1\n"
    "        return self.buf.fill_(self.i)\nfeed = Feed\n",
    "a queue of buffers": "from collections import deque\n"
    "free = deque(torch.empty(4, pin_memory=PIN) for _ in range(2))\ndef feed():\n    for i in range(9):\n"
    "        buf = free.popleft()\n        free.append(buf)\n        buf.fill_(i)\n"
    "        yield buf\n",
    "a function that puts batches together": "from torch.utils.data import DataLoader\n"
    "buf = torch.empty(4, pin_memory=PIN)\n"
    "def collate(items):\n    return buf.fill_(items[0])\n"
    "def feed():\n    return DataLoader(range(9), batch_size=1, collate_fn=collate)\n",
}
LOOP = """
for x in feed():
    x = x.to(device)  # fires
    y = torch.zeros(1, dtype=torch.long)
    STEP
"""


def patched(folder: Path, body: str, other: str, kind: str = "async-copy") -> Patch:
    (folder / "stuff.py").write_text(other)
    text = script(DATA + textwrap.dedent(body))
    return patch_of(folder, text, (Edit(kind, locations=fired(text), depth=1),))  # type: ignore[arg-type]


def tiers(patch: Patch) -> set[str]:
    return {hunk.tier for hunk in patch.hunks}


@pytest.mark.parametrize("name", FEEDS)
def test_memory_that_another_file_fills_again(name: str, tmp_path: Path) -> None:
    assert "safe" not in tiers(patched(tmp_path, "from stuff import feed\n" + LOOP, _PIN + FEEDS[name]))


@pytest.mark.parametrize("name", FEEDS)
def test_memory_that_the_same_file_fills_again(name: str, tmp_path: Path) -> None:
    assert "safe" not in tiers(patched(tmp_path, _PIN + FEEDS[name] + LOOP, ""))


_HANDED = """
from stuff import look
for x, y in DataLoader(data, batch_size=8, pin_memory=True):
    z = x.to(device)  # fires
    {call}
    optimizer.zero_grad()
    criterion(model(z), y.to(device)).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("call", ["look(x)", "look([x])", "look(batch=x[0])"])
def test_a_batch_that_a_function_of_another_file_is_handed(call: str, tmp_path: Path) -> None:
    other = "def look(batch):\n    batch.zero_()\n"
    assert tiers(patched(tmp_path, _HANDED.format(call=call), other)) == {"checked"}


@pytest.mark.parametrize("call", ["look(z)", "look(len(y))", "print(x.shape)"])
def test_a_batch_of_a_loader_that_nobody_is_handed_stays_safe(call: str, tmp_path: Path) -> None:
    other = _PIN + "def look(batch):\n    return batch\nspare = torch.empty(4, pin_memory=PIN)\n"
    assert tiers(patched(tmp_path, _HANDED.format(call=call), other)) == {"safe"}


@pytest.mark.parametrize(
    "other",
    [
        "def pinned(x, device):\n    return x.pin_memory().to(device)\nlook = 1\n",
        "class Batch:\n    def pin_memory(self):\n        return Batch(self.x.pin_memory())\nlook = 1\n",
        "options = {'pin_memory': True}\nlook = 1\n",
    ],
)
def test_pinned_memory_that_is_not_kept_is_no_doubt(other: str, tmp_path: Path) -> None:
    body = "from stuff import look\ndef train(batches):\n    for x, y in batches:\n        x = x.to(device)  # fires\n"
    body += "        optimizer.zero_grad()\n        criterion(model(x), y).backward()\n        optimizer.step()\n"
    assert tiers(patched(tmp_path, body, other)) == {"safe"}


STAGES = {
    "a buffer of its own": _PIN + "buf = torch.empty(8, 4, pin_memory=PIN)\narr = buf.numpy()\n"
    "def stage(x):\n    arr[: len(x)] = x.numpy()\n    return buf[: len(x)].to('cpu', non_blocking=True)\n",
    "a class": "import torch\nclass Stage:\n"
    "    def __init__(self):\n        self.buf = torch.empty(8, 4).pin_memory()\n"
    "    def __call__(self, x):\n        self.buf[: len(x)] = x\n"
    "        return self.buf[: len(x)].cuda(non_blocking=True)\nstage = Stage()\n",
    "a copy to the host": "import torch\nhost = torch.empty(8, 4)\n"
    "def stage(x):\n    host[: len(x)].copy_(x, non_blocking=True)\n    return x\n",
}
WAITS = {"defer-read": "total += loss.item()  # fires", "event-sync": "torch.cuda.synchronize()  # fires"}


@pytest.mark.parametrize("kind", WAITS)
@pytest.mark.parametrize("name", STAGES)
def test_a_wait_beside_copies_of_another_file(name: str, kind: str, tmp_path: Path) -> None:
    loop = f"for x, y in loader:\n    x = stage(x)\n    STEP\n    {WAITS[kind]}\n"
    found = tiers(patched(tmp_path, f"from stuff import stage\ntotal = 0.0\n{loop}", STAGES[name], kind))
    assert found == {"checked"}
