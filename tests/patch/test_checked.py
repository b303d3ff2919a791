"""Hunks that are not proved: what they say, and a patch with them and without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checked_hunks import UNKNOWN, prove_nothing
from tests.support.patching import defer, fired, patch_of, patched_text, script
from tracelens.model import Edit, Hunk, Location
from tracelens.patch.proposal import Proposal

TWO_LOOPS = script("""
total = 0.0
for x, y in loader:
    STEP
    total += loss.item()  # fires
for x, y in loader:
    STEP
    torch.cuda.synchronize()  # waits
""")
EDITS = (*defer(TWO_LOOPS), Edit("interval-sync", locations=fired(TWO_LOOPS, "# waits"), interval=10))


def _proposal(**given: object) -> Proposal:
    usual = {"edit": "defer-read", "tier": "safe", "location": Location("a.py", 1), "reason": "later", "evidence": ""}
    return Proposal(**usual | given)  # type: ignore[arg-type]


def test_a_patch_holds_what_is_not_proved_unless_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove_nothing(monkeypatch, "defer-read")
    whole, proved = (patch_of(tmp_path, TWO_LOOPS, EDITS, checked=checked) for checked in (True, False))
    assert [(hunk.id, hunk.tier) for hunk in whole.hunks] == [("TL101", "checked"), ("TL201", "safe")]
    assert whole.hunks[0].explanation.endswith(f"; not proved: {UNKNOWN}") and whole.left_out == ()
    assert [hunk.id for hunk in proved.hunks] == ["TL201"]
    assert proved.left_out == (whole.hunks[0],)
    assert "    total += loss.item()  # fires" in patched_text(proved)
    assert "    torch.cuda.synchronize()  # waits\n" in patched_text(proved) != TWO_LOOPS


def test_a_patch_without_a_proof_of_anything_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_nothing(monkeypatch, "defer-read", "interval-sync")
    patch = patch_of(tmp_path, TWO_LOOPS, EDITS, checked=False)
    assert patch.empty and patch.diff == "" and [hunk.id for hunk in patch.left_out] == ["TL101", "TL201"]


def test_what_was_not_asked_for_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_nothing(monkeypatch, "defer-read")
    assert patch_of(tmp_path, TWO_LOOPS, EDITS, checked=False, skip=("TL101",)).left_out == ()


def test_an_event_and_a_wait_that_are_one_hunk_are_as_sure_as_the_less_sure_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = fired(TWO_LOOPS, "# waits")
    edits = tuple(Edit(kind, locations=places, interval=10) for kind in ("event-sync", "interval-sync"))
    prove_nothing(monkeypatch, "interval-sync")
    assert [(hunk.edit, hunk.tier) for hunk in patch_of(tmp_path, TWO_LOOPS, edits).hunks] == [
        ("event-sync", "checked")
    ]


def test_each_sentence_is_kept_once() -> None:
    once = _proposal().as_checked("a is not known").as_checked("b is not known").as_checked("a is not known")
    assert (once.tier, once.unproved) == ("checked", "a is not known; b is not known")


def test_an_unsafe_change_stays_unsafe_and_says_what_is_not_proved() -> None:
    unsafe = _proposal(tier="unsafe").as_checked("a is not known")
    assert (unsafe.tier, unsafe.reason, unsafe.unproved) == ("unsafe", "later; not proved: a is not known", "")


@pytest.mark.parametrize(("tier", "unproved"), [("checked", ""), ("safe", "a is not known")])
def test_only_a_hunk_that_is_not_proved_says_why(tier: str, unproved: str) -> None:
    with pytest.raises(ValueError, match="not known"):
        _proposal(tier=tier, unproved=unproved)
    with pytest.raises(ValueError, match="not known"):
        Hunk("TL101", "defer-read", tier, Location("a.py", 1), "later", "", (), unproved)  # type: ignore[arg-type]
