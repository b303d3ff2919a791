"""The calls in a file that wait for the GPU or copy to it, and which of them the recording means.

In: a parsed file and recorded locations. Out: `Site` values with their node and statement. A site is a place that a
recipe *could* change; whether it may is the recipe's question, whether it fired is the recording's answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import libcst as cst

from tracelens.patch.code import formats
from tracelens.patch.code.names import FileNames, dotted, method_of, of_kinds, rebound, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.words import words

SiteKind = Literal["read", "sync", "copy"]
ReadKind = Literal["item", "number", "formatted", "tolist", "numpy", "host", "values"]

_MAY_BE_SITES = (cst.Call, cst.FormattedStringExpression, cst.BinaryOperation)
_DETACHING = frozenset({"detach", "cpu"})
_READING_METHODS: dict[str, ReadKind] = {"item": "item", "tolist": "tolist", "numpy": "numpy"}
_TYPES = words(
    "float16 half bfloat16 float32 float float64 double int8 int16 short int32 int int64 long uint8 bool complex64"
)
_OF_NUMBERS = words("math.exp math.log math.log2 math.log10 math.sqrt")
"""They take a tensor for its number, as `float` does."""
_NUMBER_BUILTINS = frozenset({"float", "int", "bool"})
_WAITED_FOR = words("torch.cuda.Event torch.cuda.Stream torch.cuda.current_stream torch.cuda.default_stream")
_OF_TENSORS = words("backward detach item cpu requires_grad_ grad_fn")


@dataclass(frozen=True)
class Read:
    """How a value is taken from a tensor: `node` is what gets replaced by the value of `tensor`.

    `host` and `values` are tensors on the CPU that are computed with there; of `values` only a number is left.
    """

    kind: ReadKind
    node: cst.BaseExpression
    tensor: cst.BaseExpression


@dataclass(frozen=True)
class Site:
    """One place in one file. `statement` is the small statement, or the compound one whose head holds the node."""

    kind: SiteKind
    source: SourceFile
    node: cst.CSTNode
    statement: cst.CSTNode

    @property
    def line(self) -> int:
        return self.source.line(self.node)

    @property
    def function(self) -> str | None:
        return self.source.function_around(self.node)

    def covers(self, line: int) -> bool:
        return self.source.line(self.statement) <= line <= self._last_line()

    def _last_line(self) -> int:
        if isinstance(self.statement, cst.BaseSmallStatement):
            return self.source.last_line(self.statement)
        return self.source.last_line(self.node)


@lru_cache(maxsize=PARSED_FILES)
def find(source: SourceFile) -> tuple[Site, ...]:
    """All sites of a file, by line."""
    found = []
    tensors = tensor_names(source)
    for node in of_kinds(source.module, _MAY_BE_SITES):
        kind = _kind(node, source, tensors)
        if kind is not None:
            found.append(Site(kind, source, node, statement_of(source, node)))
    return tuple(sorted(found, key=lambda site: source.span(site.node)))


def statement_of(source: SourceFile, node: cst.CSTNode) -> cst.CSTNode:
    """The small statement that holds a node, or the compound statement whose head does."""
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return ancestor
    return source.module


@lru_cache(maxsize=PARSED_FILES)
def tensor_names(source: SourceFile) -> frozenset[str]:
    """Names that the file uses as tensors, or that it reduces one to."""
    out: set[str] = set()
    for node in of_kinds(source.module, (cst.Attribute, cst.Assign)):
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.attr.value in _OF_TENSORS:
            out.add(node.value.value)
        elif isinstance(node, cst.Assign) and formats.reduces(node.value):
            out |= {target.target.value for target in node.targets if isinstance(target.target, cst.Name)}
    return frozenset(out)


def read_of(node: cst.CSTNode) -> Read | None:
    """The read that a node is, if it is one: `.item()`, `.cpu().numpy()`, `float(tensor)`, `.cpu().sum()`."""
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Name) and node.func.value in _NUMBER_BUILTINS and len(node.args) == 1:
        argument = node.args[0].value
        plain = not node.args[0].star and not isinstance(argument, (cst.BaseNumber, cst.BaseString))
        inner = read_of(argument)
        if inner is not None and inner.kind == "host":
            return Read("values", inner.node, inner.tensor)
        return Read("number", argument, argument) if plain and inner is None else None
    if dotted(node.func) in _OF_NUMBERS and len(node.args) == 1 and isinstance(node.args[0].value, cst.Name):
        return Read("number", node.args[0].value, node.args[0].value)
    return _computed_on_host(node) or _by_method(node)


def _by_method(node: cst.Call) -> Read | None:
    if not isinstance(node.func, cst.Attribute) or node.args:
        return None
    kind, tensor = _READING_METHODS.get(node.func.attr.value), _bare(node.func.value)
    if kind is None or (kind == "numpy" and tensor is node.func.value):
        return None  # `.numpy()` without `.cpu()` before it is no read from the GPU
    before = read_of(tensor)
    if before is not None and before.kind == "numpy":
        return before
    return None if _is_of_array(tensor) else Read(kind, node, tensor)


def _is_of_array(node: cst.BaseExpression) -> bool:
    """Whether a value is computed of what was read: `.mean()`, `[0]` of `x.cpu().numpy()`, `x.item() * scale`."""
    while isinstance(node, (cst.Attribute, cst.Call, cst.Subscript)):
        if isinstance(node, cst.Attribute) and node.attr.value in _READING_METHODS:
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return isinstance(node, cst.BinaryOperation) and any(True for _ in reads_in(node))


def reads_in(node: cst.CSTNode) -> Iterator[Read]:
    """All reads in a piece of code, the outer before the inner."""
    for part in walk(node):
        found = read_of(part)
        if found is not None:
            yield found


def is_tensor(node: cst.BaseExpression, tensors: frozenset[str]) -> bool:
    """Whether a value that goes into a text is a tensor: its read is seen by nothing else."""
    return root_of(node) in tensors or (formats.reduces(node) and not any(True for _ in reads_in(node)))


def root_of(node: cst.BaseExpression) -> str:
    """The name of a tensor, also of `loss.detach()` and `loss.data`; "" for anything else."""
    while isinstance(node, (cst.Call, cst.Attribute)):
        if isinstance(node, cst.Call):
            if not (isinstance(node.func, cst.Attribute) and node.func.attr.value in ("detach", "clone")):
                return ""
            node = node.func.value
        elif node.attr.value == "data":
            node = node.value
        else:
            return ""
    return node.value if isinstance(node, cst.Name) else ""


def is_synchronize(call: cst.Call, names: FileNames) -> bool:
    """Whether a call waits for the device, for a stream or for an event."""
    full = names.qualified(call.func)
    if full in ("torch.cuda.synchronize", "torch.accelerator.synchronize"):
        return True
    if isinstance(call.func, cst.Attribute) and method_of(call) == "synchronize" and not call.args:
        owner = call.func.value
        if isinstance(owner, cst.Call):
            return names.qualified(owner.func) == "torch.cuda.current_stream"
        return bool(names.made_by(owner)) and names.made_by(owner) <= _WAITED_FOR
    return False


def is_copy_to_device(call: cst.Call) -> bool:
    """`x.to(device)` and `x.cuda()`, whatever x is; not a copy to the CPU, nor `x.to(torch.float16)`."""
    if method_of(call) != "to":
        return method_of(call) == "cuda"
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    positional = [argument.value for argument in call.args if argument.keyword is None]
    device = named.get("device", positional[0] if positional else None)
    if device is None or _is_type(device):
        return False
    return not (isinstance(device, cst.SimpleString) and "cpu" in device.value)


def is_typed_copy(call: cst.Call, names: FileNames) -> bool:
    """`x.type(torch.cuda.FloatTensor)`: a copy to the GPU by the type's name, which may stand behind a variable."""
    if method_of(call) != "type" or not call.args:
        return False
    kind = call.args[0].value
    if isinstance(kind, cst.SimpleString):
        return "cuda" in kind.value
    return names.qualified(kind).startswith("torch.cuda.") or dotted(kind) in names.cuda_types


def is_built_on_gpu(call: cst.Call, names: FileNames) -> bool:
    """`Tensor(np.random.normal(…))` with a type on the GPU: values made on the host, copied from pageable memory."""
    full = names.qualified(call.func)
    if dotted(call.func) not in names.cuda_types and not (full.startswith("torch.cuda.") and full.endswith("Tensor")):
        return False
    parts = [part for argument in call.args for part in walk(argument.value) if isinstance(part, (cst.Call, cst.List))]
    return any(isinstance(part, cst.List) or names.qualified(part.func).startswith("numpy.") for part in parts)


def _is_type(node: cst.BaseExpression) -> bool:
    """`torch.float32`, `model.dtype`: what `to` takes for a type."""
    name = node.attr.value if isinstance(node, cst.Attribute) else ""
    return name == "dtype" or name in _TYPES


def _computed_on_host(node: cst.Call) -> Read | None:
    """`correct` of `correct.cpu().sum()`: copied, then computed with on the CPU, where a sum adds up differently."""
    reduced, number = False, False
    current: cst.BaseExpression = node
    while isinstance(current, cst.Call) and isinstance(current.func, cst.Attribute):
        method = current.func.attr.value
        if _leads_to_host(current) and method != "detach":
            owner = current.func.value
            found = Read("values", current, _bare(owner)) if number else Read("host", current, _on_device(owner))
            return found if reduced else None
        constant = all(isinstance(a.value, (cst.BaseNumber, cst.UnaryOperation)) and not a.star for a in current.args)
        if method not in formats.REDUCES | formats.CONVERTS or not constant:
            return None
        reduced, number = reduced or method in formats.REDUCES, number or method == "item"
        current = current.func.value
    return None


def _kind(node: cst.CSTNode, source: SourceFile, tensors: frozenset[str]) -> SiteKind | None:
    names = source.names
    if isinstance(node, cst.Call):
        if is_synchronize(node, names):
            return "sync"
        if is_copy_to_device(node) or is_typed_copy(node, names) or is_built_on_gpu(node, names):
            return "copy"
        found = read_of(node)
        if found is not None and (dotted(node.func) not in _OF_NUMBERS or is_tensor(found.tensor, tensors)):
            return None if _reads_many(node, source) else "read"
    elif isinstance(node, cst.FormattedStringExpression) and node.format_spec and dotted(node.expression):
        return "read"
    shown = (value for value, _ in formats.values(node, formats.templates(source)))
    return "read" if any(is_tensor(value, tensors) for value in shown) else None


def _reads_many(call: cst.Call, source: SourceFile) -> bool:
    """Whether a read takes the values of several batches: of a list that its loop does not make anew."""
    stacked = call.func.value if isinstance(call.func, cst.Attribute) else None
    while isinstance(stacked, cst.Call) and source.names.qualified(stacked.func) != "torch.stack":
        stacked = stacked.func.value if isinstance(stacked.func, cst.Attribute) else None
    if not isinstance(stacked, cst.Call) or not stacked.args or not isinstance(stacked.args[0].value, cst.Name):
        return False
    loops = [one for one in source.ancestors(call) if isinstance(one, (cst.For, cst.While))]
    if loops and isinstance(loops[0], cst.For) and call in set(walk(loops[0].iter)):
        loops = loops[1:]
    made = [part for part in walk(loops[0].body) if isinstance(part, cst.Assign)] if loops else []
    columns = (part for part in made if isinstance(part.value, cst.Call) and dotted(part.value.func) == "zip")
    fresh = set(made) - set(columns)
    return not any(stacked.args[0].value.value in rebound(part) for part in fresh)


def _bare(tensor: cst.BaseExpression) -> cst.BaseExpression:
    """`loss` of `loss.detach().cpu().data`: what comes before the calls that only lead to the host."""
    while True:
        if isinstance(tensor, cst.Attribute) and tensor.attr.value == "data":
            tensor = tensor.value
        elif isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and _leads_to_host(tensor):
            tensor = tensor.func.value
        else:
            return tensor


def _on_device(tensor: cst.BaseExpression) -> cst.BaseExpression:
    """As `_bare`, up to the first `detach()` or `data`: a sum of the tensor itself would have its graph."""
    while isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and _leads_to_host(tensor):
        if tensor.func.attr.value == "detach":
            break
        tensor = tensor.func.value
    return tensor


def _leads_to_host(call: cst.Call) -> bool:
    method = method_of(call)
    if method in _DETACHING:
        return not call.args
    first = call.args[0].value if len(call.args) == 1 else None
    return method == "to" and isinstance(first, cst.SimpleString) and first.value.strip("\"'") == "cpu"
