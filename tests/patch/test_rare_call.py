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


def test_a_while_loop_that_counts_its_passes_has_its_counter_used(tmp_path: Path) -> None:
    body = "import gc\n\nn = 0\nwhile True:\n    STEP\n    gc.collect()  # fires\n    n += 1\n"
    made = patch(tmp_path, "", body=body)
    assert [(hunk.id, hunk.tier) for hunk in made.hunks] == [("TL901", "safe")]
    assert "    if n % 100 == 0:  # thinned by tracelens\n        gc.collect()  # fires\n" in patched_text(made)


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
        ("while True:\n    STEP\n    gc.collect()  # fires\n", "while loop"),
        ("n = 0\nwhile n < 9:\n    STEP\n    gc.collect()  # fires\n    if x:\n        n += 1\n", "nothing counts"),
        (
            "n = 0\nwhile n < 9:\n    n = 0 if x else n\n    STEP\n    gc.collect()  # fires\n    n += 1\n",
            "nothing counts",
        ),
        ("n = torch.ones(1)\nwhile n:\n    STEP\n    gc.collect()  # fires\n    n += 1\n", "nothing counts"),
        ("n = 0\nwhile n:\n    STEP\n    gc.collect()  # fires\n    if x: continue\n    n += 1\n", "nothing counts"),
        ("n = 0\nwhile n < 9:\n    STEP\n    gc.collect()  # fires\n    n += 2\n", "nothing counts"),
        ("for x, y in loader:\n    STEP\n    # tracelens: keep\n    gc.collect()  # fires\n", "tracelens: keep"),
        ("def clean():\n    gc.collect()  # fires\n\nfor x, y in loader:\n    STEP\n", "nothing calls `clean`"),
        (
            "def clean():\n    gc.collect()  # fires\n\nhook = clean\nfor x, y in loader:\n    STEP\n    clean()\n",
            "`clean` is used as a value",
        ),
        (
            "def clean(*args):\n    gc.collect()  # fires\n\nfor x, y in loader:\n    STEP\n    clean()\n",
            "`clean` takes `*` or `**`",
        ),
        (
            "def clean():\n    gc.collect()  # fires\n\nfor x, y in loader:\n    STEP\n    clean()\n"
            "for x, y in loader:\n    STEP\n    clean()\n",
            "two training loops call `clean`",
        ),
        (
            "class Cleaner:\n    def clean(self):\n        gc.collect()  # fires\n\n"
            "for x, y in loader:\n    STEP\n    Cleaner().clean()\n",
            "it is in a method",
        ),
        (
            "def clean():\n    gc.collect()  # fires\n\nfor x, y in loader:\n    STEP\n"
            "    if x.sum() > 3:\n        clean()\n    if step_done:\n        [clean() for _ in range(2)]\n",
            "`clean` is called in a comprehension",
        ),
    ],
)
def test_places_that_stay_say_why(body: str, why: str, tmp_path: Path) -> None:
    made = patch(tmp_path, "", body="import gc\nx, y = loader[0]\n" + body)
    assert made.empty
    assert why in made.declined[0].obstacle or why in made.declined[0].by_hand


HELPER = """
import gc

def after(model, note="x"):
    STATEMENT
    gc.collect()  # fires
    torch.cuda.empty_cache()  # fires

after(model)
for x, y in loader:
    STEP
    after(model, note="y")
after(model)
"""


def test_a_call_in_a_helper_is_made_rarely_where_the_loop_calls_it_and_always_elsewhere(tmp_path: Path) -> None:
    made = patch(tmp_path, "", body=HELPER.replace("STATEMENT", "print(note)"))
    text = patched_text(made)
    assert 'def after(model, note="x", due=True):\n    print(note)\n    if due:  # thinned by tracelens\n' in text
    assert "        gc.collect()  # fires\n        torch.cuda.empty_cache()  # fires\n" in text
    assert '    after(model, note="y", due=batch_number % 100 == 0)\n' in text
    assert "for batch_number, (x, y) in enumerate(loader):" in text
    assert text.count("after(model)\n") == 2, "calls outside of the loop stay"
    assert "in `after`, which the loop calls" in made.hunks[0].reason


def test_a_helper_that_has_such_a_parameter_gets_another_name(tmp_path: Path) -> None:
    body = "import gc\n\ndef clean(due):\n    gc.collect()  # fires\n\nfor x, y in loader:\n    STEP\n    clean(3)\n"
    text = patched_text(patch(tmp_path, "", body=body))
    assert "def clean(due, due_2=True):" in text and "clean(3, due_2=batch_number % 100 == 0)" in text


def test_a_helper_that_another_file_uses_stays_as_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "evaluate.py").write_text("from train import after\n\nafter(None)\n")
    made = patch(tmp_path, "", body=HELPER.replace("STATEMENT", "print(note)"))
    assert not made.empty and [file.path.name for file in made.files] == ["train.py"]


def test_a_patched_helper_is_left_alone(tmp_path: Path) -> None:
    text = patched_text(patch(tmp_path, "", body=HELPER.replace("STATEMENT", "print(note)")))
    (tmp_path / "train.py").write_text(text)
    edit = Edit("rare-call", locations=fired(text), interval=100)
    again = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions())
    assert again.empty and "every few batches only" in again.declined[0].obstacle


def test_a_second_run_finds_nothing_left_to_do(tmp_path: Path) -> None:
    text = patched_text(patch(tmp_path, "gc.collect()"))
    (tmp_path / "train.py").write_text(text)
    edit = Edit("rare-call", locations=fired(text), interval=100)
    again = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions())
    assert again.empty and "every few batches only" in again.declined[0].obstacle
