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
    return TRAINER.replace(
        "        STEP_RESULT\n", textwrap.indent(textwrap.dedent(step).strip("\n"), "        ") + "\n"
    )


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
        (folder / name).mkdir(exist_ok=True)
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


@pytest.mark.slow
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
    assert [(hunk.edit, hunk.tier, hunk.location.path) for hunk in patch.hunks] == [
        ("defer-read", "checked", "trainer.py")
    ]
    assert patch.declined == ()
    assert_two_same(tmp_path, step, main, patch)


STAYS = {
    "the loop decides by it": (
        "    for x, y in loader:\n        log = trainer.train_step(x, y)\n"
        "        if log['loss'] < 1.0:\n            break\n",
        "",
    ),
    "the best one is kept": (
        "    best = 9.0\n    for x, y in loader:\n        log = trainer.train_step(x, y)\n"
        "        best = min(best, log['loss'])\n        if best < 0.9:\n"
        "            optimizer.param_groups[0]['lr'] = 0.01\n",
        "",
    ),
    "two callers, of which one trains by it": (
        "    for x, y in loader:\n        print(trainer.train_step(x, y))\n"
        "    for x, y in loader:\n        optimizer.param_groups[0]['lr'] = 0.1 * trainer.train_step(x, y)['loss']\n",
        "",
    ),
    "the caller keeps it in an attribute": (
        "    for x, y in loader:\n        trainer.log = trainer.train_step(x, y)\n        print(trainer.log)\n",
        "keeps it in `trainer.log`",
    ),
    "a key is taken out": (
        "    for step, (x, y) in enumerate(loader):\n        log = trainer.train_step(x, y)\n"
        "        if step % 4 == 0:\n            print(log.pop('top'))\n            print(log)\n",
        "changes what holds the values",
    ),
    "somebody gets it, and it is used again": (
        "    kept = []\n    def keep(log):\n        kept.append(log)\n    for step, (x, y) in enumerate(loader):\n"
        "        log = trainer.train_step(x, y)\n        if step % 4 == 0:\n"
        "            keep(log)\n            log['step'] = step\n"
        "    print(kept)\n",
        "is used again below",
    ),
    "a function of the loop has the name": (
        "    log = {}\n    def show():\n        print(log)\n    for x, y in loader:\n"
        "        log = trainer.train_step(x, y)\n"
        "        show()\n",
        "cannot be told",
    ),
    "it is looked up by a text": (
        "    for x, y in loader:\n        log = getattr(trainer, 'train_step')(x, y)\n    print(log)\n",
        "as a text",
    ),
    "it is handed to others itself": (
        "    step = trainer.train_step\n    for x, y in loader:\n        log = step(x, y)\n    print(log)\n",
        "itself",
    ),
    "a class above it has one as well": (
        "    class Louder(Trainer):\n        def train_step(self, x, y):\n"
        "            return {'loss': 1.0, 'top': 2.0}\n"
        "    trainer = Louder(model, optimizer, criterion)\n    for x, y in loader:\n"
        "        print(trainer.train_step(x, y))\n",
        "as well",
    ),
    "it is given further, to nobody that is known": (
        "    def outer(x, y):\n        return trainer.train_step(x, y)\n"
        "    for x, y in loader:\n        print([outer][0](x, y))\n",
        "",
    ),
    "no text but a number is wanted for each": (
        "    for x, y in loader:\n        log = trainer.train_step(x, y)\n"
        "        log['x'] = x\n        print(len(log))\n    print(log['x'])\n",
        "",
    ),
}
KEPT_BY_THE_STEP = {
    "it stores the dict": (
        "        log = {'loss': loss.item()}  # fires\n        self.last = log\n        return log\n",
        "keeps it in `self.last`",
    ),
    "it decides itself": (
        "        log = {'loss': loss.item()}  # fires\n        if log['loss'] > 3:\n"
        "            raise ValueError\n        return log\n",
        "looks at the value in each call",
    ),
    "another read stays": (
        "        if loss.item() > 30:\n            raise ValueError\n"
        "        return {'top': out.max().item()}  # fires\n",
        "nothing would be gained",
    ),
    "an array": ("        return {'loss': np.array([1.0]).mean().item()}  # fires\n", "is an array"),
    "kept by a comment": ("        return {'loss': loss.item()}  # tracelens: keep  # fires\n", ""),
    "a generator": ("        yield {'loss': loss.item()}  # fires\n", ""),
}


@pytest.mark.parametrize("name", STAYS)
def test_a_step_stays_where_its_result_is_needed_at_once_or_cannot_be_followed(name: str, tmp_path: Path) -> None:
    loop, words = STAYS[name]
    step = trainer_with("a dict")
    patch = patch_of_two(tmp_path, step, script(MAIN.format(imports="from trainer import Trainer", loop=loop)))
    assert patch.hunks == ()
    assert patch.files == ()
    assert all(words in one.obstacle for one in patch.declined), [one.obstacle for one in patch.declined]


@pytest.mark.parametrize("name", KEPT_BY_THE_STEP)
def test_a_step_that_needs_its_values_itself_stays(name: str, tmp_path: Path) -> None:
    lines, words = KEPT_BY_THE_STEP[name]
    step = "import numpy as np\n" + TRAINER.replace("        STEP_RESULT\n", lines)
    patch = patch_of_two(
        tmp_path, step, script(MAIN.format(imports="from trainer import Trainer", loop=LOOPS["every N"]))
    )
    assert patch.hunks == ()
    assert all(words in one.obstacle for one in patch.declined), [one.obstacle for one in patch.declined]


TWICE = {
    "filled by two loops": """
    seen = {}
    for x, y in loader:
        seen.update(trainer.train_step(x, y))
    for x, y in loader:
        seen.update(trainer.train_step(x, y))
    print(seen)
    """,
    "filled in each epoch": """
    best = {}
    for epoch in range(2):
        seen = {'epoch': epoch}
        print(seen)
        for x, y in loader:
            seen.update(trainer.train_step(x, y))
        best.update(seen)
        print(json.dumps(seen), json.dumps(best))
    """,
    "filled over epochs": """
    seen, logs = {}, []
    for epoch in range(2):
        for x, y in loader:
            seen.update(trainer.train_step(x, y))
        print(json.dumps(seen))
    """,
    "a list over epochs": """
    logs = []
    for epoch in range(2):
        for x, y in loader:
            logs.append(trainer.train_step(x, y))
        print(json.dumps(logs))
    """,
    "shown by a text of braces": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        if step % 4 == 0:
            print(f'{log} and {log["loss"]:.3f}')
    """,
    "a tensor beside it": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        log['inputs'] = x
        if step % 4 == 0:
            print(log)
    """,
    "the mean of each key": """
    sums = {'loss': 0.0, 'top': 0.0}
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        for name, value in log.items():
            sums[name] += value
    print(sums)
    """,
    "left by an exception": """
    seen = {}
    try:
        for step, (x, y) in enumerate(loader):
            seen.update(trainer.train_step(x, y))
            if step == 7:
                raise ValueError
    except ValueError:
        pass
    print(json.dumps(seen))
    """,
    "left early": """
    seen = {}
    for step, (x, y) in enumerate(loader):
        seen.update(trainer.train_step(x, y))
        if step == 7:
            break
    print(json.dumps(seen))
    """,
    "another key": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        log['step'] = step
        if step % 4 == 0:
            print(log['step'], log['loss'])
    """,
    "by a helper": """
    def one_step(x, y):
        log = trainer.train_step(x, y)
        log.update(batch=len(x))
        return log
    logs = []
    for step, (x, y) in enumerate(loader):
        logs.append(one_step(x, y))
        if len(logs) == 5:
            print(json.dumps(logs))
            logs.clear()
    """,
    "a copy under another name": """
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        other = log
        other['loss'] = 1.0
        if step % 4 == 0:
            print(json.dumps(log), json.dumps(other))
    """,
    "two lists": """
    losses = []
    tops = []
    for step, (x, y) in enumerate(loader):
        log = trainer.train_step(x, y)
        losses.append(log['loss'])
        tops.append(log['top'])
    print(sum(losses) / len(losses), max(tops), losses[-1], json.dumps(tops))
    """,
}


@pytest.mark.parametrize("name", TWICE)
def test_what_is_patched_is_the_same_program(name: str, tmp_path: Path) -> None:
    step = trainer_with("a dict")
    main = script(MAIN.format(imports="from trainer import Trainer", loop=TWICE[name]), batches=12)
    assert_two_same(tmp_path, step, main, patch_of_two(tmp_path, step, main))


IMPORTS = {
    "by another name": (
        "from trainer import Trainer as Other\nTrainer = None",
        "Other(model, optimizer, criterion)",
        True,
    ),
    "all names": ("from trainer import *", "Trainer(model, optimizer, criterion)", True),
    "the module": ("import trainer as steps", "steps.Trainer(model, optimizer, criterion)", True),
    "from a third file": ("from third import Trainer", "Trainer(model, optimizer, criterion)", True),
    "made of it in a third file": ("from third import Longer", "Longer(model, optimizer, criterion)", True),
    "one of two": ("from trainer import Trainer", "[Trainer(model, optimizer, criterion)][0]", True),
    "in a function of its own": ("from third import made", "made(model, optimizer, criterion)", True),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_objects_made_in_other_ways_are_found_or_the_step_stays(name: str, tmp_path: Path) -> None:
    imports, made, _ = IMPORTS[name]
    third = (
        "from trainer import Trainer\nclass Longer(Trainer):\n    pass\ndef made(*parts):\n    return Trainer(*parts)\n"
    )
    loop = "    for step, (x, y) in enumerate(loader):\n        print(step, trainer.train_step(x, y))\n"
    main = script(MAIN.format(imports=imports, loop=loop).replace("Trainer(model, optimizer, criterion)", made, 1))
    (tmp_path / "third.py").write_text(third)
    patch = patch_of_two(tmp_path, trainer_with("a dict"), main)
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "third.py").write_text(third)
    assert_two_same(tmp_path, trainer_with("a dict"), main, patch)


ATTRIBUTE = TRAINER.replace(
    "        STEP_RESULT\n",
    """        self.last = loss.item()  # fires
    def show(self, step):
        print(step, f'{self.last:.4f}', self.last, isinstance(self.last, float))
""",
)
SHOWS = {
    "every N": "if step % 4 == 0:\n            trainer.show(step)",
    "every N, by the loop itself": "if step % 4 == 0:\n            print(json.dumps(trainer.last))",
}
LOOKS_OFTEN = {
    "in each batch": ("        trainer.show(step)\n", "", "looks at the value"),
    "it decides": ("        if trainer.last < 0.5:\n            break\n", "", "looks at it in each batch"),
    "a subclass looks": (
        "        pass\n",
        "class Louder(Trainer):\n    def forward(self, x, y):\n        print(getattr(self, 'steps'), self.last)\n"
        "        return super().forward(x, y)\n",
        "",
    ),
    "it starts as a number": ("        pass\n", "Trainer.last = 0.0\n", "cannot be followed"),
    "all of the object is stored": (
        "        pass\n",
        "def kept(trainer):\n    return vars(trainer)\n",
        "all that is in the object",
    ),
    "it is looked up by a text": (
        "        pass\n",
        "def kept(trainer):\n    return getattr(trainer, 'last')\n",
        "as a text",
    ),
    "an object that is not known": ("        pass\n", "def kept(one):\n    return one.last\n", "cannot be told"),
}


@pytest.mark.parametrize("name", SHOWS)
def test_an_attribute_is_read_where_it_is_shown_now_and_then(name: str, tmp_path: Path) -> None:
    loop = f"    for step, (x, y) in enumerate(loader):\n        trainer.train_step(x, y)\n        {SHOWS[name]}\n"
    main = script(MAIN.format(imports="from trainer import Trainer", loop=loop), batches=12)
    patch = patch_of_two(tmp_path, ATTRIBUTE, main)
    assert [(hunk.edit, hunk.tier) for hunk in patch.hunks] == [("defer-read", "checked")]
    assert_two_same(tmp_path, ATTRIBUTE, main, patch)


@pytest.mark.parametrize("name", LOOKS_OFTEN)
def test_an_attribute_stays_that_is_looked_at_in_each_batch_or_in_an_unknown_way(name: str, tmp_path: Path) -> None:
    line, more, words = LOOKS_OFTEN[name]
    loop = f"    for step, (x, y) in enumerate(loader):\n        trainer.train_step(x, y)\n{line}"
    main = script(MAIN.format(imports="from trainer import Trainer\n" + more, loop=loop), batches=12)
    patch = patch_of_two(tmp_path, ATTRIBUTE, main)
    assert patch.hunks == ()
    assert all(words in one.obstacle for one in patch.declined), [one.obstacle for one in patch.declined]


def test_a_hunk_that_is_not_asked_for_leaves_both_files(tmp_path: Path) -> None:
    main = script(MAIN.format(imports="from trainer import Trainer", loop=LOOPS["each step"]))
    step = trainer_with("a dict")
    whole = patch_of_two(tmp_path, step, main)
    edits = (Edit("defer-read", locations=fired(step, path="trainer.py"), interval=10),)
    for options in (PatchOptions(skip=tuple(hunk.id for hunk in whole.hunks)), PatchOptions(checked=False)):
        assert make(tmp_path, tmp_path / "train.py", edits, (), options).files == ()


TUPLE = "        return loss.item(), out.max().item()  # fires\n"
PICKED = """
    losses = []
    tops = []
    for step, (x, y) in enumerate(loader):
        metrics = trainer.train_step(x, y)
        losses.append(metrics[0])
        tops.append(metrics[1])
        if step % 4 == 0:
            print(step, losses[-1], tops[-1])
    print(sum(losses), max(tops))
"""


def test_parts_of_a_tuple_with_a_name_are_followed(tmp_path: Path) -> None:
    step, main = (
        script(TRAINER.replace("        STEP_RESULT\n", TUPLE)),
        MAIN.format(imports="from trainer import *", loop=PICKED),
    )
    patch = patch_of_two(tmp_path, step, main)
    assert "print(step, losses[-1].item(), tops[-1].item())" in assert_two_same(tmp_path, step, main, patch)


@pytest.mark.parametrize("use", ["print(metrics)", "print(metrics[-1])", "print(metrics[:1])", "print(len(metrics))"])
def test_a_tuple_that_is_used_as_a_whole_stays(use: str, tmp_path: Path) -> None:
    step = script(TRAINER.replace("        STEP_RESULT\n", TUPLE))
    loop = PICKED.replace("        losses.append(metrics[0])", f"        losses.append(metrics[0])\n        {use}")
    patch = patch_of_two(tmp_path, step, MAIN.format(imports="from trainer import *", loop=loop))
    assert patch.empty


def test_a_value_that_decides_is_told_of_before_what_cannot_be_followed(tmp_path: Path) -> None:
    """It was declined with "`1e9` is no such value"."""
    loop = """
    best = 1e9
    for step, (x, y) in enumerate(loader):
        value = trainer.train_step(x, y)
        if value < best:
            best = value
            print(step)
    """
    step = script(TRAINER.replace("        STEP_RESULT\n", "        return loss.item()  # fires\n"))
    patch = patch_of_two(tmp_path, step, MAIN.format(imports="from trainer import *", loop=loop))
    assert [one.obstacle for one in patch.declined] == ["train.py:10: the value decides what the same batch does next"]
