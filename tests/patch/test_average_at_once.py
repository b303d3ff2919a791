"""average-at-once: which loops over tensors become a few calls, and which weights are equal bit for bit on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.patching import fired, patched_text, script
from tracelens.model import Edit, Patch
from tracelens.patch.recipes import PatchOptions, make

HEAD = "ema = nn.Linear(3, 2)\nd = 0.9\nfor x, y in loader:\n    STEP\n    with torch.no_grad():\n"
LOOP = "        for e, p in zip({sets}):\n            {statement}  # fires\n"
SETS = "ema.parameters(), model.parameters()"


def patch(folder: Path, statement: str, sets: str = SETS, after: str = "") -> Patch:
    text = script(HEAD + LOOP.format(sets=sets, statement=statement) + after)
    (folder / "train.py").write_text(text)
    edit = Edit("average-at-once", locations=fired(text))
    return make(folder, folder / "train.py", (edit,), (), PatchOptions(checked=True))


@pytest.mark.parametrize(
    ("statement", "calls"),
    [
        ("e.mul_(d).add_(p, alpha=1 - d)", ("mul_(e_tensors, d)", "add_(e_tensors, p_tensors, alpha=1 - d)")),
        ("e.data.mul_(d).add_(p.data, alpha=1 - d)", ("mul_(e_tensors, d)",)),
        ("e.lerp_(p.detach(), 0.1)", ("lerp_(e_tensors, p_tensors, 0.1)",)),
        (
            "e.data = e.data * d + p.data * (1. - d)",
            ("mul_(e_tensors, d)", "add_(e_tensors, torch._foreach_mul(p_tensors, (1. - d)))"),
        ),
        ("e.data = (1 - d) * p.detach() + d * e.data", ("add_(e_tensors, torch._foreach_mul(p_tensors, (1 - d)))",)),
        ("p.data = p.data * d + e.data * (1 - d)", ("mul_(p_tensors, d)", "add_(p_tensors, torch._foreach_mul(e_")),
    ],
)
def test_an_average_is_made_for_all_tensors_at_once(statement: str, calls: tuple[str, ...], tmp_path: Path) -> None:
    made = patch(tmp_path, statement)
    assert [(hunk.id, hunk.tier) for hunk in made.hunks] == [("TL13-01", "checked")]
    text = patched_text(made)
    assert all(f"        torch._foreach_{call}" in text for call in calls)
    assert "for e, p in" not in text.replace("for e in", "").replace("for p in", "")


KEYED = """
        own, weights = dict(ema.named_parameters()), dict(model.named_parameters())
        for k in {over}:
            {statement}  # fires
"""


def keyed(folder: Path, statement: str, over: str) -> Patch:
    text = script(HEAD + KEYED.format(over=over, statement=statement).lstrip("\n"))
    (folder / "train.py").write_text(text)
    edit = Edit("average-at-once", locations=fired(text))
    return make(folder, folder / "train.py", (edit,), (), PatchOptions(checked=True))


@pytest.mark.parametrize("over", ["own", "own.keys()"])
@pytest.mark.parametrize("added", ["weights[k].data, alpha=1 - d", "1 - d, weights[k].data"])
def test_tensors_that_are_taken_by_their_names_are_averaged_at_once(added: str, over: str, tmp_path: Path) -> None:
    """The second form is how torch 1.4 and older wrote it; newer ones take it with a warning."""
    text = patched_text(keyed(tmp_path, f"own[k].data.mul_(d).add_({added})", over))
    made = f"[own[k].data for k in {over}], [weights[k].data for k in {over}]"
    assert f"        own_tensors, weights_tensors = {made}\n" in text
    assert "        torch._foreach_mul_(own_tensors, d)\n" in text
    assert "        torch._foreach_add_(own_tensors, weights_tensors, alpha=1 - d)  # fires\n" in text


@pytest.mark.parametrize(
    ("statement", "over", "why"),
    [
        ("own[k].mul_(d).add_(weights[k], alpha=1 - d)", "weights", "another set than the one that is averaged"),
        ("own[k].mul_(d).add_(weights['x'], alpha=1 - d)", "own", "more with `k`"),
        ("own[k].mul_(rates[k]).add_(weights[k], alpha=1 - d)", "own", "not plain numbers"),
        ("own[k].mul_(d).add_(weights[k], alpha=1 - d)", "sorted(own)", "no loop on this line"),
    ],
)
def test_other_loops_over_names_stay(statement: str, over: str, why: str, tmp_path: Path) -> None:
    made = keyed(tmp_path, statement, over)
    assert made.empty
    assert why in made.declined[0].obstacle


@pytest.mark.parametrize(
    ("statement", "sets", "after", "why"),
    [
        ("e.mul_(d).add_(p)", SETS, "", "no loop on this line"),
        ("e.mul_(p).add_(p, alpha=d)", SETS, "", "not plain numbers"),
        ("e.mul_(decay(d)).add_(p, alpha=d)", SETS, "", "not plain numbers"),
        ("e.add_(p, alpha=d)", SETS, "", "no loop on this line"),
        ("e.lerp_(2 * p, 0.1)", SETS, "", "more with `p`"),
        ("e.data = e.data * d + p * (1 - d)", SETS, "", "no loop on this line"),
        ("e.data = e.data * d + p.data", SETS, "", "no loop on this line"),
        ("e.data = e.data * d - p.data * (1 - d)", SETS, "", "no loop on this line"),
        ("e.data = p.data * d + p.data * (1 - d)", SETS, "", "no loop on this line"),
        ("e.grad = e.grad * d + p.data * (1 - d)", SETS, "", "no loop on this line"),
        ("e.data = e.data * decay(d) + p.data * (1 - d)", SETS, "", "no loop on this line"),
        ("e.lerp_(p, 0.1)", "ema.parameters(), fresh(model)", "", "not the parameters"),
        ("e.lerp_(p, 0.1)", "ema.parameters(), model.parameters(), rest", "", "no loop on this line"),
        ("e.lerp_(p, 0.1)", SETS, "    print(p.sum())\n", "`p` is used outside"),
        ("# tracelens: keep\n            e.lerp_(p, 0.1)", SETS, "", "tracelens: keep"),
    ],
)
def test_what_is_another_loop_stays_and_says_why(
    statement: str, sets: str, after: str, why: str, tmp_path: Path
) -> None:
    made = patch(tmp_path, statement, sets, after)
    assert made.empty
    assert why in made.declined[0].obstacle


IN_A_FUNCTION = """
def update(model, ema, m):
    {before}
    for ema, model in zip(ema.parameters(), model.parameters()):
        ema.data = ema.data * m + model.data * (1.0 - m)  # fires
    {after}

def other(model):
    return model.training

for x, y in loader:
    STEP
    update(model, model, 0.9)
"""


@pytest.mark.parametrize(
    ("before", "after", "patched"),
    [
        ("print(model)", "return m", True),
        ("pass", "return model", False),
        ("pass", "print(lambda: ema)", False),
        ("for _ in (1, 2):\n        print(model)", "", False),
    ],
)
def test_variables_are_those_of_the_function(before: str, after: str, patched: bool, tmp_path: Path) -> None:
    text = script(IN_A_FUNCTION.format(before=before, after=after))
    if before.startswith("for"):  # the loop runs in another one
        text = text.replace("    for ema,", "        for ema,").replace("        ema.data", "            ema.data")
    (tmp_path / "train.py").write_text(text)
    edit = Edit("average-at-once", locations=fired(text))
    made = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions(checked=True))
    assert made.empty is not patched
    if patched:
        assert "[ema.data for ema in ema.parameters()], [model.data for model in model.parameters()]" in made.diff


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_calls_round_as_the_loop_does_on_the_cpu(dtype: torch.dtype) -> None:
    """Not in float16, where torch 2.13 rounds the two forms in different ways: the recipe is never `safe`."""
    torch.manual_seed(1)
    shapes = [(7, 5), (33,), (1,), (), (64, 3, 3, 3), (0, 4)]
    own = [torch.randn(shape).mul(10).to(dtype) for shape in shapes]
    alone = [torch.randn(shape).to(dtype) for shape in shapes]
    together, drawn = [tensor.clone() for tensor in alone], [tensor.clone() for tensor in alone]
    lerped = [tensor.clone() for tensor in alone]
    assigned, kept = [tensor.clone() for tensor in alone], [tensor.clone() for tensor in alone]
    for _ in range(5):
        for average, tensor in zip(alone, own, strict=True):
            average.mul_(0.999).add_(tensor, alpha=1 - 0.999)
        torch._foreach_mul_(together, 0.999)
        torch._foreach_add_(together, own, alpha=1 - 0.999)
        for average, tensor in zip(drawn, own, strict=True):
            average.lerp_(tensor, 0.013)
        torch._foreach_lerp_(lerped, own, 0.013)
        assigned = [average * 0.999 + tensor * (1 - 0.999) for average, tensor in zip(assigned, own, strict=True)]
        torch._foreach_mul_(kept, 0.999)
        torch._foreach_add_(kept, torch._foreach_mul(own, 1 - 0.999))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(drawn, lerped, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(assigned, kept, strict=True))
