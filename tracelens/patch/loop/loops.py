"""The training loop around a place, and what in its surroundings stands in the way of changing it.

In: a parsed file and a node. Out: the `for` loop whose passes are the batches, or `Blocked` with the line that
stands in the way and what to do by hand. Apart because every recipe asks the same questions first.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.clocks import CLOCKS, MOMENTS
from tracelens.patch.code.names import KEPT_WALKS, FileNames, children, dotted, method_of, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.helper_file import RUNTIME

Scope = cst.FunctionDef | cst.Module
Loop = cst.For | cst.While
_ITERATES = frozenset({"iterate", "iterate_while", "over", "over_while"})
"""Methods of the helpers in the head of a patched loop. The last two are their names up to version 5."""
BUILTINS = frozenset(dir(builtins))
RETURN_TENSOR = say("return the tensor, and take its number where it is logged, every N batches")
FEW_BATCHES = say("it is read only in few batches"), say("nothing to do: it costs little")
KEPT = say("it is marked `# tracelens: keep`"), say("remove the comment to have it patched")
DECIDES = (
    say("the value decides what the same batch does next"),
    say("keep the check, or make it every N batches on a tensor kept on the GPU"),
)
"""Obstacle and what to do by hand, for a value that a condition looks at."""
OF_A_HEAD = say("the value is used by the head of a block"), say("read it every N batches")
"""The same for the values that a `for` goes through, or a `with` is made of."""
FIRST_BATCHES = 10
"""`step > n` up to this n is taken for all batches but the first ones."""
REMEMBERED = 64 * PARSED_FILES
"""Answers that are kept: each place of a file asks the same questions about the same few loops."""

_FRAMEWORKS = {
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "lightning_fabric": "Lightning",
    "accelerate": "Accelerate",
    "fastai": "fastai",
    "ignite": "Ignite",
    "mmengine": "mmengine",
    "deepspeed": "DeepSpeed",
}
_LEAVE_THE_LOOP = frozenset({"accelerate", "deepspeed"})
_WITH_FABRIC = frozenset({"lightning", "pytorch_lightning", "lightning_fabric"})
_FABRIC = frozenset({"Fabric", "fabric", "seed_everything", "__version__"})
_NAME_SEES_ALL = frozenset({"locals", "vars", "exec", "eval", "dir"})
_STEP_OWNER = re.compile(r"opt|scaler|^o$", re.IGNORECASE)
_RARE_NAMES = re.compile(
    r"log|print|save|eval|valid|test|ckpt|checkpoint|last|final|dry_run|debug|done|update_grad", re.IGNORECASE
)


class Blocked(Exception):
    """A place stays as it is: the line that stands in the way, why, and what to do by hand.

    The sentence is true of the code, or says what cannot be written; what is only likely is `Suspected`.
    """

    def __init__(self, node: cst.CSTNode | None, obstacle: str, by_hand: str) -> None:
        super().__init__(obstacle)
        self.node = node
        self.obstacle = obstacle
        self.by_hand = by_hand

    def suspected(self) -> Suspected:
        """The same sentence, of what only may be so."""
        return Suspected(self.node, self.obstacle, self.by_hand)


class Suspected(Blocked):
    """What may stand in the way, and nobody can tell from the text: a plan is `checked` because of it, not declined.

    Nobody raises it but `doubts.doubt`, where a plan may leave nothing open.
    """


def training_loop(source: SourceFile, node: cst.CSTNode) -> Loop:
    """The loop whose passes are the batches: the innermost that itself makes an optimizer step, else a backward.

    A loop over micro-batches has the backward but not the step, so it is not taken; a loop over epochs has both, but
    only inside another loop. Raises `Blocked`.
    """
    loops = list(loops_around(source, node))
    if not loops:
        raise Blocked(node, *_outside(source, node))
    chosen = next((loop for loop in loops if _steps(loop)), None) or next((p for p in loops if _goes_back(p)), loops[0])
    if isinstance(chosen, cst.For) and chosen.asynchronous is not None:
        raise Blocked(chosen, say("the training loop is an async for"), say("read the values every N batches"))
    return chosen


def for_loop_of_training(source: SourceFile, node: cst.CSTNode) -> cst.For | None:
    """The training loop around a place, where there is one and it takes its batches from its `for` line."""
    try:
        loop = training_loop(source, node)
    except Blocked:
        return None
    return loop if isinstance(loop, cst.For) else None


def loops_around(source: SourceFile, node: cst.CSTNode) -> Iterator[Loop]:
    """The loops of its own function around a node, the innermost first."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            return
        if isinstance(ancestor, (cst.For, cst.While)):
            yield ancestor


def innermost_loop(source: SourceFile, node: cst.CSTNode) -> Loop | None:
    """The innermost loop around a node, also around the function that holds it."""
    return next((one for one in source.ancestors(node) if isinstance(one, (cst.For, cst.While))), None)


def condition_around(source: SourceFile, node: cst.CSTNode, *but: str) -> str:
    """The condition below which a node stands, as for an option; "" where there is none but those with such words."""
    conditions = (one.test for one in source.ancestors(node) if isinstance(one, (cst.If, cst.IfExp)))
    texts = map(source.code, conditions)
    return next((text for text in texts if not any(word in text for word in but)), "")


def runs_at_once(function: cst.FunctionDef) -> bool:
    """Whether a call runs the lines of a function, and no others: no generator, and no functions defined in it."""
    apart = any(isinstance(node, (cst.Yield, cst.Await)) for node in own_nodes(function))
    return function.asynchronous is None and not apart and not any(True for _ in inner_functions(function))


def function_without_loop(source: SourceFile, node: cst.CSTNode) -> cst.FunctionDef | None:
    """The function around a place that no loop of that function is around."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef):
            return ancestor
        if isinstance(ancestor, (cst.For, cst.While, cst.Lambda, cst.ClassDef)):
            return None
    return None


def _outside(source: SourceFile, node: cst.CSTNode) -> tuple[str, str]:
    """Why a place in a step function or a helper stays, and what to do: the loop that calls it, if the file has it."""
    function = source.innermost(cst.FunctionDef, node)
    by_hand = RETURN_TENSOR
    if function is None:
        return say("it is not in a loop of its own function"), say("move it into the training loop")
    name = function.name.value
    for call in source.calls.get(name, ()):
        if innermost_loop(source, call) is not None:
            return say(
                "it is not in a loop of its own function: line {line} calls `{name}` in one",
                line=source.line(call),
                name=name,
            ), by_hand
    return say("it is not in a loop of its own function"), by_hand


def trains(loop: Loop) -> bool:
    """Whether the loop itself makes an optimizer step or goes backward."""
    return _steps(loop) or _goes_back(loop)


def rounds_of_a_step(source: SourceFile, loop: Loop) -> bool:
    """Whether a loop counts rounds, and the loop around it makes an optimizer step of its own: those of a critic."""
    counted = isinstance(loop, cst.For) and isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == "range"
    if not counted or any(isinstance(part, cst.Call) for part in walk(head(loop)) if part is not head(loop)):
        return False  # `range(len(loader))` goes through data
    around = next(loops_around(source, loop), None)
    return around is not None and _steps(around)


def loop_over_batches(source: SourceFile, node: cst.CSTNode) -> cst.For:
    """The training loop, where it is one that takes its batches from its `for` line. Raises `Blocked`."""
    loop = training_loop(source, node)
    if isinstance(loop, cst.While):
        raise Blocked(
            loop, say("the training loop is a while loop"), say("copy with non_blocking=True, from a pinned loader")
        )
    return loop


def check_unpatched(loop: Loop, names: FileNames) -> None:
    """Raise `Blocked` where the loop runs ahead already: what was left in it was left for a reason."""
    iterated = loop.iter if isinstance(loop, cst.For) else None
    called = dotted(iterated.func) if isinstance(iterated, cst.Call) else ""
    if called.rpartition(".")[2] in _ITERATES and RUNTIME in names.imports:
        raise Blocked(loop, say("the loop is patched already"), say("revert the patch first, then apply again"))


def head(loop: Loop) -> cst.BaseExpression:
    """What the loop's first line evaluates before each pass: its items, or its condition."""
    return loop.iter if isinstance(loop, cst.For) else loop.test


def scope_of(source: SourceFile, node: cst.CSTNode) -> Scope:
    """The function (or module) that owns the names used at a node. Raises `Blocked` in a class body or a lambda."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, (cst.FunctionDef, cst.Module)):
            return ancestor
        if isinstance(ancestor, (cst.ClassDef, cst.Lambda)):
            raise Blocked(node, say("it stands in a class body or a lambda"), say("move the loop into a function"))
    return source.module


def check_kept(source: SourceFile, node: cst.CSTNode, place: cst.CSTNode | None = None) -> None:
    """Raise `Blocked` at a place where the user wants to have a node as it is."""
    if source.kept_by_comment(node):
        raise Blocked(place, *KEPT)


def check_scope(scope: Scope) -> None:
    """Raise `Blocked` where names may be seen by code that cannot be followed, or the frame outlives the loop."""
    for blocked in scope_obstacles(scope):
        raise Blocked(blocked.node, blocked.obstacle, blocked.by_hand)


def check_framework(names: FileNames, reads: bool = False) -> None:
    """Raise `Blocked` in files whose loop belongs to a framework.

    Accelerate, DeepSpeed and Lightning Fabric own the copies of a loop, its devices and streams, but what the loop
    does with a loss (`reads`) is the script's own.
    """
    for name, full in names.imports.items():
        root = full.partition(".")[0]
        own = root in _LEAVE_THE_LOOP or (root in _WITH_FABRIC and _only_fabric(names, name, full))
        if root in _FRAMEWORKS and not (reads and own):
            obstacle = say("the file uses {frameworks}, which owns a part of the loop", frameworks=_FRAMEWORKS[root])
            raise Blocked(None, obstacle, say("log every N steps through the framework's own setting"))
        if full in ("transformers.Trainer", "transformers.Seq2SeqTrainer"):
            by_hand = say("set logging_steps and dataloader_pin_memory")
            raise Blocked(None, say("the loop belongs to transformers.Trainer"), by_hand)


def _only_fabric(names: FileNames, name: str, full: str) -> bool:
    """Whether a file takes nothing but Fabric and its tools from Lightning by the import of `name`."""
    if "." in full:
        return full.startswith("lightning.fabric.") or full.rpartition(".")[2] in _FABRIC
    return bool(names.members.get(name)) and names.members[name] <= _FABRIC


@lru_cache(maxsize=PARSED_FILES)
def side_work(names: FileNames, module: cst.Module) -> tuple[tuple[cst.CSTNode, str], ...]:
    """Signs in a file that work is issued elsewhere than on the current stream of the main thread, one of each kind."""
    found: dict[str, cst.CSTNode] = {}
    for node in walk(module):
        if isinstance(node, cst.Call):
            full = names.qualified(node.func)
            for words, meaning in _SIDE_WORK.items():
                if full in words:
                    found.setdefault(meaning, node)
    return tuple((node, meaning) for meaning, node in found.items())


def clock_reads(loop: Loop, names: FileNames) -> list[cst.Call]:
    """Reads of the host clock inside the loop."""
    return [n for n in walk(loop.body) if isinstance(n, cst.Call) and names.qualified(n.func) in CLOCKS | MOMENTS]


@lru_cache(maxsize=KEPT_WALKS)
def own_nodes(scope: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Everything in a function (or module) that is not in a function or class defined inside it."""
    out: list[cst.CSTNode] = []
    waiting = list(_direct(scope))[::-1]
    while waiting:
        current = waiting.pop()
        out.append(current)
        if type(current) not in (cst.FunctionDef, cst.ClassDef, cst.Lambda):
            waiting += children(current)[::-1]
    return tuple(out)


def declared(scope: Scope, kind: type[cst.Global | cst.Nonlocal]) -> frozenset[str]:
    """Names that a function declares to be those of the file, or of the function around it."""
    return frozenset(item.name.value for n in own_nodes(scope) if isinstance(n, kind) for item in n.names)


def inner_functions(scope: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The functions and classes defined directly inside."""
    return (n for n in own_nodes(scope) if isinstance(n, (cst.FunctionDef, cst.ClassDef, cst.Lambda)))


def is_rare(test: cst.BaseExpression, varying: frozenset[str]) -> bool:
    """Whether a condition is likely to hold for few batches only: `step % 100 == 0`, `step >= limit`, `save_now`."""
    if _holds_mostly(test):
        return False
    for node in walk(test):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            return not (isinstance(node.right, cst.Integer) and node.right.evaluated_value == 1)
        if isinstance(node, cst.Name) and _RARE_NAMES.search(node.value):
            return True
        if isinstance(node, cst.Comparison):
            operators = [part.operator for part in node.comparisons]
            bounds = (cst.Equal, cst.GreaterThan, cst.GreaterThanEqual)
            if isinstance(operators[0], bounds) and dotted(node.left) in varying:
                return True
    return False


def _holds_mostly(test: cst.BaseExpression) -> bool:
    """Whether a condition leaves out few batches: `i > 0`, `step >= 5`, `i % 10 != 0`."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    operator, bound = test.comparisons[0].operator, test.comparisons[0].comparator
    if isinstance(operator, cst.NotEqual):
        return isinstance(test.left, cst.BinaryOperation) and isinstance(test.left.operator, cst.Modulo)
    above = isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual)) and isinstance(test.left, cst.Name)
    return above and isinstance(bound, cst.Integer) and bound.evaluated_value <= FIRST_BATCHES


@lru_cache(maxsize=REMEMBERED)
def scope_obstacles(scope: Scope) -> tuple[Blocked, ...]:
    """What in a function can see its names, or outlives the loop."""
    out: list[Blocked] = []
    if isinstance(scope, cst.FunctionDef) and scope.asynchronous is not None:
        out.append(Blocked(scope, say("the loop is in an async function"), say("read the values every N batches")))
    for node in own_nodes(scope):
        if isinstance(node, (cst.Yield, cst.Await)):
            out.append(Blocked(node, say("the loop is in a generator"), say("read the values every N batches")))
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and _sees_all(node, scope):
            obstacle = say("`{call}()` can see every name of the function", call=node.func.value)
            out.append(Blocked(node, obstacle, say("name the values that it needs")))
    return tuple(out)


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


@lru_cache(maxsize=REMEMBERED)
def _steps(loop: Loop) -> bool:
    calls = (node.func for node in _outside_inner_loops(loop.body) if isinstance(node, cst.Call))
    attributes = (func for func in calls if isinstance(func, cst.Attribute) and func.attr.value == "step")
    return any(_STEP_OWNER.search(dotted(func.value).rpartition(".")[2]) for func in attributes)


@lru_cache(maxsize=REMEMBERED)
def _goes_back(loop: Loop) -> bool:
    return any(method_of(node) == "backward" for node in _outside_inner_loops(loop.body))


def _outside_inner_loops(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for child in children(node):
        if not isinstance(child, (cst.For, cst.While, cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            yield child
            yield from _outside_inner_loops(child)


SIDE_STREAMS = say("uses side streams")
_SIDE_WORK: dict[frozenset[str], str] = {
    frozenset({"torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream"}): SIDE_STREAMS,
    frozenset({"torch.cuda.CUDAGraph", "torch.cuda.graph", "torch.cuda.make_graphed_callables"}): say(
        "captures graphs"
    ),
    frozenset({"threading.Thread", "concurrent.futures.ThreadPoolExecutor"}): say("starts threads"),
    frozenset(
        {"torch.distributed.init_process_group", "torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel"}
    ): say("runs on several GPUs, whose communication has streams of its own"),
    frozenset({"os.fork", "torch.multiprocessing.spawn"}): say("starts processes that may share GPU memory"),
}
