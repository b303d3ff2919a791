"""The nouns: what each stage hands to the next, as frozen values, one module per stage.

Import them from here: `from tracelens.model import Run, Timeline`. Times are integer nanoseconds (suffix `_ns`),
counted from the trace's own zero; `None` is unknown, `0` is a measured zero. Nothing here reads a file or computes
a diagnosis, and nothing here imports a heavy library at run time.

    source        a place in the user's source
    lines         what the line clock wrote down
    recording     what `profile` records: the Run folder, and per rank what lies there beside the trace
    table         columns of equal length, without pandas
    trace         one rank's trace as columns, and the queryable picture of it
    findings      where a step's time goes, who waits, what was found and what could not be judged
    owners        who owns the time of a step
    slow_steps    steps that take much longer than the others, and what they add to the mean one
    baseline      how a recorded time becomes one of the step that is told of
    levers        what can be changed, and what is known of each change on one Run
    plan          Edits of the training loop, what they buy, the schemes made of them, the advice
    patch         files before and after, hunks, declined places
    verification  the original measured against a patched version
    second_opinion  what another tool measured of the same recording
    pictures      what only the pages show
    diagnosis     all of the above for one Run, one type per stage of the pipeline
"""

from tracelens.edit_kinds import UNSAFE_EDITS, EditKind, Tier
from tracelens.model.baseline import WORK_PARTS, Baseline, baseline
from tracelens.model.diagnosis import (
    Diagnosis,
    IllustratedDiagnosis,
    PlannedDiagnosis,
    baseline_of,
    carried_over,
    on_baseline,
)
from tracelens.model.findings import (
    BREAKDOWN_PARTS,
    IDLE_PARTS,
    Abstention,
    Breakdown,
    Finding,
    HeadlineKind,
    InapplicableCheck,
    InventoryItem,
    Overlap,
    PassedCheck,
    RankTimes,
    Stall,
    StepTimes,
    Verdict,
    WaitKind,
)
from tracelens.model.levers import (
    LEVER_EFFECTS,
    LEVER_FAMILIES,
    LEVER_STATES,
    TOGGLE_KINDS,
    Lever,
    LeverCombination,
    LeverEffect,
    LeverFamily,
    LeverNumbers,
    LeverState,
    MedianPair,
    Speedup,
    Toggle,
    ToggleKind,
)
from tracelens.model.lines import GarbageCollection, LineLog, LinePlace, LoggedStep
from tracelens.model.owners import (
    ISSUING_KINDS,
    NEW_ITERATOR,
    OWNER_KINDS,
    BatchPart,
    BatchTimes,
    Owner,
    OwnerKind,
    Owners,
)
from tracelens.model.patch import Declined, FilePatch, Hunk, Patch, UnsafeOffer
from tracelens.model.pictures import Combination, DrawnSpan, DrawnStep, WhatIf
from tracelens.model.plan import (
    CRITERIA,
    Binding,
    Edit,
    Estimate,
    Goal,
    Measure,
    Recommendation,
    Scheme,
    Score,
    Stage,
)
from tracelens.model.recording import EventUse, RankRecording, Run, SourceMark, StackSample, StepClock
from tracelens.model.second_opinion import ComparedQuantity, SecondOpinion
from tracelens.model.slow_steps import SlowPattern, SlowRows, SlowSteps
from tracelens.model.source import Location
from tracelens.model.table import TextColumn, TraceTable
from tracelens.model.trace import Completeness, Coverage, StepSource, Tables, Timeline, Trace
from tracelens.model.verification import OUTCOMES, Outcome, Ratio, Verification, counting

__all__ = [
    "BREAKDOWN_PARTS",
    "CRITERIA",
    "IDLE_PARTS",
    "ISSUING_KINDS",
    "LEVER_EFFECTS",
    "LEVER_FAMILIES",
    "LEVER_STATES",
    "NEW_ITERATOR",
    "OUTCOMES",
    "OWNER_KINDS",
    "TOGGLE_KINDS",
    "UNSAFE_EDITS",
    "WORK_PARTS",
    "Abstention",
    "Baseline",
    "BatchPart",
    "BatchTimes",
    "Binding",
    "Breakdown",
    "Combination",
    "ComparedQuantity",
    "Completeness",
    "Coverage",
    "Declined",
    "Diagnosis",
    "DrawnSpan",
    "DrawnStep",
    "Edit",
    "EditKind",
    "Estimate",
    "EventUse",
    "FilePatch",
    "Finding",
    "GarbageCollection",
    "Goal",
    "HeadlineKind",
    "Hunk",
    "IllustratedDiagnosis",
    "InapplicableCheck",
    "InventoryItem",
    "Lever",
    "LeverCombination",
    "LeverEffect",
    "LeverFamily",
    "LeverNumbers",
    "LeverState",
    "LineLog",
    "LinePlace",
    "Location",
    "LoggedStep",
    "Measure",
    "MedianPair",
    "Outcome",
    "Overlap",
    "Owner",
    "OwnerKind",
    "Owners",
    "PassedCheck",
    "Patch",
    "PlannedDiagnosis",
    "RankRecording",
    "RankTimes",
    "Ratio",
    "Recommendation",
    "Run",
    "Scheme",
    "Score",
    "SecondOpinion",
    "SlowPattern",
    "SlowRows",
    "SlowSteps",
    "SourceMark",
    "Speedup",
    "StackSample",
    "Stage",
    "Stall",
    "StepClock",
    "StepSource",
    "StepTimes",
    "Tables",
    "TextColumn",
    "Tier",
    "Timeline",
    "Toggle",
    "ToggleKind",
    "Trace",
    "TraceTable",
    "UnsafeOffer",
    "Verdict",
    "Verification",
    "WaitKind",
    "WhatIf",
    "baseline",
    "baseline_of",
    "carried_over",
    "counting",
    "on_baseline",
]
