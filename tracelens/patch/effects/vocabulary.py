"""What is known of the functions and objects of libraries. What `vocabulary.yaml` does not have is unknown.

In: the full name of a function (`torch.save`), or of an object's member by the object's kind (`<bar>.set_postfix`).
Out: `Entry`, by the longest pattern that fits. The YAML file says what its keys mean, and why each entry is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import yaml

from tracelens.patch.effects import objects
from tracelens.patch.effects.words import words

_EFFECTS: Mapping[str, str] = {
    "output": objects.OUTPUT,
    "tracked": objects.TRACKED,
    "queued": objects.QUEUED,
    "bar": objects.BAR,
    "disk-read": objects.DISK_READ,
    "disk-look": objects.DISK_LOOK,
    "disk-write": objects.DISK_WRITE,
    "random": objects.RANDOM,
    "clock": objects.CLOCK,
    "collective": objects.COLLECTIVE,
    "raises": objects.RAISES,
    "waits": objects.WAITS,
    "names": objects.NAMES,
    "sets": objects.SETS,
}


_WIDE = (
    *("torch.", "torchvision.", "torchaudio.", "numpy.", "scipy.", "sklearn.", "pandas.", "PIL.", "cv2.", "skimage."),
    *("cupy.", "numba.", "jax.", "librosa.", "transformers.", "timm.", "einops.", "networkx.", "rdkit.", "heapq."),
    *("bisect.", "argparse.", "omegaconf.", "pickle.", "io.", "os.", "sys.", "socket.", "<data>.", "<module>."),
    *("<loader>.", "<optimizer>.", "<scheduler>.", "<other>.", "<buffer>."),
)
"""The patterns of these say what most of their functions do: enough for what stays where it is, no proof for a move."""
_SETS = re.compile("(set|use|enable|disable|register|reset|seed|install)_|set[A-Z]")
"""What a function of a library is called that changes how the rest runs: no pattern stands for one."""
_PRINTS = words("print println printf pprint echo")
_SHOWS = words("show dump display displayhook interact prompt confirm pause pager banner render reveal warn download")
_SPEAKS = words("pp help info main puts warning write writelines")
"""Anywhere in a name, at its beginning, or all of it: what may write lines, whatever the rest of its library does. No
pattern speaks against it."""
_PARTS_OF_NAMES = re.compile("[A-Z]?[a-z]+|[A-Z]+")


@dataclass(frozen=True)
class Entry:
    """One entry of the vocabulary; `does` are kinds of effects.

    `fresh`: what it gives has none of its arguments; so does what a name gives that stands there by itself.
    `shares`: what it gives shares the memory of the tensor or module of which it is a member.
    """

    why: str
    does: tuple[str, ...] = ()
    gives: str = "plain"
    changes: str = ""
    calls: str = ""
    fresh: bool = False
    shares: bool = False


def knows(full: str) -> bool:
    """Whether a name has an entry by itself, not by a pattern."""
    return full in _entries()


@lru_cache(maxsize=1 << 12)
def is_module(full: str) -> bool:
    """Whether a name without an entry is that of a library's module, whose functions have some: nobody calls it."""
    return full not in _entries() and any(name.startswith(f"{full}.") for name in _entries())


def shares_memory(member: str) -> bool:
    """Whether an attribute or a method of a tensor or a module gives memory that it has as well: `weight`, `detach`."""
    return any(full in _entries() and _entries()[full].shares for full in (f"<data>.{member}", f"<module>.{member}"))


@lru_cache(maxsize=1 << 14)
def lookup(full: str) -> Entry | None:
    """The entry for a full name, None where nothing is known."""
    known = _entries()
    if full in known:
        return known[full]
    parts = full.split(".")
    if not full.startswith("<") and _SETS.match(parts[-1]):
        return None
    prefixes = (".".join([*parts[:size], "*"]) for size in range(len(parts) - 1, 0, -1))
    found = next((known[prefix] for prefix in prefixes if prefix in known), None)
    if found is None or not _may_print(parts[-1]):
        return found
    return replace(found, does=tuple(dict.fromkeys((*found.does, objects.OUTPUT, objects.DISK_WRITE))))


def _may_print(name: str) -> bool:
    """Whether a function's name says that it may write lines: `print_stats`, `show`, `info`, but not `memory_info`."""
    parts = [part.lower() for part in _PARTS_OF_NAMES.findall(name)]
    return name in _SPEAKS or not _PRINTS.isdisjoint(parts) or not _SHOWS.isdisjoint(parts[:1])


def is_general(full: str) -> bool:
    """Whether all that is known of a function is a pattern that it shares with many others: most of them compute.

    A module computes as well, but some draw random numbers, or count what they are given.
    """
    return full.startswith("<module>.") or (full not in _entries() and full.startswith(_WIDE))


@cache
def _entries() -> dict[str, Entry]:
    text = Path(__file__).with_name("vocabulary.yaml").read_text(encoding="utf-8")
    out: dict[str, Entry] = {}
    for record in yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        does = tuple(_EFFECTS[word] for word in record.get("does", ()))
        words = (record.get("gives", "plain"), record.get("changes", ""), record.get("calls", ""))
        entry = Entry(record["why"], does, *words, record.get("fresh", False), record.get("shares", False))
        for name in record["names"].split():
            if name in out:
                raise ValueError(f"vocabulary.yaml has `{name}` twice")
            out[name] = entry
    return out
