"""read-at-once: which reads of one tensor after the other become one, and that every value is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, fired, patched_text, script
from tracelens.model import Edit, Patch
from tracelens.patch.recipes import PatchOptions, make

HEAD = "def train():\n    total, seen = 0.0, []\n    for x, y in loader:\n        STEP\n"


def patch(folder: Path, body: str) -> tuple[str, Patch]:
    inner = "".join(f"        {line}\n" for line in [*body.splitlines(), "print(total, seen)"])
    text = script(HEAD + inner + "\n\ntrain()\n")
    (folder / "train.py").write_text(text)
    edit = Edit("read-at-once", locations=fired(text))
    return text, make(folder, folder / "train.py", (edit,), (), PatchOptions(checked=True))


CLIPPED = """for p in model.parameters():
    {head}param_norm = p.grad.data.norm(2)
    total += param_norm.item() ** 2  # fires"""
GUARDED = """for p in model.parameters():
    if p.grad is not None and p.requires_grad:
        g = p.grad.detach()
        size = g.pow(2).sum().sqrt()
        total += float(size)  # fires
        seen.append(float(size))"""


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        pytest.param(
            CLIPPED.format(head=""),
            (
                "    param_norms = [p.grad.data.norm(2) for p in model.parameters()]",
                "    for param_norm in torch.stack(param_norms).tolist():",
                "        total += param_norm ** 2  # fires",
            ),
            id="as torch's own clip_grad_norm_ was once written",
        ),
        pytest.param(
            CLIPPED.format(head="if p.grad is None: continue\n    "),
            (
                "    param_norms = [p.grad.data.norm(2) for p in model.parameters() if p.grad is not None]",
                "    for param_norm in (torch.stack(param_norms).tolist() if param_norms else []):",
            ),
            id="tensors that are skipped",
        ),
        pytest.param(
            GUARDED,
            (
                "    sizes = [p.grad.detach().pow(2).sum().sqrt() for p in model.parameters() "
                "if p.grad is not None and p.requires_grad]",
                "    # fires",
                "        total += size",
                "        seen.append(size)",
            ),
            id="names inside of a condition, and two statements",
        ),
        pytest.param(
            "total += sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5  # fires",
            (
                "    norms = [p.grad.norm() for p in model.parameters()]",
                "    total += sum(norm ** 2 for norm in torch.stack(norms).tolist()) ** 0.5  # fires",
            ),
            id="a generator",
        ),
        pytest.param(
            "seen = [p.abs().max().cpu().item() for p in model.parameters() if p.ndim > 1]  # fires",
            (
                "    values = [p.abs().max() for p in model.parameters() if p.ndim > 1]",
                "    seen = (torch.stack(values).tolist() if values else [])  # fires",
            ),
            id="a list of the values themselves",
        ),
        pytest.param(
            "total = max(float(torch.linalg.norm(p.grad)) for p in model.parameters())  # fires",
            ("    total = max(torch.stack(norms).tolist())  # fires",),
            id="a function of torch, read by float",
        ),
        pytest.param(
            "norms = 3\nseen += [(p.grad.norm().item(), norms) for p in model.parameters()]  # fires",
            ("    norms_2 = [", "    seen += [(norm, norms) for norm in torch.stack(norms_2).tolist()]  # fires"),
            id="a name that is taken",
        ),
    ],
)
def test_the_values_are_read_at_once_and_are_the_same(body: str, lines: tuple[str, ...], tmp_path: Path) -> None:
    text, made = patch(tmp_path, body)
    assert [(hunk.id, hunk.tier) for hunk in made.hunks] == [("TL14-01", "checked")]
    after = patched_text(made)
    assert all(f"\n    {line}" in after for line in lines), after
    assert ".item()" not in after.replace("loss.item()", "")
    outcome = assert_same(tmp_path, text, made)
    assert outcome.output.count("\n") == 23, "every batch prints what was read"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for p in model.parameters():\n    total += p.grad[0].sum().item()  # fires", "one number of each tensor"),
        ("for p in model.parameters():\n    total += p.grad.norm(dim=0).item()  # fires", "one number of each tensor"),
        ("for p in model.parameters():\n    total += p.grad.clamp_(0).sum().item()  # fires", "one number of each"),
        ("for p in model.parameters():\n    total += p.grad.item()  # fires", "one number of each tensor"),
        ("for p in model.parameters():\n    total += size(p).item()  # fires", "one number of each tensor"),
        (
            "for n, p in model.named_parameters():\n    seen.append((n, p.grad.norm().item()))  # fires",
            "uses the tensor, or its name",
        ),
        (
            "for p in model.parameters():\n    p.grad.div_(p.grad.norm().item())  # fires",
            "uses the tensor, or its name",
        ),
        (
            "for p in model.parameters():\n    total += (p.grad.norm() * 2).pow(2).item()  # fires\n    print(p)",
            "uses the tensor",
        ),
        (
            "for p in model.parameters():\n    if p.grad.norm().item() > total:  # fires\n        total += 1",
            "decided by a call",
        ),
        ("for p in model.parameters():\n    total += p.grad.norm().item()  # fires\nprint(p.shape)", "is used outside"),
        (
            "for p in model.parameters():\n    total += p.norm().item() + p.grad.norm().item()  # fires",
            "several values",
        ),
        ("for p in model.parameters():\n    assert p.grad.norm().item() < 9  # fires", "may end the loop"),
        ("if any(p.grad.norm().item() > 9 for p in model.parameters()):  # fires\n    pass", "not part of a plain"),
        ("total += sum(p.grad.norm().item() for m in (model,) for p in m.parameters())  # fires", "more than one set"),
        ("total += loss.item()  # fires", "not known to be one number of each tensor"),
        (
            "# tracelens: keep\nfor p in model.parameters():\n    total += p.grad.norm().item()  # fires",
            "tracelens: keep",
        ),
    ],
)
def test_what_is_more_than_reading_one_number_each_stays_and_says_why(body: str, why: str, tmp_path: Path) -> None:
    _, made = patch(tmp_path, body)
    assert made.empty
    assert why in made.declined[0].obstacle


def test_a_number_that_depends_on_the_values_before_it_stays(tmp_path: Path) -> None:
    """`mul` by a name is no operation that the recipe knows, a norm's kind may be a name: that one is assigned."""
    _, made = patch(tmp_path, "kind = 2.0\nfor p in model.parameters():\n    kind = p.grad.norm(kind).item()  # fires")
    assert made.empty
    assert "depends on the values before" in made.declined[0].obstacle


def test_a_tensor_of_a_list_may_be_none_at_all(tmp_path: Path) -> None:
    """`torch.stack([])` raises, and the loop did not."""
    text, made = patch(tmp_path, "for each in []:\n    total += each.norm().item()  # fires")
    assert_same(tmp_path, text, made)
    assert "if norms else []" in patched_text(made)
