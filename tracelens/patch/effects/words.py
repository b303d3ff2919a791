"""Sets of words, written as one would read them.

In: a text. Out: its words. A vocabulary of some dozen names is read in lines of words, not of quotes and commas.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of the text."""
    return frozenset(text.split())
