"""Who holds whom where an analysis hardly tells objects apart: only what the text of the files shows as well.

In: the names of one function, asked of both. Out: the names on which they agree. Each of the two finds more than there
is, the analysis since one thing stands for many, the text since it follows names; what both find is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracelens.patch.effects.file_holders import NamedHolders
from tracelens.patch.effects.reached import Reached


@dataclass(frozen=True)
class BothHolders:
    """The names of a function, and of all that their objects may be or hold."""

    reached: Reached
    named: NamedHolders

    def holding(self, keys: Iterable[str]) -> frozenset[str]:
        """The names, and those of all that their objects hold."""
        asked = frozenset(keys)
        return self.reached.holding(asked) & self.named.holding(asked)

    def aliases(self, keys: Iterable[str], certain: bool = False) -> frozenset[str]:
        """The names, and those of all that is, or holds, one of their objects."""
        asked = frozenset(keys)
        return self.reached.aliases(asked, certain) & self.named.aliases(asked, certain)

    def other_names(self, keys: Iterable[str]) -> frozenset[str]:
        """The names, and those that may stand for the same object."""
        asked = frozenset(keys)
        return self.reached.other_names(asked) & self.named.other_names(asked)
