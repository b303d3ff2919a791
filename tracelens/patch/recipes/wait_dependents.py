"""What in a file is only right because the host waits for the GPU in each batch.

In: a parsed file, and what would stop waiting: a synchronize, a read or a copy. Out: signs, each with its node and
what it means. Work on other streams is known from `side_work`, and in other files from `other_streams`; here is what
needs no stream: host memory that is written again, copies to the host, events that are queried, other libraries that
use the GPU. Times between events are the matter of `timing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, method_of, targets, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop import other_streams
from tracelens.patch.loop.loops import SIDE_STREAMS, side_work
from tracelens.patch.recipes.memory_writes import text_of, writes_into

Wait = Literal["sync", "read", "copy"]
Sign = tuple[cst.CSTNode | None, str]
"""The node is None for what stands in another file."""

HOST_COPIES = say("copies to the host without blocking, which only a wait makes safe to read")
KEPT_MEMORY = say("writes again into pinned memory that it copies from without blocking")
ASKED = say("asks whether an event is over")
PROCESSES = say("hands memory to other processes, which do not wait for the GPU")

_OTHER_LIBRARIES = words("cupy numba.cuda pycuda tensorrt nvidia.dali horovod cuda warp jax")
_PROCESSES = words("Process Queue SimpleQueue JoinableQueue Pipe Pool Manager")
_STREAMS: dict[Wait, frozenset[str]] = {"read": frozenset({SIDE_STREAMS}), "copy": frozenset({SIDE_STREAMS})}
"""What of other streams matters here: a read, or a copy that blocks, may be what orders them."""


def of_library(library: str) -> str:
    """The meaning of a library with streams of its own."""
    return say("uses the GPU by `{library}`, whose streams a mark on torch's own does not see", library=library)


def beside_streams(elsewhere: str) -> str:
    """The meaning of a place in another file that runs with this one."""
    return say("runs together with {place}, which uses side streams", place=elsewhere)


@lru_cache(maxsize=3 * PARSED_FILES)
def signs(source: SourceFile, wait: Wait) -> tuple[Sign, ...]:
    """What relies on this kind of wait; the first is as good a reason as any."""
    names = source.names
    known = _STREAMS.get(wait)
    found: list[Sign] = [sign for sign in side_work(names, source.module) if known is None or sign[1] in known]
    if elsewhere := other_streams.place(source):
        found.append((None, beside_streams(elsewhere)))
    found += [(node, HOST_COPIES) for node in walk(source.module) if _copies_to_host(node, source)]
    found += [(node, KEPT_MEMORY) for node in _kept_memory(source)]
    if wait != "copy":
        found += [(node, ASKED) for node in _asked(source)]
    if wait == "sync":
        found += _others(source)
    return tuple(found)


# ------------------------------------------------------------------------------------------- copies to the host


def _copies_to_host(node: cst.CSTNode, source: SourceFile) -> bool:
    """`x.to(cpu, non_blocking=True)`, `x.to("cpu", dtype, True)`, `host.copy_(x, True)`."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    method = node.func.attr.value
    positional = [argument.value for argument in node.args if argument.keyword is None and not argument.star]
    named = {argument.keyword.value: argument.value for argument in node.args if argument.keyword is not None}
    if method == "copy_":
        given = named.get("non_blocking", positional[1] if len(positional) > 1 else None)
        return given is not None and dotted(given) != "False"
    if method != "to":
        return False
    hidden = any(argument.star for argument in node.args)
    asynchronous = named.get("non_blocking", positional[2] if len(positional) > 2 else None)
    device = named.get("device", positional[0] if positional else None)
    blocks = asynchronous is None or dotted(asynchronous) == "False"
    return (hidden or not blocks) and device is not None and _is_cpu(device, source)


def _is_cpu(device: cst.BaseExpression, source: SourceFile) -> bool:
    if isinstance(device, cst.SimpleString):
        return "cpu" in device.value
    if isinstance(device, cst.Call):
        return source.names.qualified(device.func) == "torch.device" and any(
            _is_cpu(argument.value, source) for argument in device.args
        )
    if not isinstance(device, cst.Name):
        return False  # `args.device` comes from outside, whatever the file makes of it besides
    assigned = (n for n in walk(source.module) if isinstance(n, cst.Assign))
    values = [n.value for n in assigned if any(dotted(target) == device.value for target in targets(n))]
    return bool(values) and all(not isinstance(v, cst.Name) and _is_cpu(v, source) for v in values)


# ------------------------------------------------------------------------------------------------ pinned memory


def _kept_memory(source: SourceFile) -> Iterator[cst.CSTNode]:
    """Pinned tensors that outlive a pass of a loop, where something writes into them."""
    for node in walk(source.module):
        if not isinstance(node, (cst.Assign, cst.AnnAssign)) or node.value is None or not _pins(node.value, source):
            continue
        kept = {text_of(target) for target in targets(node) if _outlives(node, target, source)}
        if kept and any(writes_into(part, kept, source.names) for part in walk(source.module)):
            yield node


def _pins(value: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether pinned memory is kept by an expression; `x.pin_memory().to(device)` keeps none."""
    if method_of(value) in ("to", "cuda"):
        return False
    for part in walk(value):
        if not isinstance(part, cst.Call):
            continue
        full = source.names.qualified(part.func)
        if method_of(part) == "pin_memory":
            return True
        given = (a for a in part.args if a.keyword is not None and a.keyword.value == "pin_memory")
        if full.startswith("torch.") and not full.startswith("torch.utils.") and any(given):
            return True
    return False


def _outlives(node: cst.CSTNode, target: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether the memory under a name is there in the next batch: an attribute is, a name that a loop binds is not."""
    if isinstance(target, cst.Attribute):
        return True
    inside = next((a for a in source.ancestors(node) if isinstance(a, (cst.For, cst.While, cst.FunctionDef))), None)
    if not isinstance(inside, cst.FunctionDef):
        return inside is None
    loops = (part for part in walk(inside.body) if isinstance(part, (cst.For, cst.While)))
    return any(dotted(part) == dotted(target) for loop in loops for part in walk(loop.body))


# ------------------------------------------------------------------------------------------------------- events


def _asked(source: SourceFile) -> Iterator[cst.CSTNode]:
    """`end.query()`: without the wait it may return False. A loop that polls until it is True waits by itself."""
    for node in walk(source.module):
        if isinstance(node, cst.Call) and method_of(node) == "query" and not node.args and not _polls(node, source):
            yield node


def _polls(node: cst.CSTNode, source: SourceFile) -> bool:
    loops = (above for above in source.ancestors(node) if isinstance(above, cst.While))
    return any(part is node for loop in loops for part in walk(loop.test))


# ------------------------------------------------------------------------------------------------------- others


def _others(source: SourceFile) -> Iterator[Sign]:
    """Libraries with streams of their own, and processes that may be given memory of the GPU."""
    for full in source.names.imports.values():
        for library in _OTHER_LIBRARIES:
            if full == library or full.startswith(f"{library}."):
                yield source.module, of_library(library)
    for node in walk(source.module):
        full = source.names.qualified(node.func) if isinstance(node, cst.Call) else ""
        package, _, last = full.rpartition(".")
        if package in ("multiprocessing", "torch.multiprocessing") and last in _PROCESSES:
            yield node, PROCESSES
