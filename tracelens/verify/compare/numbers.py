"""Whether the numbers of two processes are equal, bit for bit, and where they differ first.

In: two process records. Out: the first `Difference`, or None. The order of comparison is the order of cause: number of
steps, losses in the order of backward, the optimizers' settings, then parameters and buffers, then the printed lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal

from tracelens.messages import say
from tracelens.verify.compare import printed_output
from tracelens.verify.compare.printed_output import LineDifference, Mask
from tracelens.verify.trial_process import STANDARD_ERROR, ProcessRecord

Part = Literal["ranks", "steps", "loss", "setting", "state", "output"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two records; `original` and `patched` are the values: a number, a line, a shape."""

    part: Part
    where: str
    original: str
    patched: str

    def __str__(self) -> str:
        return say(
            "{where}: {original} in the original, {patched} in the patched version",
            where=self.where,
            original=self.original,
            patched=self.patched,
        )

    def document(self) -> dict[str, str]:
        return asdict(self)


def tensor_difference(original: ProcessRecord, patched: ProcessRecord) -> Difference | None:
    """The first difference in steps, losses, optimizers' settings, parameters and buffers, over all ranks.

    Ranks exchange gradients: a wrong number of one rank is in the others one step later.
    """
    if len(original.ranks) != len(patched.ranks):
        return Difference("ranks", say("training processes"), str(len(original.ranks)), str(len(patched.ranks)))
    label = "rank {rank}, " if len(original.ranks) > 1 else ""
    per_rank = [
        _of_rank(a, b, label.format(rank=a["rank"])) for a, b in zip(original.ranks, patched.ranks, strict=True)
    ]
    differences = [difference for difference in per_rank if difference is not None]
    return min(differences, key=lambda difference: difference[:2])[2] if differences else None


def _of_rank(a: Mapping[str, Any], b: Mapping[str, Any], label: str) -> tuple[int, int, Difference] | None:
    """The first difference of one rank: (order of its kind, position among its kind, difference)."""
    if a["steps"] != b["steps"]:
        return 0, 0, Difference("steps", say("{label}steps made", label=label), str(a["steps"]), str(b["steps"]))
    losses = _first(label, "loss", a.get("losses", ()), b.get("losses", ()))
    if losses is not None:
        return 1, *losses
    settings = _first_setting(label, a.get("settings", ()), b.get("settings", ()))
    if settings is not None:
        return 2, *settings
    states = _first(label, "state", a["state"], b["state"])
    return None if states is None else (3, *states)


def equal_states(original: ProcessRecord, patched: ProcessRecord) -> bool:
    """Whether two processes made the same number of steps and ended with equal parameters and buffers."""
    pairs = zip(original.ranks, patched.ranks, strict=False)
    return len(original.ranks) == len(patched.ranks) and all(
        a["steps"] == b["steps"] and _first("", "state", a["state"], b["state"]) is None for a, b in pairs
    )


def output_difference(originals: Sequence[ProcessRecord], patched: ProcessRecord) -> tuple[Difference | None, Mask]:
    """The first difference from what every original prints, and the mask of what the originals print differently.

    Standard output first, then the side outputs. The lines of several ranks have no order.
    """
    mask = printed_output.mask_of([record.stdout for record in originals])
    line = None
    if mask.comparable:
        line = printed_output.difference(originals[0].stdout, patched.stdout, mask, ordered=len(patched.ranks) == 1)
    if line is None:
        return side_output_difference(originals, patched), mask
    return _output_difference(say("line {line} of standard output", line=line.line), line), mask


def side_output_difference(originals: Sequence[ProcessRecord], patched: ProcessRecord) -> Difference | None:
    """The first difference in standard error and in the files that every original writes.

    Standard error has no order: a library may write there at another moment while lines are deferred. A file that only
    one original writes has a time or a process number in its name and is not compared.
    """
    first, *others = [record.side_outputs for record in originals]
    for name in [name for name in first if all(name in other for other in others)]:
        mask = printed_output.mask_of([first[name], *(other[name] for other in others)])
        if name not in patched.side_outputs:
            return Difference("output", name, "written", "missing")
        if not mask.comparable:
            continue
        ordered = len(patched.ranks) == 1 and name != STANDARD_ERROR
        line = printed_output.difference(first[name], patched.side_outputs[name], mask, ordered=ordered)
        if line is not None:
            return _output_difference(
                say("line {line} of {name}", line=line.line, name=name) if ordered else name, line
            )
    return None


def _output_difference(where: str, line: LineDifference) -> Difference:
    return Difference("output", where, _quoted(line.original), _quoted(line.patched))


def compared_counts(record: ProcessRecord) -> dict[str, int]:
    """How much was compared, so that a reader can judge what "equal" covers."""
    return {
        "ranks": len(record.ranks),
        "steps": record.steps,
        "losses": sum(len(rank.get("losses", ())) for rank in record.ranks),
        "tensors": sum(len(rank["state"]) for rank in record.ranks),
        "settings": sum(len(rank.get("settings", ())) for rank in record.ranks),
        "unreadable_tensors": sum("unreadable" in entry for rank in record.ranks for entry in rank["state"]),
        "lines": len(printed_output.lines(record.stdout)),
        "error_lines": len(printed_output.lines(record.side_outputs.get(STANDARD_ERROR, ""))),
        "text_files": len(record.side_outputs.keys() - {STANDARD_ERROR}),
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


def _first_setting(
    label: str, left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]
) -> tuple[int, Difference] | None:
    """The setting of an optimizer that differs in the earliest step, with that step."""
    a, b = ({entry["name"]: dict(entry["changes"]) for entry in side} for side in (left, right))
    differences = []
    for name in dict.fromkeys((*a, *b)):
        mine, other = a.get(name, {}), b.get(name, {})
        steps = [step for step in sorted({*mine, *other}) if _value_at(mine, step) != _value_at(other, step)]
        if steps:
            where = say("{label}{name} at step {steps}", label=label, name=name, steps=steps[0])
            values = (_value_at(changes, steps[0]) for changes in (mine, other))
            differences.append((steps[0], Difference("setting", where, *map(str, values))))
    return min(differences, key=lambda difference: difference[0]) if differences else None


def _value_at(changes: Mapping[int, Any], step: int) -> Any:
    """The value that a setting has at a step: that of its last change; "missing" before the first."""
    before = [earlier for earlier in changes if earlier <= step]
    return changes[max(before)] if before else "missing"


def _shown(entry: Mapping[str, Any]) -> str:
    """A scalar's value; of a larger tensor its first elements and its sum."""
    first = entry.get("first", [])
    if not entry["shape"] and first:
        return repr(first[0])
    return say(
        "{name} {dtype}{shape} {first} … sum {entry}",
        name=entry["name"],
        dtype=entry["dtype"],
        shape=entry["shape"],
        first=first,
        entry=entry.get("sum"),
    )


def _quoted(line: str | None) -> str:
    return "nothing" if line is None else repr(line[:200])
