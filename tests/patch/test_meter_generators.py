"""Generators that print meters every so many batches, as reference scripts have them: seen through, or left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.meter_loops import LOOP, MODULO, SEEN_TOO_OFTEN, compare, logged, meters
from tests.support.patching import assert_same, defer, fired, patch_of, patched_text
from tracelens.model import Edit

SHOWN = {
    "every so often, and after the last": meters(),
    "every so often": meters(MODULO),
    "counted by enumerate": meters(loop="        for i, obj in enumerate(iterable):\n", update="", start=""),
    "counted from one": meters(start="        i = 1\n"),
    "counted before it is looked at": meters(MODULO, update="", before="            i += 1\n"),
    "counted just behind the yield": meters(update="", after="            i += 1\n"),
    "only where somebody looks": meters("if torch.is_grad_enabled() and i % print_freq == 0:"),
    "by names of its own": meters(
        "if i % often == 0 or i == 22:", head='            header = ""\n        often = print_freq\n'
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("interval", [10, 4, 1])
@pytest.mark.parametrize("every", ["1", "5", "10", "23", "50"])
def test_a_generator_shows_the_same_meters_at_the_same_batches(every: str, interval: int, tmp_path: Path) -> None:
    text = logged(meters(), every=every)
    patch = patch_of(tmp_path, text, defer(text, interval))
    assert patch.declined == ()
    assert "return i % print_freq == 0 or i == len(iterable) - 1" in patched_text(patch)
    left = assert_same(tmp_path, text, patch)
    assert left.ending == ""
    assert "epoch 1" in left.output


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_when_a_generator_shows_its_meters_is_told_from_its_source(name: str, tmp_path: Path) -> None:
    text = logged(SHOWN[name])
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert "ahead.iterate(enumerate(" in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


@pytest.mark.slow
@pytest.mark.parametrize("every", ["3", "40"])
def test_the_generator_may_stand_in_another_file_of_the_project(every: str, tmp_path: Path) -> None:
    helper = "import torch\n" + meters()
    (tmp_path / "meters.py").write_text(helper)
    text = logged("import meters\nfrom meters import Value\n", LOOP.replace("Meters(", "meters.Meters("), every)
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert any("`log_every` (meters.py:" in hunk.reason for hunk in patch.hunks)
    assert compare(tmp_path, text, patch, helper).ending == ""


def test_a_library_class_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "meters.py").write_text("import torch\n" + meters())
    text = logged("from meters import Value\nfrom library.meters import Meters\n")
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert {"made elsewhere" in one.obstacle for one in patch.declined} == {True}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN_TOO_OFTEN)
def test_a_generator_that_may_show_its_meters_at_any_time_is_left_alone(name: str, tmp_path: Path) -> None:
    classes, words = SEEN_TOO_OFTEN[name]
    patch = patch_of(tmp_path, logged(classes))
    assert patch.empty
    assert [words in one.obstacle for one in patch.declined] == [True, True]


CALLS_OF_OTHER_KINDS = {
    "handed over": (
        LOOP.replace("limit=10 ** 6):\n    logger = M", "limit=9, logger=None):\n    other = M"),
        "elsewhere",
    ),
    "one of two": (LOOP.replace("    logger.add", "    logger = logger or None\n    logger.add"), "made elsewhere"),
    "new in each pass": (LOOP.replace("        STEP", "        logger = logger\n        STEP"), "made elsewhere"),
    "an interval that is used up": (LOOP.replace("print_freq, f", "next(iter([print_freq])), f"), "evaluated again"),
    "a loader that is used up": (LOOP.replace("(loader,", "(iter(loader),"), "evaluated again"),
    "hidden arguments": (LOOP.replace("print_freq, f", "*[print_freq], f"), "hidden"),
    "an iterator around it": (LOOP.replace("in enumerate(", "in zip(range(9), "), "between two batches"),
}


@pytest.mark.parametrize("name", CALLS_OF_OTHER_KINDS)
def test_a_generator_whose_object_or_arguments_are_not_known_is_left_alone(name: str, tmp_path: Path) -> None:
    loop, words = CALLS_OF_OTHER_KINDS[name]
    patch = patch_of(tmp_path, logged(meters(), loop))
    assert patch.empty
    assert {words in one.obstacle for one in patch.declined} == {True}


@pytest.mark.slow
def test_a_tensor_that_a_meter_reads_itself_is_kept_as_it_was_and_read_by_the_meter(tmp_path: Path) -> None:
    """The meter's own read stays the meter's: one by one, when the statement runs."""
    loop = LOOP.replace("rate=optimizer", "error=1 - right / len(y), rate=optimizer")
    text = logged(meters(), loop.replace("        STEP\n", "        STEP\n        right.zero_() if step else 0\n", 0))
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert assert_same(tmp_path, text, patch).ending == ""
    whole = logged(meters(), LOOP.replace("        if step", "        logger.update(whole=loss)\n        if step"))
    patch = patch_of(tmp_path, whole)
    assert patch.empty
    assert {"tensor `loss` itself" in one.obstacle for one in patch.declined} == {True}


@pytest.mark.slow
def test_lines_of_the_loop_itself_do_not_wait_beside_those_of_its_generator(tmp_path: Path) -> None:
    loop = LOOP.replace("        if step", "        print(step, loss.item())  # fires\n        if step")
    text = logged(meters(), loop)
    patch = patch_of(tmp_path, text)
    assert ["writes lines of its own" in one.obstacle for one in patch.declined] == [True]
    assert assert_same(tmp_path, text, patch).ending == ""


@pytest.mark.slow
def test_a_generator_over_a_loader_that_is_prefetched_is_asked_for_the_loader_itself(tmp_path: Path) -> None:
    data = "loader = torch.utils.data.DataLoader([(x[0], y[0]) for x, y in loader], batch_size=2, num_workers=2)\n"
    loop = LOOP.replace(
        "        STEP", "        x = x.to(device)  # copied\n        y = y.to(device)  # copied\n        STEP"
    )
    text = logged(meters() + data, loop)
    edits = (*defer(text), Edit("prefetch", locations=fired(text, "# copied")))
    after = patched_text(patch_of(tmp_path, text, edits))
    assert (
        "logger.log_every(tracelens_runtime.prefetch(loader, device, depth=1, leaves_early=True), print_freq" in after
    )
    assert "(i, iterable=loader, print_freq=print_freq):" in after


SHARED_GENERATORS = {
    "super": meters(before="            super().__init__()\n            passes.update(1)\n"),
    "a base class": meters().replace("class Meters:", "class Base: pass\nclass Meters(Base):"),
    "replaced by its name": meters() + "setattr(Meters, 'log_every', Meters.log_every)\n",
}


@pytest.mark.parametrize("name", SHARED_GENERATORS)
def test_a_generator_that_somebody_else_has_a_part_in_is_left_alone(name: str, tmp_path: Path) -> None:
    text = logged(SHARED_GENERATORS[name], LOOP)
    patch = patch_of(tmp_path, text, defer(text))
    assert patch.empty
    assert any("log_every" in one.obstacle for one in patch.declined)
