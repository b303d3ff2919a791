"""What is analysed once: a file whose copies change, a statement that read nothing new. Work is counted, not time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, script
from tracelens.model import Edit, Location
from tracelens.patch.effects import file_effects as module
from tracelens.patch.effects.blocking_copies import blocking
from tracelens.patch.effects.file_effects import FileEffects, file_effects
from tracelens.patch.effects.places import Span
from tracelens.patch.effects.project import Project
from tracelens.patch.effects.statements import Statements

COPIES = """
total = 0.0
device = torch.device("cuda")
loader = torch.utils.data.DataLoader(loader, batch_size=None)
for x, y in loader:
    x = x.to(device)
    y = y.to(device)
    STEP
    total += loss.item()  # fires
    print(len(x))
print(total)
"""
OWN = """
class Batch:
    def __init__(self, x):
        self.x = x
    def to(self, device, non_blocking=False):
        print(device)
        return self.x
x = Batch(1)
for i in range(3):
    a = x.to(device)
    print(i)
"""
TENSORS = OWN.replace("Batch(1)", "torch.ones(2)")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each analysis that is begun."""
    out: list[int] = []
    real = module.analyse

    def counted(*given: object) -> object:
        out.append(1)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "analyse", counted)
    return out


def test_copies_that_stop_to_block_need_no_analysis_of_their_own(tmp_path: Path, begun: list[int]) -> None:
    """The file is asked about when it is read, when its reads are planned beside the copies, and when it is checked."""
    text = script(COPIES)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if ".to(device)" in line]
    read = next(number for number, line in enumerate(text.splitlines(), 1) if "# fires" in line)
    copies = Edit("async-copy", locations=tuple(Location("train.py", line) for line in lines))
    edits = (Edit("defer-read", interval=10, locations=(Location("train.py", read),)), copies)
    patch = patch_of(tmp_path, text, edits)
    after = patch.files[-1].after.decode()
    assert after.count("non_blocking=True") == len(lines) == 2
    assert "pin_memory=torch.cuda.is_available())" in after
    assert {hunk.edit for hunk in patch.hunks} == {"async-copy", "defer-read"}
    assert len(begun) == 1


@pytest.mark.parametrize(("text", "analyses"), [(TENSORS, 1), (OWN, 2)])
def test_a_copy_of_the_project_s_own_is_followed_with_what_it_is_handed(
    tmp_path: Path, begun: list[int], text: str, analyses: int
) -> None:
    path = tmp_path / "train.py"
    text = f"import torch\ndevice = 'cpu'\n{text}"
    path.write_text(text)
    line = text[: text.index("for i")].count("\n") + 1
    for one in (text, text.replace("to(device)", "to(device, non_blocking=True)")):
        effects = file_effects(tmp_path, path, path, one)
        assert effects.reached(line) is not None
    assert len(begun) == analyses


def test_places_are_told_in_the_text_that_was_analysed() -> None:
    before = "a, b = f(x.to(d), 'ä'), y.cuda(); g(z)\n"
    after = "a, b = f(x.to(d, non_blocking=True), 'ä'), y.cuda(non_blocking=True); g(z)\n"
    for part in ("x.to(d", "d", "y.cuda(", "g(z)", "f(x.to(d", "z"):
        place, there = (_span(text, part) for text in (after, before))
        assert blocking(after).place_in(blocking(before), place) == there
        assert blocking(before).place_in(blocking(after), there) == place


@pytest.mark.parametrize(
    "text",
    [
        "a = 'x.to(d, non_blocking=True)'\n",
        "a = x.to(d)  # (non_blocking=True)\n",
        "a = move(d, non_blocking=True)\n",
        "a = Loader(d, pin_memory=True)\n",
        "a = '''\n(non_blocking=True)'''\n",
    ],
)
def test_the_same_words_elsewhere_are_a_part_of_the_text(text: str) -> None:
    assert blocking(text).text == text


def _span(text: str, part: str) -> Span:
    start = len(text[: text.index(part)].encode())
    return Span(1, start, 1, start + len(part.encode()))


def test_a_statement_that_read_nothing_new_is_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty lines beside one line whose call comes to give more: each of them is looked at in the first pass, and in
    the last one, in which effects are entered for good."""
    lines = "".join(f"    a{number} = len(xs)\n" for number in range(40))
    text = (
        f"def train(xs):\n{lines}    for x in xs:\n        kept.append(make(3))\n"
        "def make(n):\n    return [make(n - 1), kept]\nkept = []\ntrain([1])\n"
    )
    looked: dict[str, int] = {}
    real = Statements.look_at

    def counted(self: Statements, part: object) -> None:
        line = getattr(getattr(part, "statement", None), "lineno", 0)
        looked[text.splitlines()[line - 1].strip()] = looked.get(text.splitlines()[line - 1].strip(), 0) + 1
        real(self, part)  # type: ignore[arg-type]

    monkeypatch.setattr(Statements, "look_at", counted)
    path = tmp_path / "train.py"
    path.write_text(text)
    assert FileEffects(Project(tmp_path, {path: text}), path, path).reached(42) is not None
    assert looked["kept.append(make(3))"] > 2, "what it gives is known later than itself"
    assert max(count for line, count in looked.items() if line.startswith("a")) == 2
