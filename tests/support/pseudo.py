"""A language in which all our letters are Cyrillic: what is still Latin on a screen came from no catalogue."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from gettext import NullTranslations
from html.parser import HTMLParser

FOREIGN = {ord(letter): chr(ord("Ѐ") + ord(letter) - ord("A")) for letter in string.ascii_letters}
VALUE = re.compile(r"(\{[^{}]*\})")
LATIN = re.compile(r"[A-Za-z]{2,}")
UNITS = frozenset({"ms", "MB", "MiB", "GB"})
NAMES = frozenset({"TraceLens", "CUDA", "CPU", "GPU", "Python", "PyTorch", "HTA", "DataLoader", "steps"})
UNREAD = frozenset({"script", "style", "code", "pre"})
READ_ATTRIBUTES = ("aria-label", "title", "alt", "data-label")


def foreign(template: str) -> str:
    """The template with its letters foreign and its values in their places."""
    return "".join(part if VALUE.fullmatch(part) else part.translate(FOREIGN) for part in VALUE.split(template))


class PseudoLanguage(NullTranslations):
    """Remembers the templates that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def gettext(self, message: str) -> str:
        self.asked.add(message)
        return foreign(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        self.asked.add(msgid1)
        return foreign(msgid1 if n == 1 else msgid2)


def untranslated(screen: Iterable[str], data: Iterable[str]) -> list[str]:
    """Lines that hold a word which is no data: neither one of these texts, nor a unit, nor the name of a product."""
    known = "|".join(re.escape(text) for text in sorted(set(data), key=len, reverse=True) if len(text) > 1)
    strip = re.compile(rf"(?<![A-Za-z])(?:{known})(?![A-Za-z])")
    return [line for line in screen if set(LATIN.findall(strip.sub(" ", line))) - UNITS - NAMES]


def share_translated(screen: Iterable[str]) -> float:
    """How many of the letters on a screen are foreign; data have letters too."""
    text = "".join(screen)
    ours, all_letters = len(re.findall(r"[Ѐ-ѹ]", text)), len(re.findall(r"[A-Za-zЀ-ѹ]", text))
    return ours / max(all_letters, 1)


class _PageText(HTMLParser):
    """What a page says: its text and the attributes that are read out; code is data."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unread += tag in UNREAD
        self.said += [value for name, value in attrs if name in READ_ATTRIBUTES and value]

    def handle_endtag(self, tag: str) -> None:
        self._unread -= tag in UNREAD

    def handle_data(self, data: str) -> None:
        if not self._unread and data.strip():
            self.said.append(data.strip())


def page_text(page: str) -> Iterator[str]:
    parser = _PageText()
    parser.feed(page)
    yield from parser.said
