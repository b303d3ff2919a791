"""One question to the person at the terminal, before something of theirs is changed.

In: the question. Out: yes or no. Enter, `q`, the end of the input and anything else but `y` are no.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tracelens.cli import output
from tracelens.messages import say


def can_ask() -> bool:
    """Whether somebody can read the question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def agreed(question: str, more: Callable[[], None] | None = None) -> bool:
    """Ask once; `d` shows more, where there is more, and asks again."""
    letters = "[y/N/d]" if more is not None else "[y/N]"
    while True:
        output.prompt(say("{question} {letters} ", question=question, letters=letters))
        answer = sys.stdin.readline().strip().lower()
        if answer == "d" and more is not None:
            more()
            continue
        return answer in ("y", "yes")
