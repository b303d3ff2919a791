"""Hooks on optimizers, backward and DataLoaders: they tell observers when a training step of the script ends.

In: a process in which `import torch` has just finished. Out: calls to observers, which an agent registers (that of
`tracelens profile` or that of `tracelens verify`). `wrappers` replaces torch's functions, `steps` decides what a step
is, `observing` calls the observers, and `fast_path` keeps the cost of a plain loop low.

    from tracelens.launch.inside import hooks

    hooks.install()                      # once, right after torch was imported; returns at once when already done
    hooks.on_step(observer)              # observer(step: hooks.Step)      after a training step has ended
    hooks.on_backward(observer)          # observer(tensors: tuple[Tensor, ...])   before an outermost backward runs
    hooks.on_loader_next(observer)       # observer(iterator, batch)       after a DataLoader handed out its first batch
    hooks.on_failure(observer)           # observer(text: str)             an observer raised; it is not called again
    hooks.allow_unobserved(steps)        # no call for the next steps of a plain loop; see `unobserved_ends()`

- Each `on_…` returns a function that removes the observer again. All calls happen on the training thread, except
  on_loader_next, which happens on whichever thread iterates.
- `Step`: `number` (1, 2, …), `source` ("optimizer", "dataloader", "backward"), `optimizer` (the object whose step
  ended it, None for the other sources), `restarted` (the first step counted by another rule than the one before:
  durations across it mean nothing).
- What a step is: see `steps.StepRule`. Gradient accumulation, GANs, parameter groups stepped one by one, ZeRO's nested
  optimizers and GradScaler's skipped steps count as one reads them in the script.
- An observer that raises an `Exception` is removed and reported; training goes on. `SystemExit` and
  `KeyboardInterrupt` are passed on: an observer ends a run at a step boundary by raising SystemExit.
- Code that torch.compile traces gets no graph break from the hooks, and no step is seen there either.
- Our frames are removed from the tracebacks of the script's errors.
- A process forked from this one starts with a fresh count and keeps the observers.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import dynamo_skip, observing, wrappers
from tracelens.launch.inside.fast_path import FastPath
from tracelens.launch.inside.hook_state import Step
from tracelens.launch.inside.observing import Remove
from tracelens.launch.inside.steps import StepRule

__all__ = [
    "Remove",
    "Step",
    "allow_unobserved",
    "install",
    "installed",
    "on_backward",
    "on_failure",
    "on_loader_next",
    "on_step",
    "restart",
    "rule",
    "unobserved_ends",
]

_installed: list[str] = []


def install() -> tuple[str, ...]:
    """Put the hooks in place; returns the names of those that are. Does nothing the second time."""
    if not _installed:
        for name, hook in (
            ("optimizer", wrappers.hook_optimizer),
            ("scaler", wrappers.hook_scaler),
            ("backward", wrappers.hook_backward),
            ("dataloader", wrappers.hook_dataloader),
        ):
            try:
                hook()
                _installed.append(name)
            except (AttributeError, ImportError) as error:  # torch renamed something: the other hooks still work
                observing.report(f"cannot observe {name}: {error!r}")
        dynamo_skip.skip_frames(
            observing.tell,
            observing.step_ended,
            wrappers.batch_wanted,
            observing.leave_fast_path,
            observing.is_training_thread,
            wrappers.tensors_of,
            FastPath.close,
            FastPath.open,
        )
        dynamo_skip.skip_frames(*(method for method in vars(StepRule).values() if inspect.isfunction(method)))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=observing.reset)
    return tuple(_installed)


def on_step(observer: Callable[[Step], None]) -> Remove:
    """Call `observer` after each training step."""
    return observing.add("step", observer)


def on_backward(observer: Callable[[tuple[torch.Tensor, ...]], None]) -> Remove:
    """Call `observer` with the tensors that an outermost backward starts from, before it runs."""
    return observing.add("backward", observer)


def on_loader_next(observer: Callable[[Any, Any], None]) -> Remove:
    """Call `observer` with a DataLoader's iterator and the first batch that it has handed out."""
    return observing.add("loader", observer)


def on_failure(observer: Callable[[str], None]) -> Remove:
    """Call `observer` with one line about an observer that raised."""
    return observing.add("failure", observer)


def allow_unobserved(steps: int) -> None:
    """Call no observer for the next `steps` steps, if the loop is a plain one and has a single step observer.

    That observer calls this. As soon as the loop does something else (a second optimizer, an evaluation), every step
    is observed again.
    """
    key, observers = observing.state.rule.fast_path_key(), observing.observers
    alone = len(observers.step) == 1 and not observers.backward
    if steps > 0 and key is not None and alone and not wrappers.uses_torch_hooks:
        observing.fast_path.open(key, steps)


def unobserved_ends() -> list[int]:
    """End times (`time.perf_counter_ns`) of the steps since the last call that no observer was called for."""
    observing.leave_fast_path()
    ends = observing.unobserved_ends_ns.copy()
    observing.unobserved_ends_ns.clear()
    return ends


def rule() -> StepRule:
    """The rule that counts this process's steps."""
    return observing.state.rule


def installed() -> bool:
    """Whether the hooks are in place: an agent was armed at the process's start, or `install` was called since."""
    return bool(_installed)


def restart() -> None:
    """Reset the count and the training thread: another loop begins in the same process (a notebook)."""
    observing.reset()
