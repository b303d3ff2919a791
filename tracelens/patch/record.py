"""What a statement needs so that it can run later: which of its values are kept, and as what.

In: statements that only log or accumulate, the facts of their loop, and the keys of the results ("state") that all
such statements share. Out: `Recorder.captures`, one per value: the expression to evaluate where the statement
stood, and the name that stands for it in the statement that runs later. Raises `Blocked` where a statement does
more than log or accumulate. State is never kept: it is read when the statement runs, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from tracelens.patch import host
from tracelens.patch.captures import Capture, Wanted, keep, replaces
from tracelens.patch.facts import LoopFacts, is_pure
from tracelens.patch.loops import Blocked
from tracelens.patch.names import WHOLE_SELF, children, dotted, is_output, meets, rebound, root_key, variables, walk
from tracelens.patch.outside import looked_at
from tracelens.patch.sites import Read, read_of, reads_in

_BETWEEN = (
    cst.BaseElement,
    cst.BaseDictElement,
    cst.ComparisonTarget,
    cst.SubscriptElement,
    cst.Index,
    cst.Slice,
)
_DEPENDING = (cst.Call, cst.Attribute, cst.Subscript, cst.BaseComp, cst.NamedExpr)


@dataclass
class Recorder:
    """Collects the captures of statements that stand together; one Recorder makes one function."""

    facts: LoopFacts
    state: frozenset[str]
    captures: dict[str, Capture] = field(default_factory=dict)
    _definite: frozenset[str] | None = None
    """In a branch that may not be taken: the names that are bound all the same; None outside of branches."""
    _stores: bool = False
    """The statement keeps objects: one that the loop goes on to change must not become a copy."""

    def statement(self, node: cst.CSTNode) -> None:
        """Take in one statement; raises `Blocked` if it must not run later."""
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                self.small(small)
        elif isinstance(node, cst.If):
            self._branch(node)
        elif isinstance(node, cst.With) and host.opens_file(node):
            self._file(node)
        else:
            raise Blocked(node, "a loop, with or try around the results cannot run later", "read every N batches")

    def small(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Expr):
            self._expression_statement(node)
        elif isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            self._assignment(node)
        elif not isinstance(node, cst.Pass):
            word = type(node).__name__.lower()
            raise Blocked(node, f"`{word}` depends on the value in the same batch", "keep it, or check every N batches")

    def _file(self, node: cst.With) -> None:
        """`with open(path, "a") as file:`, whose whole body writes into the file."""
        for item in node.items:
            self._arguments(cst.ensure_type(item.item, cst.Call))
        self.state |= rebound(node)
        for statement in node.body.body:
            self.statement(cst.ensure_type(statement, cst.SimpleStatementLine))

    def _branch(self, node: cst.If) -> None:
        outer = self._definite
        self.expression(node.test)
        if isinstance(node.orelse, cst.Else) and outer is None:
            for read in self._read_by_both(node.body, node.orelse.body):
                self._read(read)
        if self._definite is None:
            self._definite = self.facts.definite(node)
        for block in (node.body, node.orelse.body if isinstance(node.orelse, cst.Else) else None):
            for statement in block.body if block is not None else ():
                if isinstance(statement, cst.BaseSmallStatement):
                    self.small(statement)
                else:
                    self.statement(statement)
        if isinstance(node.orelse, cst.If):
            self._branch(node.orelse)
        self._definite = outer

    def _read_by_both(self, one: cst.CSTNode, another: cst.CSTNode) -> Iterator[Read]:
        """Reads that are made whichever branch is taken, so that they may be made before it is known which."""
        other = {self._spelled(read) for read in reads_in(another) if self._readable(read)}
        for read in reads_in(one):
            if self._readable(read) and isinstance(read.tensor, cst.Name) and self._spelled(read) in other:
                yield read

    def _spelled(self, read: Read) -> tuple[str, str]:
        return read.kind, self.facts.source.code(read.tensor)

    def _expression_statement(self, node: cst.Expr) -> None:
        call = node.value
        if isinstance(call, cst.BaseString):
            return
        if not isinstance(call, cst.Call):
            raise Blocked(node, "the statement does more than log or accumulate", "read the value every N batches")
        host.check_behind(call, self.facts, self.state)
        self._stores = not is_output(call, self.facts.names)
        if not self._stores:
            self._check_printer(call)
        elif not self._collects(call):
            text = dotted(call.func) or "a call"
            raise Blocked(node, f"`{text}(…)` may do more than log or accumulate", "call it every N batches")
        self._arguments(call)
        if isinstance(call.func, cst.Attribute):
            self._receiver(call.func.value)

    def _collects(self, call: cst.Call) -> bool:
        if not isinstance(call.func, cst.Attribute):
            return False
        receiver = root_key(call.func.value) or ""
        method = call.func.attr.value
        holds = self.facts.held_by(frozenset({receiver})) & self.facts.trained
        if method in host.TRAINS or holds or host.TRAINERS.search(receiver.rpartition(".")[2]):
            obstacle = f"the value reaches `{dotted(call.func)}(…)`, which takes part in the training"
            raise Blocked(call, obstacle, "hand it the tensor instead of the number, if it can use that")
        if looked_at(self.facts.names.qualified(call.func), method, bool(call.args)):
            return False
        return bool(host.COLLECTS.fullmatch(method)) or (receiver in self.state and self._only_shows(call, receiver))

    def _only_shows(self, call: cst.Call, receiver: str) -> bool:
        """A method of a result that is given nothing, such as `progress.display(i)`, and knows nothing of the rest."""
        has_read = any(self._independent(read.tensor) for read in reads_in(call)) or self._measures(call)
        if has_read or not all(self._independent(argument.value) for argument in call.args):
            return False
        method, names = dotted(call.func).rpartition(".")[2], self.facts.names
        if receiver in WHOLE_SELF:
            return method in names.functions
        others = self.facts.held_by(frozenset({receiver})) - self.state
        return not (receiver in names.imports and method in names.elsewhere) and not others & self.facts.changed_inside

    def _assignment(self, node: cst.Assign | cst.AugAssign | cst.AnnAssign) -> None:
        if isinstance(node, cst.Assign):
            for target in node.targets:
                self._target(target.target)
        else:
            self._target(node.target)
        self._stores = True
        if node.value is not None:
            self.expression(node.value)

    def _target(self, target: cst.BaseExpression) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._target(element.value)
        elif isinstance(target, cst.Subscript):
            self._receiver(target.value)
            for part in target.slice:
                if not isinstance(part.slice, cst.Index):
                    raise Blocked(target, "it stores into a slice", "store every N batches")
                self.expression(part.slice.value)
        elif isinstance(target, cst.Attribute):
            self._receiver(target.value)
        elif not isinstance(target, cst.Name):
            raise Blocked(target, "it stores where that cannot be followed", "store every N batches")

    def _receiver(self, node: cst.BaseExpression) -> None:
        """The object a method is called on, or stored into: indices on the way to it are kept like other values."""
        if isinstance(node, cst.Subscript):
            self._receiver(node.value)
            for part in node.slice:
                if isinstance(part.slice, cst.Index):
                    self.expression(part.slice.value)
        elif isinstance(node, cst.Attribute):
            self._receiver(node.value)
        elif isinstance(node, cst.Call):
            self.expression(node)

    # ------------------------------------------------------------------------------------------ expressions

    def expression(self, node: cst.BaseExpression) -> None:
        """Take in an expression: what does not depend on state is kept, the rest is evaluated later."""
        if node in self.facts.spans:
            self._capture(node, "elapsed")
            return
        has_read = any(self._readable(read) for read in reads_in(node)) or self._measures(node)
        if self._independent(node) and not has_read:
            self._host_value(node)
            return
        read = read_of(node)
        if read is not None and self._readable(read):
            self._read(read)
            return
        self._parts(node)

    def _parts(self, node: cst.BaseExpression) -> None:
        if isinstance(node, (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda)):
            raise Blocked(node, "the expression cannot be evaluated later", "take it out of the statement")
        if isinstance(node, cst.BaseComp):
            self._comprehension(node)
        elif isinstance(node, cst.IfExp):
            self._choice(node)
        elif isinstance(node, cst.BooleanOperation):
            self.expression(node.left)
            self._without_reads(node.right)
        elif isinstance(node, cst.Call):
            self._call(node)
        elif isinstance(node, cst.FormattedString):
            self._formatted_string(node)
        else:
            for child in children(node):
                self._child(child)

    def _child(self, child: cst.CSTNode) -> None:
        if isinstance(child, cst.BaseExpression):
            self.expression(child)
        elif isinstance(child, _BETWEEN):
            for part in children(child):
                self._child(part)

    def _call(self, node: cst.Call) -> None:
        full = self.facts.names.qualified(node.func)
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        host.check_behind(node, self.facts, self.state)
        if is_output(node, self.facts.names):
            self._check_printer(node)
        elif is_pure(full):
            pass
        elif method and isinstance(node.func, cst.Attribute):
            owner = node.func.value
            text_method = method in ("format", "join", "ljust", "rjust", "center", "strip", "upper", "lower")
            if method in host.TRAINS or (self._independent(owner) and not text_method):
                name = dotted(node.func) or method
                raise Blocked(node, f"the value goes into `{name}(…)`", "call it every N batches")
            self.expression(owner)
        elif not host.host_only(full, self.facts.names):
            raise Blocked(node, f"the value goes into `{full or 'a call'}(…)`", "call it every N batches")
        self._arguments(node)

    def _arguments(self, call: cst.Call) -> None:
        formats = host.formats_values(call, self.facts.source)
        for argument in call.args:
            simple = isinstance(argument.value, (cst.Name, cst.Attribute))
            if formats and simple and self._may_be_tensor(argument.value):
                self._capture(argument.value, "formatted")
            else:
                self.expression(argument.value)

    def _formatted_string(self, node: cst.FormattedString) -> None:
        for part in node.parts:
            if not isinstance(part, cst.FormattedStringExpression):
                continue
            simple = isinstance(part.expression, (cst.Name, cst.Attribute))
            if part.format_spec and part.conversion is None and simple and self._may_be_tensor(part.expression):
                self._capture(part.expression, "formatted")
            else:
                self.expression(part.expression)
            for spec in part.format_spec or ():
                if isinstance(spec, cst.FormattedStringExpression):
                    self.expression(spec.expression)
            if part.equal is not None and replaces(self.captures, part.expression):
                raise Blocked(part, "`{…=}` prints the expression itself", "print the value without `=`")

    def _choice(self, node: cst.IfExp) -> None:
        branches = (node.body, node.orelse)
        has_read = any(True for branch in branches for _ in reads_in(branch))
        if not has_read:
            self.expression(node.test)
            for branch in branches:
                self._perhaps(branch)
            return
        if not self._independent(node) and self._definite is None:
            self._choice_of_state(node)
            return
        if not self._independent(node) or any(True for _ in reads_in(node.test)):
            raise Blocked(node, "the value decides which branch is taken", "read the value every N batches")
        for branch in branches:
            first = next(iter(reads_in(branch)), None)
            if first is not None and (first.node is not branch or first.kind == "number"):
                raise Blocked(
                    node, "only one branch reads the value, and computes with it", "compute below, in an `if`"
                )
        self._capture(node, "choice")

    def _choice_of_state(self, node: cst.IfExp) -> None:
        """`loss.item() if mean is None else …`: what both branches read is read; neither may need anything else."""
        for read in self._read_by_both(node.body, node.orelse):
            self._read(read)
        self._definite = frozenset()
        for part in (node.test, node.body, node.orelse):
            self.expression(part)
        self._definite = None

    def _comprehension(self, node: cst.BaseComp) -> None:
        own = {v.value for p in walk(node) if isinstance(p, cst.CompFor) for v in variables(p.target)}
        self._without_reads(node)
        for part in walk(node):
            if isinstance(part, cst.Name) and part.value in self.facts.varying - self.state - own:
                raise Blocked(node, f"the comprehension needs `{part.value}` of its batch", "write it as a loop")

    def _without_reads(self, node: cst.BaseExpression) -> None:
        if any(self._readable(read) for read in reads_in(node)):
            raise Blocked(node, "whether the value is read depends on another one", "read the value every N batches")
        if not isinstance(node, cst.BaseComp):
            self._perhaps(node)

    def _perhaps(self, node: cst.BaseExpression) -> None:
        """An expression that may not be evaluated at all: nothing but names may be taken of it before that is known."""
        outer = self._definite
        self._definite = self.facts.definite(node) if outer is None else outer
        self.expression(node)
        self._definite = outer

    # ---------------------------------------------------------------------------------------------- captures

    def _host_value(self, node: cst.BaseExpression) -> None:
        """An expression without state or reads: names stay in the text, anything else that varies is evaluated now."""
        if isinstance(node, (cst.BaseNumber, cst.SimpleString)) or not self._varies(node):
            return
        host.check_no_tensor(node, self.facts.tensors)
        if isinstance(node, cst.Name):
            self._capture(node, "")
        elif isinstance(node, (cst.FormattedString, cst.ConcatenatedString)) or self._text_stays(node):
            self._parts(node)
        else:
            self._capture(node, "")

    def _text_stays(self, node: cst.BaseExpression) -> bool:
        """Displays and formatting are rebuilt later; arithmetic too where it needs nothing but names."""
        if isinstance(node, (cst.List, cst.Dict, cst.Tuple, cst.Set)):
            return True
        if isinstance(node, cst.Call):
            full = self.facts.names.qualified(node.func)
            method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            return method == "format" or full in ("str", "round")
        if isinstance(node, cst.BinaryOperation) and isinstance(node.left, (cst.SimpleString, cst.ConcatenatedString)):
            return True
        arithmetic = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BooleanOperation, cst.IfExp)
        if not isinstance(node, arithmetic):
            return False
        return not any(isinstance(part, _DEPENDING) and self._varies(part) for part in walk(node))

    def _varies(self, node: cst.BaseExpression) -> bool:
        return self.facts.varies(node)

    def _read(self, read: Read) -> None:
        if read.kind == "number" and self._surely_number(read.tensor):
            self._host_value(read.tensor)
        else:
            self._capture(read.node, read.kind, read.tensor)

    def _capture(self, node: cst.BaseExpression, read: str, tensor: cst.BaseExpression | None = None) -> None:
        keep(self.captures, self.facts, Wanted(node, read, tensor, self._stores, self._definite))

    # ----------------------------------------------------------------------------------------------- questions

    def _independent(self, node: cst.CSTNode) -> bool:
        return not meets(self.facts.touched(node), self.state)

    def _readable(self, read: Read) -> bool:
        """A read of the loop's own tensor: not of state, not of a plain number, not below another one."""
        if not self._independent(read.tensor):
            return False
        return read.kind != "number" or not self._surely_number(read.tensor)

    def _measures(self, node: cst.CSTNode) -> bool:
        return bool(self.facts.spans) and any(part in self.facts.spans for part in walk(node))

    def _surely_number(self, node: cst.BaseExpression) -> bool:
        names = {v.value if isinstance(v, cst.Name) else "self" for v in variables(node)}
        return not (names - self.facts.numbers) or not self.facts.varies(node)

    def _may_be_tensor(self, node: cst.BaseExpression) -> bool:
        return self._independent(node) and self._varies(node) and not self._surely_number(node)

    def _check_printer(self, call: cst.Call) -> None:
        name = dotted(call.func)
        if host.names_its_line(call, self.facts.source):
            raise Blocked(call, "the log names the line and function that write to it", "log every N batches")
        if name in self.facts.names.functions and not host.host_only(name, self.facts.names):
            raise Blocked(call, f"`{name}(…)` does more than print", "call it every N batches")
        for argument in call.args:
            if isinstance(argument.value, cst.Name) and argument.value.value in self.facts.tensors - self.state:
                obstacle = f"it prints the tensor `{argument.value.value}` itself, not its value"
                raise Blocked(argument.value, obstacle, "print the tensor every N batches")
