"""Wraps the calls of torch that tell where a training step ends: optimizers, GradScaler, backward, DataLoaders.

In: nothing; each `hook_…` replaces one of torch's functions. Out: calls of `observing`. The wrappers run in every step
of the user's loop, so they hold what they need in closures: a module's dictionary is one more cache miss.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import dynamo_skip, existing_optimizers, torch_registries
from tracelens.launch.inside.fast_path import MOST_BACKWARDS, MOST_BATCHES
from tracelens.launch.inside.hook_state import made_optimizers
from tracelens.launch.inside.observing import (
    fast_path,
    is_training_thread,
    leave_fast_path,
    observers,
    state,
    step_ended,
    tell,
)
from tracelens.launch.inside.tracebacks import hide_our_frames

_NO_GRAPH_TASK = -1
"""What autograd returns where no backward is running on this thread."""

_is_compiling = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
_graph_task = torch._C._current_graph_task_id
_thread = threading.get_ident
_clock = time.perf_counter_ns

Wrapped = Callable[..., Any]

uses_torch_hooks: list[bool] = []
"""Not empty where steps are observed through torch's own optimizer hooks, which have no fast path."""


def hook_optimizer() -> None:
    """Observe the steps of all optimizers: torch wraps the `step` of each new optimizer class by this function."""
    optimizer_class = torch.optim.Optimizer
    if existing_optimizers.any_below(optimizer_class):
        _observe_existing_optimizers()
        return
    original = optimizer_class.profile_hook_step

    @functools.wraps(original)
    def profile_hook_step(function: Wrapped) -> Wrapped:
        made_optimizers.append(optimizer_class)
        return observed_step(original(function), 0)

    optimizer_class.profile_hook_step = staticmethod(profile_hook_step)


def _observe_existing_optimizers() -> None:
    """Observe optimizers that exist already, through torch's own hooks.

    Wrapping `step` is preferred where possible: it sees the end of a step that raises, and its marks enclose torch's.
    """
    uses_torch_hooks.append(True)
    made_optimizers.append(torch.optim.Optimizer)

    def ended(optimizer: Any) -> None:
        if not state.depth and state.rule.optimizer_ended(id(optimizer)):  # a GradScaler's step ends later
            step_ended(optimizer)

    existing_optimizers.observe(_begins_here, ended)


def _begins_here() -> bool:
    """Whether the optimizer step that begins now is on the training thread and outside backward."""
    if _graph_task() != _NO_GRAPH_TASK:
        state.stepped_inside = True
        return False
    return is_training_thread()


def hook_scaler() -> None:
    """Observe `GradScaler.step`: a step that it skips never reaches the optimizer, yet is a step of the loop."""
    from torch.amp.grad_scaler import GradScaler

    GradScaler.step = observed_step(GradScaler.step, 1)


def observed_step(inner: Wrapped, place: int) -> Wrapped:
    """`inner` with its end noted: on the fast path where that is open, else by the step rule.

    `place` is the optimizer's position among the arguments.
    """
    fast, compiling_now, count, identity, clock = fast_path, _is_compiling, len, id, _clock
    step = _step_by_the_rule(inner, place)

    @functools.wraps(inner)
    def fast_step(*args: Any, **kwargs: Any) -> Any:
        if compiling_now():
            return inner(*args, **kwargs)
        if not fast.room or fast.inside or count(args) <= place or identity(args[place]) != fast.key:
            try:
                return step(*args, **kwargs)
            except BaseException as error:
                hide_our_frames(error)
                raise
        fast.inside = True
        try:
            result = inner(*args, **kwargs)
        except BaseException as error:
            hide_our_frames(error)
            raise
        finally:
            fast.inside = False
        if not fast.backwards:
            fast.repeats += 1
            fast.batches = 0
        else:
            fast.backwards = fast.batches = 0
            fast.stamps.append(clock())
            fast.room -= 1
            if not fast.room:
                leave_fast_path()
        return result

    dynamo_skip.skip_frames(step, fast_step)
    return fast_step


def _step_by_the_rule(inner: Wrapped, place: int) -> Wrapped:
    fast = fast_path

    def step(*args: Any, **kwargs: Any) -> Any:
        if fast.room and not fast.inside:
            leave_fast_path()
        if fast.inside or not observers.any:  # an optimizer inside GradScaler or ZeRO makes no step of its own
            return inner(*args, **kwargs)
        if _graph_task() != _NO_GRAPH_TASK:
            state.stepped_inside = True
            return inner(*args, **kwargs)
        if state.thread != _thread() and not is_training_thread():
            return inner(*args, **kwargs)
        state.depth += 1
        try:
            result = inner(*args, **kwargs)
        finally:
            state.depth -= 1
        if not state.depth:
            optimizer = args[place] if len(args) > place else None
            if state.rule.optimizer_ended(id(optimizer)):
                step_ended(optimizer)
        return result

    return step


def hook_backward() -> None:
    """Observe `torch.autograd.backward`, which `Tensor.backward` calls."""
    original, fast, most = torch.autograd.backward, fast_path, MOST_BACKWARDS

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        try:
            if fast.room and fast.backwards < most:
                fast.backwards += 1
                original(*args, **kwargs)
            elif not observers.any or _graph_task() != _NO_GRAPH_TASK or not is_training_thread():
                original(*args, **kwargs)
            else:
                watched_backward(*args, **kwargs)
        except BaseException as error:
            hide_our_frames(error)
            raise

    def watched_backward(*args: Any, **kwargs: Any) -> None:
        leave_fast_path()
        if observers.backward:
            tell("backward", observers.backward, tensors_of(args[0] if args else kwargs.get("tensors", ())))
        state.stepped_inside = False
        original(*args, **kwargs)
        if state.rule.backward_ended(stepped_inside=state.stepped_inside):
            step_ended(None)

    dynamo_skip.skip_frames(watched_backward)
    torch.autograd.backward = dynamo_skip.transparent(backward, original)
    torch_registries.register_replacement(original, torch.autograd.backward)


def hook_dataloader() -> None:
    """Observe when a DataLoader's iterator is asked for a batch, and its first batch."""
    from torch.utils.data import dataloader

    base = dataloader._BaseDataLoaderIter
    original, fast, watched, most, compiling_now = base.__next__, fast_path, observers, MOST_BATCHES, _is_compiling

    @functools.wraps(original)
    def next_batch(iterator: Any) -> Any:
        if compiling_now():
            return original(iterator)
        if fast.room and fast.batches < most:
            fast.batches += 1
        elif watched.any:
            batch_wanted()
        try:
            batch = original(iterator)
        except BaseException as error:
            hide_our_frames(error)
            raise
        if watched.loader and getattr(iterator, "_num_yielded", 1) == 1:  # once per iterator: this code runs per batch
            tell("loader", watched.loader, iterator, batch)
        return batch

    dynamo_skip.skip_frames(next_batch)
    base.__next__ = next_batch


def batch_wanted() -> None:
    """A DataLoader is asked for a batch; workers' and other threads' requests are not counted."""
    leave_fast_path()
    if (state.thread is None or state.thread == _thread()) and state.rule.batch_wanted():
        is_training_thread()
        step_ended(None)


def tensors_of(value: Any) -> tuple[torch.Tensor, ...]:
    """The tensors that a backward starts from, which may be one or a sequence."""
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)
