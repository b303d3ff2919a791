"""A Diagnosis as one self-contained HTML page.

In: a Diagnosis, and which source lines may enter the page. Out: the page as text: no network, strict hash-based
content policy, everything visible without JavaScript. Names from traces and sources are hostile input: the template
escapes all of them, and the only text marked safe is our own style sheet and script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, Literal

import jinja2
from markupsafe import Markup

import tracelens
from tracelens.model import CRITERIA, Diagnosis, Patch, Scheme
from tracelens.report import commands, diff, json, lanes, measured, pictures, words
from tracelens.report.excerpt import around
from tracelens.report.text import MET, by_rank

Source = Literal["all", "project", "none"]
EXCERPTS = 12
"""Waits shown with their source: the ones after the twelfth cost too little to be read about."""


def render(diagnosis: Diagnosis, source: Source = "project") -> str:
    """The page. With `none` no line of the user's source occurs in it."""
    if source == "none":
        diagnosis = replace(diagnosis, sources={})
    style, script = _asset("assets/report.css"), _asset("assets/report.js")
    template = _environment().from_string(_asset("template.html"))
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


def _content(diagnosis: Diagnosis, source: Source) -> dict[str, Any]:
    """What the template shows, apart from the Diagnosis itself."""
    schemes = by_rank(diagnosis)
    return {
        "title": diagnosis.run.path.name if diagnosis.run else json.trace_name(diagnosis.traces[0], diagnosis),
        "verdict": words.headline(diagnosis),
        "chosen": _chosen(diagnosis),
        "commands": commands.patch_commands(diagnosis),
        "next_command": commands.after_recommend(diagnosis),
        "schemes": schemes,
        "criteria": CRITERIA,
        "weights": diagnosis.weights,
        "sensitivity": words.sensitivity(diagnosis.recommendation),
        "bars": pictures.step_times(schemes),
        "segments": pictures.breakdown(diagnosis.breakdown),
        "parts": words.shown_parts(diagnosis.breakdown),
        "lanes": lanes.of(diagnosis.timeline),
        "stalls": _stalls(diagnosis),
        "patch": _patch(diagnosis) if source != "none" else None,
        "measured": [(one, pictures.graded(one), measured.rows(one)) for one in diagnosis.verifications],
        "utilization": _utilization(diagnosis.monitor),
        "environment": environment(diagnosis),
        "words": words,
        "met": MET,
        "stages": words.plan(diagnosis),
        "advice": commands.advice,
        "situation": words.situation(diagnosis),
        "unjudged": words.grouped_abstentions(diagnosis),
        "rejected": words.grouped_reasons(diagnosis),
        "estimated": [scheme for scheme in schemes if scheme.estimate is not None],
    }


def _chosen(diagnosis: Diagnosis) -> Scheme | None:
    wanted = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    return next((scheme for scheme in diagnosis.schemes if scheme.id == wanted), None)


def _stalls(diagnosis: Diagnosis) -> dict[str, Any]:
    ranked = words.ranked_stalls(diagnosis)
    chosen = _chosen(diagnosis)
    removed = {name for edit in (chosen.edits if chosen else ()) for name in edit.stalls}
    detailed = [s for s in ranked if s.location and (s.verdict in ("exposed", "unknown") or s.id in removed)][:EXCERPTS]
    return {
        "all": ranked,
        "detailed": [(stall, around(diagnosis.sources, stall.location, stall.call)) for stall in detailed],
    }


def _patch(diagnosis: Diagnosis) -> dict[str, Any] | None:
    wanted = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    change: Patch | None = diagnosis.patches.get(wanted) if wanted else None
    if change is None:
        return None
    return {"change": change, "files": diff.parse(change.diff)}


def _utilization(rows: Sequence[Mapping[str, Any]]) -> pictures.Utilization | None:
    """One curve per GPU and one for the CPU; what NVML could not tell is a gap."""
    gpus = max((len(row.get("gpus") or ()) for row in rows), default=0)
    series: dict[str, list[float | None]] = {
        f"GPU {index}" if gpus > 1 else "GPU": [_gpu_share(row, index) for row in rows] for index in range(gpus)
    }
    series["CPU"] = [row.get("cpu_percent") for row in rows]
    return pictures.utilization(rows, series)


def _gpu_share(row: Mapping[str, Any], index: int) -> float | None:
    gpus = row.get("gpus") or ()
    return gpus[index].get("utilization") if index < len(gpus) else None


def environment(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """What was run on what, in words; names of environment variables only, their values can be secrets."""
    meta = diagnosis.run.meta if diagnosis.run else {}
    machine = meta.get("environment") or {}
    rows: list[tuple[str, Any]] = [("Device", diagnosis.timeline.trace.device or "no GPU in the recording")]
    if diagnosis.run is not None:
        rows.append(("Command", words.shorten(" ".join(diagnosis.run.command), 200)))
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
    rows.append(("Steps from", words.STEP_SOURCE[diagnosis.steps.source]))
    return tuple((name, str(value)) for name, value in rows if value not in (None, ""))


def _asset(name: str) -> str:
    return files("tracelens.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "ms": words.milliseconds,
        "percent": words.percent,
        "gain": words.gain,
        "clean": words.clean,
        "shorten": words.shorten,
        "place": words.stall_place,
        "call": words.stall_call,
        "plain": words.plain,
        "sentence": words.sentence,
    }
    return environment
