"""Pieces of a loop that leave no doubt that a statement may not run later, by the names that they use.

In: nodes. Out: yes or no. A block that says how values are shown or where lines go is over when the statement runs; a
function that ends the process at once runs nothing of what waits, and no handler and no `finally` either; a logger that
is switched off drops the lines that come then; what a function keeps is seen without a call of it.
"""

from __future__ import annotations

import ast

from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.words import words

READS = words("item tolist")
"""Methods of tensors that give numbers; a class of the project may have its own under these names."""
_SHOWN_WITHIN = words("printoptions option_context localcontext redirect_stdout redirect_stderr")
_KEEPS_QUIET = words("disabled propagate level handlers filters")
_OF_FUNCTIONS = words("__defaults__ __kwdefaults__ __closure__ __globals__ __code__")
_ENDS = words("_exit abort execv execve execvp execvpe execl execle execlp execlpe")


def says_how_shown(block: ast.AST) -> bool:
    """Whether a block sets how numbers are written, or where lines go: `with np.printoptions(precision=3)`."""
    items = block.items if isinstance(block, (ast.With, ast.AsyncWith)) else ()
    calls = (one.context_expr for one in items if isinstance(one.context_expr, ast.Call))
    return any(last_name(one.func) in _SHOWN_WITHIN for one in calls)


def switches_logger(node: ast.AST) -> bool:
    """Whether a node sets which lines a logger writes, as its method `setLevel` does: `logger.disabled = True`."""
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in _KEEPS_QUIET


def looks_into_function(node: ast.AST) -> bool:
    """Whether a node takes what a function keeps: `record.__defaults__`."""
    return isinstance(node, ast.Attribute) and node.attr in _OF_FUNCTIONS


def ends_process(node: ast.AST) -> bool:
    """Whether a call ends the process, or puts another program in its place, before anything else can run."""
    called = node.func if isinstance(node, ast.Call) else None
    owner = called.value if isinstance(called, ast.Attribute) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _ENDS and (name == "_exit" or (isinstance(owner, ast.Name) and owner.id == "os"))
