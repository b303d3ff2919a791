"""Draw the pictures of docs/images/: the report of four sample cases in both themes, on a phone, zoomed, and the card.

    make screenshots

Looked at by a person after each change of the page: spacing, cut labels, contrast, wording.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tracelens import pipeline
from tracelens.report import card, html

ROOT = Path(__file__).resolve().parents[2]
OUT = Path(__file__).resolve().parent
CASES = ("sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound")
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no chromium on PATH: apt install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for case in CASES:
            file = Path(folder) / f"{case}.html"
            diagnosis = _diagnosis(case)
            file.write_text(html.render(diagnosis), encoding="utf-8")
            if case == CASES[0]:
                (OUT / "card.svg").write_text(card.render(diagnosis), encoding="utf-8")
            for theme in ("light", "dark"):
                _draw(browser, file, theme, OUT / f"report-{case}-{theme}.png")
        first = Path(folder) / f"{CASES[0]}.html"
        _draw_phone(browser, first)
        for theme in ("light", "dark"):
            _draw_parts(browser, first, theme)
        browser.close()
    return 0


def _diagnosis(case: str) -> Any:
    examined = pipeline.examine(pipeline.open_inputs((ROOT / "sample_traces" / case / "run",)))
    return pipeline.illustrate(examined, pipeline.plan(examined))


def _opened(browser: Any, file: Path, theme: str, viewport: dict[str, int]) -> Any:
    page = browser.new_page(viewport=viewport, color_scheme=theme, reduced_motion="reduce")
    page.goto(file.as_uri())
    page.wait_for_selector("canvas[data-ready]", state="attached")
    return page


def _draw(browser: Any, file: Path, theme: str, out: Path) -> None:
    """What one sees first."""
    page = _opened(browser, file, theme, WIDE)
    page.screenshot(path=out)
    page.close()


def _draw_phone(browser: Any, file: Path) -> None:
    page = _opened(browser, file, "light", PHONE)
    page.screenshot(path=OUT / "report-phone.png")
    page.evaluate("document.querySelector('#timeline').scrollIntoView()")
    page.screenshot(path=OUT / "report-phone-timeline.png")
    page.close()


def _draw_parts(browser: Any, file: Path, theme: str) -> None:
    """Levers, the loop line by line, and the timeline with its largest idle gaps."""
    page = _opened(browser, file, theme, WIDE)
    for part in ("levers", "source"):
        page.locator(f"#{part}").screenshot(path=OUT / f"{part}-{theme}.png")
    page.focus("#lanes")
    for key in "gg--":
        page.keyboard.press(key)
    page.wait_for_timeout(200)
    page.locator("#timeline").screenshot(path=OUT / f"timeline-{theme}.png")
    page.close()


if __name__ == "__main__":
    sys.exit(main())
