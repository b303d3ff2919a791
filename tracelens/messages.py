"""What the program says, in the reader's language: every sentence is one template with named values.

In: templates in English, which are the source of the catalogue (`locale/tracelens.pot`), and values. Out: a Message,
which is the English sentence wherever it is compared, kept or written as JSON; `shown` turns it into the reader's
language where it is drawn. Text that is no Message is data: names, numbers, code.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gettext import NullTranslations

DOMAIN: Final = "tracelens"
FOLDER: Final = Path(__file__).with_name("locale")
VARIABLES: Final = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""Where the user's languages are read: the first that is set, as gettext does."""
SOURCE: Final = ("C", "POSIX", "en")
"""Languages that need no catalogue; what stands behind one of them in LANGUAGE is not wanted."""


class Message(str):
    """An English sentence that knows the template and the values it was made of."""

    __slots__ = ("many", "template", "values")
    template: str
    many: str
    """The template for several of what `count` counts; empty where nothing is counted."""
    values: Mapping[str, object]

    def __new__(
        cls, english: str, template: str = "", values: Mapping[str, object] | None = None, many: str = ""
    ) -> Message:
        self = super().__new__(cls, english)
        self.template, self.values, self.many = template, values or {}, many
        return self

    def translated(self, translations: NullTranslations) -> str:
        """The sentence in another language, its values as well."""
        if self.many:
            template = translations.ngettext(self.template, self.many, int(str(self.values["count"])))
        else:
            template = translations.gettext(self.template)
        return template.format(**{name: _shown_value(value) for name, value in self.values.items()})


class _JoinedMessage(Message):
    """Parts with a separator between them, which is the template."""

    __slots__ = ()

    def translated(self, translations: NullTranslations) -> str:
        return translations.gettext(self.template).join(str(_shown_value(part)) for part in self.values.values())


class _CapitalizedMessage(Message):
    """Another message, with a capital at its start."""

    __slots__ = ()

    def translated(self, _: NullTranslations) -> str:
        return _capitalized(str(_shown_value(self.values["text"])))


def say(template: str, /, **values: object) -> Message:
    """A sentence, a heading or a word of the program; `{name}` in the template stands for a value."""
    return Message(template.format(**values), template, values)


def entry(text: str, value: str = "{value}") -> Message:
    """A text of a rule file, which is in the catalogue as it is; `{value}` in it is what the user chose."""
    template = text.replace("{", "{{").replace("}", "}}").replace("{{value}}", "{value}")
    return Message(text.replace("{value}", value), template, {"value": value})


def say_count(one: str, many: str, count: int, /, **values: object) -> Message:
    """A sentence that counts something; `{count}` in the templates is the number."""
    values["count"] = count
    return Message((one if count == 1 else many).format(**values), one, values, many)


def joined(separator: str, parts: Iterable[str]) -> Message:
    """Parts side by side; the separator is in the catalogue too, because not every language writes `, `."""
    return _joined(separator, tuple(parts))


def capital(text: str) -> Message:
    """The sentence with a capital at its start."""
    return _CapitalizedMessage(_capitalized(text), "", {"text": text})


def begun(text: str) -> str:
    """The sentence with a capital, unless it begins with the name of a file or a function: `train.py:8 takes …`."""
    return capital(text) if text.partition(" ")[0].isalpha() else text


def value_in(text: str, name: str) -> str:
    """A value that a sentence was made of, wherever in it; empty where it has none of that name."""
    if not isinstance(text, Message):
        return ""
    own = text.values.get(name)
    if isinstance(own, str):
        return own
    inner = (value_in(value, name) for value in text.values.values() if isinstance(value, str))
    return next(filter(None, inner), "")


def parts_of(text: str) -> tuple[str, ...]:
    """The sentences that were joined to this one; itself where it is a single one, nothing where it is empty."""
    if isinstance(text, _JoinedMessage):
        return tuple(str(part) if not isinstance(part, str) else part for part in text.values.values())
    return (text,) if text else ()


def with_value(text: str, old: str, new: str) -> str:
    """The sentence made anew with `new` where it was made with `old`, however deep."""
    if text == old:
        return new
    if not isinstance(text, Message):
        return text
    values = {
        name: with_value(value, old, new) if isinstance(value, str) else value for name, value in text.values.items()
    }
    if isinstance(text, _JoinedMessage):
        return _joined(
            text.template, tuple(str(part) if not isinstance(part, str) else part for part in values.values())
        )
    return Message(text.template.format(**values), text.template, values) if not text.many and text.template else text


def _joined(separator: str, parts: tuple[str, ...]) -> Message:
    return _JoinedMessage(separator.join(parts), separator, {str(place): part for place, part in enumerate(parts)})


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _shown_value(value: object) -> object:
    return shown(value) if isinstance(value, str) else value


def shown(text: str) -> str:
    """The text in the reader's language."""
    if not isinstance(text, Message):
        return text
    translations = catalogue()
    return str(text) if translations is None else text.translated(translations)


@cache
def catalogue() -> NullTranslations | None:
    """The sentences in the language of the user's environment; None where that is English or has no catalogue."""
    wanted = next((value for name in VARIABLES if (value := os.environ.get(name))), "")
    languages = tuple(itertools.takewhile(lambda name: not name.startswith(SOURCE), wanted.split(":")))
    import gettext

    if not languages or not gettext.find(DOMAIN, str(FOLDER), languages):
        return None
    return gettext.translation(DOMAIN, str(FOLDER), languages)
