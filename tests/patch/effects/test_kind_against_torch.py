"""What the patcher promises of a value, held against torch itself: what it is, its shape, its type, its memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from tracelens.patch.effects import kind as kind_of
from tracelens.patch.effects.analysis import analyse
from tracelens.patch.effects.kind import FRACTION, PYTHON, TENSOR, TRUTH, WHOLE, Kind
from tracelens.patch.effects.kinds import Kinds
from tracelens.patch.effects.objects import Module
from tracelens.patch.effects.project import Project

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

DTYPES = (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool)
"""Not among them: complex numbers, of which a mean is taken for a fraction as that of every tensor is."""
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (2, 3))
METHODS = sorted((kind_of.OF_TENSORS | kind_of.NO_TENSOR | kind_of.ARITHMETIC.keys()) - {"cuda", "backward"})


def test_every_method_gives_what_is_promised_of_it() -> None:
    broken = [
        f"{dtype} of shape {shape}: {method}({handed}) is promised as {promised}, and gives {given!r}"
        for method, dtype, shape in product(METHODS, DTYPES, SHAPES)
        for handed, promised, given, memory in _calls(method, _tensor(dtype, shape))
        if not _is_kept(promised, given, memory)
    ]
    assert broken == []


def _tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


def _calls(method: str, owner: torch.Tensor) -> Iterator[tuple[str, Kind, object, list[torch.Tensor]]]:
    """The calls of a method that torch takes: what they hand over, what is promised of them and what they give."""
    scalar, vector = torch.ones(()), torch.ones(1)
    truth, whole = torch.tensor(True), torch.tensor(1)
    ordered: list[tuple[Any, ...]] = [(), (0,), (2.0,), (scalar,), (vector,), (whole,), (truth,), (torch.float64,)]
    named: list[dict[str, Any]] = [{}, {"dim": 0}, {"dtype": torch.float64}, {"dtype": torch.int64}, {"min": vector}]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = (
        [(one, {}) for one in ordered] + [((), one) for one in named] + [((0,), {"dtype": torch.float64})]
    )
    for handed, names in calls:
        own = owner.clone()
        try:
            given = getattr(own, method)(*handed, **names)
        except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):
            continue
        promised = kind_of.of_method(_kind(owner), method, [_kind(one) for one in handed], list(names))
        yield f"{handed}, {names}", promised, given, [own, *(one for one in handed if isinstance(one, torch.Tensor))]


def _kind(value: object) -> Kind:
    """All that can be known of a value."""
    if isinstance(value, torch.Tensor):
        return Kind(TENSOR, value.dim() == 0, _type(value))
    if isinstance(value, torch.dtype):
        return kind_of.dtype(str(value))
    return PYTHON._replace(type={bool: TRUTH, int: WHOLE, float: FRACTION}[type(value)])


def _type(value: torch.Tensor) -> str:
    if value.is_complex():
        return "complex"
    return FRACTION if value.is_floating_point() else TRUTH if value.dtype == torch.bool else WHOLE


def _is_kept(promised: Kind, given: object, others: list[torch.Tensor]) -> bool:
    """Whether a value is what was promised of it; `others`: tensors with memory that is not its own."""
    if promised.what == TENSOR:
        return isinstance(given, torch.Tensor) and _is_kept_of_tensor(promised, given, others)
    if promised.what == kind_of.NUMBER:
        typed = {bool: TRUTH, int: WHOLE, float: FRACTION}.get(type(given), "")
        return isinstance(given, (int, float, str)) and promised.type in ("", typed)
    if promised.what == kind_of.TENSORS:
        return isinstance(given, (tuple, list)) and all(isinstance(one, torch.Tensor) for one in given)
    return True


def _is_kept_of_tensor(promised: Kind, given: torch.Tensor, others: list[torch.Tensor]) -> bool:
    memory = {one.untyped_storage().data_ptr() for one in others if one.numel()}
    shared = given.numel() and given.untyped_storage().data_ptr() in memory
    one_number, typed = not promised.single or given.dim() == 0, promised.type in ("", _type(given))
    return one_number and typed and not (promised.own and shared)


IN_PLACE = sorted(one for one in dir(torch.Tensor) if one.endswith("_") and not one.startswith("_"))
HANDED: tuple[tuple[Any, ...], ...] = (
    *((), (0,), (0, 1), (1, 0), ((1,),), ((1,), (1,)), ((1, 1), (1, 1)), (torch.ones(3),), (torch.ones(1),)),
    *((torch.ones(2, 2, 1),), (torch.ones(()), torch.ones(())), (0, torch.tensor([0]), torch.ones(1))),
)


def test_every_method_in_place_keeps_shape_and_type_unless_it_is_known_to_change_them() -> None:
    changing = {
        method for method, shape, handed in product(IN_PLACE, SHAPES, HANDED) if not _keeps_shape(method, shape, handed)
    }
    assert {"unsqueeze_", "t_", "transpose_", "resize_", "set_"} <= changing <= kind_of.RESHAPE


def _keeps_shape(method: str, shape: tuple[int, ...], handed: tuple[Any, ...]) -> bool:
    own = torch.ones(shape)
    try:
        getattr(own, method)(*handed)
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError):
        return True
    return bool(own.shape == shape and own.dtype == torch.float32)


BEFORE = """
import functools, math, time
from copy import deepcopy
from functools import partial
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

class Weibull(nn.Module):
    def __init__(self):
        super().__init__()
        self.shape = nn.Parameter(torch.ones(2))
        self.ndim = torch.ones(())
        self.data = torch.ones(1)
    def __abs__(self):
        return self.shape
    def __round__(self):
        return self.shape

class MSE:
    def made(self):
        return nn.MSELoss()

def vector_loss(out, y):
    return F.mse_loss(out, y)

torch.manual_seed(0)
weibull = Weibull()
matrix, one = torch.randn(3, 4), torch.ones(1)
loss = F.mse_loss(matrix, matrix * 2)
total, whole, flag = matrix.sum(), (matrix > 0).sum(), (matrix > 0).any()
array = np.ones(1)
number, count = loss.item(), len(matrix)
MSELoss = partial(nn.MSELoss, reduction="none")
criterion = nn.MSELoss()
each = torch.vmap(criterion)
"""
EXPRESSIONS = (
    *("abs(loss)", "abs(one)", "abs(array)", "abs(whole)", "abs(weibull)", "abs(number)", "abs(-count)", "abs(True)"),
    *("pow(one, 2)", "pow(loss, 2)", "pow(2, one)", "pow(array, 2)", "pow(number, 2)", "pow(loss, one)"),
    *("round(number)", "round(number, 2)", "round(count)", "round(weibull)", "round(array[0])", "round(number, None)"),
    *("max(loss, one)", "max(one, 0)", "min(number, 1.0)", "max(count, 3)", "max(3, *one)", "max(array, key=len)"),
    *("max([loss, one])", "sum([one, one])", "sum([1, 2])", "sum(array)", "min(count, number)", "max(flag, count)"),
    *("divmod(array, 2)", "divmod(number, 2)", "next(iter([one]))", "dir(one)", "slice(one)", "all([one])", "any([])"),
    *("float(loss)", "int(loss)", "len(matrix)", "str(one)", "repr(one)", "bool(loss)", "isinstance(one, int)"),
    *("math.exp(loss)", "math.sqrt(2)", "math.prod([one])", "math.floor(loss)", "math.modf(number)", "time.time()"),
    *("loss * abs(one)", "loss + pow(one, 2)", "loss.clamp(abs(one))", "torch.tensor(abs(one))", "loss * abs(number)"),
    *("weibull.shape[0]", "weibull.shape[-1]", "matrix.shape[0]", "array.shape[0]", "matrix.shape[:1]", "one.shape[0]"),
    *("weibull.ndim", "weibull.data", "matrix.ndim", "loss.data", "matrix.size(0)", "loss * weibull.shape[0]"),
    *("MSELoss()(one, one)", "each(one, one)", "torch.vmap(nn.MSELoss())(one, one)", "criterion(one, one)"),
    *("torch.vmap(vector_loss)(one, one)", "vector_loss(one, one)", "torch.vmap(F.mse_loss)(one, one)"),
    *("partial(nn.MSELoss, None, None, 'none')()(one, one)", "partial(nn.MSELoss)()(one, one)"),
    *("partial(F.mse_loss, reduction='none')(one, one)", "deepcopy(criterion)(one, one)", "MSE().made()(one, one)"),
    *("torch.func.grad(vector_loss)(one, one)", "functools.lru_cache(vector_loss)(one, one)", "+loss", "-loss"),
    *("loss == array", "array != one", "loss == one", "loss == 0.5", "-True", "~True", "+True", "-count", "~flag"),
    *("torch.where(matrix)", "torch.where(flag, one, one)", "loss * 2j", "one + 1j", "flag.square()", "whole.square()"),
    *("torch.add(whole, whole, out=torch.ones(1))", "torch.sum(matrix, out=torch.ones(()))", "torch.square(flag)"),
    *("torch.mul(flag, flag)", "torch.abs(whole)", "np.abs(array)", "loss.detach()", "torch.stack([loss, loss])[0]"),
)


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Kind, object, list[torch.Tensor]]]:
    """By expression what is promised of it and what it is, with the tensors that are there before."""
    return claimed(tmp_path_factory.mktemp("project"), BEFORE, EXPRESSIONS)


def claimed(
    folder: Path, before: str, expressions: tuple[str, ...]
) -> dict[str, tuple[Kind, object, list[torch.Tensor]]]:
    path = folder / "train.py"
    path.write_text(before + "".join(f"value_{at} = {one}\n" for at, one in enumerate(expressions)))
    analysis = analyse(Project(folder), [path], [])
    (module,) = (one for one in analysis.memory.objects(Module) if one.file.path == path)
    assert module.file.tree is not None
    assigned = module.file.tree.body[-len(expressions) :]
    values = [one.value for one in assigned if isinstance(one, ast.Assign)]
    kinds, space = Kinds(analysis), dict[str, Any]()
    exec(before, space)
    others = [one for one in space.values() if isinstance(one, torch.Tensor)]
    return {
        text: (kinds.asked(module, node), _evaluated(text, space), others)
        for text, node in zip(expressions, values, strict=True)
    }


def _evaluated(text: str, space: dict[str, Any]) -> object:
    """The value, or the error: nothing is wrong with a promise of what never comes."""
    try:
        return eval(text, space)
    except (TypeError, RuntimeError, ValueError) as error:
        return error


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_what_is_promised_of_it(
    text: str, claims: dict[str, tuple[Kind, object, list[torch.Tensor]]]
) -> None:
    promised, given, others = claims[text]
    assert isinstance(given, Exception) or _is_kept(promised, given, others), (promised, given)


NUMBERS = {
    **dict.fromkeys(("abs(number)", "pow(number, 2)", "min(number, 1.0)", "round(number)", "time.time()"), PYTHON.what),
    **dict.fromkeys(("float(loss)", "len(matrix)", "matrix.shape[0]", "array.shape[0]", "all([one])"), PYTHON.what),
    **dict.fromkeys(("math.exp(loss)", "matrix.size(0)", "matrix.ndim", "str(one)"), PYTHON.what),
    **dict.fromkeys(("abs(loss)", "pow(loss, 2)", "loss * abs(number)", "loss + pow(one, 2)", "-loss"), TENSOR),
    **dict.fromkeys(("criterion(one, one)", "vector_loss(one, one)", "deepcopy(criterion)(one, one)"), TENSOR),
}


@pytest.mark.parametrize("text", NUMBERS)
def test_what_is_certain_is_known(text: str, claims: dict[str, tuple[Kind, object, list[torch.Tensor]]]) -> None:
    assert claims[text][0].what == NUMBERS[text]


SINGLE = ("abs(loss)", "pow(loss, 2)", "loss * abs(number)", "criterion(one, one)", "vector_loss(one, one)")


@pytest.mark.parametrize("text", SINGLE)
def test_what_has_no_dimensions_is_known(text: str, claims: dict[str, tuple[Kind, object, list[torch.Tensor]]]) -> None:
    promised = claims[text][0]
    assert (promised.single, promised.type) == (True, FRACTION)


CHANGED = {
    "in place": "loss.unsqueeze_(0)",
    "transposed in place": "loss.resize_(1, 1).t_()",
    "by its data": "loss.data = loss.data.view(1)",
    "by a pair of stores": "loss.data, kept = loss.data.view(1), loss",
    "by set_": "loss.set_(torch.ones(1))",
    "as what a function writes to": "torch.mean(matrix, dim=0, keepdim=True, out=loss)",
    "as one of those that a function writes to": (
        "whole = torch.ones((), dtype=torch.int64)\ntorch.max(matrix, 0, out=(loss, whole))"
    ),
    "under another name": "other = loss\nother.unsqueeze_(0)",
    "in a list": "for other in [loss]:\n    other.unsqueeze_(0)",
    "in a function": "def change(other):\n    other.unsqueeze_(0)\nchange(loss)",
    "by a function of torch": "torch.Tensor.unsqueeze_(loss, 0)",
    "by its name": "getattr(loss, 'unsqueeze_')(0)",
    "by a method that is kept": "change = loss.unsqueeze_\nchange(0)",
    "by setattr": "setattr(loss, 'data', loss.data.view(1))",
    "by a partial": "torch_sum = partial(torch.sum, out=loss)\ntorch_sum(matrix, 0)",
    "by words": "torch.sum(matrix, 0, **{'out': loss})",
    "by a swap": "torch.utils.swap_tensors(loss, torch.ones(1))",
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_tensor_that_is_changed_in_place_may_have_another_shape(name: str, tmp_path: Path) -> None:
    before = BEFORE + "with torch.no_grad():\n    loss = F.mse_loss(matrix, matrix * 2)\n" + CHANGED[name] + "\n"
    promised, given, _ = claimed(tmp_path, before, ("loss",))["loss"]
    assert isinstance(given, torch.Tensor) and given.dim()
    assert not promised.single


KEPT = {
    "by arithmetic": "loss.mul_(0.5).add_(1.0)",
    "by an average of weights": "for one in criterion.parameters():\n    one.data = one.data * 0.5",
    "by the sum of another": "other = torch.zeros(3)\ntorch.sum(matrix, 1, out=other)",
    "by a sum of its data": "loss.data += 1.0",
    "by an array that a function writes to": "np.abs(array, out=array)",
}


@pytest.mark.parametrize("name", KEPT)
def test_a_change_in_place_that_keeps_the_shape_takes_nothing_away(name: str, tmp_path: Path) -> None:
    before = BEFORE + "with torch.no_grad():\n    loss = F.mse_loss(matrix, matrix * 2)\n" + KEPT[name] + "\n"
    promised, given, _ = claimed(tmp_path, before, ("loss",))["loss"]
    assert isinstance(given, torch.Tensor) and not given.dim()
    assert promised.single
    assert promised.type == FRACTION
