"""async-copy and prefetch: what is added to a loop's copies and its loader, and when nothing may be."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.patching import assert_same, fired, patch_of, patched_text, script
from tracelens.model import Edit, Patch
from tracelens.patch.code import movers

DATA = """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(50, 4), torch.randint(0, 3, (50,)))
"""


def copies(folder: Path, body: str, *kinds: str, unsafe: bool = False, depth: int = 1) -> tuple[str, Patch]:
    text = script(DATA + textwrap.dedent(body))
    edits = tuple(Edit(k, locations=fired(text), depth=depth) for k in kinds or ("async-copy",))
    return text, patch_of(folder, text, edits, unsafe=unsafe)


def added(text: str, patch: Patch) -> list[str]:
    before = text.splitlines()
    return [line.strip() for line in patched_text(patch).splitlines() if line not in before]


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
    assert {hunk.tier for hunk in patch.hunks} == {"safe"}
    assert_same(tmp_path, text, patch)


STAYS = {
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


UNKNOWN = {
    "handed over": (
        "def make(options):\n    return DataLoader(data, batch_size=8, **options)\nloader = make({})",
        None,
    ),
    "made by a function": ("options = dict(zip('', ''))\nloader = DataLoader(data, batch_size=8, **options)", None),
    "changed by a function": (
        "def more(options):\n    options['pin_memory'] = False\noptions = {}\nmore(options)\n"
        "loader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "changed under another name": (
        "options = {}\nsame = options\nsame['pin_memory'] = False\nloader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "keys that are not plain": (
        "options = {'pin_' + 'memory': False}\nloader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "of another function": (
        "options = {}\ndef make():\n    return DataLoader(data, batch_size=8, **options)\n"
        "options['pin_memory'] = False\nloader = make()",
        None,
    ),
    "positions": ("loader = DataLoader(*[data, 8])", None),
    "something left out": (
        "options = {'pin_memory': False}\noptions.pop('pin_memory')\n"
        "loader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
}

SEEN_THROUGH = {
    "given on a GPU, as in the examples of PyTorch": (
        "options = {'batch_size': 8}\nif torch.cuda.is_available():\n"
        "    more = {'num_workers': 1, 'pin_memory': True}\n    options.update(more)\n"
        "loader = DataLoader(data, **options)",
        None,
    ),
    "given by a choice": (
        "options = {'num_workers': 1, 'pin_memory': True} if torch.cuda.is_available() else {}\n"
        "loader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "given by a key": (
        "options = dict(batch_size=8)\noptions['pin_memory'] = torch.cuda.is_available()\n"
        "loader = DataLoader(data, **options)",
        None,
    ),
    "given within another": (
        "base = {'pin_memory': False}\noptions = {**base, 'batch_size': 8}\nloader = DataLoader(data, **options)",
        None,
    ),
    "absent": (
        "options = dict(batch_size=8, drop_last=False)\noptions.update(shuffle=False)\n"
        "loader = DataLoader(data, **options)",
        "loader = DataLoader(data, **options, pin_memory=torch.cuda.is_available())",
    ),
    "absent, in a function": (
        "def make(size):\n    options = {'batch_size': size}\n    print(options)\n"
        "    return DataLoader(data, **options)\nloader = make(8)",
        "    return DataLoader(data, **options, pin_memory=torch.cuda.is_available())",
    ),
    "absent in a display": (
        "loader = DataLoader(data, **{'batch_size': 8})",
        "loader = DataLoader(data, **{'batch_size': 8}, pin_memory=torch.cuda.is_available())",
    ),
}


def hidden(folder: Path, making: str) -> tuple[str, Patch]:
    return copies(folder, f"{making}\nfor x, y in loader:\n    x = x.to(device)  # fires\n    STEP\n")


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_loader_with_hidden_arguments_is_left_to_its_owner(name: str, tmp_path: Path) -> None:
    making, _ = UNKNOWN[name]
    text, patch = hidden(tmp_path, making)
    assert added(text, patch) == ["x = x.to(device, non_blocking=True)  # fires"]
    assert ["hidden" in declined.obstacle for declined in patch.declined] == [True]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_hidden_arguments_are_seen_through_where_they_are_made_beside_the_call(name: str, tmp_path: Path) -> None:
    making, line = SEEN_THROUGH[name]
    text, patch = hidden(tmp_path, making)
    copy = "x = x.to(device, non_blocking=True)  # fires"
    assert sorted(added(text, patch)) == sorted([copy, *([line.strip()] if line else [])])
    assert patch.declined == ()
    assert assert_same(tmp_path, text, patch).ending == ""


def test_a_loader_whose_hidden_arguments_choose_no_sampler_can_be_prefetched(tmp_path: Path) -> None:
    body = """
        options = {"num_workers": 2} if device.type == "cuda" else {}
        loader = DataLoader(data, batch_size=8, **options)
        for x, y in loader:
            x, y = x.to(device), y.to(device)  # fires
            STEP
    """
    text, patch = copies(tmp_path, body, "prefetch")
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)
    _, patch = copies(tmp_path, body.replace('"num_workers": 2', '"sampler": None'), "prefetch")
    assert ["needs --unsafe" in one.obstacle for one in patch.declined] == [True]


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


LOADED = """
    loader = DataLoader(data, batch_size=8, num_workers={workers})
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            x = x.to(device)  # fires
            y = y.to(device)  # fires
            STEP
            print(i, x.size(0), f"{{loss.item():.6f}}")
"""


def test_the_loader_is_wrapped_where_the_loop_runs_over_it(tmp_path: Path) -> None:
    text, patch = copies(tmp_path, LOADED.format(workers="2 if device.type == 'cuda' else 0"), "prefetch", depth=2)
    expected = "for i, (x, y) in enumerate(tracelens_runtime.prefetch(loader, device, depth=2)):"
    assert added(text, patch) == ["import tracelens_runtime", expected]
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)


def test_without_workers_a_prefetch_moves_random_draws_and_needs_unsafe(tmp_path: Path) -> None:
    text, patch = copies(tmp_path, LOADED.format(workers=0), "prefetch")
    assert patch.empty
    assert "needs --unsafe" in patch.declined[0].obstacle
    text, patch = copies(tmp_path, LOADED.format(workers=0), "prefetch", unsafe=True)
    assert [hunk.tier for hunk in patch.hunks] == ["unsafe"]
    assert "move_random_draws=True" in patched_text(patch)
    assert_same(tmp_path, text, patch)  # nothing is prefetched on a CPU


def test_copies_and_prefetch_go_together(tmp_path: Path) -> None:
    _, patch = copies(tmp_path, LOADED.format(workers=1), "async-copy", "prefetch")
    assert [hunk.id for hunk in patch.hunks] == ["TL301", "TL401", "TL302"]
    assert "pin_memory=torch.cuda.is_available()" in patched_text(patch)


NOT_WRAPPED = {
    "used on the CPU": ("print(y.tolist())", "used on the CPU"),
    "on two devices": ("y = y.to('cuda:1')", "different devices"),
}


@pytest.mark.parametrize("name", NOT_WRAPPED)
def test_a_batch_that_is_not_copied_as_a_whole_is_not_prefetched(name: str, tmp_path: Path) -> None:
    line, words = NOT_WRAPPED[name]
    body = f"""
        loader = DataLoader(data, batch_size=8, num_workers=2)
        for x, y in loader:
            x = x.to(device)  # fires
            {line}
            STEP
    """
    _, patch = copies(tmp_path, body, "prefetch")
    assert patch.empty
    assert [words in declined.obstacle for declined in patch.declined] == [True]
