"""Write the parts of README and docs that the program prints itself; a test compares them with what it prints.

    python docs/generate.py                  write every generated page
    python docs/generate.py commands rules   write these pages: catalogue, commands, patching, readme, rules, tour
    python docs/generate.py --check          name the pages that differ, exit with 1; page names work here too

docs/rules.md and docs/commands.md are printed whole. In docs/tour.md the answers to recommend, report and apply are
printed from the recorded run in sample_traces/, and that to verify from its verify.json; profile stays as it was.
docs/patching.md has a table of the Edit kinds, from rules/recipes/. README shows an excerpt of the tour. The page
`catalogue` is tracelens/locale/tracelens.pot, the template that translations are made from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CASE = "sync_every_batch"
BLOCK = "```\n$ tracelens {words}\n"
PRINTED = ("recommend run/", "report run/", "apply run/")
"""Commands of the tour that the present version answers; in this order, because apply changes the files."""
VERIFIED = "verify run/ --scheme event-interval --budget 110s"
WIDTH = 118
"""Columns of the answers in the tour."""
FORMATS = """\
`--format json` prints one document on stdout and nothing else; the schemas are beside this page (`docs/*.schema.json`),
and keys are only ever added within a `schema_version`. `markdown` is for a step summary, a pull request or a wiki;
`report --format markdown` adds the implementation record of a scheme. `github` prints annotations (the ten costliest,
as many as GitHub shows), `sarif` a SARIF 2.1.0 log for code scanning. Where a command does not name a file, the answer
goes to stdout and words for people go to stderr.
"""
CODES = """## Exit codes

| code | meaning |
|---|---|
| 0 | fine; also "nothing to do" and "nothing to gain" |
| 1 | a gate failed, or a change was refused |
| 2 | wrong usage, a mistake in `[tool.tracelens]`, or a rules file with mistakes |
| 3 | inconclusive |
| 4 | input unreadable, or without a single complete timed event |
| 70 | a bug in TraceLens, with its traceback |

`fix` returns 0 when it is done or nothing is to be fixed, 1 when the person or `verify` refuses the change, 3 when
nothing could be decided ([fix](fix.md)).
`profile` returns the script's own code once the script has started. An interrupted command returns 130.
"""


HELPS = """
import sys
from tracelens.cli import main, root
for name in ("", *root.commands):
    main([name, "--help"] if name else ["--help"])
    print("\\f", end="", flush=True)
"""
"""Prints the help of the program and of each command, each followed by a form feed."""


def main(arguments: Sequence[str]) -> int:
    """Write the pages that differ, or with --check only name them. Returns the exit code: 2 for an unknown page."""
    names = [word for word in arguments if word != "--check"]
    unknown = [name for name in names if name not in PAGES]
    if unknown:
        print(f"no such page: {', '.join(unknown)}; there are {', '.join(PAGES)}", file=sys.stderr)
        return 2
    texts = pages(names)
    differing = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in differing:
        print(path.relative_to(ROOT))
        if "--check" not in arguments:
            path.write_text(texts[path], encoding="utf-8")
    return 1 if differing and "--check" in arguments else 0


def pages(names: Sequence[str] = ()) -> dict[Path, str]:
    """The named pages as they should be; all of them without a name. Each is built once."""
    return {PAGES[name][0]: PAGES[name][1]() for name in names or PAGES}


def tracelens(folder: Path, *words: str) -> str:
    """What the command prints, stdout and stderr in the order in which they appear on a terminal."""
    return python(folder, "-m", "tracelens", *words)


def python(folder: Path, *words: str) -> str:
    """What Python prints in that folder, without colors and at the default width."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRACELENS_", "COLUMNS"))}
    environment["LANGUAGE"] = "en"
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={**environment, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )
    return done.stdout


def _commands() -> str:
    """Every command's own help, printed by one process."""
    sys.path.insert(0, str(ROOT))
    from tracelens.cli import root
    from tracelens.cli.renderers import RENDERERS, commands_of

    whole, *texts = (text.rstrip() for text in python(ROOT, "-c", HELPS).split("\f")[:-1])
    helps = dict(zip(root.commands, texts, strict=True))
    parts = [
        "# Commands\n\nGenerated from `--help` by `docs/generate.py`. Every command ends by printing the next one.\n",
        f"```\n$ tracelens --help\n{whole}\n```\n",
    ]
    parts += [f"## {name}\n\n```\n$ tracelens {name} --help\n{text}\n```\n" for name, text in helps.items()]
    rows = [f"| `{one.name}` | {one.about} | {', '.join(commands_of(one))} |" for one in RENDERERS]
    formats = "\n".join(["## Formats\n", "| format | what it is | commands |", "|---|---|---|", *rows, ""])
    return "\n".join([*parts, formats, FORMATS, CODES])


@cache
def _tour() -> str:
    """The page with the answers of the present version; built once, because the README shows an excerpt of it.

    The sample's verify.json is left out: it was recorded after these commands.
    """
    page = (DOCS / "tour.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder) / CASE
        shutil.copytree(ROOT / "sample_traces" / CASE, case)
        measured = _verified(case / "run")
        (case / "run" / "verify.json").unlink()
        for words in PRINTED:
            answer = tracelens(case, *words.split()).rstrip("\n")
            page = _with_answer(page, words, answer)
    return _with_answer(page, VERIFIED, measured)


def _verified(run: Path) -> str:
    """What the present version says of the pairs that verify measured on the GPU."""
    sys.path.insert(0, str(ROOT))
    from tracelens.report import text
    from tracelens.report.terminal import TerminalStyle
    from tracelens.verify import store

    return text.verification(store.read(run), TerminalStyle(WIDTH), "tracelens report run/").strip("\n")


def _with_answer(page: str, words: str, answer: str) -> str:
    start = page.index(BLOCK.format(words=words)) + len(BLOCK.format(words=words))
    return page[:start] + answer + "\n" + page[page.index("```", start) :]


def _rules() -> str:
    return tracelens(ROOT, "rules", "--format", "markdown")


def _patching() -> str:
    """The page with the table of Edit kinds between its markers, from rules/recipes/."""
    sys.path.insert(0, str(ROOT))
    from tracelens.edit_kinds import DEFINITIONS
    from tracelens.schemes import rules

    recipes = rules.load().recipes
    rows = ["| kind | the loop before | the loop after |", "|---|---|---|"]
    for kind in DEFINITIONS:
        recipe = recipes[kind.id]
        label = f"`{kind.id}`" if kind.tier == "safe" else f"`{kind.id}` ({kind.tier})"
        rows.append(f"| {label} | {recipe.loop_before} | {recipe.loop_after} |")
    page = (DOCS / "patching.md").read_text(encoding="utf-8")
    return _between(_between(page, "kinds", "\n".join(rows)), "unsafe", _unsafe_kinds())


def _unsafe_kinds() -> str:
    """A table of the kinds that need --unsafe: their hunks, the schemes that offer them, whether there is a number."""
    from tracelens.edit_kinds import DEFINITIONS, NotReplayed, hunk_id
    from tracelens.schemes import rules

    recipes = rules.load().recipes
    rows = ["| kind | hunks | what it does | schemes | what the replay predicts |", "|---|---|---|---|---|"]
    for kind in DEFINITIONS:
        if kind.tier == "unsafe":
            schemes = ", ".join(f"`{name}`" for name in recipes[kind.id].offered_by)
            gain = f"nothing: {kind.replay.missing}" if isinstance(kind.replay, NotReplayed) else "the step with it"
            first = hunk_id(kind.id, 1)
            rows.append(f"| `{kind.id}` | {first}, … | {recipes[kind.id].title} | {schemes} | {gain} |")
    return "\n".join(rows)


def _between(page: str, name: str, text: str) -> str:
    """The page with this text between the two markers of that name."""
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{text}\n{end}{rest.partition(end)[2]}"


def _readme() -> str:
    """The README with an excerpt of the tour between its markers."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return _between(readme, "tour", f"```\n{_excerpt(_tour())}\n```")


def _excerpt(tour: str) -> str:
    blocks = [
        (block[1], block[2].rstrip()) for block in re.finditer(r"```\n\$ tracelens ([^\n]+)\n(.*?)```", tour, re.S)
    ]
    answers = {words.split()[0]: answer for words, answer in blocks}
    parts = {
        "recommend": answers["recommend"].partition("\nwritten: ")[0],
        "verify": "\n".join([*answers["verify"].splitlines()[:2], "  …"]),
    }
    shown = [words for words, _ in blocks if words.split()[0] in parts]
    return "\n\n".join(f"$ tracelens {words}\n{parts[words.split()[0]]}" for words in shown)


def _catalogue() -> str:
    """The sentences of the program, for translators."""
    sys.path.insert(0, str(DOCS))
    from catalogue import template  # type: ignore[import-not-found]

    return str(template())


PAGES: dict[str, tuple[Path, Callable[[], str]]] = {
    "catalogue": (ROOT / "tracelens/locale/tracelens.pot", _catalogue),
    "commands": (DOCS / "commands.md", _commands),
    "patching": (DOCS / "patching.md", _patching),
    "readme": (ROOT / "README.md", _readme),
    "rules": (DOCS / "rules.md", _rules),
    "tour": (DOCS / "tour.md", _tour),
}
"""The generated pages by name, each with its file and what builds its text."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
