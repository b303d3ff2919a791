"""Runs of one script in fresh processes that need not import torch each: children of one parent that has imported it.

    with ForkedRuns(SCRIPT, environment) as runs:
        line = runs.run(["cache", "small", "plain", "300"])

The parent never uses the GPU, so that each child sets CUDA up for itself. The script prints one line.
As `python forked_runs.py SCRIPT` this file is that parent: one request per line of JSON on stdin, one answer per line
on stdout.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self


class ForkedRuns:
    """The parent process, as long as the block lasts. Not for use from several threads."""

    def __init__(self, script: Path, environment: dict[str, str]) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, __file__, str(script)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._parent.communicate()

    def run(self, arguments: list[str]) -> str:
        """The line that the script prints with these arguments. Raises ValueError if it fails."""
        assert self._parent.stdin is not None and self._parent.stdout is not None
        print(json.dumps(arguments), file=self._parent.stdin, flush=True)
        status, said = json.loads(self._parent.stdout.readline())
        if status:
            raise ValueError(f"{arguments}: exit status {status}")
        return str(said)


def serve(script: str) -> None:
    """Answer requests until stdin ends."""
    import torch  # noqa: F401  # what the children have to do no more

    for line in sys.stdin:
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(readable)
            os.dup2(writable, 1)
            sys.argv = [script, *json.loads(line)]
            runpy.run_path(script, run_name="__main__")
            sys.stdout.flush()
            os._exit(0)
        os.close(writable)
        with open(readable, encoding="utf-8") as said:
            text = said.readline()  # not to the end: workers of a loader outlive the script and hold the pipe
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps((status, text)), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
