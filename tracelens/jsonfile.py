"""Reading and checking JSON files that TraceLens wrote, which may since have been edited or cut short.

In: a path, and the shape its readers rely on. Out: the object, or `InputError` with the file, the value and what was
expected. A shape is a type, a list with the shape of its entries, a dict with the shapes of the keys that matter, or
a set of the values allowed. Everything but an entry of a list may also be null: not known.

Apart from `run` because the Run folder is not the only reader; it imports nothing, because it also runs inside the
user's process.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracelens.errors import InputError
from tracelens.messages import say

Shape = type | list[Any] | dict[str, Any] | frozenset[str]

LARGEST = 1 << 62
"""Half of what 64 bits hold, so that the difference of two still fits."""
_CALLED = {
    str: say("text"),
    int: say("a whole number"),
    float: say("a number"),
    bool: say("true or false"),
    list: say("a list"),
}
_SHOWN = 40


def read(path: Path, *, missing: str, damaged: str) -> dict[str, Any]:
    """The object in a file; `missing` and `damaged` are the hints for a file that is not there or cannot be used."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(say("{path} does not exist", path=path), hint=missing) from None
    except OSError as error:
        raise InputError(
            say("{path} cannot be read: {strerror}", path=path, strerror=error.strerror), hint=damaged
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(say("{path} cannot be read: {error}", path=path, error=error), hint=damaged) from error
    if not isinstance(value, dict):
        raise InputError(say("{path} is not a JSON object", path=path), hint=damaged)
    return value


def check(value: Any, shape: Shape, where: str = "") -> None:
    """Raise `ValueError` for the first value that is not as `shape` says; `where` names the value."""
    if value is None:
        return
    if isinstance(shape, frozenset):
        if not isinstance(value, str) or value not in shape:
            raise ValueError(f"{where} should be one of {', '.join(sorted(shape))}, but is {_shown(value)}")
        return
    kind = shape if isinstance(shape, type) else type(shape)
    if not _is(value, kind):
        raise ValueError(f"{where or 'it'} should be {_CALLED.get(kind, 'an object')}, but is {_shown(value)}")
    if isinstance(shape, list):
        for number, entry in enumerate(value):
            if entry is None:
                raise ValueError(f"{where}[{number}] is null")
            check(entry, shape[0], f"{where}[{number}]")
    elif isinstance(shape, dict):
        for key in (key for key in shape if key in value):
            check(value[key], shape[key], f"{where}.{key}" if where else key)


def microseconds(ns: int | None) -> float | None:
    """A time as JSON has it; inside the program times are integer ns."""
    return None if ns is None else ns / 1000


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):  # which Python counts among the integers
        return kind is bool
    if kind in (int, float):
        return isinstance(value, int if kind is int else (int, float)) and abs(value) <= LARGEST
    return isinstance(value, kind)


def _shown(value: Any) -> str:
    return json.dumps(value)[:_SHOWN]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
