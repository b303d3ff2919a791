"""Where text goes: results to stdout, words for people beside a machine's format to stderr; how it looks there.

In: strings. Out: bytes on a stream. Apart from the commands because a closed pipe, NO_COLOR and the width of a terminal
are the same question for each of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from tracelens import messages
from tracelens.errors import TracelensError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.report.terminal import TerminalStyle

PIPE_WIDTH = 120
"""Columns of a pipe or file: wide enough that tables do not wrap."""
NARROWEST = 40
"""Columns at least: below that, widths computed from it would be negative."""
TALKATIVE = "tracelens.verbose"
"""Where the context of a command keeps whether -v was given."""
SPELLED = {
    "−": "-", "–": "-", "→": "->", "↳": "->", "µ": "u", "·": ".", "…": "...", "×": "x", "≥": ">=", "≤": "<=", "±": "+-",
    "÷": "/", "█": "#", "▏": "|", "▒": ":", "░": ".", "╭": "|", "├": "|", "│": "|", "╰": "|", "“": '"', "”": '"',
}  # fmt: skip
"""What our own words and numbers use beyond ASCII, as an ASCII terminal can read it."""
PATIENCE_S = 0.5
"""Progress is shown only for work that takes longer than this: shorter, it only flickers."""


def result(text: str) -> None:
    """The answer itself."""
    _write(sys.stdout, messages.shown(text))


def printable(written: Path) -> str:
    """The path of what was written: as it is for a script that reads it, harmless for a terminal."""
    from tracelens.report.formatting import clean

    return clean(str(written)) if sys.stdout.isatty() else str(written)


def note(text: str) -> None:
    """A word for people that is not part of the answer. Paths and names in it must not act on the terminal."""
    from tracelens.report.formatting import clean

    _write(sys.stderr, "\n".join(clean(line) for line in messages.shown(text).split("\n")))


def styled_note(text: str) -> None:
    """A word for people that a report has drawn: it is harmless already, and may hold colors."""
    _write(sys.stderr, text)


def redraw(text: str) -> None:
    """A line on stderr in the place of the one before, without an end of line. The caller makes it harmless."""
    _write(sys.stderr, f"\r{text}", end="")


def prompt(text: str) -> None:
    """A question on stdout; the answer is typed behind it."""
    _write(sys.stdout, messages.shown(text), end="")


def failure(error: TracelensError) -> None:
    """One sentence, and what to do about it."""
    note(say("tracelens: {message}", message=error.message))
    if error.hint:
        note(say("  hint: {hint}", hint=error.hint))


def shown(path: Path) -> str:
    """Relative where it lies below the current folder: shorter to read and to paste."""
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def terminal_style(color: str = "auto", *, everything: bool = False, stream: TextIO | None = None) -> TerminalStyle:
    """Colors only where they can be shown and are wanted; the width of the terminal, or a fixed one in a pipe."""
    from tracelens.report.terminal import TerminalStyle

    stream = stream or sys.stdout
    width = PIPE_WIDTH
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        width = max(NARROWEST, shutil.get_terminal_size().columns)
    return TerminalStyle(width, color=_colored(color, stream), everything=everything)


def _colored(color: str, stream: TextIO) -> bool:
    """The option decides; then NO_COLOR (no-color.org), then FORCE_COLOR, then what the stream is."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Name long work on stderr, on a terminal or with -v, and how long it took."""
    context = click.get_current_context(silent=True)
    asked = context is not None and context.meta.get(TALKATIVE, False)
    if not (asked or sys.stderr.isatty()):
        yield
        return
    started = time.monotonic()
    _write(sys.stderr, f"{messages.shown(what)} …", end="")
    try:
        yield
    finally:
        took = time.monotonic() - started
        _write(sys.stderr, f" {took:.1f} s" if asked or took > PATIENCE_S else "")


@contextlib.contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """While another program runs under ours, what it prints goes to stderr: stdout is for the answer."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # closed
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def open_streams() -> None:
    """A stream that was closed before we started (`>&-`) is None; nothing that prints expects that."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except ValueError:  # closed
            continue
        except OSError:
            discard(stream)


def _write(stream: TextIO, text: str, end: str = "\n") -> None:
    """A reader that closed the pipe early (`| head`) ends the printing, not the command and its exit code."""
    if stream.encoding:
        text = _spelled(text, stream.encoding).encode(stream.encoding, "replace").decode(stream.encoding)
    try:
        stream.write(text if text.endswith("\n") and end == "\n" else text + end)
        stream.flush()
    except BrokenPipeError:
        discard(stream)
    except OSError:
        discard(stream)
        if stream is sys.stdout:  # an answer that got lost is an error, a note is not
            raise


def _spelled(text: str, encoding: str) -> str:
    """The signs that a poor encoding lacks, written out: a minus that became a `?` would be another number."""
    try:
        text.encode(encoding)
    except UnicodeError:
        lacking = {ord(sign): plain for sign, plain in SPELLED.items() if not _fits(sign, encoding)}
        return text.translate(lacking)
    return text


def _fits(sign: str, encoding: str) -> bool:
    try:
        sign.encode(encoding)
    except UnicodeError:
        return False
    return True


def discard(stream: TextIO) -> None:
    """Let what is left in the stream go nowhere: the interpreter flushes it at exit, and that must work."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
