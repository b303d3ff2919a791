"""Calls the observers of the training loop, and keeps the state that all hooks share.

In: the ends of steps, from `wrappers`. Out: calls of the observers. An observer that raises is removed and reported.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import dynamo_skip, user_signals
from tracelens.launch.inside.fast_path import FastPath
from tracelens.launch.inside.hook_state import HookState, ObserverLists, Observers, Step

Remove = Callable[[], None]

state = HookState()
observers = ObserverLists()
fast_path = FastPath()
unobserved_ends_ns: list[int] = []
"""End times (`time.perf_counter_ns`) of steps that no observer was called for, until `hooks.unobserved_ends`."""

_thread = threading.get_ident


def add(kind: str, observer: Callable[..., None]) -> Remove:
    """Register an observer of this kind; returns the function that removes it."""
    leave_fast_path()
    setattr(observers, kind, (*getattr(observers, kind), observer))
    observers.any = True
    return functools.partial(discard, kind, observer)


def discard(kind: str, observer: Callable[..., None]) -> None:
    """Remove an observer; nothing if it is not registered."""
    leave_fast_path()
    setattr(observers, kind, tuple(other for other in getattr(observers, kind) if other != observer))
    observers.any = bool(observers.step or observers.backward or observers.loader)


def tell(kind: str, registered: Observers, *values: Any) -> None:
    """Call the `registered` observers of this kind, with Dynamo switched off."""
    watching = dynamo_skip.set_callback(None)
    try:
        for observer in registered:
            try:
                observer(*values)
            except Exception as error:  # a bug of ours must not end the user's training
                if user_signals.raised_by_handler(error):
                    raise
                discard(kind, observer)
                report(f"{kind} observer failed: {error!r}")
    finally:
        dynamo_skip.set_callback(watching)


def report(text: str) -> None:
    """Tell the failure observers."""
    for observer in observers.failure:
        try:
            observer(text)
        except Exception:  # noqa: BLE001 -- reporting a failure must not become one
            discard("failure", observer)


def reset() -> None:
    """Forget the steps so far; the observers stay."""
    vars(state).update(vars(HookState()))
    fast_path.open(None, 0)
    unobserved_ends_ns.clear()


def leave_fast_path() -> None:
    """Close the fast path and let the step rule catch up; cheap if it is closed."""
    if fast_path.key is not None:
        unobserved_ends_ns.extend(fast_path.close(state.rule))


def is_training_thread() -> bool:
    """Whether this thread trains; the first thread that asks becomes the training thread."""
    here = _thread()
    if state.thread is None:
        state.thread = here
    return state.thread == here


def step_ended(optimizer: torch.optim.Optimizer | None) -> None:
    """Tell the step observers of the step that the rule has just counted."""
    rule = state.rule
    if rule.source is not None and observers.step:
        tell("step", observers.step, Step(rule.count, rule.source, optimizer, rule.restarted))
