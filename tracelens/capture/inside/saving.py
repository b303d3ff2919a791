"""Writes what one process has gathered: trace, sources, and last of all rank.json.

In: a `Gathered`, the tools that recorded, and why the recording is not complete, if so. Out: a rank folder. Apart from
the agent because it must survive what the agent cannot foresee: a full disk, a folder that is gone. Each file is
tried by itself; a part that cannot be written is removed, so that the rest may still fit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelens.capture.inside import cupti_detach, process_facts, rank_files
from tracelens.capture.inside.attribution import Attribution
from tracelens.capture.inside.cuda_event_log import EventLog
from tracelens.capture.inside.profiler_session import NotRecorded, Recorder
from tracelens.capture.inside.recording_data import Gathered
from tracelens.capture.inside.stack_sampler import Sampler
from tracelens.launch.inside import hooks


@dataclass
class Tools:
    """What records, while it records."""

    recorder: Recorder | None = None
    sampler: Sampler | None = None
    attribution: Attribution = field(default_factory=Attribution)
    event_log: EventLog = field(default_factory=EventLog)

    def begin(self) -> None:
        """Prepare and start at once: where there is no step to warm up in."""
        assert self.recorder is not None and self.sampler is not None
        self.recorder.prepare()
        self.event_log.install()
        self.recorder.start()
        self.sampler.start()

    def give_up(self) -> None:
        """Close the session and throw away what it holds."""
        self.put_back()
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            with suppress(NotRecorded, RuntimeError):
                recorder.stop()

    def put_back(self) -> None:
        """Leave torch as it was; in reverse order of installing."""
        if self.sampler is not None:
            self.sampler.stop()
        self.attribution.remove()
        self.event_log.remove()


def save(config: Mapping[str, Any], gathered: Gathered, tools: Tools, reason: str | None) -> Path:
    """Write everything; `reason` says why the recording is not complete, None that it is. Returns the rank's folder.

    Raises `OSError` only if not even rank.json can be written. However it ends, nothing records any more.
    """
    tools.put_back()
    try:
        return _save(config, gathered, tools, reason)
    finally:
        tools.give_up()


def _save(config: Mapping[str, Any], gathered: Gathered, tools: Tools, reason: str | None) -> Path:
    rank, world = process_facts.rank_and_world()
    folder = rank_files.claim_folder(Path(config["run"]), rank)
    trace = None
    try:
        goes_on = reason is None and not config.get("stop_after_window")
        with cupti_detach.detaching(wanted=goes_on, notes=gathered.notes):
            trace = _save_trace(folder, rank, gathered, tools)
    except (NotRecorded, OSError, RuntimeError) as error:
        gathered.notes.append(f"no trace: {error}")
        reason = reason or f"no trace was saved: {error}"
        rank_files.remove_parts(folder)
    sources: Path | None = folder / "sources.json"
    try:
        _save_sources(folder / "sources.json", gathered, tools, str(config["cwd"]))
    except OSError as error:
        sources = None
        gathered.notes.append(f"no source lines: {error}")
        reason = reason or f"the source lines could not be saved: {error}"
    gathered.window["saved"] = True
    entry = _entry(gathered, {"rank": rank, "world_size": world, "complete": reason is None, "reason": reason})
    entry["trace"] = f"{folder.name}/{trace.name}" if trace else None
    entry["sources"] = f"{folder.name}/{sources.name}" if sources else None
    entry["stopped"] = bool(reason is None and config.get("stop_after_window"))
    rank_files.write_entry(folder, entry)
    return folder


def _save_sources(path: Path, gathered: Gathered, tools: Tools, cwd: str) -> None:
    samples = [(at, gathered.thread, place) for at, place in (tools.sampler.samples if tools.sampler else ())]
    uses = [] if gathered.stranded else tools.event_log.uses()
    rank_files.write_sources(path, rank_files.Sources(tools.attribution.marks, samples, uses), cwd)


def _save_trace(folder: Path, rank: int, gathered: Gathered, tools: Tools) -> Path | None:
    recorder, tools.recorder = tools.recorder, None
    if recorder is None:
        return None
    start = time.perf_counter()
    recorder.stop()
    gathered.window["end_unix_ns"] = time.time_ns()
    stopped = time.perf_counter()
    if not gathered.profiled and gathered.steps_seen:
        return None
    plain = folder / rank_files.trace_name(rank, os.uname().nodename)
    recorder.export(plain)
    exported = time.perf_counter()
    size = plain.stat().st_size
    trace = plain
    with suppress(OSError):  # no room for the compressed copy: the plain file is as good, only larger
        trace = rank_files.compress(plain)
    gathered.window |= {
        "stop_seconds": round(stopped - start, 4),
        "export_seconds": round(exported - stopped, 4),
        "compress_seconds": round(time.perf_counter() - exported, 4),
        "trace_bytes": size,
    }
    return trace


def _entry(gathered: Gathered, judged: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **judged,
        "clock": gathered.clock(),
        "step_marks": "tracelens" if gathered.steps_seen else None,
        "attributed_steps": gathered.attributed,
        "steps_seen": gathered.steps_seen,
        "step_source": gathered.source,
        "step_rule": _rule(),
        "memory": None if gathered.stranded else process_facts.memory(),
        "loaders": gathered.loaders.listed(),
        "window": gathered.window,
        "plan": gathered.plan.as_dict(),
        "notes": gathered.notes,
        "job": os.environ.get("TORCHELASTIC_RUN_ID"),
        "process": process_facts.process(),
    }


def _rule() -> dict[str, float]:
    """How often each optimizer steps per training step, by the optimizers' order of appearance."""
    return {f"optimizer {order}": round(share, 3) for order, share in enumerate(hooks.rule().per_step().values(), 1)}
