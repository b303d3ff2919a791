"""Whether a write into a batch reaches the data set: pinning makes a copy of the batch, which such a write would miss.

In: the `DataLoader(…)` call. Out: the write of a loop of the file. Only where the loader may hand out what the data
set has: torch's own collation of single items makes new memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import assigned, dotted, method_of, root_key, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loaders import batch_names, constructions, has_hidden_arguments, keyword, loader_of
from tracelens.patch.loop.loops import Blocked, own_nodes
from tracelens.patch.recipes.memory_writes import views, writes_into

_COLLATE, _SIZE = ("collate_fn", 6), ("batch_size", 1)
_COPIES = words("to cuda")
_FILLS = words("update pop popitem setdefault clear append extend insert remove sort reverse")


def check(source: SourceFile, call: cst.Call) -> None:
    """Raise `Blocked` where a loop writes into batches that may be the data set's own memory."""
    for loop in _loops(source, call):
        written = next((node for node, host in _host(source, loop) if _writes(source, node, host)), None)
        if written is not None:
            line = source.code(written).strip().partition("\n")[0]
            told = say("`{line}` may write into the data set by the batch, of which pinning makes a copy", line=line)
            raise Blocked(written, told, say("write into the data set itself"))


def _loops(source: SourceFile, call: cst.Call) -> Iterator[cst.For]:
    """The loops over the loader; none where each batch is made in new memory."""
    size = keyword(call, *_SIZE)
    made_anew = size is None or dotted(size) != "None"
    if made_anew and keyword(call, *_COLLATE) is None and not has_hidden_arguments(call):
        return
    for node in walk(source.module):
        loader = loader_of(node, source.names) if isinstance(node, cst.For) else None
        if isinstance(node, cst.For) and loader is not None and call in constructions(source, source.names, loader):
            yield node


def _host(source: SourceFile, loop: cst.For) -> Iterator[tuple[cst.CSTNode, frozenset[str]]]:
    """The nodes of the loop, each with the names that stand for memory of the host's batch there."""
    names = batch_names(loop)
    gone = {name: source.span(node)[1] for node in own_nodes(loop.body) for name in _moved(node)}
    known: dict[frozenset[str], frozenset[str]] = {}
    for node in own_nodes(loop.body):
        if node in source.spans:
            start = source.span(node)[0]
            left = frozenset(name for name in names if start < gone.get(name, start + 1))
            if left not in known:
                known[left] = views(loop.body, left)
            yield node, known[left]


def _moved(node: cst.CSTNode) -> Iterator[str]:
    """The names that a statement gives to copies: `x = x.to(device)`."""
    for target, value in assigned(node):
        if isinstance(target, cst.Name) and any(method_of(part) in _COPIES for part in walk(value)):
            yield target.value


def _writes(source: SourceFile, node: cst.CSTNode, host: frozenset[str]) -> bool:
    """Whether a statement or call writes into the memory, or into what holds it: `batch["seen"] = 1`."""
    if any(method_of(part) in _COPIES for _, value in assigned(node) for part in walk(value)):
        return False  # `batch[key] = batch[key].to(device)` has the same values
    if isinstance(node, cst.Del):
        return any(isinstance(part, cst.Subscript) and root_key(part) in host for part in walk(node.target))
    method = method_of(node)
    in_place = method in _FILLS or (method.endswith("_") and not method.startswith("_"))
    part = isinstance(node, cst.Call) and in_place and root_key(node.func) in host
    return part or writes_into(node, host, source.names)
