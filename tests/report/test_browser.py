"""The page in a real browser: no request, no error, no violation, hostile names inert, readable without JavaScript."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import report_cases as cases
from tests.support.browsing import Opened, marks
from tracelens.model import Diagnosis

pytestmark = marks
HOSTILE = "</script><script>window.pwn=1</script><img src=x onerror=window.pwn=1>"


def hostile() -> Diagnosis:
    return cases.with_names(HOSTILE, cases.tried())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_request_no_error_no_violation(open_page: Callable[..., Opened], scheme: str) -> None:
    for diagnosis in (cases.recommended(), cases.planned()):
        opened = open_page(diagnosis, color_scheme=scheme)
        assert len(opened.requests) == 1 and opened.requests[0].startswith("file://")
        assert opened.complaints == []


def test_hostile_names_are_shown_as_text_and_do_nothing(open_page: Callable[..., Opened]) -> None:
    opened = open_page(hostile())
    assert opened.page.evaluate("window.pwn") is None
    opened.page.click("#waits summary")
    assert HOSTILE in opened.page.inner_text("#waits")
    assert opened.page.locator("img").count() == 0
    assert opened.complaints == [] and len(opened.requests) == 1


def test_everything_but_buttons_is_there_without_javascript(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended(), java_script_enabled=False).page
    text = page.inner_text("main")
    for said in (
        "tracelens apply",
        "Idle: synchronize",
        "train.py, lines 11–12",
        "losses.push(loss)",
        "Predicted and measured: Wait every 10th batch (event-interval)",
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
    same = "color => getComputedStyle(document.body).backgroundColor === color"
    page.wait_for_function(same, arg=after, polling=50)  # not by frames, which a busy machine may draw none of


def test_a_copy_button_copies_the_command_it_stands_beside(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended(), permissions=["clipboard-read", "clipboard-write"]).page
    page.click("button[data-copy=command-next]")
    page.wait_for_selector("#live:not(:empty)", state="attached")
    copied = page.evaluate("getSelection().toString()") or page.evaluate("navigator.clipboard.readText()")
    assert copied == "tracelens apply tracelens-runs/r1/"


def test_it_prints_with_everything_open(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.recommended()).page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert len(page.pdf()) > 10_000
