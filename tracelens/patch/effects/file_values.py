"""Which values of one file hold nothing of what they are made of, or less than the text around them names.

In: a `FileText`, and expressions. Out: yes and no, the sides of a sum that it may hold, and the object that a call is
one of. Apart from file_holders.py because that only walks from one value to the next.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_calls import PLAIN
from tracelens.patch.effects.file_text import SELF, FileText, chain_of
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.words import words

_STATISTICS = words(
    "mean std var median sum min max average percentile quantile prod nanmean nansum sqrt exp log fmean stdev isnan"
    " isfinite allclose"
)
_RATES = words("lr initial_lr weight_decay momentum eps lr_scale")
_GIVE_RATES = words("get_last_lr get_lr")
_OF_NUMBERS = words("np numpy math statistics")
"""Libraries whose functions of these names give numbers."""
_SIZES = words("shape ndim dtype device")
"""What a tensor is like: numbers, and names of types."""
_ADDS = words("__add__ __radd__ __iadd__")


def holds_nothing(call: ast.Call) -> bool:
    """Whether the result of a call holds nothing of what it was made of."""
    name, root = last_name(call.func), chain_of(call.func)[-1]
    of_numbers = isinstance(root, ast.Name) and root.id in _OF_NUMBERS and name in _STATISTICS
    extreme = isinstance(call.func, ast.Name) and name in ("min", "max") and not call.keywords
    return name in PLAIN or of_numbers or extreme


class FileValues:
    """The expressions of all files."""

    def __init__(self, text: FileText) -> None:
        self.text = text

    def is_plain(self, node: ast.AST) -> bool:
        """Whether a value is a number of an optimizer, such as `optimizer.param_groups[0]["lr"]` and
        `scheduler.get_last_lr()[0]`, or one of what a tensor is like: `images.shape[0]`."""
        if isinstance(node, ast.Subscript):
            made = last_name(node.value.func) if isinstance(node.value, ast.Call) else ""
            if made in _GIVE_RATES or (isinstance(node.slice, ast.Constant) and node.slice.value in _RATES):
                return True
        asked = {one.attr for one in chain_of(node) if isinstance(one, ast.Attribute)} & _SIZES
        return bool(asked) and asked.isdisjoint({*self.text.stored, *self.text.functions})

    def pairs(self, aim: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The targets of an assignment, each with what it gets: `a, b = x, y`, and `a, b = accelerator.prepare(x, y)`,
        which gives its arguments back in their order."""
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else self._prepared(value)
        aims = aim.elts if isinstance(aim, (ast.Tuple, ast.List)) else []
        starred = any(isinstance(one, ast.Starred) for one in (*aims, *values))
        if aims and len(aims) == len(values) and not starred:
            yield from zip(aims, values, strict=True)
            return
        yield aim, value

    def _prepared(self, value: ast.expr) -> list[ast.expr]:
        """The arguments of such a call that stand in its place; none where a function of the files has the name."""
        by_name = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "prepare"
        own = "prepare" in {*self.text.functions, *self.text.stored}
        return value.args if isinstance(value, ast.Call) and by_name and not own else []

    def sides(self, node: ast.BinOp) -> tuple[ast.expr, ...]:
        """The sides of an operator of which the result may be, or hold, one: a number more than before is a new one."""
        counts = isinstance(node.op, ast.Add) and any(map(_is_number, (node.left, node.right)))
        if counts and _ADDS.isdisjoint(self.text.functions):
            return ()
        return (node.left, node.right) if isinstance(node.op, (ast.Add, ast.BitOr, ast.Mult)) else ()

    def receiver(self, called: ast.Attribute) -> ast.expr:
        """What a call is one of: in `self.model(images)` the object that `self.model` stands for, not that of the
        method around it."""
        by_self = isinstance(called.value, ast.Name) and called.value.id in SELF
        is_object = called.attr in self.text.stored and called.attr not in self.text.functions
        return called if by_self and is_object and called.attr not in self._lead_back else called.value

    @cached_property
    def _lead_back(self) -> frozenset[str]:
        """The attributes that may stand for functions of the files, or for what has the object of a method itself."""
        out: set[str] = set()
        for node in (part for tree in self.text.modules for part in syntax.walk(tree)):
            if isinstance(node, ast.Assign):
                bound = [pair for aim in node.targets for pair in self.pairs(aim, node.value)]
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
                bound = [(node.target, node.value)]
            else:
                continue
            back = [aim for aim, value in bound if self._leads_back(value)]
            out |= {part.attr for aim in back for part in syntax.walk(aim) if isinstance(part, ast.Attribute)}
        return frozenset(out)

    def _leads_back(self, value: ast.expr) -> bool:
        owners = {one.value for one in syntax.walk(value) if isinstance(one, ast.Attribute)}
        for part in syntax.walk(value):
            itself = isinstance(part, ast.Name) and part.id in SELF and part not in owners
            named = last_name(part) in self.text.functions and last_name(part) not in self.text.classes
            if itself or named or isinstance(part, ast.Lambda):
                return True
        return False


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
