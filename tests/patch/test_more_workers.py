"""more-workers and persistent-workers: which loaders get them, and what the script then does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patching import patch_of, patched_text, script
from tests.support.unsafe_patches import reasons, unsafe
from tracelens.model import Edit

# ------------------------------------------------------------------------------------------------------ workers

LOADER = """
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.randn(4), index % 3


def main():
    loader = DataLoader({arguments})
    for epoch in range(2):
        for x, y in loader:
            STEP
        print(epoch, loss.item())


{call}
"""
GUARD = 'if __name__ == "__main__":\n    main()'
ITEMS = "Noisy(), batch_size=4, shuffle=True"


def loading(arguments: str = ITEMS, call: str = GUARD) -> str:
    return script(LOADER.format(arguments=arguments, call=call))


def apart(folder: Path, text: str) -> str:
    """The lines of a script run in a process of its own, as its workers need."""
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(text)
    command = [sys.executable, "train.py"]
    return subprocess.run(command, check=True, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=120).stdout


def test_what_the_loop_copies_to_the_gpu_is_not_its_data_set(tmp_path: Path) -> None:
    head = "        for x, y in loader:\n"
    text = loading().replace(head, head + '            x, y = x.to("cuda"), y.to("cuda")\n')
    assert [hunk.id for hunk in unsafe(tmp_path, text, "more-workers").hunks] == ["TL701"]


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_workers_are_added_and_the_script_runs(tmp_path: Path) -> None:
    text = loading()
    patch = unsafe(tmp_path, text, "more-workers")
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks] == [("TL701", "unsafe")]
    assert "random draws of the data set" in patch.hunks[0].reason and "main guard" in patch.hunks[0].reason
    assert f"DataLoader({ITEMS}, num_workers=2)" in patched_text(patch)
    before, after = apart(tmp_path / "before", text), apart(tmp_path / "after", patched_text(patch))
    assert len(after.splitlines()) == len(before.splitlines()) == 2
    assert after != before, "the items are drawn by the workers' generators, as the reason says"


def test_a_written_number_is_raised_and_never_lowered(tmp_path: Path) -> None:
    assert "num_workers=2" in patched_text(unsafe(tmp_path, loading(f"{ITEMS}, num_workers=1"), "more-workers"))
    assert unsafe(tmp_path, loading(f"{ITEMS}, num_workers=2"), "more-workers").empty


WORKERLESS = {
    "argument": (f"{ITEMS}, num_workers=count", GUARD, "", "comes from `count`"),
    "hidden": (f"{ITEMS}, **options", GUARD, "", "hidden in `*` or `**`"),
    "stream": (ITEMS, GUARD, "from torch.utils.data import IterableDataset\n", "may be a stream"),
    "open file": (ITEMS, GUARD, "def opened(path):\n    return h5py.File(path)\n", "keeps a file open"),
    "on the gpu": (ITEMS.replace("Noisy()", "[x.cuda() for x in []]"), GUARD, "", "is on the GPU"),
    "spawned": (ITEMS, "torch.multiprocessing.set_start_method('spawn')\nmain()", "", "no main guard"),
    "lambda": (f"{ITEMS}, collate_fn=lambda b: b, multiprocessing_context='spawn'", GUARD, "", "is a lambda"),
    "kept": (f"{ITEMS})  # tracelens: keep\n    (", GUARD, "", "tracelens: keep"),
}


@pytest.mark.parametrize("name", WORKERLESS)
def test_loaders_that_cannot_have_workers_stay(name: str, tmp_path: Path) -> None:
    arguments, call, head, why = WORKERLESS[name]
    text = head + loading(arguments, call)
    patch = unsafe(tmp_path, text, "more-workers")
    assert patch.empty
    assert why in reasons(patch, "more-workers")[0]


def test_without_a_main_guard_workers_must_be_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = loading(call="main()")
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["fork", "spawn", "forkserver"])
    assert "workers must be forked" in unsafe(tmp_path, text, "more-workers").hunks[0].reason
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["forkserver", "spawn", "fork"])
    assert "starts workers by forkserver" in reasons(unsafe(tmp_path, text, "more-workers"), "more-workers")[0]


TENSORS = "TensorDataset(torch.arange(16.), torch.zeros(16)), batch_size=4, shuffle=True"


@pytest.mark.parametrize(
    ("arguments", "tier"),
    [
        (TENSORS, "safe"),
        (f"{TENSORS}, drop_last=True", "safe"),
        (f"{TENSORS}, sampler=order", "checked"),
        (f"{TENSORS}, collate_fn=torch.stack", "checked"),
        (ITEMS, "checked"),
    ],
)
def test_as_a_lever_workers_are_proved_for_tensors_and_checked_for_the_rest(
    arguments: str, tier: str, tmp_path: Path
) -> None:
    text = "from torch.utils.data import TensorDataset\n" + loading(arguments)
    patch = patch_of(tmp_path, text, (Edit("loader-workers", workers=2),))
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks] == [("TL701", tier)]
    assert f"DataLoader({arguments}, num_workers=2)" in patched_text(patch)


def test_a_named_set_of_tensors_is_followed_to_its_only_value(tmp_path: Path) -> None:
    head = "from torch.utils.data import TensorDataset\n"
    named = loading("data, batch_size=4").replace(
        "    loader =", "    data = TensorDataset(torch.ones(8))\n    loader ="
    )
    lever = (Edit("loader-workers", workers=2),)
    assert [hunk.tier for hunk in patch_of(tmp_path, head + named, lever).hunks] == ["safe"]
    wrapped = named.replace("    loader =", "    data = Noisy()\n    loader =")
    assert [hunk.tier for hunk in patch_of(tmp_path, head + wrapped, lever).hunks] == ["checked"]


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_workers_of_a_set_of_tensors_change_no_number(tmp_path: Path) -> None:
    head = "from torch.utils.data import TensorDataset\n"
    tensors = "TensorDataset(torch.randn(16, 4), torch.arange(16) % 3), batch_size=4, shuffle=True"
    text = head + loading(tensors)
    patch = patch_of(tmp_path, text, (Edit("loader-workers", workers=2),))
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert apart(tmp_path / "before", text) == apart(tmp_path / "after", patched_text(patch)) != ""


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_workers_that_stay_alive_change_the_second_epoch_only(tmp_path: Path) -> None:
    text = loading(f"{ITEMS}, num_workers=1")
    patch = unsafe(tmp_path, text, "persistent-workers")
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks] == [("TL801", "unsafe")]
    assert "from the second epoch on the shuffle" in patch.hunks[0].reason
    before, after = apart(tmp_path / "before", text), apart(tmp_path / "after", patched_text(patch))
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[1] != before.splitlines()[1]


def test_the_number_of_workers_may_stand_behind_a_name(tmp_path: Path) -> None:
    patch = unsafe(tmp_path, loading(f"{ITEMS}, num_workers=count"), "persistent-workers")
    assert "num_workers=count, persistent_workers=count > 0" in patched_text(patch)


def test_where_workers_must_not_stay_alive(tmp_path: Path) -> None:
    with_workers = f"{ITEMS}, num_workers=1"
    changing = loading(with_workers).replace(
        "        for x, y in loader", "        loader.dataset.epoch = epoch\n        for x, y in loader"
    )
    once = loading(with_workers).replace("    for epoch in range(2):", "    epoch = 0\n    if True:")
    for text, why in (
        (changing, "the data set may change between two epochs"),
        (once, "there is no second epoch"),
        (loading(), "has no workers"),
    ):
        patch = unsafe(tmp_path, text, "persistent-workers")
        assert patch.empty
        assert why in reasons(patch, "persistent-workers")[0]
    assert unsafe(tmp_path, loading(f"{with_workers}, persistent_workers=True"), "persistent-workers").empty


LASTING_ITEMS = {
    "counts": "self.n += 1; return torch.ones(4), 1",
    "takes from an iterator": "next(LASTING_ITEMS); return torch.ones(4), 1",
    "looks at the model": "return model.weight.detach()[0], 1",
}


@pytest.mark.parametrize("name", LASTING_ITEMS)
def test_items_that_leave_something_behind_are_not_made_by_workers(name: str, tmp_path: Path) -> None:
    text = script(
        "from torch.utils.data import DataLoader\nITEMS = iter(range(1000))\nclass Data:\n    n = 0\n"
        f"    def __len__(self): return 8\n    def __getitem__(self, i): {LASTING_ITEMS[name]}\n"
        "loader = DataLoader(Data(), batch_size=4)\nfor x, y in loader:\n    STEP\n"
    )
    patch = patch_of(tmp_path, text, (Edit("more-workers", workers=2),), unsafe=True)
    assert patch.empty
    assert any("`__getitem__`" in one.obstacle for one in patch.declined)


def test_builtins_that_the_loop_uses_too_do_not_keep_workers_away(tmp_path: Path) -> None:
    text = script(
        "from torch.utils.data import DataLoader\nclass Data:\n    def __len__(self): return 8\n"
        "    def __getitem__(self, i): return torch.ones(len(range(4))), 1\n"
        "loader = DataLoader(Data(), batch_size=4)\nfor x, y in loader:\n    STEP\n    print(len(range(3)))\n"
    )
    assert patch_of(tmp_path, text, (Edit("more-workers", workers=2),), unsafe=True).hunks


def test_a_number_from_elsewhere_is_declined_at_its_own_line(tmp_path: Path) -> None:
    text = (
        loading(ITEMS)
        .replace("DataLoader(", "DataLoader(\n        ")
        .replace(ITEMS, f"{ITEMS},\n        num_workers=count")
    )
    (declined,) = patch_of(tmp_path, text, (Edit("loader-workers", workers=2),)).by_hand
    assert text.splitlines()[(declined.location.line or 0) - 1].strip().startswith("num_workers=count")
    assert declined.obstacle == "the number of workers comes from `count`"
