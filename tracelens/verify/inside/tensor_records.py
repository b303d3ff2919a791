"""The numbers of one process: every tensor that backward starts from, the optimizers' settings in each step, and the
final state of the models.

In: the hooks' calls. Out: plain values for the process's record, computed once, after the last step. In the loop a
scalar is cloned on its device: a later `loss /= k` does not change it, and no wait is added, which could hide the races
that a patched loop must be checked for.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import math
from collections.abc import Iterator
from typing import Any

import torch

LARGEST_LOSS = 1 << 20
"""Most elements of a tensor that is kept: a loss has few, whole activations would fill the device."""
SHOWN = 4
"""Elements of a tensor that a report may quote."""


class Losses:
    """Collects what `.backward()` is called on."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self.skipped = 0

    def note(self, tensors: tuple[torch.Tensor, ...]) -> None:
        for tensor in tensors:
            if tensor.numel() > LARGEST_LOSS or _capturing(tensor):
                self.skipped += 1
            else:
                self._kept.append(tensor.detach().clone())

    def read(self) -> list[dict[str, Any]]:
        return [describe(f"backward {number}", tensor) for number, tensor in enumerate(self._kept, 1)]


class Optimizers:
    """Remembers the optimizers that stepped, in the order of their first step."""

    def __init__(self) -> None:
        self._seen: dict[int, torch.optim.Optimizer] = {}

    def note(self, optimizer: torch.optim.Optimizer | None) -> None:
        if optimizer is not None and id(optimizer) not in self._seen:
            self._seen[id(optimizer)] = optimizer

    def parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        for index, optimizer in enumerate(self._seen.values()):
            for group, entry in enumerate(optimizer.param_groups):
                for position, parameter in enumerate(entry["params"]):
                    yield f"optimizer {index} group {group} parameter {position}", parameter


class Settings:
    """The numbers in the optimizers' parameter groups, at each step: learning rate, momentum, weight decay and so on.

    A setting that is a tensor is cloned on its device and read after the last step.
    """

    def __init__(self) -> None:
        self._optimizers: dict[int, tuple[int, torch.optim.Optimizer]] = {}  # kept alive: an id is reused else
        self._kept: dict[str, list[tuple[int, Any]]] = {}

    def note(self, optimizer: torch.optim.Optimizer | None, step: int) -> None:
        """Keep the settings of the optimizer that made this step, where they are not those of its step before."""
        if optimizer is None:
            return
        index, _ = self._optimizers.setdefault(id(optimizer), (len(self._optimizers), optimizer))
        for group, entry in enumerate(optimizer.param_groups):
            for name, value in entry.items():
                if name != "params" and (kept := _setting(value)) is not None:
                    changes = self._kept.setdefault(f"optimizer {index} group {group} {name}", [])
                    if isinstance(kept, torch.Tensor) or not changes or repr(changes[-1][1]) != repr(kept):
                        changes.append((step, kept))

    def read(self) -> list[dict[str, Any]]:
        """By name: from which step on it had which value."""
        return [{"name": name, "changes": _read_changes(kept)} for name, kept in self._kept.items()]


def _setting(value: Any) -> Any:
    """A number, a pair of numbers (betas) or a tensor of one element; None for everything else."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() == 1 and not _capturing(value) else None
    if isinstance(value, (tuple, list)):
        return tuple(value) if value and all(isinstance(part, (int, float)) for part in value) else None
    return value if isinstance(value, (int, float)) else None


def _read_changes(kept: list[tuple[int, Any]]) -> list[list[Any]]:
    out: list[list[Any]] = []
    for step, value in kept:
        plain = value.item() if isinstance(value, torch.Tensor) else value
        plain = [_plain(part) for part in plain] if isinstance(plain, tuple) else _plain(plain)
        if not out or out[-1][1] != plain:
            out.append([step, plain])
    return out


def state(optimizers: Optimizers) -> list[dict[str, Any]]:
    """Parameters the optimizers hold, and parameters and buffers of every module alive, each tensor once."""
    out: list[dict[str, Any]] = []
    done: set[int] = set()
    modules = [(name, tensor) for root in _roots() for name, tensor in _tensors(root)]
    names = {id(tensor): name for name, tensor in modules}
    for name, tensor in (*optimizers.parameters(), *modules):
        if id(tensor) not in done:
            done.add(id(tensor))
            out.append(describe(names.get(id(tensor), name), tensor))
    return out


def describe(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    """Identity of a tensor (exact bytes) and what a message about a difference needs."""
    entry: dict[str, Any] = {"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": [*tensor.shape]}
    try:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        value = local.detach().cpu().contiguous()
        entry["sha256"] = _digest(value)
        flat = value.reshape(-1)
        entry["first"] = [_plain(x) for x in flat[:SHOWN].tolist()]
        entry["sum"] = _plain(flat.to(torch.float64).sum().item()) if not value.is_complex() else None
    except (
        RuntimeError,
        NotImplementedError,
        TypeError,
    ) as error:  # sparse, quantized, meta: not every tensor is bytes
        entry["unreadable"] = f"{type(error).__name__}: {error}"[:200]
    return entry


def _digest(value: torch.Tensor) -> str:
    size = value.numel() * value.element_size()
    if not size:
        return hashlib.sha256(b"").hexdigest()
    return hashlib.sha256((ctypes.c_char * size).from_address(value.data_ptr())).hexdigest()


def _plain(number: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    return number if isinstance(number, (int, float, bool)) else str(number)


def _capturing(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _roots() -> list[torch.nn.Module]:
    """Modules that are part of no other, ordered so that two runs of one script give the same list.

    The collector's order depends on when it ran; class, tensor names and shapes do not. Where several roots agree in
    all of these, their contents decide: equal sets of models then give equal lists.
    """
    gc.collect()
    modules = [value for value in gc.get_objects() if issubclass(type(value), torch.nn.Module)]
    children = {id(child) for module in modules for child in module._modules.values()}
    return sorted((module for module in modules if id(module) not in children), key=_identity)


def _identity(root: torch.nn.Module) -> tuple[str, ...]:
    tensors = list(_tensors(root))
    shapes = [f"{name}{tuple(tensor.shape)}" for name, tensor in tensors]
    return (type(root).__qualname__, *shapes, *(describe(name, tensor).get("sha256", "") for name, tensor in tensors))


def _tensors(root: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    label = type(root).__name__
    for name, tensor in (*root.named_parameters(), *root.named_buffers()):
        yield f"{label}.{name}", tensor
