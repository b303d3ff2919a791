"""The report's acceptance criteria that have no place elsewhere: integrity, content, patch, commands, redaction."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import report_cases as cases
from tests.support.browsing import Opened, marks
from tests.support.places import SAMPLE
from tests.support.schemas import SCHEMA
from tests.support.told import told_parts
from tracelens import pipeline
from tracelens.cli import main
from tracelens.model import Diagnosis, Location
from tracelens.report import html, redact
from tracelens.report import json as json_report

MONITOR = tuple(
    {"unix_ns": k * 10**9, "cpu_percent": 50.0, "gpus": [{"utilization": None if k in (2, 3) else 80}]}
    for k in range(8)
)
NO_NVML = tuple({**row, "gpus": None} for row in MONITOR)
FIXTURES: dict[str, Callable[[], Diagnosis]] = {
    "tiny": lambda: cases.planned(stalls=()),
    "stalls": cases.tried,
    "huge": cases.huge,
    "multi": lambda: replace(cases.tried(), ranks=cases.ranks(8, late=3)),
    "hostile": lambda: cases.with_names(
        "</script><img src=x onerror=window.pwn=1>\u2028\u202e" + "x" * 10_000, cases.tried()
    ),
    "nogpu": lambda: replace(
        cases.planned(), timeline=cases.timeline(None), breakdown=None, gpu_busy_share=None, idle_share=None
    ),
    "nonvml": lambda: cases.recommended(monitor=NO_NVML),
}


def marked(test: Any) -> Any:
    for mark in marks:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def sample() -> Diagnosis:
    examined = pipeline.examine(pipeline.open_inputs((SAMPLE,)))
    return pipeline.illustrate(examined, pipeline.plan(examined))


def embedded(page: str) -> dict[str, Any]:
    block = re.search(r'id="tl-data">(.*?)</script>', page, re.DOTALL)
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


@marked
@pytest.mark.parametrize("name", FIXTURES)
def test_a1_one_request_and_no_complaint(open_page: Callable[..., Opened], name: str) -> None:
    opened = open_page(FIXTURES[name](), viewport={"width": 1280, "height": 800})
    assert [url.split(":")[0] for url in opened.requests] == ["file"]
    assert opened.complaints == [] and opened.page.evaluate("window.pwn") is None
    box = opened.page.locator("h1").bounding_box()  # D8
    assert box["y"] + box["height"] < 400


@pytest.mark.parametrize("name", FIXTURES)
def test_a2_a4_b2_b3_the_text_of_the_page(name: str) -> None:
    page = html.render(FIXTURES[name]())
    assert page == html.render(FIXTURES[name]())
    code = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r'(?:src|href)="(?!#)', code) and "@import" not in code and "<link" not in code
    assert not re.search(r"url\((?!#)", code)
    tags = re.findall(r"<[a-z][^>]*>", code)
    assert not [tag for tag in tags if re.search(r"\s(?:on\w+|style)=", tag)]
    assert "javascript:" not in code and "unsafe-" not in code and "default-src 'none'" in code
    assert code.count("<h1") == 1


@marked
def test_a3_a_copy_in_another_folder_shows_the_same(browser: Any, tmp_path: Path) -> None:
    texts = []
    for place in (tmp_path / "one", tmp_path / "another" / "deeper"):
        place.mkdir(parents=True)
        (place / "r.html").write_text(html.render(cases.tried()), encoding="utf-8")
        page = browser.new_page()
        page.goto((place / "r.html").as_uri())
        page.wait_for_selector("canvas[data-ready]", state="attached")
        texts.append(page.inner_text("body"))
        page.close()
    assert texts[0] == texts[1] and len(texts[0]) > 2000


@pytest.mark.slow
def test_c1_the_verdict_is_short_and_says_where_and_how_much(sample: Diagnosis) -> None:
    page = html.render(sample)
    shown = re.search(r'<meta name="description" content="(.*?)">', page)
    assert shown is not None
    text = unescape(shown[1])
    assert text == embedded(page)["recommendation"]["verdict"] and len(text) <= 240
    assert re.search(r"\d %", text) and re.search(r"\d ms", text) and re.search(r"train\.py:\d+", text)


@pytest.mark.slow
def test_the_headline_is_that_of_the_json_and_short(sample: Diagnosis) -> None:
    page = html.render(sample)
    shown = re.search(r'data-tl="headline">(.*?)</h1>', page)
    assert shown is not None
    text = unescape(re.sub(r"<[^>]*>", "", shown[1]))
    assert text == embedded(page)["headline"] and len(text.split()) <= 12


def test_c2_the_parts_of_a_step_add_up_and_are_those_of_the_json(sample: Diagnosis) -> None:
    page = html.render(sample)
    section = page[page.index('data-tl="parts"') : page.index('aria-label="Who holds it"')]
    shares = [float(one) for one in re.findall(r'<td class="n">([\d.]+) %</td>', section)]
    parts = told_parts(embedded(page))
    assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares) + 0.01)
    expected = [100 * us / sum(parts.values()) for us in parts.values() if us]
    assert sorted(shares) == pytest.approx(sorted(expected), abs=0.051)


def test_c8_each_wait_has_three_numbers_and_its_line_has_bars(sample: Diagnosis) -> None:
    page = html.render(sample)
    rows = re.findall(r'<tr id="stall-\d+".*?</tr>', page, re.DOTALL)
    assert len(rows) == len(sample.stalls)
    assert all(row.count('<td class="n"') == 4 for row in rows)
    idle = sum(ns for part, ns in sample.breakdown.parts.items() if part.startswith("idle_"))  # type: ignore[union-attr]
    for stall in sample.stalls:
        assert (stall.exposed_ns or 0) <= idle + stall.wait_ns
    source = page[page.index('id="source"') : page.index('id="step"')]
    lines = re.findall(r'<li class="([^"]*)"><span class="ln">(\d+)</span>.*?</li>', source)
    bare = {number for css, number in lines if "nobar" in css}
    for stall in sample.stalls:
        if stall.location is not None and stall.wait_ns > 0:
            assert str(stall.location.line) in {number for _, number in lines} - bare


def test_c9_the_displayed_diff_applies_and_the_result_compiles(sample: Diagnosis, tmp_path: Path) -> None:
    page = html.render(sample)
    raw = re.search(r'data-tl="diff">(.*?)</pre>', page, re.DOTALL)
    assert raw is not None
    shutil.copy(SAMPLE.parent / "train.py", tmp_path / "train.py")
    for words in (["init", "-q"], ["apply", "--check", "-"], ["apply", "-"]):
        subprocess.run(["git", *words], cwd=tmp_path, input=unescape(raw[1]), text=True, check=True)
    assert (tmp_path / "train.py").read_bytes() != (SAMPLE.parent / "train.py").read_bytes()
    for file in tmp_path.glob("*.py"):
        ast.parse(file.read_text())
    added = [unescape(one) for one in re.findall(r"<ins>(.*?)</ins>", page)]
    new = [line[1:] for line in unescape(raw[1]).splitlines() if line.startswith("+") and not line.startswith("+++")]
    told = {line.strip() for line in new} | {f"{line.strip()} …" for line in new}  # an excerpt cuts a function
    assert added and {one.strip() for one in added} <= told


@marked
def test_c10_copy_buttons_copy_commands_about_files_that_exist(
    open_page: Callable[..., Opened], sample: Diagnosis
) -> None:
    page = open_page(sample, permissions=["clipboard-read", "clipboard-write"]).page
    buttons = page.locator("#answer button[data-copy]")
    assert buttons.count() == 1
    for index in range(buttons.count()):
        name = buttons.nth(index).get_attribute("data-copy")
        page.evaluate("document.querySelector('#live').textContent = ''")
        buttons.nth(index).click()
        page.wait_for_selector("#live:not(:empty)", state="attached")
        copied = page.evaluate("getSelection().toString()") or page.evaluate("navigator.clipboard.readText()")
        assert copied == page.inner_text(f"#{name}")
        assert (SAMPLE.parent / copied.split()[2]).exists() or copied.split()[2] == SAMPLE.name


def test_c11_c13_missing_samples_are_gaps_and_no_nvml_is_said() -> None:
    page = html.render(cases.recommended(monitor=MONITOR))
    section = page[page.index('id="utilization"') : page.index('id="waits"')]
    assert section.count('<polyline class="curve c0"') == 2 and "100 %" in section and "NVML averages" in section
    nothing = html.render(cases.recommended(monitor=tuple({**row, "gpus": [{"utilization": None}]} for row in MONITOR)))
    section = nothing[nothing.index('id="utilization"') : nothing.index('id="waits"')]
    assert "not available" in section and '<td class="n">0 %' not in section


def test_c14_the_embedded_json_follows_the_published_schema(sample: Diagnosis) -> None:
    jsonschema.validate(embedded(html.render(sample)), SCHEMA)


@marked
def test_d5_without_javascript_every_section_can_be_read(open_page: Callable[..., Opened], sample: Diagnosis) -> None:
    page = open_page(replace(sample, ranks=cases.ranks(4, late=1)), java_script_enabled=False).page
    for section in ("answer", "levers", "source", "step", "timeline", "steps", "tryout", "ranks", "evidence"):
        assert page.locator(f"#{section}").is_visible(), section
    assert "Zooming needs JavaScript" in page.inner_text("#timeline") and page.locator(".still svg").is_visible()
    assert not page.locator("canvas").is_visible() and not page.locator("#tryout input").first.is_visible()
    page.click("#waits summary")
    assert page.locator("#waits tbody tr").count() == len(sample.stalls)
    page.click("#tryout summary")
    assert page.locator("[data-tl=combinations] tbody tr").count() == 7


# ------------------------------------------------------------------------------------------------------- redaction


@pytest.mark.slow
def test_the_command_line_redacts(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    assert main(["report", str(SAMPLE), "-o", str(out), "--redact", "-q"]) == 0
    assert "train.py" not in out.read_text(encoding="utf-8") and "file1.py:83" in out.read_text(encoding="utf-8")


def test_a_redacted_page_has_the_numbers_and_no_names(sample: Diagnosis) -> None:
    place = Location("/srv/private/acme/train.py", 9, "acme_loss")
    found = tuple(replace(one, location=place, evidence=f"in {place.path}") for one in sample.findings)
    secret = replace(sample, findings=found)
    page = html.render(redact.redacted(secret))
    for name in ("train.py", "acme", "/srv", "losses.append", str(Path.cwd()), "loss.backward", "verify run"):
        assert name not in page, name
    assert "file2.py:83" in page or "file1.py:83" in page
    kept, plain = embedded(page), json_report.document(sample)
    assert kept["steps"] == plain["steps"] and kept["breakdown"] == plain["breakdown"]
    assert [one["wait_us_per_step"] for one in kept["syncs"]] == [one["wait_us_per_step"] for one in plain["syncs"]]
    assert "Names, source and patch were left out" in page
