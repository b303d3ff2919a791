"""Arguments of optimizers, and how gradients are cleared.

In: toggles of kind `optimizer-argument` and `zero-grad`. Out: optimizers of torch that know the argument get it, unless
the script gives it; torch says what cannot be combined, and the optimizer is then made as the script asks.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch

from tracelens.verify.inside.toggles.toggle_record import ToggleRecord


def install_argument(record: ToggleRecord) -> None:
    """Every optimizer class of torch, as far as it takes the argument."""
    for optimizer_class in vars(torch.optim).values():
        if isinstance(optimizer_class, type) and issubclass(optimizer_class, torch.optim.Optimizer):
            _with_argument(optimizer_class, record)


def _with_argument(optimizer_class: Any, record: ToggleRecord) -> None:
    original, name = optimizer_class.__init__, record.name
    if optimizer_class is torch.optim.Optimizer:
        return
    parameters = inspect.signature(original).parameters
    others = [other for other in ("fused", "foreach") if other != name and other in parameters]

    @functools.wraps(original)
    def constructed(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        if name not in parameters:
            original(optimizer, *args, **kwargs)
            record.refused(f"{optimizer_class.__name__} of this torch has no argument {name}")
        elif kwargs.get(name):
            original(optimizer, *args, **kwargs)
            record.already(f"{name}={kwargs[name]} in the script")
        else:
            _construct(optimizer, args, {**kwargs, **dict.fromkeys(others), name: record.value}, kwargs)

    def _construct(optimizer: Any, args: Any, changed: dict[str, Any], kwargs: dict[str, Any]) -> None:
        group = list(args[0]) if args else list(kwargs.get("params", ()))  # a generator can be read only once
        rest = args[1:]
        if not args:
            changed, kwargs = ({key: value for key, value in d.items() if key != "params"} for d in (changed, kwargs))
        try:
            original(optimizer, group, *rest, **changed)
        except (RuntimeError, TypeError, ValueError) as error:
            record.refused(f"{optimizer_class.__name__}: {str(error).partition(chr(10))[0]}")
            original(optimizer, group, *rest, **kwargs)
            return
        if name == "foreach" and all(p.is_cuda for entry in optimizer.param_groups for p in entry["params"]):
            record.already("torch takes it by itself for parameters on the GPU")
        else:
            record.applied(optimizer_class.__name__)

    optimizer_class.__init__ = constructed


def install_zero_grad(record: ToggleRecord) -> None:
    """Gradients are set to None also where the script asks for zeros."""
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        _without_zeros(owner, record)


def _without_zeros(owner: Any, record: ToggleRecord) -> None:
    original = owner.zero_grad

    @functools.wraps(original)
    def zero_grad(target: Any, set_to_none: bool = True) -> None:
        if set_to_none:
            record.already("set_to_none is True already")
        else:
            record.applied()
        original(target, True)

    owner.zero_grad = zero_grad
