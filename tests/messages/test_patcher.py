"""What the patcher says of a change, in a made-up language: reasons, obstacles, what to do by hand, what is not proved.

The examples of all recipes, each patched with and without --unsafe, and a script that most recipes decline.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pseudo import PseudoLanguage, untranslated
from tests.support.recipe_examples import FOLDER, example_edit
from tracelens import messages
from tracelens.edit_kinds import EDIT_DEFINITIONS, EditKind
from tracelens.messages import parts_of, shown, with_value
from tracelens.model import Patch
from tracelens.patch.every_place import patch_script
from tracelens.patch.recipes import PatchOptions, make

KINDS = sorted(EDIT_DEFINITIONS)
QUOTED = ("`", "(")
DECLINED = """
import os, random, time
import torch
from torch.utils.data import DataLoader

class Meter:
    def __init__(self): self.best = 0.0
    def update(self, value):
        print(value)
        self.best = max(self.best, value)

def batches(loader, meter):
    for batch in loader:
        yield batch
        print(meter.best)

def evaluate(model, loss):
    return loss.item()

def train(model, optimizer, loader, path):
    meter, total, history = Meter(), 0.0, {}
    for step, (x, y) in enumerate(batches(loader, meter)):
        x = x.to("cuda")
        y = y.cuda().long()
        optimizer.zero_grad(set_to_none=False)
        loss = model(x, y)
        if loss.item() > 3.0:
            continue
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        began = time.time()
        meter.update(loss.item())
        history[step:step + 1] = [loss.item()]
        total += random.random() * loss.item()
        with open(path, "a") as file:
            file.write(str(loss.item()))
        try:
            total += evaluate(model, loss)
        except ValueError:
            break
        for parameter in model.parameters():
            total += parameter.grad.norm().item() if parameter.grad is not None else 0
        print([v.item() for v in (loss, loss * 2)], {loss.item(): 1}, os.getcwd(), time.time() - began)
        if torch.isnan(loss):
            torch.save(model.state_dict(), path)
            raise SystemExit(1)
    return total

if __name__ == "__main__":
    net = torch.nn.Linear(4, 4).cuda()
    train(net, torch.optim.SGD(net.parameters(), 0.1), DataLoader([1], num_workers=int(os.environ["N"])), "log")
"""


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> PseudoLanguage:
    chosen = PseudoLanguage()
    monkeypatch.setattr(messages, "catalogue", lambda: chosen)
    return chosen


def said(patch: Patch) -> Iterator[str]:
    for hunk in patch.hunks:
        yield from (hunk.reason, hunk.evidence, hunk.explanation, hunk.unproved or "")
    for declined in patch.declined:
        yield from (declined.obstacle, declined.by_hand)


def latin(patch: Patch) -> list[str]:
    """Sentences with a word from no catalogue; words in backticks are code, those with a dot or underscore names."""
    words = (" ".join(word for word in shown(text).split() if not set(word) & set("`._=/-")) for text in said(patch))
    return untranslated(words, ())


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_example(kind: EditKind, unsafe: bool, tmp_path: Path, language: PseudoLanguage) -> None:
    path = Path(shutil.copy(FOLDER / kind / "before.py", tmp_path))
    patch = make(tmp_path, path, (example_edit(kind, path.name),), (), PatchOptions(unsafe=unsafe))
    assert list(said(patch)) and latin(patch) == []


@pytest.mark.parametrize("unsafe", [False, True])
def test_what_is_declined(unsafe: bool, tmp_path: Path, language: PseudoLanguage) -> None:
    path = tmp_path / "train.py"
    path.write_text(DECLINED)
    patch = patch_script(path, tmp_path, dict.fromkeys(KINDS, 10), PatchOptions(unsafe=unsafe))
    assert len(patch.declined) > 10 and latin(patch) == []


def test_a_sentence_is_made_anew_with_another_value(language: PseudoLanguage) -> None:
    two, one = messages.say_count("{count} value", "{count} values", 2), messages.say_count("{count} value", "", 1)
    text = messages.joined("; ", [messages.say("{values} read", values=two), messages.say("later")])
    assert with_value(text, two, one) == "1 value read; later" and shown(with_value(text, two, one))[0] == "1"
    assert with_value(text, "none", one) == text
    assert [str(part) for part in parts_of(text)] == ["2 values read", "later"]
    assert parts_of("plain") == ("plain",) and parts_of("") == ()
