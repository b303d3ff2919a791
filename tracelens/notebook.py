"""`%%tracelens`: records the training loop of a notebook cell and prints below it what the GPU waited for.

In: a cell. Out: the cell's own output, then the verdict and the path of the report. Loaded by `%load_ext tracelens`.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any, NoReturn

from tracelens.errors import TracelensError, UsageError
from tracelens.messages import say, shown


class _MagicArguments(argparse.ArgumentParser):
    """A parser that raises `UsageError`; argparse would end the kernel by `sys.exit`."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            say("%%tracelens: {message}", message=message), hint="%%tracelens [--steps N] [-o FOLDER] [--interval N]"
        )


def register(shell: Any) -> None:
    """Add the cell magic to an IPython shell."""

    def tracelens(line: str, cell: str) -> None:
        """Record the training loop in this cell: %%tracelens [--steps N] [-o FOLDER] [--interval N]"""
        try:
            recording = _record(shell, line, cell)
            if recording is not None:
                print(shown(_verdict(recording)))
        except TracelensError as error:
            print(shown(say("tracelens: {message}", message=error.message)))
            if error.hint:
                print(shown(say("hint: {hint}", hint=error.hint)))

    shell.register_magic_function(tracelens, magic_kind="cell", magic_name="tracelens")


def _record(shell: Any, line: str, cell: str) -> Path | None:
    """Record the cell; returns the Run folder, or None after printing the reason."""
    from tracelens.capture.inside import profile_api

    options = _options(line)
    with profile_api.profile(options.out, steps=options.steps, interval=options.interval, quiet=True) as recording:
        result = shell.run_cell(cell, store_history=False)
    if not result.success:  # IPython has shown the cell's traceback
        return None
    if recording.reason is not None:
        print(shown(say("tracelens: the recording is not complete: {reason}", reason=recording.reason)))
    return recording.folder if recording.complete else None


def _options(line: str) -> argparse.Namespace:
    parser = _MagicArguments(prog="%%tracelens", add_help=False)
    parser.add_argument("-o", dest="out", default=None)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--interval", type=int, default=10)
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:  # an open quote
        raise UsageError(say("%%tracelens: {error}", error=error), hint=say("close the quote")) from error


def _verdict(folder: Path) -> str:
    from tracelens import pipeline
    from tracelens.report import next_commands, wording

    examined = pipeline.examine(pipeline.open_inputs((folder,)))
    diagnosis = pipeline.illustrate(examined, pipeline.plan(examined))
    written = pipeline.save(diagnosis)
    page = next(path for path in written if path.suffix == ".html")
    recommend = next_commands.line("recommend", next_commands.folder(folder))
    return say(
        "tracelens: {verdict}\nreport: {page}\nnext: {recommend}",
        verdict=wording.verdict(diagnosis),
        page=page,
        recommend=recommend,
    )
