"""Write the parts of README and docs that the program prints itself; a test compares them with what it prints.

    python docs/generate.py          write
    python docs/generate.py --check  say which pages differ, exit with 1

docs/rules.md and docs/commands.md are printed whole. In docs/tour.md the answers to recommend, report and apply are
printed from the recorded run in sample_traces/; what was recorded on the GPU itself (profile, verify) stays as it was.
README shows an excerpt of the tour.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CASE = "sync_every_batch"
BLOCK = "```\n$ tracelens {words}\n"
PRINTED = ("recommend run", "report run", "apply run")
"""Commands of the tour that the present version answers; in this order, because apply changes the files."""
FORMATS = """## Formats

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

`profile` returns the script's own code once the script has started. An interrupted command returns 130.
"""


def main(arguments: list[str]) -> int:
    """Write what differs, or with --check only say it."""
    differing = [path for path, text in pages().items() if path.read_text(encoding="utf-8") != text]
    for path in differing:
        print(path.relative_to(ROOT))
    if "--check" in arguments:
        return 1 if differing else 0
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[Path, str]:
    """Every generated page as it should be."""
    tour = _tour((DOCS / "tour.md").read_text(encoding="utf-8"))
    return {
        DOCS / "rules.md": tracelens(ROOT, "rules", "--format", "markdown"),
        DOCS / "commands.md": _commands(),
        DOCS / "tour.md": tour,
        ROOT / "README.md": _readme((ROOT / "README.md").read_text(encoding="utf-8"), tour),
    }


def tracelens(folder: Path, *words: str) -> str:
    """What the command prints, stdout and stderr in the order in which they appear on a terminal."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRACELENS_", "COLUMNS"))}
    done = subprocess.run(
        [sys.executable, "-m", "tracelens", *words],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={**environment, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )
    return done.stdout


def _commands() -> str:
    """Every command's own help."""
    sys.path.insert(0, str(ROOT))
    from tracelens.cli import root

    parts = [
        "# Commands\n\nGenerated from `--help` by `docs/generate.py`. Every command ends by printing the next one.\n",
        f"```\n$ tracelens --help\n{_help()}```\n",
    ]
    parts += [f"## {name}\n\n```\n$ tracelens {name} --help\n{_help(name)}```\n" for name in root.commands]
    return "\n".join([*parts, FORMATS, CODES])


def _help(*command: str) -> str:
    return tracelens(ROOT, *command, "--help").rstrip() + "\n"


def _tour(page: str) -> str:
    """The page with the answers of the present version. What was verified later is hidden from it."""
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder) / CASE
        shutil.copytree(ROOT / "sample_traces" / CASE, case)
        (case / "run" / "verify.json").unlink()
        for words in PRINTED:
            answer = tracelens(case, *words.split()).rstrip("\n")
            page = _with_answer(page, words, answer)
    return page


def _with_answer(page: str, words: str, answer: str) -> str:
    start = page.index(BLOCK.format(words=words)) + len(BLOCK.format(words=words))
    return page[:start] + answer + "\n" + page[page.index("```", start) :]


def _readme(readme: str, tour: str) -> str:
    """The README with an excerpt of the tour between its markers."""
    before, _, rest = readme.partition("<!-- tour:begin -->\n")
    after = rest.partition("<!-- tour:end -->")[2]
    return f"{before}<!-- tour:begin -->\n```\n{_excerpt(tour)}\n```\n<!-- tour:end -->{after}"


def _excerpt(tour: str) -> str:
    found = [(one[1], one[2].rstrip()) for one in re.finditer(r"```\n\$ tracelens ([^\n]+)\n(.*?)```", tour, re.S)]
    answers = {words.split()[0]: answer for words, answer in found}
    recorded = [line for line in answers["profile"].splitlines() if line.startswith("tracelens: ")]
    apply = answers["apply"].partition("\nChanges\n")[0].rstrip()
    parts = {
        "profile": "\n".join(recorded),
        "recommend": answers["recommend"].partition("\n\nWhy not")[0],
        "report": answers["report"].splitlines()[0],
        "apply": apply[_second_hunk(apply) :],
        "verify": "\n".join([*answers["verify"].splitlines()[:9], "  …"]),
    }
    return "\n\n".join(f"$ tracelens {words}\n{parts[words.split()[0]]}" for words, _ in found)


def _second_hunk(diff: str) -> int:
    """Where the first hunk ends, which only imports the helper."""
    return diff.index("\n@@ ", diff.index("\n@@ ") + 1) + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
