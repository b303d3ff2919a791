"""Reading one mapping of a rule file key by key, with every mistake collected instead of the first one raised.

In: a value that came out of YAML, and the file it came from. Out: typed values, and sentences of the form
"file: key: what was expected". Apart from `rules` because it knows nothing of schemes: only how to ask for a
text, a number, a choice or a list, and how to notice unknown keys.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar, cast

from tracelens.messages import entry, joined, say

Item = TypeVar("Item")
Word = TypeVar("Word", bound=str)


def nearest(word: str, known: Iterable[str]) -> str:
    """' (did you mean …?)', or nothing when no known word is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return say(" (did you mean {close!r}?)", close=close[0]) if close else ""


def shown(value: Any) -> str:
    """A value as a mistake quotes it: short, whatever the file holds."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


class Fields:
    """One mapping of one file. A value that is missing or wrong is noted, and a harmless stand-in is returned: the
    caller looks at the mistakes before it uses any value."""

    def __init__(self, value: Any, file: str, mistakes: list[str], path: str = "") -> None:
        self._file = file
        self._path = path
        self._mistakes = mistakes
        self._asked: list[str] = []
        self._values: Mapping[Any, Any] = {}
        self._broken = not isinstance(value, Mapping)
        if isinstance(value, Mapping):
            self._values = value
        else:
            where = f"{path}: " if path else ""
            mistakes.append(
                say(
                    "{file}: {where}expected keys with values, found {value}",
                    file=file,
                    where=where,
                    value=shown(value),
                )
            )

    def wrong(self, key: str, expected: str) -> None:
        """Note that `key` is not what was expected."""
        self._mistakes.append(f"{self._file}: {self._name(key)}: {expected}")

    def has(self, key: str) -> bool:
        """Whether the key is there (and count it as known)."""
        self._asked.append(key)
        return key in self._values

    def holds(self, key: str, value: Any) -> bool:
        """Whether the key has exactly this value."""
        return bool(self._values.get(key) == value)

    def ignore(self, *keys: str) -> None:
        """Count keys as known without looking at them."""
        self._asked.extend(keys)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._take(key, default, "a text")
        if isinstance(value, str) and (value.strip() or value == default):
            return value.strip()
        if value is not None:
            self.wrong(key, say("expected a text, found {value}", value=shown(value)))
        return ""

    def prose(self, key: str, default: str | None = None) -> str:
        """A text that people read: it is in the catalogue of messages."""
        text = self.text(key, default)
        return entry(text) if text else ""

    def plain(self, key: str) -> str | int | bool:
        """A text, a whole number, or true or false."""
        value = self._take(key, None, say("a text, a whole number, true or false"))
        if isinstance(value, str | int):
            return value
        if value is not None:
            self.wrong(key, say("expected a text, a whole number, true or false, found {value}", value=shown(value)))
        return ""

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number from low to high."""
        expected = say("a number from {low:g} to {high:g}", low=low, high=high)
        value = self._take(key, default, expected)
        if value is None:
            return low
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not low <= value <= high:
            self.wrong(key, say("expected {expected}, found {value}", expected=expected, value=shown(value)))
            return low
        return float(value)

    def choice(self, key: str, allowed: tuple[Word, ...], default: Word | None = None) -> Word:
        """One of the allowed words."""
        value = self._take(key, default, say("one of {allowed}", allowed=joined(", ", allowed)))
        if value in allowed:
            return cast(Word, value)
        if value is not None:
            hint = nearest(value, allowed) if isinstance(value, str) else ""
            self.wrong(
                key,
                say(
                    "expected one of {allowed}, found {value}{hint}",
                    allowed=joined(", ", allowed),
                    value=shown(value),
                    hint=hint,
                ),
            )
        return allowed[0]

    def texts(self, key: str, *, empty: bool = False) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(
            self._text_item(key, index, item)
            for index, item in enumerate(self._list(key, say("a list of texts"), empty))
        )

    def proses(self, key: str) -> tuple[str, ...]:
        """A list of texts that people read."""
        return tuple(entry(text) for text in self.texts(key))

    def choices(self, key: str, allowed: tuple[Word, ...]) -> tuple[Word, ...]:
        """A list of allowed words."""
        out = []
        for value in self._list(key, "a list", empty=False):
            if value in allowed:
                out.append(cast(Word, value))
            else:
                hint = nearest(str(value), allowed)
                self.wrong(
                    key,
                    say(
                        "expected some of {allowed}, found {value}{hint}",
                        allowed=joined(", ", allowed),
                        value=shown(value),
                        hint=hint,
                    ),
                )
        return tuple(out)

    def each(self, key: str, read: Callable[[Fields], Item], *, empty: bool = False) -> tuple[Item, ...]:
        """A list of mappings, each read by `read`; keys that `read` did not ask for are mistakes."""
        out = []
        for index, item in enumerate(self._list(key, "a list", empty)):
            inner = Fields(item, self._file, self._mistakes, f"{self._name(key)}[{index}]")
            out.append(read(inner))
            inner.done()
        return tuple(out)

    def pairs(self, key: str) -> tuple[tuple[float, float], ...]:
        """A list of [x, y] with x growing, at least two."""
        items = self._list(key, say("a list of [x, y]"), empty=False)
        points = [(float(item[0]), float(item[1])) for item in items if _is_pair(item)]
        if len(points) != len(items) or len(points) < 2:
            self.wrong(key, say("expected at least two pairs of numbers [x, y]"))
        elif any(x1 <= x0 for (x0, _), (x1, _) in pairwise(points)):
            self.wrong(key, say("expected x to grow from pair to pair"))
        elif any(not 0 <= y <= 10 for _, y in points):
            self.wrong(key, say("expected scores y from 0 to 10"))
        else:
            return tuple(points)
        return ((0.0, 0.0), (1.0, 0.0))

    def inner(self, key: str) -> Fields:
        """A mapping inside this one; the caller calls its `done`."""
        value = self._take(key, None, say("keys with values"))
        return Fields({} if value is None else value, self._file, self._mistakes, self._name(key))

    def keys(self) -> tuple[str, ...]:
        """All keys, as text."""
        return tuple(str(key) for key in self._values)

    def done(self) -> None:
        """Note every unknown key."""
        for key in self.keys():
            if key not in self._asked:
                known = sorted(set(self._asked))
                self.wrong(
                    key,
                    say(
                        "is not known here{nearest}",
                        nearest=nearest(key, known) or say(": expected {known}", known=joined(", ", known)),
                    ),
                )

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _take(self, key: str, default: Any, expected: str) -> Any:
        if self.has(key) and self._values[key] is not None:
            return self._values[key]
        if default is None and not self._broken:  # a mapping that is none at all was noted once; that is enough
            self.wrong(key, say("is missing, expected {expected}", expected=expected))
        return default

    def _list(self, key: str, expected: str, empty: bool) -> list[Any]:
        value = self._take(key, [] if empty else None, expected)
        if isinstance(value, list) and (value or empty):
            return value
        if value is not None:
            self.wrong(
                key,
                say("expected {expected}, found {value}", expected=expected, value=shown(value))
                if empty
                else say(
                    "expected {expected} with at least one entry, found {value}", expected=expected, value=shown(value)
                ),
            )
        return []

    def _text_item(self, key: str, index: int, item: Any) -> str:
        if isinstance(item, str) and item.strip():
            return item.strip()
        self.wrong(f"{key}[{index}]", say("expected a text, found {item}", item=shown(item)))
        return ""


def _is_pair(item: Any) -> bool:
    return (
        isinstance(item, list)
        and len(item) == 2
        and all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in item)
    )
