"""A bar that the loop runs over closes within the last `next()`: its last text is in it by then."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.patching import patch_of, patched_text, run, script
from tracelens.model import Patch
from tracelens.patch.effects import memory

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

    def write(self, line):
        print(line)

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


def removed(patch: Patch) -> list[str]:
    return [line[1:].strip() for line in patch.diff.splitlines() if line.startswith("-") and line[1:3] != "--"]


FORMS = {
    "plain": "bar = tqdm(loader)\nfor x, y in bar:\n    STEP\n    bar.set_postfix(loss=loss.item())  # fires\n",
    "numbered": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar):\n    STEP\n"
    "    bar.set_description(f'{i} {loss.item():.4f}')  # fires\n",
    "numbered from one": "bar = tqdm(loader)\nfor i, (x, y) in enumerate(bar, 1):\n    STEP\n"
    "    bar.set_description(f'{i} {loss.item():.4f}')  # fires\n",
    "over enumerate": "bar = tqdm(enumerate(loader), total=len(loader))\nfor i, (x, y) in bar:\n    STEP\n"
    "    bar.set_description(f'{i} {loss.item():.4f}')  # fires\n",
    "made in two branches": "if len(loader) > 99:\n    bar = tqdm(loader, leave=False)\nelse:\n"
    "    bar = tqdm(loader)\nfor x, y in bar:\n    STEP\n    bar.set_postfix(loss=loss.item())  # fires\n",
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
        (
            "from tqdm import tqdm\nbar = tqdm(loader)\nif len(loader) > 9:\n    bar = tqdm(loader[3:])\n"
            "for x, y in bar:\n",
            "is made in several ways",
        ),
    ],
)
def test_a_bar_whose_last_batch_nobody_can_tell_keeps_its_read(made: str, told: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(made + "    STEP\n    bar.set_postfix(loss=loss.item())  # fires\n"))
    assert patch.empty
    assert told in patch.declined[0].obstacle


BY_HAND = {
    "after its move": "bar = tqdm(total=len(loader))\nfor x, y in loader:\n    STEP\n    bar.update(1)\n"
    "    bar.set_postfix(loss=loss.item())  # fires\nbar.close()\n",
    "before its move": "bar = tqdm(total=len(loader))\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
    "    bar.set_postfix(loss=loss.item(), batch=i)  # fires\n    bar.update(1)\nbar.close()\n",
    "in a with": "with tqdm(total=len(loader)) as bar:\n    for x, y in loader:\n        STEP\n        bar.update(1)\n"
    "        bar.set_description(f'{loss.item():.4f}')  # fires\n",
    "a range": "bar = trange(len(loader))\nfor x, y in loader:\n    STEP\n    bar.update(1)\n"
    "    bar.set_postfix(loss=loss.item())  # fires\nbar.close()\n",
    "over epochs": "bar, total = tqdm(total=2 * len(loader)), 0.0\nfor epoch in range(2):\n"
    "    for i, (x, y) in enumerate(loader):\n        STEP\n        total += loss.item()  # fires\n"
    "        bar.update(1)\n        shown = {'loss': total / (i + 1)}\n        bar.set_postfix(**shown)\n"
    "bar.close()\nprint(total)\n",
    "below a condition": "bar = tqdm(total=len(loader))\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
    "    if (i + 1) % 2 == 0:\n        bar.update(1)\n    bar.set_postfix(loss=loss.item())  # fires\nbar.close()\n",
    "left by a break": "bar = tqdm(total=15)\nfor i, (x, y) in enumerate(loader):\n    STEP\n    bar.update(1)\n"
    "    bar.set_postfix(loss=loss.item())  # fires\n    if i >= 14:\n        break\nbar.close()\n",
}


def held(body: str) -> str:
    """The bar as an attribute that another method makes."""
    made, _, rest = body.partition("\n")
    lines = textwrap.indent(rest.replace("bar.", "self.bar."), "        ")
    methods = f"    def __init__(self):\n        self.{made}\n    def train(self):\n{lines}"
    return f"class Trainer:\n{methods}Trainer().train()\n"


def handed(body: str, name: str = "bar") -> str:
    """The bar as a parameter."""
    made, _, rest = body.partition("\n")
    return f"def train({name}):\n{textwrap.indent(rest.replace('bar.', f'{name}.'), '    ')}{made}\ntrain(bar)\n"


PLACES: dict[str, Callable[[str], str]] = {
    "module": str,
    "function": lambda body: placed(body, "function"),
    "attribute": held,
    "parameter": handed,
}


def has_place(form: str, place: str) -> bool:
    return place in ("module", "function") or form not in ("in a with", "over epochs")


@pytest.mark.parametrize("lossy", [True, False])  # in plain lines, and with the helpers
@pytest.mark.parametrize(
    ("form", "place"), [(form, place) for form in BY_HAND for place in PLACES if has_place(form, place)]
)
def test_a_bar_that_is_moved_by_hand_moves_where_it_did(form: str, place: str, lossy: bool, tmp_path: Path) -> None:
    text = script("from tqdm import tqdm, trange\n" + PLACES[place](BY_HAND[form]))
    patch = patch_of(tmp_path, text, lossy=lossy)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "the bar is drawn when it moves" in patch.hunks[0].unproved
    assert "update" not in "".join((*added(patch), *removed(patch)))
    left, kept = both(tmp_path, text, patch)
    assert kept == left


def test_a_bar_of_another_file_gets_its_text_while_the_loop_runs(tmp_path: Path) -> None:
    body = "def train(shown):\n    for x, y in loader:\n        STEP\n        shown.update(1)\n"
    body += "        shown.set_postfix(loss=loss.item())  # fires\ntrain(made(len(loader)))\n"
    (tmp_path / "progress.py").write_text("from tqdm import tqdm\ndef made(total):\n    return tqdm(total=total)\n")
    patch = patch_of(tmp_path, script("from progress import made\n" + body))
    assert "it moves a progress bar" in patch.hunks[0].unproved
    assert "lines and results of the last 9 batches" in patch.hunks[0].unproved
    assert "if len(pending_losses) == 10:" in added(patch)


def test_the_bar_of_accelerate_moves_where_it_did(tmp_path: Path) -> None:
    text = script("from accelerate.utils import tqdm\n" + placed(BY_HAND["after its move"], "function"))
    patch = patch_of(tmp_path, text)
    assert "the bar is drawn when it moves" in patch.hunks[0].unproved
    assert "bar.update(1)" not in added(patch)


LOOKED_AT = {
    "its text has its count": "    bar.update(1)\n    bar.set_postfix(loss=loss.item(), n=bar.n)  # fires\n",
    "closed in the loop": "    bar.update(1)\n    bar.set_postfix(loss=loss.item())  # fires\n"
    "    if i == 20:\n        bar.close()\n",
    "handed on": "    bar.update(1)\n    show(bar, loss.item())  # fires\n",
    "moved by what is read": "    bar.update(loss.item())  # fires\n",
}


@pytest.mark.parametrize("lossy", [True, False])
@pytest.mark.parametrize("form", LOOKED_AT)
def test_a_bar_that_the_loop_looks_at_moves_with_its_text(form: str, lossy: bool, tmp_path: Path) -> None:
    shows = "def show(bar, loss):\n    bar.set_postfix(loss=loss, n=bar.n)\n"
    loop = "bar = tqdm(total=len(loader))\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
    loop += LOOKED_AT[form] + "bar.close()\n"
    text = script("from tqdm import tqdm\n" + shows + placed(loop, "function"))
    patch = patch_of(tmp_path, text, lossy=lossy)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "it moves a progress bar, which then goes on several batches at a time" in patch.hunks[0].unproved
    left, kept = both(tmp_path, text, patch)
    assert kept == left


def test_bars_of_other_libraries_are_never_proved(tmp_path: Path) -> None:
    loop = "progress = Progress()\ntask = progress.add_task('')\nfor x, y in loader:\n    STEP\n"
    loop += "    progress.update(task, advance=1, loss=loss.item())  # fires\n"
    patch = patch_of(tmp_path, script("from rich.progress import Progress\n" + placed(loop, "function")))
    assert "it moves a progress bar" in patch.hunks[0].unproved
    assert "if len(pending_losses) == 10:" in added(patch)


@pytest.mark.parametrize("lossy", [True, False])
def test_how_far_a_bar_is_may_be_asked_where_it_moves(lossy: bool, tmp_path: Path) -> None:
    loop = "bar = tqdm(total=len(loader))\nfor x, y in loader:\n    STEP\n    bar.update(1)\n    if bar.n % 5 == 0:\n"
    loop += "        bar.set_postfix(loss=loss.item())  # fires\nbar.close()\n"
    text = script("from tqdm import tqdm\n" + placed(loop, "function"))
    patch = patch_of(tmp_path, text, lossy=lossy)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    left, kept = both(tmp_path, text, patch)
    assert kept == left


@pytest.mark.parametrize("lossy", [True, False])
def test_a_line_above_a_bar_waits_and_the_bar_moves_on(lossy: bool, tmp_path: Path) -> None:
    loop = "bar = tqdm(total=len(loader))\nfor i, (x, y) in enumerate(loader):\n    STEP\n    bar.update(1)\n"
    loop += "    bar.write(f'{i} {loss.item():.4f}')  # fires\nbar.close()\n"
    text = script("from tqdm import tqdm\n" + placed(loop, "function"))
    patch = patch_of(tmp_path, text, lossy=lossy)
    assert "update" not in "".join((*added(patch), *removed(patch)))
    assert "moves" not in patch.hunks[0].unproved
    left, kept = both(tmp_path, text, patch)
    assert kept == left


@pytest.mark.parametrize("made", ["tqdm(batches)", "tqdm(enumerate(batches), total=len(batches))"])
def test_what_waits_is_read_before_a_line_above_a_bar_that_the_loop_runs_over(made: str, tmp_path: Path) -> None:
    loop = f"bar, total = {made}, 0.0\nfor i, one in enumerate(bar):\n"
    loop += "    x, y = one if len(one[1]) > 2 else one[1]\n    STEP\n"
    loop += "    total += loss.item()  # fires\n    if i % 5 == 0:\n        bar.write(f'{total:.4f}')\nprint(total)\n"
    text = script("from tqdm import tqdm\nbatches = list(loader) and loader\n" + placed(loop, "function"))
    patch = patch_of(tmp_path, text, checked=False)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"], patch.left_out
    left, kept = both(tmp_path, text, patch)
    assert kept == left


@pytest.mark.parametrize("form", [lambda body: placed(body, "function"), lambda body: handed(body, "shown")])
def test_of_a_project_that_is_too_large_to_be_followed_the_same_is_told(
    form: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "MAX_CALLS", 0)
    patch = patch_of(tmp_path, script("from tqdm import tqdm\n" + form(BY_HAND["after its move"])))
    assert "a progress bar shows its text some batches late" in patch.hunks[0].unproved
    assert "lines and results of the last 9 batches" in patch.hunks[0].unproved


def test_a_bar_that_stands_while_the_loop_runs_is_proved(tmp_path: Path) -> None:
    loop = "bar = tqdm(total=2)\nfor epoch in range(2):\n    for x, y in loader:\n        STEP\n"
    loop += "        bar.set_postfix(loss=loss.item())  # fires\n    bar.update(1)\nbar.close()\n"
    text = script("from tqdm import tqdm\n" + placed(loop, "function"))
    patch = patch_of(tmp_path, text, checked=False)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    left, kept = both(tmp_path, text, patch)
    assert kept == left


LOADERS = {
    "a list": ("", "loader", False),
    "one that shuffles": ("batches = DataLoader(list(loader), None, shuffle=True)\n", "batches", False),
    "one that is made there": ("", "list(loader)", True),
    "one that may be of a stream": ("batches = DataLoader(Stream(), None)\n", "batches", True),
    "one that somebody prepares": (
        "batches = DataLoader(list(loader), None, shuffle=True)\nmodel, batches = prepare(model, batches)\n",
        "batches",
        True,
    ),
}


@pytest.mark.parametrize("lossy", [True, False])
@pytest.mark.parametrize("made", ["tqdm({})", "tqdm(enumerate({0}), total=len({0}))"])
@pytest.mark.parametrize("kind", LOADERS)
def test_a_length_that_may_be_an_estimate_is_told(kind: str, made: str, lossy: bool, tmp_path: Path) -> None:
    line, name, told = LOADERS[kind]
    names = "i, (x, y)" if "enumerate" in made else "x, y"
    loop = f"bar = {made.format(name)}\nfor {names} in bar:\n    STEP\n    bar.set_postfix(loss=loss.item())  # fires\n"
    text = script(f"from tqdm import tqdm\nfrom torch.utils.data import DataLoader\n{line}{loop}")
    patch = patch_of(tmp_path, text, lossy=lossy)
    assert ("is taken for the number of batches" in patch.hunks[0].unproved) is told
    assert not told or f"`len({name})`" in patch.hunks[0].unproved or "`bar.total`" in patch.hunks[0].unproved


def test_what_an_exception_of_the_loader_does_to_the_text_is_told(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script("from tqdm import tqdm\n" + placed(FORMS["passed over"], "function")))
    assert len(patch.files) == 2  # with the helpers
    told = "where an exception or a signal ends the loop, the bar keeps the text of a batch before, or none"
    assert told in patch.hunks[0].unproved
