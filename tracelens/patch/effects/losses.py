"""Losses of torch by their names, and what they are told of their reduction: without a word of it they give a mean.

In: the full name of a class or function, and what a call of it is handed. Out: yes and no.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

TOLD = "<told>"
"""The field of a loss that is told something of its reduction where it is made, by whatever way it is made there."""
_FUNCTIONAL = "torch.nn.functional."
_OF_FUNCTIONS, _OF_CLASSES = 2, 1
"""Arguments by their place among which there is no `reduction`: `F.mse_loss(out, y)`, `nn.CrossEntropyLoss(weight)`."""
_REDUCTION_FIRST = "torch.nn.HuberLoss"
_NO_LOSS = "torch.nn.AdaptiveLogSoftmaxWithLoss"
"""It gives a tuple of the output and the loss."""


def is_loss(full: str) -> bool:
    """A loss of torch, function or module."""
    name = full.rpartition(".")[2]
    if full.startswith(_FUNCTIONAL):
        return name.endswith(("_loss", "cross_entropy", "cross_entropy_with_logits")) or name == "kl_div"
    return full.startswith("torch.nn.") and name.endswith("Loss") and full != _NO_LOSS


def is_mean(full: str, positional: int, names: Iterable[str], more: bool) -> bool:
    """Whether so many arguments, and those by name, say nothing of a value per sample.

    `more`: `*` or `**` may bring others along.
    """
    before = _OF_FUNCTIONS if full.startswith(_FUNCTIONAL) else 0 if full == _REDUCTION_FIRST else _OF_CLASSES
    return not more and positional <= before and not any("reduc" in one for one in names)


def calls_for_mean(full: str, call: ast.Call) -> bool:
    """The same of a call as it is written."""
    starred = any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords)
    return is_mean(full, len(call.args), (one.arg or "" for one in call.keywords), starred)
