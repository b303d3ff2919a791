"""pin_memory for the loader of a loop whose copies do not block: they start from pinned memory only.

In: a RecipeRequest, a loop and the waits recorded for its copies. Out: a Proposal for the `DataLoader(…)` call. Raises
`Blocked` where the call is not seen, or where its items are on the GPU already: those cannot be pinned.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tracelens.messages import joined, say
from tracelens.model import Stall
from tracelens.patch.code.names import FileNames
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import cuda_asked, hidden
from tracelens.patch.loop.loaders import construction, keyword, loader_of
from tracelens.patch.loop.loops import KEPT, Blocked
from tracelens.patch.proposal import Proposal, RecipeRequest, evidence
from tracelens.patch.recipes import batch_writes, items_on_gpu, plain_items
from tracelens.patch.recipes.arguments import with_argument
from tracelens.patch.recipes.rounding import name_of_torch

PIN = "pin_memory"
_PIN_POSITION, _WORKERS_POSITION = 7, 5
_ARGUMENT = "pin_memory=torch.cuda.is_available()"
UNPROVED = say(
    "whether a batch is nothing but tensors of the host that torch itself put together: others may be changed when they"
    " are pinned, or cannot be"
)
_BY_HAND = say("pass {argument}", argument=_ARGUMENT)


def propose(request: RecipeRequest, loop: cst.For, stalls: Sequence[Stall]) -> list[Proposal]:
    """One Proposal, or none where the call says itself whether it pins; raises `Blocked`."""
    source, names = request.source, request.names
    loader = loader_of(loop, names)
    call = construction(source, names, loader) if loader is not None else None
    if call is None:
        raise Blocked(
            None,
            say("the loader is made elsewhere"),
            say("give its DataLoader {argument}", argument=_ARGUMENT),
        )
    hidden_names = hidden.names(source, call)
    if keyword(call, PIN, _PIN_POSITION) is not None or PIN in (hidden_names or ()):
        return []
    obstacle = _obstacle(source, names, call)
    if obstacle is not None:
        raise Blocked(call, obstacle, _BY_HAND)
    batch_writes.check(source, call)
    count = keyword(call, "num_workers", _WORKERS_POSITION)
    none = count is None and "num_workers" not in (hidden_names or ())
    alone = none or (isinstance(count, cst.Integer) and count.evaluated_value == 0)
    reason = say("copies from pinned memory are faster and need not block")
    if alone:
        slow = say("without workers the pinning itself runs in the main process and can cost more than it saves")
        reason = joined("; ", [reason, slow])
    proposal = Proposal(
        edit="async-copy",
        tier="safe",
        location=request.place(call),
        reason=reason,
        evidence=evidence(stalls),
        splices=(with_argument(source, call, f"{PIN}={where_there_is_a_gpu(names)}"),),
    )
    return [with_doubts(proposal, request, call)]


def with_doubts(proposal: Proposal, request: RecipeRequest, call: cst.Call) -> Proposal:
    """The proposal to pin what a loader gives, with what is not known of that."""
    early = cuda_asked.doubt(request.source, call) if name_of_torch(request.names) else ""
    mixed = "" if plain_items.has_plain_items(request.source, request.names, call) else UNPROVED
    for unproved in filter(None, (mixed, early)):
        proposal = proposal.as_checked(unproved)
    return proposal


def _obstacle(source: SourceFile, names: FileNames, call: cst.Call) -> str | None:
    if hidden.names(source, call) is None:
        return say("the loader's arguments are hidden in `*` or `**`, and pin_memory may be among them")
    if source.kept_by_comment(call):
        return KEPT[0]
    if not name_of_torch(names):
        return say("the file does not import torch by name")
    if items_on_gpu.may_be(source, call):
        return say("a part of its items may be on the GPU already, and only memory of the host can be pinned")
    return None


def where_there_is_a_gpu(names: FileNames) -> str:
    """The value of the argument, by the file's own name for torch; "True" where it has none."""
    torch = name_of_torch(names)
    return f"{torch}.cuda.is_available()" if torch else "True"
