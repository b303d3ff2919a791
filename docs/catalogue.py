"""The template of the message catalogue: every sentence that Python, the page and the rule files give to people.

In: the package and `rules/`. Out: the text of `tracelens/locale/tracelens.pot`. Sentences are found by what marks them
(`say`, `say_count`, `joined`, in the scripts of the page `say`); a rule file's texts are those that its reader marks,
those of `--help` stand in the commands.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import write_po

ROOT = Path(__file__).resolve().parent.parent
KEYWORDS = {"say": None, "say_count": (1, 2), "joined": None}
METHODS = {
    ".py": "python",
    ".html": "jinja2.ext:babel_extract",
    ".svg": "jinja2.ext:babel_extract",
    ".js": "javascript",
}


def template() -> str:
    """The catalogue's template, sorted, without lines or dates: it changes when a sentence does."""
    found = Catalog(project="TraceLens", fuzzy=False)
    for place, message in (*_of_code(), *_of_help(), *_of_rules()):
        found.add(message, locations=[(place, 0)])
    out = io.BytesIO()
    write_po(out, found, omit_header=True, sort_output=True, include_lineno=False, width=120)
    return out.getvalue().decode()


def _of_code() -> Iterator[tuple[str, str | tuple[str, ...]]]:
    for path in sorted((ROOT / "tracelens").rglob("*")):
        method = METHODS.get(path.suffix)
        if method is not None and path.name != "messages.py":
            options = {"trimmed": "true"} if path.suffix in (".html", ".svg") else {}
            with path.open("rb") as file:
                for _, message, _, _ in extract(method, file, KEYWORDS, (), options):
                    if isinstance(message, str) and message.isspace():  # between lines, the same in every language
                        continue
                    yield path.relative_to(ROOT).as_posix(), message


def _of_help() -> Iterator[tuple[str, str | tuple[str, str]]]:
    """What `--help` says, as the commands have it, and click's own sentences."""
    sys.path.insert(0, str(ROOT))
    from tracelens.cli import help_texts, root

    yield from (("--help", text) for text in (*help_texts.texts(root), *help_texts.OF_CLICK))


def _of_rules() -> Iterator[tuple[str, str]]:
    sys.path.insert(0, str(ROOT))
    from tracelens.messages import Message
    from tracelens.schemes.rules import load

    def walk(value: Any) -> Iterator[Message]:
        if isinstance(value, Message):
            yield value
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from walk(getattr(value, field.name))
        elif isinstance(value, Mapping):
            for one in value.values():
                yield from walk(one)
        elif isinstance(value, tuple | list):
            for one in value:
                yield from walk(one)

    yield from (("rules", message.template) for message in walk(load()))


def report() -> str:
    """How many sentences are in the catalogue, and how many phrases of which part of the package are in none."""
    sys.path.insert(0, str(ROOT))
    from tests.support.sources import MODULES, name_of
    from tests.support.visible_strings import unmarked

    out = Counter(name_of(path).partition("/")[0] for path in MODULES for _ in unmarked(path))
    rows = [f"{count:6} {name}" for name, count in out.most_common()]
    entries = template().count("\nmsgid ") + 1
    head = f"{entries} sentences are in the catalogue; {sum(out.values())} phrases of Python are not:"
    return "\n".join([head, *rows])


if __name__ == "__main__":
    print(report())
