"""The order of the stages, readable in one sitting.

    open_inputs   paths → Inputs: a Run or bare traces, loaded
    examine       Inputs → Examined: what the GPU waited for, and the replay trace to ask "what if" of
    plan          Examined → PlannedDiagnosis: what each scheme would buy here, and which one to take
    illustrate    PlannedDiagnosis → IllustratedDiagnosis: combinations of Edits, the step before and after
    save          IllustratedDiagnosis → analysis.json, report.html, tracelens.patch in the Run folder

Nothing is computed here: each step is one call into a stage, and what a stage could not judge goes on as an Abstention.
The patcher and the page template are imported where they are used; `analyze` should not pay for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tracelens import remedies, step_owners
from tracelens import run as runs
from tracelens.errors import InputError, Refused, UsageError
from tracelens.findings import (
    AnalyzedRank,
    breakdown,
    calls_recorded,
    detect,
    incomplete_recording,
    inventory,
    overlap,
    signal_dependencies,
    stalls,
)
from tracelens.model import (
    Abstention,
    Diagnosis,
    Estimate,
    Hunk,
    IllustratedDiagnosis,
    Patch,
    PlannedDiagnosis,
    RankRecording,
    RankTimes,
    Run,
    Timeline,
    Trace,
    Verification,
    carried_over,
)
from tracelens.remedies import HunkChoice, PatchContext, Remedy
from tracelens.replay import bounds, explanations, exposed_cost, trace_builder, what_if, worker_count
from tracelens.replay.calibration import Calibration
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.run import sources
from tracelens.run.sources import SourceScope, TrainingScript
from tracelens.schemes import advise, measures, score
from tracelens.schemes import plan as planning
from tracelens.schemes import rules as rule_files
from tracelens.schemes.facts import AdoptionLimits, Facts
from tracelens.trace import chrome, timeline
from tracelens.trace.discover import discover
from tracelens.verify import store

NOT_REPLAYED = Abstention("replay", "it was not asked for", "run tracelens recommend")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may decide about a diagnosis and its plan."""

    interval: int | None = None
    """N of every N batches; None takes what the loop does already, else 10."""
    script: Path | None = None
    """The training script, where the Run does not have it."""
    rules: Path | None = None
    weights: Mapping[str, float] | None = None
    limits: AdoptionLimits | None = None
    source: SourceScope = "project"
    unsafe: bool = False
    import_runtime: bool = False
    """Patched scripts import their helpers from the installed TraceLens; else the helpers are put beside them."""
    forced: str | None = None
    """A scheme the user named: all of its Edits are made, also those that do not pay here."""
    count_unsafe: bool = False
    """Also find out which changes `unsafe` would add that pay."""


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
    replay_trace: ReplayTrace | Abstention
    recording: RankRecording | None
    code: TrainingScript | Abstention
    """The training script as it was recorded, or why it is not at hand."""
    applied: runs.AppliedPatch | None = None
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
    """What the GPU waited for on the slowest rank, with the replay trace that later answers what each remedy buys."""
    options = options or Options()
    run = inputs.run
    built, recording, ranks = _slowest(inputs)
    clock = recording.clock if recording else None
    applied = _applied(run)
    code = sources.training_script(run, options.script, _before(applied))
    steps, parts, busy_share, idle_share = breakdown.measure(built, clock)
    waits = stalls.group(built)
    replay_trace = trace_builder.build(built, waits, clock, Calibration.from_run(run.meta if run else {}))
    costs = _wait_costs(replay_trace)
    waits = stalls.with_exposed(waits, costs.per_stall, steps.best_known_ns)
    signals = signal_dependencies.examine(built, waits, recording)
    parts, waits = signals.parts(parts), signals.stalls(waits)
    copies = signals.overlap(overlap.measure(built))
    rank = AnalyzedRank(built, steps, parts, waits, copies, run)
    detected = detect(rank)
    diagnosis = Diagnosis(
        run=run,
        traces=inputs.traces,
        timeline=built,
        steps=steps,
        breakdown=parts,
        gpu_busy_share=busy_share,
        idle_share=idle_share,
        stalls=waits,
        overlap=copies,
        findings=detected.findings,
        abstentions=(
            *incomplete_recording.abstentions(built, inputs.traces),
            *detected.abstentions,
            *signals.abstentions(),
            *((replay_trace,) if isinstance(replay_trace, Abstention) else ()),
        ),
        inventory=incomplete_recording.without_absences(
            inventory.collect(built, run, code.text if isinstance(code, TrainingScript) else None), built.coverage
        ),
        sources=sources.located_texts(waits, run, code, options.source),
        monitor=runs.samples(run.path) if run else (),
        situation=costs.explanations,
        passed=detected.passed,
        not_applicable=detected.not_applicable,
        ranks=ranks,
        exposed_together_ns=None if signals.lacks("exposed_together_us_per_step") else costs.together_ns,
        owners=step_owners.collect(rank, recording, replay_trace, code),
    )
    return Examined(diagnosis, replay_trace, recording, code, applied)


def diagnose(inputs: Inputs, options: Options | None = None) -> Diagnosis:
    """What the GPU waited for: `examine` for those who only want to know."""
    return examine(inputs, options).diagnosis


def plan(examined: Examined, options: Options | None = None) -> PlannedDiagnosis:
    """What each scheme would buy on this run, as far as a patch can really make it, and which one to take."""
    options = options or Options()
    diagnosis, replay_trace = examined.diagnosis, examined.replay_trace
    rules = rule_files.load(options.rules, options.weights)
    interval = planning.chosen_interval(diagnosis.inventory, options.interval)
    workers = None if isinstance(replay_trace, Abstention) else worker_count.recommended(replay_trace)
    offers = planning.offers(rules, diagnosis.stalls, diagnosis.inventory, interval, workers)
    fitted, with_unsafe = (
        planning.edits(rules, diagnosis.stalls, diagnosis.inventory, interval, given)
        for given in (offers if options.unsafe else None, offers)
    )
    nothing_known = incomplete_recording.unjudged("schemes", diagnosis.timeline.coverage)
    if nothing_known is not None:
        fitted = with_unsafe = dict.fromkeys(fitted, nothing_known.missing)
        offers = dict.fromkeys(offers, ())
    context = _patch_context(examined, options)
    recorded = store.read(diagnosis.run.path) if diagnosis.run else ()
    against = (recorded, fitted, interval, diagnosis.timeline.trace.device)
    trials = score.comparable(*against)
    by_scheme = remedies.remedies_for(context, fitted, offers, options.forced)
    by_scheme = remedies.with_trials(by_scheme, diagnosis, recorded)
    facts = _facts(examined, by_scheme, trials)
    schemes = score.judge(rules, facts)
    answer = advise.recommend(rules, schemes, facts, options.limits)
    unsafe: tuple[Hunk, ...] = ()
    if options.count_unsafe and not options.unsafe:
        taken = by_scheme.get(options.forced or answer.scheme or "")
        unsafe = remedies.worth_asking(context, with_unsafe, offers, taken)
    unjudged = ((examined.code,) if isinstance(examined.code, Abstention) else ()) + score.set_aside(*against)
    return PlannedDiagnosis(
        **carried_over(replace(diagnosis, abstentions=diagnosis.abstentions + unjudged)),
        schemes=schemes,
        recommendation=answer,
        unsafe=unsafe,
        patches={name: remedy.patch for name, remedy in by_scheme.items() if remedy.patch is not None},
        written=remedies.to_write(context, by_scheme, {options.forced, answer.scheme}),
        verifications=trials,
        offers=offers,
        replayed={name: it.estimate for name, it in by_scheme.items() if isinstance(it.estimate, Estimate)},
        interval=interval,
        weights=rules.weights,
        measures=measures.measures_of_run(rules.measures, diagnosis),
    )


def illustrate(examined: Examined, planned: PlannedDiagnosis) -> IllustratedDiagnosis:
    """With what only the pages show: every combination of the schemes' Edits, and the step before and after."""
    replay_trace = examined.replay_trace
    if isinstance(replay_trace, Abstention):
        return IllustratedDiagnosis(**carried_over(planned), what_if=None, drawn=())
    combinations, drawn = what_if.illustrations(replay_trace, planned)
    return IllustratedDiagnosis(**carried_over(planned), what_if=combinations, drawn=drawn)


def exposed_together(examined: Examined, stalls: Collection[str] | None = None) -> int | None:
    """What removing these waits (by default all) gives back together, not their sum; None without a replay."""
    if isinstance(examined.replay_trace, Abstention):
        return None
    return exposed_cost.together(examined.replay_trace, stalls)


def patch_of(diagnosis: PlannedDiagnosis, name: str) -> Patch:
    """The patch of one scheme; raises `Refused` with the reason where there is none."""
    patch = diagnosis.patches.get(name)
    if patch is not None:
        return patch
    source = next((item for item in diagnosis.abstentions if item.detector == "patch"), None)
    if source is not None:
        raise Refused(f"there is no patch for {name}: {source.missing}", hint=source.hint)
    reasons = [reason for scheme in diagnosis.schemes if scheme.id == name for reason in scheme.reasons]
    raise Refused(f"there is no patch for {name}: {'; '.join(reasons)}", hint="see: tracelens recommend")


def patch_to_write(diagnosis: PlannedDiagnosis, name: str, hunks: HunkChoice, options: Options) -> Patch:
    """The patch of one scheme, or those of its hunks that were chosen, as far as it is proved or checked."""
    if hunks == HunkChoice():
        return diagnosis.written.get(name) or patch_of(diagnosis, name)
    applied = _applied(diagnosis.run)
    code = sources.training_script(diagnosis.run, options.script, _before(applied))
    if isinstance(code, Abstention):
        return patch_of(diagnosis, name)
    edits = next(scheme.edits for scheme in diagnosis.schemes if scheme.id == name)
    if hunks.only:  # a hunk that was left out because it buys nothing can be asked for by its id
        edits += tuple(offer for offer in diagnosis.offers.get(name, ()) if offer.kind not in {e.kind for e in edits})
    context = PatchContext(NOT_REPLAYED, code, applied, diagnosis.stalls, options.unsafe, options.import_runtime)
    chosen = remedies.change(context, code, edits, hunks)
    marked = remedies.checked(chosen, diagnosis, diagnosis.verifications)
    return remedies.without_unchecked(context, code, edits, (marked, hunks)) if marked.unchecked else marked


def save(diagnosis: IllustratedDiagnosis, source: SourceScope = "project") -> tuple[Path, ...]:
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
    patch = diagnosis.recommended_to_write
    if patch is not None:
        files[runs.PATCH_FILE] = patch.diff
    for name, text in files.items():
        # A source line in another encoding than UTF-8: the patch needs its very bytes, a page for people does not
        unknown = "surrogateescape" if name == runs.PATCH_FILE else "backslashreplace"
        runs.write_output(folder / name, text.encode(errors=unknown))
    return tuple(folder / name for name in files)


# ----------------------------------------------------------------------------------------------------- inputs


def _open_run(run: Run, max_bytes: int | None) -> Inputs:
    recorded = tuple(recording for recording in run.recordings if recording.trace_path is not None)
    if not recorded:
        reason = run.meta.get("reason") or "no training step was seen"
        raise InputError(
            f"the run {run.path} holds no trace: {reason}",
            hint="record again: tracelens profile train.py, with enough steps for the window",
        )
    traces = tuple(
        _named(chrome.load(recording.trace_path, max_bytes=max_bytes), recording)
        for recording in recorded
        if recording.trace_path is not None
    )
    return Inputs(run, traces, recorded)


def _named(trace: Trace, recording: RankRecording) -> Trace:
    """Rank and world size as the recording noted them, where the trace does not say (without torch.distributed)."""
    rank = recording.rank if trace.rank is None else trace.rank
    size = recording.meta.get("world_size") if trace.world_size is None else trace.world_size
    return replace(trace, rank=rank, world_size=size if isinstance(size, int) else None)


def _applied(run: Run | None) -> runs.AppliedPatch | None:
    return runs.applied_patch(run.path / runs.BACKUP_FOLDER) if run is not None else None


def _before(applied: runs.AppliedPatch | None) -> dict[Path, bytes]:
    return {file.path.resolve(): file.before for file in (applied.files if applied else ()) if file.before is not None}


def _slowest(inputs: Inputs) -> tuple[Timeline, RankRecording | None, tuple[RankTimes, ...]]:
    """The rank whose median step is the longest: the others wait for it. One that cannot be judged comes last. Only one
    timeline is kept at a time."""
    best: tuple[tuple[bool, int], Timeline, RankRecording | None] | None = None
    ranks = []
    for trace, recording in zip(inputs.traces, inputs.recordings, strict=True):
        picture = timeline.build(trace, recording)
        ranks.append(breakdown.measure_rank(picture))
        order = (picture.coverage.judged, ranks[-1].median_ns)
        if best is None or order > best[0]:
            best = (order, picture, recording)
    if best is None:
        raise InputError("no trace was given", hint="record one first: tracelens profile train.py")
    return best[1], best[2], tuple(ranks)


# -------------------------------------------------------------------------------------------------- examine, plan


@dataclass(frozen=True, slots=True)
class _WaitCosts:
    """What the replay says of the waits; nothing where there is no replay."""

    per_stall: Mapping[str, int]
    explanations: tuple[str, ...]
    together_ns: int | None


def _wait_costs(replay_trace: ReplayTrace | Abstention) -> _WaitCosts:
    if isinstance(replay_trace, Abstention):
        return _WaitCosts({}, (), None)
    per_stall = exposed_cost.per_stall(replay_trace)
    explained = tuple(explanation.text for explanation in explanations.explain(replay_trace, per_stall))
    return _WaitCosts(per_stall, explained, exposed_cost.together(replay_trace))


def _patch_context(examined: Examined, options: Options) -> PatchContext:
    return PatchContext(
        replay_trace=examined.replay_trace,
        code=examined.code,
        applied=examined.applied,
        stalls=examined.diagnosis.stalls,
        unsafe=options.unsafe,
        import_runtime=options.import_runtime,
    )


def _facts(examined: Examined, by_scheme: Mapping[str, Remedy], measured: tuple[Verification, ...]) -> Facts:
    diagnosis, replay_trace = examined.diagnosis, examined.replay_trace
    memory = (examined.recording.meta.get("memory") or {}) if examined.recording else {}
    return Facts(
        step_ns=diagnosis.steps.best_known_ns,
        plans={name: remedy.edits for name, remedy in by_scheme.items()},
        estimates={name: remedy.estimate for name, remedy in by_scheme.items() if remedy.estimate is not None},
        patches={name: remedy.patch for name, remedy in by_scheme.items() if remedy.patch is not None},
        verifications=measured,
        stalls=diagnosis.stalls,
        breakdown=diagnosis.breakdown,
        gpu_busy_share=diagnosis.gpu_busy_share,
        binding=None if isinstance(replay_trace, Abstention) else bounds.step_bounds(replay_trace).binding,
        has_gpu="gpu" in diagnosis.timeline.trace.signals,
        waits_recorded=calls_recorded(diagnosis.timeline),
        calls_recorded="runtime" in diagnosis.timeline.trace.signals,
        unknown_waits=diagnosis.timeline.unknown_waits,
        steps_found=diagnosis.steps.source != "none",
        has_run=diagnosis.run is not None,
        unjudged=incomplete_recording.unjudged("recording", diagnosis.timeline.coverage),
        batch_bytes=_batch_bytes(examined.recording),
        free_bytes=memory.get("free_bytes"),
        inventory=diagnosis.inventory,
        owners=diagnosis.owners,
    )


def _batch_bytes(recording: RankRecording | None) -> int | None:
    sizes = [loader.get("batch_bytes") for loader in (recording.meta.get("loaders") or ())] if recording else []
    return max((size for size in sizes if size), default=None)
