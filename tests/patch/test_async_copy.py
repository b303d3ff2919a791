"""async-copy: which copies of the batch become asynchronous, which loaders pinned, and when neither may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.copies import LOADED, added, copies
from tests.support.patching import assert_same, patched_text
from tracelens.patch.code import movers

ADDED = {
    "names of the batch, loader without pinning": (
        """
        loader = DataLoader(data, batch_size=8)
        for x, y in loader:
            x = x.to(device)  # fires
            y = y.to(device=device)  # fires
            STEP
        """,
        [
            "loader = DataLoader(data, batch_size=8, pin_memory=torch.cuda.is_available())",
            "x = x.to(device, non_blocking=True)  # fires",
            "y = y.to(device=device, non_blocking=True)  # fires",
        ],
    ),
    "two copies in one statement": (
        """
        loader = DataLoader(data, batch_size=8, pin_memory=True)
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)  # fires
            STEP
        """,
        ["x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)  # fires"],
    ),
    "loader with an argument per line": (
        """
        loader = DataLoader(
            data,
            batch_size=8,
        )
        for i, batch in enumerate(loader):
            x, y = batch
            x = x.to(device, torch.float32)  # fires
            STEP
        """,
        ["pin_memory=torch.cuda.is_available(),", "x = x.to(device, torch.float32, non_blocking=True)  # fires"],
    ),
    "comprehension over the batch": (
        """
        loader = DataLoader(data, 8, True)
        for batch in loader:
            x, y = [part.to(device) for part in batch]  # fires
            STEP
        """,
        [
            "loader = DataLoader(data, 8, True, pin_memory=torch.cuda.is_available())",
            "x, y = [part.to(device, non_blocking=True) for part in batch]  # fires",
        ],
    ),
    "loader as a parameter": (
        """
        def train(model, batches):
            for x, y in batches:
                x = x.to(device)  # fires
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        train(model, DataLoader(data, batch_size=8))
        """,
        [
            "x = x.to(device, non_blocking=True)  # fires",
            "train(model, DataLoader(data, batch_size=8, pin_memory=torch.cuda.is_available()))",
        ],
    ),
    "loader as a parameter of a function that is called as a method of modules is": (
        """
        def train(model, batches):
            model.train()
            for x, y in batches:
                x = x.to(device)  # fires
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        kwargs = {'batch_size': 8}
        loader = DataLoader(data, **kwargs)
        train(model, loader)
        """,
        [
            "x = x.to(device, non_blocking=True)  # fires",
            "loader = DataLoader(data, **kwargs, pin_memory=torch.cuda.is_available())",
        ],
    ),
    "by the name of a type": (
        """
        loader = DataLoader(data, batch_size=8, pin_memory=True)
        Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
        for x, y in loader:
            x = x.type(Tensor)  # fires
            STEP
        """,
        ["x = x.type(Tensor, non_blocking=True)  # fires"],
    ),
    "a view of the batch": (
        """
        loader = DataLoader(data, batch_size=8, pin_memory=True)
        for x, y in loader:
            x = x.view(x.size(0), -1)
            x, y = x.to(device), y.to(device)  # fires
            STEP
        """,
        ["x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)  # fires"],
    ),
    "nested lists and dicts of the batch": (
        """
        loader = DataLoader([{"x": torch.randn(4), "y": torch.tensor(1), "more": [torch.ones(2)]}] * 20, batch_size=5)
        for batch in loader:
            more = [part.to(device) for part in batch["more"]]  # fires
            batch = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}  # fires
            x, y = batch["x"], batch["y"]
            STEP
        """,
        [
            'loader = DataLoader([{"x": torch.randn(4), "y": torch.tensor(1), "more": [torch.ones(2)]}] * 20,'
            " batch_size=5, pin_memory=torch.cuda.is_available())",
            'more = [part.to(device, non_blocking=True) for part in batch["more"]]  # fires',
            "batch = {k: v.to(device, non_blocking=True) if isinstance(v, torch.Tensor) else v"
            " for k, v in batch.items()}  # fires",
        ],
    ),
    "pinned on purpose by a variable": (
        """
        loader = DataLoader(data, batch_size=8, pin_memory=False)
        for x, y in loader:
            x = x.to(device)  # fires
            STEP
        """,
        ["x = x.to(device, non_blocking=True)  # fires"],
    ),
}


@pytest.mark.parametrize("name", ADDED)
def test_copies_of_the_batch_and_its_loader_get_their_arguments(name: str, tmp_path: Path) -> None:
    body, lines = ADDED[name]
    text, patch = copies(tmp_path, body)
    assert sorted(added(text, patch)) == sorted(lines)
    assert patch.declined == ()
    plain = name != "nested lists and dicts of the batch"
    assert {hunk.tier for hunk in patch.hunks} == ({"safe"} if plain else {"safe", "checked"})
    assert_same(tmp_path, text, patch)


STAYS = {
    "a part of what is there": (
        "x = x.float().to(device)\n            x = x[:, :4].to(device)  # fires",
        "already",
    ),
    "a part of a part": ("x = x.cuda()\n            x = x[:4]\n            z = x[:2].cuda()  # fires", "already"),
    "to the host": ("x = x.to('cpu')  # fires", "changes"),
    "model": ("model = model.to(device)  # fires", "as the loader gives it"),
    "to another type": ("x = x.to(torch.float64).float()  # fires", "no call on this line"),
    "to the type of another": ("x = x.to(model.weight.dtype)  # fires", "no call on this line"),
    "to another layout": ("x = x.to(memory_format=torch.contiguous_format)  # fires", "no call on this line"),
    "made in the loop": ("x = torch.ones(5, 4); x = x.to(device)  # fires", "as the loader gives it"),
    "made of numbers of the host": (
        "import numpy as np; noise = torch.cuda.FloatTensor(np.ones(3)) if False else 0  # fires",
        "made on the host",
    ),
    "converted on the CPU first": ("x = x.float().to(device)  # fires", "as the loader gives it"),
    "hidden arguments": ("x = x.to(**{'device': device})  # fires", "hidden"),
    "kept": ("x = x.to(device)  # tracelens: keep  # fires", "keep"),
    "MPS": ("x = x.to('mps' if torch.backends.mps.is_available() else 'cpu')  # fires", "MPS"),
}


@pytest.mark.parametrize("name", STAYS)
def test_other_copies_stay(name: str, tmp_path: Path) -> None:
    line, words = STAYS[name]
    body = f"""
        loader = DataLoader(data, batch_size=8, pin_memory=True)
        for x, y in loader:
            {line}
            STEP
    """
    _, patch = copies(tmp_path, body)
    assert patch.empty
    assert [words in declined.obstacle for declined in patch.declined] == [True]


MOVES = {
    "below a condition": "if device.type == 'mps:0':\n        x = x.to(device)\n    x = x.to(device)  # fires",
    "to another type": "x = x.to(torch.float32)\n    x = x.to(device)  # fires",
    "another batch": "x = x.to(device)\n    x, y = next(iter(loader))\n    x = x[:4].to(device)  # fires",
    "another device": "z = x.to('cuda:1') if False else x\n    x = x.to(device)  # fires",
}


@pytest.mark.parametrize("name", MOVES)
def test_what_may_not_be_there_yet_is_copied(name: str, tmp_path: Path) -> None:
    body = (
        f"loader = DataLoader(data, batch_size=8, pin_memory=True)\nfor x, y in loader:\n    {MOVES[name]}\n    STEP\n"
    )
    _, patch = copies(tmp_path, body)
    assert not any("already" in one.obstacle for one in patch.declined)


def test_a_class_of_the_project_that_moves_itself_is_never_handed_an_argument_it_does_not_know(tmp_path: Path) -> None:
    """A batch of detection targets is a list of the project's own boxes: `to(device)` is all that they know."""
    boxes = "class BoxList:\n    def to(self, device):\n        return self\n"
    (tmp_path / "structures").mkdir()
    (tmp_path / "structures" / "boxes.py").write_text(boxes)
    body = """
        loader = DataLoader(data, batch_size=8, pin_memory=True)
        for x, targets in loader:
            targets = [target.to(device) for target in targets]  # fires
            y = torch.stack(targets)
            STEP
    """
    _, patch = copies(tmp_path, body)
    assert patch.empty
    assert ["structures/boxes.py:2" in one.obstacle for one in patch.declined] == [True]


def test_a_method_that_passes_everything_on_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "boxes.py").write_text("class A:\n    def to(self, *args, **kwargs):\n        return self\n")
    assert movers.find(tmp_path) == ()


def test_a_loader_that_two_loops_share_is_pinned_once(tmp_path: Path) -> None:
    loop = "for x, y in loader:\n    x = x.to(device)  # fires\n    STEP\n"
    text, patch = copies(tmp_path, f"loader = DataLoader(data, batch_size=8)\n{loop}{loop}")
    assert patched_text(patch).count("pin_memory=") == 1
    assert len([hunk for hunk in patch.hunks if "pinned" in hunk.reason]) == 1
    assert_same(tmp_path, text, patch)


def test_accelerate_owns_the_copies(tmp_path: Path) -> None:
    body = """
        from accelerate import Accelerator
        loader = DataLoader(data, batch_size=8)
        for x, y in loader:
            x = x.to(device)  # fires
            STEP
    """
    _, patch = copies(tmp_path, body, "async-copy", "prefetch")
    assert patch.empty
    assert {"Accelerate" in one.obstacle for one in patch.declined} == {True}


def test_a_batch_that_the_host_writes_into_is_not_copied_behind_its_back(tmp_path: Path) -> None:
    body = """
        loader = DataLoader(data, batch_size=8, pin_memory=True)
        for x, y in loader:
            moved = x.to(device)  # fires
            x.mul_(2)
            STEP
    """
    _, patch = copies(tmp_path, body)
    assert patch.empty
    assert "write into the batch" in patch.declined[0].obstacle


NESTED_DATA = """
    samples = [(torch.randn(4), {"y": torch.tensor(i % 3), "id": f"n{i}", "more": torch.ones(2)}) for i in range(20)]
    loader = DataLoader(samples, batch_size=5, num_workers=int(device.type == "cuda"), pin_memory=False,
                        collate_fn=lambda items: (torch.stack([x for x, _ in items]), [t for _, t in items]))
    for x, targets in loader:
        x = x.to(device)  # fires
        NESTED  # fires
        y = torch.stack([t["y"] for t in targets])
        STEP
        print(loss.item(), [t["id"] for t in targets])
"""

NESTED = {
    "every value": ("targets = [{k: v.to(device) for k, v in t.items() if k != 'id'} for t in targets]", False),
    "tensors only": (
        "targets = [{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()} for t in targets]",
        True,
    ),
    "what torch calls a tensor": (
        "targets = [{k: (v.to(device) if torch.is_tensor(v) else v) for k, v in t.items()} for t in targets]",
        True,
    ),
    "what can be moved": (
        "targets = [{k: v.to(device) if hasattr(v, 'to') else v for k, v in t.items()} for t in targets]",
        True,
    ),
    "by the function of lists": (
        "targets = list({k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in t.items()}"
        " for t in targets)",
        True,
    ),
    "by name": (
        "targets = [{k: v.to(device) if k != 'id' else v for k, v in t.items()} for t in targets]",
        False,
    ),
    "by the type of the CPU": (
        "targets = [{k: v.to(device) if isinstance(v, torch.FloatTensor) else v for k, v in t.items()}"
        " for t in targets]",
        False,
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_batches_that_are_rebuilt_in_the_loop_are_copied_without_waiting(name: str, tmp_path: Path) -> None:
    line, ahead = NESTED[name]
    body = NESTED_DATA.replace("NESTED", line)
    if "if k != 'id'}" in line:
        body = body.replace(', [t["id"] for t in targets]', "")
    text, patch = copies(tmp_path, body)
    assert patch.declined == ()
    assert ".to(device, non_blocking=True)" in added(text, patch)[1]
    assert assert_same(tmp_path, text, patch).ending == ""
    text, patch = copies(tmp_path, body, "prefetch")
    assert bool(patch.hunks) == ahead
    assert all("used on the CPU" in one.obstacle for one in patch.declined)
    assert assert_same(tmp_path, text, patch).ending == "" if ahead else True


def test_a_batch_whose_parts_are_made_anew_or_written_into_is_not_copied_behind_the_hosts_back(tmp_path: Path) -> None:
    anew = NESTED_DATA.replace("        NESTED", "        targets = shuffled(targets)\n        NESTED")
    anew = anew.replace("NESTED", "targets = [{k: v.to(device) for k, v in t.items()} for t in targets]")
    _, patch = copies(tmp_path, anew)
    assert ["as the loader gives it" in one.obstacle for one in patch.declined] == [True]
    written = NESTED_DATA.replace("NESTED", "moved = [{k: v.to(device) for k, v in t.items()} for t in targets]")
    written = written.replace("        STEP", '        targets[0]["more"].mul_(2)\n        STEP')
    _, patch = copies(tmp_path, written)
    assert ["write into the batch" in one.obstacle for one in patch.declined] == [True]


def test_copies_and_prefetch_go_together(tmp_path: Path) -> None:
    _, patch = copies(tmp_path, LOADED.format(workers=1), "async-copy", "prefetch")
    assert [hunk.id for hunk in patch.hunks] == ["TL301", "TL401", "TL302"]
    assert "pin_memory=torch.cuda.is_available()" in patched_text(patch)
