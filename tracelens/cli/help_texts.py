"""What `--help` and click's own errors say, in the reader's language.

In: the commands with their help in English, as click wants it. Out: a context that draws help from the catalogue, and
the texts that it will ask for. Apart from `say` because click takes a help text apart before it is drawn, and because
what stands in `help=` or in a command's docstring can be found there by whoever fills the catalogue.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterable, Iterator
from functools import cache

import click

from tracelens import messages

OF_CLICK: tuple[str | tuple[str, str], ...] = (
    "Usage:",
    "Options",
    "Commands",
    "Show this message and exit.",
    "default: {default}",
    "required",
    "Try '{command} {option}' for help.",
    "Error: {message}",
    "Invalid value: {message}",
    "Invalid value for {param_hint}: {message}",
    "Missing argument",
    "Missing option",
    "Missing command.",
    "No such option {name!r}.",
    "No such command {name!r}.",
    ("Did you mean {possibility}?", "(Did you mean one of: {possibilities}?)"),
    ("Got unexpected extra argument ({args})", "Got unexpected extra arguments ({args})"),
    ("Option {name!r} requires an argument.", "Option {name!r} requires {nargs} arguments."),
    "Option {name!r} does not take a value.",
    ("{value!r} is not {choice}.", "{value!r} is not one of {choices}."),
    "{value!r} is not a valid {number_type}.",
    "{value} is not in the range {range}.",
    "{name} {filename!r} does not exist.",
    "{name} {filename!r} is a file.",
    "{name} {filename!r} is a directory.",
    "file",
    "directory",
    "path",
)
"""What click itself says where our commands can make it: one sentence, or one and several. `open_catalogue` tells it
where to look them up."""


def open_catalogue() -> None:
    """Let click look its own sentences up in our catalogue."""
    gettext.bindtextdomain(messages.DOMAIN, str(messages.FOLDER))
    gettext.textdomain(messages.DOMAIN)


def texts(command: click.Command) -> Iterator[str]:
    """Every text of help of a command and of those below it."""
    for text in (command.help, command.short_help):
        if text:
            yield text
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            yield parameter.help
    for name in getattr(command, "commands", {}):
        yield from texts(command.commands[name])  # type: ignore[attr-defined]


class TranslatedFormatter(click.HelpFormatter):
    """Writes help in the reader's language."""

    def write_text(self, text: str) -> None:
        super().write_text(translated(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, translated(text)) for name, text in rows], col_max, col_spacing)


class TranslatedContext(click.Context):
    """The context of a command whose help is drawn from the catalogue."""

    formatter_class = TranslatedFormatter


def translated(text: str) -> str:
    """A text of help in the reader's language; what click puts behind it in brackets, such as a default, is click's."""
    catalogue = messages.catalogue()
    if catalogue is None or not text:
        return text
    known = _known()
    head, bracket, rest = text.rpartition("  [")
    whole = text in known or head not in known
    return catalogue.gettext(text) if whole else f"{catalogue.gettext(head)}{bracket}{rest}"


@cache
def _known() -> frozenset[str]:
    root = click.get_current_context().find_root().command
    return frozenset(texts(root))
