"""The command line: `main(argv) -> int`, the only place that prints and decides exit codes.

In: words. Out: text or JSON on stdout, everything meant for people beside JSON on stderr, and an exit code. One file
per command; a command parses, calls the pipeline once and a report once. Heavy modules are imported inside the
commands, so that `tracelens --help` answers at once.
"""

from __future__ import annotations

import errno
import gc
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

import tracelens
from tracelens.cli import (
    analyze,
    annotate,
    apply,
    check,
    compare,
    completion,
    config,
    dataclass_methods,
    doctor,
    fix,
    help_texts,
    output,
    patch,
    profile,
    recommend,
    report,
    revert,
    rules,
    try_levers,
    verify,
)
from tracelens.errors import TracelensError
from tracelens.messages import say, shown

EXIT_USAGE = 2
EXIT_BUG = 70
SYSTEM_REFUSES = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENAMETOOLONG}
)
"""A full or failing disk, permissions, a limit: reported in one line, not as a bug with its traceback."""
COLLECTED_AFTER = 1_000_000
"""New objects after which Python looks for cycles, instead of 700: what a command makes mostly stays until it ends, and
looking through it again and again took a sixth of its time; at 200,000 still a fourteenth. A million small objects are
some 100 MB."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


ENVIRONMENT = "TRACELENS"


class OrderedGroup(click.Group):
    """A group that lists its commands in the order of the work, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(
    cls=OrderedGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "auto_envvar_prefix": ENVIRONMENT,
    },
)
@click.version_option(
    tracelens.__version__, prog_name="tracelens", message="%(prog)s %(version)s", allow_from_autoenv=False
)
@click.pass_context
def root(context: click.Context) -> None:
    """What your GPU waits for, what each remedy would really buy, and a patch that keeps the numbers.

    Start with:  tracelens profile train.py

    Options also come from TRACELENS_<COMMAND>_<OPTION> and from [tool.tracelens] in pyproject.toml, in this order.
    """
    if context.resilient_parsing:  # completion must work in a project whose file has a mistake
        return
    try:
        here = Path.cwd()
    except OSError:  # the current folder was removed: the command reports it
        return
    file = config.nearest(here)
    if file is not None:
        context.default_map = config.defaults(file, root.commands)


for command in (
    profile.profile,
    analyze.analyze,
    recommend.recommend,
    report.report,
    apply.apply,
    revert.revert,
    verify.verify,
    try_levers.try_levers,
    fix.fix,
    patch.patch,
    compare.compare,
    check.check,
    annotate.annotate,
    rules.rules,
    doctor.doctor,
    completion.completion,
):
    command.context_class = help_texts.TranslatedContext
    root.add_command(command)
root.context_class = help_texts.TranslatedContext


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing but a bug leaves a traceback."""
    output.open_streams()
    gc.set_threshold(COLLECTED_AFTER)
    help_texts.open_catalogue()
    try:
        with dataclass_methods.kept():
            result = root.main(args=argv, prog_name="tracelens", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Exception as error:  # noqa: BLE001 - a bug has its own exit code by contract; its traceback is printed whole
        return _explain(error)
    finally:
        output.flush()
        if argv is None:  # the process ends: Python would look through all objects once more before it frees them
            gc.freeze()


def _explain(error: Exception) -> int:
    """Say what went wrong, and return the exit code for it."""
    match error:
        case click.ClickException():
            error.message = shown(error.message)  # type: ignore[misc]  # click translates only its own
            error.show()
            return EXIT_USAGE
        case click.Abort():
            return EXIT_INTERRUPTED
        case TracelensError():
            output.failure(error)
            return error.exit_code
        case OSError() if error.errno in SYSTEM_REFUSES:
            place = f"{error.filename}: " if error.filename else ""
            message = say("the system refused: {place}{strerror}", place=place, strerror=error.strerror)
            return _explain(TracelensError(message, hint=say("check permissions and free space")))
        case _:
            output.note("".join(traceback.format_exception(error)))
            output.note(say("this is a bug in TraceLens; please report it with the traceback above"))
            return EXIT_BUG
