"""run.json while it grows: what was launched, and the ranks' entries as their files appear in the Run folder.

In: how a recording was started, then the `rank.json` files that agents write. Out: run.json, written anew each time.
Apart from `session` because a recording that begins inside the script (`inside`) keeps the same book without a parent.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens import __version__, run
from tracelens.capture import calibration as constants
from tracelens.capture import environment
from tracelens.capture.hardware_monitor import describe_gpus

_CHUNK_BYTES = 1 << 20
_GZIP_WINDOW = 31
_TAIL_BYTES = 64
_ASIDE = ("rank", "trace", "complete", "reason", "steps_seen")
NOT_ENDED = "the run has not ended yet"


@dataclass(frozen=True)
class LaunchRecord:
    """How a recording was started: what run.json says before anything was recorded."""

    kind: str
    """"script", "module" or "command" for a launch of ours; "inside" where the script began it itself."""
    command: tuple[str, ...]
    cwd: Path
    script: str | None
    plan: Mapping[str, Any]
    stop_after_window: bool
    interval: int


class RunJsonWriter:
    """The book of one Run folder. Reading it costs nothing when no new rank has written its entry."""

    def __init__(self, folder: Path, start: LaunchRecord) -> None:
        self._folder = folder
        self._cwd = start.cwd
        self._meta = _opening(start, folder)
        self._entries: dict[Path, dict[str, Any]] = {}
        self._written: dict[Path, int] = {}

    @property
    def entries(self) -> tuple[dict[str, Any], ...]:
        """What the ranks have written, in no order."""
        return tuple(self._entries.values())

    def collect(self) -> None:
        """Read the entries that are new, and those that replaced an earlier one of their process."""
        for path in sorted(self._folder.glob("rank*/rank.json")):
            with suppress(OSError, ValueError):  # written by rename, so only a failing disk gets here
                written = path.stat().st_mtime_ns
                if self._written.get(path) != written:
                    entry = json.loads(path.read_text(encoding="utf-8"))
                    self._entries[path] = _checked(entry, self._folder)
                    self._written[path] = written

    def recorded(self, *, final: bool = False) -> list[dict[str, Any]]:
        """The entries that name a trace; `final`: but not those that steps may still replace."""
        return [
            entry
            for entry in self._entries.values()
            if entry.get("trace") and not (final and (entry.get("window") or {}).get("provisional"))
        ]

    def world_size(self) -> int:
        """The largest world that a rank has reported, 1 before the first."""
        return max((int(entry.get("world_size") or 1) for entry in self._entries.values()), default=1)

    def missing(self, wanted: Collection[int] | None = None) -> list[int]:
        """Ranks (of those `wanted`) that have written no entry."""
        there = {int(entry["rank"]) for entry in self._entries.values()}
        return [rank for rank in range(self.world_size()) if rank not in there and (not wanted or rank in wanted)]

    def write(self) -> None:
        """Write run.json while the script still runs: complete as far as the windows are."""
        changes: dict[str, Any] = {}
        if self.recorded():
            complete = all(entry.get("complete") for entry in self._entries.values())
            changes = {"complete": complete, "reason": None if complete else "the recording of a rank is not complete"}
        self._write({**self._meta, **changes})

    def close(self, exit_code: int | None, reason: str | None) -> None:
        """Write run.json for good; `reason` says why the recording is not complete, None that it is."""
        self._meta |= {"exit_code": exit_code, "complete": reason is None, "reason": reason}
        self._write(self._meta)

    def notes(self) -> tuple[str, ...]:
        """What there is to say of the recordings."""
        entries, aside = self._chosen()
        return tuple(str(note) for entry in (*entries, *aside) for note in entry.get("notes", ()))

    def clear(self) -> None:
        """Remove the ranks' own files: what they say is in run.json now."""
        for path in (*self._entries, *self._folder.glob(".events-*")):
            path.unlink(missing_ok=True)

    def _chosen(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """One entry per rank, in order, and the others: a rank that was started anew, or processes that each train by
        themselves (a pool's) and all call themselves rank 0. The reports are about one of them."""
        chosen: dict[int, dict[str, Any]] = {}
        aside = []
        best = sorted(self._entries.items(), key=lambda item: (len(item[0].parent.name), item[0]))
        for _, entry in sorted(best, key=_worth, reverse=True):
            if chosen.setdefault(int(entry["rank"]), entry) is not entry:
                aside.append(entry)
        for rank, entry in chosen.items():
            if others := sum(int(other["rank"]) == rank for other in aside):
                note = f"{others + 1} processes trained as rank {rank}; the one with the most steps stands for them"
                chosen[rank] = {**entry, "notes": [*entry.get("notes", ()), note]}
        return [chosen[rank] for rank in sorted(chosen)], aside

    def _write(self, meta: Mapping[str, Any]) -> None:
        entries, aside = self._chosen()
        meta = dict(meta)
        if aside:
            meta["set_aside"] = [{key: entry.get(key) for key in _ASIDE} for entry in aside]
        meta["ranks"] = [{key: value for key, value in entry.items() if key != "process"} for entry in entries]
        meta["world_size"] = self.world_size() if entries else None
        if entries:
            process = entries[0].get("process", {})
            meta["environment"] = environment.with_process(meta["environment"], process)
            meta["script"] = meta["script"] or _script_of(process.get("script"), self._cwd)
            measured = constants.kept(process.get("device"), process.get("torch"))
            if measured is not None:
                meta["calibration"] = constants.values(measured)
        run.write_json(self._folder / run.RUN_FILE, meta)


def _worth(item: tuple[Path, dict[str, Any]]) -> tuple[bool, bool, int]:
    entry = item[1]
    return bool(entry.get("trace")), bool(entry.get("complete")), int(entry.get("steps_seen") or 0)


def _opening(start: LaunchRecord, folder: Path) -> dict[str, Any]:
    return {
        "schema_version": run.SCHEMA_VERSION,
        "tracelens_version": __version__,
        # A script is rerun by the interpreter that runs `verify`, wherever that is; this one's path says nothing there.
        "command": list(start.command) if start.kind == "command" else ["python", *start.command[1:]],
        "cwd": run.relative(start.cwd.resolve(), folder.resolve()),
        "script": _script_of(start.script, start.cwd),
        "git": environment.git(start.cwd),
        "environment": environment.describe(describe_gpus()),
        "world_size": None,
        "ranks": [],
        "capture": {
            "kind": start.kind,
            "plan": dict(start.plan),
            "stop_after_window": start.stop_after_window,
            "interval": start.interval,
            "started_unix_ns": time.time_ns(),
        },
        "exit_code": None,
        "complete": False,
        "reason": NOT_ENDED,
    }


def _script_of(script: str | None, cwd: Path) -> dict[str, Any] | None:
    if not script:
        return None
    path = cwd / script
    if path.is_dir():
        path = path / "__main__.py"
    try:
        digest = run.sha256(path.read_bytes())
    except OSError:
        return None
    return {"path": run.relative(path.resolve(), cwd.resolve()), "sha256": digest}


def _checked(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The rank's entry, with a reason if its trace is not whole or cannot be read: nothing is called saved unread."""
    if not entry.get("trace"):
        return entry
    path = folder / entry["trace"]
    device = (entry.get("process") or {}).get("device")
    fault = _cut_short(path) or _unreadable(path, uses_gpu=device not in ("cpu", None))
    return entry if fault is None else {**entry, "complete": False, "reason": fault}


def _cut_short(path: Path) -> str | None:
    """A trace must unpack to its end, and the end must be that of a JSON object."""
    unpacker, tail = zlib.decompressobj(_GZIP_WINDOW) if path.suffix == ".gz" else None, b""
    try:
        with path.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                tail = (tail + (unpacker.decompress(chunk) if unpacker else chunk))[-_TAIL_BYTES:]
    except (OSError, zlib.error) as error:
        return f"{path.name} cannot be read: {error}"
    if (unpacker and not unpacker.eof) or not tail.rstrip().endswith(b"}"):
        return f"{path.name} is not complete: is the disk full?"
    return None


def _unreadable(path: Path, *, uses_gpu: bool) -> str | None:
    """What the reader of every later command says of it, now, while it can still be recorded again."""
    import numpy as np

    from tracelens.errors import InputError
    from tracelens.trace import chrome

    try:
        trace = chrome.load(path)
    except InputError as error:
        return str(error)
    cut = next((text for text in trace.warnings if text.startswith("the file ends early")), None)
    if cut is not None:
        return f"{path.name} is not complete: {cut}"
    present = {trace.categories[code] for code in np.unique(trace.columns["category"])}
    if uses_gpu and present.isdisjoint(chrome.GPU_CATEGORIES):
        return f"{path.name} holds no GPU work, though the process used a GPU: is another profiler attached?"
    return None
