"""What a step function gives to its callers stays a tensor until somebody looks at it: in one file, and in two."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.patching import defer, fired, patched_text, run, script
from tracelens.model import Edit, Patch
from tracelens.patch.recipes import PatchOptions, make

TRAINER = """
class Trainer:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion, self.steps = model, optimizer, criterion, 0
    def forward(self, x, y):
        self.optimizer.zero_grad()
        out = self.model(x)
        loss = self.criterion(out, y)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return out, loss
    def train_step(self, x, y):
        out, loss = self.forward(x, y)
        STEP_RESULT
"""
RESULTS = {
    "a dict": """
        return {'loss': loss.item(), 'top': out.max().item()}  # fires
    """,
    "dict()": """
        return dict(loss=loss.item(), top=out.max().item())  # fires
    """,
    "a dict with a name": """
        log = {'loss': loss.item()}  # fires
        log['top'] = out.max().item()  # fires
        return log
    """,
    "a dict that is filled": """
        log = dict(loss=loss.item())  # fires
        log.update({'top': out.max().item()})  # fires
        return log
    """,
    "two dicts": """
        first = {'loss': loss.item()}  # fires
        log = {**first, 'top': out.max().item()}  # fires
        return log
    """,
    "names first": """
        value = loss.item()  # fires
        top = out.max().item()  # fires
        return {'loss': value, 'top': top}
    """,
    "a method that fills": """
        log = {}
        self.fill(out, loss, log)
        return log
    def fill(self, out, loss, log):
        log.update(dict(loss=loss.item(), top=out.max().item()))  # fires
    """,
    "keys renamed": """
        return prefixed({'loss': loss.item(), 'top': out.max().item()}, 'train')  # fires
    """,
}
PREFIXED = """
def prefixed(metrics, prefix):
    return {'{}/{}'.format(prefix, key): value for key, value in metrics.items()}
"""
LOOPS = {
    "every N": """
    logs = []
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        logs.append(log)
        if step % 5 == 0:
            for name in logs[0].keys():
                print(step, name, sum([one[name] for one in logs]) / len(logs))
            logs = []
    """,
    "after the loop": """
    seen = {}
    for step, (x, y) in enumerate(loader):
        seen.update(trainer.train_step(x, y))
    print(seen)
    print(json.dumps(seen))
    """,
    "a list after the loop": """
    logs = []
    for step, (x, y) in enumerate(loader):
        logs.append(trainer.train_step(x, y))
    print(logs)
    """,
    "each step": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        print(step, json.dumps(log))
    """,
    "the last one now and then": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        if step % 4 == 0:
            print(step, log, [type(value) for value in log.values()])
            for name, value in log.items():
                print(name, isinstance(value, float), f'{value:.3f}', value)
    """,
    "with other numbers": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        log['step'] = step
        log.update({'batch': len(x)})
        print(json.dumps(log))
    """,
}
MAIN = """
import json
{imports}
def main():
    trainer = Trainer(model, optimizer, criterion)
{loop}
    return trainer.steps
result = main()
"""


def written(step: str) -> str:
    return TRAINER.replace("        STEP_RESULT\n", textwrap.indent(textwrap.dedent(step).strip("\n"), "        ") + "\n")


def trainer_with(name: str) -> str:
    lines = RESULTS[name].strip("\n")
    body = TRAINER.replace("        STEP_RESULT", lines.rstrip())
    return (PREFIXED if "prefixed" in lines else "") + body


def one_file(name: str, loop: str) -> str:
    return script(trainer_with(name) + MAIN.format(imports="", loop=LOOPS[loop]), batches=12)


def patch_of_two(folder: Path, step: str, main: str, edits: tuple[Edit, ...] | None = None) -> Patch:
    """The patch where the reads are in `trainer.py`, and `train.py` is started."""
    (folder / "trainer.py").write_text(step)
    (folder / "train.py").write_text(main)
    chosen = edits or (Edit("defer-read", locations=fired(step, path="trainer.py"), interval=10),)
    return make(folder, folder / "train.py", chosen, (), PatchOptions())


def assert_two_same(folder: Path, step: str, main: str, patch: Patch) -> str:
    """Both files before and after print the same and leave the same; returns the patched main file."""
    after = {one.path.name: one.after.decode() for one in patch.files}
    outcomes = []
    for name, texts in (("before", {}), ("after", after)):
        (folder / name).mkdir()
        (folder / name / "trainer.py").write_text(texts.get("trainer.py", step))
        for other in texts.keys() - {"train.py", "trainer.py"}:
            (folder / name / other).write_text(texts[other])
        outcomes.append(run(folder / name, texts.get("train.py", main)))
    assert outcomes[0].ending == outcomes[1].ending == ""
    assert outcomes[0].output == outcomes[1].output
    assert outcomes[0].results == {name: outcomes[1].results.get(name) for name in outcomes[0].results}
    return after.get("train.py", main)


def assert_same(folder: Path, text: str, patch: Patch) -> None:
    others = {one.path.name: one.after.decode() for one in patch.files}
    assert_two_same(folder, "", text, patch) if "train.py" in others else pytest.fail("nothing is patched")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", RESULTS)
def test_results_of_a_step_are_read_where_somebody_looks(name: str, loop: str, tmp_path: Path) -> None:
    text = one_file(name, loop)
    (tmp_path / "train.py").write_text(text)
    patch = make(tmp_path, tmp_path / "train.py", defer(text), (), PatchOptions())
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"], [one.obstacle for one in patch.declined]
    assert "loss.item()" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", ["a dict", "a method that fills", "keys renamed"])
def test_both_files_change_together(name: str, loop: str, tmp_path: Path) -> None:
    step = trainer_with(name)
    main = script(MAIN.format(imports="from trainer import Trainer", loop=LOOPS[loop]), batches=12)
    patch = patch_of_two(tmp_path, step, main)
    assert {"train.py", "trainer.py"} <= {one.path.name for one in patch.files}
    assert [(hunk.edit, hunk.tier, hunk.location.path) for hunk in patch.hunks] == [("defer-read", "checked", "trainer.py")]
    assert patch.declined == ()
    assert_two_same(tmp_path, step, main, patch)
