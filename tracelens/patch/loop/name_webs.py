"""Which places of a function mean the same variable by a name that is bound more than once.

In: a function or module, and a name. Out: the `Web` of one binding: the bindings and uses that must be called alike, or
None where that cannot be told from the text. `loss = loss.item()` below `loss.backward()` begins a new variable: what
stands above it has nothing to do with what stands below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from tracelens.patch.code.names import dotted, parameters, rebound, variables, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import Scope, own_nodes

_SEES_NAMES = frozenset({"locals", "vars", "globals", "dir"})
"""What `eval` and `exec` see is asked where a plan is made."""
_SEES_MODULE = re.compile(r"import __main__|\bmodules\b")
_ENTRY = 0
"""The binding that a name has where its function begins: a parameter, a global, or none."""
_Reaching = frozenset[int] | None
"""The bindings that a place may see; None where control does not come."""


class _NotTold(Exception):
    """The text does not say which binding a place sees."""


def web(source: SourceFile, scope: Scope, binding: cst.Name) -> tuple[cst.Name, ...] | None:
    """The places that mean the variable that `binding` binds, itself included, in the order of the text.

    None where they cannot be called otherwise: others may see the name, or it has its value from outside.
    """
    if _is_seen(source, scope, binding.value):
        return None
    flow = _Flow(binding.value)
    try:
        flow.block(scope.body if isinstance(scope, cst.Module) else scope.body.body, frozenset({_ENTRY}))
    except _NotTold:
        return None
    return flow.places(binding)


def _is_seen(source: SourceFile, scope: Scope, name: str) -> bool:
    """Whether somebody looks the name up: by its text, from another function, or from another file."""
    for part in walk(scope):
        if isinstance(part, cst.Call) and dotted(part.func) in _SEES_NAMES:
            return True
        inner = isinstance(part, (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.GeneratorExp)) and part is not scope
        if inner and _uses_from_outside(part, name):
            return True
    if isinstance(scope, cst.Module):
        return source.entry not in (None, source.path) or _SEES_MODULE.search(source.project_text) is not None
    return False


def _uses_from_outside(part: cst.CSTNode, name: str) -> bool:
    """Whether a function, a class or anything else in a scope may mean the scope's variable by the name."""
    if not any(isinstance(one, cst.Name) and one.value == name for one in walk(part)):
        return False
    if not isinstance(part, cst.FunctionDef) or part.name.value == name:
        return True
    own = own_nodes(part)
    bound = set(parameters(part))
    shared: set[str] = set()
    for one in own:
        if isinstance(one, (cst.BaseSmallStatement, cst.For, cst.With)):
            bound |= rebound(one)
        if isinstance(one, (cst.Global, cst.Nonlocal)):
            shared |= {item.name.value for item in one.names}
    outside = [*part.decorators, *(one.default for one in walk(part.params) if isinstance(one, cst.Param))]
    asked = any(isinstance(one, cst.Name) and one.value == name for each in outside if each for one in walk(each))
    return asked or name in shared or name not in bound


@dataclass
class _Loop:
    """Where control leaves a loop that is being followed."""

    broken: list[_Reaching] = field(default_factory=list)
    continued: list[_Reaching] = field(default_factory=list)


@dataclass
class _Flow:
    """Follows the bindings of one name through the statements of a function."""

    name: str
    _numbers: dict[int, int] = field(default_factory=dict)
    """The number of each binding, by its node."""
    _seen: dict[int, set[int]] = field(default_factory=dict)
    """The bindings that each use may see."""
    _nodes: dict[int, cst.Name] = field(default_factory=dict)
    _loops: list[_Loop] = field(default_factory=list)

    def places(self, binding: cst.Name) -> tuple[cst.Name, ...] | None:
        """The bindings and uses that belong together with `binding`."""
        if id(binding) not in self._numbers:
            return None
        together = {self._numbers[id(binding)]}
        while True:
            grown = together.union(*(seen for seen in self._seen.values() if seen & together))
            if grown == together:
                break
            together = grown
        if _ENTRY in together:
            return None
        bound = {node for node, number in self._numbers.items() if number in together}
        used = {node for node, seen in self._seen.items() if seen & together}
        return tuple(node for one, node in self._nodes.items() if one in bound | used)

    # ------------------------------------------------------------------------------------------------ statements

    def block(self, statements: Sequence[cst.CSTNode], reaching: _Reaching) -> _Reaching:
        for statement in statements:
            reaching = self._statement(statement, reaching)
        return reaching

    def _statement(self, node: cst.CSTNode, reaching: _Reaching) -> _Reaching:
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.IndentedBlock)):
            return self.block(node.body, reaching)
        if isinstance(node, cst.BaseSmallStatement):
            return self._small(node, reaching)
        if isinstance(node, cst.Else):
            return self._statement(node.body, reaching)
        return self._compound(node, reaching)

    def _compound(self, node: cst.CSTNode, reaching: _Reaching) -> _Reaching:
        if isinstance(node, cst.If):
            self._uses(node.test, reaching)
            other = self._statement(node.orelse, reaching) if node.orelse is not None else reaching
            return _either(self._statement(node.body, reaching), other)
        if isinstance(node, (cst.For, cst.While)):
            return self._loop(node, reaching)
        if isinstance(node, cst.With):
            for item in node.items:
                self._uses(item.item, reaching)
                if item.asname is not None:
                    reaching = self._binds(item.asname.name, reaching)
            return _either(self._statement(node.body, reaching), self._within(node.body, reaching))  # it may suppress
        if isinstance(node, cst.Try):
            return self._try(node, reaching)
        if _uses_from_outside(node, self.name):
            raise _NotTold  # a function, a class, `match`
        return reaching

    def _small(self, node: cst.BaseSmallStatement, reaching: _Reaching) -> _Reaching:
        if isinstance(node, (cst.Break, cst.Continue)):
            loop = self._loops[-1]
            (loop.broken if isinstance(node, cst.Break) else loop.continued).append(reaching)
            return None
        if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)) and node.value is not None:
            self._uses(node.value, reaching)
            if isinstance(node, cst.AugAssign):
                self._uses(node.target, reaching)
            if isinstance(node, cst.AnnAssign):
                self._uses(node.annotation, reaching)
            aims = [aim.target for aim in node.targets] if isinstance(node, cst.Assign) else [node.target]
            for aim in aims:
                reaching = self._binds(aim, reaching, together=isinstance(node, cst.AugAssign))
            return reaching
        shared = isinstance(node, (cst.Global, cst.Nonlocal)) and any(n.name.value == self.name for n in node.names)
        other = shared or self.name in rebound(node) or isinstance(node, (cst.Del, cst.AnnAssign))
        if other and self._mentioned(node):
            raise _NotTold
        self._uses(node, reaching)
        return None if isinstance(node, (cst.Return, cst.Raise)) else reaching

    def _loop(self, node: cst.For | cst.While, reaching: _Reaching) -> _Reaching:
        if isinstance(node, cst.For):
            self._uses(node.iter, reaching)
        entered: _Reaching = reaching
        while True:
            loop = _Loop()
            self._loops.append(loop)
            if isinstance(node, cst.For):
                inside = self._binds(node.target, entered)
            else:
                self._uses(node.test, entered)
                inside = entered
            again = _union([self._statement(node.body, inside), *loop.continued])
            self._loops.pop()
            grown = _either(entered, again)
            if grown == entered:
                break
            entered = grown
        left = self._statement(node.orelse, entered) if node.orelse is not None else entered
        return _union([left, *loop.broken])

    def _try(self, node: cst.Try, reaching: _Reaching) -> _Reaching:
        done = self._statement(node.body, reaching)
        caught = self._within(node.body, reaching)
        out = [self._statement(node.orelse, done) if node.orelse is not None else done]
        for handler in node.handlers:
            if handler.type is not None:
                self._uses(handler.type, caught)
            if handler.name is not None and self._mentioned(handler.name):
                raise _NotTold
            out.append(self._statement(handler.body, caught))
        if node.finalbody is None:
            return _union(out)
        anywhere = _union([caught, *out, *(self._within(handler.body, caught) for handler in node.handlers)])
        self._statement(node.finalbody.body, anywhere)  # also on the way out
        return self._statement(node.finalbody.body, _union(out))

    def _within(self, block: cst.CSTNode, reaching: _Reaching) -> _Reaching:
        """What an exception anywhere in a block may leave: what was bound before, or any of its own bindings."""
        own = (self._numbers[id(part)] for part in walk(block) if id(part) in self._numbers)
        return None if reaching is None else reaching | frozenset(own)

    # ------------------------------------------------------------------------------------------------ names

    def _mentioned(self, node: cst.CSTNode) -> bool:
        return any(isinstance(part, cst.Name) and part.value == self.name for part in walk(node))

    def _uses(self, node: cst.CSTNode, reaching: _Reaching) -> None:
        for part in walk(node):
            aims: Iterator[cst.CSTNode] = iter(())
            if isinstance(part, (cst.CompFor, cst.NamedExpr)):
                aims = walk(part.target)
            elif isinstance(part, cst.FormattedStringExpression) and part.equal is not None:
                aims = walk(part.expression)  # `{loss=}` shows the name
            if any(isinstance(aim, cst.Name) and aim.value == self.name for aim in aims):
                raise _NotTold
        for variable in variables(node):
            if isinstance(variable, cst.Name) and variable.value == self.name:
                self._nodes[id(variable)] = variable
                self._seen.setdefault(id(variable), set()).update(reaching or ())

    def _binds(self, aim: cst.CSTNode, reaching: _Reaching, together: bool = False) -> _Reaching:
        """What is seen after an assignment. `together`: the binding is of the variable that it was before."""
        if isinstance(aim, (cst.Tuple, cst.List)):
            for element in aim.elements:
                reaching = self._binds(element.value, reaching)
            return reaching
        if not isinstance(aim, cst.Name):
            self._uses(aim, reaching)
            return reaching
        if aim.value != self.name:
            return reaching
        self._nodes[id(aim)] = aim
        number = self._numbers.setdefault(id(aim), len(self._numbers) + 1)
        if together:
            self._seen.setdefault(id(aim), set()).add(number)
        return None if reaching is None else frozenset({number})


def _either(one: _Reaching, other: _Reaching) -> _Reaching:
    return other if one is None else one if other is None else one | other


def _union(parts: Iterable[_Reaching]) -> _Reaching:
    out: _Reaching = None
    for part in parts:
        out = _either(out, part)
    return out
