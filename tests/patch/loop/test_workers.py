"""What worker processes ask of a data set: how they can be started, and what in it they could not share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest

from tests.support.parsed_scripts import call_of, parsed
from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import workers
from tracelens.patch.loop.loops import Blocked

SCRIPT = """\
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __getitem__(self, index):
        {item}

def train(model):
    loader = DataLoader({arguments})
    for x in loader:
        {body}

{start}
"""
GUARD = 'if __name__ == "__main__":\n    train(None)'
BARE = "train(None)"


def script(
    folder: Path, start: str = GUARD, arguments: str = "Items(), 4", item: str = "return 1", body: str = "model(x)"
) -> SourceFile:
    return parsed(folder, SCRIPT.format(start=start, arguments=arguments, item=item, body=body))


def parts(source: SourceFile) -> tuple[cst.Call, tuple[cst.BaseSuite]]:
    """The loader's call and the body of the loop over it."""
    (loop,) = (node for node in walk(source.module) if isinstance(node, cst.For))
    return call_of(source, "DataLoader"), (loop.body,)


def started(source: SourceFile, default: str = "fork") -> str:
    return workers.startable(source, *parts(source), default)


def obstacle(ask: Callable[[SourceFile], object], source: SourceFile) -> str:
    with pytest.raises(Blocked) as blocked:
        ask(source)
    return blocked.value.obstacle


ways = pytest.mark.parametrize("default", ["fork", "forkserver"])
"""How Python starts processes where nobody says so: by fork up to 3.13, by forkserver from 3.14 on."""


# ------------------------------------------------------------------------------------------------- how they start


@ways
def test_behind_a_main_guard_workers_start_in_any_way(default: str, tmp_path: Path) -> None:
    assert started(script(tmp_path), default) == (
        "the script has a main guard and its data set looks picklable, so workers start by fork and by spawn"
    )


@ways
@pytest.mark.parametrize(
    ("start", "arguments", "why"),
    [
        (BARE, "Items(), 4", "the script has no main guard"),
        (GUARD, "Items(), collate_fn=lambda x: x", "the data set or a function of the loader is a lambda"),
        (GUARD, "(x for x in y)", "the data set is a generator"),
    ],
)
def test_what_cannot_be_started_anew_must_be_forked(
    start: str, arguments: str, why: str, default: str, tmp_path: Path
) -> None:
    source = script(tmp_path, start, arguments)
    if default == "fork":
        assert started(source, default) == f"{why}, so workers must be forked, as Linux does up to Python 3.13"
    else:
        assert (
            obstacle(lambda one: started(one, default), source)
            == f"{why}, and this Python starts workers by forkserver"
        )


@ways
def test_a_script_that_asks_for_fork_gets_it(default: str, tmp_path: Path) -> None:
    start = f'import multiprocessing\nmultiprocessing.set_start_method("fork")\n{BARE}'
    found = started(script(tmp_path, start), default)
    assert found.startswith("the script has no main guard, so workers must be forked")


@pytest.mark.parametrize(
    ("start", "arguments"),
    [
        (f'import multiprocessing\nmultiprocessing.set_start_method("spawn")\n{BARE}', "Items()"),
        (BARE, 'Items(), multiprocessing_context="spawn"'),
    ],
)
def test_a_script_that_asks_for_another_way_needs_a_guard(start: str, arguments: str, tmp_path: Path) -> None:
    told = "the script has no main guard, and its workers are not forked"
    assert obstacle(started, script(tmp_path, start, arguments)) == told


# -------------------------------------------------------------------------------------------------- the data set


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ("from torch.utils.data import IterableDataset", "may be a stream (`IterableDataset`)"),
        ('load_dataset("x", streaming=True)', "may be a stream (`streaming=True`)"),
        ('file = h5py.File("x")', "keeps a file open (`h5py.File(…)`)"),
    ],
)
def test_streams_and_open_files_are_not_shared(start: str, told: str, tmp_path: Path) -> None:
    assert told in obstacle(started, script(tmp_path, f"{start}\n{GUARD}"))


@pytest.mark.parametrize("arguments", ["Items().cuda()", 'Items(device="cuda")', "Items().to(place)"])
def test_a_data_set_on_the_gpu_stays_with_one_process(arguments: str, tmp_path: Path) -> None:
    told = "the data set is on the GPU, which forked workers cannot use"
    assert obstacle(started, script(tmp_path, arguments=arguments)) == told


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("return self.x[index].cuda()", "`__getitem__` uses the GPU, which forked workers cannot"),
        ("self.count += 1", "`__getitem__` counts, takes from a list or prints, which each worker would do for itself"),
        ("return self.queue.pop()", "`__getitem__` counts, takes from a list or prints"),
        ("print(index)", "`__getitem__` counts, takes from a list or prints"),
        ("return model.scale", "`__getitem__` looks at `model`, which the loop changes"),
    ],
)
def test_an_item_that_is_not_made_of_its_number_alone(item: str, told: str, tmp_path: Path) -> None:
    assert told in obstacle(started, script(tmp_path, item=item))


@pytest.mark.parametrize(
    "item", ["return self.x[index]", "self.cache[index] = 1", "out = []\n        out.append(index)"]
)
def test_an_item_may_be_cached_and_made_of_lists_of_its_own(item: str, tmp_path: Path) -> None:
    assert started(script(tmp_path, item=item)).startswith("the script has a main guard")


# ------------------------------------------------------------------------------------------- what the loop changes


@pytest.mark.parametrize(
    ("arguments", "body", "told"),
    [
        ("items, 4", "items.shuffle()", "the loop uses its data set `items`"),
        ("Items()", "loader.dataset.epoch = 1", "the loop uses the data set of its loader"),
    ],
)
def test_workers_would_not_see_what_the_loop_changes(arguments: str, body: str, told: str, tmp_path: Path) -> None:
    source = script(tmp_path, arguments=arguments, body=body)
    assert obstacle(lambda one: workers.check_same_in_workers(*parts(one)), source) == told


def test_a_loop_that_leaves_its_data_set_alone_may_have_workers(tmp_path: Path) -> None:
    workers.check_same_in_workers(*parts(script(tmp_path, arguments="items, 4")))
