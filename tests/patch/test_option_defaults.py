"""The number of workers behind a command-line option: whose default changes, and where nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, patched_text, script
from tracelens.model import Edit, Patch

LOADING = """
import argparse

from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.ones(4) * index, index % 3


def train(loader):
    for x, y in loader:
        STEP


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    {option}
    args = parser.parse_args([])
    {before}
    loader = DataLoader(Squares(), 4, num_workers={number})
    train(loader)
"""
OPTION = 'parser.add_argument("-j", "--num-workers", type=int, default=1, help="of the loader")'


def workers(folder: Path, text: str, count: int = 8) -> Patch:
    return patch_of(folder, text, (Edit("loader-workers", workers=count),))


def loading(option: str = OPTION, before: str = "pass", number: str = "args.num_workers") -> str:
    return script(LOADING.format(option=option, before=before, number=number))


@pytest.mark.parametrize("number", ["args.num_workers", "int(args.num_workers)"])
def test_the_default_of_the_option_changes_and_that_is_checked(number: str, tmp_path: Path) -> None:
    text = loading(number=number)
    made = workers(tmp_path, text)
    assert patched_text(made) == text.replace("default=1", "default=8")
    assert [(hunk.id, hunk.tier) for hunk in made.hunks] == [("TL701", "checked")]
    assert "8 workers instead of 1 where the command does not say how many" in made.hunks[0].reason


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ('parser.add_argument("--workers", "-j", default=0, type=int)', "workers"),
        ('parser.add_argument("-j", default=0, type=int)', "j"),
        ('parser.add_argument("--loaders", dest="n", default=0, type=int)', "n"),
    ],
)
def test_an_option_is_found_by_the_attribute_that_holds_it(option: str, name: str, tmp_path: Path) -> None:
    text = loading(option, number=f"args.{name}")
    assert patched_text(workers(tmp_path, text)) == text.replace("default=0", "default=8")


@pytest.mark.parametrize(
    ("option", "before"),
    [
        ('parser.add_argument("--num-workers", type=int)', "pass"),
        ('parser.add_argument("--num-workers", type=int, default=FEW)', "pass"),
        (f"{OPTION}; {OPTION}", "pass"),
        (OPTION, "args.num_workers = 2"),
        (OPTION, "args.num_workers //= 2"),
        (OPTION, 'setattr(args, "num_workers", 2)'),
        (OPTION, "parser.set_defaults(num_workers=2)"),
        (OPTION, "parser.set_defaults(**more)"),
        (OPTION, "args = read(args)"),
        (f"{OPTION}  # tracelens: keep", "pass"),
    ],
)
def test_what_else_may_decide_the_number_leaves_it_as_it_is(option: str, before: str, tmp_path: Path) -> None:
    made = workers(tmp_path, loading(option, before))
    assert made.empty
    assert made.declined


def test_a_larger_default_stays(tmp_path: Path) -> None:
    assert workers(tmp_path, loading(), count=1).empty


TWO = """
    if resumed:
        loader = DataLoader(Squares(), 4, num_workers=args.num_workers, shuffle=False)
        train(loader)
    else:
        loader = DataLoader(Squares(), 4, num_workers={second})
        train(loader)
"""


@pytest.mark.parametrize(("second", "changed"), [("args.num_workers", 1), ("2", 2)])
def test_a_loop_whose_loader_is_made_at_two_places_gets_them_at_both(second: str, changed: int, tmp_path: Path) -> None:
    one = "    loader = DataLoader(Squares(), 4, num_workers=args.num_workers)\n    train(loader)\n"
    text = loading()
    assert one in text
    made = workers(tmp_path, text.replace(one, TWO.format(second=second)))
    assert len(made.hunks) == changed
    assert "default=8" in patched_text(made)
    assert ("num_workers=8)" in patched_text(made)) == (second == "2")
