"""Which pieces of a file write lines that people see, told by the names of what they call; and their texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from tracelens.patch.effects import syntax
from tracelens.patch.effects.deeds import comes_again, is_warning
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import FUNCTIONS
from tracelens.patch.effects.words import words

_PRINTERS = words("print pprint display")
_LOGS = words("debug info warning warn error exception critical log msg")
_LOGGERS = words("logger log logging _logger LOGGER LOG tqdm stdout stderr")
_OF_LOGGERS = _LOGS | {"write", "writelines"}
SETS_BAR_TEXT = words("set_postfix set_postfix_str set_description set_description_str")
"""What sets the text of a bar, and does nothing else: a plan itself looks after it."""
_OTHER_PRINTERS = re.compile(
    r"print|^(write|writelines|echo|download|summary|system|export|getpass|redirect_std\w+|check_call|show)$"
)

_GENERATORS = words("random rng generator")
_DRAWS = words(
    "rand randn randint randperm rand_like randn_like bernoulli bernoulli_ multinomial uniform_ normal_ random_"
    " exponential_ cauchy_ geometric_ log_normal_ shuffle permutation dropout"
)


def writes_lines(piece: ast.AST) -> bool:
    """Whether a piece writes lines each time it runs; of a function, what stands below a condition does not count,
    nor do warnings, which are shown once."""
    waiting: list[ast.AST] = [piece]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and prints(node) and not (isinstance(piece, FUNCTIONS) and is_warning(node)):
            return True
        below = isinstance(piece, FUNCTIONS) and isinstance(node, (ast.If, ast.ExceptHandler)) and not comes_again(node)
        waiting += [] if below else syntax.children(node)
    return False


def calls_in(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    return [part for node in nodes for part in syntax.walk(node) if isinstance(part, ast.Call)]


def prints(call: ast.Call) -> bool:
    """Whether a call writes lines that people see."""
    name, owner = last_name(call.func), owner_of(call.func)
    if isinstance(call.func, ast.Name):
        return name in _PRINTERS or bool(_OTHER_PRINTERS.search(name))
    return (
        (owner in _LOGGERS and name in _OF_LOGGERS)
        or bool(_OTHER_PRINTERS.search(name))
        or owner in ("subprocess", "ElementTree", "warnings")
    )


def draws(call: ast.Call) -> bool:
    """Whether a call draws random numbers, by its name or that of its owner."""
    return owner_of(call.func) in _GENERATORS or last_name(call.func) in _DRAWS


def owner_of(called: ast.expr) -> str:
    """The last name before the method: `random` of `np.random.rand`."""
    return last_name(called.value) if isinstance(called, ast.Attribute) else ""


def shown_text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
