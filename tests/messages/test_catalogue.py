"""What stands in the catalogue: every phrase of the modules that are done, marked so that extraction finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sources import MODULES, name_of
from tests.support.visible_strings import dynamic, unmarked, without_value

OUT = {
    "capture/calibration_child/": "runs in a process of its own; its words are read from a file",
    "capture/inside/": "runs in the user's process; its words are read from a file",
    "capture/trace_check.py": "what is looked for in a note",
    "cli/apply.py": "an outcome, which is compared",
    "cli/compare.py": "an outcome, which is looked up",
    "cli/completion.py": "what is typed in a shell",
    "cli/doctor.py": "a command",
    "cli/help_texts.py": "click's sentences, which docs/catalogue.py reads from here",
    "cli/machine_checks.py": "words of CUDA that are looked for",
    "cli/profile.py": "a command",
    "cli/renderers/": "what a format is for, in the documentation",
    "cli/report.py": "a command",
    "cli/rules_markdown.py": "a page of the documentation, which is English",
    "cli/rules_text.py": "a command",
    "cli/torch_probe.py": "a program",
    "cli/verify.py": "outcomes, which are compared, and a command",
    "edit_kinds.py": "a bug of ours",
    "findings/owners/operations.py": "a name that stands for a call, by which rules find it",
    "findings/program_language.py": "the beginning of a command, which is looked for in hints",
    "fixing/choice.py": "an outcome, which is compared",
    "fixing/judgement.py": "outcomes, which are compared",
    "launch/": "runs in the user's process",
    "lever_trials.py": "what is looked for in a reason",
    "levers/line_edit.py": "code that is written",
    "model/verification.py": "outcomes, which are compared",
    "patch/deferral/import_place.py": "written into the user's script",
    "patch/deferral/loop_rewrite.py": "written into the user's script",
    "patch/deferral/plain_reads.py": "code that is written",
    "patch/deferral/plain_torch.py": "code that is written",
    "patch/effects/classes.py": "names of classes",
    "patch/effects/from_outside.py": "the name of a place in the memory",
    "patch/effects/helper_file.py": "written into the user's project",
    "patch/effects/library.py": "kinds of data in the vocabulary",
    "patch/effects/objects.py": "the name of a place in the memory",
    "patch/effects/patched_before.py": "a kind of objects in the vocabulary",
    "patch/effects/reasons.py": "kinds of things that a reason is about",
    "patch/effects/results.py": "kinds of data in the vocabulary",
    "patch/effects/screens.py": "the name of a place in the memory",
    "patch/effects/special.py": "names of functions",
    "patch/files/diff.py": "git's format",
    "patch/loop/stream_order.py": "code that is written",
    "patch/loop/thinned.py": "written into the user's script",
    "patch/recipes/carried_reads.py": "code that is written",
    "patch/recipes/rare_call.py": "code that is written",
    "patch/recipes/returned_reads.py": "code that is written",
    "replay/edits.py": "names of operations, which are compared",
    "replay/step_timeline.py": "a lane's name, which is compared",
    "report/ascii_timeline.py": "a picture of characters in the implementation record",
    "report/card.py": "compared with a lane's name",
    "report/compare.py": "an outcome, which is compared",
    "report/fix_card.py": "an outcome, which is compared",
    "report/github.py": "annotations, which machines match",
    "report/html.py": "markup",
    "report/issues.py": "SARIF and annotations, which machines match",
    "report/next_commands.py": "compared with values of JSON",
    "report/perfetto.py": "names of tracks in a file for another program",
    "report/sarif.py": "SARIF is English",
    "report/terminal.py": "the name of a style",
    "report/verification_rows.py": "an outcome, which is looked up",
    "schemes/stages.py": "compared with an id",
    "schemes/verdict.py": "compared with an id",
    "schemes/weighing.py": "compared with a reason",
    "trace/event_decoder.py": "keys of a trace",
    "trace/repair.py": "reasons, which are counted by name",
    "trace/shared_reading.py": "a program",
    "verify/compare/lever_numbers.py": "an outcome, which is compared",
    "verify/compare/seed_tolerance.py": "an outcome, which is compared",
    "verify/compare/times.py": "a method, which JSON names, and outcomes",
    "verify/inside/": "runs in the script's process; its words are read from a file",
    "verify/supervisor/": "what ended a process, which is compared, and a program",
    "verify/trial_process.py": "a stream's name, which is compared",
    "verify/verdict.py": "outcomes, which are compared",
    "__init__.py": "a bug of the caller",
}
"""Modules that are not, or not whole, in the catalogue, each with the reason."""


def _out(name: str) -> bool:
    return any(name.startswith(prefix) for prefix in OUT)


DONE = [path for path in MODULES if not _out(name_of(path))]


@pytest.mark.parametrize("path", DONE, ids=name_of)
def test_every_phrase_is_marked(path: Path) -> None:
    assert [f"{line}: {text}" for line, text in unmarked(path)] == [], "put it into say(), see docs/translating.md"


def test_no_reason_is_left_over() -> None:
    names = [name_of(path) for path in MODULES if any(unmarked(path))]
    assert [prefix for prefix in OUT if not any(name.startswith(prefix) for name in names)] == []


def test_what_is_marked_is_a_literal() -> None:
    """But for the labels of Edit kinds, which are marked where they are defined; verify has a `joined` of its own."""
    found = [f"{name_of(path)}:{line}" for path in MODULES for line in dynamic(path)]
    assert [place for place in found if not place.startswith(("report/edit_labels.py:", "verify/"))] == []


def test_every_value_of_a_sentence_is_given() -> None:
    """A sentence fails only where it is said, which for an error is where something else has failed already."""
    assert [f"{name_of(path)}:{line}" for path in MODULES for line in without_value(path)] == []
