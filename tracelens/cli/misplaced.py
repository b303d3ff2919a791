"""Options of ours that were typed after the script, where they are the script's.

In: the words of a command. Out: the words that may be meant for us, and the command with them in front. The run goes
on: a script may well have an option of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class MisplacedOptions:
    """`words` as typed, and the arguments with them before the script."""

    words: tuple[str, ...]
    moved: tuple[str, ...]


def misplaced(command: click.Command, before: Sequence[str], words: Sequence[str]) -> MisplacedOptions | None:
    """The long options after the script whose names this command has as well; None where there is none."""
    ours = {name: option.is_flag for option in _options(command) for name in option.opts if name.startswith("--")}
    places = [place for found in _found(words, ours) for place in found]
    if not places:
        return None
    taken = tuple(words[place] for place in places)
    rest = tuple(word for place, word in enumerate(words) if place not in places)
    return MisplacedOptions(taken, (*before, *taken, *rest))


def _options(command: click.Command) -> Iterator[click.Option]:
    return (parameter for parameter in command.params if isinstance(parameter, click.Option))


def _found(words: Sequence[str], ours: Mapping[str, bool]) -> Iterator[tuple[int, ...]]:
    """The places of each such option and of its value; the first word is the script."""
    for place, word in enumerate(words):
        name, with_value, _ = word.partition("=")
        if place == 0 or name not in ours:
            continue
        has_value = not (ours[name] or with_value) and place + 1 < len(words)
        yield (place, place + 1) if has_value else (place,)
