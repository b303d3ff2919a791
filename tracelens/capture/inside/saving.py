"""Writes the recording of one process: trace, sources.json, and rank.json last.

In: the `RecordingData`, the instruments that recorded, and why the recording is incomplete. Out: a rank folder.
A full disk or a missing folder may be met at any point, so each file is tried by itself, and a part that cannot be
written is removed so that the rest may still fit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracelens.capture.inside import cupti_detach, process_facts, rank_files
from tracelens.capture.inside.instruments import Instruments
from tracelens.capture.inside.line_clock import LineClock
from tracelens.capture.inside.profiler_session import NotRecorded
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.capture.inside.user_frames import stored_path
from tracelens.launch.inside import hooks


def save(config: Mapping[str, Any], data: RecordingData, instruments: Instruments, reason: str | None) -> Path:
    """Write everything; `reason` says why the recording is not complete, None that it is. Returns the rank's folder.

    Raises `OSError` only if not even rank.json can be written. Afterwards nothing records any more, error or not.
    """
    data.loaders.end_split()
    instruments.put_back()
    try:
        return _save(config, data, instruments, reason)
    finally:
        instruments.give_up()


def _save(config: Mapping[str, Any], data: RecordingData, instruments: Instruments, reason: str | None) -> Path:
    rank, world = process_facts.rank_and_world()
    folder = rank_files.claim_folder(Path(config["run"]), rank)
    trace = None
    try:
        goes_on = reason is None and not config.get("stop_after_window") and instruments.watch is None  # else done
        with cupti_detach.detaching(wanted=goes_on, notes=data.notes):
            trace = _save_trace(folder, rank, data, instruments)
    except (NotRecorded, OSError, RuntimeError) as error:
        data.notes.append(f"no trace: {error}")
        reason = reason or f"no trace was saved: {error}"
        rank_files.remove_parts(folder)
    sources: Path | None = folder / "sources.json"
    try:
        _save_sources(folder / "sources.json", data, instruments, str(config["cwd"]))
    except OSError as error:
        sources = None
        data.notes.append(f"no source lines: {error}")
        reason = reason or f"the source lines could not be saved: {error}"
    lines = _save_lines(folder / "lines.json", data, instruments.lines, str(config["cwd"]))
    watch = instruments.watch if data.slow_step is not None else None
    slow = _save_lines(folder / "slow_lines.json", data, watch.clock, str(config["cwd"])) if watch is not None else None
    data.window["saved"] = True
    judged = {"rank": rank, "world_size": world, "complete": reason is None, "reason": reason}
    entry = _entry(data, str(config["run"]), str(config["cwd"]), judged)
    entry["trace"] = f"{folder.name}/{trace.name}" if trace else None
    entry["sources"] = f"{folder.name}/{sources.name}" if sources else None
    entry["lines"] = f"{folder.name}/{lines.name}" if lines else None
    entry["slow_lines"] = f"{folder.name}/{slow.name}" if slow else None
    entry["stopped"] = bool(reason is None and config.get("stop_after_window"))
    rank_files.write_entry(folder, entry)
    return folder


def _save_sources(path: Path, data: RecordingData, instruments: Instruments, cwd: str) -> None:
    samples = [(at, data.thread, place) for at, place in (instruments.sampler.samples if instruments.sampler else ())]
    uses = [] if data.stranded else instruments.event_log.uses()
    collections = instruments.collections.collections
    rank_files.write_sources(path, rank_files.Sources(instruments.attribution.marks, samples, uses, collections), cwd)


def _save_lines(path: Path, data: RecordingData, clock: LineClock, cwd: str) -> Path | None:
    """The line clock's log. A recording without it is as complete, so that only a note says why it is missing."""
    if clock.reason is not None:
        data.notes.append(f"no times per source line: {clock.reason}")
    document = clock.document(lambda file: stored_path(file, cwd))
    if document is None:
        return None
    try:
        rank_files.write_lines(path, document)
    except OSError as error:
        data.notes.append(f"no times per source line: {error}")
        return None
    return path


def _save_trace(folder: Path, rank: int, data: RecordingData, instruments: Instruments) -> Path | None:
    profiler, instruments.profiler = instruments.profiler, None
    if profiler is None:
        return None
    start = time.perf_counter()
    profiler.stop()
    data.window.setdefault("end_unix_ns", time.time_ns())
    stopped = time.perf_counter()
    if not data.profiled and data.steps_seen:
        return None
    plain = folder / rank_files.trace_name(rank, os.uname().nodename)
    profiler.export(plain)
    exported = time.perf_counter()
    size = plain.stat().st_size
    trace = plain
    with suppress(OSError):  # no room for the compressed copy: the plain file is as good, only larger
        trace = rank_files.compress(plain)
    data.window |= {
        "stop_seconds": round(stopped - start, 4),
        "export_seconds": round(exported - stopped, 4),
        "compress_seconds": round(time.perf_counter() - exported, 4),
        "trace_bytes": size,
    }
    return trace


def _entry(data: RecordingData, run: str, cwd: str, judged: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **judged,
        "clock": data.clock(),
        "step_marks": "tracelens" if data.steps_seen else None,
        "attributed_steps": data.attributed,
        "slow_step": data.slow_step,
        "steps_seen": data.steps_seen,
        "step_source": data.source,
        "step_rule": _rule(),
        "memory": None if data.stranded else process_facts.memory(),
        "loaders": data.loaders.listed(run, cwd),
        "window": data.window,
        "plan": data.plan.as_dict(),
        "notes": data.notes,
        "job": os.environ.get("TORCHELASTIC_RUN_ID"),
        "process": process_facts.process(cwd),
    }


def _rule() -> dict[str, float]:
    """How often each optimizer steps per training step, by the optimizers' order of appearance."""
    return {f"optimizer {order}": round(share, 3) for order, share in enumerate(hooks.rule().per_step().values(), 1)}
