"""What functions and losses of torch certainly give; of other libraries only that it is an array.

In: the full name of a function with its call, or a loss. Out: a `Kind`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tracelens.patch.effects.kind import (
    DEVICE,
    FRACTION,
    FULL,
    LOSS,
    NUMBER,
    OF_TENSORS,
    ON_HOST,
    TENSOR,
    UNKNOWN,
    Kind,
    of_method,
)
from tracelens.patch.effects.losses import TOLD, calls_for_mean, is_loss
from tracelens.patch.effects.memory import CLASS, Memory
from tracelens.patch.effects.objects import Name, Thing
from tracelens.patch.effects.words import words

_NO_TENSORS = (
    *("torch.cuda.", "torch.utils.", "torch.optim.", "torch.device", "torch.no_grad", "torch.get_", "torch.is_"),
    *("torch.load", "torch.distributed.", "torch.backends.", "torch.equal", "torch.allclose", "torch.numel"),
    *("torch.finfo", "torch.iinfo", "torch.Size", "torch.Generator", "torch.manual_seed", "torch.autograd."),
    *("torch.amp.", "torch.jit.", "torch.compile", "torch.nn."),
)
_FUNCTIONAL = "torch.nn.functional."
_ARRAYS = ("numpy.", "scipy.", "sklearn.", "pandas.", "cv2.")
_BY_VALUE = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.scalar_tensor"})
_FILLED = frozenset({"torch.zeros", "torch.ones", "torch.rand", "torch.randn", "torch.empty"})
_MAKES = words(
    "zeros ones full rand randn randint randperm arange linspace logspace eye empty zeros_like ones_like full_like"
    " empty_like rand_like randn_like randint_like from_numpy stack cat concat concatenate hstack vstack dstack"
    " column_stack where einsum normal poisson complex polar cdist cosine_similarity pairwise_distance tensordot"
    " tensor as_tensor asarray scalar_tensor block_diag bucketize searchsorted trapezoid cov corrcoef"
    " isin"
)
"""Functions of torch that are no methods and give a tensor; the others give texts, types, sizes or several tensors."""
_OF_TENSORS_TOO = ("linalg.", "special.", "fft.", "Tensor.")
"""Modules of torch whose functions give tensors, as those of torch itself do; others may give anything."""


def by_loss(called: Thing, memory: Memory, as_told: bool) -> Kind:
    """What a call of a loss gives: a mean, unless it was told otherwise where it was made, or is afterwards."""
    names = [one.full if isinstance(one, Name) else "" for one in memory.content(called, CLASS)]
    if len(names) != 1 or not is_loss(names[0]):
        return UNKNOWN
    return LOSS if as_told and not memory.has(called, TOLD) else FULL


def by_function(full: str, call: ast.Call, given: Sequence[Kind]) -> Kind:
    """What a function of a library gives."""
    if full.startswith(_FUNCTIONAL):
        return LOSS if is_loss(full) and calls_for_mean(full, call) else FULL
    if full.startswith("torch."):
        return _by_torch(full, call, given)
    return ON_HOST if full.startswith(_ARRAYS) else UNKNOWN


def _by_torch(full: str, call: ast.Call, given: Sequence[Kind]) -> Kind:
    if full == "torch.device":
        return Kind(DEVICE)
    named = [one.arg or "**" for one in call.keywords]
    places = full == "torch.where" and len(given) + len(named) < 3  # those of a condition: several tensors
    if places or full.startswith(_NO_TENSORS):
        return FULL if full.startswith("torch.nn.utils.clip_grad_norm") else UNKNOWN
    plain = not {"dtype", "out", "**"} & set(named)
    if full in _BY_VALUE and plain and len(given) == 1 and given[0].what == NUMBER:
        return Kind(TENSOR, True, given[0].type, True)
    if full in _FILLED and plain:
        empty = len(call.args) == 1 and isinstance(call.args[0], (ast.Tuple, ast.List)) and not call.args[0].elts
        return Kind(TENSOR, empty, FRACTION, True)
    method = full.removeprefix("torch.")
    if method in OF_TENSORS and given and not any(isinstance(one, ast.Starred) for one in call.args):
        owner = given[0] if given[0].what == TENSOR else FULL
        found = of_method(owner, method, given[1:], named)
        to_another = found.what == TENSOR and not {"out", "**"}.isdisjoint(named)
        return FULL if to_another else found  # it has the type of what it writes to, and with `out` its memory
    return FULL if method in _MAKES or method.startswith(_OF_TENSORS_TOO) else UNKNOWN
