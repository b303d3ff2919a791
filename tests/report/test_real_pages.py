"""The page of every bundled Run and of three traces of other machines: length, print, phone, nothing cut."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.browsing import Opened, marks
from tests.support.recordings import RECORDED_ELSEWHERE, RUNS, plan_of
from tracelens.report import html

pytestmark = [*marks, pytest.mark.slow]
SCREEN = {"width": 1280, "height": 800}
CUT = (
    "[...document.querySelectorAll('.scroll, table.lev, .src')].filter(one => one.checkVisibility())"
    ".filter(one => !one.querySelector('#scoring, svg.wide') && one.scrollWidth > one.clientWidth + 1)"
    ".map(one => one.outerHTML.slice(0, 90))"
)


@pytest.mark.parametrize("name", [*RUNS, *RECORDED_ELSEWHERE])
def test_a_page_is_short_and_nothing_in_it_is_cut(open_page: Callable[..., Opened], name: str) -> None:
    page = html.render(plan_of(name))
    opened = open_page(page, viewport=SCREEN)
    wide = opened.page
    assert opened.complaints == []
    assert len(wide.inner_text("h1").split()) <= 12
    assert wide.evaluate("document.querySelector('nav').getBoundingClientRect().bottom") <= 820  # the first screen
    assert (
        wide.evaluate("document.documentElement.scrollHeight") <= 6.1 * SCREEN["height"]
    )  # plain lines take more of the page than a helper's call
    assert len(re.findall(rb"/Type\s*/Page\b", wide.pdf(format="A4"))) <= 8
    wide.set_viewport_size({"width": 390, "height": 844})
    wide.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert wide.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert wide.evaluate(CUT) == []
