"""tf32, cudnn-benchmark and matmul-precision (unsafe): settings of torch, as the script makes them or above its loop.

In: a RecipeRequest. Out: one Proposal per setting of the script that says otherwise; where it says nothing, one above
the training loop. A setting that comes from an option or below a condition is the script's own affair.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.model import Declined
from tracelens.patch.code.names import targets, walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.loop.loops import Blocked, check_kept, condition_around
from tracelens.patch.loop.project_trees import dotted
from tracelens.patch.loop.training_loops import before_training
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import rounding

_MATMUL, _CONVOLUTION = "backends.cuda.matmul.allow_tf32", "backends.cudnn.allow_tf32"
_BENCHMARK = "backends.cudnn.benchmark"
_PRECISION = "set_float32_matmul_precision"
_NEWER = "fp32_precision"
"""torch's newer settings of the same; it refuses to mix them with the older ones."""
TF32 = say(
    "products of float32 numbers, and convolutions, are rounded to the 10 bits of TF32 before they are summed up"
)
BENCHMARK = say(
    "cuDNN takes the fastest of its kernels for each shape: they sum in another order, which may differ from run to run"
)
USUAL_PRECISION = "high"


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a lever sets, by names below `torch`. `first` is written where the script says nothing; the others are so by
    default, and are changed where the script says otherwise."""

    first: str
    others: tuple[str, ...]
    reason: str
    choice: str = ""
    """The word that is set by a call; empty for a setting that is True or False."""

    @property
    def text(self) -> str:
        return f'{self.first}("{self.choice}")' if self.choice else f"{self.first} = True"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.first, *self.others)


def propose(request: RecipeRequest) -> RecipeAnswer:
    setting = _setting(request)
    proposals: list[Proposal] = []
    declined: list[Declined] = []
    own = list(_own(request, setting))
    for node, value in own:
        try:
            proposals += _changed(request, setting, node, value)
        except Blocked as blocked:
            declined.append(request.decline(node, blocked))
    if not own:
        try:
            proposals += _written(request, setting)
        except Blocked as blocked:
            declined.append(request.decline(blocked.node, blocked))
    return rounding.answer(request, proposals, declined)


def _setting(request: RecipeRequest) -> _Setting:
    if request.edit.kind == "tf32":
        return _Setting(_MATMUL, (_CONVOLUTION,), TF32)
    if request.edit.kind == "cudnn-benchmark":
        return _Setting(_BENCHMARK, (), BENCHMARK)
    choice = request.edit.choice or USUAL_PRECISION
    reason = say(
        "products of float32 numbers are rounded as `{choice}` allows before they are summed up", choice=choice
    )
    return _Setting(_PRECISION, (), reason, choice)


def _own(request: RecipeRequest, setting: _Setting) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Where this file makes the setting itself, and the value that it gives."""
    known = {f"torch.{name}" for name in setting.names}
    for node in walk(request.source.module):
        if isinstance(node, cst.Assign) and not setting.choice:
            if any(request.names.qualified(target) in known for target in targets(node)):
                yield node, node.value
        elif isinstance(node, cst.Call) and setting.choice and request.names.qualified(node.func) in known:
            yield node, node.args[0].value if node.args else node


def _changed(
    request: RecipeRequest, setting: _Setting, node: cst.CSTNode, value: cst.BaseExpression
) -> Iterator[Proposal]:
    """The script's own setting with the other value; raises `Blocked` where that is decided elsewhere."""
    source, wanted = request.source, f'"{setting.choice}"' if setting.choice else "True"
    code = source.code(value)
    if code.strip("'\"") == wanted.strip('"'):
        return
    check_kept(source, node, node)
    literal = isinstance(value, cst.SimpleString) if setting.choice else code == "False"
    if not literal:
        obstacle = say("it comes from `{code}`", code=code)
        raise Blocked(node, obstacle, say("start the script so that it is `{wanted}`", wanted=wanted.strip('"')))
    condition = condition_around(source, node, "__name__", "is_available")
    if condition:
        obstacle = say("it is set below `{condition}`", condition=condition)
        raise Blocked(node, obstacle, say("start the script so that this does not hold, or set it there"))
    yield rounding.proposal(request, source.line(node), setting.reason, [Splice(*source.outer_span(value), wanted)])


def _written(request: RecipeRequest, setting: _Setting) -> Iterator[Proposal]:
    """A line above the training loop, where that is in this file and no file of the project makes the setting."""
    source = request.source
    statement = before_training(source)
    if statement is None or _made_elsewhere(source, setting):
        return
    torch = rounding.name_of_torch(request.names)
    if not torch or not rounding.has_line_of_its_own(source, statement):
        by_hand = say("write torch.{text} before the loop", text=setting.text)
        raise Blocked(None, say("this file has no place or no name for torch above its loop"), by_hand)
    text = f"{torch}.{setting.text}"
    imports = isinstance(statement, ast.Import | ast.ImportFrom)
    splice = (rounding.line_after if imports else rounding.line_before)(
        source, statement, f"\n{text}" if imports else text
    )
    yield rounding.proposal(request, statement.lineno, setting.reason, [splice])


def _made_elsewhere(source: SourceFile, setting: _Setting) -> bool:
    """Whether another file of the project makes the setting, or this one does it by torch's newer names: then that
    place is the one to change."""
    last_parts = {".".join(name.split(".")[-2:]) for name in setting.names}
    for path, tree in source.trees.items():
        for node in syntax.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if node.attr == _NEWER:
                    text = say("set {name} there", name=_NEWER)
                    raise Blocked(None, say("{path} sets {name}", path=path.name, name=dotted(node)), text)
                if path != source.path and ".".join(dotted(node).split(".")[-2:]) in last_parts:
                    return True
            if (
                isinstance(node, ast.Call)
                and setting.choice
                and path != source.path
                and last_name(node.func) == _PRECISION
            ):
                return True
    return False
