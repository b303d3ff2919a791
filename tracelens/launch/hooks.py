"""Observers of a training loop that knows nothing of us: runs inside the user's process.

In: a process in which `import torch` has just finished. Out: calls to observers, which an agent (capture's or
verify's) registers. Apart because both agents need the same moments and the same care.

    from tracelens.launch import hooks

    hooks.install()                      # once, right after torch was imported; returns at once when already done
    hooks.on_step(observer)              # observer(step: hooks.Step)      after a training step has ended
    hooks.on_backward(observer)          # observer(tensors: tuple[Tensor, ...])   before an outermost backward runs
    hooks.on_loader_next(observer)       # observer(iterator, batch)       after a DataLoader handed out its first batch
    hooks.on_failure(observer)           # observer(text: str)             an observer raised; it is not called again

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
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from tracelens.launch.steps import Source, StepRule
from tracelens.launch.tracebacks import hide_our_frames

_OUTSIDE = -1
"""What autograd answers where no backward is running on this thread."""

# Looked up once: these run several times per step of the user's loop.
_is_compiling = torch.compiler.is_compiling
_graph_task = torch._C._current_graph_task_id
_thread = threading.get_ident

Remove = Callable[[], None]
Wrapped = Callable[..., Any]


class Step(NamedTuple):
    """The training step that has just ended. A named tuple, because it is made in every step of the user's loop."""

    number: int
    source: Source
    optimizer: torch.optim.Optimizer | None
    restarted: bool


@dataclass
class _State:
    """What changes while the script runs; starts afresh in a forked child."""

    rule: StepRule = field(default_factory=StepRule)
    thread: int | None = None
    """The thread that trains: the first one that stepped or called backward."""
    depth: int = 0
    """Optimizer calls that are open on the training thread (wrappers call the optimizer they wrap)."""
    stepped_inside: bool = False
    """An optimizer ran within the backward that is open."""


_Observers = tuple[Callable[..., None], ...]


@dataclass
class _Observed:
    """Who wants to know what. While nobody does, the hooks only call what they wrap."""

    step: _Observers = ()
    backward: _Observers = ()
    loader: _Observers = ()
    failure: _Observers = ()
    any: bool = False


_state = _State()
_observers = _Observed()
_installed: list[str] = []


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
            except (
                AttributeError,
                ImportError,
            ) as error:  # a torch that has moved the name: the others still work
                _report(f"cannot observe {name}: {error!r}")
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
    setattr(_observers, kind, (*getattr(_observers, kind), observer))
    _observers.any = True
    return functools.partial(_discard, kind, observer)


def _discard(kind: str, observer: Callable[..., None]) -> None:
    setattr(_observers, kind, tuple(other for other in getattr(_observers, kind) if other != observer))
    _observers.any = bool(_observers.step or _observers.backward or _observers.loader)


def _tell(kind: str, observers: _Observers, *values: Any) -> None:
    for observer in observers:
        try:
            observer(*values)
        except Exception as error:  # noqa: BLE001 -- the user's training must survive any mistake of ours
            _discard(kind, observer)
            _report(f"{kind} observer failed: {error!r}")


def _report(text: str) -> None:
    for observer in _observers.failure:
        try:
            observer(text)
        except Exception:  # noqa: BLE001 -- reporting a failure must not become one
            _discard("failure", observer)


def _forget() -> None:
    vars(_state).update(vars(_State()))


# ----------------------------------------------------------------------------------------------------------- hooks


def _is_ours() -> bool:
    """True on the training thread; the first thread that asks becomes it."""
    here = _thread()
    if _state.thread is None:
        _state.thread = here
    return _state.thread == here


def _hook_optimizer() -> None:
    optimizer_class = torch.optim.Optimizer
    if _optimizers_exist(optimizer_class):
        _follow_optimizers()
        return
    original = optimizer_class.profile_hook_step

    @functools.wraps(original)
    def profile_hook_step(function: Wrapped) -> Wrapped:
        return _observed_step(original(function), lambda arguments: arguments[0] if arguments else None)

    optimizer_class.profile_hook_step = staticmethod(profile_hook_step)


def _optimizers_exist(base: type) -> bool:
    """An optimizer was made before us: torch has wrapped its class's `step` already, and will not do so again."""
    return any(getattr(one.__dict__.get("step"), "hooked", False) or _optimizers_exist(one) for one in _below(base))


def _below(base: type) -> list[type]:
    return base.__subclasses__()


def _follow_optimizers() -> None:
    """Observe through torch's own hooks around every `step`, which optimizers that exist already obey too.

    Wrapping comes first where it can: it sees the end of a step that raises, and its marks lie outside of torch's.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    entered: list[int] = []

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if _is_compiling():
            return
        if _graph_task() != _OUTSIDE:
            _state.stepped_inside = True
        elif _is_ours():
            if id(optimizer) in entered:  # its last step raised: torch called no hook after it
                _state.depth -= len(entered)
                entered.clear()
            entered.append(id(optimizer))
            _state.depth += 1

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if _is_compiling() or not entered or entered[-1] != id(optimizer):
            return
        entered.pop()
        _state.depth -= 1
        if not _state.depth and _state.rule.optimizer_ended(id(optimizer)):
            _step_ended(optimizer)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def _hook_scaler() -> None:
    """A step that GradScaler skips never reaches the optimizer, yet is a step of the loop."""
    from torch.amp.grad_scaler import GradScaler

    GradScaler.step = _observed_step(GradScaler.step, _scaled_optimizer)


def _scaled_optimizer(arguments: tuple[Any, ...]) -> Any:
    return arguments[1] if len(arguments) > 1 else None


def _observed_step(inner: Wrapped, optimizer_of: Callable[[tuple[Any, ...]], Any]) -> Wrapped:
    @functools.wraps(inner)
    def step(*args: Any, **kwargs: Any) -> Any:
        if _is_compiling():
            return inner(*args, **kwargs)
        if not _observers.any:
            return _call(inner, args, kwargs)
        state = _state
        if _graph_task() != _OUTSIDE:
            state.stepped_inside = True
            return _call(inner, args, kwargs)
        if state.thread != _thread() and not _is_ours():
            return _call(inner, args, kwargs)
        state.depth += 1
        try:
            result = inner(*args, **kwargs)
        except BaseException:
            hide_our_frames()
            raise
        finally:
            state.depth -= 1
        if not state.depth:
            optimizer = optimizer_of(args)
            if state.rule.optimizer_ended(id(optimizer)):
                _step_ended(optimizer)
        return result

    return step


def _hook_backward() -> None:
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> None:
        if _is_compiling() or not _observers.any or _graph_task() != _OUTSIDE or not _is_ours():
            _call(original, args, kwargs)
            return
        if _observers.backward:
            _tell("backward", _observers.backward, _tensors(args[0] if args else kwargs.get("tensors", ())))
        state = _state
        state.stepped_inside = False
        try:
            original(*args, **kwargs)
        except BaseException:
            hide_our_frames()
            raise
        if state.rule.backward_ended(stepped_inside=state.stepped_inside):
            _step_ended(None)

    torch.autograd.backward = backward


def _hook_dataloader() -> None:
    from torch.utils.data import dataloader

    base = dataloader._BaseDataLoaderIter
    original = base.__next__

    @functools.wraps(original)
    def following(iterator: Any) -> Any:
        if _is_compiling():
            return original(iterator)
        observed = _observers
        if observed.any and (_state.thread is None or _state.thread == _thread()) and _state.rule.batch_wanted():
            _is_ours()
            _step_ended(None)
        try:
            batch = original(iterator)
        except StopIteration:
            raise
        except BaseException:
            hide_our_frames()
            raise
        if observed.loader and getattr(iterator, "_num_yielded", 1) == 1:  # each iterator once: this runs per batch
            _tell("loader", observed.loader, iterator, batch)
        return batch

    base.__next__ = following


def _step_ended(optimizer: torch.optim.Optimizer | None) -> None:
    rule = _state.rule
    if rule.source is None or not _observers.step:
        return
    step = Step(rule.count, rule.source, optimizer, rule.restarted)
    for observer in _observers.step:
        try:
            observer(step)
        except Exception as error:  # noqa: BLE001 -- as in `_tell`, which would cost a call more in every step
            _discard("step", observer)
            _report(f"step observer failed: {error!r}")


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


# ------------------------------------------------------------------------------------------------------ tracebacks


def _call(function: Wrapped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except StopIteration:
        raise
    except BaseException:
        hide_our_frames()
        raise
