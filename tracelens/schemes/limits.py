"""What limits a loop where no wait does, what that is called, and what would help.

In: Facts. Out: words for a verdict. What the loop has already is not named as a help.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracelens.messages import joined, say
from tracelens.model import Binding, OwnerKind
from tracelens.schemes.facts import Facts
from tracelens.schemes.loss import MOST_BUSY
from tracelens.units import LEAST_COPIES_SHARE, gpu_works

PYTHON_ONLY = {"amp", "compile"}
"""Inventory items that are remedies in Python and nothing else."""
ONE_ITERATOR, MORE_WORKERS = "one_iterator", "more_workers"
"""Of these two one helps: where each batch has an iterator of its own, workers would start for each."""
LIMITS: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "stream": (
        say("GPU-bound"),
        (("amp", say("bf16")), ("compile", say("torch.compile")), ("", say("cheaper kernels (by hand)"))),
    ),
    "host": (
        say("launch-bound"),
        (("cuda_graphs", say("CUDA graphs")), ("compile", say("torch.compile")), ("", say("larger batches"))),
    ),
    "cpu": (
        say("CPU-bound"),
        (("compile", say("torch.compile")), ("", say("another number of CPU threads")), ("", say("a GPU"))),
    ),
    "loader": (
        say("loader-bound"),
        (
            (ONE_ITERATOR, say("one DataLoader iterator for many batches")),
            (MORE_WORKERS, say("more DataLoader workers")),
            ("", say("cheaper preprocessing")),
            ("", say("cached samples")),
        ),
    ),
    "copy": (
        say("copy-bound"),
        (
            ("pinned_memory", say("pinned memory")),
            ("", say("smaller dtypes in the batch")),
            ("", say("decoding on the GPU")),
        ),
    ),
    "communication": (
        say("communication-bound"),
        (
            ("gradient_accumulation", say("gradient accumulation")),
            ("", say("larger gradient buckets")),
            ("", say("a faster link")),
        ),
    ),
}
"""What a limit is called, and what helps: each with the inventory item that says it is done already. Where the GPU is
busy with collectives that nothing hides, kernels are not what to make cheaper."""

_LEVERS = {"cuda_graphs": say("CUDA graphs (torch.compile reduce-overhead)")}
"""In Python, by the name that the lever has in the table of levers."""

LIMIT_OF: Mapping[OwnerKind, str] = {"gpu": "stream", "launch": "host", "communication": "communication"}
"""Owners that are a limit of the loop rather than a place in it."""


def helps_against(limit: str, facts: Facts) -> tuple[str, str]:
    """What a limit is called, and what helps and is not done yet."""
    name, remedies = LIMITS[limit]
    done = {item.id for item in facts.inventory if item.present} | (set() if facts.python else PYTHON_ONLY)
    done.add(MORE_WORKERS if facts.owners is not None and facts.owners.makes_iterators else ONE_ITERATOR)
    named = [_LEVERS.get(item, text) if facts.python else text for item, text in remedies if item not in done]
    return name, joined(", ", named)


def busy(facts: Facts) -> str:
    share = facts.gpu_busy_share
    return gpu_works(share, copies_share(facts)) if share is not None else ""


def copies_share(facts: Facts) -> float:
    return facts.breakdown.copies_share if facts.breakdown is not None else 0.0


def is_full(facts: Facts) -> bool:
    """Whether kernels, not copies that nothing hides, keep the GPU busy all the time: nothing is to be fixed then."""
    return (facts.gpu_busy_share or 0.0) >= MOST_BUSY and copies_share(facts) < LEAST_COPIES_SHARE


def communicates(facts: Facts) -> bool:
    """Exposed collectives take more of the step than computing does."""
    parts = facts.breakdown.known if facts.breakdown is not None else {}
    return parts.get("communication_exposed", 0) > parts.get("compute", 0)


def binding_of(facts: Facts) -> Binding | None:
    """The owner of most of the step, where no bound was computed."""
    if facts.breakdown is None:
        return None
    parts = facts.breakdown.known
    owners: dict[Binding, int] = {
        "stream": parts["compute"] + parts["communication_exposed"],
        "host": parts.get("idle_host", 0) + parts.get("idle_launch", 0),
        "loader": parts.get("idle_dataloader", 0),
        "copy": parts["copy_exposed"],
    }
    return max(owners, key=lambda name: owners[name])
