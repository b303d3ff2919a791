"""What the product predicts for one recorded run, and the patched copies it would make: all written before any is run.

In: a Run folder. Out: `prediction.json` and one folder per distinct patched version. Forced schemes take all Edits of
the scheme that can be made; `recommended` is what `tracelens apply` would do without an option. The Edits that are
predicted are the Edits that the patcher was given, less the places that it declined.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracelens import pipeline, remedies, replay
from tracelens.model import Abstention, Edit, Estimate, Patch
from tracelens.replay import bounds, exposed_cost
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.schemes import plan as planning
from tracelens.schemes import rules as rule_files

RECOMMENDED = "recommended"


def write(run: Path, out: Path, versions: Path) -> dict[str, Any]:
    """Predict, patch copies of the scripts below `versions`, and only then write `out`."""
    found = predict(run, versions)
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def predict(run: Path, versions: Path | None) -> dict[str, Any]:
    """The prediction as JSON; patched copies are made where `versions` is given."""
    examined = pipeline.examine(pipeline.open_inputs((run,)))
    rules = rule_files.load(None, None)
    interval = planning.chosen_interval(examined.diagnosis.inventory, None)
    fitted = planning.edits(rules, examined.diagnosis.stalls, examined.diagnosis.inventory, interval)
    context = pipeline._patch_context(examined, pipeline.Options(), None)
    schemes = {}
    for name, edits in fitted.items():
        if isinstance(edits, str):
            schemes[name] = {"applies": False, "reason": edits}
            continue
        remedy = remedies.remedies_for(context, {name: edits}, {}, forced=name)[name]
        schemes[name] = _scheme(remedy, examined, run, versions)
    diagnosis = pipeline.plan(examined)
    chosen = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    if chosen is not None:
        remedy = next(scheme for scheme in diagnosis.schemes if scheme.id == chosen)
        made = remedies.Remedy(remedy.edits, remedy.estimate, diagnosis.patches.get(chosen))
        schemes[RECOMMENDED] = _scheme(made, examined, run, versions)
    return {
        "at_unix": round(time.time(), 1),
        "model": model(),
        "recommended": chosen,
        "verdict": diagnosis.recommendation.verdict if diagnosis.recommendation else None,
        "base": _base(examined),
        "schemes": schemes,
    }


def model() -> str:
    """Which replay made a prediction: a digest of its source."""
    files = sorted(Path(replay.__path__[0]).glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def _base(examined: Any) -> dict[str, Any]:
    """What is known of the loop as it is, and what the simpler predictors need."""
    steps, replay_trace = examined.diagnosis.steps, examined.replay_trace
    clock = examined.recording.clock if examined.recording else None
    found: dict[str, Any] = {
        "profiled_us": steps.median_ns / 1e3,
        "unprofiled_mean_us": _us(clock.unprofiled_mean_ns if clock else None),
        "unprofiled_median_us": _us(steps.unprofiled_median_ns),
        "idle_share": examined.diagnosis.idle_share,
        "abstention": replay_trace.missing if isinstance(replay_trace, Abstention) else None,
        "stalls": [
            {
                "api": stall.api,
                "kind": stall.kind,
                "line": stall.location.line if stall.location else None,
                "calls": round(stall.calls_per_step, 2),
                "wait_us": _us(stall.wait_ns),
                "idle_us": _us(stall.gpu_idle_ns),
                "exposed_us": _us(stall.exposed_ns),
            }
            for stall in examined.diagnosis.stalls
        ],
    }
    if not isinstance(replay_trace, Abstention):
        found |= _replay_trace(replay_trace)
    return found


def _replay_trace(replay_trace: ReplayTrace) -> dict[str, Any]:
    return {
        "step_us": replay_trace.base_ns / 1e3,
        "recorded_us": replay_trace.recorded_ns / 1e3,
        "error_recorded": replay_trace.errors.recorded,
        "error_unprofiled": replay_trace.errors.anchor,
        "row_us": [
            replay_trace.overhead.low_ns / 1e3,
            replay_trace.overhead.row_ns / 1e3,
            replay_trace.overhead.high_ns / 1e3,
        ],
        "row_fitted": replay_trace.overhead.fitted,
        "workers": replay_trace.loader.workers,
        "loader_period_us": _us(replay_trace.loader.period_ns),
        "unresolved_waits": replay_trace.unresolved_waits,
        "bounds_us": {key: ns / 1e3 for key, ns in asdict(bounds.step_bounds(replay_trace)).items()},
        "together_us": _us(exposed_cost.together(replay_trace)),
        "notes": list(replay_trace.notes),
    }


def _us(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e3


def _scheme(remedy: Any, examined: Any, run: Path, versions: Path | None) -> dict[str, Any]:
    patch, edits, estimate = remedy.patch, remedy.edits, remedy.estimate
    found: dict[str, Any] = {"applies": True, "edits": [_edit(edit) for edit in edits]}
    if patch is None or patch.empty:
        obstacles = [item.obstacle for item in patch.declined] if patch else ["no source"]
        return found | {"version": None, "reason": "; ".join(dict.fromkeys(obstacles)) or "nothing to patch"}
    found["version"] = _version(patch, run, versions)
    found["declined"] = [f"{item.edit}: {item.obstacle}" for item in patch.declined]
    if isinstance(estimate, Estimate):
        found["estimate"] = estimate.document()
        found["bounds_us"] = {
            key: ns / 1e3 for key, ns in asdict(bounds.step_bounds(examined.replay_trace, edits)).items()
        }
    elif isinstance(estimate, Abstention):
        found["reason"] = estimate.missing
    return found


def _edit(edit: Edit) -> dict[str, Any]:
    return {"kind": edit.kind, "stalls": list(edit.stalls), "interval": edit.interval, "depth": edit.depth}


def _version(patch: Patch, run: Path, versions: Path | None) -> str:
    """Name of the patched version, by its files' bytes; the copy is made once."""
    after: Mapping[str, bytes] = {file.path.name: file.after for file in patch.files}
    digest = hashlib.sha256(b"\0".join(name.encode() + b"\0" + after[name] for name in sorted(after))).hexdigest()[:8]
    if versions is not None and not (versions / digest).exists():
        folder = versions / digest
        folder.mkdir(parents=True)
        for source in run.parent.glob("*.py"):
            shutil.copy(source, folder)
        for name, content in after.items():
            (folder / name).write_bytes(content)
    return digest
