"""`make`: asks the recipes, chooses hunks, has the new bytes written in memory and checks them.

In: Edits, Stalls and the project's files. Out: a `Patch`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tracelens.edit_kinds import EditKind, definition, hunk_id, one_change
from tracelens.errors import InputError, UsageError
from tracelens.messages import joined, say, with_value
from tracelens.model import Declined, Edit, FilePatch, Hunk, Location, Patch, Stall
from tracelens.patch.code.names import FileNames
from tracelens.patch.code.source import SourceFile, Unreadable, parse
from tracelens.patch.effects.project import Project
from tracelens.patch.files import diff, vendored
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.sites import find
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, Target
from tracelens.patch.recipes import defer_read, rewriting, synchronize
from tracelens.patch.recipes.kept_results import answered
from tracelens.patch.recipes.rewriting import Lines, PatchOptions, Rewritten

Propose = Callable[[RecipeRequest], RecipeAnswer]


def make(
    source_root: Path, script: Path, edits: Sequence[Edit], stalls: Sequence[Stall], options: PatchOptions
) -> Patch:
    """The Patch that makes `edits` in the files under `source_root`; nothing is written.

    A place that the recording does not name stays as it is. Raises `UsageError` for the id of a hunk that does not
    exist and `InputError` if the script cannot be read.
    """
    recorded = {stall.id: stall for stall in stalls}
    project = _Project(source_root.resolve(), script.resolve(), recorded, options)
    files, declined = project.read(edits)
    drafts = [project.draft(source, targets) for source, targets in files]
    declined += [one for draft in drafts for one in draft.declined]
    chosen, hunks, left_out = _choose(drafts, options)
    written, kept, given_up = project.write(chosen, hunks)
    ordered = sorted({(str(d.location), d.edit, d.obstacle): d for d in (*declined, *given_up)}.items())
    return Patch(
        root=project.root,
        files=tuple(written),
        hunks=tuple(kept),
        declined=tuple(one for _, one in ordered),
        diff=diff.unified(written, project.root),
        left_out=left_out,
    )


def recipe(kind: EditKind) -> Propose:
    """What proposes Edits of this kind: `propose` of the module that its definition names."""
    propose: Propose = import_module(f"tracelens.patch.recipes.{definition(kind).recipe}").propose
    return propose


Targets = dict[Edit, list[Target]]


@dataclass(frozen=True)
class _Draft:
    """One file and what could be done to it."""

    source: SourceFile
    names: FileNames
    targets: Targets
    proposals: tuple[Proposal, ...]
    declined: tuple[Declined, ...]


Row = tuple[_Draft, Proposal, Hunk]
_Choice = tuple[_Draft, tuple[Proposal, ...]]
"""A file with the proposals that are made in it."""


class _Chosen(NamedTuple):
    """The proposals of each file that are made, their hunks, and the hunks that are left out as not proved."""

    proposals: tuple[tuple[_Draft, tuple[Proposal, ...]], ...]
    hunks: tuple[tuple[Proposal, Hunk], ...]
    left_out: tuple[Hunk, ...]


@dataclass(frozen=True)
class _Project:
    root: Path
    script: Path
    stalls: Mapping[str, Stall]
    options: PatchOptions

    def read(self, edits: Sequence[Edit]) -> tuple[list[tuple[SourceFile, Targets]], list[Declined]]:
        """The files that the Edits name, with the places in each; and what cannot be read."""
        wanted: dict[Path, Targets] = {}
        declined: list[Declined] = []
        for edit in edits:
            for location, found in self._places(edit):
                path = self._resolve(location)
                if path is None:
                    declined.append(_outside(edit, location))
                elif path.name != f"{vendored.MODULE}.py":
                    target = Target(None if location is None else location.line, found)
                    wanted.setdefault(path, {}).setdefault(edit, []).append(target)
        files = []
        for path, targets in sorted(wanted.items()):
            shown = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.name
            try:
                files.append((parse(path, shown, path.read_bytes(), self.script), targets))
            except Unreadable as error:
                declined += [_unreadable(edit, shown, error.reason) for edit in targets]
            except OSError as error:
                raise InputError(
                    say("{path} cannot be read: {error}", path=path, error=error),
                    hint=say("give the script with --script"),
                ) from error
        return files, declined

    def draft(self, source: SourceFile, targets: Targets, *, rewritten: bool = False) -> _Draft:
        """What the recipes propose. `rewritten`: the file is our own result. Nothing in it replaces a function of
        torch, or it would not have been made; to ask again would follow the whole project once more."""
        names = source.names
        proposals: list[Proposal] = []
        declined: list[Declined] = []
        workers = max((edit.workers for edit in targets), default=0)
        for edit, places in sorted(targets.items(), key=lambda item: item[0].kind == "defer-read"):
            options = self.options
            request = RecipeRequest(
                source,
                names,
                edit,
                tuple(places),
                options.unsafe,
                workers,
                self.root,
                checked=options.checked,
                lossy=options.lossy,
                changing=frozenset(p.loop_line for p in proposals if p.replaced_by is not None or p.guards),
                helped=frozenset(p.loop_line for p in proposals if p.guards or not (p.replaced_by is None or p.plain)),
                start_method=multiprocessing.get_all_start_methods()[0],
            )
            if not rewritten and definition(edit.kind).follows_project and source.effects.replaced:
                declined += [_replaced(request, place) for place in places]
                continue
            answer = answered(recipe(edit.kind), request)
            proposals += answer.proposals
            declined += answer.declined
        return _Draft(source, names, targets, synchronize.merged(proposals), tuple(declined))

    def write(
        self, chosen: Sequence[_Choice], hunks: Sequence[tuple[Proposal, Hunk]]
    ) -> tuple[list[FilePatch], list[Hunk], list[Declined]]:
        """The files' new bytes, as far as they pass every check: where moved lines do not, with the other changes."""
        written: list[FilePatch] = []
        declined: list[Declined] = []
        kept: set[int] = set()
        places: set[Path | None] = set()
        waiting = self._with_elsewhere(chosen)
        while waiting:
            draft, proposals = waiting.pop(0)
            new = self._checked(draft, proposals)
            if isinstance(new, str):
                if any(_touches(one, home, draft) for home, several in chosen for one in several):
                    return self._write_without(draft, new, chosen, hunks)
                moving = [one for one in proposals if one.sites or one.guards]
                staying = tuple(one for one in proposals if one not in moving) if moving else ()
                declined += [_given_up(one, new) for one in proposals if one not in staying]
                waiting = [(draft, staying), *waiting] if staying else waiting
                continue
            kept |= {id(proposal) for proposal in proposals}
            written.append(FilePatch(draft.source.path, draft.source.data, new.data))
            places |= {new.package} if new.vendors else set()
        if len(places) > 1:
            return replace(self, options=replace(self.options, one_helper_file=True)).write(chosen, hunks)
        if places:
            called = frozenset(name for file in written for name in vendored.calls(file.after))
            written += self._runtime(called, places.pop())
        return written, [hunk for proposal, hunk in hunks if id(proposal) in kept], declined

    def _with_elsewhere(self, chosen: Sequence[_Choice]) -> list[_Choice]:
        """What is chosen by file, with what it changes in other files."""
        out = {draft.source.path: (draft, proposals) for draft, proposals in chosen}
        for draft, proposals in chosen:
            for path, nested in (change for one in proposals for change in one.elsewhere):
                if path not in out:
                    shown = path.relative_to(self.root).as_posix()
                    source = parse(path, shown, path.read_bytes(), self.script)
                    out[path] = _Draft(source, source.names, {edit: [] for edit in draft.targets}, (), ()), ()
                other, known = out[path]
                out[path] = other, (*known, nested)
        return list(out.values())

    def _write_without(
        self, draft: _Draft, wrong: str, chosen: Sequence[_Choice], hunks: Sequence[tuple[Proposal, Hunk]]
    ) -> tuple[list[FilePatch], list[Hunk], list[Declined]]:
        """The files without what would change this one together with others: it is made in all of them, or in none."""
        declined: list[Declined] = []
        left: list[_Choice] = []
        for other, proposals in chosen:
            gone = [one for one in proposals if _touches(one, other, draft)]
            declined += [_given_up(one, wrong) for one in gone]
            staying = tuple(one for one in proposals if one not in gone)
            left += [(other, staying)] if staying else []
        written, kept, given_up = self.write(left, hunks)
        return written, kept, [*declined, *given_up]

    def _checked(self, draft: _Draft, proposals: Sequence[Proposal]) -> Rewritten | str:
        """The file with these proposals, or what is wrong with it."""
        kinds = tuple((edit.kind, edit.interval) for edit in draft.targets)
        new = rewriting.rewritten(draft.source, tuple(proposals), kinds, self.script, self.options)
        wrong = None if isinstance(new, str) else self._unstable(draft, new, proposals)
        return new if wrong is None else wrong

    def _runtime(self, called: frozenset[str], folder: Path | None) -> list[FilePatch]:
        """The helper file with what the patched files call, and what it has already for other scripts."""
        path = vendored.place(folder or self.script.parent)
        before = path.read_bytes() if path.is_file() else None
        package = path.with_suffix("") / "__init__.py"  # Python would find that one
        for taken in (path, package):
            if taken.is_file() and not vendored.is_ours(taken.read_bytes()):
                raise UsageError(
                    say("{path} exists and is not a file of TraceLens", path=taken),
                    hint=say("rename it, then apply again"),
                )
        if before is not None and (vendored.version(before) or 0) < vendored.FIRST_WITH_THESE_NAMES:
            hint = say("take that patch back (`tracelens revert`, or git), or remove the file if no script uses it")
            raise UsageError(
                say("{path} belongs to a patch of an earlier TraceLens, which a newer one would break", path=path),
                hint=hint,
            )
        after = vendored.content(called | (vendored.offers(before) if before is not None else frozenset()))
        return [] if before == after else [FilePatch(path, before, after)]

    def _unstable(self, draft: _Draft, new: Rewritten, proposals: Sequence[Proposal]) -> str | None:
        """A second run over the patched file must find nothing left to do at the places of the hunks."""
        if _covering(proposals, draft.proposals) < len(draft.proposals):
            return None  # hunks that were left out would be found again, rightly
        moved: Targets = {}
        for edit, places in draft.targets.items():
            now = [(p, _moved(new.lines, p.line)) for p in places]
            moved[edit] = [replace(p, line=line) for p, line in now if line is not None or p.line is None]
        after = parse(draft.source.path, draft.source.shown, new.data, self.script)
        left = {(one.edit, _moved(new.lines, one.location.line)) for one in draft.declined}
        again = [one for one in self.draft(after, moved, rewritten=True).proposals if not _is_left(after, one, left)]
        return say("a second run would change {location} again", location=again[0].location) if again else None

    def _places(self, edit: Edit) -> list[tuple[Location | None, tuple[Stall, ...]]]:
        """The places of an Edit, each with its recorded waits; one unknown place if it names none."""
        places: dict[tuple[str, int | None] | None, tuple[Location | None, tuple[Stall, ...]]] = {}
        named: list[tuple[Location | None, tuple[Stall, ...]]] = [
            (self.stalls[name].location, (self.stalls[name],)) for name in edit.stalls if name in self.stalls
        ]
        named += [(location, ()) for location in edit.locations]
        words = definition(edit.kind).looks_for
        for location, found in named or (self._files_with(words) if words else [(None, ())]):
            unknown = location is None or (location.line is None and not words)
            key = None if unknown or location is None else (location.path, location.line)
            before = places.get(key, (location, ()))
            places[key] = (before[0], (*before[1], *found))
        return list(places.values())

    def _files_with(self, words: Sequence[str]) -> list[tuple[Location | None, tuple[Stall, ...]]]:
        """The script, and the files that it imports with one of these words, each as a place without a line."""
        imported = Project(self.root).imported(self.script)
        texts = {path: path.read_text("utf-8", "replace") for path in imported}
        found = [path for path, text in texts.items() if any(word in text for word in words)]
        shown = [path.relative_to(self.root).as_posix() for path in found if path.is_relative_to(self.root)]
        return [(None, ()), *((Location(name, None), ()) for name in shown)]

    def _resolve(self, location: Location | None) -> Path | None:
        """The project's file that a location means; the script where the location is unknown."""
        if location is None:
            return self.script
        given = Path(location.path)
        candidates = [given] if given.is_absolute() else [self.root / given, self.script.parent / given]
        if self.script.as_posix().endswith(f"/{given.as_posix().lstrip('./')}"):
            candidates.insert(0, self.script)
        for path in candidates:
            try:
                resolved = path.resolve()
                found = resolved.is_file()
            except (OSError, ValueError):  # a name that no file can have: too long, or with a null character
                continue
            if found and resolved.is_relative_to(self.root) and "site-packages" not in resolved.parts:
                return resolved
        return None


def _is_left(source: SourceFile, proposal: Proposal, left: Collection[tuple[EditKind, int | None]]) -> bool:
    """Whether a proposal is about places alone that were declined beside the hunks: without what these took away it
    would be made by itself, which is no second change of theirs."""
    sites = find(source)
    lines: set[int | None] = {sites[number].line for number in proposal.sites} or {proposal.location.line}
    return None not in lines and all(any((kind, line) in left for kind in one_change(proposal.edit)) for line in lines)


def _touches(proposal: Proposal, home: _Draft, draft: _Draft) -> bool:
    """Whether a proposal changes several files, of which one is this."""
    paths = {home.source.path, *(path for path, _ in proposal.elsewhere)}
    return bool(proposal.elsewhere) and draft.source.path in paths


def _moved(lines: Lines, line: int | None) -> int | None:
    return lines[line - 1] if line is not None and line <= len(lines) else None


def _choose(drafts: Sequence[_Draft], options: PatchOptions) -> _Chosen:
    """Number all hunks, then keep those that were asked for: an id means the same with and without --only."""
    numbered = _numbered(drafts)
    names = {hunk.id for _, _, hunk in numbered}
    unknown = sorted({*options.only, *options.skip} - names)
    if unknown:
        known = ", ".join(sorted(names)) or "none"
        raise UsageError(
            say("no hunk is called {unknown}", unknown=joined(", ", unknown)),
            hint=say("the hunks of this patch: {known}", known=known),
        )
    asked = [
        row for row in numbered if (not options.only or row[2].id in options.only) and row[2].id not in options.skip
    ]
    kept = _once([row for row in asked if options.checked or row[2].tier != "checked"])
    chosen = [(draft, tuple(p for d, p, _ in kept if d is draft)) for draft in drafts]
    return _Chosen(
        tuple((draft, proposals) for draft, proposals in chosen if proposals),
        tuple((p, hunk) for _, p, hunk in kept),
        tuple(hunk for _, _, hunk in asked if not options.checked and hunk.tier == "checked"),
    )


def _numbered(drafts: Sequence[_Draft]) -> list[Row]:
    rows: list[Row] = []
    counts: dict[int, int] = {}
    for draft in drafts:
        for proposal in sorted(draft.proposals, key=lambda p: (p.location.line or 0, definition(p.edit).hunk)):
            number = definition(proposal.edit).hunk
            counts[number] = counts.get(number, 0) + 1
            name = hunk_id(proposal.edit, counts[number])
            parts = (proposal.edit, proposal.tier, proposal.location, proposal.reason, proposal.evidence)
            rows.append((draft, proposal, Hunk(name, *parts, proposal.covers, proposal.unproved)))
    return rows


def _once(rows: Sequence[Row]) -> list[Row]:
    """Without the reads that a chosen hunk makes rare already; a hunk of which nothing is left is none."""
    out: list[Row] = []
    for draft, proposal, hunk in rows:
        rare = {n for d, other, _ in rows if d is draft for n in other.rare}
        left = tuple(n for n in proposal.sites if n not in rare)
        if left == proposal.sites:
            out.append((draft, proposal, hunk))
        elif left or proposal.guards:
            before, now = (defer_read.counted(len(sites)) for sites in (proposal.sites, left))
            told = replace(hunk, reason=with_value(hunk.reason, before, now))
            out.append((draft, replace(proposal, sites=left), told))
    return out


def _covering(chosen: Sequence[Proposal], drafted: Sequence[Proposal]) -> int:
    """How many of the drafted hunks are made, or are not needed beside one that is."""
    rare = {number for proposal in chosen for number in proposal.rare}
    return len(chosen) + sum(bool(one.sites) and not one.guards and rare.issuperset(one.sites) for one in drafted)


def _outside(edit: Edit, location: Location | None) -> Declined:
    place = location or Location("?", None)
    return Declined(edit.kind, place, say("it is not a file of this project"), say("change the call that leads there"))


def _replaced(request: RecipeRequest, target: Target) -> Declined:
    obstacle = say("{replaced}, and nobody knows what it does then", replaced=request.source.effects.replaced)
    return request.decline_target(target, Blocked(None, obstacle, say("take the replacement out, then apply again")))


def _unreadable(edit: Edit, shown: str, why: str) -> Declined:
    return Declined(edit.kind, Location(shown, None), say("the file {why}", why=why), say("change it by hand"))


def _given_up(proposal: Proposal, why: str) -> Declined:
    by_hand = say("change it by hand; if the sentence says something about the patched file, please report it as a bug")
    obstacle = say("the file is left as it is: {why}", why=why)
    return Declined(proposal.edit, proposal.location, obstacle, by_hand)
