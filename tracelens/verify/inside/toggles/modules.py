"""The modules that the loop calls: compiled, or in channels-last order.

In: toggles of kind `compile` and `channels-last`. Out: each module with parameters that is called by the loop itself,
not by another module, is changed when it is called for the first time; modules that appear later than the second step
are left as they are. torch's hooks on every module are removed then, because they cost time in each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import hooks
from tracelens.verify.inside.toggles.toggle_record import ToggleRecord

MOST_MODULES = 8
"""A loop that calls more modules by itself has its forward pass in the loop: compiling each is another lever."""
LEARNING_STEPS = 2


class LoopModules:
    """Finds the modules that the loop calls itself, and hands each to `change` before its first call."""

    def __init__(self, record: ToggleRecord, change: Callable[[torch.nn.Module], None]) -> None:
        self._record = record
        self._change = change
        self._depth = 0
        self._steps = 0
        self._seen: set[int] = set()
        self._removers: list[Callable[[], Any]] = []

    def watch(self) -> None:
        """From here to the end of the second step."""
        register = torch.nn.modules.module
        self._removers += [
            register.register_module_forward_pre_hook(self._enter).remove,
            register.register_module_forward_hook(self._leave, always_call=True).remove,
            hooks.on_step(self._step),
        ]

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        self._depth += 1
        if self._depth == 1 and id(module) not in self._seen and any(True for _ in module.parameters()):
            self._seen.add(id(module))
            if len(self._seen) > MOST_MODULES:
                self._record.refused(f"the loop calls more than {MOST_MODULES} modules, one by one")
            else:
                self._change(module)

    def _leave(self, *_: Any) -> None:
        self._depth = max(0, self._depth - 1)

    def _step(self, _: hooks.Step) -> None:
        self._depth, self._steps = 0, self._steps + 1
        if self._steps >= LEARNING_STEPS:
            for remove in self._removers:
                remove()
            self._removers.clear()


def install_compile(record: ToggleRecord) -> None:
    """Compile each module in place; its first call is still as it was."""
    mode = str(record.value or "default")
    compiled: list[str] = []

    def change(module: torch.nn.Module) -> None:
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            record.already(f"{type(module).__name__} is compiled already")
            return
        if isinstance(module, torch.jit.ScriptModule):
            record.refused(f"{type(module).__name__} is TorchScript")
            return
        compile_in_place(module, **({} if mode == "default" else {"mode": mode}))
        compiled.append(type(module).__name__)
        record.applied(", ".join(compiled))

    LoopModules(record, change).watch()


def compile_in_place(module: torch.nn.Module, **options: Any) -> None:
    """What `module.compile()` does, for torch's own modules, too: of a `Sequential` that makes no graph, because torch
    passes over frames of its own files unless a function of somebody else's calls them."""
    if not type(module).__module__.startswith("torch.nn."):
        module.compile(**options)
        return
    call_module = module._call_impl

    def call(*arguments: Any, **keywords: Any) -> Any:
        return call_module(*arguments, **keywords)

    module._compiled_call_impl = torch.compile(call, **options)


def install_channels_last(record: ToggleRecord) -> None:
    """Weights at once, batches of images at each call."""

    def change(module: torch.nn.Module) -> None:
        if not any(isinstance(part, torch.nn.Conv2d | torch.nn.ConvTranspose2d) for part in module.modules()):
            if record.state == "unused":
                record.detail = "no convolution over images in the modules of the loop"
            return
        module.to(memory_format=torch.channels_last)
        module.register_forward_pre_hook(_in_channels_last, prepend=True)
        record.applied(type(module).__name__)

    LoopModules(record, change).watch()


def _in_channels_last(_: torch.nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        value.contiguous(memory_format=torch.channels_last)
        if isinstance(value, torch.Tensor) and value.dim() == 4
        else value
        for value in arguments
    )


def compile_counts() -> dict[str, int] | None:
    """Graphs and graph breaks of this process; None where nothing was compiled."""
    import sys

    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return None
    counters = utils.counters
    return {"graphs": int(counters["stats"]["unique_graphs"]), "breaks": sum(counters["graph_break"].values())}
