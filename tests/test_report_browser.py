"""The page in a real browser: no request, no error, no violation, hostile names inert, readable without JavaScript."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_cases as cases

from tracelens.model import Diagnosis, Location
from tracelens.report import html

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt install chromium"),
]
HOSTILE = "</script><script>window.pwn=1</script><img src=x onerror=window.pwn=1>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # a container has no user namespaces to build the sandbox from; the page is our own
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Opened:
    """A page and what it did."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def opened(diagnosis: Diagnosis, **settings: Any) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(html.render(diagnosis), encoding="utf-8")
        context = browser.new_context(**settings)
        contexts.append(context)
        result = Opened(context.new_page())
        result.page.goto(file.as_uri())
        return result

    yield opened
    for context in contexts:
        context.close()


def hostile() -> Diagnosis:
    base = cases.recommended()
    stalls = tuple(
        replace(s, api=HOSTILE, call=HOSTILE, location=Location("train.py", 11, HOSTILE)) for s in base.stalls
    )
    findings = tuple(replace(f, evidence=HOSTILE, title=HOSTILE) for f in base.findings)
    return replace(
        base,
        stalls=stalls,
        findings=findings,
        sources={"train.py": "\n".join([HOSTILE] * 12)},
        traces=(cases.trace(HOSTILE, HOSTILE),),
        timeline=cases.timeline(HOSTILE),
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_request_no_error_no_violation(open_page: Callable[..., Opened], scheme: str) -> None:
    for diagnosis in (cases.recommended(), cases.diagnosis()):
        opened = open_page(diagnosis, color_scheme=scheme)
        assert len(opened.requests) == 1 and opened.requests[0].startswith("file://")
        assert opened.complaints == []


def test_hostile_names_are_shown_as_text_and_do_nothing(open_page: Callable[..., Opened]) -> None:
    opened = open_page(hostile())
    assert opened.page.evaluate("window.pwn") is None
    assert HOSTILE in opened.page.inner_text("#waits")
    assert opened.page.locator("img").count() == 0
    assert opened.complaints == [] and len(opened.requests) == 1


def test_everything_but_buttons_is_there_without_javascript(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended(), java_script_enabled=False).page
    assert page.inner_text("[data-tl=verdict]") == cases.recommended().recommendation.verdict  # type: ignore[union-attr]
    text = page.inner_text("main")
    for said in (
        "tracelens apply",
        "event-interval",
        "Idle: synchronize",
        "train.py:11",
        "losses.push(loss)",
        "predicted",
    ):
        assert said in text, said
    assert page.locator("#timeline svg rect").count() > 5
    assert not page.locator("#theme").is_visible()


@pytest.mark.parametrize("width", [390, 768, 1280, 3840])
def test_the_page_never_scrolls_sideways(open_page: Callable[..., Opened], width: int) -> None:
    page = open_page(hostile(), viewport={"width": width, "height": 900}).page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_long_name_does_not_push_the_verdict_below_the_fold(open_page: Callable[..., Opened]) -> None:
    long = cases.recommended(traces=(cases.trace(path="x" * 10_000),), run=None)
    box = open_page(long, viewport={"width": 1280, "height": 800}).page.locator("h1").bounding_box()
    assert box["y"] + box["height"] < 400


def test_the_theme_button_switches_and_is_remembered(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended(), color_scheme="light").page
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert before != after
    page.reload()
    page.wait_for_function("color => getComputedStyle(document.body).backgroundColor === color", arg=after)


def test_a_copy_button_copies_the_command_it_stands_beside(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended(), permissions=["clipboard-read", "clipboard-write"]).page
    page.click("button[data-copy=command-2]")
    page.wait_for_function("document.querySelector('#live').textContent !== ''")
    copied = page.evaluate("getSelection().toString()") or page.evaluate("navigator.clipboard.readText()")
    assert copied == "tracelens apply tracelens-runs/r1 --scheme event-interval"


def test_it_prints_with_everything_open(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended()).page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert len(page.pdf()) > 10_000
