"""What a lever is called where its id would say nothing to somebody who reads about it for the first time.

In: a Lever and the plan that it stands in. Out: a few plain words. Settings are called as PyTorch calls them.
"""

from __future__ import annotations

from tracelens.model import Diagnosis, Lever, PlannedDiagnosis
from tracelens.report.formatting import clean

_SCHEMES = {
    "event-interval": "Wait every {nth} batch",
    "interval-sync": "Synchronize every {nth} batch",
    "event-sync": "Wait for an event",
    "pinned-copy": "Copy from pinned memory",
    "more-streams": "Copy the next batch ahead",
    "full-pipeline": "Copy ahead, wait every {nth}",
}
_SETTINGS = {
    "compile": "torch.compile",
    "workers": "DataLoader workers",
    "prefetch": "Batches ahead per worker",
    "batch": "Batch size",
    "gc-collect": "Collect every 100th batch",
    "omp-threads": "CPU threads",
    "cudnn-benchmark": "cuDNN's fastest kernels",
    "persistent-workers": "Workers that stay",
    "pin-memory": "Batches in pinned memory",
    "transform-on-gpu": "Transforms on the GPU",
    "cached-samples": "Keep decoded samples",
    "set-to-none": "Gradients freed, not zeroed",
    "anomaly-off": "No anomaly detection",
    "foreach": "foreach optimizer",
    "fused": "fused optimizer",
    "matmul-precision": "float32 product precision",
}


def name(lever: Lever, diagnosis: PlannedDiagnosis) -> str:
    """'Wait every 10th batch', 'DataLoader workers 2→4', 'bf16'."""
    if lever.id in _SCHEMES:
        return _SCHEMES[lever.id].format(nth=_ordinal(diagnosis.interval))
    setting, _, value = lever.id.partition("=")
    if setting == "workers" and value:
        before = _workers(diagnosis)
        return f"DataLoader workers {f'{before}→' if before is not None else ''}{clean(value)}"
    shown = _SETTINGS.get(setting, setting)
    return clean(f"{shown} {value}".strip() if value else shown)


def _ordinal(number: int) -> str:
    """'1st', '2nd', '10th'."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _workers(diagnosis: Diagnosis) -> int | None:
    """How many the loop has; None where the recording does not tell."""
    item = next((item for item in diagnosis.inventory if item.id == "loader_workers"), None)
    return None if item is None else 0 if item.present is False else item.value
