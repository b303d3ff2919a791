"""Every command in a made-up language: its help, an error, its answer on the samples.

What is Latin afterwards came from no catalogue, unless it is data: a path, an id, a command, a line of the script.
"""

from __future__ import annotations

import gettext
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest

from tests.support.places import SAMPLES
from tests.support.pseudo import PseudoLanguage, untranslated
from tests.support.screen_data import data_of
from tracelens import cli, inputs, messages, pipeline
from tracelens.model import CRITERIA
from tracelens.schemes.rules import load

COMMANDS = tuple(cli.root.commands)
TYPED = re.compile(
    r"""tracelens(?:[ ][\w./=:<>|%+-]+)+        # a command
    |--?[a-z][\w-]*(?:[ =][\w./:=,-]+)?         # an option with its value
    |\[?\b[A-Z][A-Z_]+\b(?:[:=\[|][\w\[\]:,|./=]+)?\]?(?:\.\.\.)?  # what stands for a value
    |(?:[\w.~-]+)?/[\w./~-]*                    # a path
    |\b[\w-]+\.(?:py|json(?:\.gz)?|patch|html|svg|png|md)\b
    |\bTL\d+(?:-\d+)?\b                       # a change
    |`[^`]*`|'[^']*'                            # quoted: typed so
    """,
    re.VERBOSE,
)
"""What is typed or written so in every language."""
CODE = re.compile(r"[-+@]|diff |\s*(?:\d+ )?[-+] |\s*[╭├│╰>]?\s*\d+  |\s*\d+ \|")
"""Lines of a diff, and of the script with its times."""
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TIERS = ("safe", "unsafe", "checked")


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> PseudoLanguage:
    """Asked by click too."""
    chosen = PseudoLanguage()
    monkeypatch.setattr(messages, "catalogue", lambda: chosen)
    monkeypatch.setattr(gettext, "translation", lambda *_, **__: chosen)
    monkeypatch.setenv("COLUMNS", "200")
    return chosen


def latin(text: str, data: Iterable[str] = ()) -> list[str]:
    """Lines with a word from no catalogue, without what is typed or written so in every language."""
    for value in sorted((one for one in data if len(one) > 1), key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z]){re.escape(value)}(?![A-Za-z])", "", text)
    return untranslated((TYPED.sub(" ", line) for line in text.splitlines()), {*COMMANDS, "tracelens"})


def values_of(command: click.Command) -> Iterator[str]:
    """What can be typed for the options and arguments of a command."""
    for parameter in command.params:
        if parameter.metavar:
            yield parameter.metavar
        if isinstance(parameter.type, click.Choice):
            yield parameter.make_metavar(click.Context(command)).strip("[]{}")
            yield "|".join(parameter.type.choices)
            yield from parameter.type.choices


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_the_help_of(name: str, language: PseudoLanguage, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*filter(None, [name]), "--help"]) == 0
    assert latin(capsys.readouterr().out, values_of(cli.root.commands.get(name, cli.root))) == []


# ------------------------------------------------------------------------------------------------------------- answers


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands") / "sample"
    shutil.copytree(SAMPLES / "sync_every_batch", folder)
    (folder / "run" / "verify.json").unlink(missing_ok=True)  # its sentences are kept in English
    (folder / "run" / "try.json").unlink(missing_ok=True)
    return folder


@pytest.fixture(scope="module")
def data(recorded: Path) -> set[str]:
    examined = pipeline.examine(inputs.open_inputs((recorded / "run",)))
    return data_of(pipeline.illustrate(examined, pipeline.plan(examined)))


ANSWERS = (
    "analyze run",
    "recommend run",
    "recommend run --format markdown",
    "report run -o page.html",
    "report run --format markdown -o record.md",
    "report run --card card.svg",
    "apply run --dry-run",
    "apply run --quiet --dry-run",
    "apply run --unsafe --dry-run",
    "patch train.py --every-place --dry-run",
    "apply run",
    "revert run",
    "compare run run",
    "compare run run --format markdown",
    "check run --max-syncs-per-step 1",
    "check run --max-syncs-per-step 1 --format markdown",
    "annotate run -o marked.json.gz",
    "rules",
    "rules event-interval",
    "rules TL201",
    "rules defer-read",
    "rules workers",
    "rules bf16",
    "completion bash",
)
"""In this order, in one folder: `revert` undoes what `apply` wrote. What runs a script is in `test_screens.py`, what is
said of all kinds of changes in `test_patcher.py`."""
ERRORS = (
    "analyze none.json",
    "analyze --max-bytes 0 run",
    "recommend run --time 2x",
    "recommend run --weights performance",
    "recommend run --weights performence=10",
    "recommend run --interval 0",
    "report run --card card.bmp",
    "report run --scheme event-interval",
    "apply run --scheme event",
    "apply run --lever fp16",
    "revert none",
    "revert run",
    "verify run --all --scheme event-interval",
    "verify run --budget soon",
    "verify none.py other.py",
    "try run worker",
    "try none.py",
    "try run all bf16",
    "fix run --yes --no-write",
    "fix run --budget 5s",
    "patch train.py",
    "patch none.py --every-place",
    "compare run none",
    "compare run",
    "check run",
    "check run --allow :3",
    "annotate run --steps 9:2",
    "annotate run --steps 900:901",
    "rules nothing",
    "rules --rules none",
    "doctor --no-such-option",
    "completion cmd",
    "profile none.py",
    "profile --ranks x train.py",
    "profile",
    "profil train.py",
)


def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code, and what was printed: without lines of code and of a script with its times."""
    code = cli.main(command.split())
    printed = capsys.readouterr()
    text = FENCED.sub("", printed.out + printed.err)
    return code, [line.replace("\\", "") for line in text.splitlines() if not CODE.match(line)]


def of_rules() -> Iterator[str]:
    """What a rule shows as it is: forms, examples, sections of the documents that a number is from."""
    rules = load()
    yield from (*CRITERIA, *TIERS, "value", "allow_tf32", *(lever.family for lever in rules.levers))
    for span in (span for rule in rules.schemes for span in (*rule.gain, *rule.days, *rule.lines)):
        yield from (span.seed, span.section)
    for rule in rules.schemes:
        for claims in (rule.applicability, rule.pros, rule.cons, rule.risks, rule.references, rule.sources):
            yield from (text for claim in claims for text in (claim.seed, claim.section))
    for recipe in rules.recipes.values():
        yield from (line.strip() for line in (recipe.before + recipe.after).splitlines())
    for lever in rules.levers:
        yield lever.form
        yield from (line.strip() for line in f"{lever.before}\n{lever.after}".splitlines())
        yield from (text for said in lever.references for text in (said.text, said.url or ""))


@pytest.mark.slow  # each is a whole command on a bundled Run
@pytest.mark.parametrize("command", ANSWERS)
def test_the_answer_of(
    command: str,
    recorded: Path,
    data: set[str],
    language: PseudoLanguage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(recorded)
    code, printed = run(command, capsys)
    assert code in (0, 1) and printed
    shown = [] if command.startswith("completion") else printed
    assert latin("\n".join(shown), {*data, *of_rules()}) == []


@pytest.mark.slow
def test_the_markdown_record(
    recorded: Path, data: set[str], language: PseudoLanguage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded)
    assert cli.main(["report", "run", "--format", "markdown", "-o", "record.md"]) == 0
    text = FENCED.sub("", Path("record.md").read_text(encoding="utf-8")).replace("\\", "")
    assert latin(text, {*data, *of_rules(), "tracelens_runtime.py"}) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ERRORS)
def test_the_error_of(
    command: str,
    recorded: Path,
    data: set[str],
    language: PseudoLanguage,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(recorded)
    code, printed = run(command, capsys)
    assert code != 0 and printed
    named = values_of(cli.root.commands.get(command.split(maxsplit=1)[0], cli.root))
    assert latin("\n".join(printed), {*data, *of_rules(), *re.split("[ =]", command), *named, "html"}) == []
