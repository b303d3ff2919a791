"""Files that may be the screen: what is written into one of them is a line among those that the script prints.

In: what a library's function was given. Out: whether the screen is among it, or an object that was made to write there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from tracelens.patch.effects.dispatch import Here
from tracelens.patch.effects.memory import PLAIN, Memory, Unit
from tracelens.patch.effects.objects import Name, Object, Thing

_ON_SCREEN = "<on screen>"
"""Marks what was made with the screen: `csv.writer(sys.stdout)`."""
_VERBOSE = "<verbose>"
"""Marks what was told to say what it does: `StepLR(optimizer, 3, verbose=True)`."""
_SCREENS = re.compile(r"sys\.(__)?std(out|err)\b")
_FILES = re.compile("/dev/|CON")
"""Paths by which the screen can be opened."""


def is_screen(one: Object, memory: Memory, unit: Unit) -> bool:
    """Whether an object is the screen, or writes to it."""
    if isinstance(one, Name):
        return bool(_SCREENS.match(one.full)) or (one.receiver is not None and is_screen(one.receiver, memory, unit))
    return isinstance(one, Thing) and (one.kind == "screen" or bool(memory.read(one, _ON_SCREEN, unit)))


def is_any_screen(objects: Iterable[Object], memory: Memory, unit: Unit) -> bool:
    """Whether one of the objects is."""
    return any(is_screen(one, memory, unit) for one in objects)


def put_on_screen(made: Thing, memory: Memory) -> None:
    """Let an object be one that writes to the screen."""
    memory.write(made, _ON_SCREEN, {PLAIN})


def note_made(made: Thing, given: Iterable[Object], here: Here, memory: Memory) -> None:
    """Let an object write to the screen where it is given it, and its methods write lines where the call says so."""
    if is_any_screen(given, memory, here.unit):
        put_on_screen(made, memory)
    if is_verbose(here.node):
        memory.write(made, _VERBOSE, {PLAIN})


def speaks(one: Object | None, memory: Memory, unit: Unit) -> bool:
    """Whether the methods of an object write lines because it was told to."""
    return isinstance(one, Thing) and bool(memory.read(one, _VERBOSE, unit))


def is_verbose(call: ast.AST) -> bool:
    """Whether a call is told to say what it does, or may be: `verbose=args.verbose`."""
    words = call.keywords if isinstance(call, ast.Call) else ()
    told = (one.value for one in words if one.arg == "verbose")
    return any(not isinstance(one, ast.Constant) or bool(one.value) for one in told)


def opens_screen(call: ast.AST) -> bool:
    """Whether `open` is given the screen's path, or a number: 1 is the screen."""
    path = next(iter(call.args), None) if isinstance(call, ast.Call) else None
    if isinstance(path, ast.Constant):
        return isinstance(path.value, int) or (isinstance(path.value, str) and bool(_FILES.match(path.value)))
    method = path.func if isinstance(path, ast.Call) else None
    return isinstance(method, ast.Attribute) and method.attr == "fileno"
