"""Diagnoses built by hand, for tests of reports: one step of 10 ms whose numbers can be checked in the head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from tests.support.trace_tables import table, words
from tracelens.model import (
    BREAKDOWN_PARTS,
    CRITERIA,
    Abstention,
    Breakdown,
    Combination,
    Diagnosis,
    DrawnSpan,
    DrawnStep,
    Edit,
    Estimate,
    FilePatch,
    Finding,
    Goal,
    Hunk,
    IllustratedDiagnosis,
    InapplicableCheck,
    InventoryItem,
    Location,
    Overlap,
    Owner,
    Owners,
    PassedCheck,
    Patch,
    RankTimes,
    Ratio,
    Recommendation,
    Run,
    Scheme,
    Score,
    Stage,
    Stall,
    StepTimes,
    Tables,
    Timeline,
    Trace,
    TraceTable,
    Verification,
    WhatIf,
    carried_over,
)

MS = 1_000_000
SOURCE = """import torch


def train(model, loader, optimizer, device):
    total = 0.0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        loss = model(inputs, targets)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        total += loss.item()  # the host waits here
    return total
"""
PATCHED = SOURCE.replace("        torch.cuda.synchronize()\n", "").replace(
    "total += loss.item()  # the host waits here", "losses.push(loss)"
)
DIFF = """--- a/train.py
+++ b/train.py
@@ -8,6 +8,5 @@
         loss = model(inputs, targets)
         loss.backward()
         optimizer.step()
-        torch.cuda.synchronize()
-        total += loss.item()  # the host waits here
+        losses.push(loss)
     return total
"""
SYNC = Location("train.py", 11, "train")
ITEM = Location("train.py", 12, "train")


def timeline(device: str | None = "NVIDIA H200") -> Timeline:
    """Three steps of 10 ms: host issues for 2 ms, waits 6 ms, the GPU runs 7 ms and idles 3 ms."""
    steps, calls, ops, waits, gaps = [], [], [], [], []
    for k in range(3):
        start = k * 10 * MS
        steps.append((k, start, start + 10 * MS, True, False))
        calls += [
            (1, "cudaLaunchKernel", "launch", start + i * 100_000, start + i * 100_000 + 20_000) for i in range(20)
        ]
        calls.append((1, "cudaDeviceSynchronize", "device_sync", start + 2 * MS, start + 8 * MS))
        ops.append(("copy", "h2d", "pageable", "Memcpy HtoD", 0, 7, start + MS // 2, start + MS))
        ops.append(("kernel", "", "", "gemm", 0, 7, start + MS, start + 8 * MS))
        waits.append((len(calls) - 1, "cudaDeviceSynchronize", "device", 1, start + 2 * MS, start + 8 * MS, k))
        gaps.append((0, start + 8 * MS, start + 10 * MS, "sync", k, k))
        gaps.append((0, start, start + MS // 2, "host", -1, k))
    tables = Tables(
        steps=table(pd.DataFrame(steps, columns=["number", "start_ns", "end_ns", "kept", "attributed"])),
        calls=table(pd.DataFrame(calls, columns=["thread", "name", "kind", "start_ns", "end_ns"])),
        ops=_ops(ops if device else []),
        waits=_waits(waits),
        gaps=table(pd.DataFrame(gaps, columns=["device", "start_ns", "end_ns", "cause", "wait", "step"])),
        loader=table(pd.DataFrame(columns=["thread", "start_ns", "end_ns", "step", "name"], dtype="int64")),
    )
    return Timeline(trace(device), tables, "tracelens", 1, ())


def _ops(rows: list[tuple[Any, ...]]) -> TraceTable:
    columns = ["kind", "direction", "memory", "name", "device", "stream", "start_ns", "end_ns"]
    return table(pd.DataFrame(rows, columns=columns, dtype=None if rows else "int64"))


def _waits(rows: list[tuple[Any, ...]]) -> TraceTable:
    frame = pd.DataFrame(rows, columns=["call", "api", "kind", "thread", "start_ns", "end_ns", "step"])
    return table(frame.assign(
        wait_ns=frame["end_ns"] - frame["start_ns"], gpu_idle_ns=2 * MS, path="train.py", line=11, function="train",
        location_source="mark", window_edge=False,
    ))  # fmt: skip


def trace(device: str | None = "NVIDIA H200", path: str = "rank0/x.pt.trace.json.gz") -> Trace:
    columns = {"start_ns": np.arange(10, dtype=np.int64)}
    signals = frozenset({"gpu", "runtime", "steps"} if device else {"steps"})
    return Trace(path, 0, 1, device, signals, {"flow events": 3}, (), columns, (), (), None)


def diagnosis(**changes: Any) -> Diagnosis:
    """A loop that synchronizes and reads its loss in each batch, with one scheme that pays and one that does not."""
    parts = {
        "compute": 7 * MS, "communication_exposed": 0, "copy_exposed": MS // 2, "idle_sync": 2 * MS,
        "idle_dataloader": 0, "idle_host": MS // 2, "idle_launch": 0, "idle_other": 0,
    }  # fmt: skip
    stalls = (
        Stall(
            "s1",
            "cudaDeviceSynchronize",
            "device",
            1.0,
            6 * MS,
            2 * MS,
            1_500_000,
            "exposed",
            SYNC,
            (0, 1, 2),
            "torch.cuda.synchronize",
        ),
        Stall("s2", "cudaStreamSynchronize", "d2h", 1.0, 40_000, 0, 0, "harmless", ITEM, (), "Tensor.item"),
        Stall("s3", "cudaMemcpyAsync", "h2d", 2.0, 400_000, 0, None, "unknown", None, ()),
    )
    base = Diagnosis(
        run=None,
        traces=(trace(),),
        timeline=timeline(),
        steps=StepTimes(3, "tracelens", 10 * MS, 9_900_000, 10_100_000, 9_500_000),
        breakdown=Breakdown(10 * MS, parts),
        gpu_busy_share=0.75,
        idle_share=0.25,
        stalls=stalls,
        overlap=Overlap(500_000, 0, 500_000, 400_000, 1, 0.0),
        findings=(Finding("per-batch-sync", "The host waits in every batch", 1_500_000, 0.15, SYNC, "1.0 per step"),),
        abstentions=(Abstention("loader-wait", "no DataLoader annotations", "record with tracelens profile"),),
        inventory=(
            InventoryItem("pinned_memory", False, "3 copies from pageable memory"),
            InventoryItem("compile", None, "no stacks were recorded"),
            InventoryItem("amp", True, "aten::_to_copy under autocast"),
        ),
        sources={},
        monitor=(),
        situation=(),
        passed=(),
        not_applicable=(),
        ranks=(),
        exposed_together_ns=None,
        owners=Owners(
            10 * MS,
            (
                Owner("gpu", 7 * MS),
                Owner("wait", 2 * MS, (SYNC,), group="s1"),
                Owner("copy", MS // 2),
                Owner("unknown", MS // 2, reason="no line of the host was recorded"),
            ),
        ),
    )
    return replace(base, **changes)


AnyDiagnosis = TypeVar("AnyDiagnosis", bound=Diagnosis)


def held(base: AnyDiagnosis, *owners: Owner) -> AnyDiagnosis:
    """With these owners, and the parts of a step that agree with them."""
    parts = dict.fromkeys(BREAKDOWN_PARTS, 0)
    parts["compute"] = sum(owner.owned_ns for owner in owners if owner.is_gpu_work)
    parts["idle_host"] = sum(owner.owned_ns for owner in owners) - parts["compute"]
    wall_ns = sum(parts.values())
    return replace(base, owners=Owners(wall_ns, owners), breakdown=Breakdown(wall_ns, parts))


def planned(**changes: Any) -> IllustratedDiagnosis:
    """The same, planned without a single scheme: nothing can be recommended."""
    base = IllustratedDiagnosis(
        **carried_over(diagnosis()),
        schemes=(),
        recommendation=Recommendation(None, "Nothing to recommend."),
        patches={},
        written={},
        verifications=(),
        interval=10,
        weights={},
        replayed={},
        measures=(),
        levers=(),
        combination=None,
        edits_of_levers={},
        offers={},
        unsafe=None,
        applied=None,
        what_if=None,
        drawn=(),
    )
    return replace(base, **changes)


def recommended(**changes: Any) -> IllustratedDiagnosis:
    edits = (Edit("interval-sync", ("s1",), (SYNC,), 10), Edit("defer-read", ("s2",), (ITEM,), 10))
    prior = dict(zip(CRITERIA, (8.0, 10.0, 9.0, 9.0, 9.0, 9.0), strict=True))
    counted = {c: Score(v, "patch") for c, v in prior.items()}
    scores = counted | {"performance": Score(10.0, "replayed"), "memory": Score(9.0, "measured")}
    estimate = Estimate(9_500_000, 8_100_000, 7_900_000, 8_300_000, "stream", "unprofiled", "replayed")
    none = Estimate(9_500_000, 9_480_000, 9_300_000, 9_700_000, "stream", "unprofiled", "replayed")
    schemes = (
        Scheme(
            "event-interval",
            "Events, synchronized every N batches",
            edits,
            prior,
            scores,
            9.0,
            8.95,
            9.1,
            1,
            estimate,
            True,
            (),
        ),
        Scheme(
            "event-sync",
            "An event per batch",
            edits[:1],
            prior,
            scores,
            8.6,
            8.15,
            8.2,
            None,
            none,
            False,
            ("gains 0.2 %, within its noise of ±2 %",),
        ),
    )
    hunks = (Hunk("1", "interval-sync", "safe", SYNC, "synchronizes every 10 batches", "1.5 ms per step"),)
    patch = Patch(Path(), (FilePatch(Path("train.py"), SOURCE.encode(), PATCHED.encode()),), hunks, (), DIFF)
    stage = Stage(
        1,
        "Fewer synchronizations",
        ("event-interval",),
        (Goal("synchronizations −90 %", None), Goal("GPU ≥ 90 %", True, "96 %")),
        "tracelens verify",
    )
    answer = Recommendation(
        "event-interval",
        "Wait every 10th for all work: 17 % faster (9.50 to 8.10 ms).",
        (stage,),
        {
            "changes": {"risk": [{"above": 31.5, "winner": "event-sync"}]},
            "near_ties": ["event-interval"],
            "criteria": list(CRITERIA),
            "performance_10_is_percent": 17.28,
        },
    )
    measured = Verification(
        "event-interval",
        "faster",
        True,
        Ratio(0.86, 0.84, 0.88),
        9_500_000,
        8_170_000,
        estimate,
        "16 % faster, same results.",
    )
    run = Run(Path("tracelens-runs/r1"), ("python", "train.py"), Path("train.py").resolve(), Path.cwd(), True, ())
    base = planned(
        schemes=schemes, recommendation=answer, patches={"event-interval": patch}, verifications=(measured,),
        sources={"train.py": SOURCE}, run=run,
    )  # fmt: skip
    return replace(base, **changes)


def with_names(name: str, base: IllustratedDiagnosis) -> IllustratedDiagnosis:
    """Everything that a trace or a source can name is called `name`."""
    stalls = tuple(replace(s, api=name, call=name, location=Location("train.py", 11, name)) for s in base.stalls)
    findings = tuple(replace(f, evidence=name, title=name) for f in base.findings)
    tables = base.timeline.tables
    tables = replace(
        tables,
        calls=tables.calls.with_columns(name=words([name] * len(tables.calls))),
        ops=tables.ops.with_columns(name=words([name] * len(tables.ops))),
        waits=tables.waits.with_columns(api=words([name] * len(tables.waits))),
    )
    return replace(
        base,
        stalls=stalls,
        findings=findings,
        sources={"train.py": "\n".join([name] * 12)},
        traces=(trace(name, name),),
        timeline=replace(base.timeline, trace=trace(name, name), tables=tables),
    )


def tried() -> IllustratedDiagnosis:
    """With what only the page shows: three changes tried together, and the step before and after."""
    base = recommended()
    sync, read = base.schemes[0].edits
    changes = ((sync,), (read,), (Edit("async-copy", (), (), 1),))

    def estimate(step: int) -> Estimate:
        return Estimate(9_500_000, step, step - 200_000, step + 200_000, "stream", "unprofiled", "replayed")

    gains = {(0,): 9_400_000, (1,): 9_450_000, (2,): 9_300_000, (0, 1): 8_100_000, (0, 2): 9_250_000, (1, 2): 9_300_000}
    combinations = [Combination(chosen, estimate(step)) for chosen, step in gains.items()]
    combinations.append(Combination((0, 1, 2), estimate(7_700_000)))
    before = (DrawnSpan("host", "cudaDeviceSynchronize", 0, 6 * MS), DrawnSpan("stream 7", "gemm", 0, 7 * MS))
    after = (DrawnSpan("host", "cudaLaunchKernel", 0, 2 * MS), DrawnSpan("stream 7", "gemm", 0, 7 * MS))
    return replace(
        base,
        what_if=WhatIf(changes, tuple(combinations)),
        drawn=(DrawnStep(None, 9_500_000, before), DrawnStep("event-interval", 8_100_000, after)),
        passed=(
            PassedCheck("sync_stall", "No wait for the GPU costs step time"),
            PassedCheck("overlap_gap", "Copies hide under compute"),
        ),
        not_applicable=(InapplicableCheck("exposed_communication", "the recording has no collectives"),),
    )


def ranks(count: int, late: int | None) -> tuple[RankTimes, ...]:
    """Steps of 10 ms, of which 2 ms are communication; rank `late` takes 12 ms."""
    return tuple(
        RankTimes(rank, 20, (12 if rank == late else 10) * MS, 0.8, 0 if rank == late else 2 * MS)
        for rank in range(count)
    )


def huge(events: int = 200_000) -> IllustratedDiagnosis:
    """A recording of many launches: half of the events are calls, half are kernels; a wait in every step of 1,000."""
    half = events // 2
    steps = half // 1000
    random = np.random.default_rng(0)  # times as irregular as recorded ones, so that the size of the page is honest
    start = np.arange(half, dtype=np.int64) * 10_000 + random.integers(0, 800, half)
    launched, ran = random.integers(2_000, 8_000, half), random.integers(1_000, 24_000, half)
    step = np.arange(half) // 1000
    waited = np.arange(half) % 1000 == 999
    calls = pd.DataFrame(
        {
            "thread": 1,
            "name": np.where(waited, "cudaDeviceSynchronize", "cudaLaunchKernel"),
            "kind": np.where(waited, "device_sync", "launch"),
            "start_ns": start,
            "end_ns": start + np.where(waited, 9_000, launched),
        }
    )
    ops = pd.DataFrame(
        {
            "kind": "kernel", "direction": "", "memory": "", "device": 0, "stream": 7 + np.arange(half) % 3,
            "name": np.array([f"kernel_{k % 300}" for k in range(half)]),
            "start_ns": start + 5_000, "end_ns": start + 5_000 + ran,
        }
    )  # fmt: skip
    rows = np.flatnonzero(waited)
    waits = _waits([
        (int(row), "cudaDeviceSynchronize", "device", 1, int(start[row]), int(start[row]) + 9_000, int(step[row]))
        for row in rows
    ])  # fmt: skip
    gaps = pd.DataFrame(
        {"device": 0, "start_ns": start[rows] + 9_000, "end_ns": start[rows] + 14_000, "cause": "sync",
         "wait": np.arange(len(rows)), "step": step[rows]}
    )  # fmt: skip
    frame = pd.DataFrame(
        {"number": np.arange(steps), "start_ns": np.arange(steps) * 10_000_000,
         "end_ns": (np.arange(steps) + 1) * 10_000_000, "kept": True, "attributed": False}
    )  # fmt: skip
    base = tried()
    stalls = (replace(base.stalls[0], waits=tuple(range(len(rows)))), *base.stalls[1:])
    tables = Tables(table(frame), table(calls), table(ops), waits, table(gaps), base.timeline.tables.loader)
    return replace(base, stalls=stalls, timeline=replace(base.timeline, tables=tables))
