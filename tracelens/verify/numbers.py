"""Are the numbers of two arms the same, bit for bit, and if not, where do they part first?

In: two arm records. Out: the first `Difference`, or None. The order of comparison is the order of cause: number of
steps, losses in the order of backward, then parameters and buffers, then the printed lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal

from tracelens.verify import output, papers
from tracelens.verify.arms import ArmRecord

Part = Literal["ranks", "steps", "loss", "state", "output"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two arms part first; `original` and `patched` are what stands there (a number, a line, a shape)."""

    part: Part
    where: str
    original: str
    patched: str

    def __str__(self) -> str:
        return f"{self.where}: {self.original} in the original, {self.patched} in the patched version"

    def document(self) -> dict[str, str]:
        return asdict(self)


def tensors(original: ArmRecord, patched: ArmRecord) -> Difference | None:
    """The first difference in steps, losses, parameters and buffers; of all ranks' the one that comes first.

    Ranks exchange gradients: what one of them does wrong the others have a step later.
    """
    if len(original.ranks) != len(patched.ranks):
        return Difference("ranks", "training processes", str(len(original.ranks)), str(len(patched.ranks)))
    found = [
        one
        for a, b in zip(original.ranks, patched.ranks, strict=True)
        if (one := _of_rank(a, b, f"rank {a['rank']}, " if len(original.ranks) > 1 else "")) is not None
    ]
    return min(found, key=lambda one: one[:2])[2] if found else None


def _of_rank(a: Mapping[str, Any], b: Mapping[str, Any], label: str) -> tuple[int, int, Difference] | None:
    """Where one rank's records part: which kind of thing, which of its kind, and what stands there."""
    if a["steps"] != b["steps"]:
        return 0, 0, Difference("steps", f"{label}steps made", str(a["steps"]), str(b["steps"]))
    losses = _first(label, "loss", a.get("losses", ()), b.get("losses", ()))
    if losses is not None:
        return 1, *losses
    states = _first(label, "state", a["state"], b["state"])
    return None if states is None else (2, *states)


def states(original: ArmRecord, patched: ArmRecord) -> bool:
    """Whether two arms of the same number of steps end with the same parameters and buffers."""
    pairs = zip(original.ranks, patched.ranks, strict=False)
    return len(original.ranks) == len(patched.ranks) and all(
        a["steps"] == b["steps"] and _first("", "state", a["state"], b["state"]) is None for a, b in pairs
    )


def printed(originals: Sequence[ArmRecord], patched: ArmRecord) -> tuple[Difference | None, output.Mask]:
    """The first line that differs from what every original prints. Lines of several ranks have no order."""
    mask = output.mask_of([record.stdout for record in originals])
    found = None
    if mask.comparable:
        found = output.difference(originals[0].stdout, patched.stdout, mask, ordered=len(patched.ranks) == 1)
    if found is None:
        return told(originals, patched), mask
    where = f"line {found.line} of standard output"
    return Difference("output", where, _quoted(found.original), _quoted(found.patched)), mask


def told(originals: Sequence[ArmRecord], patched: ArmRecord) -> Difference | None:
    """The same for standard error and text files. A library may speak up on standard error while lines wait: what
    stands there has no order."""
    for name in papers.shared([record.papers for record in originals]):
        texts = [record.papers[name] for record in originals]
        mask = output.mask_of(texts)
        if name not in patched.papers:
            return Difference("output", name, "written", "missing")
        ordered = len(patched.ranks) == 1 and name != papers.ERRORS
        found = output.difference(texts[0], patched.papers[name], mask, ordered=ordered) if mask.comparable else None
        if found is not None:
            where = f"line {found.line} of {name}" if ordered else name
            return Difference("output", where, _quoted(found.original), _quoted(found.patched))
    return None


def compared(record: ArmRecord) -> dict[str, int]:
    """How much was compared: so that "equal" can be seen to mean something."""
    return {
        "ranks": len(record.ranks),
        "steps": record.steps,
        "losses": sum(len(rank.get("losses", ())) for rank in record.ranks),
        "tensors": sum(len(rank["state"]) for rank in record.ranks),
        "unreadable_tensors": sum("unreadable" in entry for rank in record.ranks for entry in rank["state"]),
        "lines": len(output.lines(record.stdout)),
        "error_lines": len(output.lines(record.papers.get(papers.ERRORS, ""))),
        "text_files": len(record.papers.keys() - {papers.ERRORS}),
    }


def _first(
    label: str, part: Part, left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]
) -> tuple[int, Difference] | None:
    for index, (a, b) in enumerate(zip_longest(left, right)):
        if a is None or b is None:
            where = f"{label}{(a or b)['name']}"
            return index, Difference(part, where, "present" if a else "missing", "present" if b else "missing")
        if any(a.get(key) != b.get(key) for key in ("name", "dtype", "shape", "sha256")):
            return index, Difference(part, f"{label}{a['name']}", _shown(a), _shown(b))
    return None


def _shown(entry: Mapping[str, Any]) -> str:
    """A scalar's value; of a larger tensor its first elements and its sum."""
    first = entry.get("first", [])
    if not entry["shape"] and first:
        return repr(first[0])
    return f"{entry['name']} {entry['dtype']}{entry['shape']} {first} … sum {entry.get('sum')}"


def _quoted(line: str | None) -> str:
    return "nothing" if line is None else repr(line[:200])
