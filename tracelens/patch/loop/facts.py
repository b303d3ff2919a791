"""What is known about the names of one training loop, gathered once: who changes, who is a tensor, who aliases whom.

In: a parsed file and the loop. Out: `LoopFacts`. Flow-insensitive on purpose: a name that is assigned anywhere in
the loop counts as varying everywhere in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import (
    FileNames,
    dotted,
    key,
    meets,
    own_names,
    rebound,
    root_key,
    targets,
    touched,
    variables,
    walk,
    written,
)
from tracelens.patch.code.outside import BESIDES
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.both_holders import BothHolders
from tracelens.patch.effects.file_holders import NamedHolders
from tracelens.patch.effects.file_text import SETTINGS
from tracelens.patch.effects.kind import NUMBER, UNKNOWN, Kind
from tracelens.patch.effects.reached import NOTHING, Behind, Reached
from tracelens.patch.effects.words import words
from tracelens.patch.loop.doubts import Doubts
from tracelens.patch.loop.loops import (
    BUILTINS,
    REMEMBERED,
    Loop,
    Scope,
    head,
    inner_functions,
    is_rare,
    own_nodes,
    scope_of,
)
from tracelens.patch.loop.mentions import Mentions, filled
from tracelens.patch.loop.sites import read_of

PURE_BUILTINS = words(
    "abs all any bool bytes dict divmod enumerate filter float format frozenset int isinstance len list max min"
    " pow range repr reversed round set sorted str sum tuple type zip"
)
PURE_MODULES = ("math.", "numpy.", "statistics.", "datetime.", "operator.", "json.dumps")
_IMPURE = ("numpy.random", "numpy.load", "numpy.genfromtxt", "numpy.fromfile")
_MOMENTS = (".now", ".utcnow", ".today")
_TENSOR_METHODS = words("backward detach item cpu to cuda requires_grad_ grad_fn mean sum")
_HOST_CALLS = words("len int float str range")
_ON_NUMBERS = words("round max min abs")  # of tensors they make tensors


@dataclass(frozen=True)
class LoopFacts:
    """Everything that is asked about names while a loop is being rewritten."""

    source: SourceFile
    names: FileNames
    loop: Loop
    scope: Scope
    spans: frozenset[cst.CSTNode] = frozenset()
    """Differences of two times that are measured on the GPU, so that they are known later."""
    guards: frozenset[cst.CSTNode] = frozenset()
    """Statements that end the training where a value is not a number, and may look for that later (unsafe)."""
    doubts: Doubts | None = None
    """Where suspected obstacles are noted; None where each of them stands in the way."""
    by_text: bool = False
    """Only the text of a statement tells whether it touches a result: what it calls is left to the proof of the plan,
    which knows whether that is an obstacle or only may be one."""
    steady: frozenset[str] = frozenset()
    """The text of names and attributes that have one value as long as the loop runs: `args.log_every`."""

    @cached_property
    def leaves(self) -> tuple[cst.CSTNode, ...]:
        """Small statements of the loop's body, and the compound ones for their heads, in source order."""
        return tuple(leaves_of(self.loop.body))

    @cached_property
    def varying(self) -> frozenset[str]:
        """Names that some statement of the loop binds, or an expression in it."""
        out = {name for leaf in self.leaves for name in rebound(leaf)}
        walrus = (part.target for part in walk(self.loop) if isinstance(part, cst.NamedExpr))
        out |= {target.value for target in walrus if isinstance(target, cst.Name)}
        return frozenset(out | {t.value for t in targets(self.loop) if isinstance(t, cst.Name)})

    @cached_property
    def changed_inside(self) -> frozenset[str]:
        """Keys of objects that the loop stores into, calls methods of, calls, or hands to code that is not known."""
        out = {key(v) for v in variables(head(self.loop))} | self.changed_in_body
        out |= self.reached.between.changed if self.reached is not None else frozenset()
        return self.aliases(frozenset(out)) - BESIDES - set(self.names.imports) - BUILTINS

    @cached_property
    def changed_in_body(self) -> frozenset[str]:
        """The same without what the loop goes through, and without what its iterator changes."""
        out: set[str] = set()
        for leaf in self.leaves:
            out |= written(leaf, self.names) | filled(leaf)
            for node in _head(leaf):
                if isinstance(node, cst.Call):
                    out |= self._reached_by(node)
            out |= set().union(*(self.behind(part).changed for part in head_parts(leaf)))
        return frozenset(out)

    @cached_property
    def mutated(self) -> frozenset[str]:
        """Names of objects that the loop changes in place: stores into, extends, calls methods of for their effect."""
        out: set[str] = set()
        for leaf in self.leaves:
            out |= {root for t in targets(leaf) if not isinstance(t, cst.Name) and (root := root_key(t)) is not None}
            out |= filled(leaf)
            if isinstance(leaf, cst.Expr) and isinstance(leaf.value, cst.Call):
                out |= written(leaf, self.names)
            elif isinstance(leaf, cst.AugAssign) and isinstance(leaf.value, (cst.List, cst.ListComp, cst.Dict)):
                out |= rebound(leaf)
        return frozenset(out)

    @cached_property
    def changed_parts(self) -> frozenset[str]:
        """The text of what the loop changes within an object: `batch["ids"]` of `batch["ids"].append(i)`."""
        called = (
            leaf.value.func for leaf in self.leaves if isinstance(leaf, cst.Expr) and isinstance(leaf.value, cst.Call)
        )
        changed = [func.value for func in called if isinstance(func, cst.Attribute)]
        stored = (target for leaf in self.leaves for target in targets(leaf))
        changed += [target.value for target in stored if isinstance(target, (cst.Subscript, cst.Attribute))]
        return frozenset(self.source.code(part) for part in changed if isinstance(part, cst.Subscript))

    @cached_property
    def tensors(self) -> frozenset[str]:
        """Names that the loop treats as tensors."""
        parts = [one for one in walk(self.loop.body) if isinstance(one, cst.Attribute)]
        named = ((one.value, one.attr.value) for one in parts if isinstance(one.value, cst.Name))
        return self.varying & {name.value for name, attribute in named if attribute in _TENSOR_METHODS}

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Names that are Python numbers for certain: counters, lengths, clock reads."""
        out = set(self._counters())
        bound = [leaf for leaf in self.leaves if isinstance(leaf, (cst.Assign, cst.AugAssign)) and rebound(leaf)]
        for leaf in bound:
            if self._makes_number(leaf.value, out):
                out |= rebound(leaf)
        while others := [one for one in bound if rebound(one) & out and not self._makes_number(one.value, out)]:
            out -= set[str]().union(*map(rebound, others))  # `loss = 0`, and `loss += criterion(…)` below it
        return frozenset(out)

    @property
    def taken(self) -> frozenset[str]:
        """Every identifier of the file; new names must differ from all of them."""
        return self.source.identifiers

    def touched(self, node: cst.CSTNode) -> frozenset[str]:
        """All keys that a piece of code reads or writes, itself or by the functions that it calls."""
        return touched(node, self.names) | self.behind(node).seen

    def uses(self, node: cst.CSTNode, keys: frozenset[str]) -> bool:
        """Whether a statement (a compound one by its head) touches one of the keys."""
        asked = (self._mentions.told(part) if self.by_text else self.touched(part) for part in head_parts(node))
        return any(meets(one, keys) for one in asked)

    @cached_property
    def _mentions(self) -> Mentions:
        return Mentions(tuple((leaf, tuple(head_parts(leaf))) for leaf in self.leaves), self.names, self.varying)

    def reaches(self, node: cst.CSTNode, keys: frozenset[str]) -> bool:
        """Whether what a statement calls touches one of the keys, as far as that has a name in the loop's function."""
        return any(meets(self.behind(part).seen, keys) for part in head_parts(node))

    def behind(self, node: cst.CSTNode) -> Behind:
        """What the code that a piece of the loop calls looks at and changes, as far as it is known."""
        return self.reached.behind(self.source.place(node)) if self.reached is not None else NOTHING

    def kind(self, node: cst.CSTNode) -> Kind:
        """What a value in the loop certainly is: a tensor, a number."""
        return self.reached.kind(self.source.place(node)) if self.reached is not None else UNKNOWN

    def alone(self, node: cst.CSTNode) -> Behind:
        """The same for a call or an attribute apart from its parts, which may be evaluated before."""
        return self.reached.at(self.source.place(node)) if self.reached is not None else NOTHING

    def not_known(self, name: str) -> str:
        """Why nobody can tell what a name stands for, in words."""
        return self.reached.unknown(name) if self.reached is not None else say("the project")

    @cached_property
    def trained(self) -> frozenset[str]:
        """Objects of which the loop makes a step."""
        calls = (node.func for node in walk(self.loop.body) if isinstance(node, cst.Call))
        steps = (f.value for f in calls if isinstance(f, cst.Attribute) and f.attr.value in ("step", "zero_grad"))
        return frozenset(found for node in steps if (found := root_key(node)) is not None)

    def held_by(self, objects: frozenset[str]) -> frozenset[str]:
        """The objects with all that they hold: the optimizer of a scheduler."""
        return self._holders.holding(objects) if self._holders is not None else objects

    def aliases(self, objects: frozenset[str]) -> frozenset[str]:
        """The objects with all that hold one of them: `progress = Progress([losses, top1])`."""
        certain = self.doubts is not None  # what is only likely is asked of the effects
        return self._holders.aliases(objects, certain) if self._holders is not None else objects

    def other_names(self, objects: frozenset[str]) -> frozenset[str]:
        """The objects under all names that may stand for one of them."""
        return self._holders.other_names(objects) if self._holders is not None else objects

    def kept_by(self, statement: cst.CSTNode) -> frozenset[str]:
        """The object that `losses += [loss]` changes: the name stands for the same one as before."""
        if not isinstance(statement, cst.AugAssign) or self.reached is None:
            return frozenset()
        return frozenset(name for name in rebound(statement) if self.reached.stands_for_objects(name))

    def in_rare_branch(self, leaf: cst.CSTNode) -> bool:
        """Whether a statement of the loop is below a condition that few batches meet."""
        below = leaf
        for ancestor in self.source.ancestors(leaf):
            if ancestor is self.loop:
                return False
            if isinstance(ancestor, cst.If) and below is ancestor.body and is_rare(ancestor.test, self.varying):
                return True
            below = ancestor
        return False

    def inner_use(self, keys: frozenset[str]) -> cst.CSTNode | None:
        """A function or class, other than the loop's own, that uses one of the names; its calls cannot be followed."""
        return next((node for node, used in self._inner_names if used & keys), None)

    def definite(self, statement: cst.CSTNode) -> frozenset[str]:
        """Names of the loop that are bound for certain when `statement` is reached."""
        out = {t.value for t in targets(self.loop) if isinstance(t, cst.Name)}
        current: cst.CSTNode | None = statement
        while current is not None and current is not self.loop:
            block = self.source.parent(current)
            for before in _block(block):
                if before is current:
                    break
                if isinstance(before, cst.SimpleStatementLine):
                    for small in before.body:
                        out |= rebound(small)
            current = block
        return frozenset(out)

    def varies(self, expression: cst.CSTNode) -> bool:
        """Whether an expression may have another value, or another meaning, when it is evaluated later."""
        if any(isinstance(node, cst.Call) and not self._pure(node) for node in walk(expression)):
            return True
        parts = (one for one in walk(expression) if self.steady and isinstance(one, cst.BaseExpression))
        steady = {one for part in parts if self.source.code(part) in self.steady for one in walk(part)}
        for variable in variables(expression):
            changing = key(variable).startswith("self.") or key(variable) in self.varying | self.changed_inside
            if changing and variable not in steady:
                return True
        return False

    def _pure(self, call: cst.Call) -> bool:
        full = self.names.qualified(call.func)
        return is_pure(full) or full.endswith((".format", ".join"))

    def _reached_by(self, call: cst.Call) -> set[str]:
        full = self.names.qualified(call.func)
        out = set()
        owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        found = root_key(owner)
        if found is not None and found not in self.names.imports and found not in PURE_BUILTINS:
            out.add(found)
        if not is_pure(full) and full != "print":
            for argument in call.args:
                found = root_key(argument.value) if isinstance(argument.value, cst.Name) else None
                if found is not None and found not in SETTINGS and found not in BUILTINS:
                    out.add(found)
        return out

    @cached_property
    def _inner_names(self) -> tuple[tuple[cst.CSTNode, frozenset[str]], ...]:
        """The functions and classes inside the loop's own, with the names that each takes from outside."""
        inner = inner_functions(self.scope)
        return tuple((node, frozenset({key(v) for v in variables(node)} - own_names(node))) for node in inner)

    @cached_property
    def reached(self) -> Reached | None:
        return self.source.effects.reached(self.source.line(self.loop))

    @cached_property
    def _holders(self) -> Reached | NamedHolders | BothHolders | None:
        """Who holds whom; by the text of the files too, where few objects are told apart, or none."""
        if self.reached is not None and not self.reached.is_coarse:
            return self.reached
        named = self.source.effects.holders(self.source.line(self.loop))
        return BothHolders(self.reached, named) if self.reached is not None and named is not None else named

    def _counters(self) -> Iterator[str]:
        for loop in (self.loop, *own_nodes(self.loop.body)):
            if not isinstance(loop, cst.For):
                continue
            called = dotted(loop.iter.func) if isinstance(loop.iter, cst.Call) else ""
            if called == "range" and isinstance(loop.target, cst.Name):
                yield loop.target.value
            text = self.source.code(loop.iter)
            if "enumerate(" in text and isinstance(loop.target, cst.Tuple):
                first = loop.target.elements[0].value
                if isinstance(first, cst.Name):
                    yield first.value

    def _makes_number(self, value: cst.BaseExpression, numbers: AbstractSet[str]) -> bool:
        if isinstance(value, (cst.BaseNumber, cst.BaseString, cst.Name)):
            return not isinstance(value, cst.Name) or value.value in numbers
        if isinstance(value, cst.BinaryOperation):
            return self._makes_number(value.left, numbers) and self._makes_number(value.right, numbers)
        if isinstance(value, cst.Call):
            return self._returns_number(value, numbers)
        return False

    def _returns_number(self, call: cst.Call, numbers: AbstractSet[str]) -> bool:
        read, full = read_of(call), self.names.qualified(call.func)
        computes = full in _ON_NUMBERS and all(self._makes_number(one.value, numbers) for one in call.args)
        if computes or full in _HOST_CALLS or full.startswith("time."):
            return True
        return (read is not None and read.kind in ("item", "values")) or self.kind(call).what == NUMBER


@lru_cache(maxsize=REMEMBERED)
def facts_of(source: SourceFile, loop: Loop) -> LoopFacts:
    return LoopFacts(source, source.names, loop, scope_of(source, loop))


def head_parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node itself for a small statement; for a compound one what is evaluated before its body."""
    if isinstance(node, (cst.If, cst.While)):
        yield node.test
    elif isinstance(node, cst.For):
        yield from (node.target, node.iter)
    elif isinstance(node, cst.With):
        yield from node.items
    elif isinstance(node, (cst.Try, cst.TryStar)):
        return
    else:
        yield node


def _head(leaf: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for part in head_parts(leaf):
        yield from walk(part)


def leaves_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        yield from node.body
    elif isinstance(node, cst.IndentedBlock):
        for statement in node.body:
            yield from leaves_of(statement)
    elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        yield node
    elif isinstance(node, cst.BaseCompoundStatement):
        yield node
        for block in _blocks(node):
            yield from leaves_of(block)
    elif isinstance(node, (cst.Else, cst.Finally, cst.ExceptHandler, cst.ExceptStarHandler)):
        yield from leaves_of(node.body)


def _blocks(node: cst.BaseCompoundStatement) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.Match):
        yield from (case.body for case in node.cases)
        return
    yield node.body
    for name in ("orelse", "handlers", "finalbody"):
        value = getattr(node, name, None)
        if isinstance(value, cst.CSTNode):
            yield value
        elif value:
            yield from value


def is_pure(full: str) -> bool:
    """Whether a function of that full name gives the same value whenever it is called, and does nothing else."""
    return full in PURE_BUILTINS or (
        full.startswith(PURE_MODULES) and not full.startswith(_IMPURE) and not full.endswith(_MOMENTS)
    )


def _block(node: cst.CSTNode | None) -> tuple[cst.CSTNode, ...]:
    return tuple(node.body) if isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite)) else ()
