"""Keeps torch's registries of functions right while one of torch's functions is replaced by a wrapper of ours.

In: a function and its replacement. Out: TorchScript compiles the replacement as the original, and no list of functions
that torch builds once and caches holds a replacement. A module of its own because it uses private names of torch that
change between versions: a registry that does not exist is skipped.
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
"""Cached functions, filled at their first call. Calling them early would make Python show warnings a second time."""


def register_replacement(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Let TorchScript compile `replacement` as `original` from now on."""
    table, dispatched = _registries()
    if id(original) in table:
        table[id(replacement)] = table[id(original)]
    with suppress(TypeError):  # a C function cannot be referenced weakly, and is not in this table
        if original in dispatched:
            dispatched[replacement] = dispatched[original]


def unregister(replacement: Callable[..., Any]) -> None:
    """Undo `register_replacement`: another function may get the same `id` later."""
    table, dispatched = _registries()
    table.pop(id(replacement), None)
    with suppress(TypeError):
        dispatched.pop(replacement, None)


def empty_caches() -> list[Any]:
    """The cached functions that were not called yet. Call before anything is replaced; give the result to
    `clear_caches` afterwards."""
    with suppress(ImportError, AttributeError):
        import_module(
            "torch.utils._device"
        )._device_constructors()  # must be built before anything is replaced, and is cheap
    functions: list[Any] = [getattr(sys.modules.get(module), name, None) for module, name in _LISTS]
    return [
        function for function in functions if hasattr(function, "cache_info") and not function.cache_info().currsize
    ]


def clear_caches(functions: list[Any]) -> None:
    """Clear the caches that were empty before the replacement: what they hold now contains replacements."""
    for function in functions:
        function.cache_clear()


def _registries() -> tuple[Any, Any]:
    """TorchScript's table of builtins by `id` of the Python function, and its table of boolean-dispatched functions."""
    table: Any = {}
    with suppress(ImportError, AttributeError):
        table = import_module("torch.jit._builtins")._get_builtin_table()
    with suppress(ImportError, AttributeError):
        return table, import_module("torch._jit_internal").boolean_dispatched
    return table, {}
