"""What is one number of a tensor, by the shapes that torch gives: each listed form is also computed."""

from __future__ import annotations

import libcst as cst
import pytest
import torch

from tracelens.patch.recipes.scalar_expressions import is_one_number

NUMBERS = [
    "p.norm()",
    "p.grad.data.norm(2)",
    "p.grad.norm(p=1)",
    "torch.norm(p.grad, 2)",
    "torch.linalg.vector_norm(p)",
    "p.detach().abs().max()",
    "p.pow(2).sum().sqrt()",
    "(p * 2 + 1).mean()",
    "p.norm() ** 2",
    "2 * p.sum() - p.mean()",
    "p.isnan().any()",
    "p.var().float()",
    "p.norm().data",
]
OTHERS = ["p", "p.grad", "p.norm(dim=0)", "p.sum(0)", "p.max(1)", "p.abs()", "p[0].sum()", "q.norm()", "f(p).norm()"]
"""The last are of no tensor that is known."""


@pytest.mark.parametrize("text", NUMBERS)
def test_a_reduction_over_all_elements_is_one_number(text: str) -> None:
    assert is_one_number(cst.parse_expression(text), {"p"})
    p = torch.arange(6.0).reshape(2, 3).requires_grad_()
    p.sum().backward()
    assert eval(text, {"p": p, "torch": torch}).ndim == 0


@pytest.mark.parametrize("text", [*OTHERS, "p.add_(1).sum()", "p.norm(order())", "p.norm() * scale", "p.norm() and 1"])
def test_what_has_a_shape_or_changes_something_is_none(text: str) -> None:
    assert not is_one_number(cst.parse_expression(text), {"p"})
