"""What statements that only log or accumulate need so that they can run later.

In: statements that stand together, the facts of their loop, and the keys of the results ("state") that all such
statements share. Out: `StatementCaptures.captures`: the expressions to evaluate where the statements stood, and the
names that stand for them in the function that runs later. Raises `Blocked` where a statement does more than log or
accumulate.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import WHOLE_SELF, dotted, is_output, rebound, root_key, variables
from tracelens.patch.code.outside import looked_at
from tracelens.patch.deferral import value_types
from tracelens.patch.deferral.expressions import ExpressionCaptures
from tracelens.patch.deferral.kept_parts import kept_parts
from tracelens.patch.deferral.step_meters import is_meter
from tracelens.patch.deferral.written_through import WRITERS
from tracelens.patch.effects.file_lines import SETS_BAR_TEXT
from tracelens.patch.loop import guards, host, moments
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.loops import BUILTINS, Blocked, Suspected
from tracelens.patch.loop.sites import reads_in


class StatementCaptures(ExpressionCaptures):
    """Collects the captures of statements that stand together; one object makes one function."""

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
            raise Blocked(
                node, say("a loop, with or try around the results cannot run later"), say("read every N batches")
            )

    def small(self, node: cst.CSTNode) -> None:
        if guards.ends(self.facts, node):
            self._guard(node)
        elif isinstance(node, cst.Expr):
            self._expression_statement(node)
        elif isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            self._assignment(node)
        elif not isinstance(node, cst.Pass):
            word = type(node).__name__.lower()
            raise Blocked(
                node,
                say("`{word}` depends on the value in the same batch", word=word),
                say("keep it, or check every N batches"),
            )
        captured = {id(part) for capture in self.captures.values() for part in capture.nodes}
        for part in kept_parts(self.facts, node):
            if id(part) not in captured:
                obstacle = say("what it calls changes things that the loop goes on with")
                raise Blocked(part, obstacle, say("call it in a statement of its own"))

    def _file(self, node: cst.With) -> None:
        """`with open(path, "a") as file:`, whose whole body writes into the file."""
        for item in node.items:
            self._arguments(cst.ensure_type(item.item, cst.Call))
        self.state |= rebound(node)
        for statement in node.body.body:
            line = cst.ensure_type(statement, cst.SimpleStatementLine)
            if (table := self._table(line)) is not None:
                self._arguments(table)
            else:
                self.statement(line)

    def _table(self, line: cst.SimpleStatementLine) -> cst.Call | None:
        """`writer = csv.writer(file)`: what writes rows into the file that is open."""
        made = line.body[0] if len(line.body) == 1 else None
        call = made.value if isinstance(made, cst.Assign) else None
        if not isinstance(call, cst.Call) or self.facts.names.qualified(call.func) not in WRITERS:
            return None
        self.state |= rebound(line.body[0])
        return call

    def _branch(self, node: cst.If) -> None:
        outer = self._definite
        self._guard(node) if node in self.facts.guards else self.expression(node.test)
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

    def _guard(self, node: cst.CSTNode) -> None:
        """A guard that looks later, or the end of one: what it looks at is kept, and what it says."""
        for part, tensor in guards.parts(node, self.facts.names):
            if tensor is not None and self._independent(part) and self._may_be_tensor(tensor):
                self._capture(tensor, "number", tensor)
            else:
                self.expression(part)

    def _expression_statement(self, node: cst.Expr) -> None:
        call = node.value
        if isinstance(call, cst.BaseString):
            return
        if not isinstance(call, cst.Call):
            raise Blocked(
                node, say("the statement does more than log or accumulate"), say("read the value every N batches")
            )
        if not kept_parts(self.facts, node):
            host.check_behind(call, self.facts)
        self._stores = not is_output(call, self.facts.names)
        if not self._stores:
            self._check_printer(call)
        elif not self._collects(call):
            text = dotted(call.func) or "a function"
            obstacle = say("`{text}(…)` may do more than log or accumulate", text=text)
            blocked = Blocked(node, obstacle, say("call it every N batches"))
            if not self._may_collect(call):
                raise blocked
            doubt(self.facts, blocked.suspected())
        self._arguments(call)
        if isinstance(call.func, cst.Attribute):
            self._receiver(call.func.value)

    def _collects(self, call: cst.Call) -> bool:
        if not isinstance(call.func, cst.Attribute):
            return False
        receiver = root_key(call.func.value) or ""
        method = call.func.attr.value
        meter = is_meter(call, self.facts)
        trains = method in host.TRAINS and not meter
        holds = (self.facts.held_by(frozenset({receiver})) & self.facts.trained) - ({receiver} if meter else set())
        trainer = host.TRAINERS.search(receiver.rpartition(".")[2]) and not self._is_plain_list(receiver)
        if trains or holds or trainer:
            called = dotted(call.func) or " ".join(self.facts.source.code(call.func).split())
            obstacle = say("the value reaches `{call}(…)`, which takes part in the training", call=called)
            blocked = Blocked(call, obstacle, say("hand it the tensor instead of the number, if it can use that"))
            by_hearsay = self.facts.by_text and not trains and not trainer
            if method not in SETS_BAR_TEXT and not (by_hearsay and self._is_made_without(receiver, holds)):
                raise blocked
            held = (
                say("`{receiver}` was given `{holds}`, which the loop trains", receiver=receiver, holds=min(holds))
                if holds
                else obstacle
            )
            doubt(self.facts, Suspected(call, obstacle if self.facts.doubts is None else held, blocked.by_hand))
        if _handed_out(call.func.value):
            obstacle = say("`{receiver}(…)` hands out an object that others may have too", receiver=receiver)
            doubt(self.facts, Suspected(call, obstacle, say("give it a name before the loop, and use that")))
        if receiver in BUILTINS - {"super"}:  # `list.append(losses, …)`: what it changes is an argument
            return False
        if looked_at(self.facts.names.qualified(call.func), method, bool(call.args)):
            return False
        return (
            meter
            or bool(host.COLLECTS.fullmatch(method))
            or (receiver in self.state and self._only_shows(call, receiver))
        )

    def _is_made_without(self, name: str, trained: frozenset[str]) -> bool:
        """Whether no line of the file that makes the object hands it one that is trained: a meter that has the
        optimizer all the same has it from somewhere that may mean another object."""
        values = list(value_types.values_of(name, self.facts))
        given = {root_key(one) for value in values if value is not None for one in variables(value)}
        return bool(values) and all(isinstance(value, cst.Call) for value in values) and not given & trained

    def _is_plain_list(self, name: str) -> bool:
        """Whether a name stands for a list or dict that is written there, whatever it is called: `dist = []`."""
        values = list(value_types.values_of(name, self.facts))
        return bool(values) and all(isinstance(value, (cst.List, cst.Dict, cst.ListComp)) for value in values)

    def _may_collect(self, call: cst.Call) -> bool:
        """Whether a call, by its name, takes the value and no more: `writer.flush()`, `report(loss)`."""
        name, names = dotted(call.func), self.facts.names
        if not host.SPEAKS_OF_LOGS.search(name.rpartition(".")[2]):
            return False
        full = names.qualified(call.func)
        if not isinstance(call.func, cst.Attribute):
            return full in names.functions or name in names.imports
        receiver = root_key(call.func.value)
        on_class = receiver is None or receiver in BUILTINS
        return not on_class and not looked_at(full, call.func.attr.value, bool(call.args))

    def _only_shows(self, call: cst.Call, receiver: str) -> bool:
        """A method of a result that is given nothing, such as `progress.display(i)`, and knows nothing of the rest."""
        has_read = any(self._independent(read.tensor) for read in reads_in(call)) or self._measures(call)
        if has_read or not all(self._independent(argument.value) for argument in call.args):
            return False
        method, names = dotted(call.func).rpartition(".")[2], self.facts.names
        if receiver in WHOLE_SELF:
            return method in names.functions
        others = self.facts.held_by(frozenset({receiver})) - self.state
        imported = receiver in names.imports and self.facts.alone(call).of_project
        return not imported and not others & self.facts.changed_inside

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
                    raise Blocked(target, say("it stores into a slice"), say("store every N batches"))
                self.expression(part.slice.value)
        elif isinstance(target, (cst.Name, cst.Attribute)):
            moments.check(target, self.facts)
            self._receiver(target)
        elif not isinstance(target, cst.Name):
            raise Blocked(target, say("it stores where that cannot be followed"), say("store every N batches"))

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


def _handed_out(receiver: cst.BaseExpression) -> bool:
    """Whether an object comes from a plain function, or is made where it is used."""
    while isinstance(receiver, (cst.Attribute, cst.Subscript, cst.Call)):
        if isinstance(receiver, cst.Call) and isinstance(receiver.func, cst.Name):
            return receiver.func.value != "super"
        receiver = receiver.func if isinstance(receiver, cst.Call) else receiver.value
    return False
