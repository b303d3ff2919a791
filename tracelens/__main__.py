"""The `tracelens` command, also as `python -m tracelens`."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command that was typed and return its exit code.

    Until the commands are loaded nothing is there to be left in order: Ctrl-C ends the process without a traceback.
    """
    ours = signal.getsignal(signal.SIGINT)
    if ours is signal.default_int_handler:  # not where the shell, or nohup, has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tracelens.cli import main as run

    signal.signal(signal.SIGINT, ours)
    return run()


if __name__ == "__main__":
    sys.exit(main())
