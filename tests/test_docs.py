"""README and docs say what the program does: every command line in them exists, every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tracelens import cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "sample_traces" / "README.md", *(ROOT / "docs").glob("*.md")])
COMMAND = re.compile(r"^\s*(?:\$ |next: |→ next command: )?tracelens ([a-z]+)\b(.*?)(?:\s{2,}.*)?$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


def commands() -> list[tuple[str, str, str]]:
    return [
        (page.name, name, rest) for page in PAGES for name, rest in COMMAND.findall(page.read_text(encoding="utf-8"))
    ]


def test_there_are_commands_to_check() -> None:
    assert {"profile", "recommend", "report", "apply", "verify"} <= {name for _, name, _ in commands()}


@pytest.mark.parametrize(("page", "name", "rest"), commands())
def test_a_command_line_in_the_docs_exists(page: str, name: str, rest: str) -> None:
    assert name in cli.root.commands, f"{page}: tracelens {name}"
    known = {option for parameter in cli.root.commands[name].params for option in parameter.opts} | {"--help"}
    own = rest.split(".py", maxsplit=1)[0] if name == "profile" else rest  # what follows the script is the script's
    used = [word for word in shlex.split(own.split("#")[0]) if re.match(r"-{1,2}[a-z]", word)]
    assert [word for word in used if word.split("=")[0] not in known] == [], f"{page}: tracelens {name} {rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


def test_the_readme_has_two_commands_for_set_up() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```\n(.*?)```", text, re.DOTALL)
    assert first is not None
    assert re.findall(r"^make \w+", first[1], re.MULTILINE) == ["make demo", "make test"]
