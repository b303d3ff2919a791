"""What the loop does already: True, False or None (unknown), each with its evidence.

In: a Timeline, the Run, the script's text, each as far as it is there. Out: InventoryItems. The recorded steps take
precedence over what the recording noted about the loaders, and that over the text of the script: what is written may
not be what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.findings import kept_steps
from tracelens.findings.analyzed_rank import calls_recorded
from tracelens.findings.recorded_loaders import recorded_loader
from tracelens.findings.script_facts import ScriptFacts, read_script_facts
from tracelens.messages import say, say_count
from tracelens.model import InventoryItem, Run, Timeline, TraceTable
from tracelens.trace import streams
from tracelens.trace.tables import among
from tracelens.trace.waits import kinds_of_calls

COPY_BYTES = 1024
"""A loop that copies less than this per step copies no batch: it may be a scalar or a seed."""
MOSTLY = 0.5
"""Of the steps, or of the bytes: what happens in more than this share counts as what the loop does."""

_NO_GPU = say("no GPU work was recorded")
_LOW_PRECISION = ("bf16", "bfloat16", "_f16", "fp16", "half", "16816")
"""Parts of names of kernels, in lower case."""
_COMPILED = ("Torch-Compiled Region", "CompiledFunction", "triton_")
_OF_FOREACH = ("_foreach_addcdiv", "_foreach_add_")
"""Of torch's optimizers; clipping and norms use others."""
_CONVOLUTIONS = ("convolution", "conv1d", "conv2d", "conv3d")
"""Parts of names of operations, in lower case."""


def collect(timeline: Timeline, run: Run | None = None, source: str | None = None) -> tuple[InventoryItem, ...]:
    """Everything that can be told about the loop, in a fixed order."""
    loop = _loop_record(timeline, run, source)
    return (
        _reads_every(loop),
        _host_copies(loop),
        _pinned(loop),
        _non_blocking(loop),
        _copy_stream(loop),
        _streams(loop),
        _events(loop),
        *_loaders(loop),
        _graphs(loop),
        _compiled(loop),
        _amp(loop),
        _named(loop, "grad_scaler", ("_amp_foreach_non_finite_check",), "GradScaler"),
        _named(loop, "fused_optimizer", ("_fused_",), say("fused optimizer kernels")),
        _named(loop, "foreach_optimizer", _OF_FOREACH, say("optimizer kernels for many tensors")),
        _convolutions(loop),
        _distributed(loop),
        _accumulation(loop),
        _flag(loop, "cudnn_benchmark", "benchmark", run),
        _flag(loop, "tf32", "allow_tf32", run),
    )


@dataclass(frozen=True, slots=True)
class _LoopRecord:
    """What there is to look at."""

    timeline: Timeline
    kept: kept_steps.KeptSteps
    copies: TraceTable
    """Copies to the GPU that kept steps launched."""
    main_device: int | None
    """The GPU that works most: stream numbers mean nothing across GPUs."""
    loader: Mapping[str, Any]
    """The recording's note about the busiest loader; empty where there is none."""
    source: ScriptFacts | None

    @property
    def gpu(self) -> bool:
        return len(self.timeline.tables.ops) > 0

    def calls(self, *kinds: str) -> int:
        """Calls of these kinds in the kept steps."""
        calls = self.timeline.tables.calls
        return int(np.count_nonzero(among(calls["kind"], *kinds) & self.kept.holds(calls["step"])))

    def names(self, *parts: str) -> str | None:
        """The first name in the trace that contains one of the parts."""
        return next((name for name in self.timeline.trace.names if any(part in name for part in parts)), None)


def _loop_record(timeline: Timeline, run: Run | None, source: str | None) -> _LoopRecord:
    kept, ops = kept_steps.select(timeline), timeline.tables.ops
    return _LoopRecord(
        timeline=timeline,
        kept=kept,
        copies=ops[among(ops["kind"], "copy") & among(ops["direction"], "h2d") & kept.holds(ops["step"])],
        main_device=streams.main_device(ops),
        loader=recorded_loader(run, timeline.trace.rank),
        source=read_script_facts(source) if source is not None else None,
    )


# ------------------------------------------------------------------------------------------------- waits and copies


def _reads_every(loop: _LoopRecord) -> InventoryItem:
    """K, when the loop reads values from the GPU every K-th step only."""
    written = loop.source.reads_every if loop.source else None
    steps = loop.timeline.tables.steps
    waits = loop.timeline.tables.waits
    reads = waits["step"][among(waits["kind"], "d2h") & ~waits["window_edge"]]
    kept = loop.kept.positions
    reading = np.intersect1d(reads, kept)
    if loop.gpu and len(reading) >= MOSTLY * len(kept) and len(reading):
        return InventoryItem(
            "reads_every_k",
            False,
            say("values are read in {reading} of {kept} steps", reading=len(reading), kept=len(kept)),
            1,
        )
    anywhere = np.intersect1d(reads, np.flatnonzero(~steps["attributed"]))
    distances = {int(distance) for distance in np.diff(anywhere)}
    if loop.gpu and len(distances) == 1 and (interval := distances.pop()) > 1:
        return InventoryItem(
            "reads_every_k", True, say("values are read every {interval} steps", interval=interval), interval
        )
    if written is not None and loop.gpu:  # a recording without a GPU does not show the reads of each step beside it
        return InventoryItem(
            "reads_every_k", True, say("the script reads under a condition `% {written}`", written=written), written
        )
    return InventoryItem("reads_every_k", None, say("no regular reads in the recorded steps") if loop.gpu else _NO_GPU)


def _host_copies(loop: _LoopRecord) -> InventoryItem:
    if not loop.gpu:
        return InventoryItem("host_copies", None, _NO_GPU)
    copies, size = loop.copies, loop.copies["bytes"]
    per_step = int(size[size >= 0].sum()) // loop.kept.count
    known = bool((size >= 0).any())
    steps = len(np.unique(copies["step"]))
    copies_batches = steps >= MOSTLY * loop.kept.count and (per_step >= COPY_BYTES or not known) and len(copies) > 0
    text = say(
        "{per_step:.3g} MB per step in {copies:.3g} copies",
        per_step=per_step / 1e6,
        copies=len(copies) / loop.kept.count,
    )
    return InventoryItem("host_copies", copies_batches, text, per_step if known else None)


def _pinned(loop: _LoopRecord) -> InventoryItem:
    size = np.maximum(0, loop.copies["bytes"])
    pinned, pageable = (int(size[among(loop.copies["memory"], memory)].sum()) for memory in ("pinned", "pageable"))
    if pinned + pageable > 0:
        share = 100 * pinned / (pinned + pageable)
        text = say("{share:.0f} % of the bytes copied to the GPU come from pinned memory", share=share)
        return InventoryItem("pinned_memory", pinned > MOSTLY * (pinned + pageable), text)
    return _from_loader(loop, "pinned_memory", "pin_memory")


def _non_blocking(loop: _LoopRecord) -> InventoryItem:
    copies = loop.copies
    if not len(copies):
        written = True if loop.source and loop.source.non_blocking else None
        text = say("the script says non_blocking=True") if written else say("no copy to the GPU was recorded")
        return InventoryItem("non_blocking_copies", written, text)
    pageable = int(np.count_nonzero(among(copies["memory"], "pageable")))
    waits = loop.timeline.tables.waits
    waiting = among(kinds_of_calls(waits), "h2d") & (waits["wait_ns"] > 0)
    times = int(np.count_nonzero(waiting & loop.kept.holds(waits["step"])))
    text = say(
        "{copies} copies to the GPU, {pageable} from pageable memory, make the host wait {times} times",
        copies=len(copies),
        pageable=pageable,
        times=times,
    )
    return InventoryItem("non_blocking_copies", times <= (1 - MOSTLY) * len(copies) and not pageable, text)


def _copy_stream(loop: _LoopRecord) -> InventoryItem:
    """Batches travel on another stream than the one that computes: a prefetcher of the user's own."""
    if not loop.gpu:
        return InventoryItem("copy_stream", None, _NO_GPU)
    main, copies = _main_stream(loop), loop.copies
    own = copies["device"] == loop.main_device
    if not own.any() or main is None:
        return InventoryItem("copy_stream", None, say("no copy to the GPU was recorded"))
    size = np.maximum(0, copies["bytes"][own])
    aside = copies["stream"][own] != main
    share = int(size[aside].sum()) / max(1, int(size.sum()))
    text = say(
        "{share:.0f} % of the bytes are copied on another stream than {main}, which computes",
        share=100 * share,
        main=main,
    )
    return InventoryItem("copy_stream", share > MOSTLY, text)


def _main_stream(loop: _LoopRecord) -> int | None:
    ops = loop.timeline.tables.ops
    kernels = _kernels(loop, ops)
    if not kernels.any():
        return None
    streams, place = np.unique(ops["stream"][kernels], return_inverse=True)
    busy = np.zeros(len(streams), dtype=np.int64)
    np.add.at(busy, place, (ops["end_ns"] - ops["start_ns"])[kernels])
    return int(streams[busy.argmax()])


def _kernels(loop: _LoopRecord, ops: TraceTable) -> kept_steps.Mask:
    """Which operations are kernels of the GPU that works most."""
    own: kept_steps.Mask = ops["device"] == loop.main_device
    return own & among(ops["kind"], "kernel")


def _streams(loop: _LoopRecord) -> InventoryItem:
    ops = loop.timeline.tables.ops
    used = len(np.unique(ops["stream"][_kernels(loop, ops) & loop.kept.holds(ops["step"])]))
    if used == 0:
        return InventoryItem("compute_streams", None, say("no kernel was recorded"))
    return InventoryItem(
        "compute_streams",
        used > 1,
        say_count("kernels run on {count} stream", "kernels run on {count} streams", used),
        used,
    )


def _without_calls(loop: _LoopRecord) -> str:
    """Why the host's calls tell nothing."""
    if "runtime" in loop.timeline.trace.signals:
        return say("no call is tied to GPU work (no correlation ids)")
    return say("the host's calls were not recorded")


def _events(loop: _LoopRecord) -> InventoryItem:
    if not calls_recorded(loop.timeline):
        return InventoryItem("events", None, _without_calls(loop))
    waits, records = loop.calls("event_sync", "event_query"), loop.calls("event_record")
    text = say(
        "{records} events recorded, {waits} waited for or asked, in {count} steps",
        records=records,
        waits=waits,
        count=loop.kept.count,
    )
    return InventoryItem("events", waits > 0, text, waits)


# ---------------------------------------------------------------------------------------------------------- loaders


def _loaders(loop: _LoopRecord) -> tuple[InventoryItem, ...]:
    return (
        _workers(loop),
        _from_loader(loop, "persistent_workers", "persistent_workers"),
        _from_loader(loop, "prefetch_factor", "prefetch_factor"),
    )


def _workers(loop: _LoopRecord) -> InventoryItem:
    noted = _number(loop.loader.get("num_workers"))
    if noted is not None:
        return InventoryItem(
            "loader_workers",
            noted > 0,
            say("{option}, {origin}", option=f"num_workers={noted}", origin=say("recorded")),
            noted,
        )
    names = set(loop.timeline.tables.loader["name"].words)
    written = _number((loop.source.loader or {}).get("num_workers")) if loop.source else None
    if any("MultiProcessing" in name for name in names):
        return InventoryItem("loader_workers", True, say("the loader's iterator is the multi-process one"), written)
    if any("SingleProcess" in name for name in names):
        return InventoryItem("loader_workers", False, say("the loader's iterator works in the training thread"), 0)
    return _from_loader(loop, "loader_workers", "num_workers")


def _from_loader(loop: _LoopRecord, name: str, keyword: str) -> InventoryItem:
    """An option of the DataLoader: as recorded, else as written."""
    for origin, options in ((say("recorded"), loop.loader), (say("in the script"), loop.source and loop.source.loader)):
        value = options.get(keyword) if options else None
        if value is not None:
            return InventoryItem(
                name, bool(value), say("{option}, {origin}", option=f"{keyword}={value}", origin=origin), _number(value)
            )
    written = loop.source is not None and loop.source.loader is not None and keyword not in loop.source.loader
    if written:
        return InventoryItem(name, False, say("the script's DataLoader has no {keyword}", keyword=keyword))
    return InventoryItem(name, None, say("neither the recording nor the script tells"))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# ---------------------------------------------------------------------------------------------- how it computes


def _graphs(loop: _LoopRecord) -> InventoryItem:
    if not calls_recorded(loop.timeline):
        return InventoryItem("cuda_graphs", None, _without_calls(loop))
    launches = loop.calls("graph_launch")
    return InventoryItem(
        "cuda_graphs",
        launches > 0,
        say("{launches} graph launches in {count} steps", launches=launches, count=loop.kept.count),
        launches,
    )


def _compiled(loop: _LoopRecord) -> InventoryItem:
    name = loop.names(*_COMPILED)
    if name is not None:
        return InventoryItem("compile", True, say("the trace has {name!r}", name=name[:60]))
    if loop.source and "compile" in loop.source.calls:
        return InventoryItem("compile", None, say("the script calls compile, but no compiled region was recorded"))
    return InventoryItem("compile", False, say("no compiled region was recorded"))


def _amp(loop: _LoopRecord) -> InventoryItem:
    """What ran counts for more than what the script says: its autocast may stand in a branch that was not taken."""
    written = loop.source is not None and "autocast" in loop.source.calls
    if not loop.gpu:
        return (
            InventoryItem("amp", True, say("the script uses autocast"))
            if written
            else InventoryItem("amp", None, _NO_GPU)
        )
    ops = loop.timeline.tables.ops
    kernels = sorted(ops["name"][among(ops["kind"], "kernel")].used())
    kernel = next((name for name in kernels if any(part in name.lower() for part in _LOW_PRECISION)), None)
    if kernel is not None:
        return InventoryItem("amp", True, say("kernels of 16 bits run, for example {name!r}", name=kernel[:60]))
    if written:
        return InventoryItem("amp", False, say("the script calls autocast, but no kernel of 16 bits was recorded"))
    return InventoryItem("amp", False, say("no kernel of 16 bits was recorded"))


def _named(loop: _LoopRecord, name: str, parts: tuple[str, ...], what: str) -> InventoryItem:
    match = loop.names(*parts)
    text = say("the trace has {name!r}", name=match[:60]) if match else say("no {what} in the trace", what=what)
    return InventoryItem(name, match is not None, text)


def _convolutions(loop: _LoopRecord) -> InventoryItem:
    """Not known where operations were not recorded, or may hide in a compiled region or a graph."""
    names = loop.timeline.trace.names
    match = next((name for name in names if any(part in name.lower() for part in _CONVOLUTIONS)), None)
    if match is not None:
        return InventoryItem("convolutions", True, say("the trace has {name!r}", name=match[:60]))
    hidden = loop.names(*_COMPILED) is not None or loop.calls("graph_launch") > 0
    if hidden or not any(name.startswith("aten::") for name in names):
        return InventoryItem("convolutions", None, say("the operations of a step were not recorded"))
    return InventoryItem("convolutions", False, say("no convolution was recorded"))


def _distributed(loop: _LoopRecord) -> InventoryItem:
    ops = loop.timeline.tables.ops
    collectives = int(np.count_nonzero(among(ops["kind"], "collective")))
    world = loop.timeline.trace.world_size
    text = say(
        "{collectives} collectives, world size {world}",
        collectives=collectives,
        world=world if world is not None else say("unknown"),
    )
    return InventoryItem("distributed", collectives > 0 or (world or 1) > 1, text, world)


def _accumulation(loop: _LoopRecord) -> InventoryItem:
    if loop.source is None:
        return InventoryItem("gradient_accumulation", None, say("the script is not at hand"))
    every = loop.source.steps_every
    text = (
        say("`.step()` under a condition `% {every}`", every=every)
        if every
        else say("no condition `% K` around `.step()` in the script")
    )
    return InventoryItem("gradient_accumulation", every is not None, text, every)


def _flag(loop: _LoopRecord, name: str, flag: str, run: Run | None) -> InventoryItem:
    recorded = run.environment.get(name) if run is not None else None
    if isinstance(recorded, bool):
        return InventoryItem(name, recorded, say("{flag} was {value}, recorded", flag=flag, value=recorded))
    if loop.source is None:
        return InventoryItem(name, None, say("the script is not at hand"))
    if flag in loop.source.flags:
        return InventoryItem(name, True, say("the script sets {flag} = True", flag=flag))
    return InventoryItem(name, None, say("the script does not set {flag}; what it imports may", flag=flag))
