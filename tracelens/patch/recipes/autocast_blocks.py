"""bf16-autocast (unsafe): forward pass and loss stand in a `with torch.autocast(…, dtype=torch.bfloat16):` block.

In: a RecipeRequest. Out: one Proposal per call of backward whose forward pass is known. Never around backward, a step
or the clearing of gradients; what only reads results before or after it stays outside. A script that has a precision of
its own is left as it is.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence

from tracelens.messages import say
from tracelens.model import Declined
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.loop.device_names import device_type
from tracelens.patch.loop.forward_pass import (
    ForwardPass,
    Unclear,
    backward_calls,
    forward_passes,
    sections,
    spans_lines,
)
from tracelens.patch.loop.loops import KEPT, Blocked, check_framework
from tracelens.patch.loop.project_trees import above, dotted, is_started, own_tree
from tracelens.patch.loop.training_loops import function_around
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import rounding

REASON = say(
    "products and convolutions of the forward pass and the loss are rounded to the 8 bits of bfloat16; weights, "
    "gradients and the optimizer stay in float32"
)
BY_HAND = say('put forward and loss below `with torch.autocast("cuda", dtype=torch.bfloat16):`')
_OWN_PRECISION = frozenset({"autocast", "GradScaler", "set_default_dtype", "custom_fwd"})
_CASTS = frozenset({"half", "bfloat16"})
_REFUSED = frozenset({"BCELoss", "binary_cross_entropy"})
"""Losses that torch refuses to compute under autocast, because they lose too much in half precision."""
_OTHER_TYPES = frozenset({"float", "double", "long", "int", "argmax", "argmin", "argsort", "item", "bool", "type"})
"""Methods after which a result is no bfloat16 any more."""
_ORDER = 5
"""The line of the block stands below others that are written at the same place."""


def propose(request: RecipeRequest) -> RecipeAnswer:
    obstacle = _own_precision(request) or _of_framework(request)
    if obstacle is not None:
        return rounding.answer(request, (), [obstacle])
    proposals: list[Proposal] = []
    declined: list[Declined] = []
    for found in _by_function(request.source).values():
        unclear = [one for one in found if isinstance(one, Unclear)]
        declined += [rounding.declined(request, one.line, one.obstacle, one.by_hand) for one in unclear]
        passes = [one for one in found if isinstance(one, ForwardPass)]
        if unclear:  # half of a batch in another precision is nobody's wish
            continue
        try:
            proposals.append(_proposed(request, passes))
        except Blocked as blocked:
            line = passes[0].statements[0].lineno
            declined.append(rounding.declined(request, line, blocked.obstacle, blocked.by_hand))
    if not (proposals or declined) and is_started(request.source) and not _goes_back(request.source):
        declined.append(rounding.declined(request, None, say("no file of this project calls backward"), BY_HAND))
    return rounding.answer(request, proposals, declined)


def _by_function(source: SourceFile) -> dict[int, list[ForwardPass | Unclear]]:
    """What is known of each call of backward, those of one function together."""
    tree, out = own_tree(source), dict[int, list[ForwardPass | Unclear]]()
    calls = sorted(backward_calls(tree), key=lambda call: (call.lineno, call.col_offset))
    for call, found in zip(calls, forward_passes(source), strict=True):
        out.setdefault(id(function_around(tree, call)), []).append(found)
    return out


def _own_precision(request: RecipeRequest) -> Declined | None:
    """The first place of the project that decides about precision itself, or for which autocast is not made."""
    source = request.source
    for path, tree in source.trees.items():
        for node in syntax.walk(tree):
            if not isinstance(node, ast.Name | ast.Attribute | ast.Call) or not (why := _obstacle(node)):
                continue
            place = say("{path}:{line}", path=path.relative_to(source.root).as_posix(), line=node.lineno)
            line = node.lineno if path == source.path else None
            return rounding.declined(request, line, say("{place} {why}", place=place, why=why), BY_HAND)
    return None


def _obstacle(node: ast.Name | ast.Attribute | ast.Call) -> str:
    """Why a project with this cannot have autocast around it; "" for everything else."""
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    if isinstance(node, ast.Call) and dotted(node.func).endswith("autograd.grad"):
        return say("takes gradients in the forward pass")
    if name == "LBFGS":
        return say("makes an LBFGS, which calls the forward pass itself")
    if name in _REFUSED:
        return say("has a {loss}, which torch does not compute under autocast: take the one with logits", loss=name)
    own = name in _OWN_PRECISION or (isinstance(node, ast.Call) and name in _CASTS)
    return say("has a precision of its own") if own else ""


def _of_framework(request: RecipeRequest) -> Declined | None:
    try:
        check_framework(request.names)
    except Blocked as blocked:
        by_hand = say('set the precision of the framework, such as mixed_precision="bf16"')
        return rounding.declined(request, None, blocked.obstacle, by_hand)
    return None


def _goes_back(source: SourceFile) -> bool:
    trees = source.trees.values()
    return any(
        isinstance(node, ast.Attribute) and node.attr == "backward" for tree in trees for node in syntax.walk(tree)
    )


def _proposed(request: RecipeRequest, passes: Sequence[ForwardPass]) -> Proposal:
    """The blocks of one function; raises `Blocked`."""
    source = request.source
    for one in passes:
        _check(source, one)
    torch, device = rounding.name_of_torch(request.names), device_type(source, passes[0])
    if not torch or not device:
        obstacle = say("on which device the forward pass runs, or what the file calls torch, cannot be told")
        raise Blocked(None, obstacle, BY_HAND)
    head = f"with {torch}.autocast({device}, dtype={torch}.bfloat16):"
    found = sections(passes)
    splices = [splice for section in found for splice in _indented(source, section, head)]
    return rounding.proposal(request, found[0][0].lineno, REASON, splices)


def _check(source: SourceFile, found: ForwardPass) -> None:
    """Raise `Blocked` where the statements cannot stand in a block of their own."""
    tree = own_tree(source)
    for statement in found.statements:
        if not rounding.has_line_of_its_own(source, statement):
            raise Blocked(None, say("its statements share lines with others"), BY_HAND)
        first, last = spans_lines([statement])
        if any("tracelens: keep" in source.line_text(line) for line in range(max(1, first - 1), last + 1)):
            raise Blocked(None, *KEPT)
    function = next((one for one in above(tree, found.backward) if isinstance(one, ast.FunctionDef)), None)
    if function is not None and function.name == "closure":
        raise Blocked(None, say("the optimizer calls the forward pass itself"), BY_HAND)
    array = next(_arrays(function or tree, found), None)
    if array is not None:
        obstacle = say("line {line} makes an array of a result, and NumPy has no bfloat16", line=array.lineno)
        raise Blocked(None, obstacle, say("take .float() of it before .numpy()"))


def _arrays(scope: ast.AST, found: ForwardPass) -> Iterator[ast.Call]:
    """Calls of `numpy` of what the forward pass binds, as it is: not of the loss, which torch keeps in float32."""
    loss = {node.id for node in syntax.walk(found.backward) if isinstance(node, ast.Name)}
    parts = [part for one in found.statements for part in syntax.walk(one)]
    bound = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)} - loss
    for node in syntax.walk(scope):
        if isinstance(node, ast.Call) and last_name(node.func) == "numpy":
            names = {part.id for part in syntax.walk(node.func) if isinstance(part, ast.Name)}
            methods = {part.attr for part in syntax.walk(node.func) if isinstance(part, ast.Attribute)}
            if names & bound and not methods & _OTHER_TYPES:
                yield node


def _indented(source: SourceFile, section: tuple[ast.stmt, ...], head: str) -> Iterator[Splice]:
    """The statements one step further in, below the line of the block; texts over several lines stay as they are."""
    first, last = spans_lines(section)
    indent = rounding.indentation(source, first)
    unit = source.module.default_indent
    inside = _lines_inside_texts(source.text)
    start = source.line_start(first)
    yield Splice(start, start, f"{indent}{head}\n{unit}", _ORDER)
    for line in range(first + 1, last + 1):
        if line not in inside and source.line_text(line).strip():
            yield Splice(source.line_start(line), source.line_start(line), unit)


def _lines_inside_texts(text: str) -> frozenset[int]:
    """Lines that begin inside a string."""
    out: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
            out |= set(range(token.start[0] + 1, token.end[0] + 1))
    return frozenset(out)
