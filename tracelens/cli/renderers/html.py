"""One self-contained page, for `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens.cli.renderers.renderer import PlanAnswer, Renderer

if TYPE_CHECKING:
    from tracelens.cli.options import Presentation


def _page(answer: PlanAnswer, _: Presentation) -> str:
    from tracelens.report import html

    return html.render(answer.diagnosis, answer.options.source, answer.opinion)


RENDERER = Renderer(name="html", about="one self-contained page for people", suffix=".html", page=_page)
