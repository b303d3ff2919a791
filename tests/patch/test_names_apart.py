"""A name for a tensor and then for its number: two variables, of which the second may wait."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script
from tracelens.patch.code.names import walk
from tracelens.patch.code.source import parse
from tracelens.patch.loop.name_webs import web

SAME_NAME = """
def main():
    total, history = 0.0, []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        loss = loss.item()  # fires
        total += loss
        history.append(loss)
    return total, history
result = main()
"""


def test_the_number_waits_and_the_tensor_trains(tmp_path: Path) -> None:
    text = script(SAME_NAME)
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "loss.backward()" in patched_text(patch)
    assert "loss = loss.item()" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_the_script_s_own_name_stands_for_the_value_where_nobody_else_has_it(tmp_path: Path) -> None:
    """Nothing says `loss_value = loss_value_2`."""
    text = script(SAME_NAME.replace("  # fires", ""))
    added = [
        line for line in patch_of(tmp_path, text, defer(text, mark="loss.item()")).diff.splitlines() if line[0] == "+"
    ]
    assert any("for loss_value in pending_losses:" in line for line in added)
    assert not any("_value_2" in line for line in added)


STAYS = {
    "the number is looked at after the loop, and may be the tensor there": SAME_NAME.replace(
        "return total, history", "return total, history, loss"
    ),
    "somebody looks names up": SAME_NAME.replace("return total, history", "return locals()"),
    "a function inside sees the name": SAME_NAME.replace(
        "    for x, y in loader:", "    def show():\n        return loss\n    for x, y in loader:", 1
    ),
    "the next batch sees the number": SAME_NAME.replace(
        "        optimizer.zero_grad()\n",
        "        optimizer.zero_grad()\n        if history and loss > 5:\n            break\n",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_may_be_either_keeps_its_name(name: str, tmp_path: Path) -> None:
    text = script(STAYS[name])
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert patch.declined


def places(body: str, number: int) -> list[int] | None:
    """The lines that mean the variable of the `number`-th binding of `a` in a function."""
    data = ("def f(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines())).encode()
    source = parse(Path("/nowhere/f.py"), "f.py", data)
    function = cst.ensure_type(source.module.body[0], cst.FunctionDef)
    bound = [
        target
        for part in walk(function)
        for target in (
            [one.target for one in part.targets]
            if isinstance(part, cst.Assign)
            else [part.target]
            if isinstance(part, (cst.AugAssign, cst.For))
            else []
        )
        if isinstance(target, cst.Name) and target.value == "a"
    ]
    found = web(source, function, bound[number])
    return None if found is None else sorted({source.line(one) - 1 for one in found})


@pytest.mark.parametrize(
    ("body", "number", "lines"),
    [
        ("a = x\nprint(a)\na = y\nprint(a)", 0, [1, 2]),
        ("a = x\nprint(a)\na = y\nprint(a)", 1, [3, 4]),
        ("a = x\na = a + 1\nprint(a)", 0, [1, 2]),
        ("a = x\na += 1\nprint(a)", 0, [1, 2, 3]),
        ("if x:\n    a = x\nelse:\n    a = y\nprint(a)", 0, [2, 4, 5]),
        ("for i in x:\n    a = i\n    print(a)\n    a = 2\n    y(a)", 1, [4, 5]),
        ("a = 0\nfor i in x:\n    print(a)\n    a = i", 0, [1, 3, 4]),
        ("a = 0\nfor i in x:\n    if i:\n        a = 1\n        continue\n    a = 2\nprint(a)", 1, [1, 4, 6, 7]),
        ("a = 0\nwhile x:\n    a = 1\n    if a:\n        break\nelse:\n    a = 3\nprint(a)", 2, [3, 4, 7, 8]),
        ("a = 0\ntry:\n    a = 1\n    y()\nexcept OSError:\n    print(a)", 0, [1, 3, 6]),
        ("a = 1\ntry:\n    y()\nfinally:\n    print(a)\na = 2\nprint(a)", 1, [6, 7]),
        ("a = 1\nwith y():\n    a = 2\nprint(a)", 0, [1, 3, 4]),
        ("if x:\n    a = 1\nprint(a)", 0, None),  # bound, or not at all
        ("a = 1\nprint([a for a in x])\na = 2", 0, None),
        ("a = 1\nprint(f'{a=}')\na = 2", 0, None),
        ("a = 1\nlambda: a\na = 2", 0, None),
        ("a = 1\ndel a\na = 2", 0, None),
        ("a = 1\nif (a := x):\n    pass", 0, None),
        ("global a\na = 1\nprint(a)", 0, None),
    ],
)
def test_which_places_belong_together(body: str, number: int, lines: list[int] | None) -> None:
    assert places(body, number) == lines


def test_a_counter_that_began_somewhere_else_is_kept_as_a_number(tmp_path: Path) -> None:
    """`step` is what `load` gives: a tensor would be another object in each batch, and it is checked."""
    text = script(
        "import somewhere\nclass Log:\n    def __init__(self): self.rows = []\n"
        "    def add_scalar(self, name, value, step): self.rows.append((value, step))\nlog = Log()\n"
        "def main(step):\n    for x, y in loader:\n        STEP\n"
        "        log.add_scalar('loss', loss.item(), step)  # fires\n        step += 1\nmain(somewhere.load())\n"
    )
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "`step`" in patch.hunks[0].unproved
    text = text.replace("import somewhere\n", "").replace("somewhere.load()", "3")
    patch = patch_of(tmp_path, text)
    assert_same(tmp_path, text, patch)


def test_of_a_loss_in_a_dict_its_number_is_kept(tmp_path: Path) -> None:
    """`losses["all"].backward()` changes nothing that the line keeps."""
    text = script(
        "def main():\n    total = 0.0\n    for x, y in loader:\n        optimizer.zero_grad()\n"
        "        losses = {'all': criterion(model(x), y)}\n        losses['all'].backward()\n        optimizer.step()\n"
        "        total += losses['all'].item()  # fires\n    return total\nresult = main()\n"
    )
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert_same(tmp_path, text, patch)
