"""What the engine declines for an obstacle, it declines where it gives the project up: none of it becomes `checked`.

The same small projects are asked about twice: as they are, and with limits that make both analyses give up.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.hostile_moves import HOSTILE
from tests.support.implicit_reads import STATE, ways
from tests.support.known_mistakes import KNOWN_MISTAKES
from tests.support.moves import SURROUNDINGS, Case, asked, asked_once, one_file, two_files
from tracelens.patch.effects import memory

pytestmark = pytest.mark.slow
TOLD_BY_THE_PLAN = {"pre-training that skips by the last loss", "gradient accumulation that resets the sum"}
"""A name that the loop binds anew: no plan asks about such a statement, as it looks at the names itself."""
NOT_SEEN = {"a bar of a subclass", "a print that was replaced"}
"""What a library calls without a syntax that says so, and a replacement in another file. Whoever makes one of them seen
takes it out here."""
LOOKING = "STEP\nstate.total += loss.item()  # later\nrows.append({} or seen[-1])"
SEEN = {
    name: Case(LOOKING.format(reader), f"{STATE}\n{code}", "rows = []", after="print(rows)")
    for name, code, reader in ways()
}
TABLE: Mapping[str, Case] = {**SEEN, **KNOWN_MISTAKES, **HOSTILE}
FILES = {"one file": one_file, "two files": two_files}


def given_up(files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as lowered:
        lowered.setattr(memory, "MAX_EFFECTS", 1)
        return asked(files).tier


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("name", [one for one in TABLE if one not in TOLD_BY_THE_PLAN | NOT_SEEN])
def test_an_obstacle_stays_one(name: str, files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = FILES[files](TABLE[name], SURROUNDINGS["function"])
    if asked_once(shown).tier == "refused":
        assert given_up(shown, monkeypatch) == "refused"


@pytest.mark.parametrize("name", sorted(NOT_SEEN))
def test_what_is_not_seen_is_not_more_than_that(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_up(two_files(TABLE[name], SURROUNDINGS["function"]), monkeypatch) == "checked"
