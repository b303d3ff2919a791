"""What is asked about statements of a loop, and what the answer says.

In: the place of a loop, of statements in it, and of what the plan does with them. Out: whether they may run later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracelens.patch.effects.after_exceptions import Seen
from tracelens.patch.effects.places import Span
from tracelens.patch.effects.reasons import Reason

Tier = Literal["safe", "checked", "refused"]


@dataclass(frozen=True)
class Question:
    """`later`: statements of the loop in `path` that starts at `line`.

    `kept`: what in them is evaluated where it stands; None for all that has nothing to do with what they change.
    `drained`: statements, of any file, before which all that waits has run.
    """

    path: Path
    line: int
    later: tuple[Span, ...]
    kept: tuple[Span, ...] | None = None
    drained: tuple[tuple[Path, Span], ...] = ()
    column: int | None = None


@dataclass(frozen=True)
class Answer:
    """`safe`: proved; `checked`: not proved, but no obstacle is known; `refused`: there is one.

    `seen_after_exceptions`: what of the statements somebody may look at when an exception ended the loop.
    """

    tier: Tier
    reasons: tuple[Reason, ...]
    seen_after_exceptions: Seen | None = None
