"""One file with the proposals that were chosen for it: its new bytes, checked by themselves.

In: a SourceFile and Proposals. Out: `Rewritten`, or a sentence that says why it cannot be. Two passes: first what goes
into lines (copies, loaders), then what moves lines (reads, synchronizes), planned anew on the result of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracelens.edit_kinds import EditKind, one_change
from tracelens.messages import say
from tracelens.patch.code.source import Conflict, SourceFile, Unreadable, apply_splices, moved_lines, parse
from tracelens.patch.deferral.forms import Wish, planned
from tracelens.patch.deferral.helper_place import HelperPlace, helper_place
from tracelens.patch.deferral.import_place import import_splice
from tracelens.patch.deferral.loop_rewrite import LoopChange, file_splices, needs_helper
from tracelens.patch.deferral.planning import Deferral, plan
from tracelens.patch.files import outdated_comments, rewrite_checks
from tracelens.patch.loop import guards
from tracelens.patch.loop.facts import facts_of
from tracelens.patch.loop.loops import Blocked, training_loop
from tracelens.patch.loop.sites import find
from tracelens.patch.proposal import Proposal
from tracelens.patch.recipes import async_copy, defer_read, same_program, synchronize
from tracelens.patch.recipes.kept_results import once

Lines = tuple[int | None, ...]
Kinds = tuple[tuple[EditKind, int], ...]
"""The kinds of Edit that were asked for, each with its interval in batches."""


@dataclass(frozen=True, slots=True)
class PatchOptions:
    """How a patch is to be made: which of its hunks, and where its helpers come from."""

    unsafe: bool = False
    only: Collection[str] = ()
    skip: Collection[str] = ()
    import_runtime: bool = False
    """Helpers come from the installed TraceLens, not from a file beside the script."""
    checked: bool = True
    """With the hunks that are not proved; else they are in `Patch.left_out`."""
    lossy: bool = True
    """Among these, forms that lose values where an exception or a signal ends the loop. A trial ends its loop so: it
    would find that they are lost."""
    one_helper_file: bool = False
    """Beside the script, also for the modules of packages: files of several places would have a copy each, and helpers
    of two copies do not know of each other's loops."""


@dataclass(frozen=True)
class Rewritten:
    """A file's new bytes, the new number of each of its old lines, and whether they need the vendored file."""

    data: bytes
    lines: Lines
    vendors: bool
    package: Path | None = None
    """The folder that this file goes into, where it is not the one beside the script."""


def rewritten(
    source: SourceFile, proposals: tuple[Proposal, ...], kinds: Kinds, script: Path, options: PatchOptions
) -> Rewritten | str:
    """The file with these proposals, or what is wrong with it. Schemes that choose the same share one result."""
    asked = (proposals, kinds, script, options.checked, options.lossy, options.import_runtime, options.one_helper_file)
    return once(source, asked, lambda: _checked(source, proposals, kinds, script, options))


def _checked(
    source: SourceFile, proposals: tuple[Proposal, ...], kinds: Kinds, script: Path, options: PatchOptions
) -> Rewritten | str:
    try:
        new = _rewritten(source, proposals, kinds, script, options)
    except Conflict as error:
        return error.reason
    except Blocked as error:
        return error.obstacle
    except Unreadable as error:
        return say("the patched file {reason}", reason=error.reason)
    new = replace(new, data=outdated_comments.without_outdated(source.data, new.data))
    wrong = rewrite_checks.rewrite_mistake(source, new.data)
    return new if wrong is None else wrong


def _rewritten(
    before: SourceFile, proposals: Sequence[Proposal], kinds: Kinds, script: Path, options: PatchOptions
) -> Rewritten:
    hoists = tuple(dict.fromkeys(splice for one in proposals for splice in one.hoists))
    within = [*dict.fromkeys(splice for one in proposals for splice in one.splices), *hoists]  # two may pin one loader
    source = parse(before.path, before.shown, apply_splices(before, within), script)
    if hoists:
        proposals = _renumbered(proposals, same_program.renumbered(before, source, within))
    changes = _changes(source, proposals, kinds, options)
    splices = file_splices(changes)
    place: HelperPlace | None = None
    helped = any(p.needs_runtime for p in proposals if p.splices) or any(needs_helper(c) for c in changes)
    if helped:
        uses = [source.line(change.facts.loop) for change in changes]
        uses += [p.location.line for p in proposals if p.location.line is not None]
        if not options.import_runtime and not options.one_helper_file:
            place = helper_place(source, min(uses), script)
        importing = import_splice(source, min(uses), options.import_runtime, place)
        splices += [importing] if importing is not None else []
    then = moved_lines(source, splices)
    lines = (None if line is None else then[line - 1] for line in moved_lines(before, within))
    folder = None if place is None else place.folder
    return Rewritten(apply_splices(source, splices), tuple(lines), helped and not options.import_runtime, folder)


def _renumbered(proposals: Sequence[Proposal], now: Mapping[int, int]) -> list[Proposal]:
    """The proposals with the numbers that their sites have once reads moved to calls."""
    return [p if p.hoists else replace(p, sites=tuple(now[number] for number in p.sites)) for p in proposals]


def _changes(
    source: SourceFile, proposals: Sequence[Proposal], kinds: Kinds, options: PatchOptions
) -> list[LoopChange]:
    """The proposals that move lines, joined per loop, on the file as it is after the first pass."""
    sites, known = find(source), guards.find(source)
    loops: dict[int, list[Proposal]] = {}
    for proposal in proposals:
        if proposal.sites or proposal.guards:
            anchor = sites[proposal.sites[0]].node if proposal.sites else known[proposal.guards[0]].node
            loop = training_loop(source, anchor)
            loops.setdefault(source.line(loop), []).append(proposal)
    return [_change(source, loops[line], kinds, options) for line in sorted(loops)]


def _change(source: SourceFile, proposals: Sequence[Proposal], kinds: Kinds, options: PatchOptions) -> LoopChange:
    sites = find(source)
    moved = [guards.find(source)[number].node for p in proposals for number in p.guards]
    anchors = [sites[number].node for p in proposals for number in p.sites] + moved
    facts = facts_of(source, training_loop(source, anchors[0]))
    facts = replace(facts, guards=frozenset(moved)) if moved else facts
    reads = [sites[number] for p in proposals if p.replaced_by is None for number in p.sites]
    syncs = {number: p.replaced_by for p in proposals if p.replaced_by is not None for number in p.sites}
    intervals = dict(kinds)
    used = {kind for p in proposals for kind in one_change(p.edit)}
    every = max((intervals[kind] for kind in used if kind in intervals), default=1)
    statements = [*defer_read.statements(reads), *moved]
    deferral: Deferral | None = None
    waiting = None
    measured = None
    if statements and all(p.plain for p in proposals):
        plain = every > 1 or bool(syncs)
        deferral, waiting = planned(facts, statements, Wish(plain, every > 1, options.checked, options.lossy))
    elif syncs:
        deferral, measured = synchronize.timed(facts, statements)
    else:
        deferral = plan(facts, statements) if statements else None
    return LoopChange(
        facts if deferral is None else deferral.facts,
        every if every > 1 else None,
        deferral,
        tuple((async_copy.call_of(sites[number]), method) for number, method in syncs.items()),
        measured.starts if measured is not None else (),
        waiting,
    )
