"""The page: one file, nothing from outside, hostile names as text, the same bytes each time, no source on wish."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from tests.support import report_cases as cases
from tracelens.model import Abstention, ComparedQuantity, Location, SecondOpinion
from tracelens.report import html, text
from tracelens.report import json as json_report
from tracelens.report.terminal import TerminalStyle

HOSTILE = "</script><img src=x onerror=window.pwn=1>"


class Page(HTMLParser):
    """Tags with attributes, and the text of style and script elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, list[str]] = {"style": [], "script": [], "tl-data": []}
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("style", "script"):
            name = dict(attrs).get("id") if dict(attrs).get("type") == "application/json" else tag
            self._inside = name
            self.blocks.setdefault(name or "", [])

    def handle_endtag(self, tag: str) -> None:
        if tag in ("style", "script"):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.blocks[self._inside].append(data)


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_our_style_and_script_and_nothing_else() -> None:
    page = Page(html.render(cases.recommended()))
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "unsafe-" not in policy
    for kind in ("style", "script"):
        (block,) = page.blocks[kind]
        assert f"{kind}-src '{hash_of(block)}'" in policy


def test_nothing_comes_from_outside_and_nothing_is_inline() -> None:
    for tag, attributes in Page(html.render(cases.recommended())).tags:
        assert tag not in ("link", "img", "iframe", "object"), tag
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith("#"), attributes


def test_two_renders_are_the_same_bytes() -> None:
    assert html.render(cases.recommended()) == html.render(cases.recommended())


def test_hostile_names_are_text_everywhere() -> None:
    base = cases.recommended()
    stalls = tuple(replace(s, api=HOSTILE, call=HOSTILE, location=Location(HOSTILE, 1, HOSTILE)) for s in base.stalls)
    findings = tuple(replace(f, evidence=HOSTILE, location=Location(HOSTILE, 1)) for f in base.findings)
    timeline = cases.timeline(HOSTILE)
    evil = replace(
        base, stalls=stalls, findings=findings, timeline=timeline, traces=(cases.trace(HOSTILE, HOSTILE),),
        sources={HOSTILE: f"x = '{HOSTILE}'"},
    )  # fmt: skip
    out = html.render(evil)
    assert "<img" not in out and out.count("</script>") == out.count("<script")
    assert "&lt;/script&gt;&lt;img src=x onerror=window.pwn=1&gt;" in out


def test_the_embedded_json_is_the_json_report() -> None:
    diagnosis = cases.recommended()
    (block,) = Page(html.render(diagnosis)).blocks["tl-data"]
    assert json.loads(block) == json_report.document(diagnosis)


def test_without_source_no_line_of_the_script_is_in_the_page() -> None:
    diagnosis = cases.recommended()
    shown, hidden = html.render(diagnosis), html.render(diagnosis, "none")
    lines = [line.strip() for line in cases.SOURCE.splitlines() if len(line.strip()) > 12]
    assert any(line in shown for line in lines)
    assert not [line for line in lines if line in hidden]


def test_no_home_folder_is_in_the_page() -> None:
    diagnosis = cases.recommended(traces=(cases.trace(path="/home/somebody/private/x.json.gz"),))
    assert "/home/" not in html.render(diagnosis) and str(Path.cwd()) not in html.render(diagnosis)


def test_the_command_names_the_run() -> None:
    assert "tracelens apply tracelens-runs/r1" in html.render(cases.recommended())


def test_the_diff_on_the_page_is_the_diff() -> None:
    out = html.render(cases.recommended())
    raw = re.search(r'data-tl="diff">(.*?)</pre>', out, re.DOTALL)
    assert raw is not None and unescape(raw[1]) == cases.DIFF
    below = out[out.index('<section id="source"') :]
    assert below.count("<ins>") == 1 and below.count("<del>") == 2


def test_a_diagnosis_without_gpu_steps_or_schemes_renders() -> None:
    timeline = cases.timeline(None)
    empty = replace(timeline, tables=replace(timeline.tables, steps=timeline.tables.steps[:0]))
    bare = replace(
        cases.planned(), timeline=empty, breakdown=None, gpu_busy_share=None, idle_share=None, overlap=None,
        stalls=(), findings=(), abstentions=(), inventory=(),
    )  # fmt: skip
    out = html.render(bare)
    assert "no GPU events" in out and 'id="timeline"' not in out
    assert "did not wait for the GPU" not in out and "nothing that the host could have waited for" in out


def test_no_row_of_waits_is_health_only_where_waits_could_be_seen() -> None:
    base = replace(cases.planned(), stalls=())
    assert "The host did not wait for the GPU in this recording." in html.render(base)
    blind = replace(base.timeline.trace, signals=frozenset({"gpu"}))
    out = html.render(replace(base, timeline=replace(base.timeline, trace=blind)))
    assert "calls were not recorded" in out and "did not wait for the GPU" not in out


def test_a_recommendation_without_its_patch_says_why_and_sends_nobody_to_verify() -> None:
    """The script changed since: `verify` would only refuse."""
    missing = Abstention("patch", "the training script train.py changed since it was recorded", "record again")
    base = cases.recommended()
    stage = replace(base.recommendation.stages[0], advice="next command", command=("verify", "event-interval"))
    answer = replace(base.recommendation, stages=(stage,))
    unpatched = replace(base, patches={}, abstentions=(missing,), recommendation=answer)
    for shown in (html.render(unpatched), text.recommendation(unpatched, TerminalStyle(120, color=False))):
        assert "train.py changed since it was recorded; record again" in shown
        assert "verify tracelens-runs/r1" not in shown
    assert "verify tracelens-runs/r1/ --lever event-interval" in html.render(replace(base, recommendation=answer))


def test_a_page_that_leaves_the_decision_to_a_trial_has_its_command() -> None:
    base = cases.recommended()
    unsure = replace(base.recommendation, scheme=None, measure="event-interval", stages=())
    out = html.render(replace(base, recommendation=unsure, verifications=()))
    assert "tracelens fix tracelens-runs/r1/ event-interval" in re.sub(r"<[^>]+>", "", out)


def test_missing_utilization_is_a_gap_and_said_to_be_missing() -> None:
    rows = [
        {"unix_ns": k * 10**9, "cpu_percent": 50.0, "gpus": [{"utilization": None if k in (2, 3) else 80}]}
        for k in range(8)
    ]
    out = html.render(cases.recommended(monitor=tuple(rows)))
    assert out.count('<polyline class="curve c0"') == 2 and out.count('<polyline class="curve c1"') == 1
    nothing = [{**row, "gpus": None} for row in rows]
    assert html.render(cases.recommended(monitor=tuple(nothing))).count("<polyline") == 1  # the CPU's


def test_a_second_opinion_is_a_fold_with_the_numbers_of_the_terminal() -> None:
    quantities = (ComparedQuantity("GPU idle", "ms", 121.2, 118.5), ComparedQuantity("critical path", "ms", None, None))
    opinion = SecondOpinion("HTA", "0.5.0", quantities, ("it rounds",))
    page = html.render(cases.recommended(), opinion=opinion)
    fold = page.partition('id="opinion"')[2].partition("</details>")[0]
    said = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", fold)).replace("\u00a0", " "))
    assert "GPU idle 121.2 ms 118.5 ms differ" in said and "critical path – –" in said and "it rounds." in said
    assert 'id="opinion"' not in html.render(cases.recommended())
    told = " ".join(text.analysis(cases.diagnosis(), TerminalStyle(100), opinion=opinion).split())
    assert "GPU idle 121.2 ms 118.5 ms differ" in told and "it rounds." in told
