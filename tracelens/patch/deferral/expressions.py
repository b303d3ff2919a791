"""What an expression needs so that it can be evaluated later: which of its values are kept, and as what.

In: expressions of statements that run later, the facts of their loop, and the keys of the results ("state"). Out:
captures, one per value: what is evaluated where the statement stood. Raises `Blocked` where an expression does more
than compute. State is never kept: it is read when the statement runs, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code import formats
from tracelens.patch.code.names import children, dotted, is_output, meets, method_of, variables, walk
from tracelens.patch.deferral import comprehensions
from tracelens.patch.deferral.captures import Capture, CaptureRequest, keep, replaces
from tracelens.patch.effects.words import words
from tracelens.patch.loop import host, moments
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.sites import Read, is_tensor, read_of, reads_in, tensor_names

_BETWEEN = (
    cst.BaseElement,
    cst.BaseDictElement,
    cst.ComparisonTarget,
    cst.SubscriptElement,
    cst.Index,
    cst.Slice,
)
_TELLS = words("decode batch_decode convert_ids_to_tokens decode_batch")
"""Methods of tokenizers that make text of values. Whether the object is the same later is asked of the effects."""
_DEPENDING = (cst.Call, cst.Attribute, cst.Subscript, cst.BaseComp, cst.NamedExpr)


@dataclass
class ExpressionCaptures:
    """Collects the captures of expressions that are evaluated together, in one function."""

    facts: LoopFacts
    state: frozenset[str]
    captures: dict[str, Capture] = field(default_factory=dict)
    _definite: frozenset[str] | None = None
    """In a branch that may not be taken: the names that are bound all the same; None outside of branches."""
    _stores: bool = False
    """The statement keeps objects: one that the loop goes on to change must not become a copy."""
    _in_text: bool = False
    """Of the values that are taken in a text is made, by nothing that could keep them: who keeps it keeps none."""

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
        outer = self._in_text
        self._in_text = formats.makes_text(node) or (outer and not isinstance(node, _DEPENDING))
        self._take_apart(node)
        self._in_text = outer

    def _take_apart(self, node: cst.BaseExpression) -> None:
        if isinstance(node, (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda)):
            raise Blocked(node, say("the expression cannot be evaluated later"), say("take it out of the statement"))
        if isinstance(node, (cst.Name, cst.Attribute)):
            moments.check(node, self.facts)
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
        elif isinstance(node, cst.Attribute):  # its name is no variable: `state.loss` has nothing to do with `loss`
            self.expression(node.value)
        elif isinstance(node, cst.BinaryOperation) and formats.percent(node):
            for value, letter in formats.percent(node):
                self._shown(value, "number", letter in formats.NUMERIC and self._is_tensor(value))
        else:
            for child in children(node):
                self._child(child)

    def _child(self, child: cst.CSTNode) -> None:
        if isinstance(child, cst.StarredElement):  # an expression to LibCST, but the star has no value
            self.expression(child.value)
        elif isinstance(child, cst.BaseExpression):
            self.expression(child)
        elif isinstance(child, _BETWEEN):
            for part in children(child):
                self._child(part)

    def _call(self, node: cst.Call) -> None:
        full = self.facts.names.qualified(node.func)
        method = method_of(node)
        host.check_behind(node, self.facts)
        if is_output(node, self.facts.names):
            self._check_printer(node)
        elif is_pure(full):
            pass
        elif method and isinstance(node.func, cst.Attribute):
            owner = node.func.value
            if method in _TELLS and isinstance(owner, cst.Name) and owner.value not in self.facts.varying:
                self._arguments(node)
                return
            text_method = method in ("format", "join", "ljust", "rjust", "center", "strip", "upper", "lower")
            text_method = text_method or (method in formats.ON_ARRAYS and self._is_array(owner))
            if method in host.TRAINS or (self._independent(owner) and not text_method):
                name = dotted(node.func) or method
                raise Blocked(node, say("the value goes into `{name}(…)`", name=name), say("call it every N batches"))
            self.expression(owner)
        elif not host.host_only(full, self.facts.names):
            blocked = Blocked(
                node, say("the value goes into `{full}(…)`", full=full or "a call"), say("call it every N batches")
            )
            if not self.facts.names.is_library(dotted(node.func).partition(".")[0]):
                raise blocked
            doubt(self.facts, blocked.suspected())
        self._arguments(node)

    def _arguments(self, call: cst.Call) -> None:
        shown = {id(value) for value, _ in formats.values(call, formats.templates(self.facts.source))}
        for argument in call.args:
            value = argument.value
            self._shown(value, "formatted", id(value) in shown and (bool(dotted(value)) or self._is_tensor(value)))

    def _formatted_string(self, node: cst.FormattedString) -> None:
        for part in node.parts:
            if not isinstance(part, cst.FormattedStringExpression):
                continue
            named = bool(part.format_spec and dotted(part.expression)) or self._is_tensor(part.expression)
            self._shown(part.expression, "formatted", part.conversion is None and named)
            for spec in part.format_spec or ():
                if isinstance(spec, cst.FormattedStringExpression):
                    self.expression(spec.expression)
            if part.equal is not None and replaces(self.captures, part.expression):
                raise Blocked(part, say("`{{…=}}` prints the expression itself"), say("print the value without `=`"))

    def _shown(self, node: cst.BaseExpression, asked: str, as_number: bool) -> None:
        """A value that becomes text: `as_number` if it may be a tensor, whose text is then that of its number."""
        if as_number and not any(True for _ in reads_in(node)) and self._may_be_tensor(node):
            self._capture(node, asked)
        else:
            self.expression(node)

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        return is_tensor(node, tensor_names(self.facts.source)) and not self._measures(node)

    def _is_array(self, node: cst.BaseExpression) -> bool:
        """An array on the host that the statement reads, or what it computes of one: `(a.cpu().numpy() == b)`."""
        read = read_of(node)
        if read is not None:
            return read.kind in ("numpy", "host", "values") and self._readable(read)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            return node.func.attr.value in formats.ON_ARRAYS and self._is_array(node.func.value)
        if isinstance(node, cst.Subscript):
            return self._is_array(node.value)
        if isinstance(node, cst.BinaryOperation):
            return self._is_array(node.left) or self._is_array(node.right)
        return isinstance(node, cst.Comparison) and self._is_array(node.left)

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
            raise Blocked(node, say("the value decides which branch is taken"), say("read the value every N batches"))
        for branch in branches:
            first = next(iter(reads_in(branch)), None)
            if first is not None and (first.node is not branch or first.kind == "number"):
                raise Blocked(
                    node, say("only one branch reads the value, and computes with it"), say("compute below, in an `if`")
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
        if any(self._readable(read) for read in reads_in(node)):
            self._values_of(node)
            return
        own = {v.value for p in walk(node) if isinstance(p, cst.CompFor) for v in variables(p.target)}
        for part in walk(node):
            if isinstance(part, cst.Name) and part.value in self.facts.varying - self.state - own:
                raise Blocked(
                    node,
                    say("the comprehension needs `{part}` of its batch", part=part.value),
                    say("write it as a loop"),
                )

    def _values_of(self, node: cst.BaseComp) -> None:
        """A comprehension that reads a value per element: what it goes through is gone through where it stands."""
        if not isinstance(node, comprehensions.Comprehension) or not self._independent(node):
            raise Blocked(node, say("the comprehension also needs what the loop adds up"), say("write it as a loop"))
        comprehensions.check(node, self.facts)
        self._capture(node, "comprehension")

    def _without_reads(self, node: cst.BaseExpression) -> None:
        if any(self._readable(read) for read in reads_in(node)):
            raise Blocked(
                node, say("whether the value is read depends on another one"), say("read the value every N batches")
            )
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
        if isinstance(node, (cst.List, cst.Dict, cst.Tuple, cst.Set)):  # with a star it is a copy of what there is now
            return not any(isinstance(one, (cst.StarredElement, cst.StarredDictElement)) for one in node.elements)
        if isinstance(node, cst.Call):
            full = self.facts.names.qualified(node.func)
            method = method_of(node)
            return method == "format" or full in ("str", "round", "format")
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
        stores = self._stores and not self._in_text
        keep(self.captures, self.facts, CaptureRequest(node, read, tensor, stores, self._definite))

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
            raise Blocked(call, say("the log names the line and function that write to it"), say("log every N batches"))
        if name in self.facts.names.functions and not host.host_only(name, self.facts.names):
            blocked = Blocked(call, say("`{name}(…)` does more than print", name=name), say("call it every N batches"))
            if not self.facts.alone(call).bound:
                raise blocked
            doubt(self.facts, blocked.suspected())
        for argument in call.args:
            if isinstance(argument.value, cst.Name) and argument.value.value in self.facts.tensors - self.state:
                obstacle = say("it prints the tensor `{argument}` itself, not its value", argument=argument.value.value)
                raise Blocked(argument.value, obstacle, say("print the tensor every N batches"))

    def _read_by_both(self, one: cst.CSTNode, another: cst.CSTNode) -> Iterator[Read]:
        """Reads that are made whichever branch is taken, so that they may be made before it is known which."""
        other = {self._spelled(read) for read in reads_in(another) if self._readable(read)}
        for read in reads_in(one):
            if self._readable(read) and isinstance(read.tensor, cst.Name) and self._spelled(read) in other:
                yield read

    def _spelled(self, read: Read) -> tuple[str, str]:
        return read.kind, self.facts.source.code(read.tensor)
