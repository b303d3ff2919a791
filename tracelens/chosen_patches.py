"""The patch of what was chosen on a Run: some hunks of one scheme or lever, or several of them together.

In: a PlannedDiagnosis and names. Out: a Patch, made anew from the Edits. Apart from the pipeline, which makes one patch
per scheme and lever: two patches of one file cannot be put on top of each other, their Edits can be made at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tracelens import remedies
from tracelens.messages import say
from tracelens.model import Abstention, Edit, Hunk, Location, Patch, PlannedDiagnosis
from tracelens.pipeline import Options, applied_to, before_patch, patch_of
from tracelens.remedies import HunkChoice, PatchContext
from tracelens.run import sources
from tracelens.run.sources import TrainingScript

_NOT_REPLAYED = Abstention("replay", say("it was not asked for"), say("run tracelens recommend"))


def patch_to_write(diagnosis: PlannedDiagnosis, name: str, hunks: HunkChoice, options: Options) -> Patch:
    """The patch of one scheme, or those of its hunks that were chosen, as far as it is proved or checked."""
    if hunks == HunkChoice():
        return diagnosis.written.get(name) or patch_of(diagnosis, name)
    making = _making(diagnosis, (name,), options)
    if making is None:
        return patch_of(diagnosis, name)
    edits = making.edits
    if hunks.only:  # a hunk that was left out because it buys nothing can be asked for by its id
        edits += tuple(offer for offer in diagnosis.offers.get(name, ()) if offer.kind not in {e.kind for e in edits})
    chosen = remedies.change(making.context, making.code, edits, hunks)
    marked = remedies.checked(chosen, diagnosis, diagnosis.verifications)
    if not marked.unchecked:
        return marked
    return remedies.without_unchecked(making.context, making.code, edits, (marked, hunks))


def patch_together(diagnosis: PlannedDiagnosis, names: Sequence[str], options: Options) -> Patch | None:
    """One patch that makes everything that the patches of these levers make; None where there is none.

    Two schemes act on the same waits, so they are never made together.
    """
    if len(names) == 1:
        return patch_of(diagnosis, names[0])
    if any(name not in diagnosis.patches for name in names) or len(_schemes(diagnosis, names)) > 1:
        return None
    making = _making(diagnosis, names, options)
    if making is None:
        return None
    joined = remedies.change(making.context, making.code, making.edits, HunkChoice())
    own = {_place(hunk, hunk.location) for name in names for hunk in diagnosis.patches[name].hunks}
    if not own <= {_place(hunk, place) for hunk in joined.hunks for place in (hunk.location, *hunk.covers)}:
        return None
    return remedies.checked(joined, diagnosis, diagnosis.verifications)


def proved_part(diagnosis: PlannedDiagnosis, names: Sequence[str], whole: Patch, options: Options) -> Patch | None:
    """What is proved of the patch of these levers; None where that is nothing, or all of it."""
    making = _making(diagnosis, names, options)
    if making is None or not any(hunk.unproved for hunk in whole.hunks):
        return None
    proved = remedies.without_unchecked(making.context, making.code, making.edits, (whole, HunkChoice()))
    return None if proved.empty else proved


@dataclass(frozen=True, slots=True)
class _Making:
    """What it takes to make a patch: the source as it was recorded, and the Edits of the levers."""

    context: PatchContext
    code: TrainingScript
    edits: tuple[Edit, ...]


def _making(diagnosis: PlannedDiagnosis, names: Sequence[str], options: Options) -> _Making | None:
    """None where the source is not at hand."""
    applied = applied_to(diagnosis.run)
    code = sources.training_script(diagnosis.run, options.script, before_patch(applied))
    if isinstance(code, Abstention):
        return None
    context = PatchContext(_NOT_REPLAYED, code, applied, diagnosis.stalls, options.unsafe, options.import_runtime)
    return _Making(context, code, _counted_once(edit for name in names for edit in _edits(diagnosis, name)))


def _counted_once(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Calls that several levers make rarer are one Edit: each alone would make the loop count its batches anew."""
    out: list[Edit] = []
    for edit in dict.fromkeys(edits):
        alike = (one for one in out if replace(one, locations=()) == replace(edit, locations=()))
        twin = next(alike, None) if edit.kind == "rare-call" else None
        if twin is None:
            out.append(edit)
        else:
            lines = dict.fromkeys((*twin.locations, *edit.locations))
            out[out.index(twin)] = replace(twin, locations=tuple(lines))
    return tuple(out)


def _edits(diagnosis: PlannedDiagnosis, name: str) -> tuple[Edit, ...]:
    of_scheme = next((scheme.edits for scheme in diagnosis.schemes if scheme.id == name), ())
    return diagnosis.edits_of_levers.get(name, of_scheme)


def _schemes(diagnosis: PlannedDiagnosis, names: Sequence[str]) -> list[str]:
    return [scheme.id for scheme in diagnosis.schemes if scheme.id in names]


def _place(hunk: Hunk, location: Location) -> tuple[str, str, int | None]:
    return hunk.edit, location.path, location.line
