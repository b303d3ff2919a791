"""The user's statements as a function that runs later, and the call that records them.

In: a `StatementRun` of a `Deferral`. Out: the function's text and the splice for the call. The statements are moved as
they stand, comments included; only the places where a value was read become names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.patch.code.line_length import line_limit
from tracelens.patch.code.names import key, parameters, rebound, touched, variables, walk, written
from tracelens.patch.code.outside import FILES, OUTPUT
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import comprehensions
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.deferral.direct_calls import DirectCall, has_comments
from tracelens.patch.deferral.planning import StatementRun
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import declared, own_nodes

FEWEST_NOUN_LETTERS = 2
"""A variable of one letter says nothing in the name of a function, which stands apart from where it is bound."""
MOST_NOUN_LETTERS = 24
"""A longer noun says no more in the name of a function."""
_READ_SUFFIX = re.compile(r"_(values?|list|array|on_host)(_\d+)?$")
"""What `naming` adds to the noun of a value that is read."""
_MAYBE_READS = frozenset({"formatted", "number"})
"""Kinds of captures that are a read only where the value turns out to be a tensor: the step's number may be one."""


def name_of(facts: LoopFacts, run: StatementRun) -> str:
    """A name for the function: what its statements do, and with what, such as `log_loss` or `record_accuracy`.

    `check`: they end the training; `log`: they write lines; `record`: they only add up or keep values.
    """
    parts = [part for statement in run.statements for part in walk(statement)]
    logs = any(written(statement, facts.names) & {OUTPUT, FILES} for statement in run.statements)
    verb = "check" if any(part in facts.guards for part in parts) else "log" if logs else "record"
    reading = (c for c in run.captures if c.read and not _is_deed(c))
    captures = sorted(reading, key=lambda c: (c.read in _MAYBE_READS, "loss" not in c.name))
    reads = (_READ_SUFFIX.sub("", capture.name).strip("_") for capture in captures)
    noun = next((r for r in reads if r != "value" and FEWEST_NOUN_LETTERS <= len(r) <= MOST_NOUN_LETTERS), "results")
    return f"{verb}_{noun}"


def _is_deed(capture: Capture) -> bool:
    """Whether a value is named after the function that does something and returns it: `finish_episode()`."""
    return isinstance(capture.value, cst.Call) and isinstance(capture.value.func, cst.Name) and not capture.value.args


@dataclass(frozen=True)
class DeferredFunction:
    """One run of statements, taken out of its loop."""

    facts: LoopFacts
    run: StatementRun
    name: str
    ahead: str
    """The name of the DeferredReads object of the loop."""
    calls: tuple[DirectCall, ...] = ()
    """The statements as calls that wait by themselves: then nobody needs the function."""

    def definition(self, indent: str | None = None) -> str:
        """The function, at the loop's indentation or another one, with a newline at its end."""
        body: list[cst.BaseStatement] = []
        shared = sorted(self.shared())
        for word, names in (("nonlocal", [n for n in shared if self.nested(n)]), ("global", shared)):
            chosen = [n for n in names if word == "nonlocal" or not self.nested(n)]
            if chosen:
                body.append(_line(f"{word} {', '.join(chosen)}"))
        body += self.statements()
        parameters = cst.Parameters([cst.Param(cst.Name(capture.name)) for capture in self.run.captures])
        function = cst.FunctionDef(cst.Name(self.name), parameters, cst.IndentedBlock(body))
        source = self.facts.source
        return rendered([function], source, source.indentation(self.facts.loop) if indent is None else indent)

    def call(self) -> Splice:
        """Puts the recording call where the statements stood."""
        source, statements = self.facts.source, self.run.statements
        arguments = [self.name, *(self._argument(capture) for capture in self.run.captures)]
        if isinstance(statements[0], cst.BaseSmallStatement):
            return Splice(*source.span(statements[0]), f"{self.ahead}.defer({', '.join(arguments)})")
        text = wrapped(f"{self.ahead}.defer", arguments, source.indentation(statements[0]), source)
        start = source.line_start(first_comment(source, statements[0]))
        end = source.line_start(source.last_line(statements[-1]) + 1)
        if self.calls:
            return Splice(start, end, self._each_waiting(start, end))
        ending = "\n" if source.text[start:end].endswith(("\n", "\r")) else ""
        return Splice(start, end, text + ending)

    def shared(self) -> frozenset[str]:
        """Names that the statements bind and that others may see."""
        bound = {name for statement in self.run.statements for node in walk(statement) for name in _bound(node)}
        return frozenset(name for name in bound if not self._private(name))

    def unbound(self, moved: frozenset[cst.CSTNode]) -> frozenset[str]:
        """Shared names that nothing in the enclosing function binds any more once `moved` has left it."""
        return frozenset(name for name in self.shared() if self.nested(name) and not self._bound_outside(name, moved))

    def nested(self, name: str) -> bool:
        """Whether the loop's function owns the name; else it is a global."""
        scope = self.facts.scope
        return isinstance(scope, cst.FunctionDef) and name not in declared(scope, cst.Global)

    def _bound_outside(self, name: str, moved: frozenset[cst.CSTNode]) -> bool:
        scope = self.facts.scope
        if not isinstance(scope, cst.FunctionDef):
            return True
        if name in declared(scope, cst.Nonlocal) or name in parameters(scope):
            return True
        return any(name in _bound(node) for node in own_nodes(scope) if node not in moved)

    def named(self) -> StatementRun:
        """The run with a value under the name that the script gives it: `acc = acc_value` says nothing then."""
        captures = (replace(one, name=self._own_name(one) or one.name) for one in self.run.captures)
        return replace(self.run, captures=tuple(captures))

    def _own_name(self, capture: Capture) -> str | None:
        """The name that a statement of the run gives to a value that is read, where nobody else has the name."""
        for statement in self.run.statements if capture.read and len(capture.nodes) == 1 else ():
            line = statement if isinstance(statement, cst.SimpleStatementLine) else None
            small = line.body[0] if line is not None else statement
            if not isinstance(small, cst.Assign) or small.value is not capture.nodes[0] or len(small.targets) > 1:
                continue
            aim = small.targets[0].target
            plain = isinstance(aim, cst.Name) and not has_comments(statement)
            return aim.value if isinstance(aim, cst.Name) and plain and self._private(aim.value) else None
        return None

    def _private(self, name: str) -> bool:
        """Bound afresh by these statements before anything reads it, and mentioned nowhere else."""
        if not isinstance(self.facts.scope, cst.FunctionDef):
            return False
        first = next(s for s in self.run.statements if name in touched(s, self.facts.names))
        assign = first.body[0] if isinstance(first, cst.SimpleStatementLine) else first
        if not isinstance(assign, cst.Assign) or name not in rebound(assign):
            return False
        if name in touched(assign.value, self.facts.names):
            return False
        inside = sum(_mentions(statement, name) for statement in self.run.statements)
        return _mentions(self.facts.scope, name) == inside

    def statements(self) -> Iterator[cst.BaseStatement]:
        """The statements as they stand, with names in the places where values were read."""
        replaced = {id(node): _in_place(one) for one in self.run.captures for node in one.nodes}
        replacer = _ByName(replaced, self.ahead)
        for position, statement in enumerate(self.run.statements):
            new = statement.visit(replacer)
            new = _unannotated(new) if isinstance(new, cst.CSTNode) else new
            if isinstance(new, cst.CSTNode) and _says_nothing(new):
                continue
            if isinstance(new, cst.BaseSmallStatement):
                yield cst.SimpleStatementLine([new.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
            elif isinstance(new, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                yield new if position else _without_blank_lines(new)

    def _each_waiting(self, start: int, end: int) -> str:
        """The text from `start` to `end`, with each call of a method as one that waits; comments stay."""
        source, out = self.facts.source, ""
        for one in self.calls:
            first, last = source.span(one.statement)
            indent = source.indentation(one.statement)
            arguments = [one.called, *map(self._given, one.arguments)]
            out += source.text[start:first] + wrapped(f"{self.ahead}.defer", arguments, indent, source).lstrip()
            start = last
        return out + source.text[start:end]

    def _given(self, argument: Capture | str) -> str:
        return argument if isinstance(argument, str) else self._argument(argument)

    def _argument(self, capture: Capture) -> str:
        if capture.read == "choice":
            return comprehensions.pending(self.facts.source, capture.nodes[0], self.ahead)
        if capture.read == "comprehension":
            return comprehensions.argument(self.facts.source, _comprehension(capture), self.ahead)
        if capture.read == "elapsed":
            return self._elapsed(cst.ensure_type(capture.nodes[0], cst.BinaryOperation))
        return f"{self.ahead}.{capture.read}({capture.text})" if capture.read else capture.text

    def _elapsed(self, span: cst.BinaryOperation) -> str:
        code = self.facts.source.code
        stop = f"{self.ahead}.tick({code(span.left.func)})" if isinstance(span.left, cst.Call) else code(span.left)
        return f"{self.ahead}.elapsed({code(span.right)}, {stop})"


class _ByName(cst.CSTTransformer):
    """Puts names in the places where values were read."""

    def __init__(self, replaced: Mapping[int, cst.BaseExpression], ahead: str) -> None:
        super().__init__()
        self._replaced = replaced
        self._ahead = ahead

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        if isinstance(original_node, cst.Break):  # of a guard that looks later; the loop is no longer around it
            return cst.Return(cst.parse_expression(f"{self._ahead}.leave()"))
        return self._replaced.get(id(original_node), updated_node)


def _in_place(capture: Capture) -> cst.BaseExpression:
    """What stands for a value in the function."""
    if capture.read == "comprehension":
        return comprehensions.later(_comprehension(capture), capture.name)
    return cst.parse_expression(capture.name)  # a name, or a call of its `item`


def _comprehension(capture: Capture) -> comprehensions.Comprehension:
    node = capture.nodes[0]
    assert isinstance(node, comprehensions.Comprehension)
    return node


def _says_nothing(node: cst.CSTNode) -> bool:
    """`loss = loss`, which is left of a statement whose value has its name already."""
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else node
    if not isinstance(small, cst.Assign) or len(small.targets) > 1:
        return False
    target, value = small.targets[0].target, small.value
    return isinstance(target, cst.Name) and isinstance(value, cst.Name) and target.value == value.value


def _unannotated(node: cst.CSTNode) -> cst.CSTNode:
    """`v = x` for `v: float = x`: a name that belongs to another scope cannot be annotated."""
    for part in list(walk(node)):
        if isinstance(part, cst.AnnAssign) and part.value is not None and isinstance(part.target, cst.Name):
            plain = cst.Assign([cst.AssignTarget(part.target)], part.value, part.semicolon)
            node = plain if node is part else node.deep_replace(part, plain)
    return node


def _line(code: str) -> cst.BaseStatement:
    return cst.ensure_type(cst.parse_statement(code), cst.SimpleStatementLine)


def rendered(statements: Sequence[cst.BaseStatement], source: SourceFile, indent: str) -> str:
    """The code of statements at an indentation: written inside a dummy block of it, which is cut off."""
    unit = source.module.default_indent
    if not indent:
        return "".join(cst.Module([], default_indent=unit).code_for_node(statement) for statement in statements)
    wrapper = cst.If(cst.Name("x"), cst.IndentedBlock(statements, indent=indent))
    return cst.Module([wrapper], default_indent=unit).code.partition("\n")[2]


def wrapped(function: str, arguments: list[str], indent: str, source: SourceFile) -> str:
    """A call on one line, or broken as formatters break it: its arguments below, each on a line where they need it."""
    inner, limit = indent + source.module.default_indent, line_limit(source)
    together = ", ".join(arguments)
    if len(f"{indent}{function}({together})".expandtabs(4)) <= limit or "\n" in together:
        return f"{indent}{function}({together})"
    if len(f"{inner}{together}".expandtabs(4)) <= limit:
        return f"{indent}{function}(\n{inner}{together}\n{indent})"
    return "\n".join([f"{indent}{function}(", *(f"{inner}{argument}," for argument in arguments), f"{indent})"])


def _without_blank_lines(node: cst.SimpleStatementLine | cst.BaseCompoundStatement) -> cst.BaseStatement:
    """Without the empty lines above it, which stay where they were."""
    lines = list(node.leading_lines)
    while lines and lines[0].comment is None:
        lines.pop(0)
    return node.with_changes(leading_lines=lines)


def first_comment(source: SourceFile, statement: cst.CSTNode) -> int:
    """The line of the first comment above a statement, or its own."""
    leading = getattr(statement, "leading_lines", ())
    commented = [index for index, above in enumerate(leading) if above.comment is not None]
    line = source.line(statement)
    return line - (len(leading) - commented[0]) if commented else line


def _bound(node: cst.CSTNode) -> frozenset[str]:
    if isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)):
        return rebound(node)
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return frozenset({node.name.value})
    if isinstance(node, cst.ExceptHandler) and node.name is not None and isinstance(node.name.name, cst.Name):
        return frozenset({node.name.name.value})
    return frozenset()


def _mentions(node: cst.CSTNode, name: str) -> int:
    return sum(1 for variable in variables(node) if key(variable) == name)
