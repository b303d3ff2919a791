"""What an expression can stand for, and what it does.

In: a node of a function or module, and `Dispatch` for the meaning of what it calls. Out: objects; effects are entered
into the summary of the function. Variables are told apart by function, not by line: what a name stands for anywhere
in a function it can stand for everywhere in it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping

from tracelens.patch.effects import durations, implicit, names, syntax
from tracelens.patch.effects.dispatch import RETURN, Arguments, Dispatch, Here
from tracelens.patch.effects.helper_file import RUNTIME
from tracelens.patch.effects.items import keys_of
from tracelens.patch.effects.memory import ANY_KEY, DATA, NONE, PLAIN, SLICE, Memory, Objects
from tracelens.patch.effects.objects import (
    READS,
    SUSPENDS,
    WRITES,
    Activation,
    Class,
    Container,
    Effect,
    Frame,
    Function,
    Generator,
    Module,
    Name,
    Plain,
    Super,
    Thing,
    Unknown,
)
from tracelens.patch.effects.operators import COMPARISONS, OPERATORS
from tracelens.patch.effects.scopes import COMPREHENSIONS, defaults

_READS = frozenset({"item", "tolist", "detach", "cpu", "numpy"})
STAR = "<star>"
"""The libraries of which a module imports all names."""
_TEXT = ("__format__", "__str__", "__repr__")


class Expressions:
    """Evaluates the expressions of one unit. `frame`: the one whose names are local, the unit's or a class's in it."""

    def __init__(self, unit: Module | Activation, frame: Frame, dispatch: Dispatch) -> None:
        self.unit = unit
        self.frame = frame
        self.dispatch = dispatch
        self.memory: Memory = dispatch.memory
        self.ends_nothing = False  # within the test of an `if` that ends no loop: it saves every ten minutes
        self._inner: list[Mapping[str, str]] = []
        """The names that the comprehensions around the present node bind."""

    def here(self, node: ast.AST) -> Here:
        return Here(self.unit, node)

    def value(self, node: ast.expr | None) -> Objects:
        """All objects that the expression can stand for."""
        if node is None:
            return NONE
        return _KINDS.get(type(node), Expressions._parts)(self, node)

    # -------------------------------------------------------------------------------------------------------- names

    def _place(self, name: str) -> tuple[Frame | None, str]:
        for known in reversed(self._inner):
            if name in known:
                return self.frame, known[name]
        return names.home(name, self.frame, self.memory), name

    def name(self, name: str, node: ast.AST) -> Objects:
        """What a name can stand for."""
        home, name = self._place(name)
        if home is None:
            self.memory.names(names.module_of(self.frame), self.unit)  # it may come to have the name
            return self._builtin(name, node)
        self.memory.effect(self.unit, node, Effect(READS, home, name))
        found = self.memory.read(home, name, self.unit)
        if isinstance(home, Module):
            found |= self.memory.read(home, "*", self.unit)
            if name not in self.memory.fields.get(home, {}):
                found |= self.dispatch.load(self.memory.read(home, STAR, self.unit), name, self.here(node))
        if isinstance(home, Class):  # what the body does not have yet is looked for around the class
            outer = names.home(name, home.frame, self.memory)
            found |= self.memory.read(outer, name, self.unit) if outer is not None else self._builtin(name, node)
        return found

    def _builtin(self, name: str, node: ast.AST) -> Objects:
        module = self.memory.make(Name, "builtins", None)
        replaced = self.memory.read(module, name, self.unit)
        if replaced:
            self.memory.effect(self.unit, node, Effect(READS, module, name))
        known = name if name == RUNTIME else f"builtins.{name}" if hasattr(builtins, name) else ""
        return replaced | ({self.memory.make(Name, known, None)} if known else NONE)

    def bind(self, name: str, value: Objects, node: ast.AST) -> None:
        """`name = value`."""
        home, name = self._place(name)
        home = home if home is not None else self.frame
        self.memory.write(home, name, value)
        self.memory.effect(self.unit, node, Effect(WRITES, home, name))

    def assign(self, target: ast.expr, value: Objects) -> None:
        """Bind a target, whatever it is."""
        here = self.here(target)
        if isinstance(target, ast.Name):
            self.bind(target.id, value, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(one, ast.Starred) for one in target.elts)
            for number, element in enumerate(target.elts):
                self.assign(element, self.unpacked(value, target, None if starred else number))
        elif isinstance(target, ast.Starred):
            held = self.memory.make(Container, target, here.maker)
            self.memory.write(held, ANY_KEY, value)
            self.assign(target.value, frozenset({held}))
        elif isinstance(target, ast.Attribute):
            self.dispatch.store(self.value(target.value), target.attr, value, here)
        elif isinstance(target, ast.Subscript):
            owners, index = self.value(target.value), self.value(target.slice)
            self.dispatch.keep_keys(owners, index)
            for one in keys_of(names.key(target), index):
                self.dispatch.store_item(owners, one, value, here)

    def unpacked(self, value: Objects, node: ast.AST, number: int | None = None) -> Objects:
        """The parts of what is unpacked into several names, or the part of that number."""
        here = self.here(node)
        out: Objects = frozenset(one for one in value if isinstance(one, Plain) or one is DATA)
        for one in value - out:
            held = self.memory.keys(one, self.unit) if number is not None and isinstance(one, Container) else ()
            numbered = f"[{number}]" in held
            out |= self.dispatch.elements(one, f"[{number}]", here) if numbered else self.dispatch.parts_of(one, here)
        return out

    def _name(self, node: ast.Name) -> Objects:
        return self.name(node.id, node)

    def _attribute(self, node: ast.Attribute) -> Objects:
        return self.dispatch.load(self.value(node.value), node.attr, self.here(node))

    def _subscript(self, node: ast.Subscript) -> Objects:
        owners, index = self.value(node.value), self.value(node.slice)
        keys = keys_of(names.key(node), index)
        return NONE.union(*(self.dispatch.item(owners, one, self.here(node)) for one in keys))

    def _text(self, node: ast.JoinedStr) -> Objects:
        out: Objects = frozenset({PLAIN})
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                shown = self.value(part.value)
                self.dispatch.look_into(shown, self.here(part.value))
                own = self.dispatch.special(shown, _TEXT, Arguments((frozenset({PLAIN}),)), self.here(part))
                shown |= own | self._run(shown, implicit.TEXT, part)
                out |= durations.timed(shown, self.memory)
                self.value(part.format_spec)
        return out

    def _call(self, node: ast.Call) -> Objects:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super(node)
        called, given = self.value(node.func), self.arguments(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _READS and not node.args:
            called = self._known_read(called, node.func.attr)
        if not called and self.memory.final:
            text = ast.unparse(node.func)
            return self.dispatch.unknown(f"`{text}(…)`", given.objects | self._owner(node.func), self.here(node))
        return self.dispatch.invoke(called, given, self.here(node))

    def _known_read(self, called: Objects, method: str) -> Objects:
        """`loss.item()` of what nobody can tell: where it is made at all it is a tensor's."""
        hidden = frozenset(one for one in called if isinstance(one, Unknown))
        return called - hidden | ({self.memory.make(Name, f"<data>.{method}", DATA)} if hidden else NONE)

    def _owner(self, called: ast.expr) -> Objects:
        """The object of a method that cannot be told: who has it can do anything with it."""
        return self.value(called.value) if isinstance(called, ast.Attribute) else NONE

    def arguments(self, node: ast.Call) -> Arguments:
        rest, positional, named = NONE, list[Objects](), dict[str, Objects]()
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                rest |= self.dispatch.passes(self.value(argument.value), self.here(argument))
            elif rest:
                rest |= self.value(argument)
            else:
                positional.append(self.value(argument))
        for keyword in node.keywords:
            if keyword.arg is not None:
                named[keyword.arg] = self.value(keyword.value)
            else:
                rest |= self._spread(keyword.value)
        return Arguments(tuple(positional), named, rest)

    def _spread(self, node: ast.expr) -> Objects:
        """`**node`"""
        value = self.value(node)
        self._run(value, implicit.PASS, node)
        return self.dispatch.item(value, ANY_KEY, self.here(node))

    def _super(self, node: ast.Call) -> Objects:
        for argument in node.args:
            self.value(argument)
        frame: Frame = self.unit
        while isinstance(frame, Activation) and frame.function.owner is None:
            frame = names.parent(frame)
        if isinstance(frame, Activation) and frame.function.owner is not None:
            receivers = self.memory.read(frame, names.first_parameter(frame.function), self.unit) | (
                {frame.receiver} if frame.receiver else NONE
            )
            return frozenset(self.memory.make(Super, frame.function.owner, one) for one in receivers)
        return self.memory.unknown("`super()`")

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Function:
        """A function object, with its defaults."""
        owner = self.frame if isinstance(self.frame, Class) else None
        made = self.memory.make(Function, node, self.frame, names.module_of(self.frame), owner)
        for parameter, default in defaults(node.args):
            self.memory.write(made, f"<default>{parameter.arg}", self.value(default))
        return made

    def _operation(self, node: ast.BinOp) -> Objects:
        return self.operation(self._operand(node.left), type(node.op), self._operand(node.right), node)

    def _operand(self, node: ast.expr) -> Objects:
        """A value that is computed with, compared or asked whether it is true."""
        value = self.value(node)
        self.dispatch.look_into(value, self.here(node))
        self._run(value, implicit.OPERATORS, node)
        return value

    def _run(self, objects: Objects, protocol: str, node: ast.AST) -> Objects:
        """What Python runs of objects that it shows, compares or computes with."""
        return self.dispatch.libraries.through(objects, protocol, self.here(node))

    def operation(self, left: Objects, operator: type[ast.operator], right: Objects, node: ast.AST) -> Objects:
        """`left + right`; the texts that `%` makes are made of its right side."""
        name, here, both = OPERATORS[operator], self.here(node), left | right
        out = self.dispatch.special(left, (f"__{name}__",), Arguments((right,)), here)
        out |= self.dispatch.special(right, (f"__r{name}__",), Arguments((left,)), here)
        if operator is ast.Mod:
            texts = self.dispatch.special(right, _TEXT, Arguments((frozenset({PLAIN}),)), here)
            texts |= self._run(right, implicit.TEXT, node) | self._run(right, implicit.NUMBERS, node)
            texts |= self._run(implicit.asked_for_keys(right, self.memory), implicit.PASS, node)
            out |= durations.timed(right | texts, self.memory)
        out |= durations.computed(left, operator, right, node, self.memory)
        held = [one for one in both if isinstance(one, Container) and operator is not ast.Mod]  # a text holds nothing
        out |= self._holding(node, self.dispatch.passes(held, here)) if held else NONE
        if any(isinstance(one, (Thing, Name)) for one in both):
            out |= {DATA}
        hidden = frozenset(one for one in both if isinstance(one, Unknown))
        return out.union(self.dispatch.together(left, right, here), hidden, {PLAIN})

    def _comparison(self, node: ast.Compare) -> Objects:
        here, looks = self.here(node), not isinstance(node.ops[0], (ast.Is, ast.IsNot))
        sides = [self._operand(one) if looks else self.value(one) for one in (node.left, *node.comparators)]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            decided = durations.decided(left, right, node, self.memory)
            for effect in decided if looks and not self.ends_nothing else ():
                self.memory.effect(self.unit, node, effect)
            name = COMPARISONS.get(type(operator))
            if name == "__contains__":  # an iterator is used up
                self._run(right, implicit.PASS, node)
                self.dispatch.passes({one for one in right if isinstance(one, Thing) and one.kind != "data"}, here)
            if name is not None:
                self.dispatch.special(right if name == "__contains__" else left, (name,), Arguments((right,)), here)
        tensors = any(isinstance(one, (Thing, Name)) for side in sides for one in side)
        return frozenset({PLAIN, DATA} if tensors else {PLAIN})

    def _unary(self, node: ast.UnaryOp) -> Objects:
        value = self._operand(node.operand)
        wanted = ("__bool__", "__len__") if isinstance(node.op, ast.Not) else ("__neg__", "__invert__", "__pos__")
        out = self.dispatch.special(value, wanted, Arguments(), self.here(node)) | durations.only_timed(value)
        kinds = {DATA if any(isinstance(one, (Thing, Name)) for one in value) else PLAIN}
        return out | kinds | (value if isinstance(node.op, ast.UAdd) else NONE)

    def truth(self, node: ast.expr) -> Objects:
        """An expression that is only asked whether it is true."""
        value = self._operand(node)
        self.dispatch.special(value, ("__bool__", "__len__"), Arguments(), self.here(node))
        return value

    def _either(self, node: ast.BoolOp) -> Objects:
        return NONE.union(*(self.truth(one) for one in node.values))

    def _choice(self, node: ast.IfExp) -> Objects:
        self.truth(node.test)
        return self.value(node.body) | self.value(node.orelse)

    def _walrus(self, node: ast.NamedExpr) -> Objects:
        value = self.value(node.value)
        self.assign(node.target, value)
        return value

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Objects:
        if isinstance(node, ast.Tuple) and not any(isinstance(one, ast.Starred) for one in node.elts):
            made = self._holding(node, NONE)
            for number, element in enumerate(node.elts):
                self._holding(node, self.value(element), f"[{number}]")
            return made
        inside = NONE
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inside |= self.dispatch.passes(self.value(element.value), self.here(element))
            else:
                inside |= self.value(element)
        return self._holding(node, inside)

    def _holding(self, node: ast.AST, inside: Objects, name: str = ANY_KEY) -> Objects:
        return self.dispatch.made(name, inside, Container, node, self.here(node).maker)

    def _dict(self, node: ast.Dict) -> Objects:
        made = self._holding(node, NONE)
        for part, value in zip(node.keys, node.values, strict=True):
            if part is None:
                self._holding(node, self._spread(value))
            else:
                self.dispatch.keep_keys(made, self.value(part))
                name = f"[{part.value!r}]" if isinstance(part, ast.Constant) else ANY_KEY
                self._holding(node, self.value(value), name)
        return made

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Objects:
        bound = {part.id for one in node.generators for part in syntax.walk(one.target) if isinstance(part, ast.Name)}
        own = {name: f"{name}@{node.lineno}:{node.col_offset}" for name in bound}
        first = self.value(node.generators[0].iter)
        self._inner.append(own)
        for number, part in enumerate(node.generators):
            over = first if number == 0 else self.value(part.iter)
            self.assign(part.target, self.dispatch.rounds(over, self.here(part.iter)))
            for test in part.ifs:
                self.truth(test)
        inside = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
        made = self._holding(node, inside)
        if isinstance(node, ast.DictComp):
            self.dispatch.keep_keys(made, self.value(node.key))
        self._inner.pop()
        return made

    def _await(self, node: ast.Await) -> Objects:
        self.memory.effect(self.unit, node, Effect(SUSPENDS))
        return self.value(node.value)

    def _yield(self, node: ast.Yield) -> Objects:
        self._hand_out(self.value(node.value) or frozenset({PLAIN}), node)
        return frozenset({PLAIN, DATA})

    def _yield_from(self, node: ast.YieldFrom) -> Objects:
        over = self.value(node.value)
        self._hand_out(self.dispatch.passes(over, self.here(node)), node)
        own = (one.activation for one in over if isinstance(one, Generator))
        return NONE.union({PLAIN}, *(self.memory.read(one, RETURN, self.unit) for one in own))

    def _hand_out(self, objects: Objects, node: ast.AST) -> None:
        self.memory.effect(self.unit, node, Effect(SUSPENDS))
        if isinstance(self.unit, Activation):
            self.memory.write(self.memory.make(Generator, self.unit), ANY_KEY, objects)

    def _parts(self, node: ast.expr) -> Objects:
        """Whatever else an expression is: its parts are evaluated."""
        parts = (part for part in syntax.children(node) if isinstance(part, ast.expr))
        return NONE.union(*map(self.value, parts)) or frozenset({PLAIN})


_KINDS: Mapping[type[ast.expr], Callable[..., Objects]] = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: lambda self, node: frozenset({SLICE} if self._parts(node) else ()),
    ast.JoinedStr: Expressions._text,
    ast.Call: Expressions._call,
    ast.Lambda: lambda self, node: frozenset({self.function(node)}),
    ast.BinOp: Expressions._operation,
    ast.Compare: Expressions._comparison,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._either,
    ast.IfExp: Expressions._choice,
    ast.NamedExpr: Expressions._walrus,
    ast.List: Expressions._display,
    ast.Tuple: Expressions._display,
    ast.Set: Expressions._display,
    ast.Dict: Expressions._dict,
    ast.Await: Expressions._await,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield_from,
    **dict.fromkeys(COMPREHENSIONS, Expressions._comprehension),
}
