"""rare-call: which calls are made every N batches only, when that is proved, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import fired, patched_text, script
from tracelens.model import Edit, Patch
from tracelens.patch.recipes import PatchOptions, make

LOOP = """
import gc
import sys
{head}

for step, (x, y) in enumerate(loader):
    STEP
    {call}  # fires
"""


def patch(folder: Path, call: str, head: str = "", body: str = LOOP) -> Patch:
    text = script(body.format(call=call, head=head))
    (folder / "train.py").write_text(text)
    edit = Edit("rare-call", locations=fired(text), interval=100)
    return make(folder, folder / "train.py", (edit,), (), PatchOptions())


@pytest.mark.parametrize(
    ("call", "head", "tier"),
    [
        ("gc.collect()", "", "safe"),
        ("gc.collect(1)", "", "safe"),
        ("gc.collect()", "import weakref", "checked"),
        ("gc.collect()", "class Handle:\n    def __del__(self):\n        print('gone')", "checked"),
        ("gc.collect()", "gc.disable()", "checked"),
        ("torch.cuda.empty_cache()", "", "safe"),
        ("torch.cuda.empty_cache()", "free = torch.cuda.mem_get_info", "checked"),
        ("sys.stdout.flush()", "", "checked"),
    ],
)
def test_the_call_goes_below_a_counter(call: str, head: str, tier: str, tmp_path: Path) -> None:
    made = patch(tmp_path, call, head)
    assert [(hunk.id, hunk.tier) for hunk in made.hunks] == [("TL901", tier)]
    assert f"    if step % 100 == 0:  # thinned by tracelens\n        {call}  # fires\n" in patched_text(made)


COUNTED = "    if next(collect_calls) % 100 == 0:  # thinned by tracelens\n"


def test_a_while_loop_counts_the_calls(tmp_path: Path) -> None:
    made = patch(tmp_path, "", body="import gc\n\nwhile True:\n    STEP\n    gc.collect()  # fires\n")
    assert [(hunk.id, hunk.tier) for hunk in made.hunks] == [("TL901", "safe")]
    assert f"{COUNTED}        gc.collect()  # fires\n" in patched_text(made)
    assert "import itertools\n\ncollect_calls = itertools.count()\n\n\nwhile True:" in patched_text(made)
    assert "for up to 100 calls" in made.hunks[0].reason


def test_another_file_of_the_project_may_notice(tmp_path: Path) -> None:
    (tmp_path / "cache.py").write_text("import weakref\n\nseen = weakref.WeakValueDictionary()\n")
    assert [hunk.tier for hunk in patch(tmp_path, "gc.collect()").hunks] == ["checked"]


def test_neighbors_share_a_condition_and_a_loop_without_a_counter_gets_one(tmp_path: Path) -> None:
    body = (
        "import gc\n\nfor x, y in loader:\n    STEP\n    gc.collect()  # fires\n    torch.cuda.empty_cache()  # fires\n"
    )
    made = patch(tmp_path, "", body=body)
    text = patched_text(made)
    assert "for batch_number, (x, y) in enumerate(loader):" in text
    assert text.count("if batch_number % 100 == 0:") == 1
    assert "stay in memory for up to 100 batches" in made.hunks[0].reason
    assert "gives it back by itself" in made.hunks[0].reason


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("freed = gc.collect()", "no call on this line"),
        ("print(gc.collect())", "no call on this line"),
        ("gc.collect(generation)", "no call on this line"),
        ("if step % 10 == 0: gc.collect()", "no call on this line"),
    ],
)
def test_what_does_more_than_the_call_stays(call: str, why: str, tmp_path: Path) -> None:
    made = patch(tmp_path, call)
    assert made.empty
    assert why in made.declined[0].obstacle


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "for step, (x, y) in enumerate(loader):\n    STEP\n    if step % 10 == 0:\n        gc.collect()  # fires\n",
            "every few batches only",
        ),
        (
            "for n in range(9):\n    STEP\n    if n % every == 0 and n % 5 == 0:\n        gc.collect()  # fires\n",
            "every few batches only",
        ),
        ("for x, y in loader:\n    STEP\n    # tracelens: keep\n    gc.collect()  # fires\n", "tracelens: keep"),
    ],
)
def test_places_that_stay_say_why(body: str, why: str, tmp_path: Path) -> None:
    made = patch(tmp_path, "", body="import gc\nx, y = loader[0]\n" + body)
    assert made.empty
    assert why in made.declined[0].obstacle or why in made.declined[0].by_hand


@pytest.mark.parametrize(
    "body",
    [
        "def clean():\n    CALL\n\nhook = clean\nfor x, y in loader:\n    STEP\n    hook()\n",
        "def clean(*args):\n    CALL\n\nfor x, y in loader:\n    STEP\n    clean()\n",
        "@torch.no_grad()\ndef clean():\n    CALL\n\nfor x, y in loader:\n    STEP\n    clean()\n",
        "class Average:\n    def step(self):\n        CALL\n\naverage = Average()\n"
        "for x, y in loader:\n    STEP\n    average.step()\n",
        "every = 1\nfor n, (x, y) in enumerate(loader):\n    STEP\n    if (n + 1) % every == 0:\n        CALL\n",
        "enumerate = zip\nfor x, y in loader:\n    STEP\n    CALL\n",
    ],
)
def test_a_call_whose_batches_nothing_tells_is_counted_by_itself(body: str, tmp_path: Path) -> None:
    text = "import gc\n" + body.replace("CALL", "gc.collect()  # fires")
    made = patch(tmp_path, "", body=text)
    assert COUNTED.strip() in patched_text(made)
    (tmp_path / "train.py").write_text(patched_text(made))
    compile(patched_text(made), "train.py", "exec")
    edit = Edit("rare-call", locations=fired(patched_text(made)), interval=100)
    again = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions())
    assert again.empty and "every few batches only" in again.declined[0].obstacle


def test_calls_apart_from_each_other_have_counters_of_their_own(tmp_path: Path) -> None:
    """With one counter for two calls each, none of the second ones would ever be the hundredth."""
    body = (
        "import gc\nimport itertools\ncollect_calls = 0\ndef clean():\n    gc.collect()  # fires\n    print(1)\n"
        "    gc.collect()  # fires\n\nfor x, y in loader:\n    STEP\n    clean()\n"
    )
    text = patched_text(patch(tmp_path, "", body=body))
    assert "collect_calls_2 = itertools.count()\ncollect_calls_3 = itertools.count()\n\n\ndef clean" in text
    assert text.count("import itertools") == 1
    assert "next(collect_calls_2) % 100" in text and "next(collect_calls_3) % 100" in text


@pytest.mark.parametrize(
    ("head", "patched"),
    [
        ("memory = getattr(torch, kind, torch.cuda)", True),
        ("memory = torch.get_device_module()", True),
        ("memory = getattr(torch, kind)\nmemory = Own()", False),
        ("memory = getattr(own, kind)", False),
        ("def free(memory):\n    pass\nmemory = getattr(torch, kind)\n", False),
        ("", False),
    ],
)
def test_the_module_of_a_device_may_have_a_name(head: str, patched: bool, tmp_path: Path) -> None:
    assert patch(tmp_path, "memory.empty_cache()", head).empty is not patched


def test_a_second_run_finds_nothing_left_to_do(tmp_path: Path) -> None:
    text = patched_text(patch(tmp_path, "gc.collect()"))
    (tmp_path / "train.py").write_text(text)
    edit = Edit("rare-call", locations=fired(text), interval=100)
    again = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions())
    assert again.empty and "every few batches only" in again.declined[0].obstacle
