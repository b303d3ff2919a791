"""The text of a plan without a helper: lists of detached tensors, and where they are read.

In: a `PlainPlan`. Out: splices of one file. The statements stand either at the places where the lists are read, or in
one function of the loop that is called there, whichever is shorter:

    pending_losses.append(loss.detach().clone())         pending_losses.append(loss.detach().clone())
    if len(pending_losses) == 10:                        if step % 100 == 0:
        for loss_value in pending_losses:                    log_loss()
            total += loss_value.item()                       print(step, total)
        pending_losses.clear()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.patch.code.line_length import line_limit
from tracelens.patch.code.names import key, variables, walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import bar_texts, loop_lines, one_device, value_types
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.deferral.direct_calls import has_comments
from tracelens.patch.deferral.function import DeferredFunction, first_comment, name_of, rendered, wrapped
from tracelens.patch.deferral.loop_exits import hides_nothing, leaving
from tracelens.patch.deferral.own_copies import kept
from tracelens.patch.deferral.plain_plan import PlainPlan, unbound_names
from tracelens.patch.deferral.planning import StatementRun
from tracelens.patch.deferral.read_places import ReadPlace, once
from tracelens.patch.loop.bars import number_of
from tracelens.patch.loop.facts import LoopFacts

Unused = Callable[[str], str]
"""Makes a name that the file does not have."""
_READS = {"item": ".item()", "tolist": ".tolist()", "numpy": ".cpu().numpy()"}
"""How a kept tensor, which has no graph, is read; by `item()` as well where it is formatted or converted."""
_ELEMENTS = ("value", "tensor", "waiting", "kept")
"""Names for one of the tensors of a list, of which a file has some already."""
_MOST_LINES_IN_COPIES = 6
"""Statements that are written at several places have no more lines than this, at all of them together."""


def splices(plan: PlainPlan, every: int, unused: Unused) -> list[Splice]:
    """Everything that changes in the file."""
    facts = plan.deferral.facts
    if plan.texts:
        return bar_texts.splices(plan.deferral, every)
    runs = [DeferredFunction(facts, run, "", "").named() for run in plan.runs]
    lists = tuple(_List(unused(_list_name(facts, run)), run, facts) for run in runs)
    in_function = _Writer(plan, lists, every).in_function(unused)
    writer = _Writer(plan, tuple(map(_with_new_names, lists)), every)
    if not writer.may_stand_in_place():
        return in_function
    return min(writer.in_place(), in_function, key=lambda changes: sum(one.text.count("\n") for one in changes))


def _with_new_names(one: _List) -> _List:
    """The list with a name of its own for each value that the script has under a name: outside of a function the loop
    over what waits would bind that name anew. As it is where a statement says the name itself."""
    run, facts = one.run, one.facts
    if any(_says_names(part) for statement in run.statements for part in walk(statement)):
        return one
    captures: list[Capture] = []
    for capture in run.captures:
        names = (name for statement in run.statements for name in variables(statement))
        nodes = tuple(name for name in names if key(name) == capture.name)
        taken = {other.name for other in (*run.captures, *captures)}
        new = unused_name(f"{capture.name}_value", facts.taken, taken)
        captures.append(capture if capture.nodes else replace(capture, name=new, nodes=nodes))
    return replace(one, run=replace(run, captures=tuple(captures)))


def _list_name(facts: LoopFacts, run: StatementRun) -> str:
    noun = name_of(facts, run).partition("_")[2]
    return f"pending_{noun}es" if noun.endswith("loss") else f"pending_{noun}"


def _says_names(part: cst.CSTNode) -> bool:
    """Whether a name could not be another one: it is shown, as in `f"{step=}"`, or bound within."""
    shown = isinstance(part, cst.FormattedStringExpression) and part.equal is not None
    return shown or isinstance(part, (cst.Lambda, cst.BaseComp, cst.FunctionDef, cst.NamedExpr))


@dataclass(frozen=True)
class _List:
    """A list of what waits: its name, and the statements whose values it holds."""

    name: str
    run: StatementRun
    facts: LoopFacts

    def appended(self, place: StatementRun, indent: str) -> str:
        """The line that keeps the values of a batch, or lines where it is too long."""
        values = [capture.early or kept(self.facts, capture) for capture in place.captures]
        source, call = self.facts.source, f"{self.name}.append"
        line = wrapped(call, [values[0] if len(values) == 1 else f"({', '.join(values)})"], indent, source)
        last = max(len(part.expandtabs(4)) for part in line.split("\n"))
        if len(values) == 1 or last <= line_limit(source):
            return line
        inner = indent + source.module.default_indent
        return "\n".join([f"{indent}{call}((", *(f"{inner}{one}," for one in values), f"{indent}))"])

    def read(self, indent: str, comments: bool = True) -> str:
        """The lines that read the list and run its statements with the numbers."""
        extended = self._extended()
        if extended is not None:
            return f"{indent}{extended}\n"
        unit = self.facts.source.module.default_indent
        run = replace(self.run, captures=tuple(map(_read_in_place, self.run.captures))) if self.one_by_one else self.run
        statements = list(DeferredFunction(self.facts, run, "", "").statements())
        body = cst.IndentedBlock(statements)
        bare = body if comments else cst.ensure_type(body.visit(_NoComments()), cst.IndentedBlock)
        return self._head(indent) + rendered(list(bare.body), self.facts.source, indent + unit)

    def _head(self, indent: str) -> str:
        """The lines above the statements: the last of them opens the loop over what waits."""
        captures = self.run.captures
        names = ", ".join(capture.name for capture in captures)
        if not self.one_by_one:
            return f"{indent}for {names} in {self._numbers(captures[0], self.name)}:\n"
        inner = indent + self.facts.source.module.default_indent
        reads = [f"{inner}{one.name} = {one.name}.item()\n" for one in captures if one.read and len(one.nodes) > 1]
        return f"{indent}for {names} in {self.name}:\n{''.join(reads)}"

    @property
    def one_by_one(self) -> bool:
        """Whether each value is read by itself, where it is used: of tuples, and of a single use.

        The first read waits for the GPU; the others find their numbers there, in some microseconds each.
        """
        return len(self.run.captures) > 1 or len(self.run.captures[0].nodes) == 1

    @property
    def may_be_empty(self) -> bool:
        """Whether the list is read as well where nothing is in it: a stack of nothing is an error."""
        alone = self.one_by_one and self._extended() is None
        return alone or not self._stacks(self.run.captures[0])

    def _stacks(self, capture: Capture) -> bool:
        whole = capture.read != "numpy" and value_types.stacks(capture.value, self.facts)
        named = self.facts.names.imports.get("torch") == "torch"
        return whole and named and not self.run.again and one_device.is_certain(capture.value, self.facts)

    def _numbers(self, capture: Capture, name: str) -> str:
        """One read of all values where all are known to have one shape, type and device; else each as the script
        read it, which costs little once the first has come: nothing is queued any more."""
        if not capture.read:
            return name
        if self._stacks(capture):
            return f"torch.stack({name}).tolist()"
        taken = {*self.facts.taken, *(each.name for each in self.run.captures)}
        one = next((word for word in _ELEMENTS if word not in taken), None) or unused_name("value", taken)
        return f"[{_read(capture, one)} for {one} in {name}]"

    def _extended(self) -> str | None:
        """`losses.extend(…)` for `losses.append(loss.item())`, where `losses` is a list and nothing else."""
        line = self.run.statements[0]
        if len(self.run.statements) > 1 or len(self.run.captures) > 1 or has_comments(line):
            return None
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        call = small.value if isinstance(small, cst.Expr) else None
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and len(call.args) == 1):
            return None
        target, capture = call.func.value, self.run.captures[0]
        appended = call.func.attr.value == "append" and capture.read in _READS
        if not (appended and isinstance(target, cst.Name)):
            return None
        values = list(value_types.values_of(target.value, self.facts))
        lists = bool(values) and all(isinstance(value, cst.List) for value in values)
        whole = capture.nodes == (call.args[0].value,)
        return f"{target.value}.extend({self._numbers(capture, self.name)})" if lists and whole else None


def _read_in_place(capture: Capture) -> Capture:
    """A value that its only place reads: `losses.update(loss_value.item(), n)`."""
    once = capture.read and len(capture.nodes) == 1
    return replace(capture, name=_read(capture, capture.name)) if once else capture


def _read(capture: Capture, name: str) -> str:
    """What a value is read by, under a name."""
    return f"{name}{_READS.get(capture.read, '.item()')}"


@dataclass(frozen=True)
class _Writer:
    """Puts the lists of one loop, and what reads them, into its file."""

    plan: PlainPlan
    lists: tuple[_List, ...]
    every: int

    @property
    def facts(self) -> LoopFacts:
        return self.plan.deferral.facts

    @property
    def source(self) -> SourceFile:
        return self.facts.source

    @property
    def unit(self) -> str:
        return self.source.module.default_indent

    def may_stand_in_place(self) -> bool:
        """Whether the statements may stand where the lists are read: nobody else has their new names, and they are
        written behind the loop alone, or are short."""
        if any(not capture.nodes for one in self.lists for capture in one.run.captures):
            return False
        filling = max(len(one.run.places) for one in self.lists)
        copies = len(self._drains()) + self.plan.reads_every_n * filling + 1
        statements = [statement for one in self.lists for statement in one.run.statements]
        lines = sum(self.source.last_line(node) - self.source.line(node) + 1 for node in statements)
        simple = all(isinstance(node, cst.SimpleStatementLine) for node in statements)
        return copies == 1 or (simple and copies * lines <= _MOST_LINES_IN_COPIES)

    def in_place(self) -> list[Splice]:
        """The statements at each place where the lists are read."""
        out = [self._before(self._made()), *self._counted()]
        for one in self.lists:
            for place in one.run.places:
                out.append(self._appended(one, place, self._every_nth(one, place)))
                out += self._removed(place)
        first = not self.plan.reads_every_n
        out += [self._above(place, lambda indent: self._all(indent, first, True)) for place in self._drains()]
        first = first and not self._drains()
        return [*out, self._after(self._all(self.source.indentation(self.facts.loop), first, False))]

    def in_function(self, unused: Unused) -> list[Splice]:
        """The statements in one function of the loop, and calls of it."""
        name = unused(name_of(self.facts, _together(self.lists)))
        indent = self.source.indentation(self.facts.loop)
        out = [
            *self._counted(),
            self._before(f"{self._unset(indent)}{self._made()}\n{self._definition(name, indent)}\n"),
        ]
        for one in self.lists:
            often = self.plan.reads_every_n and (one is self.lists[-1] or _block(one) is not _block(self.lists[-1]))
            for place in one.run.places:
                inner = self.source.indentation(place.statements[-1])
                below = f"{inner}if {self._is_due(one)}:\n{inner}{self.unit}{name}()\n" if often else ""
                out.append(self._appended(one, place, below))
                out += self._removed(place)
        out += [self._above(place, lambda indent: f"{indent}{name}()\n") for place in self._drains()]
        return [*out, self._after(f"{indent}{name}()\n")]

    # ---------------------------------------------------------------------------------------------- lines

    def _made(self) -> str:
        indent = self.source.indentation(self.facts.loop)
        note = f"  # on the device, read {self.every} at a time" if self.plan.reads_every_n else ""
        return "".join(f"{indent}{one.name} = []{note}\n" for one in self.lists)

    def _unset(self, indent: str) -> str:
        """A line for the names that only the function binds from now on, and that only the loop looks at."""
        unbound = unbound_names(self.plan)
        return f"{indent}{' = '.join(sorted(unbound))} = None\n" if unbound else ""

    def _definition(self, name: str, indent: str) -> str:
        inner = indent + self.unit
        functions = [DeferredFunction(self.facts, one.run, name, "") for one in self.lists]
        shared = sorted({name for function in functions for name in function.shared()})
        outer = [name for name in shared if functions[0].nested(name)]
        out = f"{indent}def {name}():\n"
        out += f"{inner}nonlocal {', '.join(outer)}\n" if outer else ""
        module = [name for name in shared if name not in outer]
        out += f"{inner}global {', '.join(module)}\n" if module else ""
        for one in self.lists:
            if one.may_be_empty:
                out += f"{one.read(inner)}{inner}{one.name}.clear()\n"
            else:
                out += f"{inner}if {one.name}:\n{one.read(inner + self.unit)}{inner}{self.unit}{one.name}.clear()\n"
        return out

    def _every_nth(self, one: _List, place: StatementRun) -> str:
        if not self.plan.reads_every_n:
            return ""
        indent = self.source.indentation(place.statements[-1])
        inner = indent + self.unit
        return f"{indent}if {self._is_due(one)}:\n{one.read(inner)}{inner}{one.name}.clear()\n"

    def _is_due(self, one: _List) -> str:
        """When a list is read without anybody who asks for it: it is full, or the bar is about to close."""
        bar = self.plan.deferral.bar
        number = number_of(self.facts, bar) if bar is not None else None
        last = f" or {bar.is_last(number.passed)}" if bar is not None and number is not None else ""
        return f"len({one.name}) == {self.every}{last}"

    def _all(self, indent: str, comments: bool, again: bool) -> str:
        return "".join(self._if_any(one, indent, comments, again) for one in self.lists)

    def _if_any(self, one: _List, indent: str, comments: bool, again: bool) -> str:
        """The list read, if anything is in it; emptied where more may follow (`again`)."""
        inner = indent + self.unit
        if one.may_be_empty:
            return one.read(indent, comments) + (f"{indent}{one.name}.clear()\n" if again else "")
        clear = f"{inner}{one.name}.clear()\n" if again else ""
        return f"{indent}if {one.name}:\n{one.read(inner, comments)}{clear}"

    # -------------------------------------------------------------------------------------------- splices

    def _counted(self) -> tuple[Splice, ...]:
        """What the `for` line needs so that the last batch of a bar is known."""
        bar = self.plan.deferral.bar
        number = number_of(self.facts, bar) if bar is not None else None
        return number.splices if number is not None else ()

    def _drains(self) -> tuple[ReadPlace, ...]:
        """Above what the lists are read for what follows: the plan's places, what leaves the loop, or its bar."""
        left = leaving(self.facts, breaks=self.plan.deferral.bar is not None)
        moved = [node for run in self.plan.runs for node in run.statements]
        seen = (line for line in left if self.plan.lost or not hides_nothing(self.facts, line, moved))
        lines = (ReadPlace(line, line) for line in seen)
        filling = [place for run in self.plan.runs for place in run.places]
        return once(self.facts, (*self.plan.deferral.places.shown, *lines), filling)

    def _before(self, text: str) -> Splice:
        top = self.source.line_start(loop_lines.first_line(self.source, self.facts.loop))
        return Splice(top, top, text, loop_lines.BEFORE)

    def _after(self, text: str) -> Splice:
        line = loop_lines.line_after(self.source, self.facts.loop)
        return loop_lines.whole_line(self.source, line, text.removesuffix("\n"))

    def _above(self, place: ReadPlace, text: Callable[[str], str]) -> Splice:
        """What reads the lists at a place; `text` gives it for an indentation."""
        indent = self.source.indentation(place.statement)
        lines = f"{indent}if {place.test}:\n{text(indent + self.unit)}" if place.test else text(indent)
        begin = self.source.line_start(loop_lines.line_of(self.source, place))
        return Splice(begin, begin, lines, loop_lines.INSIDE)

    def _appended(self, one: _List, place: StatementRun, below: str) -> Splice:
        """What takes the place of the last statement of a list, and of those that stand directly above it."""
        last = place.statements[-1]
        indent = self.source.indentation(last)
        span = _lines_of(self.source, last)
        text = f"{one.appended(place, indent)}\n{below}"
        whole = self.source.text[span[0] : span[1]].endswith(("\n", "\r"))
        return Splice(*span, text if whole else text.removesuffix("\n"))

    def _removed(self, place: StatementRun) -> list[Splice]:
        """The statements that wait are gone from their places, where some of their values are taken."""
        return [self._early(place, node) for node in place.statements[:-1]]

    def _early(self, place: StatementRun, node: cst.CSTNode) -> Splice:
        indent = self.source.indentation(node)
        taken = (capture for capture in place.captures if capture.at is node)
        text = "".join(f"{indent}{capture.early} = {kept(self.facts, capture)}\n" for capture in taken)
        return Splice(*_lines_of(self.source, node), text)


def _together(lists: Sequence[_List]) -> StatementRun:
    """All statements of a loop, for their name."""
    captures = tuple(capture for one in lists for capture in one.run.captures)
    return StatementRun(tuple(node for one in lists for node in one.run.statements), captures)


def _block(one: _List) -> cst.CSTNode | None:
    return one.facts.source.parent(one.run.statements[-1])


class _NoComments(cst.CSTTransformer):
    """Statements that stand in the file a second time go without their comments."""

    def leave_TrailingWhitespace(  # noqa: N802 - LibCST's name
        self, _: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        if updated_node.comment is None:
            return updated_node
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_SimpleStatementLine(  # noqa: N802 - LibCST's name
        self, _: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        return updated_node.with_changes(leading_lines=())


def _lines_of(source: SourceFile, statement: cst.CSTNode) -> tuple[int, int]:
    """The characters of a statement's lines, with the comments above it."""
    return source.line_start(first_comment(source, statement)), source.line_start(source.last_line(statement) + 1)
