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

from tracelens import lever_remedies, remedies, step_owners
from tracelens import run as runs
from tracelens.errors import Refused
from tracelens.findings import (
    AnalyzedRank,
    calls_recorded,
    debug_settings,
    detect,
    incomplete_recording,
    inventory,
    overlap,
    program_language,
    signal_dependencies,
    stalls,
)
from tracelens.helper_process import HelperProcess
from tracelens.inputs import Inputs, open_inputs, slowest
from tracelens.lever_remedies import Wanted
from tracelens.messages import joined, say
from tracelens.model import (
    Abstention,
    Diagnosis,
    Edit,
    Estimate,
    IllustratedDiagnosis,
    Patch,
    PlannedDiagnosis,
    RankRecording,
    Recommendation,
    Run,
    Scheme,
    SecondOpinion,
    Stall,
    StepTimes,
    Timeline,
    UnsafeOffer,
    Verification,
    carried_over,
    on_baseline,
)
from tracelens.remedies import PatchContext, Remedy
from tracelens.replay import bounds, exposed_cost, trace_builder, wait_costs, what_if, worker_count
from tracelens.replay.calibration import Calibration
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.run import sources
from tracelens.run.sources import SourceScope, TrainingScript
from tracelens.run_levers import SchemeResults
from tracelens.schemes import advise, measures, rare_costs, score
from tracelens.schemes import plan as planning
from tracelens.schemes import rules as rule_files
from tracelens.schemes.catalog import Rules
from tracelens.schemes.facts import AdoptionLimits, Facts
from tracelens.trace import loader_iterators, loader_marks
from tracelens.verify import baseline, store

__all__ = [
    "Examined",
    "Inputs",
    "Options",
    "diagnose",
    "examine",
    "exposed_together",
    "illustrate",
    "open_inputs",
    "patch_of",
    "plan",
    "save",
]


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may decide about a diagnosis and its plan. `named`: levers that are made for who names them."""

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
    named: tuple[str, ...] = ()
    count_unsafe: bool = False
    """Also find out which changes `unsafe` would add that pay."""


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
    trials: tuple[Verification, ...] = ()
    """What was measured of this Run so far."""


def examine(inputs: Inputs, options: Options | None = None) -> Examined:
    """What the GPU waited for on the slowest rank, with the replay trace that later answers what each remedy buys."""
    options = options or Options()
    run, reported = inputs.run, slowest(inputs)
    built, recording = reported.timeline, reported.recording
    applied, trials = applied_to(run), store.read(run.path) if run else ()
    code = sources.training_script(run, options.script, before_patch(applied))
    recorded_steps, parts, busy_share, idle_share = reported.measured
    steps = replace(recorded_steps, measured_ns=baseline.measured_ns(trials, built.trace.device))
    waits = stalls.group(built, 0.0 if parts is None else parts.row_ns)
    replay_trace = _replay_trace(run, recording, built, waits, steps)
    costs = wait_costs.measure(replay_trace)
    waits = stalls.with_exposed(waits, costs.per_stall, steps.best_known_ns)
    signals = signal_dependencies.examine(built, waits, recording)
    parts, waits = signals.parts(parts), signals.stalls(waits)
    copies = signals.overlap(overlap.measure(built))
    rank = AnalyzedRank(built, steps, parts, waits, copies, run)
    owners = step_owners.collect(rank, recording, replay_trace, code)
    detected = detect(replace(rank, owners=owners))
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
        abstentions=program_language.hints(
            built.trace,
            incomplete_recording.abstentions(built, inputs.traces)
            + detected.abstentions
            + signals.abstentions()
            + ((replay_trace,) if isinstance(replay_trace, Abstention) else ()),
        ),
        inventory=incomplete_recording.without_absences(
            inventory.collect(built, run, code.text if isinstance(code, TrainingScript) else None), built.coverage
        ),
        sources=sources.located_texts(waits, owners, run, code, options.source),
        monitor=runs.samples(run.path) if run else (),
        situation=costs.explanations,
        passed=detected.passed,
        not_applicable=detected.not_applicable,
        ranks=reported.ranks,
        exposed_together_ns=None if signals.lacks("exposed_together_us_per_step") else costs.together_ns,
        owners=owners,
    )
    return _with_headline(Examined(diagnosis, replay_trace, recording, code, applied, trials))


def _with_headline(examined: Examined) -> Examined:
    told = replace(examined.diagnosis, **rare_costs.before_plan(_facts(examined, {}, ())))
    return replace(examined, diagnosis=told)


def diagnose(inputs: Inputs, options: Options | None = None) -> Diagnosis:
    """What the GPU waited for: `examine` for those who only want to know."""
    return examine(inputs, options).diagnosis


def plan(examined: Examined, options: Options | None = None, patcher: HelperProcess | None = None) -> PlannedDiagnosis:
    """What each scheme would buy on this run, as far as a patch can really make it, and which one to take. `patcher`:
    another process, which makes the patches while this one replays."""
    options = options or Options()
    diagnosis, replay_trace, coverage = examined.diagnosis, examined.replay_trace, examined.diagnosis.timeline.coverage
    rules = rule_files.load(options.rules, options.weights)
    interval = planning.chosen_interval(diagnosis.inventory, options.interval)
    workers = None if isinstance(replay_trace, Abstention) else worker_count.paying(replay_trace)
    offers = planning.offers(rules, diagnosis.stalls, diagnosis.inventory, interval, max(workers or (), default=None))
    fitted = planning.edits(rules, diagnosis.stalls, diagnosis.inventory, interval, offers if options.unsafe else None)
    nothing_known = debug_settings.unjudged(diagnosis.run) or incomplete_recording.unjudged("schemes", coverage)
    if nothing_known is not None:
        fitted, offers = dict.fromkeys(fitted, nothing_known.missing), dict.fromkeys(offers, ())
    context = _patch_context(examined, options, patcher)
    trials = score.comparable(*(against := (examined.trials, fitted, interval, diagnosis.timeline.trace.device)))
    by_scheme = remedies.remedies_for(context, fitted, offers, options.forced)
    by_scheme = remedies.with_trials(by_scheme, diagnosis, examined.trials)
    facts = _facts(examined, by_scheme, trials)
    schemes = score.judge(rules, facts)
    answer = advise.recommend(rules, schemes, facts, options.limits)
    unsafe: UnsafeOffer | None = None
    if options.count_unsafe and not options.unsafe:
        without = by_scheme.get(options.forced or answer.scheme or "")
        with_unsafe = planning.edits(rules, diagnosis.stalls, diagnosis.inventory, interval, offers)
        unsafe = remedies.worth_asking(context, with_unsafe if nothing_known is None else fitted, offers, without)
    set_aside = score.set_aside(*against)
    judged = _Judged(rules, by_scheme, facts, schemes, answer, trials, offers, unsafe, set_aside, interval, workers)
    return _with_levers(examined, options, context, judged)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What planning found out of the schemes, before levers are looked at."""

    rules: Rules
    by_scheme: Mapping[str, Remedy]
    facts: Facts
    schemes: tuple[Scheme, ...]
    answer: Recommendation
    trials: tuple[Verification, ...]
    offers: Mapping[str, tuple[Edit, ...]]
    unsafe: UnsafeOffer | None
    set_aside: tuple[Abstention, ...]
    interval: int
    workers: tuple[int, ...] | None


def _with_levers(examined: Examined, options: Options, context: PatchContext, judged: _Judged) -> PlannedDiagnosis:
    """The plan, with the levers of the run and what those with a recipe would write."""
    diagnosis, rules, applied = examined.diagnosis, judged.rules, examined.applied
    replayed = {name: it.estimate for name, it in judged.by_scheme.items() if isinstance(it.estimate, Estimate)}
    results = SchemeResults(judged.schemes, replayed, judged.trials)
    wanted = Wanted(judged.workers, options.named, judged.interval)
    levers = lever_remedies.plan(context, diagnosis, rules, results, wanted)
    owners_told = replace(levers, owners=on_baseline(replace(diagnosis, owners=levers.owners)).owners)
    lever = lever_remedies.lever_of_loss(rare_costs.largest_owner(judged.facts), owners_told) or judged.answer.scheme
    taken = next((it for it in judged.schemes if it.id == judged.answer.scheme), None)
    unjudged = ((examined.code,) if isinstance(examined.code, Abstention) else ()) + judged.set_aside
    told = replace(
        diagnosis,
        abstentions=diagnosis.abstentions + program_language.hints(diagnosis.timeline.trace, unjudged),
        owners=levers.owners,
        headline=rare_costs.headline(judged.facts, taken),
        headline_kind=rare_costs.headline_kind(judged.facts, taken),
        rare_cost_leads=rare_costs.leads(judged.facts, taken),
    )
    by_name = {**judged.by_scheme, **levers.by_lever}
    return PlannedDiagnosis(
        **carried_over(told),
        schemes=judged.schemes,
        recommendation=replace(judged.answer, lever=lever),
        unsafe=lever_remedies.beyond_levers(judged.unsafe, levers.by_lever),
        patches={name: remedy.patch for name, remedy in by_name.items() if remedy.patch is not None},
        written=remedies.to_write(context, by_name, {options.forced, judged.answer.scheme, lever}),
        verifications=judged.trials,
        offers=judged.offers,
        replayed={name: it.estimate for name, it in by_name.items() if isinstance(it.estimate, Estimate)},
        interval=judged.interval,
        weights=rules.weights,
        measures=measures.measures_of_run(rules.measures, on_baseline(diagnosis)),
        levers=levers.levers,
        combination=levers.combination,
        edits_of_levers=levers.edits,
        applied=applied.scheme if applied is not None else None,
    )


def illustrate(examined: Examined, planned: PlannedDiagnosis) -> IllustratedDiagnosis:
    """With what only the pages show: every combination of the schemes' Edits, and the step before and after."""
    if isinstance(examined.replay_trace, Abstention):
        return IllustratedDiagnosis(**carried_over(planned), what_if=None, drawn=())
    combinations, drawn = what_if.illustrations(examined.replay_trace, planned)
    return IllustratedDiagnosis(**carried_over(planned), what_if=combinations, drawn=drawn)


def second_opinion(diagnosis: Diagnosis) -> SecondOpinion:
    """What HTA measures of the reported rank's recording, beside ours by its definitions."""
    from tracelens.trace import second_opinion as hta  # HTA takes half a second to import, and only this asks it

    return hta.ask(diagnosis.timeline)


def exposed_together(examined: Examined, stalls: Collection[str] | None = None) -> int | None:
    """What removing these waits (by default all) gives back together, not their sum; None without a replay."""
    trace = examined.replay_trace
    return None if isinstance(trace, Abstention) else exposed_cost.together(trace, stalls)


def patch_of(diagnosis: PlannedDiagnosis, name: str) -> Patch:
    """The patch of one scheme; raises `Refused` with the reason where there is none."""
    patch = diagnosis.patches.get(name)
    if patch is not None:
        return patch
    source = next((item for item in diagnosis.abstentions if item.detector == "patch"), None)
    if source is not None:
        raise Refused(
            say("there is no patch for {name}: {missing}", name=name, missing=source.missing), hint=source.hint
        )
    reasons = [reason for scheme in diagnosis.schemes if scheme.id == name for reason in scheme.reasons]
    raise Refused(
        say("there is no patch for {name}: {reasons}", name=name, reasons=joined("; ", reasons)),
        hint=say("see: tracelens recommend"),
    )


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


def applied_to(run: Run | None) -> runs.AppliedPatch | None:
    """The patch of this Run that is in the user's files at present."""
    return runs.applied_patch(run.path / runs.BACKUP_FOLDER) if run is not None else None


def before_patch(applied: runs.AppliedPatch | None) -> dict[Path, bytes]:
    """Its files as they were."""
    files = applied.files if applied else ()
    return {file.path.resolve(): file.before for file in files if file.before is not None}


def _replay_trace(
    run: Run | None, recording: RankRecording | None, built: Timeline, waits: tuple[Stall, ...], steps: StepTimes
) -> ReplayTrace | Abstention:
    """Its answers are ratios on the baseline. With a setting for debugging on they would be of another training."""
    if (meaningless := debug_settings.unjudged(run)) is not None:
        return meaningless
    clock, costs = recording.clock if recording else None, Calibration.from_run(run.meta if run else {})
    iterators = loader_iterators.find(built, recording)
    trace = trace_builder.build(built, waits, clock, costs, loader_marks.known(built, recording), iterators)
    return trace if isinstance(trace, Abstention) else trace.shown_on(steps)


def _patch_context(examined: Examined, options: Options, patcher: HelperProcess | None) -> PatchContext:
    return PatchContext(
        replay_trace=examined.replay_trace,
        code=examined.code,
        applied=examined.applied,
        stalls=on_baseline(examined.diagnosis).stalls,
        unsafe=options.unsafe,
        import_runtime=options.import_runtime,
        patcher=patcher,
    )


def _facts(examined: Examined, by_scheme: Mapping[str, Remedy], measured: tuple[Verification, ...]) -> Facts:
    diagnosis, replay_trace = on_baseline(examined.diagnosis), examined.replay_trace
    memory = (examined.recording.meta.get("memory") or {}) if examined.recording else {}
    return Facts(
        step_ns=diagnosis.steps.best_known_ns,
        plans={name: remedy.edits for name, remedy in by_scheme.items()},
        estimates={name: remedy.estimate for name, remedy in by_scheme.items() if remedy.estimate is not None},
        told_apart=remedies.told_apart(replay_trace, by_scheme),
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
        unjudged=debug_settings.unjudged(diagnosis.run)
        or incomplete_recording.unjudged("recording", diagnosis.timeline.coverage),
        batch_bytes=examined.recording.batch_bytes if examined.recording else None,
        free_bytes=memory.get("free_bytes"),
        inventory=diagnosis.inventory,
        python=diagnosis.timeline.trace.program != "cpp",
        owners=diagnosis.owners,
        exposed_together_ns=diagnosis.exposed_together_ns,
    )
