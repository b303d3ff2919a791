"""A Diagnosis as one self-contained HTML page.

In: a Diagnosis, and which source lines may enter the page. Out: the page as text: no network, strict hash-based
content policy, everything visible without JavaScript. Names from traces and sources are untrusted input: the template
escapes all of them. Only our own style sheet and script, and the verdict after escaping, are marked safe.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape

import tracelens
from tracelens.model import CRITERIA, Diagnosis, IllustratedDiagnosis, PlannedDiagnosis, Scheme
from tracelens.report import (
    charts,
    combinations,
    diff,
    formatting,
    json,
    next_commands,
    ranks,
    step_comparison,
    step_picture,
    verification_rows,
    wording,
    zoomable_timeline,
)
from tracelens.report.source_excerpt import around
from tracelens.report.text import MET, by_rank
from tracelens.report.training_window import inside, training_window
from tracelens.run.sources import SourceScope

UNIT = re.compile(r"([+−-]?\d[\d.,]* (?:%|ms|s)(?!\w))")
SCRIPTS = ("report", "tryout", "timeline")
EXCERPTS = 12
"""Waits shown with their source; the costliest twelve hold nearly all of the waiting time."""


def render(diagnosis: IllustratedDiagnosis, source: SourceScope = "project") -> str:
    """The page. With `none` no line of the user's source occurs in it."""
    if source == "none":
        diagnosis = replace(diagnosis, sources={})
    style, script = _asset("assets/report.css"), "\n".join(_asset(f"assets/{name}.js") for name in SCRIPTS)
    template = _environment().get_template("template.html")
    return template.render(
        d=diagnosis,
        version=tracelens.__version__,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        document=json.document(diagnosis),
        **_content(diagnosis, source),
    )


def _content(diagnosis: IllustratedDiagnosis, source: SourceScope) -> dict[str, Any]:
    """What the template shows, apart from the Diagnosis itself."""
    schemes = by_rank(diagnosis)
    return {
        "title": diagnosis.run.path.name if diagnosis.run else json.trace_name(diagnosis.traces[0], diagnosis),
        "verdict": wording.verdict(diagnosis),
        "chosen": diagnosis.recommended,
        "commands": next_commands.patch_commands(diagnosis),
        "no_source": next_commands.no_source(diagnosis),
        "next_command": next_commands.after_recommend(diagnosis),
        "unsafe_command": next_commands.with_unsafe(diagnosis),
        "schemes": schemes,
        "redacted": bool(diagnosis.run and diagnosis.run.meta.get("redacted")),
        "criteria": CRITERIA,
        "weights": diagnosis.weights,
        "sensitivity": wording.sensitivity(diagnosis.recommendation),
        "ten_percent": diagnosis.recommendation.sensitivity.get("performance_10_is_percent"),
        "bars": charts.step_times(schemes),
        "tryout": combinations.combination_table(diagnosis),
        "scoring": _scoring(diagnosis, schemes),
        "onestep": step_comparison.compare_steps(diagnosis),
        "ranks": ranks.compare_ranks(diagnosis),
        "segments": charts.breakdown(diagnosis.breakdown),
        "parts": wording.shown_parts(diagnosis.breakdown),
        **_timeline(diagnosis),
        "stalls": _stalls(diagnosis),
        "together": wording.together(diagnosis),
        "beyond": wording.untried(diagnosis),
        "patch": _patch(diagnosis) if source != "none" else None,
        "measured": [
            (trial, charts.prediction_grade(trial), verification_rows.rows(trial)) for trial in diagnosis.verifications
        ],
        "utilization": _utilization(diagnosis),
        "environment": environment(diagnosis),
        "wording": wording,
        "unknown": formatting.UNKNOWN,
        "met": MET,
        "stages": wording.plan(diagnosis),
        "advice": next_commands.advice,
        "situation": wording.situation(diagnosis),
        "unjudged": wording.grouped_abstentions(diagnosis),
        "rejected": wording.grouped_reasons(diagnosis),
        "estimated": [scheme for scheme in schemes if scheme.estimate is not None],
    }


def _timeline(diagnosis: Diagnosis) -> dict[str, Any]:
    """One step as a picture, the recording as a strip, and every event for the canvas."""
    still, packed = step_picture.draw_step(diagnosis.timeline), zoomable_timeline.document(diagnosis)
    tables = diagnosis.timeline.tables
    kinds = {*(still.kinds if still else ()), *tables.ops["kind"], *(f"idle_{cause}" for cause in tables.gaps["cause"])}
    kinds |= {"operator"} if packed and "operators" in _parts(packed) else set()
    return {
        "lanes": still,
        "overview": step_picture.overview(diagnosis.timeline),
        "zoom": packed,
        "kinds": kinds,
        "left_out": zoomable_timeline.left_out(packed),
    }


def _parts(packed: Mapping[str, Any]) -> set[str]:
    return {lane["part"] for lane in packed["lanes"]}


def _scoring(diagnosis: PlannedDiagnosis, schemes: Sequence[Scheme]) -> dict[str, Any]:
    """What the page needs to weigh anew; a scheme that was not judged gets no total, whatever the weights."""
    facts = diagnosis.recommendation.sensitivity
    return {
        "weights": dict(diagnosis.weights),
        "criteria": facts.get("criteria", []),
        "near": facts.get("near_ties", []),
        "schemes": [
            {
                "id": scheme.id,
                "scores": {name: score.score for name, score in scheme.scores.items()},
                "judged": scheme.rank is not None,
                "rank": scheme.rank,
            }
            for scheme in schemes
            if scheme.estimate is not None
        ],
    }


def _stalls(diagnosis: PlannedDiagnosis) -> dict[str, Any]:
    ranked = wording.ranked_stalls(diagnosis)
    chosen = diagnosis.recommended
    removed = {name for edit in (chosen.edits if chosen else ()) for name in edit.stalls}
    detailed = [s for s in ranked if s.location and (s.verdict in ("exposed", "unknown") or s.id in removed)][:EXCERPTS]
    return {
        "all": ranked,
        "detailed": [(stall, around(diagnosis.sources, stall.location, stall.call)) for stall in detailed],
    }


def _patch(diagnosis: PlannedDiagnosis) -> dict[str, Any] | None:
    change = diagnosis.recommended_patch
    if change is None:
        return None
    return {
        "change": change,
        "files": sorted(diff.parse(change.diff), key=lambda file: file.created),
        "text": to_write.diff if (to_write := diagnosis.recommended_to_write) is not None else "",
        "check": next_commands.check(diagnosis),
    }


def _utilization(diagnosis: Diagnosis) -> charts.Utilization | None:
    """One curve per GPU and one for the CPU; what NVML could not tell is a gap. Averages are over the training."""
    rows = diagnosis.monitor
    gpus = max((len(row.get("gpus") or ()) for row in rows), default=0)
    series: dict[str, list[float | None]] = {
        f"GPU {index}" if gpus > 1 else "GPU": [_gpu_share(row, index) for row in rows] for index in range(gpus)
    }
    series["CPU"] = [row.get("cpu_percent") for row in rows]
    return charts.utilization(rows, series, inside(rows, training_window(diagnosis)))


def _gpu_share(row: Mapping[str, Any], index: int) -> float | None:
    gpus = row.get("gpus") or ()
    return gpus[index].get("utilization") if index < len(gpus) else None


def environment(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """What was run on what, in words; names of environment variables only, their values can be secrets."""
    meta = diagnosis.run.meta if diagnosis.run else {}
    machine = meta.get("environment") or {}
    rows: list[tuple[str, Any]] = [("Device", wording.device(diagnosis.timeline.trace))]
    if diagnosis.run is not None and diagnosis.run.command:
        rows.append(("Command", formatting.shorten(" ".join(diagnosis.run.command), 200)))
    for key, name in (("python", "Python"), ("torch", "PyTorch"), ("cuda", "CUDA"), ("driver", "Driver")):
        rows.append((name, machine.get(key)))
    rows.append(("CPU cores", machine.get("cpu_count")))
    git = meta.get("git") or {}
    if git.get("revision"):
        rows.append(("Revision", f"{git['revision'][:12]}{' with local changes' if git.get('dirty') else ''}"))
    for trace in diagnosis.traces:
        rank = "rank unknown" if trace.rank is None else f"rank {trace.rank}"
        dropped = sum(trace.dropped.values())
        lost = f", {dropped:,} rows not used" if dropped else ""
        rows.append((f"Trace, {rank}", f"{json.trace_name(trace, diagnosis)}: {len(trace):,} events{lost}"))
    rows.append(("Steps from", wording.STEP_SOURCE[diagnosis.steps.source]))
    return tuple((name, str(value)) for name, value in rows if value not in (None, ""))


def _units(text: str) -> Markup:
    """Escaped, and no line break between a number and its unit."""
    return Markup(UNIT.sub(r'<span class="unit">\1</span>', str(escape(text))))


def _asset(name: str) -> str:
    return files("tracelens.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "ms": formatting.milliseconds,
        "percent": formatting.percent,
        "step_count": wording.step_count,
        "gain": formatting.gain,
        "clean": formatting.clean,
        "device": wording.device,
        "shorten": formatting.shorten,
        "place": wording.stall_place,
        "call": wording.stall_call,
        "plain": formatting.readable_id,
        "sentence": formatting.capitalized,
        "units": _units,
    }
    return environment
