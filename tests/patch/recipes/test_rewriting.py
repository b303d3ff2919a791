"""One file with its proposals: new bytes and where lines went, or a sentence."""

from __future__ import annotations

from pathlib import Path

from tracelens.model import Location
from tracelens.patch.code.source import Splice, parse
from tracelens.patch.proposal import Proposal
from tracelens.patch.recipes import PatchOptions
from tracelens.patch.recipes.rewriting import Rewritten, rewritten

TEXT = "first = 1\nsecond = 2  # keep me\nthird = 3\n"
SCRIPT = Path("/project/train.py")
SOURCE = parse(SCRIPT, "train.py", TEXT.encode(), SCRIPT)


def proposal(*splices: Splice) -> Proposal:
    return Proposal("async-copy", "safe", Location("train.py", 1), "", "", splices)


def written(*proposals: Proposal) -> Rewritten | str:
    return rewritten(SOURCE, proposals, (("async-copy", 1),), SCRIPT, PatchOptions())


def test_a_line_more_moves_those_below_it() -> None:
    assert written(proposal(Splice(10, 10, "between = 0\n"))) == Rewritten(
        b"first = 1\nbetween = 0\nsecond = 2  # keep me\nthird = 3\n",
        (1, 3, 4, 5),  # the last is the end of the text
        False,
    )


def test_overlapping_changes_are_told() -> None:
    assert written(proposal(Splice(0, 5, "a")), proposal(Splice(3, 6, "b"))) == "two changes overlap at character 3"


def test_a_lost_comment_is_told() -> None:
    assert written(proposal(Splice(20, 31, ""))) == "a comment would be lost: # keep me"


def test_what_does_not_parse_is_told() -> None:
    assert written(proposal(Splice(0, 5, "1 = "))) == "the patched file does not parse as Python 3, line 1"


def test_the_same_choice_is_written_once() -> None:
    chosen = proposal(Splice(0, 5, "one"))
    assert written(chosen) is written(chosen)
