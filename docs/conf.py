"""The documentation site: Sphinx with MyST and furo.

    python -m sphinx -W -b html docs docs/_build

Every page is Markdown that also reads well where it lies in the repository. What the program can print is printed by
the program (`docs/generate.py`), and a test holds the pages against it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tracelens  # noqa: E402 - from this checkout

project = "TraceLens"
author = "The TraceLens authors"
copyright = "the TraceLens authors, MIT licence"  # noqa: A001 - Sphinx's name
version = release = tracelens.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "images", "data"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
highlight_language = "none"  # what is not said to be Python is what a terminal shows

autodoc_mock_imports = ["torch"]  # the API can be documented where torch is not installed, and at once where it is
autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = "TraceLens"
html_copy_source = False
html_show_sourcelink = False
html_static_path: list[str] = []

REST = "<!-- the remaining pages -->"
PUBLIC = "<!-- the public names -->"
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?![a-z]+:|#)([^)\s]+)\)")


def _fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put what only Sphinx needs into a page: the pages that nobody listed, the public names; and show links to files
    that are no pages (samples, rules, schemas) as words, because a site built from docs/ does not have them."""
    text = source[0]
    if docname == "index":
        named = {line.strip() for line in text.splitlines()} | {"index"}
        text = text.replace(REST, _listings(sorted(name for name in app.env.found_docs if name not in named)))
    names = [name for name in tracelens.__all__ if not name.startswith("_")]
    calls = "\n".join(f".. autofunction:: tracelens.{name}" for name in sorted(names))
    text = text.replace(PUBLIC, f"```{{eval-rst}}\n{calls}\n```")
    inside = Path(app.srcdir).resolve()

    def shown(found: re.Match[str]) -> str:
        target = (inside / docname).parent / found[2].partition("#")[0]
        page = target.suffix in (".md", ".png", ".svg", ".jpg") and target.resolve().is_relative_to(inside)
        return found[0] if page else found[1]

    source[0] = LINK.sub(shown, text)


def _listings(names: list[str]) -> str:
    """A table of contents for the pages at the top, and one per folder."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    return "\n\n".join(
        "\n".join(["```{toctree}", ":maxdepth: 1", f":caption: {folder.capitalize() or 'In depth'}", "", *pages, "```"])
        for folder, pages in folders.items()
    )


def _plain(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    """Docstrings are plain text with `code` in them, for people who read the source; nothing in them is markup."""
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(_paragraph(text) for text in paragraphs).split("\n")


def _paragraph(text: str) -> str:
    if any(line.startswith((" ", "\t")) for line in text.splitlines()):  # a table or an example, drawn with spaces
        return "::\n\n" + "\n".join(f"    {line}" for line in text.splitlines())
    parts = text.split("`")
    return "".join(
        f"``{part.strip()}``" if index % 2 and part.strip() else re.sub(r"([\\*|_])", r"\\\1", part)
        for index, part in enumerate(parts)
    )


def setup(app: Sphinx) -> None:
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _plain)
