"""The next command, ready to paste: every report and every command ends with one.

In: a Diagnosis (or a path). Out: shell lines, quoted. Paths are relative to where the Run was started, because reports
are mailed around and should not carry anybody's home folder.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tracelens.model import Diagnosis, Run


def line(*words: str) -> str:
    """One shell line, each word quoted where it must be."""
    return shlex.join(("tracelens", *words))


def run_argument(run: Run) -> str:
    """The Run as an argument: relative to the folder it was launched in, else its bare name."""
    path = os.path.relpath(run.path.resolve(), run.cwd)
    return Path(run.path).name if path.startswith("..") else Path(path).as_posix()


def target(diagnosis: Diagnosis) -> str:
    if diagnosis.run is not None:
        return run_argument(diagnosis.run)
    return Path(diagnosis.traces[0].path).name


def after_analyze(diagnosis: Diagnosis) -> str:
    return line("recommend", target(diagnosis))


def after_recommend(diagnosis: Diagnosis) -> str:
    """What to do with the recommendation: apply it, or look at the report where there is nothing to apply."""
    chosen = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    if diagnosis.run is None or chosen is None or chosen not in diagnosis.patches:
        return line("report", target(diagnosis))
    return line("apply", target(diagnosis))


def patch_commands(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """(what it does, command) for the recommended scheme: measure, apply, undo. Empty without a Run or a patch."""
    chosen = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    if diagnosis.run is None or chosen is None or chosen not in diagnosis.patches:
        return ()
    argument = run_argument(diagnosis.run)
    return (
        ("Measure it first: original against patched, same numbers?", line("verify", argument, "--scheme", chosen)),
        ("Apply it to your source", line("apply", argument, "--scheme", chosen)),
        ("Undo, byte for byte", line("revert", argument)),
    )


def after_report(diagnosis: Diagnosis) -> str:
    """The recommended change measured first; without one, the next recording."""
    chosen = patch_commands(diagnosis)
    return chosen[0][1] if chosen else line("profile", "train.py")
