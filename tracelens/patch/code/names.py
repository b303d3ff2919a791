"""Which names and objects a piece of code touches, and what its calls are called.

In: nodes of one file. Out: `keys`: plain names ("running"), attributes of self ("self.total"), and OUTPUT for
whatever writes lines. Deliberately coarse: where two spellings could mean one object, they get one key, because a
key too many makes the patcher decline and a key too few would make it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import libcst as cst

from tracelens.patch.code.outside import EVERYTHING, FILES, LIBRARIES, MODULES, OUTPUT, STREAMS, looked_at

_SELF = ("self", "cls")
WHOLE_SELF = frozenset({"self", "cls", "self.__dict__"})
"""Keys of the object as a whole: whoever has one of them can see all its attributes."""
KEPT_STATEMENTS = 4096
"""Statements whose names are looked up again and again while a loop is planned; that is some files' worth."""
KEPT_WALKS = 1024  # blocks and lines whose parts are kept; a file that is patched has some hundreds
_BLOCKS = (cst.Module, cst.IndentedBlock, cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.If, cst.With, cst.Try)
_WALKED_AGAIN = frozenset((*_BLOCKS, cst.SimpleStatementLine))
CONSTANTS = frozenset({"True", "False", "None"})
"""Names to LibCST, values to Python: nothing can change them, and no parameter can be called so."""
_PRINTERS = frozenset({"print", "open", "pprint.pprint", "display"})
_OUTPUT_MODULES = frozenset(
    {"logging", "wandb", "mlflow", "neptune", "comet_ml", "clearml", "loguru.logger", "absl.logging"}
)
_OUTPUT_OBJECTS = frozenset({"logger", "log", "logging", "_logger", "LOGGER", "LOG"})
_TRACKERS = frozenset({"accelerator.log", "accelerator.print"})
"""They write lines and change nothing of the object that the rest of the loop uses."""
_OUTPUT_METHODS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log"})
_TO_FILES = frozenset({"write", "writelines", "writerow", "writerows"})
_STREAM_METHODS = frozenset({"sys.stdout.write", "sys.stderr.write", "sys.stdout.flush", "sys.stderr.flush"})
_PUNCTUATION = (
    "whitespace",
    "leading_lines",
    "lines_after",
    "lpar",
    "rpar",
    "lbracket",
    "rbracket",
    "comma",
    "semicolon",
    "header",
    "footer",
    "trailing_whitespace",
    "equal",
    "dot",
)
_PROGRESS_WRITES = ("tqdm.write", "tqdm.tqdm.write", "tqdm.auto.tqdm.write")


@dataclass(frozen=True, eq=False)
class FileNames:
    """What names mean in one file: imports with their full names, and the file's own functions.

    Compared by identity, as nodes are. `touches` remembers answers of `touched`: the same few statements are asked
    about for every place that is planned.
    """

    imports: dict[str, str]
    functions: dict[str, tuple[cst.FunctionDef, ...]]
    printing: frozenset[str]
    """Functions of this file that write lines, themselves or through one another."""
    cuda_types: frozenset[str] = frozenset()
    """Names bound to a tensor type on the GPU: `Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor`."""
    classes: dict[str, cst.ClassDef] = field(default_factory=dict)
    attributes: frozenset[str] = frozenset()
    """Keys of what is stored on self anywhere in the file: an attribute that is called is not always a method."""
    makers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What is called to make the value of a name or an attribute."""
    members: dict[str, frozenset[str]] = field(default_factory=dict)
    """What is taken of a name by a dot anywhere in the file: `Fabric` of `L.Fabric`."""
    touches: dict[cst.CSTNode, frozenset[str]] = field(default_factory=dict)

    def is_library(self, name: str) -> bool:
        """Whether a name stands for a module whose functions keep nothing that a loop could look at later."""
        return name in self.imports and self.imports[name].partition(".")[0] in LIBRARIES

    def made_by(self, node: cst.BaseExpression) -> frozenset[str]:
        """The full names of what is called to make the value of a name or an attribute, anywhere in the file."""
        return frozenset(self._full(maker) for maker in self.makers.get(dotted(node), ()))

    def qualified(self, node: cst.BaseExpression) -> str:
        """`torch.cuda.synchronize` for `cuda.synchronize` after `from torch import cuda`; "" for no plain name."""
        return self._full(dotted(node))

    def _full(self, text: str) -> str:
        root, _, rest = text.partition(".")
        full = self.imports.get(root, root)
        return f"{full}.{rest}" if rest else full


def bound_name(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return dotted(alias.name).partition(".")[0]


def children(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The parts of a node that mean something: no white space, no punctuation."""
    out: list[cst.CSTNode] = []
    for value in _reader(type(node))(node):
        kind = type(value)
        if kind is tuple or kind is list:
            out += value
        elif _is_node(kind):  # type: ignore[arg-type]  # classes are hashable, whatever mypy takes `type[Any]` for
            out.append(value)
    return out


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and everything below it, in the order of the text."""
    return iter(_kept_walk(node)) if type(node) in _WALKED_AGAIN else _walk(node)


def of_kinds(node: cst.CSTNode, kinds: Collection[type[cst.CSTNode]]) -> Iterator[cst.CSTNode]:
    """The nodes of these classes themselves, which are told faster than by `isinstance`: LibCST's is Python's code."""
    return (part for part in walk(node) if type(part) in kinds)


@lru_cache(maxsize=KEPT_WALKS)
def _kept_walk(block: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Every recipe goes through the same files, functions and loops, again for each place."""
    return tuple(_walk(block))


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += children(current)[::-1]


def dotted(node: cst.CSTNode | None) -> str:
    """`a.b.c` for a chain of plain attributes on a name, else ""."""
    if type(node) is cst.Name:
        return node.value
    if type(node) is cst.Attribute:
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


def last_name(node: cst.CSTNode | None) -> str:
    """`backward` of `loss.backward` and of `losses[0].backward`; "" of what is no name."""
    return node.attr.value if type(node) is cst.Attribute else dotted(node)


def method_of(node: cst.CSTNode | None) -> str:
    """The method that a call is of, by its name; "" of any other node."""
    called = node.func if type(node) is cst.Call else None
    return called.attr.value if type(called) is cst.Attribute else ""


def variables(node: cst.CSTNode, *, outer: bool = False) -> Iterator[cst.Name | cst.Attribute]:
    """The names that stand for values; for `self.x` the attribute, because that is where the value lives.

    `outer`: those of the code around the node alone; `t` in `[len(t) for t in texts]` is the comprehension's own.
    """
    if type(node) is cst.Name:
        if node.value not in CONSTANTS:
            yield node
    elif type(node) is cst.Attribute:
        if isinstance(node.value, cst.Name) and node.value.value in _SELF:
            yield node
        else:
            yield from variables(node.value, outer=outer)
    elif outer and isinstance(node, cst.BaseComp):
        yield from _of_comprehension(node)
    elif type(node) not in (cst.Import, cst.ImportFrom):
        label = _label(node)
        for child in children(node):
            if child is not label:
                yield from variables(child, outer=outer)


def _of_comprehension(node: cst.BaseComp) -> Iterator[cst.Name | cst.Attribute]:
    """What it takes from the code around it: all that its first `for` goes through, of the rest what it does not bind,
    so that in `[t for t in t]` one `t` is not its own."""
    yield from variables(node.for_in.iter, outer=True)
    inside: list[cst.CSTNode] = [child for child in children(node) if child is not node.for_in]
    bound: set[str] = set()
    current: cst.CompFor | None = node.for_in
    while current is not None:
        bound |= {aim.value for aim in _flat(current.target) if isinstance(aim, cst.Name)}
        inside += [current.target, *([] if current is node.for_in else [current.iter]), *current.ifs]
        current = current.inner_for_in
    found = (variable for part in inside for variable in variables(part, outer=True))
    yield from (one for one in found if not isinstance(one, cst.Name) or one.value not in bound)


def key(variable: cst.Name | cst.Attribute) -> str:
    return variable.value if isinstance(variable, cst.Name) else _attribute_key(variable)


def _attribute_key(node: cst.Attribute) -> str:
    """`cls.total` is `self.total`: one may be looked at by the name of the other."""
    return f"self.{node.attr.value}"


def root_key(node: cst.CSTNode) -> str | None:
    """The key of the object at the bottom of `a.b[0].c()`; None if that is no name."""
    if type(node) is cst.Name:
        return None if node.value in CONSTANTS else node.value
    if type(node) is cst.Attribute:
        if isinstance(node.value, cst.Name) and node.value.value in _SELF:
            return _attribute_key(node)
        return root_key(node.value)
    if type(node) is cst.Subscript:
        return root_key(node.value)
    if type(node) is cst.Call:
        return root_key(node.func)
    return None


def touched(node: cst.CSTNode, names: FileNames) -> frozenset[str]:
    """All keys that a piece of code reads or writes."""
    known = names.touches.get(node)
    if known is not None:
        return known
    out = {key(variable) for variable in variables(node, outer=True)}
    for part in walk(node):
        if type(part) is cst.Call:
            out |= _looked_at(part, names)
        elif type(part) is cst.Attribute or type(part) is cst.Name:
            full = names.qualified(part)
            if full in STREAMS:
                out.add(OUTPUT)
            elif full == MODULES:
                out.add(EVERYTHING)
    return names.touches.setdefault(node, frozenset(out))


def parameters(function: cst.FunctionDef | cst.Lambda) -> frozenset[str]:
    """The names of a function's parameters."""
    return frozenset(part.name.value for part in walk(function.params) if type(part) is cst.Param)


def values_assigned(names: Collection[str], nodes: Iterable[cst.CSTNode]) -> list[cst.BaseExpression]:
    """What assignments among these nodes give to the names: `name = …`, `self.name = …`."""
    assigned = (node for node in nodes if isinstance(node, cst.Assign))
    return [one.value for one in assigned if any(dotted(target.target) in names for target in one.targets)]


def own_names(node: cst.CSTNode) -> set[str]:
    """Names that a function binds for itself, so that it means another thing by them."""
    out = {part.name.value for part in walk(node) if isinstance(part, cst.Param)}
    shared = {item.name.value for p in walk(node) if isinstance(p, (cst.Global, cst.Nonlocal)) for item in p.names}
    for part in walk(node):
        if isinstance(part, (cst.BaseSmallStatement, cst.For, cst.With)):
            out |= rebound(part)
        if isinstance(part, cst.CompFor):
            out |= {v.value for v in variables(part.target) if isinstance(v, cst.Name)}
    return out - shared


def meets(keys: frozenset[str], others: frozenset[str]) -> bool:
    """Whether code that touches `keys` may see something of `others`."""
    if keys & others:
        return True
    own = [name for name in others if name.startswith("self.")]
    if own and (keys & WHOLE_SELF or any(f"*.{name[5:]}" in keys for name in own)):
        return True
    return EVERYTHING in keys and bool(others)


def _looked_at(call: cst.Call, names: FileNames) -> set[str]:
    method, full = method_of(call), names.qualified(call.func)
    found = looked_at(full, method, bool(call.args))
    out = set(found)
    if full in ("open", "io.open", "pathlib.Path.open") or method in _TO_FILES:
        out.add(FILES)
    writes = method in _TO_FILES or method in _OUTPUT_METHODS - {"log"}
    return out | {OUTPUT} if writes or is_output(call, names) else out


def targets(statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The expressions that a simple statement or the head of a loop assigns to."""
    if isinstance(statement, cst.Assign):
        for target in statement.targets:
            yield from _flat(target.target)
    elif isinstance(statement, (cst.AugAssign, cst.AnnAssign, cst.For)):
        yield from _flat(statement.target)
    elif isinstance(statement, cst.With):
        for item in statement.items:
            if item.asname is not None:
                yield from _flat(item.asname.name)
    elif isinstance(statement, cst.Del):
        yield from _flat(statement.target)


def assigned(statement: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The targets of an assignment with their values: two of `then, now = a, b`."""
    if not isinstance(statement, (cst.Assign, cst.AnnAssign)) or statement.value is None:
        return
    aims = [one.target for one in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
    value = statement.value
    for aim in aims:
        if isinstance(aim, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
            yield from ((one.value, other.value) for one, other in zip(aim.elements, value.elements, strict=False))
        elif isinstance(aim, cst.BaseExpression):
            yield aim, value


@lru_cache(maxsize=KEPT_STATEMENTS)
def rebound(statement: cst.CSTNode) -> frozenset[str]:
    """The plain names that a statement binds."""
    out = {target.value for target in targets(statement) if isinstance(target, cst.Name)}
    for part in walk(statement) if isinstance(statement, cst.BaseSmallStatement) else ():
        if isinstance(part, cst.NamedExpr) and isinstance(part.target, cst.Name):
            out.add(part.target.value)
        elif isinstance(part, cst.ImportAlias):
            out.add(bound_name(part))
    return frozenset(out)


def written(statement: cst.CSTNode, names: FileNames) -> frozenset[str]:
    """The keys that a statement changes: names it binds, objects it stores into or calls a method of, output."""
    out = set(rebound(statement))
    for target in targets(statement):
        found = root_key(target)
        if found is not None:
            out.add(found)
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        call = statement.value
        receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        found = root_key(receiver) if receiver is not None else None
        if found is not None and not names.is_library(found) and dotted(call.func) not in _TRACKERS:
            out.add(found)
        if method_of(call) in _TO_FILES:
            out |= {OUTPUT, FILES}
    for part in walk(statement):
        if type(part) is cst.Call and is_output(part, names):
            out |= {OUTPUT} | _file_of(part)
    return frozenset(out)


def _file_of(call: cst.Call) -> set[str]:
    """The key of `print(…, file=this)`."""
    given = (a.value for a in call.args if a.keyword is not None and a.keyword.value == "file")
    return {key for value in given if (root := root_key(value)) is not None for key in (root, FILES)}


def is_output(call: cst.Call, names: FileNames) -> bool:
    """Whether a call writes lines that people or files see."""
    text, full = dotted(call.func), names.qualified(call.func)
    root, _, rest = text.partition(".")
    if full in _PRINTERS or full in _STREAM_METHODS or full in _PROGRESS_WRITES or text in names.printing:
        return True
    if names.imports.get(root, "") in _OUTPUT_MODULES and rest:
        return True
    if text in _TRACKERS:
        return True
    method = text.rpartition(".")[2]
    receiver = text.rpartition(".")[0].rpartition(".")[2]
    return method in _OUTPUT_METHODS and receiver in _OUTPUT_OBJECTS


def is_property(function: cst.FunctionDef) -> bool:
    """Whether a method runs where its name is: a property, cached or not, or what sets one."""
    texts = (dotted(decorator.decorator) for decorator in function.decorators)
    return any(text.endswith(("property", ".setter")) for text in texts)


@cache
def _is_node(kind: type[object]) -> bool:
    """Asked of classes, once each: asking every value takes most of the time of a walk."""
    return issubclass(kind, cst.CSTNode)


@cache
def _reader(kind: type[cst.CSTNode]) -> Callable[[cst.CSTNode], tuple[Any, ...]]:
    """What reads the fields of such a node that mean something, all at once."""
    names = [field.name for field in fields(kind) if not field.name.startswith(_PUNCTUATION)]
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda node: (getattr(node, names[0]),)) if names else lambda _: ()


def _label(node: cst.CSTNode) -> cst.CSTNode | None:
    """The name in a node that stands for itself: of a keyword argument, a parameter, a definition."""
    if isinstance(node, cst.Arg):
        return node.keyword
    return node.name if isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef)) else None


def _flat(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _flat(element.value)
    else:
        yield target
