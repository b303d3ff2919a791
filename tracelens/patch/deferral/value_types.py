"""What a value of a loop certainly is: a tensor, a tensor without dimensions, a number.

In: an expression and the facts of its loop. Out: yes, or not known. The runtime looks at each value while the script
runs; lines of plain PyTorch cannot, so that only values whose type the text shows may wait in them.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import KEPT_WALKS, rebound, targets, walk
from tracelens.patch.code.outside import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import own_nodes

_ONLY_TENSORS = words(
    "backward detach requires_grad_ requires_grad grad_fn cuda cpu eq ne ge gt le lt view_as expand_as topk double long"
    " unsqueeze softmax log_softmax sigmoid mul_ add_ div_ clamp_ is_cuda device pow abs exp log sqrt tanh relu permute"
    " contiguous gather masked_fill half bfloat16"
)
"""Methods and attributes of tensors that arrays, numbers and lists do not have."""
_TO_NUMBER = words("mean sum")
"""Methods that give a tensor without dimensions when they are called without arguments."""
_OF_MODULES = ("torch.nn.functional.",)
TENSOR_FUNCTIONS = ("torch.nn.functional.", "torch.")
_NO_TENSORS = (
    "torch.cuda.",
    "torch.utils.",
    "torch.optim.",
    "torch.device",
    "torch.no_grad",
    "torch.get_",
    "torch.is_",
    "torch.load",
    "torch.distributed.",
    "torch.backends.",
    "torch.equal",
    "torch.allclose",
    "torch.numel",
    "torch.finfo",
    "torch.iinfo",
    "torch.Size",
    "torch.Generator",
    "torch.manual_seed",
)
_ARRAYS = ("numpy.", "scipy.", "sklearn.", "pandas.", "cv2.")
_COUNTS = words("len int float round")
_REAL = words("eq ne gt ge lt le float double half bfloat16 long abs norm argmax")
_TO_HOST = words("item tolist numpy")
_SIZES = words("size numel dim item")
_TO_NO_TENSOR = _TO_HOST | words(
    "size numel nelement dim ndimension stride element_size data_ptr get_device equal allclose storage_offset"
    " is_contiguous is_floating_point is_complex is_pinned is_shared untyped_storage"
)
"""Methods of a tensor that return something else."""
_OF_FUNCTIONS, _OF_CLASSES = 2, 1
"""Arguments by their place among which there is no `reduction`: `F.mse_loss(out, y)`, `nn.CrossEntropyLoss(weight)`."""
_REDUCTION = re.compile(r"\.reduc(e|tion)\s*=(?!=)|[\"']reduc(e|tion)[\"']")
"""How a loss is told otherwise where its call does not show it."""
_BINDING = (
    *(cst.Assign, cst.AugAssign, cst.AnnAssign, cst.For, cst.With, cst.Import, cst.ImportFrom, cst.Del),
    *(cst.NamedExpr, cst.ExceptHandler),
)
_Names = frozenset[str]
"""Names whose assignments are being followed: one that leads back to itself adds nothing."""
_Question = Callable[[cst.BaseExpression, LoopFacts, _Names], bool]


def is_tensor(node: cst.BaseExpression, facts: LoopFacts, seen: _Names = frozenset()) -> bool:
    """Whether a value is a tensor for certain."""
    if isinstance(node, cst.Name):
        if is_on_host(node, facts):
            return False
        return node.value in _used_as_tensors(facts) or _all_bindings(node.value, facts, seen, is_tensor)
    if isinstance(node, cst.Call):
        return _returns_tensor(node, facts, seen)
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        part = isinstance(node, cst.Subscript) or node.attr.value == "data"
        return part and is_tensor(node.value, facts, seen)
    return any(is_tensor(part, facts, seen) for part in _operands(node))


def is_on_host(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is, at least at times, a number, a list or an array: `loss = loss.item()`, `total = 0`."""
    if isinstance(node, cst.Name):
        values = [value for value in values_of(node.value, facts) if value is not None]
        return any(not isinstance(value, cst.Name) and is_on_host(value, facts) for value in values)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        full = facts.names.qualified(node.func)
        own = node.func.attr.value in _TO_HOST or full.startswith(_ARRAYS) or is_number(node, facts)
        return own or _gives_arrays(node.func.attr.value, facts)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and _gives_arrays(node.func.value, facts):
        return True
    return isinstance(node, (cst.BaseNumber, cst.List, cst.ListComp, cst.Dict)) or is_number(node, facts)


def _gives_arrays(function: str, facts: LoopFacts) -> bool:
    """Whether functions of the project of that name return what comes of a method that gives an array."""
    return any(map(_returns_array, facts.source.project_functions.get(function, ())))


@lru_cache(maxsize=KEPT_WALKS)
def _returns_array(function: ast.FunctionDef) -> bool:
    nodes = tuple(ast.walk(function))
    arrays: set[str] = set()
    for _ in range(2):  # a name of an array may be made of another one
        for node in nodes:
            if isinstance(node, ast.Assign) and _has_array(node.value, arrays):
                arrays |= {
                    part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)
                }
    returned = (node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None)
    return any(_has_array(value, arrays) for value in returned)


def _has_array(value: ast.expr, arrays: set[str]) -> bool:
    return any(getattr(part, "attr", "") == "numpy" or getattr(part, "id", "") in arrays for part in ast.walk(value))


def is_of_host(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is a part of what is on the host, or comes of its methods: `np.abs(a).max()`."""
    while isinstance(node, (cst.Attribute, cst.Call, cst.Subscript)) and not is_on_host(node, facts):
        node = node.func if isinstance(node, cst.Call) else node.value
    return is_on_host(node, facts)


def _last(function: cst.BaseExpression) -> str:
    return function.attr.value if isinstance(function, cst.Attribute) else ""


def _returns_tensor(call: cst.Call, facts: LoopFacts, seen: _Names) -> bool:
    full = facts.names.qualified(call.func)
    if full.startswith(TENSOR_FUNCTIONS) and not full.startswith(_NO_TENSORS):
        return True
    if isinstance(call.func, cst.Attribute):
        method = call.func.attr.value
        if method in _TO_NO_TENSOR or is_of_host(call.func.value, facts):
            return False
        return method in _ONLY_TENSORS or is_tensor(call.func.value, facts, seen)
    return bool(_makers(call.func, facts))


def has_no_dimensions(node: cst.BaseExpression, facts: LoopFacts, seen: _Names = frozenset()) -> bool:
    """Whether a tensor has no dimensions for certain, so that a stack of several is one list of numbers."""
    if isinstance(node, cst.Name):
        return _all_bindings(node.value, facts, seen, has_no_dimensions)
    if isinstance(node, cst.Call):
        return _reduces_all(node, facts, seen)
    if isinstance(node, cst.Attribute):
        return node.attr.value == "data" and has_no_dimensions(node.value, facts, seen)
    parts = list(_operands(node))
    return bool(parts) and all(has_no_dimensions(part, facts, seen) or is_number(part, facts, seen) for part in parts)


def _reduces_all(call: cst.Call, facts: LoopFacts, seen: _Names) -> bool:
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _TO_NUMBER and not call.args:
        return True
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("detach", "clone", "float", "double"):
        return has_no_dimensions(call.func.value, facts, seen)
    own = _is_loss(facts.names.qualified(call.func)) and not _may_keep_values(call, _OF_FUNCTIONS, facts)
    return own or bool(_makers(call.func, facts))


def is_real(node: cst.BaseExpression, facts: LoopFacts, seen: _Names = frozenset()) -> bool:
    """Whether a tensor is not complex for certain: a loss, or what is counted of comparisons."""
    if isinstance(node, cst.Name):
        return node.value in goes_backward(facts) or _all_bindings(node.value, facts, seen, is_real)
    if isinstance(node, cst.Call):
        losses = (facts.names.qualified(node.func), *_makers(node.func, facts))
        chained = isinstance(node.func, cst.Attribute) and is_real(node.func.value, facts, seen)
        return chained or _last(node.func) in _REAL or any(_is_loss(full) for full in losses)
    if isinstance(node, cst.Attribute):
        return is_real(node.value, facts, seen)
    parts = list(_operands(node))
    real = [is_real(part, facts, seen) for part in parts]
    numbers = [is_number(part, facts, seen) for part in parts]
    return isinstance(node, cst.Comparison) or (any(real) and all(map(operator.or_, real, numbers)))


def is_number(node: cst.BaseExpression, facts: LoopFacts, seen: _Names = frozenset()) -> bool:
    """Whether a value is a number or a text of Python for certain, which nobody can change afterwards."""
    if isinstance(node, (cst.BaseNumber, cst.BaseString)):
        return True
    if isinstance(node, cst.Name):
        return node.value in _counters(facts) or _all_bindings(node.value, facts, seen, is_number)
    if isinstance(node, cst.Call):
        return _returns_number(node, facts)
    if isinstance(node, cst.Subscript):
        of_shape = isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
        return of_shape and all(isinstance(part.slice, cst.Index) for part in node.slice)
    if isinstance(node, cst.Attribute):
        return _is_setting(node, facts)
    parts = list(_operands(node))
    return bool(parts) and all(is_number(part, facts, seen) for part in parts)


def _is_setting(node: cst.Attribute, facts: LoopFacts) -> bool:
    """Whether a value is an option of the command line that the loop does not set."""
    if not isinstance(node.value, cst.Name):
        return False
    made = list(values_of(node.value.value, facts))
    parsed = bool(made) and all(isinstance(value, cst.Call) and _last(value.func) == "parse_args" for value in made)
    stored = (part for leaf in facts.leaves for part in targets(leaf) if isinstance(part, cst.Attribute))
    return parsed and not any(part.attr.value == node.attr.value for part in stored)


def _returns_number(call: cst.Call, facts: LoopFacts) -> bool:
    if facts.names.qualified(call.func) in _COUNTS | {"time.time", "time.perf_counter", "datetime.timedelta"}:
        return not any(is_tensor(argument.value, facts) for argument in call.args)
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _SIZES:
        return False
    return bool(call.args) or call.func.attr.value != "size"


def _is_loss(full: str) -> bool:
    """A loss of torch, function or module, which is a mean unless it is told otherwise."""
    name = full.rpartition(".")[2]
    if full.startswith(_OF_MODULES):
        return name.endswith(("_loss", "cross_entropy", "cross_entropy_with_logits")) or name == "kl_div"
    return full.startswith("torch.nn.") and name.endswith("Loss")


def _makers(node: cst.BaseExpression, facts: LoopFacts) -> tuple[str, ...]:
    """What makes the object behind a name, where that is always a loss without a `reduction` of its own."""
    made: list[str] = []
    for value in values_of(node.value, facts) if isinstance(node, cst.Name) else ():
        call = value
        while isinstance(call, cst.Call) and _moves(call.func):
            call = cst.ensure_type(call.func, cst.Attribute).value
        if not isinstance(call, cst.Call) or not _is_loss(facts.names.qualified(call.func)):
            return ()
        if _may_keep_values(call, _OF_CLASSES, facts):
            return ()
        made.append(facts.names.qualified(call.func))
    return tuple(made)


def _may_keep_values(call: cst.Call, positional: int, facts: LoopFacts) -> bool:
    """Whether a loss may give a value per sample: by a word, by its place, by `**`, or by an attribute later."""
    if any(one.star or (one.keyword is not None and "reduc" in one.keyword.value) for one in call.args):
        return True
    by_place = sum(one.keyword is None for one in call.args)
    return by_place > positional or _REDUCTION.search(facts.source.project_text) is not None


def _moves(function: cst.BaseExpression) -> bool:
    """`nn.CrossEntropyLoss().to(device)`: the object itself."""
    return isinstance(function, cst.Attribute) and function.attr.value in ("to", "cuda")


def _used_as_tensors(facts: LoopFacts) -> frozenset[str]:
    """Names with which the loop does what is done with tensors only."""
    out = set(goes_backward(facts))
    for node in walk(facts.loop.body):
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.attr.value in _ONLY_TENSORS:
            out.add(node.value.value)
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
            owner = node.func.value
            if node.func.attr.value == "size" and isinstance(owner, cst.Name):
                out.add(owner.value)
    return frozenset(out)


def goes_backward(facts: LoopFacts) -> frozenset[str]:
    """Names of losses: their backward is called, or they are handed to an accelerator's or to a scaler."""
    out: set[str] = set()
    for node in walk(facts.loop.body):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        method, owner = node.func.attr.value, node.func.value
        first = node.args[0].value if node.args else None
        if method == "backward" and not isinstance(first, cst.Name):
            out |= _summands(owner)
        if method in ("backward", "scale") and first is not None:
            out |= _summands(first)
    for leaf in facts.leaves:
        if isinstance(leaf, cst.Assign) and out & rebound(leaf):
            out |= _summands(leaf.value)
    return frozenset(out)


def _summands(node: cst.BaseExpression) -> set[str]:
    """The names that a loss is computed of by arithmetic alone."""
    if isinstance(node, cst.Name):
        return {node.value}
    return {name for part in _operands(node) for name in _summands(part)}


def _counters(facts: LoopFacts) -> frozenset[str]:
    """Targets of `for i in range(…)` and `for i, … in enumerate(…)`, bound by nothing else."""
    out: set[str] = set()
    others: set[str] = set()
    for node in own_nodes(facts.scope):
        if isinstance(node, cst.For):
            counter = _counter(node, facts)
            out |= counter
            others |= {t.value for t in targets(node) if isinstance(t, cst.Name)} - counter
        elif isinstance(node, (cst.BaseSmallStatement, cst.With)):
            others |= rebound(node)
    return frozenset(out - others)


def _counter(loop: cst.For, facts: LoopFacts) -> set[str]:
    """The name that counts the passes, also behind a progress bar: `for i, batch in tqdm(enumerate(loader))`."""
    items: cst.BaseExpression = loop.iter
    while isinstance(items, cst.Call) and items.args and facts.names.qualified(items.func).endswith("tqdm"):
        items = items.args[0].value
    called = facts.names.qualified(items.func) if isinstance(items, cst.Call) else ""
    target: cst.BaseExpression = loop.target
    if called == "enumerate" and isinstance(target, cst.Tuple) and target.elements:
        target = target.elements[0].value
    elif called.rpartition(".")[2] not in ("range", "trange"):
        return set()
    return {target.value} if isinstance(target, cst.Name) else set()


def _all_bindings(name: str, facts: LoopFacts, seen: _Names, is_kind: _Question) -> bool:
    """Whether every value that the loop's function or file gives to a name is of the kind."""
    if name in seen:
        return True
    values = list(values_of(name, facts))
    return bool(values) and all(value is not None and is_kind(value, facts, seen | {name}) for value in values)


def values_of(name: str, facts: LoopFacts) -> Iterator[cst.BaseExpression | None]:
    """The values that a name is given; None for one that the text does not show."""
    bound = False
    for node in _binding_nodes(facts.scope):
        if isinstance(node, cst.Assign) and name in rebound(node):
            bound = True
            yield from _assigned(name, node)
        elif isinstance(node, cst.AugAssign) and name in rebound(node):
            bound = True
            yield cst.BinaryOperation(cst.Name(name), cst.Add(), node.value)
        elif isinstance(node, cst.AnnAssign) and name in rebound(node):
            bound = True
            yield node.value
        elif isinstance(node, (cst.For, cst.With, cst.Import, cst.ImportFrom, cst.Del)) and name in rebound(node):
            bound = True
            yield None
        elif isinstance(node, (cst.NamedExpr, cst.ExceptHandler)) and _mentions(node, name):
            yield None
    if isinstance(facts.scope, cst.FunctionDef):
        if any(isinstance(part, cst.Param) and part.name.value == name for part in walk(facts.scope.params)):
            yield None
        elif not bound:
            yield from _of_file(name, facts)


@lru_cache(maxsize=KEPT_WALKS)
def _binding_nodes(scope: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes that may give a name a value, of all that are the scope's own."""
    return tuple(node for node in own_nodes(scope) if type(node) in _BINDING)


def _of_file(name: str, facts: LoopFacts) -> Iterator[cst.BaseExpression | None]:
    for node in _binding_nodes(facts.source.module):
        if isinstance(node, cst.Assign) and name in rebound(node):
            yield from _assigned(name, node)


def _mentions(node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(part, cst.Name) and part.value == name for part in walk(node))


def _assigned(name: str, node: cst.Assign) -> Iterator[cst.BaseExpression | None]:
    """What an assignment gives to a name: of `total, count = 0.0, 0` its own part, of a call that gives several all."""
    for target in node.targets:
        parts, value = target.target, node.value
        if isinstance(parts, cst.Name):
            yield from [value] if parts.value == name else []
        elif not isinstance(parts, (cst.Tuple, cst.List)):
            continue
        elif isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(parts.elements):
            pairs = zip(parts.elements, value.elements, strict=True)
            yield from (
                given.value for part, given in pairs if isinstance(part.value, cst.Name) and part.value.value == name
            )
        else:
            yield value if isinstance(value, cst.Call) else None


def _operands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation):
        yield from (node.left, node.right)
    elif isinstance(node, cst.UnaryOperation):
        yield node.expression
    elif isinstance(node, cst.Comparison):
        yield node.left
        yield from (part.comparator for part in node.comparisons)
