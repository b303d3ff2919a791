"""A Diagnosis without what names its user's work: for pages that are sent to people outside.

In: a Diagnosis. Out: the same with files and functions called `file1.py` and `function1`, without source, patch,
command, revision and names of the user's own annotations. Times, line numbers, CUDA calls and kernels stay: they are
what the page is about. Everything is replaced in every text of the Diagnosis, wherever it stands.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import Diagnosis, IllustratedDiagnosis, Location, Run, TextColumn, Timeline, Trace, Verification


def redacted(diagnosis: IllustratedDiagnosis) -> IllustratedDiagnosis:
    """The same numbers, no names."""
    aliases = _aliases(diagnosis)
    names = _Names(aliases)
    bare = dataclasses.replace(
        diagnosis, sources={}, patches={}, written={}, unsafe=None, run=None, traces=(), monitor=(), verifications=()
    )
    whole = _replaced(dataclasses.replace(bare, timeline=None), names)  # type: ignore[arg-type]
    timeline = _timeline(diagnosis.timeline, aliases)
    traces = tuple(_trace(trace, number) for number, trace in enumerate(diagnosis.traces))
    trials = tuple(_replaced(_trial(trial), names) for trial in diagnosis.verifications)
    run = _run(diagnosis.run) if diagnosis.run is not None else None
    out: IllustratedDiagnosis = dataclasses.replace(
        whole, timeline=timeline, traces=traces, monitor=diagnosis.monitor, verifications=trials, run=run
    )
    return out


def _run(run: Run) -> Run:
    """What was run on what, without command, folders and revision; `redacted` tells the page why they are missing."""
    kept = {"environment": run.meta.get("environment") or {}, "redacted": True}
    return Run(Path("run"), (), None, Path(), run.complete, (), kept)


def _trial(trial: Verification) -> Verification:
    """The measurements; what was run and what it wrote is left out."""
    kept = ("windows", "interval", "times", "steps")
    return dataclasses.replace(trial, details={key: trial.details[key] for key in kept if key in trial.details})


class _Names:
    """Aliases as one pattern, the longest first, so that a path is not replaced inside a longer one. In prose only
    paths and file names are replaced: a function called `main` or `step` would turn up in every sentence."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self.aliases = aliases
        usual = sorted((name for name in aliases if "." in name or "/" in name), key=len, reverse=True)
        self.pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in usual)) if usual else None

    def text(self, text: str) -> str:
        return self.pattern.sub(lambda match: self.aliases[match[0]], text) if self.pattern else text


def _aliases(diagnosis: Diagnosis) -> dict[str, str]:
    """Files by number, in the order of their names; functions too. A file's bare name and stem are replaced as well."""
    places = list(_locations(diagnosis))
    waits = diagnosis.timeline.tables.waits
    paths = {place.path for place in places} | _texts(waits["path"])
    run = diagnosis.run
    paths |= {run.script.name} if run and run.script else set()
    functions = {place.function for place in places if place.function} | _texts(waits["function"])
    out: dict[str, str] = {}
    for number, path in enumerate(sorted(paths), start=1):
        alias = f"file{number}.py"
        out |= {path: alias, Path(path).name: alias}
    for folder in {str(Path(path).parent) for path in paths} - {".", "/"}:
        out.setdefault(folder, "folder")
    if run is not None:
        out |= {str(run.cwd): "project"}
    return out | {name: f"function{k}" for k, name in enumerate(sorted(functions - out.keys()), start=1)}


def _texts(column: npt.NDArray[np.object_]) -> set[str]:
    return {text for text in column.tolist() if text is not None}


def _locations(value: Any) -> Iterator[Location]:
    if isinstance(value, Location):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, Timeline | Trace):
        for field in dataclasses.fields(value):
            yield from _locations(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _locations(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _locations(item)


def _replaced(value: Any, names: _Names) -> Any:
    if isinstance(value, str):
        return names.text(value)
    if isinstance(value, Location):
        function = names.aliases.get(value.function, value.function) if value.function else None
        return Location(names.aliases.get(value.path, value.path), value.line, function)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: _replaced(getattr(value, field.name), names) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    if isinstance(value, tuple | list):
        return type(value)(_replaced(item, names) for item in value)
    if isinstance(value, Mapping):
        return {key: _replaced(item, names) for key, item in value.items()}
    return value


def _timeline(timeline: Timeline, aliases: Mapping[str, str]) -> Timeline:
    """Waits lose their places' names; operators and annotations that are not PyTorch's or CUDA's own lose theirs."""
    waits = timeline.tables.waits
    for key in ("path", "function"):
        waits = waits.with_columns(**{key: _renamed(waits[key], aliases)})
    names = _Names(aliases)
    notes = tuple(names.text(note) for note in timeline.notes)
    loader = timeline.tables.loader
    loader = loader.with_columns(name=TextColumn.coded(np.zeros(len(loader), dtype=np.int8), ("DataLoader",)))
    tables = dataclasses.replace(timeline.tables, waits=waits, loader=loader)
    return dataclasses.replace(timeline, tables=tables, trace=_trace(timeline.trace, 0), notes=notes)


def _renamed(names: npt.NDArray[np.object_], aliases: Mapping[str, str]) -> npt.NDArray[np.object_]:
    out = names.copy()
    out[:] = [aliases.get(name, name) for name in names.tolist()]
    return out


def _trace(trace: Trace, number: int) -> Trace:
    """Its file name holds the host's; names of operators are kept where they are PyTorch's (`aten::add`)."""
    names = tuple(name if _known(name) else "operator" for name in trace.names)
    return dataclasses.replace(trace, path=f"trace{number}.json.gz", names=names, warnings=(), metadata={})


def _known(name: str) -> bool:
    return name.startswith(
        ("aten::", "autograd::", "Optimizer.", "cuda", "cu", "nccl", "c10d::", "torch::", "Memcpy", "Memset")
    )
