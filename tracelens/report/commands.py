"""The next command, ready to paste: every report and every command ends with one.

In: a Diagnosis (or a path). Out: shell lines, quoted. In a report, paths are relative to where the Run was started,
because reports are mailed around and should not carry anybody's home folder; a command in a terminal hands in the words
(paths and options) that its user typed, so that the next one works from the same place and on the same plan.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tracelens.model import Diagnosis, Run, Stage


def line(*words: str) -> str:
    """One shell line, each word quoted where it must be."""
    return " ".join(_quoted(word) for word in ("tracelens", *words))


def _quoted(word: str) -> str:
    """Control characters, which must not reach a terminal, in the notation of bash and zsh, so that pasting works."""
    if word.isprintable():
        return shlex.quote(word)
    shown = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _escaped(c) for c in shown) + "'"


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def run_argument(run: Run) -> str:
    """The Run as an argument: relative to the folder it was launched in, else its bare name."""
    path = os.path.relpath(run.path.resolve(), run.cwd)
    return Path(run.path).name if path.startswith("..") else Path(path).as_posix()


def target(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What the Diagnosis is about, as arguments."""
    if diagnosis.run is not None:
        return (run_argument(diagnosis.run),)
    return tuple(Path(trace.path).name for trace in diagnosis.traces)


def after_analyze(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    return line("recommend", *(typed or target(diagnosis)))


def after_recommend(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    """What to do with the recommendation: apply it, or look at the report where there is nothing to apply."""
    command = "report" if _chosen(diagnosis) is None else "apply"
    return line(command, *(typed or target(diagnosis)))


def advice(stage: Stage, diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    """What a stage of the plan says to do; a bare trace can be neither verified nor patched."""
    if stage.command is None:
        return stage.advice
    command, scheme = stage.command
    if diagnosis.run is None:
        return f"try {scheme} on a run of your own: {line('profile', 'train.py')}"
    return f"{stage.advice}: {line(command, *(typed or target(diagnosis)), '--scheme', scheme)}"


def patch_commands(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """(what it does, command) for the recommended scheme: measure, apply, undo. Empty without a Run or a patch."""
    chosen = _chosen(diagnosis)
    if chosen is None:
        return ()
    words = (*(typed or target(diagnosis)), "--scheme", chosen)
    return (
        ("Measure it first: original against patched, same numbers?", line("verify", *words)),
        ("Apply it to your source", line("apply", *words)),
        ("Undo, byte for byte", line("revert", *target(diagnosis))),
    )


def after_report(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    """The recommended change measured first; without one, the next recording."""
    found = patch_commands(diagnosis, typed)
    return found[0][1] if found else line("profile", "train.py")


def _chosen(diagnosis: Diagnosis) -> str | None:
    """The recommended scheme, where there is a Run to apply it to and a patch that makes it."""
    chosen = diagnosis.recommendation.scheme if diagnosis.recommendation else None
    return chosen if diagnosis.run is not None and chosen in diagnosis.patches else None
