"""What a C++ program is told: none of the hints that need Python.

In: Abstentions. Out: the same with another hint where theirs is to record, or to patch, a Python script.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tracelens.messages import say
from tracelens.model import Abstention, Trace

IN_CPP = say("nothing yet: the program is C++, and TraceLens records and patches Python")
_OF_PYTHON = ("tracelens profile", "torch.profiler", "--script", "torch DataLoader")


def hints(trace: Trace, abstentions: Iterable[Abstention]) -> tuple[Abstention, ...]:
    """The Abstentions with hints that can be followed in the program's language."""
    if trace.program != "cpp":
        return tuple(abstentions)
    return tuple(
        replace(one, hint=IN_CPP) if any(word in one.hint for word in _OF_PYTHON) else one for one in abstentions
    )
