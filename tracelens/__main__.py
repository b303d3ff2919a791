"""The `tracelens` command, also as `python -m tracelens`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command that was typed and return its exit code.

    Until the commands are loaded nothing is there to be left in order: Ctrl-C ends the process without a traceback.
    """
    _leave_the_project()
    ours = signal.getsignal(signal.SIGINT)
    if ours is signal.default_int_handler:  # not where the shell, or nohup, has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tracelens.cli import main as run

    signal.signal(signal.SIGINT, ours)
    return run()


def _leave_the_project() -> None:
    """`python -m` looks for every module in the current folder first: a project may have a `rich` of its own."""
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # the folder is gone, and with it what could be found in it
        return
    ours = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))
    if sys.path and not sys.flags.safe_path and here != ours and os.path.realpath(sys.path[0] or here) == here:
        del sys.path[0]


if __name__ == "__main__":
    sys.exit(main())
