"""Writes run.json: what was launched, and an entry per rank as the ranks' files appear in the Run folder.

In: how a recording was started, then the `rank.json` files that agents write. Out: run.json, rewritten each time. Used
by the parent, and by a recording that the script begins itself (`inside.profile_api`), which has no parent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens import __version__, run
from tracelens.capture import calibration, environment, trace_check
from tracelens.capture.hardware_monitor import describe_gpus
from tracelens.messages import say

_SET_ASIDE_KEYS = ("rank", "trace", "complete", "reason", "steps_seen")
NOT_ENDED = say("the run has not ended yet")


@dataclass(frozen=True)
class LaunchRecord:
    """How a recording was started."""

    kind: str
    """"script", "module" or "command" for a launch of ours; "inside" where the script began it itself."""
    command: tuple[str, ...]
    cwd: Path
    script: str | None
    plan: Mapping[str, Any]
    stop_after_window: bool
    interval: int


class RunJsonWriter:
    """Collects the ranks' entries of one Run folder and writes its run.json."""

    def __init__(self, folder: Path, start: LaunchRecord) -> None:
        self._folder = folder
        self._cwd = start.cwd
        self._meta = _opening(start, folder)
        self._entries: dict[Path, dict[str, Any]] = {}
        self._written: dict[Path, int] = {}

    @property
    def entries(self) -> tuple[dict[str, Any], ...]:
        """The entries that were collected, in no order."""
        return tuple(self._entries.values())

    def collect(self) -> None:
        """Read rank.json files that are new or were replaced; unchanged ones are not read again."""
        for path in sorted(self._folder.glob("rank*/rank.json")):
            with suppress(OSError, ValueError):  # they are written by rename, so only a failing disk gets here
                written = path.stat().st_mtime_ns
                if self._written.get(path) != written:
                    entry = json.loads(path.read_text(encoding="utf-8"))
                    self._entries[path] = trace_check.checked(entry, self._folder)
                    self._written[path] = written

    def recorded(self, *, final: bool = False) -> list[dict[str, Any]]:
        """The entries with a trace; `final`: only those that no later recording may replace."""
        return [
            entry
            for entry in self._entries.values()
            if entry.get("trace") and not (final and (entry.get("window") or {}).get("provisional"))
        ]

    def world_size(self) -> int:
        """The largest world size that a rank has reported; 1 before the first."""
        return max((int(entry.get("world_size") or 1) for entry in self._entries.values()), default=1)

    def missing(self, wanted: Collection[int] | None = None) -> list[int]:
        """Ranks (of those `wanted`, or of all) that have no entry."""
        present = {int(entry["rank"]) for entry in self._entries.values()}
        return [rank for rank in range(self.world_size()) if rank not in present and (not wanted or rank in wanted)]

    def write(self) -> None:
        """Write run.json while the script still runs: "complete" if every rank's window so far is."""
        changes: dict[str, Any] = {}
        if self.recorded():
            complete = all(entry.get("complete") for entry in self._entries.values())
            changes = {
                "complete": complete,
                "reason": None if complete else say("the recording of a rank is not complete"),
            }
        self._write({**self._meta, **changes})

    def close(self, exit_code: int | None, reason: str | None) -> None:
        """Write run.json at the end; `reason` says why the recording is not complete, None that it is."""
        self._meta |= {"exit_code": exit_code, "complete": reason is None, "reason": reason}
        self._write(self._meta)

    def notes(self) -> tuple[str, ...]:
        """The notes of all entries."""
        entries, aside = self._chosen()
        return tuple(str(note) for entry in (*entries, *aside) for note in entry.get("notes", ()))

    def clear(self) -> None:
        """Remove the rank.json files, whose content is in run.json now, and what ranks and workers told one another."""
        for path in (*self._entries, *self._folder.glob(".events-*"), *self._folder.glob(".worker-*")):
            path.unlink(missing_ok=True)

    def _chosen(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """One entry per rank, in order, and the others.

        A rank has several where it was restarted, and where processes of a pool train independently, all as rank 0.
        The reports are about one of them.
        """
        chosen: dict[int, dict[str, Any]] = {}
        aside = []
        best = sorted(self._entries.items(), key=lambda item: (len(item[0].parent.name), item[0]))
        for _, entry in sorted(best, key=_preference, reverse=True):
            if chosen.setdefault(int(entry["rank"]), entry) is not entry:
                aside.append(entry)
        for rank, entry in chosen.items():
            if others := sum(int(other["rank"]) == rank for other in aside):
                note = say(
                    "{others} processes trained as rank {rank}; the one with the most steps stands for them",
                    others=others + 1,
                    rank=rank,
                )
                chosen[rank] = {**entry, "notes": [*entry.get("notes", ()), note]}
        return [chosen[rank] for rank in sorted(chosen)], aside

    def _write(self, meta: Mapping[str, Any]) -> None:
        entries, aside = self._chosen()
        meta = dict(meta)
        if aside:
            meta["set_aside"] = [{key: entry.get(key) for key in _SET_ASIDE_KEYS} for entry in aside]
        meta["ranks"] = [{key: value for key, value in entry.items() if key != "process"} for entry in entries]
        meta["world_size"] = self.world_size() if entries else None
        if entries:
            process = entries[0].get("process", {})
            meta["environment"] = environment.with_process(meta["environment"], process)
            meta["script"] = meta["script"] or _script_of(process.get("script"), self._cwd)
            measured = calibration.read_cache(process.get("device"), process.get("torch"))
            if measured is not None:
                meta["calibration"] = calibration.values(measured)
        run.write_json(self._folder / run.RUN_FILE, meta)


def _preference(item: tuple[Path, dict[str, Any]]) -> tuple[bool, bool, int]:
    """Sort key: the entry with a trace, complete, with the most steps stands for its rank."""
    entry = item[1]
    return bool(entry.get("trace")), bool(entry.get("complete")), int(entry.get("steps_seen") or 0)


def _opening(start: LaunchRecord, folder: Path) -> dict[str, Any]:
    return {
        "schema_version": run.SCHEMA_VERSION,
        "tracelens_version": __version__,
        # `verify` reruns a script with its own interpreter, so the path of this one is not kept.
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
