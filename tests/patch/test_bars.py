"""A bar that the loop runs over closes within the last `next()`: its last text is in it by then."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.patching import patch_of, patched_text, run, script
from tracelens.model import Patch

TQDM = '''
class tqdm:
    """As tqdm does it: `total` is the length if there is one, and a closed bar shows nothing more."""

    def __init__(self, iterable=None, total=None, desc="", leave=True):
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)
        self.iterable, self.total, self.n, self.text, self.open = iterable, total, 0, desc, True

    def __len__(self):
        return self.total if self.iterable is None else len(self.iterable)

    def __iter__(self):
        try:
            for item in self.iterable:
                yield item
                self.n += 1
        finally:
            self.close()

    def set_postfix(self, **shown):
        self.text = str(shown)

    def set_description(self, text):
        self.text = text

    def update(self, count=1):
        self.n += count

    def close(self):
        if self.open:
            self.open = False
            print("closed with", self.text, "after", self.n)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def trange(*numbers, **given):
    return tqdm(range(*numbers), **given)
'''


def output(folder: Path, text: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "tqdm.py").write_text(TQDM)
    outcome = run(folder, text)
    assert outcome.ending == ""
    return outcome.output


def both(folder: Path, text: str, patch: Patch) -> tuple[str, str]:
    for one in patch.files:
        (folder / "after").mkdir(exist_ok=True)
        (folder / "after" / one.path.name).write_bytes(one.after)
    return output(folder / "before", text), output(folder / "after", patched_text(patch))


def added(patch: Patch) -> list[str]:
    lines = [line[1:].strip() for line in patch.diff.splitlines() if line.startswith("+") and line[1:3] != "++"]
    return [line for line in lines if line]


FORMS = {
    "plain": "bar = tqdm(loader)\nfor x, y in bar:\n    STEP\n    bar.set_postfix(loss=loss.item())  # fires\n",
    "numbered": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar):\n    STEP\n"
    "    bar.set_description(f'{i} {loss.item():.4f}')  # fires\n",
    "numbered from one": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar, 1):\n    STEP\n"
    "    bar.set_description(f'{i} {loss.item():.4f}')  # fires\n",
    "over enumerate": "bar = tqdm(enumerate(loader), total=len(loader))\nfor i, (x, y) in bar:\n    STEP\n"
    "    bar.set_description(f'{i} {loss.item():.4f}')  # fires\n",
    "a range": "bar = trange(len(loader))\nfor i in bar:\n    x, y = loader[i]\n    STEP\n"
    "    bar.set_postfix(loss=loss.item())  # fires\n",
    "in a with": "with tqdm(loader) as bar:\n    for x, y in bar:\n        STEP\n"
    "        bar.set_postfix(loss=loss.item())  # fires\n",
    "beside a sum": "bar, total = tqdm(loader), 0.0\nfor i, (x, y) in enumerate(bar):\n    STEP\n"
    "    total += loss.item()  # fires\n    bar.set_postfix(loss=total / (i + 1))\nprint(total)\n",
    "beside a list": "losses = []\nbar = tqdm(loader)\nfor x, y in bar:\n    STEP\n    value = loss.item()  # fires\n"
    "    bar.set_postfix(loss=value)\n    losses.append(value)\nprint(losses)\n",
    "beside a list in a with": "losses = []\nwith tqdm(loader) as bar:\n    for x, y in bar:\n        STEP\n"
    "        bar.set_postfix(loss=loss.item())  # fires\n        losses.append(loss.item())  # fires\nprint(losses)\n",
    "left by a break": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar):\n    STEP\n"
    "    bar.set_postfix(loss=loss.item())  # fires\n    if i == 16:\n        break\n",
    "below a condition": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar):\n    STEP\n    if i > 0:\n"
    "        bar.set_postfix(loss=loss.item())  # fires\n",
    "passed over": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar):\n    STEP\n    if i == 22:\n        continue\n"
    "    bar.set_postfix(loss=loss.item())  # fires\n",
    "caught": "try:\n    bar = tqdm(loader)\n    for x, y in bar:\n        STEP\n"
    "        bar.set_postfix(loss=loss.item())  # fires\nexcept KeyboardInterrupt:\n    print('stopped')\n",
    "by hand": "bar = tqdm(total=len(loader))\nfor x, y in loader:\n    STEP\n"
    "    bar.set_postfix(loss=loss.item())  # fires\n    bar.update(1)\nbar.close()\n",
}


def placed(body: str, place: str) -> str:
    if place == "module":
        return body
    if place == "function":
        return "def train():\n" + textwrap.indent(body, "    ") + "train()\n"
    return "class Trainer:\n    def train(self):\n" + textwrap.indent(body, "        ") + "Trainer().train()\n"


@pytest.mark.slow
@pytest.mark.parametrize("batches", [21, 23])
@pytest.mark.parametrize("place", ["module", "function", "method"])
@pytest.mark.parametrize("form", FORMS)
def test_the_line_that_stays_is_that_of_the_last_batch(form: str, place: str, batches: int, tmp_path: Path) -> None:
    text = script("from tqdm import tqdm, trange\n" + placed(FORMS[form], place), batches)
    patch = patch_of(tmp_path, text)
    assert patch.hunks
    left, kept = both(tmp_path, text, patch)
    assert kept == left


def test_a_text_alone_is_set_every_ten_batches_and_in_the_last_one(tmp_path: Path) -> None:
    text = script("from tqdm import tqdm\n" + placed(FORMS["plain"], "function").replace("train()", "train(loader)"))
    patch = patch_of(tmp_path, text)
    assert added(patch) == [
        "for step, (x, y) in enumerate(bar):",
        "if step % 10 == 0 or bar.total in (None, step + 1):",
        "bar.set_postfix(loss=loss.item())  # fires",
    ]
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "a new text every 10 batches and in the last one" in patch.hunks[0].unproved


def test_a_number_of_the_batch_that_nobody_knows_to_be_one_needs_no_helper(tmp_path: Path) -> None:
    text = script("from tqdm import tqdm\n" + placed(FORMS["over enumerate"], "function"))
    patch = patch_of(tmp_path, text)
    assert "if i % 10 == 0 or i + 1 == bar.total:" in added(patch)
    assert len(patch.files) == 1 and "taken for" not in patch.hunks[0].unproved


def test_where_the_file_asks_for_the_length_there_is_a_total(tmp_path: Path) -> None:
    text = script("from tqdm import tqdm\nprint(len(loader))\n" + FORMS["numbered from one"])
    assert "if i % 10 == 1 or i == bar.total:" in added(patch_of(tmp_path, text))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("from tqdm import tqdm\nbar = tqdm(zip(loader, loader))\nfor (x, y), _ in bar:\n", "has no total"),
        ("from bars import Bar\nbar = Bar(loader)\nfor x, y in bar:\n", "is no bar of tqdm"),
        ("from tqdm import tqdm\nbar = tqdm(loader)\nfor (x, y), _ in zip(bar, loader):\n", "which can show"),
    ],
)
def test_a_bar_whose_last_batch_nobody_can_tell_keeps_its_read(made: str, told: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(made + "    STEP\n    bar.set_postfix(loss=loss.item())  # fires\n"))
    assert patch.empty
    assert told in patch.declined[0].obstacle


def test_a_bar_that_is_moved_by_hand_moves_while_the_loop_runs(tmp_path: Path) -> None:
    text = script("from tqdm import tqdm\n" + placed(FORMS["by hand"], "function"))
    assert "if len(pending_losses) == 10:" in added(patch_of(tmp_path, text))
