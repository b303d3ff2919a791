"""A Diagnosis as one self-contained HTML page.

In: a Diagnosis, and which source lines may enter the page. Out: the page as text: no network, strict hash-based
content policy, everything visible without JavaScript. Names from traces and sources are untrusted input: the template
escapes all of them. Only our own style sheet and script, and sentences after escaping, are marked safe.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape

import tracelens
from tracelens import messages
from tracelens.messages import joined, say, say_count, shown
from tracelens.model import (
    CRITERIA,
    Diagnosis,
    IllustratedDiagnosis,
    PlannedDiagnosis,
    Scheme,
    SecondOpinion,
    on_baseline,
)
from tracelens.report import (
    annotated_source,
    answer,
    charts,
    combinations,
    evidence,
    first_screen,
    formatting,
    json,
    lever_section,
    next_commands,
    ranks,
    sections,
    step_lengths,
    step_picture,
    wording,
    zoomable_timeline,
)
from tracelens.report.compiled_templates import CompiledTemplates
from tracelens.report.sections import Code
from tracelens.report.text import by_rank
from tracelens.report.training_window import taken_in, training_window
from tracelens.run.sources import SourceScope
from tracelens.units import known_by

UNIT = re.compile(
    r"([+−-]?\d[\d.,]* (?:%|ms|s)(?!\w)|(?<!\S)(?:--[a-z][\w-]*|[a-z]\w{0,24}(?:-\w{1,24}){1,3})(?=[\s.,;:)]|$))"
)
"""A number with its unit, an option of a command and an id with hyphens: what no line breaks inside of."""
SAID = re.compile(r'\bsay\("([^"]+)"')
"""What the scripts of the page say, as they write it."""
SCRIPTS = ("report", "tryout", "timeline")


def render(
    diagnosis: IllustratedDiagnosis, source: SourceScope = "project", opinion: SecondOpinion | None = None
) -> str:
    """The page. With `none` no line of the user's source occurs in it. `opinion`: HTA's."""
    if source == "none":
        diagnosis = replace(diagnosis, sources={})
    recorded, diagnosis = diagnosis, on_baseline(diagnosis)
    style, script = _asset("assets/report.css"), "\n".join(_asset(f"assets/{name}.js") for name in SCRIPTS)
    template, content = _environment().get_template("template.html"), _content(diagnosis, source)
    translations = messages.catalogue()
    return template.render(
        language=translations.info().get("language", "").replace("_", "-") if translations else "en",
        words={text: translations.gettext(text) for text in SAID.findall(script)} if translations else {},
        d=diagnosis,
        version=tracelens.__version__,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        document=json.document(recorded),
        holds=_holds(diagnosis, content),
        **content,
        folded=evidence.folded(diagnosis, opinion),
    )


def _content(diagnosis: IllustratedDiagnosis, source: SourceScope) -> dict[str, Any]:
    """What the template shows, apart from the Diagnosis itself."""
    return {
        "verdict": wording.verdict(diagnosis),
        "chips": _chips(diagnosis),
        "answer": answer.answer(diagnosis),
        "columns": first_screen.time_columns(diagnosis),
        "redacted": bool(diagnosis.run and diagnosis.run.meta.get("redacted")),
        "unsafe_command": partial(next_commands.with_unsafe, words=next_commands.plan(diagnosis)),
        "levers": lever_section.lever_table(diagnosis),
        "overlap": lever_section.same_idle_time(diagnosis),
        **_source(diagnosis, source),
        "parts": sections.step_parts(diagnosis),
        "segments": charts.breakdown(diagnosis.breakdown),
        "owners": sections.owners(diagnosis),
        **_timeline(diagnosis),
        "lengths": step_lengths.step_lengths(diagnosis),
        "tryout": combinations.combination_table(diagnosis),
        "ranks": ranks.compare_ranks(diagnosis),
        **_evidence(diagnosis),
        "wording": wording,
        "known_by": known_by,
    }


def _holds(diagnosis: IllustratedDiagnosis, content: Mapping[str, Any]) -> str:
    """What is in the file, for somebody who sends it on."""
    parts = [say("the numbers above")]
    if content["zoom"]:
        parts.append(say("the events of the timeline"))
    if diagnosis.sources:
        count = len(diagnosis.sources)
        parts.append(say_count("lines of {count} source file", "lines of {count} source files", count))
    if content["diff_text"]:
        parts.append(say("the patch"))
    listed = joined(", ", parts)
    return say("This file holds {parts} and the analysis as JSON; it loads and sends nothing.", parts=listed)


def _chips(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What was recorded, in a few words."""
    script = diagnosis.run.script if diagnosis.run else None
    name = script.name if script is not None else json.trace_name(diagnosis.traces[0], diagnosis)
    several = len(diagnosis.traces)
    of_ranks = (say("slowest of {count} ranks", count=several),) if several > 1 else ()
    counted = say("{steps} recorded", steps=wording.step_count(diagnosis))
    counted = counted if diagnosis.steps.source != "none" else say("steps not found")
    return (name, wording.device(diagnosis.timeline.trace), counted, *of_ranks)


def _source(diagnosis: PlannedDiagnosis, source: SourceScope) -> dict[str, Any]:
    """The loop with the change; without source nothing of either."""
    if source == "none":
        return {"source": annotated_source.AnnotatedSource(()), "hunks": None, "diff_text": ""}
    to_write = diagnosis.recommended_to_write
    return {
        "source": annotated_source.annotated_source(diagnosis),
        "hunks": evidence.hunks(diagnosis),
        "diff_text": to_write.diff if to_write is not None else "",
    }


def _evidence(diagnosis: IllustratedDiagnosis) -> dict[str, Any]:
    schemes = by_rank(diagnosis)
    scored = [scheme for scheme in schemes if scheme.total is not None]
    graded = (charts.prediction_grade(trial) for trial in diagnosis.verifications)
    return {
        "measured": list(zip(evidence.trials(diagnosis), graded, strict=True)),
        "estimated": sections.estimates(diagnosis),
        "scored": scored,
        "criteria": [name for name in CRITERIA if any(name in scheme.scores for scheme in scored)],
        "weights": diagnosis.weights,
        "score_note": sections.score_note(diagnosis),
        "scoring": _scoring(diagnosis, schemes),
        "utilization": _utilization(diagnosis),
    }


def _timeline(diagnosis: Diagnosis) -> dict[str, Any]:
    """One step as a picture, the recording as a strip, and every event for the canvas."""
    still, packed = step_picture.draw_step(diagnosis.timeline), zoomable_timeline.document(diagnosis)
    tables = diagnosis.timeline.tables
    kinds = {*(still.kinds if still else ()), *tables.ops["kind"].used()}
    kinds |= {f"idle_{cause}" for cause in tables.gaps["cause"].used()}
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
    """What the page needs to rank anew by schemes/ranking.py's rule: the gain, which pairs it cannot tell apart, and
    the scores. A scheme that was not judged gets no total, whatever the weights."""
    facts = diagnosis.recommendation.sensitivity
    return {
        "weights": dict(diagnosis.weights),
        "criteria": facts.get("criteria", []),
        "ties": facts.get("ties", []),
        "schemes": [
            {
                "id": scheme.id,
                "scores": {name: score.score for name, score in scheme.scores.items()},
                "rank": scheme.rank,
                "share": scheme.estimate.step_ns / scheme.estimate.base_ns,
                "measured": scheme.estimate.evidence == "measured",
            }
            for scheme in schemes
            if scheme.estimate is not None and scheme.total is not None
        ],
    }


def _utilization(diagnosis: Diagnosis) -> charts.Utilization | None:
    """One curve per GPU and one for the CPU; what NVML could not tell is a gap. Averages are over the training."""
    rows = diagnosis.monitor
    gpus = max((len(row.get("gpus") or ()) for row in rows), default=0)
    series: dict[str, list[float | None]] = {
        f"GPU {index}" if gpus > 1 else "GPU": [_gpu_share(row, index) for row in rows] for index in range(gpus)
    }
    series["CPU"] = [row.get("cpu_percent") for row in rows]
    return charts.utilization(rows, series, taken_in(rows, training_window(diagnosis)))


def _gpu_share(row: Mapping[str, Any], index: int) -> float | None:
    gpus = row.get("gpus") or ()
    return gpus[index].get("utilization") if index < len(gpus) else None


def _units(text: str) -> Markup:
    """Escaped, and no line break between a number and its unit."""
    return Markup(UNIT.sub(r'<span class="unit">\1</span>', str(escape(shown(text)))))


def _clean(text: str) -> str:
    return formatting.clean(shown(text))


def _shorten(text: str, limit: int = 60) -> str:
    return formatting.shorten(shown(text), limit)


def _translated(value: Any) -> Any:
    """What a script of the page shows, which is made of lists and mappings of texts."""
    if isinstance(value, Mapping):
        return {key: _translated(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_translated(one) for one in value]
    return _finalize(value)


def _finalize(value: object) -> object:
    """What an expression of a template becomes before it is escaped."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> str:
    return files("tracelens.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    # Not optimized: what is kept would otherwise hold what our filters made of constants, and outlive a change of them.
    settings: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "optimized": False}
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        undefined=jinja2.StrictUndefined,
        bytecode_cache=CompiledTemplates(repr(settings)),
        finalize=_finalize,
        **settings,
    )
    environment.filters |= {"translated": _translated, "clean": _clean, "shorten": _shorten, "units": _units}
    environment.globals |= {"say": say, "say_count": say_count, "joined": joined, "shown": shown}
    environment.tests["code"] = lambda value: isinstance(value, Code)
    return environment
