"""What each scheme would do to this run: its Edits, the patch that makes them, and what that buys.

In: the Edits that fit a loop, and a `PatchContext`: the recording to replay, and the source as it was recorded. Out:
one `Remedy` per scheme. The patch comes first, because only what a patch can make is worth an estimate. Then what does
not pay is dropped, and the rest is patched again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from tracelens import run as runs
from tracelens import units
from tracelens.edit_kinds import definition, one_change
from tracelens.helper_process import AwaitedAnswer, HelperProcess, NoAnswerError
from tracelens.messages import say
from tracelens.model import (
    UNSAFE_EDITS,
    Abstention,
    Declined,
    Diagnosis,
    Edit,
    EditKind,
    Estimate,
    Location,
    Patch,
    Run,
    Stall,
    UnsafeOffer,
    Verification,
)
from tracelens.patch import recorded
from tracelens.patch.recorded import RecordedProject, WantedHunks
from tracelens.replay import estimate
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.run.sources import TrainingScript
from tracelens.schemes import plan as planning
from tracelens.schemes.wording import gain_percent
from tracelens.verify import equality

TRIED = 2
"""Schemes that are patched and replayed once more to find what --unsafe would add: each takes a second or two."""


_Asked = tuple[tuple[Edit, ...], bool]


@dataclass(frozen=True, slots=True)
class PatchContext:
    """What the remedies of one run share, and how patches are to be made."""

    replay_trace: ReplayTrace | Abstention
    code: TrainingScript | Abstention
    applied: runs.AppliedPatch | None
    stalls: tuple[Stall, ...]
    unsafe: bool = False
    import_runtime: bool = False
    checked: bool = True
    """With the hunks that are not proved, which plans count and trials run."""
    made: dict[_Asked, Patch] = field(default_factory=dict, compare=False, repr=False)
    """Patches by their Edits and whether they may be unsafe: several schemes come down to the same Edits."""
    patcher: HelperProcess | None = field(default=None, compare=False, repr=False)
    """Makes the patches while this process replays."""
    awaited: dict[_Asked, AwaitedAnswer[Patch]] = field(default_factory=dict, compare=False, repr=False)
    """What the patcher was asked for ahead of time."""


@dataclass(frozen=True, slots=True)
class HunkChoice:
    """Which hunks of a patch to keep: only these, or all but those."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """One scheme on this run: its Edits or why not, what they buy, and the patch that makes them."""

    edits: tuple[Edit, ...] | str
    estimate: Estimate | Abstention | None = None
    patch: Patch | None = None


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What a scheme would do to this loop: its Edits, or why it has none, and those that only --unsafe makes."""

    name: str
    edits: tuple[Edit, ...] | str
    offers: tuple[Edit, ...]

    @property
    def all(self) -> tuple[Edit, ...]:
        return (*(() if isinstance(self.edits, str) else self.edits), *self.offers)


def remedies_for(
    context: PatchContext,
    fitted: Mapping[str, tuple[Edit, ...] | str],
    offers: Mapping[str, tuple[Edit, ...]],
    forced: str | None = None,
) -> dict[str, Remedy]:
    """The remedy of each scheme; of the `forced` one all Edits are made, also those that do not pay."""
    every = [_Fitted(name, edits, offers.get(name, ())) for name, edits in fitted.items()]
    ask_ahead(context, (one.all for one in every if context.unsafe or not isinstance(one.edits, str)))
    if context.awaited:
        _replay_meanwhile(context, every)
    out = {}
    for name, edits in fitted.items():
        offered = offers.get(name, ())
        alone = isinstance(edits, str) and not (context.unsafe and offered)
        out[name] = Remedy(edits) if alone else _remedy(_Fitted(name, edits, offered), context, name == forced)
    return out


def _replay_meanwhile(context: PatchContext, every: Iterable[_Fitted]) -> None:
    """Replay what the schemes would do if patches can make all of it, which the replay is then asked first."""
    if isinstance(context.replay_trace, Abstention):
        return
    replays = _replays(context.replay_trace)
    some = (one.edits for one in every if not isinstance(one.edits, str))
    for edits in some:
        replays.estimate(planning.keep_paying(planning.judged(edits), replays))


def _replays(trace: ReplayTrace) -> planning.Replays:
    return planning.Replays(partial(estimate.predict, trace), partial(estimate.told_apart, trace))


def ask_ahead(context: PatchContext, every: Iterable[tuple[Edit, ...]]) -> None:
    """Have the patcher make what `patch_of_edits` will be asked for, in the same order."""
    if context.patcher is None or isinstance(context.code, Abstention):
        return
    for edits in every:
        asked = (edits, context.unsafe)
        if edits and asked not in context.made and asked not in context.awaited:
            given = _given(context, context.code, HunkChoice())
            context.awaited[asked] = context.patcher.ask(recorded.make, given[0], edits, given[1])


def change(context: PatchContext, code: TrainingScript, edits: tuple[Edit, ...], hunks: HunkChoice) -> Patch:
    """The patch that makes `edits`, or those of its hunks that were asked for."""
    project, wanted = _given(context, code, hunks)
    if context.patcher is not None:
        with contextlib.suppress(NoAnswerError):
            return context.patcher.ask(recorded.make, project, edits, wanted).result()
    return recorded.make(project, edits, wanted)


def _given(context: PatchContext, code: TrainingScript, hunks: HunkChoice) -> tuple[RecordedProject, WantedHunks]:
    project = RecordedProject(code.root, code.path, context.stalls, context.applied)
    return project, WantedHunks(context.unsafe, hunks.only, hunks.skip, context.import_runtime, context.checked)


def without_unchecked(
    context: PatchContext, code: TrainingScript, edits: tuple[Edit, ...], asked: tuple[Patch, HunkChoice]
) -> Patch:
    """What is written of a patch (with the hunks chosen for it) that nothing has checked: what is proved of it."""
    whole, hunks = asked
    proved = change(replace(context, checked=False), code, edits, hunks)
    declined = tuple(dict.fromkeys((*proved.declined, *whole.declined)))
    return replace(proved, declined=declined, unchecked_because=whole.unchecked_because)


def project_of(run: Run, patch: Patch) -> Path:
    """The folder whose sources a trial runs: the one the script was started in, if it holds the patch."""
    return run.cwd if patch.root.is_relative_to(run.cwd) else patch.root


def checked(patch: Patch, diagnosis: Diagnosis, trials: Iterable[Verification]) -> Patch:
    """The patch with what the trials of its Run say of the hunks that are not proved."""
    project = project_of(diagnosis.run, patch) if diagnosis.run is not None else patch.root
    return equality.checked(patch, trials, equality.TrialSubject(project, diagnosis.timeline.trace.device))


def with_trials(
    by_scheme: Mapping[str, Remedy], diagnosis: Diagnosis, trials: tuple[Verification, ...]
) -> dict[str, Remedy]:
    """The remedies, their patches `checked`."""
    return {
        name: remedy if remedy.patch is None else replace(remedy, patch=checked(remedy.patch, diagnosis, trials))
        for name, remedy in by_scheme.items()
    }


def to_write(context: PatchContext, by_scheme: Mapping[str, Remedy], names: Collection[str | None]) -> dict[str, Patch]:
    """What `apply` writes of the schemes in `names`, where hunks are left out."""
    out = {}
    for name, remedy in by_scheme.items():
        patch, edits, code = remedy.patch, remedy.edits, context.code
        if name not in names or isinstance(edits, str) or isinstance(code, Abstention):
            continue
        if patch is not None and patch.unchecked:
            out[name] = without_unchecked(context, code, edits, (patch, HunkChoice()))
    return out


def told_apart(trace: ReplayTrace | Abstention, by_scheme: Mapping[str, Remedy]) -> dict[frozenset[str], bool]:
    """Per pair of schemes with a replay, whether the step times after them differ."""
    if isinstance(trace, Abstention):
        return {}
    replayed = [(name, remedy.edits) for name, remedy in by_scheme.items() if isinstance(remedy.estimate, Estimate)]
    pairs = {
        frozenset((name, other)): estimate.told_apart(trace, edits, theirs)
        for (name, edits), (other, theirs) in combinations(replayed, 2)
        if not isinstance(edits, str) and not isinstance(theirs, str)
    }
    return {pair: apart for pair, apart in pairs.items() if apart is not None}


def worth_asking(
    context: PatchContext,
    fitted: Mapping[str, tuple[Edit, ...] | str],
    offers: Mapping[str, tuple[Edit, ...]],
    without: Remedy | None = None,
) -> UnsafeOffer | None:
    """What --unsafe would add that pays more than the remedy `without` it, or than no change at all.

    Only the schemes that offer the most are tried: what these cannot make, the others mostly cannot either.
    """
    asking = replace(context, unsafe=True)
    best = without.estimate if without is not None and isinstance(without.estimate, Estimate) else None
    for name in sorted(fitted, key=lambda name: -len(offers.get(name, ())))[:TRIED]:
        if not offers.get(name):
            break
        remedy = _remedy(_Fitted(name, fitted[name], offers[name]), asking, forced=False)
        hunks = remedy.patch.hunks if remedy.patch is not None else ()
        found = tuple(hunk for hunk in hunks if hunk.tier == "unsafe" and hunk.edit in UNSAFE_EDITS)
        if found and _pays(remedy.estimate, best):
            return UnsafeOffer(name, found)
    return None


def _pays(after: Estimate | Abstention | None, best: Estimate | None) -> bool:
    """Whether a step is shorter than after the best safe remedy; by more than a range is wide, if there is none."""
    if not isinstance(after, Estimate):
        return False
    if best is not None:
        return after.step_ns < best.step_ns * (1 - planning.WORTH_SHARE)
    return after.base_ns - after.step_ns > after.noise_ns


def _remedy(fitted: _Fitted, context: PatchContext, forced: bool) -> Remedy:
    """Patch first, then estimate what the patch can make, then drop what does not pay and patch again.

    What only --unsafe makes is in the first patch too: without --unsafe it is declined there, with its reason.
    """
    program, edits = context.replay_trace, fitted.edits
    patch = patch_of_edits(fitted.all, context)
    own = () if isinstance(edits, str) else edits
    possible = own if patch is None else _made(fitted.all, patch, context.stalls)
    if patch is not None and context.unsafe and fitted.offers and not forced:
        possible = _safe_first(own, possible, context)
    if not possible:
        return Remedy(edits, None, None if isinstance(edits, str) else patch)
    if isinstance(program, Abstention):
        return Remedy(possible, program, patch)
    if not forced:
        paying = planning.keep_paying(planning.judged(possible), _replays(program))
        if patch is not None and paying != possible:
            offered = () if context.unsafe else fitted.offers
            patch = patch_of_edits((*paying, *offered), context)
            patch = patch and _with_left_out(patch, possible, paying, (program, fitted.name))
        possible = paying
    return Remedy(possible, estimate.predict(program, possible), patch)


def _safe_first(own: tuple[Edit, ...], possible: tuple[Edit, ...], context: PatchContext) -> tuple[Edit, ...]:
    """With what the scheme's own Edits can do without the others: a place that both can change is theirs."""
    alone = patch_of_edits(own, context) if own else None
    safe = _made(own, alone, context.stalls) if alone is not None else ()
    return (*safe, *(edit for edit in possible if edit.kind in UNSAFE_EDITS))


def patch_of_edits(edits: tuple[Edit, ...], context: PatchContext) -> Patch | None:
    """None where the source is not at hand."""
    if isinstance(context.code, Abstention):
        return None
    asked = (edits, context.unsafe)
    if asked in context.awaited:
        with contextlib.suppress(NoAnswerError):
            context.made[asked] = context.awaited.pop(asked).result()
    if asked not in context.made:
        context.made[asked] = change(context, context.code, edits, HunkChoice())
    return context.made[asked]


def _with_left_out(
    patch: Patch, possible: tuple[Edit, ...], paying: tuple[Edit, ...], asked: tuple[ReplayTrace, str]
) -> Patch:
    """The patch with a word on each Edit that was asked for with --unsafe and is not in it, with its number."""
    left = [edit for edit in possible if edit.kind in UNSAFE_EDITS and edit not in paying]
    told = [one for edit in left for one in _left_out(edit, paying, *asked)]
    return replace(patch, declined=(*patch.declined, *told))


def _left_out(edit: Edit, paying: tuple[Edit, ...], program: ReplayTrace, name: str) -> list[Declined]:
    alone, before, after = (estimate.predict(program, some) for some in ((edit,), paying, (*paying, edit)))
    if isinstance(alone, Abstention):
        why = say("left out, it has no number: {missing}", missing=alone.missing)
    elif isinstance(before, Estimate) and isinstance(after, Estimate):
        gain = gain_percent(before.step_ns, after.step_ns)
        why = say("left out, it buys nothing here: {gain} beside the rest (predicted)", gain=units.signed_percent(gain))
    else:
        why = say("left out, what it buys could not be predicted")
    by_hand = say("to have it all the same: --lever {name} --unsafe", name=name)
    return [Declined(edit.kind, place, why, by_hand) for place in edit.locations or (Location("?", None),)]


def _made(edits: tuple[Edit, ...], patch: Patch, found: tuple[Stall, ...]) -> tuple[Edit, ...]:
    """The Edits without the places that the patcher declined; an Edit that it made nowhere is gone."""
    declined = {(item.edit, item.location.path, item.location.line) for item in patch.declined}
    covered = {(hunk.edit, place.path, place.line) for hunk in patch.hunks for place in hunk.covers}
    kinds = {kind for hunk in patch.hunks for kind in one_change(hunk.edit)}
    places = {stall.id: stall.location for stall in found}

    def left(kind: EditKind, location: Location | None) -> bool:
        if definition(kind).names_its_places:
            return location is not None and (kind, location.path, location.line) in covered
        return location is None or (kind, location.path, location.line) not in declined

    kept = []
    for edit in edits:
        waits = tuple(name for name in edit.stalls if left(edit.kind, places.get(name)))
        if edit.kind in kinds and (waits or not edit.stalls):
            kept.append(replace(edit, stalls=waits, locations=tuple(p for p in edit.locations if left(edit.kind, p))))
    return tuple(kept)
