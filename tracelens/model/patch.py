"""A patch: files before and after, its hunks, and the places that were declined."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tracelens.edit_kinds import UNSAFE_EDITS, EditKind, Tier
from tracelens.messages import joined, say
from tracelens.model.source import Location


@dataclass(frozen=True, slots=True)
class Hunk:
    """One reviewable piece of a Patch, tied to the Edit that made it."""

    id: str
    edit: EditKind
    tier: Tier
    location: Location
    reason: str
    evidence: str
    covers: tuple[Location, ...] = ()
    """Places that it changes although Edits of other kinds declined them."""
    unproved: str = ""
    """Of tier `checked`: the sentence that says what is not known. Empty for every other tier."""
    checked: str = ""
    """Of tier `checked`: which `verify` found it equal; empty as long as none has."""

    def __post_init__(self) -> None:
        if (self.tier == "checked") != bool(self.unproved):
            raise ValueError(f"{self.id}: a hunk of tier `checked`, and no other, says what is not known")

    @property
    def explanation(self) -> str:
        """What it does, and for a hunk that is not proved what is not known and what has checked it."""
        parts = [self.reason]
        if self.unproved:
            parts.append(say("not proved: {unproved}", unproved=self.unproved))
        if self.checked:
            parts.append(say("checked: {checked}", checked=self.checked))
        return joined("; ", parts)


@dataclass(frozen=True, slots=True)
class Declined:
    """A place that was not patched: what stands in the way, and what to do by hand."""

    edit: EditKind
    location: Location
    obstacle: str
    by_hand: str

    @property
    def offered(self) -> bool:
        """Nothing is wrong with the place: it only needs --unsafe, or buys nothing here."""
        return self.edit in UNSAFE_EDITS


@dataclass(frozen=True, slots=True)
class FilePatch:
    """One file before and after, as bytes; `before` None means that the patch creates the file."""

    path: Path
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class UnsafeOffer:
    """What --unsafe would add, and the lever that it is a part of: by another name it may not be made."""

    lever: str
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """Files before and after, the diff, its hunks, and what was declined."""

    root: Path
    """Paths in `diff` are relative to this folder."""
    files: tuple[FilePatch, ...]
    hunks: tuple[Hunk, ...]
    declined: tuple[Declined, ...]
    diff: str
    left_out: tuple[Hunk, ...] = ()
    """Hunks of tier `checked` that are not in `files`, because nothing has checked them."""
    unchecked_because: str = ""
    """Why no trial counts for the hunks that are not proved; empty where there are none, or where one does."""

    @property
    def empty(self) -> bool:
        return not self.files

    @property
    def unsafe(self) -> bool:
        """Whether some of it changes what the script prints or computes: it is made only where it was asked for."""
        return any(hunk.tier == "unsafe" for hunk in self.hunks)

    @property
    def unchecked(self) -> tuple[Hunk, ...]:
        """Hunks that are not proved, and that no trial has found equal: `apply` leaves them out."""
        return tuple(hunk for hunk in self.hunks if hunk.unproved and not hunk.checked)

    @property
    def left_alone(self) -> tuple[Declined, ...]:
        """The declined places that no hunk of another kind changes after all."""
        changed = {(place.path, place.line) for hunk in self.hunks for place in hunk.covers}
        kept = (item for item in self.declined if (item.location.path, item.location.line) not in changed)
        return tuple(kept) if changed else self.declined

    @property
    def by_hand(self) -> tuple[Declined, ...]:
        """The places that are left to a person: without those that only need --unsafe."""
        return tuple(item for item in self.left_alone if not item.offered)
