"""Loops that are only right because the host waits: a synchronize, a read or a copy of theirs has to stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, fired, patch_of, patched_text, script
from tracelens.model import Edit, EditKind, Patch

LOADED = """
    from torch.utils.data import DataLoader, TensorDataset
    import numpy as np
    data = TensorDataset(torch.randn(40, 4), torch.randint(0, 3, (40,)))
    loader = DataLoader(data, batch_size=8, num_workers={workers})
"""


def patch_for(folder: Path, body: str, *kinds: EditKind, **options: bool) -> tuple[str, Patch]:
    text = script(body)
    edits = tuple(Edit(kind, locations=fired(text), interval=10, depth=1) for kind in kinds)
    return text, patch_of(folder, text, edits, **options)


def obstacles(patch: Patch) -> str:
    assert patch.empty
    return " | ".join(one.obstacle for one in patch.declined)


WAIT = """
    {before}
    for x, y in loader:
        STEP
        {inside}
"""

RELIED = {
    "an event that is asked": ("done = torch.cuda.Event()", "done.record(); SYNC\n        ok = done.query()", "asks"),
    "a copy to the host, by position": ("host = torch.empty(5, 3)", "host.copy_(model(x), True); SYNC", "to the host"),
    "a copy to a device called cpu": (
        "cpu = torch.device('cpu')",
        "out = x.to(cpu, non_blocking=True); SYNC",
        "to the host",
    ),
    "a copy to torch's cpu": ("", "out = x.to(torch.device('cpu'), non_blocking=True); SYNC", "to the host"),
    "a copy with hidden arguments": ("how = {'non_blocking': True}", "out = x.to('cpu', **how); SYNC", "to the host"),
    "a pinned buffer": (
        "buffer = torch.empty(5, 4).pin_memory()",
        "buffer.copy_(x); moved = buffer.to('cuda', non_blocking=True); SYNC",
        "pinned memory",
    ),
    "a pinned buffer that is filled by slices": (
        "buffers = [torch.empty(5, 4, pin_memory=True) for _ in range(2)]",
        "buffers[0][:] = x; moved = buffers[0].to('cuda', non_blocking=True); SYNC",
        "pinned memory",
    ),
    "a pinned buffer that a function fills": (
        "buffer = torch.empty(5, 4).pin_memory()\n    def fill(t, v):\n        t[:] = v",
        "fill(buffer, x); moved = buffer.to('cuda', non_blocking=True); SYNC",
        "pinned memory",
    ),
}


@pytest.mark.parametrize("name", RELIED)
@pytest.mark.parametrize("kind", ["event-sync", "interval-sync", "defer-read"])
def test_a_wait_stays_where_something_relies_on_it(name: str, kind: EditKind, tmp_path: Path) -> None:
    before, inside, words = RELIED[name]
    wait = "total = loss.item()" if kind == "defer-read" else "torch.cuda.synchronize()"
    first, _, rest = inside.partition("SYNC")
    lines = [*(line.strip() for line in first.split(";") if line.strip()), f"{wait}  # fires", rest.strip()]
    body = WAIT.format(before=before, inside="\n        ".join(line for line in lines if line))
    assert words in obstacles(patch_for(tmp_path, body, kind)[1])


PROCESSES = {
    "a queue": ("import torch.multiprocessing as mp\n    queue = mp.Queue()", "processes"),
    "cupy": ("import cupy", "cupy"),
    "numba": ("from numba import cuda", "numba.cuda"),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_synchronize_stays_beside_others_who_use_the_gpu_and_a_read_need_not(name: str, tmp_path: Path) -> None:
    before, words = PROCESSES[name]
    body = WAIT.format(before=before, inside="torch.cuda.synchronize()  # fires")
    assert words in obstacles(patch_for(tmp_path, body, "event-sync")[1])
    body = WAIT.format(before=f"total = 0.0\n    {before}", inside="total += loss.item()  # fires")
    assert [hunk.edit for hunk in patch_for(tmp_path, body, "defer-read")[1].hunks] == ["defer-read"]


HARMLESS = {
    "polled": ("done = torch.cuda.Event()", "while not done.query(): pass"),
    "a query of something else": ("", "rows = table.query('a > 1')"),
    "blocking copies": ("cpu = torch.device('cpu')", "out = x.to(cpu, non_blocking=False)"),
    "a device that only the command line knows": (
        "import argparse; args = argparse.Namespace(device='cuda')\n    if not torch.cuda.is_available():\n"
        "        args.device = 'cpu'\n    target = torch.device(args.device)",
        "out = x.to(target, non_blocking=True)",
    ),
    "copied to the GPU": ("", "moved = x.to('cuda', non_blocking=True)"),
    "pinned anew in each batch": ("", "fresh = x.pin_memory()\n        moved = fresh.to('cuda', non_blocking=True)"),
    "pinned and copied at once": ("", "moved = x.pin_memory().to('cuda', non_blocking=True)"),
    "pinned and never written": ("table = torch.ones(9).pin_memory()", "moved = table[:5].to(device)"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_waits_for_itself_or_needs_no_wait_is_no_obstacle(name: str, tmp_path: Path) -> None:
    before, inside = HARMLESS[name]
    body = WAIT.format(before=before, inside=f"torch.cuda.synchronize()  # fires\n        {inside}")
    assert [hunk.edit for hunk in patch_for(tmp_path, body, "event-sync")[1].hunks] == ["event-sync"]


# ------------------------------------------------------------------------------------------------------- copies

WRITTEN = {
    "a slice": "x[:, 0] = 0",
    "in place": "x *= 2",
    "out": "torch.add(x, 1, out=x)",
    "through numpy": "view = x.numpy()\n        view[:] = 0",
    "through a view": "x.view(-1)[0].fill_(3)",
    "under another name": "same = x\n        same += 1",
    "by numpy": "np.copyto(x.numpy(), 0)",
    "by a function": "wipe(x)",
    "by a function of torch": "nn.functional.relu(x, inplace=True)",
    "by a layer": "act = nn.ReLU(inplace=True)\n        act(x)",
    "in a list": "kept = []\n        kept.append(x)\n        for one in kept[-2:]: one.clamp_(0, 1)",
    "as an item": "kept = {}\n        kept['x'] = x\n        kept['x'].mul_(2)",
    "as an attribute": "model.last = x\n        model.last.mul_(2)",
}


BEFORE = {
    "through numpy": ("array = x.numpy()", "array *= 0"),
    "through a view": ("rows = x.data", "rows[0] = 0"),
    "as an attribute": ("model.last = x", "model.last.zero_()"),
    "in a queue": ("kept = [x]\n        kept.append(x)", "kept[0].fill_(0)"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_has_got_the_batch_before_may_write_though_its_name_is_the_copys(name: str, tmp_path: Path) -> None:
    before, after = BEFORE[name]
    head = LOADED.format(workers=0) + "    for x, y in loader:\n"
    copied = "        x = x.to(device)  # fires\n"
    patch = patch_for(tmp_path, f"{head}        {before}\n{copied}        {after}\n        STEP\n", "async-copy")[1]
    assert "may write into the batch during the copy" in obstacles(patch)
    assert patch_for(tmp_path, f"{head}{copied}        x.mul_(2)\n        STEP\n", "async-copy")[1].hunks


@pytest.mark.parametrize("name", WRITTEN)
def test_a_batch_that_the_host_writes_into_is_copied_while_it_waits(name: str, tmp_path: Path) -> None:
    wipe = "    def wipe(tensor, value=0):\n        tensor.fill_(value)\n"
    head = LOADED.format(workers=0) + wipe
    loop = f"    for x, y in loader:\n        moved = x.to(device)  # fires\n        {WRITTEN[name]}\n        STEP\n"
    assert "may write into the batch during the copy" in obstacles(patch_for(tmp_path, head + loop, "async-copy")[1])


def test_a_batch_whose_parts_are_replaced_is_not_written_into(tmp_path: Path) -> None:
    body = LOADED.format(workers=0) + (
        "    for batch in loader:\n"
        "        batch[0] = batch[0].to(device)  # fires\n"
        "        batch[1] = batch[1].to(device)  # fires\n"
        "        x, y = batch\n"
        "        x += 0.5\n"
        "        STEP\n"
    )
    text, patch = patch_for(tmp_path, body, "async-copy")
    assert patched_text(patch).count("non_blocking=True") == 2
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_copy_beside_a_pinned_buffer_of_the_scripts_own_may_be_what_waits_for_it(
    workers: int, tmp_path: Path
) -> None:
    body = LOADED.format(workers=workers) + (
        "    buffer = torch.empty(8, 4).pin_memory()\n"
        "    for x, y in loader:\n"
        "        buffer.copy_(x)\n"
        "        x = buffer.to('cuda', non_blocking=True)\n"
        "        y = y.to(device)  # fires\n"
        "        STEP\n"
    )
    assert "pinned memory" in obstacles(patch_for(tmp_path, body, "async-copy", "prefetch")[1])


STIFF = {
    "small integers": ("", "y = y.to(device, torch.uint8)", "small integer"),
    "meshes": ("import pytorch3d.structures\n    ", "x = x.to(device)", "pytorch3d"),
}


@pytest.mark.parametrize("name", STIFF)
def test_a_copy_that_would_convert_otherwise_or_not_know_the_argument_stays(name: str, tmp_path: Path) -> None:
    before, line, words = STIFF[name]
    body = f"{LOADED.format(workers=0)}    {before}for x, y in loader:\n        {line}  # fires\n        STEP\n"
    assert words in obstacles(patch_for(tmp_path, body, "async-copy")[1])


ON_GPU = {
    "tensors": "data = TensorDataset(torch.ones(40, 4).to(device), torch.zeros(40))",
    "tensors under names": "rows = torch.ones(40, 4).cuda()\n    data = TensorDataset(rows, torch.zeros(40))",
    "items": (
        "class D:\n        def __getitem__(self, i):\n            return torch.ones(4, device=device)\n    data = D()"
    ),
    "batches": "def my_collate(rows):\n        return torch.stack(rows).to(device)",
}


@pytest.mark.parametrize("name", ON_GPU)
def test_a_loader_with_items_on_the_gpu_is_not_told_to_pin_them(name: str, tmp_path: Path) -> None:
    """`cannot pin 'torch.cuda.FloatTensor'` would have been the end of the first batch."""
    body = (
        "    from torch.utils.data import DataLoader, TensorDataset\n    data = None\n"
        f"    {ON_GPU[name]}\n"
        "    for x, y in DataLoader(data, batch_size=8):\n"
        "        y = y.to('cuda')  # fires\n"
        "        STEP\n"
    )
    _, patch = patch_for(tmp_path, body, "async-copy")
    assert "pin_memory" not in patched_text(patch)
    assert any("only memory of the host can be pinned" in one.obstacle for one in patch.declined)


# ----------------------------------------------------------------------------------------------------- prefetch

AHEAD = {
    "a break": ("", "break", "safe", "prefetch(loader, device, depth=1, leaves_early=True)"),
    "a break of an inner loop": ("", "for _ in range(3): break", "safe", "prefetch(loader, device, depth=1)"),
    "workers that live on": (", persistent_workers=True", "pass", "safe", "prefetch(loader, device, depth=1)"),
    "a break beside them": (", persistent_workers=True", "break", "unsafe", "move_random_draws=True"),
    "a generator": (", generator=torch.Generator()", "pass", "unsafe", "move_random_draws=True"),
    "a sampler": (", sampler=range(8)", "pass", "unsafe", "move_random_draws=True"),
}


@pytest.mark.parametrize("name", AHEAD)
def test_a_loop_that_ends_early_or_shares_its_draws_is_prefetched_only_where_that_cannot_show(
    name: str, tmp_path: Path
) -> None:
    argument, last, tier, written = AHEAD[name]
    head = LOADED.format(workers=f"1{argument}")
    body = f"{head}    for x, y in loader:\n        x = x.to(device)  # fires\n        y = y.to(device)\n        STEP\n"
    _, patch = patch_for(tmp_path, f"{body}        {last}\n", "prefetch")
    assert patch.empty == (tier == "unsafe")
    _, patch = patch_for(tmp_path, f"{body}        {last}\n", "prefetch", unsafe=True)
    assert [hunk.tier for hunk in patch.hunks] == [tier]
    assert written in patched_text(patch)
