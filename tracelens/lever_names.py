"""What a lever is called where its id would say nothing to somebody who reads about it for the first time.

In: an id, and of this loop what the name holds: N of every N batches, workers as they are. Out: a few plain words,
the same in every sentence, table and picture. Settings are called as PyTorch calls them. The id stays what is typed.
"""

from __future__ import annotations

from tracelens.messages import say

_WORDS = {
    "event-sync": say("Wait each batch for an event"),
    "pinned-copy": say("Copy from pinned memory"),
    "more-streams": say("Copy the next batch ahead"),
}
_SETTINGS = {
    "compile": "torch.compile",
    "workers": say("DataLoader workers"),
    "prefetch": "prefetch_factor",
    "batch": say("Batch size"),
    "gc-collect": say("Collect every 100th batch"),
    "omp-threads": say("CPU threads"),
    "cudnn-benchmark": say("cuDNN's fastest kernels"),
    "persistent-workers": "persistent_workers",
    "pin-memory": "pin_memory",
    "transform-on-gpu": say("Transforms on the GPU"),
    "cached-samples": say("Keep decoded samples"),
    "set-to-none": say("Gradients freed, not zeroed"),
    "anomaly-off": say("No anomaly detection"),
    "foreach": say("foreach optimizer"),
    "fused": say("fused optimizer"),
    "matmul-precision": say("float32 product precision"),
}


def named(lever: str, interval: object = None, workers: int | None = None) -> str:
    """'Wait every 10th batch', 'DataLoader workers 2→4', 'bf16'. `interval` None, or no number above 1: not known."""
    if lever in _WORDS:
        return _WORDS[lever]
    if lever in ("event-interval", "interval-sync", "full-pipeline"):
        return _every(lever, ordinal(interval) if isinstance(interval, int) and interval > 1 else say("Nth"))
    setting, _, value = lever.partition("=")
    if setting == "workers" and value:
        change = value if workers is None else f"{workers}→{value}"
        return say("DataLoader workers {change}", change=change)
    words = _SETTINGS.get(setting, setting)
    return say("{setting} {value}", setting=words, value=value) if value else words


def with_id(lever: str, interval: object = None, workers: int | None = None) -> str:
    """The name with what is typed for it, where that is something else: 'Wait every 10th batch (event-interval)'."""
    name = named(lever, interval, workers)
    return name if name == lever else say("{name} ({id})", name=name, id=lever)


def _every(scheme: str, nth: str) -> str:
    if scheme == "event-interval":
        return say("Wait every {nth} batch", nth=nth)
    if scheme == "interval-sync":
        return say("Wait every {nth} for all work", nth=nth)
    return say("Copy ahead, wait every {nth}", nth=nth)


def ordinal(number: int) -> str:
    """'1st', '2nd', '10th'."""
    if 10 <= number % 100 <= 20 or number % 10 not in (1, 2, 3):
        return say("{number}th", number=number)
    if number % 10 == 1:
        return say("{number}st", number=number)
    return say("{number}nd", number=number) if number % 10 == 2 else say("{number}rd", number=number)
