"""Accessibility: WCAG 2.1 AA as axe-core judges it, the keyboard, narrow and enlarged windows, print."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from tests.support import report_cases as cases
from tests.support.browsing import Opened, marks
from tracelens.model import Diagnosis

pytestmark = marks
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
MONITOR = tuple(
    {"unix_ns": k * 10**9, "cpu_percent": 50.0, "gpus": [{"utilization": None if k in (2, 3) else 80}]}
    for k in range(8)
)


def full() -> Diagnosis:
    """Every section there is."""
    return replace(cases.tried(), monitor=MONITOR, ranks=cases.ranks(8, late=3))


def violations(page: Any) -> list[str]:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("levels => axe.run(document, {runOnly: {type: 'tag', values: levels}})", LEVELS)
    assert len(found["passes"]) > 20  # it looked
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
@pytest.mark.parametrize("case", [full, cases.planned], ids=["everything", "nothing recommended"])
def test_axe_finds_nothing(
    open_page: Callable[..., Opened], scheme: str, width: int, case: Callable[[], Diagnosis]
) -> None:
    page = open_page(case(), color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 900}).page
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert violations(page) == []


def test_axe_would_find_something(open_page: Callable[..., Opened]) -> None:
    page = open_page(full(), color_scheme="light", bypass_csp=True).page
    page.evaluate("document.querySelector('h1').style.color = '#ddd'")
    assert any(one.startswith("color-contrast") for one in violations(page))


def test_tab_reaches_every_control_and_shows_where_it_is(open_page: Callable[..., Opened]) -> None:
    page = open_page(full()).page
    expected = page.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, canvas, [tabindex=\"0\"]')]"
        ".filter(one => one.checkVisibility({visibilityProperty: true}) && !one.disabled).length"
    )
    reached = set()
    for _ in range(expected + 5):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(() => { const one = document.activeElement; const all = [...document.querySelectorAll('*')];"
                " if (one === document.body) return null; const style = getComputedStyle(one);"
                " const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;"
                " return [all.indexOf(one), ring].join() })()"
            )
        )
    reached.discard(None)
    assert len(reached) == expected
    assert all(one.endswith("true") for one in reached)


@pytest.mark.parametrize("colors", ["none", "active"])
@pytest.mark.parametrize("width", [390, 640])
def test_enlarged_and_in_forced_colors_nothing_scrolls_sideways(
    open_page: Callable[..., Opened], width: int, colors: str
) -> None:
    """640 px is 1280 px at 200 %."""
    page = open_page(full(), viewport={"width": width, "height": 900}, forced_colors=colors).page
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_moves_for_people_who_asked_for_less_motion(open_page: Callable[..., Opened]) -> None:
    page = open_page(full(), reduced_motion="reduce").page
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_targets_are_large_enough(open_page: Callable[..., Opened]) -> None:
    page = open_page(full(), viewport={"width": 390, "height": 900}).page
    small = page.evaluate(
        "[...document.querySelectorAll('button, input')].filter(one => one.checkVisibility())"
        ".map(one => [one.outerHTML.slice(0, 80), one.type === 'checkbox' ? one.closest('label') : one])"
        ".map(([text, one]) => [text, one.getBoundingClientRect()])"
        ".filter(([, box]) => box.width < 24 || box.height < 24).map(([text]) => text)"
    )
    assert small == []


def test_the_theme_switch_works_where_nothing_can_be_stored(open_page: Callable[..., Opened]) -> None:
    opened = open_page(full(), color_scheme="light")
    page = opened.page
    page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('denied') }})")
    page.reload()
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.complaints == []


def test_the_print_has_every_section_on_few_pages(open_page: Callable[..., Opened]) -> None:
    page = open_page(full()).page
    page.emulate_media(media="print")
    assert page.locator(".still svg").is_visible() and not page.locator("canvas").is_visible()
    assert page.evaluate("[...document.querySelectorAll('section')].every(one => one.checkVisibility())")
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert 2 <= sheets <= 8
