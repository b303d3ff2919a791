"""Which tests are pure: those that start no program. `make check` runs these alone.

A test needs no mark to be pure. One that starts a program is marked `programs`, and fails without the mark, so that a
slow test does not slip in among the quick ones. `git` may be asked by any test, and so may what Python's own library
asks: they answer in milliseconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

NOT_PURE = ("programs", "browser", "gpu", "slow")
QUICK_PROGRAMS = frozenset({"git", "uname", "ldconfig"})

_started: list[str] = []
"""Programs that the current test has started so far."""


def _note_programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.posix_spawn", "os.system"):
        name = os.path.basename(os.fsdecode(arguments[0])) if arguments[0] else "?"
        if name not in QUICK_PROGRAMS:
            _started.append(name)


sys.addaudithook(_note_programs)


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
