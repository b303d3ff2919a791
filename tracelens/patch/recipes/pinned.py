"""pin_memory for the loader of a loop whose copies do not block: they start from pinned memory only.

In: a RecipeRequest, a loop and the waits recorded for its copies. Out: a Proposal for the `DataLoader(…)` call. Raises
`Blocked` where the call is not seen, or where its items are on the GPU already: those cannot be pinned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.messages import joined, say
from tracelens.model import Stall
from tracelens.patch.code.names import FileNames, dotted, targets, variables, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import hidden
from tracelens.patch.loop.loaders import construction, keyword, loader_of
from tracelens.patch.loop.loops import KEPT, Blocked
from tracelens.patch.loop.sites import is_copy_to_device
from tracelens.patch.proposal import Proposal, RecipeRequest, evidence
from tracelens.patch.recipes.arguments import with_argument
from tracelens.patch.recipes.rounding import name_of_torch

PIN = "pin_memory"
_PIN_POSITION, _WORKERS_POSITION = 7, 5
_DEEPEST = 4
"""Names followed one after the other, from the loader's arguments to what makes its items."""
_MAKES_ITEMS = re.compile(
    r"^(?P<indent>[ \t]*)def (?:__getitems?__|\w*collate\w*)\b.*?(?=^(?P=indent)\S|\Z)", re.MULTILINE | re.DOTALL
)
_TO_GPU = re.compile(r"""\.cuda\(|\.to\(\s*(?!["']cpu|torch\.(?!device)|\w*dtype)|\bdevice\s*=\s*(?!["']cpu|None)""")
_ARGUMENT = "pin_memory=torch.cuda.is_available()"
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
    workers = keyword(call, "num_workers", _WORKERS_POSITION)
    none = workers is None and "num_workers" not in (hidden_names or ())
    alone = none or (isinstance(workers, cst.Integer) and workers.evaluated_value == 0)
    reason = say("copies from pinned memory are faster and need not block")
    if alone:
        slow = say("without workers the pinning itself runs in the main process and can cost more than it saves")
        reason = joined("; ", [reason, slow])
    return [
        Proposal(
            edit="async-copy",
            tier="safe",
            location=request.place(call),
            reason=reason,
            evidence=evidence(stalls),
            splices=(with_argument(source, call, f"{PIN}={where_there_is_a_gpu(names)}"),),
        )
    ]


def _obstacle(source: SourceFile, names: FileNames, call: cst.Call) -> str | None:
    if hidden.names(source, call) is None:
        return say("the loader's arguments are hidden in `*` or `**`, and pin_memory may be among them")
    if source.kept_by_comment(call):
        return KEPT[0]
    if not name_of_torch(names):
        return say("the file does not import torch by name")
    made_there = any(is_copy_to_device(part) for part in _made(source, call) if isinstance(part, cst.Call))
    if made_there or any(_TO_GPU.search(found[0]) for found in _MAKES_ITEMS.finditer(source.project_text)):
        return say("a part of its items may be on the GPU already, and only memory of the host can be pinned")
    return None


def _made(source: SourceFile, call: cst.Call) -> Iterator[cst.CSTNode]:
    """What makes the items: the call's arguments, and what their names are assigned in this file outside of loops."""
    waiting: list[tuple[cst.CSTNode, int]] = [(argument.value, _DEEPEST) for argument in call.args]
    assigns = [
        node
        for node in walk(source.module)
        if isinstance(node, cst.Assign) and not any(isinstance(a, cst.For) for a in source.ancestors(node))
    ]
    while waiting:
        node, depth = waiting.pop()
        yield from walk(node)
        names = {dotted(variable) for variable in variables(node)} - {""} if depth else set()
        for assign in assigns:
            if any(dotted(part) in names for target in targets(assign) for part in walk(target)):
                waiting.append((assign.value, depth - 1))


def where_there_is_a_gpu(names: FileNames) -> str:
    """The value of the argument, by the file's own name for torch; "True" where it has none."""
    torch = name_of_torch(names)
    return f"{torch}.cuda.is_available()" if torch else "True"
