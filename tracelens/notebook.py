"""`%%tracelens`: record the training loop of a notebook cell, and say below it what the GPU waited for.

In: a cell. Out: its own output, then the verdict and the place of the report. Loaded by `%load_ext tracelens`. Apart
from the command line because a notebook has no parent process and shows HTML.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any, NoReturn

from tracelens.errors import TracelensError, UsageError


class _Words(argparse.ArgumentParser):
    """A parser that raises: `exit` would end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%tracelens: {message}", hint="%%tracelens [--steps N] [-o FOLDER] [--interval N]")


def register(shell: Any) -> None:
    """Give the shell the cell magic."""

    def tracelens(line: str, cell: str) -> None:
        """Record the training loop in this cell: %%tracelens [--steps N] [-o FOLDER] [--interval N]"""
        try:
            recording = _record(shell, line, cell)
            if recording is not None:
                print(_verdict(recording))
        except TracelensError as error:
            print(f"tracelens: {error}" + (f"\nhint: {error.hint}" if error.hint else ""))

    shell.register_magic_function(tracelens, magic_kind="cell", magic_name="tracelens")


def _record(shell: Any, line: str, cell: str) -> Path | None:
    """Run the cell under observation; the Run folder, or None with the reason printed."""
    from tracelens.capture.inside import profile_api

    options = _options(line)
    with profile_api.profile(options.out, steps=options.steps, interval=options.interval, quiet=True) as recording:
        result = shell.run_cell(cell, store_history=False)
    if not result.success:  # the cell's own traceback is shown already
        return None
    if recording.reason is not None:
        print(f"tracelens: the recording is not complete: {recording.reason}")
    return recording.folder if recording.complete else None


def _options(line: str) -> argparse.Namespace:
    parser = _Words(prog="%%tracelens", add_help=False)
    parser.add_argument("-o", dest="out", default=None)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--interval", type=int, default=10)
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:  # an open quote
        raise UsageError(f"%%tracelens: {error}", hint="close the quote") from error


def _verdict(folder: Path) -> str:
    from tracelens import pipeline
    from tracelens.report import next_commands, wording

    examined = pipeline.examine(pipeline.open_inputs((folder,)))
    diagnosis = pipeline.illustrate(examined, pipeline.plan(examined))
    written = pipeline.save(diagnosis)
    page = next(path for path in written if path.suffix == ".html")
    recommend = next_commands.line("recommend", str(folder))
    return f"tracelens: {wording.headline(diagnosis)}\nreport: {page}\nnext: {recommend}"
