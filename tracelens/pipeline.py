"""The order of the stages, readable in one sitting.

    open_inputs   paths → Inputs: a Run or bare traces, loaded
    examine       Inputs → Examined: what the GPU waited for, and the tape to ask "what if" of
    plan          Examined → Diagnosis: what each scheme would buy here, and which one to take
    illustrate    the same with what only the pages show: combinations of Edits, the step before and after
    save          Diagnosis → analysis.json, report.html, tracelens.patch in the Run folder

Nothing is computed here: each step is one call into a stage, and what a stage could not judge goes on as an Abstention.
The patcher and the page template are imported where they are used; `analyze` should not pay for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tracelens import run as runs
from tracelens.errors import InputError, Refused, UsageError
from tracelens.findings import DETECTORS, Evidence, breakdown, detect, inventory, overlap, stalls
from tracelens.findings.evidence import calls_recorded
from tracelens.model import (
    Abstention,
    Diagnosis,
    Edit,
    EditKind,
    Estimate,
    Location,
    Patch,
    RankRecording,
    RankTimes,
    Run,
    Stall,
    Timeline,
    Trace,
    Verification,
)
from tracelens.patch import apply as patcher
from tracelens.patch.apply import Standing
from tracelens.replay import bounds, combine, estimate, exposed, sentences, tape
from tracelens.replay.calibrate import Calibration
from tracelens.replay.items import Tape
from tracelens.report import sources
from tracelens.report.sources import Script, Source
from tracelens.schemes import advise, measures, score
from tracelens.schemes import plan as planning
from tracelens.schemes import rules as rule_files
from tracelens.schemes.facts import Facts, Limits
from tracelens.trace import chrome, timeline
from tracelens.trace.discover import discover
from tracelens.verify import store

SYNCHRONIZES: frozenset[EditKind] = frozenset({"event-sync", "interval-sync"})


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may decide about a diagnosis and its plan."""

    interval: int | None = None
    """N of every N batches; None takes what the loop does already, else 10."""
    script: Path | None = None
    """The training script, where the Run does not have it."""
    rules: Path | None = None
    weights: Mapping[str, float] | None = None
    limits: Limits | None = None
    source: Source = "project"
    unsafe: bool = False
    import_runtime: bool = False
    """Patched scripts import their helpers from the installed TraceLens; else the helpers are put beside them."""
    forced: str | None = None
    """A scheme the user named: all of its Edits are made, also those that do not pay here."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Loaded traces, one per rank, and the Run they belong to (None for bare traces)."""

    run: Run | None
    traces: tuple[Trace, ...]
    recordings: tuple[RankRecording | None, ...]


@dataclass(frozen=True, slots=True)
class Examined:
    """A Diagnosis without schemes, and what planning needs beside it."""

    diagnosis: Diagnosis
    tape: Tape | Abstention
    recording: RankRecording | None
    code: Script | Abstention
    """The training script as it was recorded, or why it is not at hand."""
    applied: Standing | None = None
    """The patch of this Run that is in the user's files at present."""


def open_inputs(paths: tuple[Path, ...], max_bytes: int | None = None) -> Inputs:
    """Load what the user named: nothing (the newest Run), a Run folder, or trace files of several ranks."""
    if not paths:
        paths = (runs.newest(Path(runs.RUNS_FOLDER)),)
    folders = [path for path in paths if runs.is_run(path)]
    if len(paths) == 1 and folders:
        return _open_run(runs.read(paths[0]), max_bytes)
    if folders:
        raise UsageError(f"{folders[0]} is a run and was given beside others", hint="give one run, or only trace files")
    traces = tuple(chrome.load(file, max_bytes=max_bytes) for path in paths for file in discover(path))
    return Inputs(None, traces, (None,) * len(traces))


def examine(inputs: Inputs, options: Options | None = None) -> Examined:
    """What the GPU waited for on the slowest rank, with the tape that later answers what each remedy buys."""
    options = options or Options()
    picture, recording, ranks = _slowest(inputs)
    clock = recording.clock if recording else None
    applied = _applied(inputs.run)
    code = sources.script(inputs.run, options.script, _before(applied))
    times, parts, busy, idle = breakdown.of(picture, clock)
    calls = stalls.group(picture)
    program = tape.build(picture, calls, clock, Calibration.from_run(inputs.run.meta if inputs.run else {}))
    gains = {} if isinstance(program, Abstention) else exposed.of(program)
    calls = stalls.with_exposed(calls, gains, times.unprofiled_median_ns or times.median_ns)
    copies = overlap.of(picture)
    found, unjudged = detect(Evidence(picture, times, parts, calls, copies, inputs.run))
    diagnosis = Diagnosis(
        run=inputs.run,
        traces=inputs.traces,
        timeline=picture,
        steps=times,
        breakdown=parts,
        gpu_busy_share=busy,
        idle_share=idle,
        stalls=calls,
        overlap=copies,
        findings=found,
        abstentions=(*unjudged, *(item for item in (program,) if isinstance(item, Abstention))),
        inventory=inventory.take(picture, inputs.run, code.text if isinstance(code, Script) else None),
        sources=sources.named(calls, inputs.run, code, options.source),
        monitor=runs.samples(inputs.run.path) if inputs.run else (),
        situation=() if isinstance(program, Abstention) else tuple(one.text for one in sentences.of(program, gains)),
        checked=tuple(detector.NAME for detector in DETECTORS),
        ranks=ranks,
        exposed_together_ns=None if isinstance(program, Abstention) else exposed.together(program),
    )
    return Examined(diagnosis, program, recording, code, applied)


def diagnose(inputs: Inputs, options: Options | None = None) -> Diagnosis:
    """What the GPU waited for: `examine` for those who only want to know."""
    return examine(inputs, options).diagnosis


def plan(examined: Examined, options: Options | None = None) -> Diagnosis:
    """What each scheme would buy on this run, as far as a patch can really make it, and which one to take."""
    options = options or Options()
    diagnosis = examined.diagnosis
    rules = rule_files.load(options.rules, options.weights)
    interval = planning.chosen_interval(diagnosis.inventory, options.interval)
    fitted = planning.edits(rules, diagnosis.stalls, diagnosis.inventory, interval)
    remedies = _remedies(fitted, interval, examined, options)
    measured = store.read(diagnosis.run.path) if diagnosis.run else ()
    against = (measured, fitted, interval, diagnosis.timeline.trace.device)
    trials = score.comparable(*against)
    facts = _facts(examined, remedies, trials)
    schemes = score.judge(rules, facts)
    missing = (examined.code,) if isinstance(examined.code, Abstention) else ()
    return replace(
        diagnosis,
        schemes=schemes,
        recommendation=advise.recommend(rules, schemes, facts, options.limits),
        patches={name: remedy.patch for name, remedy in remedies.items() if remedy.patch is not None},
        verifications=trials,
        replayed={name: one.estimate for name, one in remedies.items() if isinstance(one.estimate, Estimate)},
        interval=interval,
        weights=rules.weights,
        measures=measures.of(rules.measures, diagnosis),
        abstentions=(*diagnosis.abstentions, *missing, *score.set_aside(*against)),
    )


def illustrate(examined: Examined, planned: Diagnosis) -> Diagnosis:
    """With what only the pages show: every combination of the schemes' Edits, and the step before and after."""
    return planned if isinstance(examined.tape, Abstention) else combine.illustrated(examined.tape, planned)


def exposed_together(examined: Examined, stalls: Collection[str] | None = None) -> int | None:
    """What removing these waits (by default all) gives back together, not their sum; None without a replay."""
    return None if isinstance(examined.tape, Abstention) else exposed.together(examined.tape, stalls)


def patch_of(diagnosis: Diagnosis, name: str) -> Patch:
    """The patch of one scheme; raises `Refused` with the reason where there is none."""
    patch = diagnosis.patches.get(name)
    if patch is not None:
        return patch
    reasons = [item.missing for item in diagnosis.abstentions if item.detector == "patch"]
    if not reasons:
        reasons = [reason for scheme in diagnosis.schemes if scheme.id == name for reason in scheme.reasons]
    raise Refused(f"there is no patch for {name}: {'; '.join(reasons)}", hint="see: tracelens recommend")


@dataclass(frozen=True, slots=True)
class Hunks:
    """Which hunks of a patch to keep: only these, or all but those."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


def partial_patch(diagnosis: Diagnosis, name: str, hunks: Hunks, options: Options) -> Patch:
    """The patch of one scheme with some of its hunks."""
    applied = _applied(diagnosis.run)
    code = sources.script(diagnosis.run, options.script, _before(applied))
    if hunks == Hunks() or isinstance(code, Abstention):
        return patch_of(diagnosis, name)
    edits = next(scheme.edits for scheme in diagnosis.schemes if scheme.id == name)
    return _Change(edits, diagnosis.stalls, diagnosis.interval, options, hunks).patch(applied, code)


def save(diagnosis: Diagnosis, source: Source = "project") -> tuple[Path, ...]:
    """Write analysis.json, report.html and the recommended patch into the Run folder; nothing for bare traces."""
    if diagnosis.run is None:
        return ()
    from tracelens.report import html
    from tracelens.report import json as json_report

    folder = diagnosis.run.path
    files = {
        runs.ANALYSIS_FILE: json_report.dumps(diagnosis),
        runs.REPORT_FILE: html.render(diagnosis, source),
    }
    chosen = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    if chosen is not None and chosen in diagnosis.patches:
        files[runs.PATCH_FILE] = diagnosis.patches[chosen].diff
    for name, text in files.items():
        runs.write_output(folder / name, text.encode())
    return tuple(folder / name for name in files)


# ----------------------------------------------------------------------------------------------------- inputs


def _open_run(run: Run, max_bytes: int | None) -> Inputs:
    recorded = tuple(one for one in run.recordings if one.trace_path is not None)
    if not recorded:
        reason = run.meta.get("reason") or "no training step was seen"
        raise InputError(
            f"the run {run.path} holds no trace: {reason}",
            hint="record again: tracelens profile train.py, with enough steps for the window",
        )
    traces = tuple(
        _named(chrome.load(one.trace_path, max_bytes=max_bytes), one) for one in recorded if one.trace_path is not None
    )
    return Inputs(run, traces, recorded)


def _named(trace: Trace, recording: RankRecording) -> Trace:
    """Rank and world size as the recording noted them, where the trace does not say (without torch.distributed)."""
    rank = recording.rank if trace.rank is None else trace.rank
    size = recording.meta.get("world_size") if trace.world_size is None else trace.world_size
    return replace(trace, rank=rank, world_size=size if isinstance(size, int) else None)


def _applied(run: Run | None) -> Standing | None:
    return patcher.standing(run.path / runs.BACKUP_FOLDER) if run is not None else None


def _before(applied: Standing | None) -> dict[Path, bytes]:
    return {one.path.resolve(): one.before for one in (applied.files if applied else ()) if one.before is not None}


def _slowest(inputs: Inputs) -> tuple[Timeline, RankRecording | None, tuple[RankTimes, ...]]:
    """The rank whose median step is the longest: the others wait for it. Only one timeline is kept at a time."""
    best: tuple[int, Timeline, RankRecording | None] | None = None
    ranks = []
    for trace, recording in zip(inputs.traces, inputs.recordings, strict=True):
        picture = timeline.build(trace, recording)
        ranks.append(breakdown.of_rank(picture))
        if best is None or ranks[-1].median_ns > best[0]:
            best = (ranks[-1].median_ns, picture, recording)
    if best is None:
        raise InputError("no trace was given", hint="record one first: tracelens profile train.py")
    return best[1], best[2], tuple(ranks)


# ------------------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True, slots=True)
class _Remedy:
    """One scheme on this run: its Edits or why not, what they buy, and the patch that makes them."""

    edits: tuple[Edit, ...] | str
    estimate: Estimate | Abstention | None = None
    patch: Patch | None = None


def _remedies(
    fitted: Mapping[str, tuple[Edit, ...] | str], interval: int, examined: Examined, options: Options
) -> dict[str, _Remedy]:
    return {
        name: _Remedy(edits) if isinstance(edits, str) else _remedy(name, edits, interval, examined, options)
        for name, edits in fitted.items()
    }


def _remedy(name: str, edits: tuple[Edit, ...], interval: int, examined: Examined, options: Options) -> _Remedy:
    """Patch first, then estimate what the patch can make, then drop what does not pay and patch again."""
    program, forced = examined.tape, name == options.forced
    patch = _patch(edits, interval, examined, options)
    possible = edits if patch is None else _made(edits, patch, examined.diagnosis.stalls)
    if not possible:
        return _Remedy(edits, None, patch)
    if isinstance(program, Abstention):
        return _Remedy(possible, program, patch)
    if not forced:
        paying = planning.keep_paying(possible, lambda some: estimate.of(program, some))
        if patch is not None and paying != possible:
            patch = _patch(paying, interval, examined, options)
        possible = paying
    return _Remedy(possible, estimate.of(program, possible), patch)


def _patch(edits: tuple[Edit, ...], interval: int, examined: Examined, options: Options) -> Patch | None:
    """None where the source is not at hand."""
    if isinstance(examined.code, Abstention):
        return None
    change = _Change(edits, examined.diagnosis.stalls, interval, options, Hunks())
    return change.patch(examined.applied, examined.code)


@dataclass(frozen=True, slots=True)
class _Change:
    """What a patch should make."""

    edits: tuple[Edit, ...]
    stalls: tuple[Stall, ...]
    interval: int
    options: Options
    hunks: Hunks

    def patch(self, applied: Standing | None, code: Script) -> Patch:
        from tracelens.patch import originals  # LibCST, which `analyze` should not pay for

        places = (stall.location for stall in self.stalls if stall.location is not None)
        return originals.make(applied, code.root, code.path, places, self._make)

    def _make(self, root: Path, script: Path) -> Patch:
        from tracelens.patch import recipes

        return recipes.make(
            root, script, self.edits, self.stalls, self.interval, unsafe=self.options.unsafe,
            only=self.hunks.only, skip=self.hunks.skip, import_runtime=self.options.import_runtime,
        )  # fmt: skip


def _made(edits: tuple[Edit, ...], patch: Patch, found: tuple[Stall, ...]) -> tuple[Edit, ...]:
    """The Edits without the places that the patcher declined; an Edit that it made nowhere is gone."""
    declined = {(item.edit, item.location.path, item.location.line) for item in patch.declined}
    kinds = {hunk.edit for hunk in patch.hunks}
    if kinds & SYNCHRONIZES:  # one hunk marks the batch and spaces the waits out
        kinds |= SYNCHRONIZES
    places = {stall.id: stall.location for stall in found}

    def left(kind: EditKind, location: Location | None) -> bool:
        return location is None or (kind, location.path, location.line) not in declined

    kept = []
    for edit in edits:
        waits = tuple(name for name in edit.stalls if left(edit.kind, places.get(name)))
        if edit.kind in kinds and (waits or not edit.stalls):
            kept.append(replace(edit, stalls=waits, locations=tuple(p for p in edit.locations if left(edit.kind, p))))
    return tuple(kept)


def _facts(examined: Examined, remedies: Mapping[str, _Remedy], measured: tuple[Verification, ...]) -> Facts:
    diagnosis, program = examined.diagnosis, examined.tape
    memory = (examined.recording.meta.get("memory") or {}) if examined.recording else {}
    return Facts(
        step_ns=diagnosis.steps.unprofiled_median_ns or diagnosis.steps.median_ns,
        plans={name: remedy.edits for name, remedy in remedies.items()},
        estimates={name: remedy.estimate for name, remedy in remedies.items() if remedy.estimate is not None},
        patches={name: remedy.patch for name, remedy in remedies.items() if remedy.patch is not None},
        verifications=measured,
        stalls=diagnosis.stalls,
        breakdown=diagnosis.breakdown,
        gpu_busy_share=diagnosis.gpu_busy_share,
        binding=None if isinstance(program, Abstention) else bounds.of(program).binding,
        has_gpu="gpu" in diagnosis.timeline.trace.signals,
        waits_recorded=calls_recorded(diagnosis.timeline),
        steps_found=diagnosis.steps.source != "none",
        batch_bytes=_batch_bytes(examined.recording),
        free_bytes=memory.get("free_bytes"),
        inventory=diagnosis.inventory,
    )


def _batch_bytes(recording: RankRecording | None) -> int | None:
    sizes = [loader.get("batch_bytes") for loader in (recording.meta.get("loaders") or ())] if recording else []
    return max((size for size in sizes if size), default=None)
