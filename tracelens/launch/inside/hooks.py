"""Observers of a training loop that knows nothing of us: runs inside the user's process.

In: a process in which `import torch` has just finished. Out: calls to observers, which an agent (capture's or
verify's) registers. Apart because both agents need the same moments and the same care.

    from tracelens.launch import hooks

    hooks.install()                      # once, right after torch was imported; returns at once when already done
    hooks.on_step(observer)              # observer(step: hooks.Step)      after a training step has ended
    hooks.on_backward(observer)          # observer(tensors: tuple[Tensor, ...])   before an outermost backward runs
    hooks.on_loader_next(observer)       # observer(iterator, batch)       after a DataLoader handed out its first batch
    hooks.on_failure(observer)           # observer(text: str)             an observer raised; it is not called again
    hooks.let_pass(steps)                # so many steps of a plain loop need no call: `passed()` says when they ended

- Each `on_…` returns a function that removes the observer again. All calls happen on the training thread, except
  on_loader_next, which happens on whichever thread iterates.
- `Step`: `number` (1, 2, …), `source` ("optimizer", "dataloader", "backward"), `optimizer` (the object whose step
  ended it, None for the other sources), `restarted` (the first step counted by another rule than the one before:
  durations across it mean nothing).
- What a step is: see `steps.StepRule`. Gradient accumulation, GANs, parameter groups stepped one by one, ZeRO's nested
  optimizers and GradScaler's skipped steps count as one reads them in the script.
- An observer that raises an `Exception` is removed and reported; training goes on. `SystemExit` and
  `KeyboardInterrupt` pass: raising SystemExit in on_step is how a run is ended at a step boundary.
- Inside code that torch.compile traces the hooks are transparent: no graph break, but no step is seen there either.
- Our frames are cut out of the traceback that Python prints for an uncaught error.
- Processes forked from this one start with a fresh count and keep the observers.
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
from tracelens.launch.inside.fast_path import MOST_BACKWARDS, MOST_BATCHES, Lane
from tracelens.launch.inside.hook_state import Observed, Observers, State
from tracelens.launch.inside.steps import StepRule
from tracelens.launch.inside.tracebacks import hide_our_frames

_OUTSIDE = -1
"""What autograd answers where no backward is running on this thread."""

# Looked up once, and held in the hooks' closures where the loop is plain: a module's dictionary is memory to fetch too.
_is_compiling = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
_graph_task = torch._C._current_graph_task_id
_thread = threading.get_ident
_clock = time.perf_counter_ns

Remove = Callable[[], None]
Wrapped = Callable[..., Any]
Step = hook_state.Step

_state = State()
_observers = Observed()
_lane = Lane()
_passed: list[int] = []
"""End times of steps that went by unobserved, until somebody asks."""
_installed: list[str] = []
_follows: list[bool] = []  # not empty: through torch's own hooks, which know no lane


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
            except (AttributeError, ImportError) as error:  # a torch that has moved the name: the others still work
                _report(f"cannot observe {name}: {error!r}")
        dynamo_skip.leave_alone(
            _tell, _step_ended, _batch_wanted, _leave_lane, _is_ours, _tensors, Lane.leave, Lane.open
        )
        dynamo_skip.leave_alone(*(one for one in vars(StepRule).values() if inspect.isfunction(one)))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget)
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


def let_pass(steps: int) -> None:
    """Call no observer for so many steps, if this loop is a plain one and one observer alone wants its steps.

    Called by that observer. What is not plain any more (a second optimizer, an evaluation) is observed at once.
    """
    key = _state.rule.lane()
    if steps > 0 and key is not None and len(_observers.step) == 1 and not _observers.backward and not _follows:
        _lane.open(key, steps)


def passed() -> list[int]:
    """When the steps ended (`time.perf_counter_ns`) that have passed since this was asked; all others are observed."""
    _leave_lane()
    ends = _passed.copy()
    _passed.clear()
    return ends


def rule() -> StepRule:
    """The rule that counts this process's steps, for those who describe it."""
    return _state.rule


def installed() -> bool:
    """Whether this process is observed already: by an agent that was armed at its start, or by an earlier call."""
    return bool(_installed)


def restart() -> None:
    """Count afresh, on the thread that steps next: another loop begins in a process that lives on (a notebook)."""
    _forget()


# ------------------------------------------------------------------------------------------------------- observers


def _add(kind: str, observer: Callable[..., None]) -> Remove:
    _leave_lane()
    setattr(_observers, kind, (*getattr(_observers, kind), observer))
    _observers.any = True
    return functools.partial(_discard, kind, observer)


def _discard(kind: str, observer: Callable[..., None]) -> None:
    _leave_lane()
    setattr(_observers, kind, tuple(other for other in getattr(_observers, kind) if other != observer))
    _observers.any = bool(_observers.step or _observers.backward or _observers.loader)


def _tell(kind: str, observers: Observers, *values: Any) -> None:
    watching = dynamo_skip.set_callback(None)
    try:
        for observer in observers:
            try:
                observer(*values)
            except Exception as error:  # the user's training must survive any mistake of ours
                if user_signals.raised(error):
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


def _forget() -> None:
    vars(_state).update(vars(State()))
    _lane.open(None, 0)
    _passed.clear()


def _leave_lane() -> None:
    if _lane.key is not None:
        _passed.extend(_lane.leave(_state.rule))


# ----------------------------------------------------------------------------------------------------------- hooks


def _is_ours() -> bool:
    """True on the training thread; the first thread that asks becomes it."""
    here = _thread()
    if _state.thread is None:
        _state.thread = here
    return _state.thread == here


def _hook_optimizer() -> None:
    optimizer_class = torch.optim.Optimizer
    if existing_optimizers.exist(optimizer_class):
        _follow_optimizers()
        return
    original = optimizer_class.profile_hook_step

    @functools.wraps(original)
    def profile_hook_step(function: Wrapped) -> Wrapped:
        return _observed_step(original(function), 0)

    optimizer_class.profile_hook_step = staticmethod(profile_hook_step)


def _follow_optimizers() -> None:
    """Through torch's own hooks, as optimizers exist already. Wrapping comes first where it can: it sees the end of a
    step that raises, and its marks lie outside of torch's."""
    _follows.append(True)

    def ended(optimizer: Any) -> None:
        if not _state.depth and _state.rule.optimizer_ended(id(optimizer)):  # a GradScaler's step ends later
            _step_ended(optimizer)

    existing_optimizers.follow(_begins_here, ended)


def _begins_here() -> bool:
    """A step begins: whether it is one on the training thread, outside backward."""
    if _graph_task() != _OUTSIDE:
        _state.stepped_inside = True
        return False
    return _is_ours()


def _hook_scaler() -> None:
    """A step that GradScaler skips never reaches the optimizer, yet is a step of the loop."""
    from torch.amp.grad_scaler import GradScaler

    GradScaler.step = _observed_step(GradScaler.step, 1)


def _observed_step(inner: Wrapped, place: int) -> Wrapped:
    """`place` of the optimizer among the arguments."""
    lane, compiling_now, count, identity, clock = _lane, _is_compiling, len, id, _clock
    step = _watched_step(inner, place)

    @functools.wraps(inner)
    def quickly(*args: Any, **kwargs: Any) -> Any:
        if compiling_now():
            return inner(*args, **kwargs)
        if not lane.room or lane.inside or count(args) <= place or identity(args[place]) != lane.key:
            try:
                return step(*args, **kwargs)
            except BaseException as error:
                hide_our_frames(error)
                raise
        lane.inside = True
        try:
            result = inner(*args, **kwargs)
        except BaseException as error:
            hide_our_frames(error)
            raise
        finally:
            lane.inside = False
        if not lane.backwards:
            lane.repeats += 1
            lane.batches = 0
        else:
            lane.backwards = lane.batches = 0
            lane.stamps.append(clock())
            lane.room -= 1
            if not lane.room:
                _leave_lane()
        return result

    dynamo_skip.leave_alone(step, quickly)
    return quickly


def _watched_step(inner: Wrapped, place: int) -> Wrapped:
    lane = _lane

    def step(*args: Any, **kwargs: Any) -> Any:
        if lane.room and not lane.inside:
            _leave_lane()
        if lane.inside or not _observers.any:  # what GradScaler or ZeRO wraps is the same step
            return inner(*args, **kwargs)
        state = _state
        if _graph_task() != _OUTSIDE:
            state.stepped_inside = True
            return inner(*args, **kwargs)
        if state.thread != _thread() and not _is_ours():
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
    original, lane, most = torch.autograd.backward, _lane, MOST_BACKWARDS

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        try:
            if lane.room and lane.backwards < most:
                lane.backwards += 1
                original(*args, **kwargs)
            elif not _observers.any or _graph_task() != _OUTSIDE or not _is_ours():
                original(*args, **kwargs)
            else:
                watched_backward(*args, **kwargs)
        except BaseException as error:
            hide_our_frames(error)
            raise

    def watched_backward(*args: Any, **kwargs: Any) -> None:
        _leave_lane()
        if _observers.backward:
            _tell("backward", _observers.backward, _tensors(args[0] if args else kwargs.get("tensors", ())))
        state = _state
        state.stepped_inside = False
        original(*args, **kwargs)
        if state.rule.backward_ended(stepped_inside=state.stepped_inside):
            _step_ended(None)

    dynamo_skip.leave_alone(watched_backward)
    torch.autograd.backward = dynamo_skip.transparent(backward, original)
    torch_registries.introduce(original, torch.autograd.backward)


def _hook_dataloader() -> None:
    from torch.utils.data import dataloader

    base = dataloader._BaseDataLoaderIter
    original, lane, watched, most, compiling_now = base.__next__, _lane, _observers, MOST_BATCHES, _is_compiling

    @functools.wraps(original)
    def following(iterator: Any) -> Any:
        if compiling_now():
            return original(iterator)
        if lane.room and lane.batches < most:
            lane.batches += 1
        elif watched.any:
            _batch_wanted()
        try:
            batch = original(iterator)
        except BaseException as error:
            hide_our_frames(error)
            raise
        if watched.loader and getattr(iterator, "_num_yielded", 1) == 1:  # each iterator once: this runs per batch
            _tell("loader", watched.loader, iterator, batch)
        return batch

    dynamo_skip.leave_alone(following)
    base.__next__ = following


def _batch_wanted() -> None:
    _leave_lane()
    state = _state
    if (state.thread is None or state.thread == _thread()) and state.rule.batch_wanted():
        _is_ours()
        _step_ended(None)


def _step_ended(optimizer: torch.optim.Optimizer | None) -> None:
    rule = _state.rule
    if rule.source is not None and _observers.step:
        _tell("step", _observers.step, Step(rule.count, rule.source, optimizer, rule.restarted))


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)
