"""Everything that can go wrong on purpose, as one family.

    TracelensError            what, where, and how to mend it; the command line prints it without a traceback
    ├── InputError            exit 4: a file is missing, unreadable, or holds no complete timed event
    ├── UsageError            exit 2: options that make no sense together
    ├── RuleError             exit 2: a rule file with mistakes; carries all of them
    ├── Refused               exit 1: a change that would not be safe was not made
    └── Inconclusive          exit 3: the question was fair, the evidence is not enough

Anything else that escapes is a bug in TraceLens and keeps its traceback (exit 70).
"""

from __future__ import annotations

from tracelens.messages import joined, say_count


class TracelensError(Exception):
    """One sentence that says what is wrong and where, and a hint that says what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(TracelensError):
    """A file that should be read is missing, unreadable or without a single complete timed event."""

    exit_code = 4


class UsageError(TracelensError):
    """The command line asks for something that cannot be done."""

    exit_code = 2


class RuleError(TracelensError):
    """A rules folder has mistakes; `mistakes` lists every one as 'file: key: what was expected'."""

    exit_code = 2

    def __init__(self, mistakes: tuple[str, ...], *, hint: str = "") -> None:
        said = say_count(
            "the rules have {count} mistake:\n  {mistakes}",
            "the rules have {count} mistakes:\n  {mistakes}",
            len(mistakes),
            mistakes=joined("\n  ", mistakes),
        )
        super().__init__(said, hint=hint)
        self.mistakes = mistakes


class Refused(TracelensError):
    """A change was not made because it could lose or alter something of the user's."""

    exit_code = 1


class Inconclusive(TracelensError):
    """The evidence does not decide the question."""

    exit_code = 3
