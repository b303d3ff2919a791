"""The output formats, one module and one entry each; what a command offers as --format is computed from this table.

A new format is a module that ends in its `RENDERER`, and an entry here. Help texts, completion and the table of
docs/commands.md follow. What a format needs is imported inside its functions: `tracelens --help` loads this table.
"""

from __future__ import annotations

from tracelens.cli.renderers import (
    github,
    html,
    json,
    markdown,
    sarif,
    text,
)
from tracelens.cli.renderers.renderer import COMMANDS, Renderer

__all__ = ["RENDERERS", "by_name", "commands_of", "formats"]

RENDERERS: tuple[Renderer, ...] = (
    html.RENDERER,
    text.RENDERER,
    json.RENDERER,
    markdown.RENDERER,
    github.RENDERER,
    sarif.RENDERER,
)
"""In the order in which commands offer them; the first that serves a command is its default."""


def formats(command: str) -> tuple[str, ...]:
    """Names of the formats that a command can answer in."""
    return tuple(renderer.name for renderer in RENDERERS if renderer.serves(command))


def commands_of(renderer: Renderer) -> tuple[str, ...]:
    """The commands that a format serves."""
    return tuple(command for command in COMMANDS if renderer.serves(command))


def by_name(name: str) -> Renderer:
    """The format of this name, which is one of the choices of --format."""
    return next(renderer for renderer in RENDERERS if renderer.name == name)
