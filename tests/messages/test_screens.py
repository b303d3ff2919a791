"""Screens in a made-up language: what they say comes from the catalogue, what stays is data.

This is the proof that a screen can be translated; the screens that are whole are those of this file.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from tests.support import report_cases
from tests.support.places import ROOT, SAMPLES
from tests.support.pseudo import PseudoLanguage, page_text, untranslated
from tests.support.screen_data import data_of
from tracelens import inputs, messages, pipeline
from tracelens.model import IllustratedDiagnosis, Ratio
from tracelens.report import budget, card, compare_text, gate, html, text
from tracelens.report.terminal import TerminalStyle
from tracelens.verify import verdict

pytestmark = pytest.mark.slow  # every bundled Run is planned

CASES = ("sync_every_batch", "gpu_bound", "host_bound", "loader_bound", "pageable_copies")
COMMAND = re.compile(r"tracelens (?:[\w.-]+(?:/\S*)?|--?\S+|[A-Z]+)(?: [\w./=-]+)*")
OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")
"""On the page in a piece of its own, which no line breaks."""
HUNK = re.compile(r"\bTL\d+(?:-\d+)?\b")
SOURCE_LINE = re.compile(r"\s*[╭├│╰╶]?\s*\d+  .*|\s*\d* \| .*|\s*(?:\d+ )?[-+] .*")
"""A line of the script with its times."""
SETTINGS = re.compile(
    r"CUDA_LAUNCH_BLOCKING|allow_tf32|^benchmark\b|(?:num_workers|\w+_(?:factor|workers|memory))=\w+|pin_memory"
)
TRACE_FILE = re.compile(r"\S+\.pt\.trace\.json\.gz")
POLICY = re.compile(r"default-src .*|width=device-width.*")
"""What stands in the page's head for the browser."""


@pytest.fixture(scope="module", params=CASES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IllustratedDiagnosis:
    folder = tmp_path_factory.mktemp("screens") / request.param
    shutil.copytree(SAMPLES / request.param, folder)
    (folder / "run" / "verify.json").unlink(missing_ok=True)  # its sentences are kept in English
    examined = pipeline.examine(inputs.open_inputs((folder / "run",)))
    return pipeline.illustrate(examined, pipeline.plan(examined))


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> PseudoLanguage:
    chosen = PseudoLanguage()
    monkeypatch.setattr(messages, "catalogue", lambda: chosen)
    return chosen


def assert_translated(screen: list[str], diagnosis: IllustratedDiagnosis) -> None:
    plain = [line for line in screen if not SOURCE_LINE.fullmatch(line)]
    for data in (HUNK, COMMAND, OPTION, POLICY, SETTINGS, TRACE_FILE):
        plain = [data.sub("", line) for line in plain]
    found = untranslated(plain, data_of(diagnosis))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_of_recommend(recorded: IllustratedDiagnosis, language: PseudoLanguage, width: int) -> None:
    assert_translated(text.recommendation(recorded, TerminalStyle(width)).splitlines(), recorded)


def test_the_long_form_of_recommend(recorded: IllustratedDiagnosis, language: PseudoLanguage) -> None:
    said = text.recommendation(recorded, TerminalStyle(200, everything=True)).splitlines()
    diff = next((place for place, line in enumerate(said) if line.startswith("--- ")), len(said))
    assert_translated(said[:diff], recorded)


@pytest.mark.parametrize("everything", [False, True])
def test_the_screen_of_analyze(recorded: IllustratedDiagnosis, language: PseudoLanguage, everything: bool) -> None:
    assert_translated(text.analysis(recorded, TerminalStyle(160, everything=everything)).splitlines(), recorded)


@pytest.mark.parametrize("ratio", [Ratio(0.8, 0.75, 0.85), Ratio(1.2, 1.1, 1.3), Ratio(1.0, 0.99, 1.01), None])
@pytest.mark.parametrize("deterministic", [False, True])
def test_the_screen_of_verify(language: PseudoLanguage, ratio: Ratio | None, deterministic: bool) -> None:
    diagnosis = report_cases.recommended()
    trial = diagnosis.verifications[0]
    told = verdict.VerdictEvidence(None, None, None, False, ratio, 5, deterministic)
    fresh = replace(trial, verdict=verdict.sentence(told, trial.predicted), ratio=ratio, details={})
    said = text.verification((fresh,), TerminalStyle(160), "tracelens apply run").splitlines()
    assert_translated(said, diagnosis)


@pytest.mark.parametrize("known", [None, ()])
def test_the_screen_of_check(
    recorded: IllustratedDiagnosis, language: PseudoLanguage, known: tuple[gate.KnownFinding, ...] | None
) -> None:
    budgets = budget.Budgets(syncs_per_step=1, exposed_ms=1, idle_share=0.1, step_ms=100)
    judged = budget.judge_budgets(recorded, budgets, recorded.exposed_together_ns)
    found = gate.judge(recorded, judged, ("other.py:1",), known, 0.01)
    said = compare_text.gate(found, TerminalStyle(160), "tracelens recommend run").splitlines()
    assert_translated([line.replace("other.py", "") for line in said], recorded)


def test_the_page(recorded: IllustratedDiagnosis, language: PseudoLanguage) -> None:
    assert_translated(list(page_text(html.render(recorded))), recorded)


def test_the_card(recorded: IllustratedDiagnosis, language: PseudoLanguage) -> None:
    assert_translated(list(page_text(card.render(recorded))), recorded)


def test_what_the_screens_asked_for_is_in_the_template(
    recorded: IllustratedDiagnosis, language: PseudoLanguage
) -> None:
    text.recommendation(recorded, TerminalStyle(120, everything=True))
    html.render(recorded)
    template = (ROOT / "tracelens/locale/tracelens.pot").read_text(encoding="utf-8")
    known = {_joined(entry) for entry in re.findall(r'^msgid ((?:".*"\n)+)', template, re.MULTILINE)}
    assert {one for one in language.asked - known if one.strip()} == set()


def _joined(entry: str) -> str:
    return "".join(line[1:-1] for line in entry.splitlines()).replace('\\"', '"').replace("\\\\", "\\")
