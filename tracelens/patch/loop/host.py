"""What a call does, as far as its name and this file tell: collects a value, takes part in training, computes only.

In: calls and the file's functions. Out: patterns of names, and yes or no. A name that could mean both trains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import WHOLE_SELF, FileNames, dotted, method_of, root_key, walk
from tracelens.patch.code.outside import EVERYTHING
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop import moments
from tracelens.patch.loop.doubts import doubt, met_behind
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import Blocked

TRAINS = words(
    "step backward zero_grad train eval cuda to load_state_dict forward all_reduce reduce broadcast unscale_ scale"
    " synchronize synchronize_between_processes sample parameters set_epoch stop act select_action sync"
)
TRAINERS = re.compile(r"model|(^|_)net($|_|[gd]\d*$)|optim|sched|scaler|sampler|dist$|agent|env$|policy", re.IGNORECASE)
COLLECTS = re.compile(
    "append|appendleft|extend|add|update|add_scalars?|add_text|add_value|write|writerow|writelines|insert|push|put"
    r"|set_(postfix|description)(_str)?|log(_\w+)?|\w+_log|record(_\w+)?|track|report_scalar|scalar_summary|accumulate"
    "|observe|info|debug|warning|error|print|display|plot|line|update_dict|setdefault"
)
"""Methods that take a value and give none back to the training: of lists, meters, loggers, files, progress bars."""
SPEAKS_OF_LOGS = re.compile(
    "log(?!it|in)|report|flush|print|show|display|progress|summar|metric|monitor|plot|track|record"
)
"""TextColumn in the name of a function that may do no more than that, though nothing says so."""


_ASKS_RANK = words(
    "os.environ.get os.getenv torch.distributed.get_rank torch.distributed.get_world_size"
    " torch.distributed.is_initialized torch.distributed.is_available"
)
"""What helpers that print on one rank ask: the same in every batch."""
_TENSOR_TO_TENSOR = words("detach clone data cpu cuda to float double half mean sum abs max min argmax view squeeze")
_SAME_AGAIN = words(
    "size numel dim detach clone float double half long int bool mean sum max min abs argmax item tolist cpu data"
    " squeeze view flatten norm pow sqrt exp format strip upper lower keys values items get_lr get_last_lr get_scale"
)
"""Methods that give the same value when they are called twice in a row, and change nothing."""
_LOGGING = words("debug info warning warn error critical fatal exception log")
_NAMES_THE_LINE = re.compile(r"(?<![.\w])(lineno|funcName)\b|record\.(lineno|funcName)\b|\{(line|function)\b")
"""In a format of any style, also one that is put together, or in a formatter of the project."""


def check_behind(call: cst.Call, facts: LoopFacts) -> None:
    """Raise `Blocked` where what is called is bound to its moment, or moves random draws."""
    moments.check(call, facts)
    behind = facts.behind(call)
    if behind.draws:
        drawn = say("`{call}(…)` draws random numbers", call=dotted(call.func))
        met_behind(facts, Blocked(call, drawn, say("call it every N batches")))
    if EVERYTHING in behind.seen or behind.seen & WHOLE_SELF:
        blocked = Blocked(
            call, say("`{call}(…)` may look at anything", call=dotted(call.func)), say("call it every N batches")
        )
        if EVERYTHING in behind.seen:  # `globals()` stands there in its own words
            raise blocked
        doubt(facts, blocked.suspected())


def check_no_tensor(node: cst.BaseExpression, tensors: frozenset[str]) -> None:
    """Keeping a tensor for later would keep its graph, and the loop could change it: only its numbers are kept."""
    chain, stays_tensor = node, True
    while isinstance(chain, (cst.Call, cst.Attribute)):
        if isinstance(chain, cst.Attribute):
            stays_tensor = chain.attr.value in _TENSOR_TO_TENSOR
        chain = chain.func if isinstance(chain, cst.Call) else chain.value
    if isinstance(chain, cst.Name) and chain.value in tensors and stays_tensor:
        obstacle = say("it uses the tensor `{chain}` itself, not its value", chain=chain.value)
        raise Blocked(node, obstacle, say("use `{chain}.item()`, or do this every N batches", chain=chain.value))


def repeats(node: cst.CSTNode, facts: LoopFacts) -> bool:
    """Whether an expression has the same value when it is evaluated twice in a row: one capture is then enough."""
    return not any(True for _ in _calls(node, facts))


def is_loud(node: cst.CSTNode, facts: LoopFacts) -> bool:
    """Whether to evaluate an expression may change other values: `queue.pop()`, not `time.time()`."""
    names = facts.names
    return any(not names.is_library(dotted(func).partition(".")[0]) for func in _calls(node, facts))


def is_counter(node: cst.CSTNode, facts: LoopFacts) -> bool:
    """A number that no call can change."""
    return isinstance(node, cst.Name) and node.value in facts.numbers - facts.changed_inside


def _calls(node: cst.CSTNode, facts: LoopFacts) -> Iterator[cst.BaseExpression]:
    """What is called in an expression, without what certainly changes nothing."""
    names = facts.names
    for part in walk(node):
        if isinstance(part, cst.Call):
            method = method_of(part)
            if not is_pure(names.qualified(part.func)) and (method not in _SAME_AGAIN or method in names.functions):
                yield part.func
        elif isinstance(part, cst.Attribute) and facts.behind(part).changed:
            yield part


def names_its_line(call: cst.Call, source: SourceFile) -> bool:
    """Whether a logger writes down the line or the function that calls it, which would be another one."""
    names = source.names
    root = dotted(call.func).partition(".")[0]
    if names.imports.get(root, "").startswith("loguru"):
        return True
    method = method_of(call)
    return method in _LOGGING and bool(_NAMES_THE_LINE.search(source.project_text))


def host_only(name: str, names: FileNames) -> bool:
    """Whether a function of this file computes with its arguments only: no torch, clock, chance or global."""
    definitions = names.functions.get(name, ())
    return bool(definitions) and all(_harmless(definition, frozenset({name}), names) for definition in definitions)


def opens_file(node: cst.CSTNode) -> bool:
    """Whether a block is `with open(…) as file:` around plain statements."""
    if not isinstance(node, cst.With) or node.asynchronous is not None:
        return False
    calls = [item.item for item in node.items]
    if not all(isinstance(call, cst.Call) and dotted(call.func) == "open" for call in calls):
        return False
    return all(isinstance(statement, cst.SimpleStatementLine) for statement in node.body.body)


def _harmless(node: cst.FunctionDef, seen: frozenset[str], names: FileNames) -> bool:
    for part in walk(node.body):
        if isinstance(part, (cst.Global, cst.Nonlocal, cst.Yield, cst.Await, cst.Import, cst.ImportFrom)):
            return False
        if isinstance(part, cst.Call):
            full = names.qualified(part.func)
            known = is_pure(full) or full == "print" or full in _ASKS_RANK
            method = isinstance(part.func, cst.Attribute) and (root_key(part.func.value) or "") not in names.imports
            inner = names.functions.get(full, ()) if full not in seen else ()
            deeper = bool(inner) and all(_harmless(one, seen | {full}, names) for one in inner)
            if not (known or method or deeper or full in seen):
                return False
    return True
