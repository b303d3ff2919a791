"""Hooks on optimizers, backward and DataLoaders: they tell observers when a training step of the script ends.

In: a process in which `import torch` has just finished. Out: calls to observers, which an agent registers (that of
`tracelens profile` or that of `tracelens verify`). A module of its own because both agents need the same moments.

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

import functools
import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import dynamo_skip, existing_optimizers, hook_state, torch_registries, user_signals
from tracelens.launch.inside.fast_path import MOST_BACKWARDS, MOST_BATCHES, FastPath
from tracelens.launch.inside.hook_state import HookState, ObserverLists, Observers
from tracelens.launch.inside.steps import StepRule
from tracelens.launch.inside.tracebacks import hide_our_frames

_NO_GRAPH_TASK = -1
"""What autograd returns where no backward is running on this thread."""

# Looked up once, and held in the closures of the fast path: a module's dictionary is one more cache miss per step.
_is_compiling = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
_graph_task = torch._C._current_graph_task_id
_thread = threading.get_ident
_clock = time.perf_counter_ns

Remove = Callable[[], None]
Wrapped = Callable[..., Any]
Step = hook_state.Step

_state = HookState()
_observers = ObserverLists()
_fast_path = FastPath()
_unobserved_ends: list[int] = []
"""End times (`time.perf_counter_ns`) of steps that no observer was called for, until `unobserved_ends` returns them."""
_installed: list[str] = []
_uses_torch_hooks: list[bool] = []
"""Not empty where steps are observed through torch's own optimizer hooks, which have no fast path."""


def install() -> tuple[str, ...]:
    """Put the hooks in place; returns the names of those that are. Does nothing the second time."""
    if not _installed:
        for name, hook in (
            ("optimizer", _hook_optimizer),
            ("scaler", _hook_scaler),
            ("backward", _hook_backward),
            ("dataloader", _hook_dataloader),
        ):
            try:
                hook()
                _installed.append(name)
            except (AttributeError, ImportError) as error:  # torch renamed something: the other hooks still work
                _report(f"cannot observe {name}: {error!r}")
        dynamo_skip.skip_frames(
            _tell,
            _step_ended,
            _batch_wanted,
            _leave_fast_path,
            _is_training_thread,
            _tensors,
            FastPath.close,
            FastPath.open,
        )
        dynamo_skip.skip_frames(*(method for method in vars(StepRule).values() if inspect.isfunction(method)))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_reset)
    return tuple(_installed)


def on_step(observer: Callable[[Step], None]) -> Remove:
    """Call `observer` after each training step."""
    return _add("step", observer)


def on_backward(observer: Callable[[tuple[torch.Tensor, ...]], None]) -> Remove:
    """Call `observer` with the tensors that an outermost backward starts from, before it runs."""
    return _add("backward", observer)


def on_loader_next(observer: Callable[[Any, Any], None]) -> Remove:
    """Call `observer` with a DataLoader's iterator and the first batch that it has handed out."""
    return _add("loader", observer)


def on_failure(observer: Callable[[str], None]) -> Remove:
    """Call `observer` with one line about an observer that raised."""
    return _add("failure", observer)


def allow_unobserved(steps: int) -> None:
    """Call no observer for the next `steps` steps, if the loop is a plain one and has a single step observer.

    That observer calls this. As soon as the loop does something else (a second optimizer, an evaluation), every step
    is observed again.
    """
    key = _state.rule.fast_path_key()
    if (
        steps > 0
        and key is not None
        and len(_observers.step) == 1
        and not _observers.backward
        and not _uses_torch_hooks
    ):
        _fast_path.open(key, steps)


def unobserved_ends() -> list[int]:
    """End times (`time.perf_counter_ns`) of the steps since the last call that no observer was called for."""
    _leave_fast_path()
    ends = _unobserved_ends.copy()
    _unobserved_ends.clear()
    return ends


def rule() -> StepRule:
    """The rule that counts this process's steps."""
    return _state.rule


def installed() -> bool:
    """Whether the hooks are in place: an agent was armed at the process's start, or `install` was called since."""
    return bool(_installed)


def restart() -> None:
    """Reset the count and the training thread: another loop begins in the same process (a notebook)."""
    _reset()


# ------------------------------------------------------------------------------------------------------- observers


def _add(kind: str, observer: Callable[..., None]) -> Remove:
    _leave_fast_path()
    setattr(_observers, kind, (*getattr(_observers, kind), observer))
    _observers.any = True
    return functools.partial(_discard, kind, observer)


def _discard(kind: str, observer: Callable[..., None]) -> None:
    _leave_fast_path()
    setattr(_observers, kind, tuple(other for other in getattr(_observers, kind) if other != observer))
    _observers.any = bool(_observers.step or _observers.backward or _observers.loader)


def _tell(kind: str, observers: Observers, *values: Any) -> None:
    watching = dynamo_skip.set_callback(None)
    try:
        for observer in observers:
            try:
                observer(*values)
            except Exception as error:  # a bug of ours must not end the user's training
                if user_signals.raised_by_handler(error):
                    raise
                _discard(kind, observer)
                _report(f"{kind} observer failed: {error!r}")
    finally:
        dynamo_skip.set_callback(watching)


def _report(text: str) -> None:
    for observer in _observers.failure:
        try:
            observer(text)
        except Exception:  # noqa: BLE001 -- reporting a failure must not become one
            _discard("failure", observer)


def _reset() -> None:
    vars(_state).update(vars(HookState()))
    _fast_path.open(None, 0)
    _unobserved_ends.clear()


def _leave_fast_path() -> None:
    if _fast_path.key is not None:
        _unobserved_ends.extend(_fast_path.close(_state.rule))


# ----------------------------------------------------------------------------------------------------------- hooks


def _is_training_thread() -> bool:
    """Whether this thread trains; the first thread that asks becomes the training thread."""
    here = _thread()
    if _state.thread is None:
        _state.thread = here
    return _state.thread == here


def _hook_optimizer() -> None:
    optimizer_class = torch.optim.Optimizer
    if existing_optimizers.any_below(optimizer_class):
        _observe_existing_optimizers()
        return
    original = optimizer_class.profile_hook_step

    @functools.wraps(original)
    def profile_hook_step(function: Wrapped) -> Wrapped:
        return _observed_step(original(function), 0)

    optimizer_class.profile_hook_step = staticmethod(profile_hook_step)


def _observe_existing_optimizers() -> None:
    """Observe optimizers that exist already, through torch's own hooks.

    Wrapping `step` is preferred where possible: it sees the end of a step that raises, and its marks enclose torch's.
    """
    _uses_torch_hooks.append(True)

    def ended(optimizer: Any) -> None:
        if not _state.depth and _state.rule.optimizer_ended(id(optimizer)):  # a GradScaler's step ends later
            _step_ended(optimizer)

    existing_optimizers.observe(_begins_here, ended)


def _begins_here() -> bool:
    """Whether the optimizer step that begins now is on the training thread and outside backward."""
    if _graph_task() != _NO_GRAPH_TASK:
        _state.stepped_inside = True
        return False
    return _is_training_thread()


def _hook_scaler() -> None:
    """Observe `GradScaler.step`: a step that it skips never reaches the optimizer, yet is a step of the loop."""
    from torch.amp.grad_scaler import GradScaler

    GradScaler.step = _observed_step(GradScaler.step, 1)


def _observed_step(inner: Wrapped, place: int) -> Wrapped:
    """`inner` with its end noted: on the fast path where that is open, else by the step rule.

    `place` is the optimizer's position among the arguments.
    """
    fast, compiling_now, count, identity, clock = _fast_path, _is_compiling, len, id, _clock
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
                _leave_fast_path()
        return result

    dynamo_skip.skip_frames(step, fast_step)
    return fast_step


def _step_by_the_rule(inner: Wrapped, place: int) -> Wrapped:
    fast = _fast_path

    def step(*args: Any, **kwargs: Any) -> Any:
        if fast.room and not fast.inside:
            _leave_fast_path()
        if fast.inside or not _observers.any:  # an optimizer inside GradScaler or ZeRO makes no step of its own
            return inner(*args, **kwargs)
        state = _state
        if _graph_task() != _NO_GRAPH_TASK:
            state.stepped_inside = True
            return inner(*args, **kwargs)
        if state.thread != _thread() and not _is_training_thread():
            return inner(*args, **kwargs)
        state.depth += 1
        try:
            result = inner(*args, **kwargs)
        finally:
            state.depth -= 1
        if not state.depth:
            optimizer = args[place] if len(args) > place else None
            if state.rule.optimizer_ended(id(optimizer)):
                _step_ended(optimizer)
        return result

    return step


def _hook_backward() -> None:
    original, fast, most = torch.autograd.backward, _fast_path, MOST_BACKWARDS

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        try:
            if fast.room and fast.backwards < most:
                fast.backwards += 1
                original(*args, **kwargs)
            elif not _observers.any or _graph_task() != _NO_GRAPH_TASK or not _is_training_thread():
                original(*args, **kwargs)
            else:
                watched_backward(*args, **kwargs)
        except BaseException as error:
            hide_our_frames(error)
            raise

    def watched_backward(*args: Any, **kwargs: Any) -> None:
        _leave_fast_path()
        if _observers.backward:
            _tell("backward", _observers.backward, _tensors(args[0] if args else kwargs.get("tensors", ())))
        state = _state
        state.stepped_inside = False
        original(*args, **kwargs)
        if state.rule.backward_ended(stepped_inside=state.stepped_inside):
            _step_ended(None)

    dynamo_skip.skip_frames(watched_backward)
    torch.autograd.backward = dynamo_skip.transparent(backward, original)
    torch_registries.register_replacement(original, torch.autograd.backward)


def _hook_dataloader() -> None:
    from torch.utils.data import dataloader

    base = dataloader._BaseDataLoaderIter
    original, fast, watched, most, compiling_now = base.__next__, _fast_path, _observers, MOST_BATCHES, _is_compiling

    @functools.wraps(original)
    def next_batch(iterator: Any) -> Any:
        if compiling_now():
            return original(iterator)
        if fast.room and fast.batches < most:
            fast.batches += 1
        elif watched.any:
            _batch_wanted()
        try:
            batch = original(iterator)
        except BaseException as error:
            hide_our_frames(error)
            raise
        if watched.loader and getattr(iterator, "_num_yielded", 1) == 1:  # once per iterator: this code runs per batch
            _tell("loader", watched.loader, iterator, batch)
        return batch

    dynamo_skip.skip_frames(next_batch)
    base.__next__ = next_batch


def _batch_wanted() -> None:
    _leave_fast_path()
    state = _state
    if (state.thread is None or state.thread == _thread()) and state.rule.batch_wanted():
        _is_training_thread()
        _step_ended(None)


def _step_ended(optimizer: torch.optim.Optimizer | None) -> None:
    rule = _state.rule
    if rule.source is not None and _observers.step:
        _tell("step", _observers.step, Step(rule.count, rule.source, optimizer, rule.restarted))


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)
