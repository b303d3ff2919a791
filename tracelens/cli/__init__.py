"""The command line: `main(argv) -> int`, the only caller of `print` and the only judge of exit codes.

In: words. Out: text or JSON on stdout, everything meant for people beside JSON on stderr, and an exit code. One file
per command; a command parses, calls the pipeline once and a report once. Heavy modules are imported inside the
commands, so that `tracelens --help` answers at once.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import click

import tracelens
from tracelens.cli import (
    analyze,
    annotate,
    apply,
    check,
    compare,
    doctor,
    output,
    profile,
    recommend,
    report,
    revert,
    rules,
    verify,
)
from tracelens.errors import TracelensError

EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


class InOrder(click.Group):
    """A group that lists its commands in the order of the work, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(tracelens.__version__, prog_name="tracelens")
def root() -> None:
    """What your GPU waits for, what each remedy would really buy, and a patch that keeps the numbers.

    Start with:  tracelens profile train.py
    """


for command in (
    profile.profile,
    analyze.analyze,
    recommend.recommend,
    report.report,
    apply.apply,
    revert.revert,
    verify.verify,
    compare.compare,
    check.check,
    annotate.annotate,
    rules.rules,
    doctor.doctor,
):
    root.add_command(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; nothing but a bug leaves a traceback."""
    try:
        result = root.main(args=argv, prog_name="tracelens", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except click.Abort:
        return EXIT_INTERRUPTED
    except TracelensError as error:
        output.failure(error)
        return error.exit_code
    except Exception:  # noqa: BLE001 - a bug has its own exit code by contract; its traceback is printed whole
        output.note(traceback.format_exc())
        output.note("this is a bug in TraceLens; please report it with the traceback above")
        return EXIT_BUG
    finally:
        output.flush()
    return result if isinstance(result, int) else 0
