"""What the statements of a loop do that run later, told by the text of their file alone.

In: a `FileHolders`, a loop, and the statements of it. Out: the calls that they make, the variables whose objects they
change, and those at which they look. Apart from judged_by_file.py because that asks what stays whether it meets them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_calls import PLAIN, defaulted
from tracelens.patch.effects.file_fresh import filled
from tracelens.patch.effects.file_holders import COMPUTING, RESULT, SHOWING, FileHolders, may_change
from tracelens.patch.effects.file_lines import SETS_BAR_TEXT, calls_in, owner_of, prints
from tracelens.patch.effects.file_text import SELF, Place
from tracelens.patch.effects.places import Loop, Span, function_of, last_name, nodes_in
from tracelens.patch.effects.running import Running
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.scopes import nodes_of
from tracelens.patch.effects.words import words

_CHANGES_NOTHING = PLAIN | SETS_BAR_TEXT | {"print"}
"""Methods that leave their object as it is; those of the project's own classes that are called so are looked at."""
_FILE_WRITERS = words("open savetxt to_csv dump write_text write writelines tofile flush")


class FileMoved:
    """The statements of one question. `kept`: what of them is evaluated where they stand."""

    def __init__(
        self, holders: FileHolders, running: Running, loop: Loop, later: tuple[Span, ...], kept: tuple[Span, ...]
    ) -> None:
        self.holders, self.text, self.calls, self.running = holders, holders.text, holders.calls, running
        self.code, self.loop, self.kept = function_of(self.text.tree, loop), loop, kept
        self.statements = [node for span in later for node in nodes_in(loop, span)]

    @cached_property
    def trackers(self) -> frozenset[str]:
        """Functions of a library that log: its steps come in the order of the calls."""
        found = (one.func for one in [*self.calls_made, *calls_in(self.behind)])
        return frozenset(
            ast.unparse(one)
            for one in found
            if owner_of(one) in self.text.libraries and last_name(one).startswith("log")
        ) - frozenset(
            f"{owner}.{name}" for owner in ("np", "numpy", "math", "torch") for name in words("log log2 log10")
        )

    @property
    def is_seen_outside(self) -> bool:
        """Whether the statements leave something that lasts longer than the process: lines, files, what is logged."""
        shown = any(last_name(one.func) in SHOWING for one in [*self.calls_made, *calls_in(self.behind)])
        return shown or self.prints or self.writes_files or bool(self.trackers)

    @cached_property
    def writes_files(self) -> bool:
        return any(last_name(one.func) in _FILE_WRITERS for one in [*self.calls_made, *calls_in(self.behind)])

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The nodes of the statements that run later."""
        out: list[ast.AST] = []
        waiting = list(self.statements)
        while waiting:
            node = waiting.pop()
            if not any(span.holds(node) for span in self.kept):
                out.append(node)
                waiting += syntax.children(node)
        return tuple(out)

    @cached_property
    def calls_made(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def behind(self) -> tuple[FunctionNode, ...]:
        found = tuple(dict.fromkeys(one for call in self.calls_made for one in self.calls.called(call.func)))
        handed = self.calls.beside if any(map(self.calls.is_of_a_variable, calls_in(found))) else ()
        return self.running.among(self.calls.with_behind((*found, *handed)), self.calls_made)

    @cached_property
    def prints(self) -> bool:
        return any(map(prints, [*self.calls_made, *calls_in(self.behind)]))

    @cached_property
    def looked_at(self) -> frozenset[Place]:
        """What the functions of the statements look at that is not handed to them."""
        return frozenset(place for function in self.behind for place in self.outer(function))

    @cached_property
    def changed(self) -> frozenset[Place]:
        """The variables whose objects the statements change, with all that those may be or hold."""
        found = {one for one, is_deep in self.directly.items() if is_deep}
        for function in self.behind:
            own = (place for node in nodes_of(function) for place in self.changed_by(node, function))
            found |= {place for place in own if self.is_of_others(place, function)}
        without = frozenset(Place(self.code, name) for name in self.varying)
        reached = self.holders.reach(found, without)
        reached |= self.directly.keys()
        no_others = (one for one in reached if one.name != RESULT)  # each call of a function makes another object
        return frozenset(no_others) - (self.calls.constants - {one for one in found if one.name in self.text.functions})

    @cached_property
    def directly(self) -> dict[Place, bool]:
        """The variables whose objects the statements' own text changes; whether that may be more than a new list."""
        alone = frozenset(filled(self.nodes, self.holders.fresh))
        found = [(one, node not in alone) for node in self.nodes for one in self.changed_by(node, self.code)]
        return {**dict.fromkeys((one for one, _ in found), False), **{one: True for one, is_deep in found if is_deep}}

    @cached_property
    def put_in(self) -> frozenset[Place]:
        """The variables at which the statements look when they change such a list."""
        if all(self.directly.values()):
            return frozenset()
        nodes = (node for node in self.nodes if isinstance(node, (ast.Name, ast.Attribute)))
        found = (self.text.place(node, self.code) for node in nodes if isinstance(node.ctx, ast.Load))
        return frozenset(one for one in found if one is not None and one.name not in self.holders.fresh)

    @cached_property
    def values(self) -> frozenset[Place]:
        """The variables whose values the statements' own text uses when they run; those whose methods it calls change
        with them."""
        within: set[ast.AST] = set()
        for node in self.nodes:
            if isinstance(node, (ast.Attribute, ast.Subscript)):
                within.add(node.value)
            elif isinstance(node, ast.Call):
                within.add(node.func)
        used = (node for node in self.nodes if isinstance(getattr(node, "ctx", None), ast.Load) and node not in within)
        found = (self.text.place(node, self.code) for node in used)
        return frozenset(
            one for one in found if one is not None and (one.attribute or one.name not in (*SELF, *self.varying))
        )

    @cached_property
    def rebound(self) -> frozenset[Place]:
        """The variables of others to which the statements, or functions behind them, give new values; those of another
        file by the name of its module: `stats.total += loss.item()`."""
        own = (self._rebound_by(node, self.code) for node in self.nodes)
        others = (self._rebound_by(node, one) for one in self.behind for node in nodes_of(one))
        behind = (one for one in others if one is not None and isinstance(one.owner, ast.Module))
        return frozenset((*(one for one in own if one is not None), *behind))

    def _rebound_by(self, node: ast.AST, code: ast.AST) -> Place | None:
        """The variable to which a node gives a new value; that of a module may be an attribute of its name."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Store):
            return None
        found = self.text.place(node, code)
        of_module = found is not None and isinstance(found.owner, ast.Module) and not found.attribute
        return found if isinstance(node, ast.Name) or of_module else None

    @cached_property
    def of_classes(self) -> frozenset[str]:
        """Attributes that all objects of a class share, of those whose objects the statements change."""
        found = [one for node in self.nodes for one in self.changed_by(node, self.code)]
        found += [one for each in self.behind for node in nodes_of(each) for one in self.changed_by(node, each)]
        by_class = {one.attribute for one in found if one.name == "cls" or one.name in self.text.classes}
        return frozenset(by_class | ({one.attribute for one in found} & self.text.shared)) - {""}

    @cached_property
    def own_changed(self) -> frozenset[str]:
        stored = (node for node in self.nodes if self.target(node) is not None)
        found = (self.text.place(self.target(node) or node, self.code) for node in stored)
        return frozenset(one.attribute for one in found if one is not None and one.name in SELF) - {""}

    @cached_property
    def varying(self) -> frozenset[str]:
        names = (node for node in syntax.walk(self.loop) if isinstance(node, ast.Name))
        return frozenset(one.id for one in names if isinstance(one.ctx, ast.Store))

    def changed_by(self, node: ast.AST, code: ast.AST) -> Iterator[Place]:
        """The variables whose objects a node changes; one that gets another object is told by its name already."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from self._handed(node, code)
            return
        found = self.text.place(target, code) if (target := self.target(node)) is not None else None
        if found is not None and (found.name not in SELF or found.attribute):
            yield found

    def target(self, node: ast.AST) -> ast.expr | None:
        """What a store or a method changes."""
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return node if isinstance(node.ctx, (ast.Store, ast.Del)) else None
        if isinstance(node, ast.AugAssign):
            return node.target if isinstance(node.value, (ast.List, ast.ListComp, ast.Dict, ast.Tuple)) else None
        method = node.func if isinstance(node, ast.Call) else None
        if not isinstance(method, ast.Attribute) or method.attr in _CHANGES_NOTHING or self.is_kept(method.value):
            return None
        return method.value

    def is_kept(self, node: ast.AST) -> bool:
        return any(span.holds(node) for span in self.kept)

    def _handed(self, node: ast.Call, code: ast.AST) -> Iterator[Place]:
        """What a function may change that is handed to it."""
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in PLAIN | COMPUTING or name in self.text.libraries or name in self.text.classes:
            return
        functions = [one for one in self.text.functions.get(name, ()) if self.text.owner(name, code) is not None]
        for number, argument in enumerate(node.args):
            place = self.text.place(argument, code) if not self._is_number(argument, code) else None
            changes = not functions or any(may_change(one, number) for one in functions)
            if place is not None and changes and not isinstance(argument, ast.Call):
                yield place

    def _is_number(self, node: ast.expr, code: ast.AST) -> bool:
        """Whether a value is nothing that could be changed: its name is computed with, or it is made in each batch."""
        if not isinstance(node, ast.Name):
            return not isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred))
        if node.id in self.varying or self.text.is_settings(node.id):
            return True
        operands = (one for part in syntax.walk(code) if isinstance(part, ast.BinOp) for one in (part.left, part.right))
        return any(isinstance(one, ast.Name) and one.id == node.id for one in operands)

    def outer(self, function: FunctionNode) -> Iterator[Place]:
        """What a function looks at that is not handed to it: variables around it, its own object."""
        return (place for place in self.text.mentioned(function) if self.is_of_others(place, function))

    def is_of_others(self, place: Place, function: ast.AST) -> bool:
        """Whether a variable is one of the loop's function too; the object of another class is told by its names."""
        if isinstance(place.owner, ast.ClassDef):
            return place.owner is self.text.family(self.code)
        return place.owner is not function or place.name in defaulted(function)
