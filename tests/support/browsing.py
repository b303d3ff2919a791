"""Opening the page in a real browser: fixtures for the tests that do (conftest.py hands them out)."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tracelens.model import Diagnosis
from tracelens.report import html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
marks = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt install chromium"),
]


class Opened:
    """A page and what it did."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        # a container has no user namespaces to build the sandbox from; the page is our own
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        # a loader's worker that an earlier test has left has copies of our pipes: the browser would not see their end
        for worker in multiprocessing.active_children():
            worker.kill()
            worker.join()
        chromium.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def opened(diagnosis: Diagnosis | str, at: str = "", **settings: Any) -> Opened:
        """`diagnosis` may be a page that is rendered already; `at` is what follows its address."""
        file = tmp_path / "report.html"
        page = diagnosis if isinstance(diagnosis, str) else html.render(diagnosis)
        file.write_text(page, encoding="utf-8")
        # smooth scrolling would move what a test is about to click
        context = browser.new_context(**{"reduced_motion": "reduce", **settings})
        contexts.append(context)
        result = Opened(context.new_page())
        result.page.goto(file.as_uri() + at)
        if settings.get("java_script_enabled", True) and 'id="tl-timeline"' in page:
            result.page.wait_for_selector("canvas[data-ready]", state="attached")
        return result

    yield opened
    for context in contexts:
        context.close()
