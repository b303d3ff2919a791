"""Tells the parts of torch that know functions by their identity of a function that takes another's place.

In: a function and its replacement. Out: TorchScript compiles the replacement as what it stands for, and of the lists of
functions that torch makes once and keeps for good, none keeps a replacement. Apart because these registries are torch's
own affair and change from version to version: what is missing is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

_LISTS = (
    ("torch.overrides", "get_ignored_functions"),
    ("torch.overrides", "get_testing_overrides"),
    ("torch.overrides", "_get_overridable_functions"),
    ("torch._dynamo.trace_rules", "get_torch_obj_rule_map"),
    ("torch._dynamo.trace_rules", "get_tensor_method"),
)
"""Made at their first use. Making them ahead would have Python show again what warnings it has shown."""


def introduce(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """TorchScript takes `replacement` for `original` from now on."""
    table, dispatched = _registries()
    if id(original) in table:
        table[id(replacement)] = table[id(original)]
    with suppress(TypeError):  # a function of C takes no weak reference, and is none of these
        if original in dispatched:
            dispatched[replacement] = dispatched[original]


def withdraw(replacement: Callable[..., Any]) -> None:
    """The end of it: another function may get the same identity."""
    table, dispatched = _registries()
    table.pop(id(replacement), None)
    with suppress(TypeError):
        dispatched.pop(replacement, None)


def unmade_lists() -> list[Any]:
    """The lists that are not made yet; asked before anything is replaced, for `unmake`."""
    with suppress(ImportError, AttributeError):
        import_module("torch.utils._device")._device_constructors()  # wrong even for a moment, and quickly made
    functions: list[Any] = [getattr(sys.modules.get(module), name, None) for module, name in _LISTS]
    return [one for one in functions if hasattr(one, "cache_info") and not one.cache_info().currsize]


def unmake(lists: list[Any]) -> None:
    """Have them made anew: what was made meanwhile holds replacements."""
    for one in lists:
        one.cache_clear()


def _registries() -> tuple[Any, Any]:
    """TorchScript's operators by the identity of their Python functions; functions that it chooses by a flag."""
    table: Any = {}
    with suppress(ImportError, AttributeError):
        table = import_module("torch.jit._builtins")._get_builtin_table()
    with suppress(ImportError, AttributeError):
        return table, import_module("torch._jit_internal").boolean_dispatched
    return table, {}
