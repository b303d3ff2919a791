"""The training loop around a place, and what in its surroundings stands in the way of changing it.

In: a parsed file and a node. Out: the `for` loop whose passes are the batches, or `Blocked` with the line that
stands in the way and what to do by hand. Apart because every recipe asks the same questions first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tracelens.patch.names import FileNames, children, dotted, walk
from tracelens.patch.source import SourceFile

Scope = cst.FunctionDef | cst.Module

_CLOCKS = frozenset(
    {
        "time.time",
        "time.perf_counter",
        "time.monotonic",
        "time.time_ns",
        "time.perf_counter_ns",
        "time.monotonic_ns",
        "time.process_time",
        "timeit.default_timer",
        "datetime.datetime.now",
    }
)
_FRAMEWORKS = {
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "accelerate": "Accelerate",
    "fastai": "fastai",
    "ignite": "Ignite",
    "mmengine": "mmengine",
    "deepspeed": "DeepSpeed",
}
_NAME_SEES_ALL = frozenset({"locals", "vars", "exec", "eval", "dir"})
_STEP_OWNER = re.compile(r"opt|scaler|^o$", re.IGNORECASE)
_RARE_NAMES = re.compile(
    r"log|print|save|eval|valid|test|ckpt|checkpoint|last|final|dry_run|debug|done|update_grad", re.IGNORECASE
)


class Blocked(Exception):
    """A place stays as it is: the line that stands in the way, why, and what to do by hand."""

    def __init__(self, node: cst.CSTNode | None, obstacle: str, by_hand: str) -> None:
        super().__init__(obstacle)
        self.node = node
        self.obstacle = obstacle
        self.by_hand = by_hand


def training_loop(source: SourceFile, node: cst.CSTNode) -> cst.For:
    """The `for` loop whose passes are the batches: the innermost that itself makes an optimizer step, else a backward.

    A loop over micro-batches has the backward but not the step, so it is not taken; a loop over epochs has both, but
    only inside another loop. Raises `Blocked`.
    """
    loops: list[cst.For | cst.While] = []
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(ancestor, (cst.For, cst.While)):
            loops.append(ancestor)
        if isinstance(ancestor, cst.BaseComp):
            raise Blocked(node, "it stands in a comprehension", "move it into a statement of the loop")
    if not loops:
        raise Blocked(node, "it is not in a loop of its own function", "move it into the training loop")
    chosen = next((loop for loop in loops if _steps(loop)), None) or next((p for p in loops if _goes_back(p)), loops[0])
    if isinstance(chosen, cst.While):
        raise Blocked(chosen, "the training loop is a while loop", "count the batches and read every N of them")
    if chosen.asynchronous is not None:
        raise Blocked(chosen, "the training loop is an async for", "read the values every N batches")
    return chosen


def scope_of(source: SourceFile, node: cst.CSTNode) -> Scope:
    """The function (or module) that owns the names used at a node. Raises `Blocked` in a class body or a lambda."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, (cst.FunctionDef, cst.Module)):
            return ancestor
        if isinstance(ancestor, (cst.ClassDef, cst.Lambda)):
            raise Blocked(node, "it stands in a class body or a lambda", "move the loop into a function")
    return source.module


def check_scope(scope: Scope) -> None:
    """Raise `Blocked` where names may be seen by code that cannot be followed, or the frame outlives the loop."""
    if isinstance(scope, cst.FunctionDef) and scope.asynchronous is not None:
        raise Blocked(scope, "the loop is in an async function", "read the values every N batches")
    for node in own_nodes(scope):
        if isinstance(node, (cst.Yield, cst.Await)):
            raise Blocked(node, "the loop is in a generator", "read the values every N batches")
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and _sees_all(node, scope):
            obstacle = f"`{node.func.value}()` can see every name of the function"
            raise Blocked(node, obstacle, "name the values that it needs")


def check_framework(names: FileNames) -> None:
    """Raise `Blocked` in files whose loop belongs to a framework."""
    for full in names.imports.values():
        root = full.partition(".")[0]
        if root in _FRAMEWORKS:
            obstacle = f"the file uses {_FRAMEWORKS[root]}, which owns a part of the loop"
            raise Blocked(None, obstacle, "log every N steps through the framework's own setting")
        if full in ("transformers.Trainer", "transformers.Seq2SeqTrainer"):
            by_hand = "set logging_steps and dataloader_pin_memory"
            raise Blocked(None, "the loop belongs to transformers.Trainer", by_hand)


def side_work(names: FileNames, module: cst.Module) -> tuple[cst.CSTNode, str] | None:
    """The first sign in a file that work is issued elsewhere than on the current stream of the main thread."""
    for node in walk(module):
        if isinstance(node, cst.Call):
            full = names.qualified(node.func)
            for words, meaning in _SIDE_WORK.items():
                if full in words:
                    return node, meaning
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "non_blocking":
            call = _copy_to_host(node, module)
            if call is not None:
                return call, "copies to the host without blocking, which only a synchronize makes safe to read"
    return None


def clock_reads(loop: cst.For, names: FileNames) -> list[cst.Call]:
    """Reads of the host clock inside the loop."""
    return [n for n in walk(loop.body) if isinstance(n, cst.Call) and names.qualified(n.func) in _CLOCKS]


def own_nodes(scope: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Everything in a function (or module) that is not in a function or class defined inside it."""
    for child in _direct(scope):
        yield child
        if not isinstance(child, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield from own_nodes(child)


def inner_functions(scope: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The functions and classes defined directly inside."""
    return (n for n in own_nodes(scope) if isinstance(n, (cst.FunctionDef, cst.ClassDef, cst.Lambda)))


def is_rare(test: cst.BaseExpression, varying: frozenset[str]) -> bool:
    """Whether a condition is likely to hold for few batches only: `step % 100 == 0`, `step >= limit`, `save_now`."""
    for node in walk(test):
        if isinstance(node, cst.Modulo):
            return True
        if isinstance(node, cst.Name) and _RARE_NAMES.search(node.value):
            return True
        if isinstance(node, cst.Comparison):
            operators = [part.operator for part in node.comparisons]
            bounds = (cst.Equal, cst.GreaterThan, cst.GreaterThanEqual)
            if isinstance(operators[0], bounds) and dotted(node.left) in varying:
                return True
    return False


def _direct(scope: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(scope, cst.FunctionDef):
        yield scope.body
    else:
        yield from children(scope)


def _sees_all(call: cst.Call, scope: Scope) -> bool:
    name = call.func.value if isinstance(call.func, cst.Name) else ""
    if name in ("vars", "dir") and call.args:
        return False  # of an object, not of the frame
    if isinstance(scope, cst.Module):  # globals are seen by name at any time; a configurator above the loop is common
        return name in ("locals", "vars")
    return name in _NAME_SEES_ALL


def _steps(loop: cst.For | cst.While) -> bool:
    calls = (node.func for node in _outside_inner_loops(loop.body) if isinstance(node, cst.Call))
    attributes = (func for func in calls if isinstance(func, cst.Attribute) and func.attr.value == "step")
    return any(_STEP_OWNER.search(dotted(func.value).rpartition(".")[2]) for func in attributes)


def _goes_back(loop: cst.For | cst.While) -> bool:
    calls = (node.func for node in _outside_inner_loops(loop.body) if isinstance(node, cst.Call))
    return any(isinstance(func, cst.Attribute) and func.attr.value == "backward" for func in calls)


def _outside_inner_loops(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for child in children(node):
        if not isinstance(child, (cst.For, cst.While, cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield child
            yield from _outside_inner_loops(child)


_SIDE_WORK: dict[frozenset[str], str] = {
    frozenset({"torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream"}): "uses side streams",
    frozenset({"torch.cuda.CUDAGraph", "torch.cuda.graph", "torch.cuda.make_graphed_callables"}): "captures graphs",
    frozenset({"threading.Thread", "concurrent.futures.ThreadPoolExecutor"}): "starts threads",
    frozenset(
        {"torch.distributed.init_process_group", "torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel"}
    ): "runs on several GPUs, whose communication has streams of its own",
    frozenset({"os.fork", "torch.multiprocessing.spawn"}): "starts processes that may share GPU memory",
}


def _copy_to_host(argument: cst.Arg, module: cst.Module) -> cst.Call | None:
    for node in walk(module):
        if isinstance(node, cst.Call) and any(arg is argument for arg in node.args):
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            to_host = any(isinstance(a.value, cst.SimpleString) and "cpu" in a.value.value for a in node.args)
            return node if name in ("copy_", "cpu") or (name == "to" and to_host) else None
    return None
