"""Whether a trial shows that a patch changes nothing: what allows a hunk of tier `checked` to be written.

In: a Patch and the `Verification`s of its Run. Out: the Patch, its unproved hunks marked with the trial that found it
equal, or the sentence that says why none counts. A trial counts for the very bytes that it ran: the same files before
and after, in a project whose other sources are as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracelens.messages import say
from tracelens.model import Patch, Verification
from tracelens.run import sha256
from tracelens.verify.policy import POLICY

NOT_VERIFIED = say("no verify of this patch is in this run")
INTERVALS = 2
"""A trial has at least this many of the patch's intervals: what waits must have been read in the middle of the loop."""


@dataclass(frozen=True, slots=True)
class TrialSubject:
    """What a trial has to be about: the folder whose sources run, and the recorded device (None: not known)."""

    project: Path
    device: str | None


def patch_document(patch: Patch) -> dict[str, Any]:
    """The patch that a trial ran, as verify.json identifies it."""
    return {
        "files": [
            {"path": path, "sha256_before": before, "sha256_after": after}
            for path, (before, after) in sorted(_digests(patch).items())
        ]
    }


def checked(patch: Patch, trials: Iterable[Verification], subject: TrialSubject) -> Patch:
    """The patch with its unproved hunks marked by the newest trial that found it equal; else it says why none did."""
    if not patch.unchecked:
        return patch
    own = [trial for trial in trials if _is_of(trial, patch)]
    reasons = [_objection(trial, subject) for trial in own]
    equal = next((trial for trial, reason in zip(reversed(own), reversed(reasons), strict=True) if not reason), None)
    if equal is None:
        return replace(patch, unchecked_because=reasons[-1] if reasons else NOT_VERIFIED)
    said = say("equal over {steps} steps by verify of {day}", steps=equal.details["steps"], day=_day(equal))
    hunks = tuple(replace(hunk, checked=said) if hunk.unproved else hunk for hunk in patch.hunks)
    return replace(patch, hunks=hunks)


def counting(patch: Patch, trials: Iterable[Verification], subject: TrialSubject) -> Verification | None:
    """The newest trial that found exactly this patch equal, in the project as it is now."""
    own = [trial for trial in trials if _is_of(trial, patch) and not _objection(trial, subject)]
    return own[-1] if own else None


def _is_of(trial: Verification, patch: Patch) -> bool:
    """Whether a trial ran exactly this patch."""
    return bool(trial.details.get("patch") == patch_document(patch))


def _digests(patch: Patch) -> dict[str, tuple[str | None, str]]:
    return {
        _shown(file.path, patch.root): (None if file.before is None else sha256(file.before), sha256(file.after))
        for file in patch.files
    }


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _objection(trial: Verification, subject: TrialSubject) -> str:
    """Why a trial of this patch does not show that it is equal; "" if it does."""
    when = say("the verify of {day}", day=_day(trial))
    lacking = _lacking(trial)
    if lacking:
        return f"{when} {lacking}"
    if subject.device is not None and trial.device not in (None, subject.device):
        return say(
            "{when} ran on {trial}, and the recording on {recorded}",
            when=when,
            trial=trial.device,
            recorded=subject.device,
        )
    touched = (trial.details.get("writes") or {}).get("changed_meanwhile") or ()
    if any(str(name).endswith(".py") for name in touched):
        return say("sources changed while {when} ran", when=when)
    changed = _changed(trial.details.get("sources") or {}, subject.project)
    return say("{changed} is not what {when} ran", changed=changed, when=when) if changed else ""


def _lacking(trial: Verification) -> str:
    """What a trial did not find equal, or did not look at; "" if there is nothing."""
    numbers = trial.details.get("numbers") or {}
    compared = numbers.get("compared") or {}
    steps = trial.details.get("steps") or 0
    least = max(POLICY.least_steps, INTERVALS * (trial.details.get("interval") or 0))
    verdict = trial.verdict.rstrip(".")
    objections = {
        say("found a difference: {verdict}", verdict=verdict): trial.numbers_equal is False
        or numbers.get("first_difference") is not None,
        say("came to no result: {verdict}", verdict=verdict): trial.numbers_equal is not True,
        say("could not compare what the script prints"): not numbers.get("output_compared"),
        say("did not compare learning rates"): "settings" not in compared,
        say("could not read every tensor"): bool(compared.get("unreadable_tensors")),
        say("made {steps} steps, and {least} are needed", steps=steps, least=least): steps < least,
    }
    return next((said for said, holds in objections.items() if holds), "")


def _changed(sources: Mapping[str, str], project: Path) -> str:
    """A source that is no longer what the trial ran; "" if there is none."""
    for name, digest in sources.items():
        path = project / name
        try:
            if sha256(path.read_bytes()) != digest:
                return name
        except OSError:
            return name
    return ""


def _day(trial: Verification) -> str:
    return str(trial.details.get("date") or "")[:10] or say("an unknown day")
