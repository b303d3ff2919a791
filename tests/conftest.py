"""Fixtures that several test files share, and surroundings that do not depend on how the tests were started."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest

gc.disable()  # tests are short: garbage is looked for between them
os.environ["LANGUAGE"] = "en"  # whatever the language of who runs the tests
# jsonschema builds a grammar with it at once, 2.5 s in each process, to check formats; no validator here does.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
pytest.register_assert_rewrite("tests.support")
pytest_plugins = ["tests.support.purity", "tests.support.kept_replays"]

from tests.support import lean  # noqa: E402
from tests.support.browsing import browser, open_page  # noqa: E402, F401  (fixtures of the tests that open the page)


@pytest.fixture
def lean_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that the test starts get torch without its compiler (`tests/support/lean.py`)."""
    monkeypatch.setenv("PYTHONPATH", lean.SITE)


def pytest_configure() -> None:
    """Give the programs that tests start their signals, whatever `nohup` or a shell's `&` had us ignore.

    A signal that is ignored is ignored in child processes too; one that has a handler is not.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


MOST_NEW_OBJECTS = 2_000_000
"""So many more objects than at the last search for garbage are some 300 MB."""


def pytest_collection_finish() -> None:
    """Keep what is loaded by now out of searches for garbage."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Look for garbage once and keep it out of pytest's own five searches at the end, a second each in a worker."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """Look for garbage where much has come together: Python's own rhythm is a tenth of the suite's time.

    What is left is kept by caches, and no later search looks at it.
    """
    if gc.get_count()[0] > MOST_NEW_OBJECTS:
        gc.collect()
        gc.freeze()
