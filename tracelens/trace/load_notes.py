"""What was unusual about a file, collected while it is read.

In: remarks from every reading stage. Out: `dropped` (what was left out, with counts) and `warnings` (sentences). A
reader continues after damage, and nothing is left out silently.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tracelens.messages import joined, say


@dataclass
class LoadNotes:
    """Filled by the readers, read once by `chrome.load`."""

    dropped: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def drop(self, reason: str, count: int = 1) -> None:
        if count:
            self.dropped[reason] += count

    def warn_of_dropped(self) -> None:
        """At the end: what was left out, as a sentence."""
        if self.dropped:
            parts = (say("{count} x {reason}", count=count, reason=reason) for reason, count in self.dropped.items())
            self.warn(say("left out: {parts}", parts=joined(", ", parts)))

    def warn(self, sentence: str) -> None:
        if sentence not in self.warnings:
            self.warnings.append(sentence)
