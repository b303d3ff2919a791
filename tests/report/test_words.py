"""One thing, one word: what commands, help, first screens and pages must not say, and what they say instead."""

from __future__ import annotations

import html as markup
import re
import shutil
from pathlib import Path

import pytest

from tests.support import report_cases as cases
from tests.support.places import SAMPLES
from tests.support.sample_plans import sample_plan
from tracelens.cli import main, root
from tracelens.report import html, text
from tracelens.report.terminal import TerminalStyle

Capture = pytest.CaptureFixture[str]

INSTEAD = {
    "schemes?": "lever",
    "remed(?:y|ies)": "lever",
    "opportunit(?:y|ies)": "lever",
    "replay(?:s|ed|ing)?": "predicted",
    "modelled": "predicted",
    "priors?": "rating before this run",
    "exposed": "costs",
    "recoverable": "costs",
    "(?<!its )(?<!their )owns?": "takes, costs",
    "stalls?": "wait",
    "bubbles?": "wait",
    "harmless": "free",
    "speedup": "faster, +45 %",
    "hunks?": "change",
    "abstentions?": "not judged",
    "inconclusive": "undecided",
    "numbers equal": "same results",
    "noise floor": "same results",
    "held out": "",
}
"""TextColumn of the program that a reader would have to look up; the documentation and JSON may have them. What stands
in code on a page is an id or source."""
OPTION = re.compile(r"--[\w-]+|\bHUNK\b")
"""Names of options are typed, not read."""


def unwanted(said: str) -> list[str]:
    plain = OPTION.sub("", " ".join(said.split()))
    return [found[0] for word in INSTEAD for found in re.finditer(rf"\b{word}\b", plain, re.IGNORECASE)]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    for case in ("sync_every_batch", "gpu_bound"):
        shutil.copytree(SAMPLES / case, folder / case)
    return folder


def test_a_word_that_is_not_said_is_found() -> None:
    assert unwanted("the scheme saves 3 ms (replayed), see --scheme") == ["scheme", "replayed"]
    assert unwanted("hardly a known disownable thing") == []


@pytest.mark.parametrize("name", sorted(root.commands))
def test_the_help_of_a_command(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    assert unwanted(capsys.readouterr().out) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound", "host_bound"])
def test_a_page_with_everything_unfolded(case: str) -> None:
    page = html.render(sample_plan(case))
    shown = re.sub(r"(?s)<(script|style|pre|code)\b.*?</\1>|<[^>]+>", " ", page)
    assert unwanted(markup.unescape(shown)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "sync_every_batch/run"),
        ("recommend", "sync_every_batch/run"),
        ("recommend", "gpu_bound/run"),
        ("apply", "sync_every_batch/run", "--dry-run"),
        ("apply", "gpu_bound/run", "--dry-run"),
        ("check", "sync_every_batch/run", "--max-exposed-ms", "1"),
        ("compare", "sync_every_batch/run", "gpu_bound/run"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_screen_of_a_command_is_plain_and_fits(
    words: tuple[str, ...], columns: str, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(sample)
    monkeypatch.setenv("COLUMNS", columns)
    main(list(words))
    streams = capsys.readouterr()
    assert unwanted(streams.out) == [] and unwanted(streams.err) == []
    lines = streams.out.splitlines()
    diff = [line for line in lines if line[:1] in "+-@ " and "apply" in words]
    assert len(lines) - len(diff) <= 35 and max(len(line) for line in lines if line not in diff) <= int(columns)
    assert lines[-1].startswith("next: tracelens ") or words[0] == "revert"


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "gpu_bound"])
def test_the_long_form_has_the_same_words(
    case: str, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(sample)
    assert main(["recommend", f"{case}/run", "-v"]) == 0
    streams = capsys.readouterr()
    assert unwanted(streams.out) == [] and unwanted(streams.err) == []


def test_the_answers_of_verify_and_profile() -> None:
    diagnosis = cases.recommended()
    for width in (80, 120):
        style = TerminalStyle(width)
        for said in (
            text.verification(diagnosis.verifications, style, "tracelens apply run"),
            text.after_profile(diagnosis, style),
        ):
            assert unwanted(said) == [] and len(said.splitlines()) <= 35
