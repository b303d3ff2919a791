"""Which tests are pure: those that start no program. `make check` runs these alone.

A test needs no mark to be pure. One that starts a program is marked `programs`, and fails without the mark, so that a
slow test does not slip in among the quick ones. `git` may be asked by any test, and so may what Python's own library
asks: they answer in milliseconds.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

NOT_PURE = ("programs", "browser", "gpu", "slow")
QUICK_PROGRAMS = frozenset({"git", "uname", "ldconfig"})

_started: list[str] = []
"""Programs that the current test has started so far."""


def _noting(start: Callable[..., Any], named: Callable[..., Any]) -> Callable[..., Any]:
    """`start` with a note of the program; `named` gives its path of what `start` is given."""

    @functools.wraps(start)
    def noted(*given: Any, **options: Any) -> Any:
        name = os.path.basename(os.fsdecode(named(*given)) or "?")
        if name not in QUICK_PROGRAMS:
            _started.append(name)
        return start(*given, **options)

    return noted


# No audit hook: Python calls one for each `id()` as well, of which LibCST makes hundreds of thousands.
subprocess._fork_exec = _noting(subprocess._fork_exec, lambda words, *_: words[0])  # type: ignore[attr-defined]
for _name in ("posix_spawn", "posix_spawnp", "system"):
    setattr(os, _name, _noting(getattr(os, _name), lambda program, *_: program))


def is_pure(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(name) for name in NOT_PURE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start programs come first: they are the long ones, and the last tests to end should be short."""
    items.sort(key=lambda item: item.get_closest_marker("programs") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    if _started and is_pure(item):
        names = ", ".join(dict.fromkeys(_started))
        pytest.fail(f"this test starts programs ({names}): mark it with `pytest.mark.programs`", pytrace=False)
    return result
