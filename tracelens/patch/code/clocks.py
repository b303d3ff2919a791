"""Where a function looks at a clock or meets other ranks, so that it must run when it does and not later.

In: a function by Python's own parser, and what the imported names of its file mean. Out: what binds it to its moment.
Ranks reach the end of N batches at different times, and must meet in one order. Of clocks those count whose time is
computed with. A time that only stands on a line (`time.strftime`, `datetime.now().isoformat()`) is the moment at
which the line is written, and may be later as the line itself is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tracelens.messages import say
from tracelens.patch.code.elsewhere import full_name
from tracelens.patch.code.outside import words

LOOKS = say("looks at a clock")
MAY_LOOK = say("may look at a clock")
MEETS = say("waits for other ranks")

CLOCKS = words(
    "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns time.process_time"
    " time.process_time_ns time.thread_time time.thread_time_ns timeit.default_timer"
)
MOMENTS = words("datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today pandas.Timestamp.now")
_EVENTS = words("torch.cuda.Event torch.Event torch.cuda.stream.Event")
_TELLS = words("time.strftime time.ctime time.asctime time.localtime time.gmtime datetime.datetime.fromtimestamp")
"""What makes text or a date of a time: the clock that is read for it stands on a line only."""
_SHOWS = words("strftime isoformat ctime date time timetuple")
"""Methods of a date that make text of it, or what nobody measures with."""
_SPEAKS = words(
    "timer timers timing stopwatch clock speed speedometer throughput perf lap laps fps ips eta ticker ticktock"
)
_TIMES = words("tic toc lap start_timer stop_timer elapsed_time")
"""Methods that say the same."""
_MEETS = words("all_reduce allreduce all_gather allgather all_gather_object reduce_scatter barrier")
_MEETS_IN_TORCH = words("reduce broadcast gather scatter all_to_all broadcast_object_list monitored_barrier send recv")
_LASTS = words("elapsed")
"""What an attribute says that is computed from a clock when it is asked for: `bar.elapsed_td`."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def speaks_of_time(name: str, of_class: bool = False) -> bool:
    """Whether a name such as `SpeedMeter` or `train_timer` says that there is a clock behind it."""
    parts = {part.lower() for part in _WORDS.findall(name)}
    return bool(parts & _SPEAKS) or (of_class and "time" in parts)


def lasts(attribute: str) -> bool:
    """Whether an attribute of an object that nobody can see is as long as something has taken until now."""
    return bool({part.lower() for part in _WORDS.findall(attribute)} & _LASTS)


def takes_time(method: str) -> bool:
    return method in _TIMES


def bound(function: ast.AST, imports: Mapping[str, str]) -> str:
    """What a function does in its own text that must not happen later, in words; "" where there is nothing."""
    if any(_meets(node, imports) for node in ast.walk(function)):
        return MEETS
    return LOOKS if _looks(function, imports) else ""


def _looks(function: ast.AST, imports: Mapping[str, str]) -> bool:
    """Whether the text of a function reads a clock and does more with the time than to write it down."""
    told = {id(part) for node in ast.walk(function) if _tells(node, imports) for part in ast.walk(node)}
    moments = frozenset(name for node in ast.walk(function) for name in _named_moments(node, imports))
    for node in ast.walk(function):
        if id(node) in told:
            continue
        if isinstance(node, (ast.Name, ast.Attribute)) and full_name(node, imports) in CLOCKS | _EVENTS:
            return True
        if isinstance(node, ast.Call) and _of_an_event(node):
            return True
        if any(_is_moment(part, imports, moments) for part in _computed_with(node)):
            return True
    return False


def _meets(node: ast.AST, imports: Mapping[str, str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    full, name = full_name(node.func, imports), node.func.attr if isinstance(node.func, ast.Attribute) else ""
    in_torch = full.startswith("torch.distributed.") and full.rpartition(".")[2] in _MEETS_IN_TORCH | _MEETS
    return in_torch or name in _MEETS


def _tells(node: ast.AST, imports: Mapping[str, str]) -> bool:
    return isinstance(node, ast.Call) and full_name(node.func, imports) in _TELLS


def _named_moments(node: ast.AST, imports: Mapping[str, str]) -> Iterator[str]:
    """`now` of `now = datetime.now()`."""
    if isinstance(node, ast.Assign) and _is_moment(node.value, imports, frozenset()):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _of_an_event(call: ast.Call) -> bool:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return method == "elapsed_time" or (method == "record" and not call.args and not call.keywords)


def _computed_with(node: ast.AST) -> Iterator[ast.expr | None]:
    """The parts of a node that it does more with than to show them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.Add)):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, (ast.Return, ast.Assign, ast.AugAssign, ast.Attribute)):
        named = isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)
        shown = isinstance(node, ast.Attribute) and node.attr in _SHOWS
        if not named and not shown:
            yield node.value


def _is_moment(node: ast.expr | None, imports: Mapping[str, str], names: frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Call) and full_name(node.func, imports) in MOMENTS
