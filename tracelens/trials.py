"""Verifying what was planned: from a Diagnosis, or two scripts, to what was measured.

In: a Diagnosis with patches and what a trial may cost. Out: Verifications, kept in the Run. Apart from the pipeline
because it is the one stage that runs the user's program again, for minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tracelens import run as runs
from tracelens.errors import UsageError
from tracelens.messages import say
from tracelens.model import FilePatch, Patch, PlannedDiagnosis, Run, Verification
from tracelens.pipeline import patch_of
from tracelens.remedies import project_of
from tracelens.verify import request, store
from tracelens.verify.policy import POLICY
from tracelens.verify.supervisor import session as verifying
from tracelens.verify.trial_process import Command

LEAST_START_S = 1.0
"""No process imports torch in less."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """What a verification may cost, and what its progress is told to."""

    steps: int
    budget_s: float
    seed: int
    progress: Callable[[str], None]
    found: Callable[[str], None] | None = None
    """Receives one line for each thing that was found; None: `progress` does."""


def verify_schemes(
    diagnosis: PlannedDiagnosis, names: tuple[str, ...], options: TrialOptions
) -> tuple[Verification, ...]:
    """Measure the patches of these schemes against the original; kept in verify.json of the Run.

    Schemes that come to the same patch on this Run are one trial, whose result is said of each.
    """
    run = _run_of(diagnosis)
    alike = _alike(diagnosis, names)
    changes = tuple(
        request.PatchedVersion(patch_of(diagnosis, name), name, diagnosis.replayed.get(name), diagnosis.interval)
        for name in alike
    )
    wanted = _request(diagnosis, run, project_of(run, changes[0].patch), options)
    results = dict(zip(alike, verifying.verify_all(wanted, changes), strict=True))
    measured = tuple(_under_name(name, first, results[first]) for first, same in alike.items() for name in same)
    store.write(run.path, measured)
    return measured


def verify_patch(diagnosis: PlannedDiagnosis, name: str, patch: Patch, options: TrialOptions) -> Verification:
    """Measure one patch against the original; kept in verify.json of the Run under this name."""
    run = _run_of(diagnosis)
    change = request.PatchedVersion(patch, name, diagnosis.replayed.get(name), diagnosis.interval)
    (measured,) = verifying.verify_all(_request(diagnosis, run, project_of(run, patch), options), (change,))
    store.write(run.path, (measured,))
    return measured


def _run_of(diagnosis: PlannedDiagnosis) -> Run:
    if diagnosis.run is None:
        raise UsageError(
            say("only a run can be verified, not a bare trace"), hint=say("record one: tracelens profile SCRIPT")
        )
    return diagnosis.run


def _request(
    diagnosis: PlannedDiagnosis, run: Run, project: Path, options: TrialOptions
) -> request.VerificationRequest:
    return request.VerificationRequest(
        command=command_of(run),
        cwd=run.cwd,
        project=project,
        original=way_back(run),
        steps=options.steps,
        budget_s=options.budget_s,
        seed=options.seed,
        step_ns=diagnosis.steps.best_known_ns,
        device=diagnosis.timeline.trace.device,
        progress=options.progress,
        found=options.found,
    )


def verify_scripts(
    before: Path, after: Path, arguments: tuple[str, ...], options: TrialOptions
) -> tuple[Verification, ...]:
    """Measure two versions of a script against each other."""
    patch = request.hand_made(before, after)
    wanted = request.VerificationRequest(
        command=request.script_command(str(before), *arguments),
        cwd=Path.cwd(),
        project=patch.root,
        change=request.PatchedVersion(patch),
        steps=options.steps,
        budget_s=options.budget_s,
        seed=options.seed,
        progress=options.progress,
    )
    return (verifying.verify(wanted),)


def _alike(diagnosis: PlannedDiagnosis, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The names whose patches write the same files with the same contents, by the first of them."""
    first: dict[tuple[tuple[Path, bytes], ...], str] = {}
    alike: dict[str, list[str]] = {}
    for name in names:
        patch = patch_of(diagnosis, name)
        key = tuple((file.path, file.after) for file in patch.files)
        alike.setdefault(first.setdefault(key, name), []).append(name)
    return alike


def _under_name(name: str, tried: str, measured: Verification) -> Verification:
    """The result of a trial under another scheme's name, where both make the same patch."""
    if name == tried:
        return measured
    note = say("its patch is that of {tried} on this run: measured once", tried=tried)
    notes = [*measured.details.get("notes", ()), note]
    return replace(
        measured, scheme=name, details={**measured.details, "scheme": name, "same_patch_as": tried, "notes": notes}
    )


def command_of(run: Run) -> Command:
    """The launch as it was recorded; a Python that is not on this machine gives way to ours."""
    kind = (run.meta.get("capture") or {}).get("kind", "script")
    if kind == "command":
        return Command("command", run.command, sys.executable, {})
    python = run.command[0] if Path(run.command[0]).is_file() else sys.executable
    return Command(kind, run.command[2 if kind == "module" else 1 :], python, {})


def start_seconds(diagnosis: PlannedDiagnosis) -> float:
    """What a process takes until its steps reach their pace: from the launch to the end of the first steps, which
    no window holds. Older recordings tell only when the recorded window began, after the profiler's own start; where a
    recording tells neither, it is what verify assumes."""
    run = diagnosis.run
    meta = run.recordings[0].meta if run is not None and run.recordings else {}
    began = ((run.meta.get("capture") or {}) if run is not None else {}).get("started_unix_ns")
    window = meta.get("window") or {}
    opened, first = window.get("start_unix_ns"), window.get("first_step")
    settled = window.get("settled_unix_ns")
    if isinstance(began, int) and isinstance(settled, int):
        return max(LEAST_START_S, (settled - began) / 1e9)
    if not (isinstance(began, int) and isinstance(opened, int) and isinstance(first, int)):
        return POLICY.start_seconds
    return max(LEAST_START_S, (opened - began - first * diagnosis.steps.best_known_ns) / 1e9)


def way_back(run: Run) -> Patch | None:
    """What undoes the patch that is applied at present."""
    applied = runs.applied_patch(run.path / runs.BACKUP_FOLDER)
    if applied is None:
        return None
    files = (FilePatch(file.path, file.after, file.before) for file in applied.files if file.before is not None)
    return Patch(run.cwd, tuple(files), (), (), "")
