"""What the loop does already: True, False or None (cannot be told), each with its evidence.

In: a Timeline, the Run, the script's text, each as far as it is there. Out: InventoryItems. The recorded steps count
for more than what the recording noted about the loaders, and that for more than the text of the script: what is
written may not be what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tracelens.findings import window
from tracelens.findings.evidence import calls_recorded
from tracelens.findings.source import SourceFacts, facts_of
from tracelens.model import InventoryItem, Run, Timeline
from tracelens.trace.tables import among, codes
from tracelens.trace.waits import kinds_of_calls

COPY_BYTES = 1024
"""A loop that copies less than this per step copies no batch: a scalar or a seed, perhaps."""

MOSTLY = 0.5
"""Of the steps, or of the bytes: what happens in most of them is what the loop does."""

_NO_GPU = "no GPU work was recorded"
_LOW_PRECISION = ("bf16", "bfloat16", "_f16", "fp16", "half", "16816")
_COMPILED = ("Torch-Compiled Region", "CompiledFunction", "triton_")


def take(timeline: Timeline, run: Run | None = None, source: str | None = None) -> tuple[InventoryItem, ...]:
    """Everything that can be told about the loop, in a fixed order."""
    scene = _Scene.of(timeline, run, source)
    return (
        _reads_every(scene),
        _host_copies(scene),
        _pinned(scene),
        _non_blocking(scene),
        _copy_stream(scene),
        _streams(scene),
        _events(scene),
        *_loaders(scene),
        _graphs(scene),
        _compiled(scene),
        _amp(scene),
        _named(scene, "grad_scaler", ("_amp_foreach_non_finite_check",), "GradScaler"),
        _named(scene, "fused_optimizer", ("_fused_",), "fused optimizer kernels"),
        _distributed(scene),
        _accumulation(scene),
        _flag(scene, "cudnn_benchmark", "benchmark"),
        _flag(scene, "tf32", "allow_tf32"),
    )


@dataclass(frozen=True, slots=True)
class _Scene:
    """What there is to look at."""

    timeline: Timeline
    kept: window.Window
    copies: pd.DataFrame
    """Copies to the GPU that kept steps launched."""
    main_device: int | None
    """The GPU that works most: stream numbers mean nothing across GPUs."""
    loader: Mapping[str, Any]
    """The recording's note about the busiest loader; empty where there is none."""
    source: SourceFacts | None

    @staticmethod
    def of(timeline: Timeline, run: Run | None, source: str | None) -> _Scene:
        facts = facts_of(source) if source is not None else None
        kept, ops, loader = window.of(timeline), timeline.ops(), _recorded_loader(run, timeline.trace.rank)
        copies = ops[among(ops["kind"], "copy") & among(ops["direction"], "h2d") & kept.holds(ops["step"])]
        return _Scene(timeline, kept, copies, window.main_device(timeline), loader, facts)

    @property
    def gpu(self) -> bool:
        return not self.timeline.ops().empty

    def calls(self, *kinds: str) -> int:
        """Calls of these kinds in the kept steps."""
        calls = self.timeline.calls()
        return int(np.count_nonzero(among(calls["kind"], *kinds) & self.kept.holds(calls["step"])))

    def names(self, *parts: str) -> str | None:
        """The first name in the trace that contains one of the parts."""
        return next((name for name in self.timeline.trace.names if any(part in name for part in parts)), None)


def _recorded_loader(run: Run | None, rank: int | None) -> Mapping[str, Any]:
    if run is None:
        return {}
    recordings = [one for one in run.recordings if one.rank == rank] or list(run.recordings[:1])
    loaders = recordings[0].meta.get("loaders") if recordings else None
    known = [one for one in loaders if isinstance(one, Mapping)] if isinstance(loaders, list) else []
    return max(known, key=lambda one: one.get("batches") or 0, default={})


# ------------------------------------------------------------------------------------------------- waits and copies


def _reads_every(scene: _Scene) -> InventoryItem:
    """K, when the loop reads values from the GPU every K-th step only."""
    written = scene.source.reads_every if scene.source else None
    steps = scene.timeline.steps()
    waits = scene.timeline.syncs()
    reads = waits["step"][among(waits["kind"], "d2h") & ~waits["window_edge"].to_numpy(dtype=np.bool_)]
    kept = scene.kept.positions
    reading = np.intersect1d(reads, kept)
    if scene.gpu and len(reading) >= MOSTLY * len(kept) and len(reading):
        return InventoryItem("reads_every_k", False, f"values are read in {len(reading)} of {len(kept)} steps", 1)
    anywhere = np.intersect1d(reads, np.flatnonzero(~steps["attributed"].to_numpy(dtype=np.bool_)))
    distances = {int(distance) for distance in np.diff(anywhere)}
    if scene.gpu and len(distances) == 1 and (found := distances.pop()) > 1:
        return InventoryItem("reads_every_k", True, f"values are read every {found} steps", found)
    if written is not None and scene.gpu:  # a recording without a GPU does not show the reads of each step beside it
        return InventoryItem("reads_every_k", True, f"the script reads under a condition `% {written}`", written)
    return InventoryItem("reads_every_k", None, "no regular reads in the recorded steps" if scene.gpu else _NO_GPU)


def _host_copies(scene: _Scene) -> InventoryItem:
    if not scene.gpu:
        return InventoryItem("host_copies", None, _NO_GPU)
    copies, size = scene.copies, scene.copies["bytes"].to_numpy()
    per_step = int(size[size >= 0].sum()) // scene.kept.count
    known = bool((size >= 0).any())
    steps = len(np.unique(copies["step"].to_numpy()))
    found = steps >= MOSTLY * scene.kept.count and (per_step >= COPY_BYTES or not known) and len(copies) > 0
    text = f"{per_step / 1e6:.3g} MB per step in {len(copies) / scene.kept.count:.3g} copies"
    return InventoryItem("host_copies", found, text, per_step if known else None)


def _pinned(scene: _Scene) -> InventoryItem:
    size = np.maximum(0, scene.copies["bytes"].to_numpy())
    pinned, pageable = (int(size[among(scene.copies["memory"], memory)].sum()) for memory in ("pinned", "pageable"))
    if pinned + pageable > 0:
        text = f"{pinned / (pinned + pageable):.0%} of the bytes copied to the GPU come from pinned memory"
        return InventoryItem("pinned_memory", pinned > MOSTLY * (pinned + pageable), text)
    return _from_loader(scene, "pinned_memory", "pin_memory")


def _non_blocking(scene: _Scene) -> InventoryItem:
    copies = scene.copies
    if copies.empty:
        written = True if scene.source and scene.source.non_blocking else None
        text = "the script says non_blocking=True" if written else "no copy to the GPU was recorded"
        return InventoryItem("non_blocking_copies", written, text)
    pageable = int(np.count_nonzero(among(copies["memory"], "pageable")))
    waits = scene.timeline.syncs()
    waiting = among(kinds_of_calls(waits), "h2d") & (waits["wait_ns"].to_numpy() > 0)
    times = int(np.count_nonzero(waiting & scene.kept.holds(waits["step"])))
    text = f"{len(copies)} copies to the GPU, {pageable} from pageable memory, make the host wait {times} times"
    return InventoryItem("non_blocking_copies", times <= (1 - MOSTLY) * len(copies) and not pageable, text)


def _copy_stream(scene: _Scene) -> InventoryItem:
    """Batches travel on another stream than the one that computes: a prefetcher of the user's own."""
    if not scene.gpu:
        return InventoryItem("copy_stream", None, _NO_GPU)
    main, copies = _main_stream(scene), scene.copies
    own = copies["device"].to_numpy() == scene.main_device
    if not own.any() or main is None:
        return InventoryItem("copy_stream", None, "no copy to the GPU was recorded")
    size = np.maximum(0, copies["bytes"].to_numpy()[own])
    aside = copies["stream"].to_numpy()[own] != main
    share = int(size[aside].sum()) / max(1, int(size.sum()))
    text = f"{share:.0%} of the bytes are copied on another stream than {main}, which computes"
    return InventoryItem("copy_stream", share > MOSTLY, text)


def _main_stream(scene: _Scene) -> int | None:
    ops = scene.timeline.ops()
    kernels = _kernels(scene, ops)
    if not kernels.any():
        return None
    streams, place = np.unique(ops["stream"].to_numpy()[kernels], return_inverse=True)
    busy = np.zeros(len(streams), dtype=np.int64)
    np.add.at(busy, place, (ops["end_ns"].to_numpy() - ops["start_ns"].to_numpy())[kernels])
    return int(streams[busy.argmax()])


def _kernels(scene: _Scene, ops: pd.DataFrame) -> window.Mask:
    """Which operations are kernels of the GPU that works most."""
    own: window.Mask = ops["device"].to_numpy() == scene.main_device
    return own & among(ops["kind"], "kernel")


def _streams(scene: _Scene) -> InventoryItem:
    ops = scene.timeline.ops()
    used = len(np.unique(ops["stream"].to_numpy()[_kernels(scene, ops) & scene.kept.holds(ops["step"])]))
    if used == 0:
        return InventoryItem("compute_streams", None, "no kernel was recorded")
    return InventoryItem("compute_streams", used > 1, f"kernels run on {used} stream{'s'[: used > 1]}", used)


def _events(scene: _Scene) -> InventoryItem:
    if not calls_recorded(scene.timeline):
        return InventoryItem("events", None, "the host's calls were not recorded")
    waits, records = scene.calls("event_sync", "event_query"), scene.calls("event_record")
    text = f"{records} events recorded, {waits} waited for or asked, in {scene.kept.count} steps"
    return InventoryItem("events", waits > 0, text, waits)


# ---------------------------------------------------------------------------------------------------------- loaders


def _loaders(scene: _Scene) -> tuple[InventoryItem, ...]:
    return (
        _workers(scene),
        _from_loader(scene, "persistent_workers", "persistent_workers"),
        _from_loader(scene, "prefetch_factor", "prefetch_factor"),
    )


def _workers(scene: _Scene) -> InventoryItem:
    noted = _number(scene.loader.get("num_workers"))
    if noted is not None:
        return InventoryItem("loader_workers", noted > 0, f"num_workers={noted}, recorded", noted)
    names = set(scene.timeline.loader_waits()["name"].cat.categories)
    written = _number((scene.source.loader or {}).get("num_workers")) if scene.source else None
    if any("MultiProcessing" in name for name in names):
        return InventoryItem("loader_workers", True, "the loader's iterator is the multi-process one", written)
    if any("SingleProcess" in name for name in names):
        return InventoryItem("loader_workers", False, "the loader's iterator works in the training thread", 0)
    return _from_loader(scene, "loader_workers", "num_workers")


def _from_loader(scene: _Scene, name: str, keyword: str) -> InventoryItem:
    """An option of the DataLoader: as recorded, else as written."""
    for origin, options in (("recorded", scene.loader), ("in the script", scene.source and scene.source.loader)):
        value = options.get(keyword) if options else None
        if value is not None:
            return InventoryItem(name, bool(value), f"{keyword}={value}, {origin}", _number(value))
    written = scene.source is not None and scene.source.loader is not None and keyword not in scene.source.loader
    if written:
        return InventoryItem(name, False, f"the script's DataLoader has no {keyword}")
    return InventoryItem(name, None, "neither the recording nor the script tells")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# ---------------------------------------------------------------------------------------------- how it computes


def _graphs(scene: _Scene) -> InventoryItem:
    if not calls_recorded(scene.timeline):
        return InventoryItem("cuda_graphs", None, "the host's calls were not recorded")
    launches = scene.calls("graph_launch")
    return InventoryItem(
        "cuda_graphs", launches > 0, f"{launches} graph launches in {scene.kept.count} steps", launches
    )


def _compiled(scene: _Scene) -> InventoryItem:
    found = scene.names(*_COMPILED)
    if found is not None:
        return InventoryItem("compile", True, f"the trace has {found[:60]!r}")
    if scene.source and "compile" in scene.source.calls:
        return InventoryItem("compile", None, "the script calls compile, but no compiled region was recorded")
    return InventoryItem("compile", False, "no compiled region was recorded")


def _amp(scene: _Scene) -> InventoryItem:
    if scene.source and "autocast" in scene.source.calls:
        return InventoryItem("amp", True, "the script uses autocast")
    if not scene.gpu:
        return InventoryItem("amp", None, _NO_GPU)
    ops = scene.timeline.ops()
    used = np.unique(codes(ops["name"])[among(ops["kind"], "kernel")])
    kernels = sorted(str(name) for name in ops["name"].cat.categories[used])
    found = next((name for name in kernels if any(part in name for part in _LOW_PRECISION)), None)
    if found is not None:
        return InventoryItem("amp", True, f"kernels of 16 bits run, for example {found[:60]!r}")
    return InventoryItem("amp", False, "no kernel of 16 bits was recorded")


def _named(scene: _Scene, name: str, parts: tuple[str, ...], what: str) -> InventoryItem:
    found = scene.names(*parts)
    text = f"the trace has {found[:60]!r}" if found else f"no {what} in the trace"
    return InventoryItem(name, found is not None, text)


def _distributed(scene: _Scene) -> InventoryItem:
    ops = scene.timeline.ops()
    collectives = int(np.count_nonzero(among(ops["kind"], "collective")))
    world = scene.timeline.trace.world_size
    text = f"{collectives} collectives, world size {world if world is not None else 'unknown'}"
    return InventoryItem("distributed", collectives > 0 or (world or 1) > 1, text, world)


def _accumulation(scene: _Scene) -> InventoryItem:
    if scene.source is None:
        return InventoryItem("gradient_accumulation", None, "the script is not at hand")
    every = scene.source.steps_every
    text = f"`.step()` under a condition `% {every}`" if every else "no condition `% K` around `.step()` in the script"
    return InventoryItem("gradient_accumulation", every is not None, text, every)


def _flag(scene: _Scene, name: str, flag: str) -> InventoryItem:
    if scene.source is None:
        return InventoryItem(name, None, "the script is not at hand")
    if flag in scene.source.flags:
        return InventoryItem(name, True, f"the script sets {flag} = True")
    return InventoryItem(name, None, f"the script does not set {flag}; what it imports may")
