"""Whether statements of a loop may run later, as far as a reader of their file can tell.

In: the text of a file, a loop, and a `Question` about it. Out: the obstacles that the file itself shows. It is asked
where the project is too large to be followed: nothing is proved here, but what anybody can see is no surprise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from tracelens.messages import say
from tracelens.patch.effects import file_lines
from tracelens.patch.effects.file_calls import PLAIN, defaulted, is_around
from tracelens.patch.effects.file_constants import told_by_identity
from tracelens.patch.effects.file_drains import Drains
from tracelens.patch.effects.file_fresh import filled
from tracelens.patch.effects.file_holders import COMPUTING, RESULT, FileHolders, may_change
from tracelens.patch.effects.file_lines import calls_in, owner_of, prints, shown_text, writes_lines
from tracelens.patch.effects.file_text import SELF, Place, chain_of
from tracelens.patch.effects.objects import CLOCK, COLLECTIVE, RANDOM
from tracelens.patch.effects.places import Loop, Span, function_of, last_name, nodes_in, path_to
from tracelens.patch.effects.reasons import CLOCKS, CODE, FILES, LINES, About, Reason, ReasonKind
from tracelens.patch.effects.scopes import FUNCTIONS, nodes_of
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

_OF_TEXTS = PLAIN | file_lines.SETS_BAR_TEXT
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_CLOCKS = words("time perf_counter monotonic process_time now utcnow today elapsed_time")
_CLOCK_OWNERS = words("time datetime timeit")
_COLLECTIVES = words(
    "all_reduce all_gather all_gather_object barrier broadcast reduce reduce_scatter gather_for_metrics"
)
_LOOKS_NAMES_UP = words("globals locals eval exec vars breakpoint")
_SETS = re.compile(r"set_|manual_seed$|seed$|putenv$|enable_|disable_")
_FILE_WRITERS = words("open savetxt to_csv dump write_text write writelines tofile flush")
_FILE_READERS = words(
    "open read_text read_csv load loadtxt exists isfile listdir getsize stat readlines glob fromfile memmap getvalue"
)
_WEIGHTS = words("weight bias grad data param_groups")


class FileJudge:
    """One question. `kept`: what is evaluated where the statements stand."""

    def __init__(
        self,
        holders: FileHolders,
        loop: Loop,
        later: tuple[Span, ...],
        kept: tuple[Span, ...],
        drained: Drains,
        shown: str,
    ) -> None:
        self.holders, self.text, self.loop, self.shown = holders, holders.text, loop, shown
        self._known_met: dict[Place, str] = {}
        self.calls, self.kept, self.drained, self.later = holders.calls, kept, drained, later
        self.code = function_of(self.text.tree, loop)
        self.statements = [node for span in later for node in nodes_in(loop, span)]

    def reasons(self) -> Iterator[Reason]:
        """All obstacles that the text of the file shows."""
        for statement in self.statements:
            divides = any(isinstance(part, (ast.Div, ast.FloorDiv, ast.Mod)) for part in ast.walk(statement))
            caught = (isinstance(one, ast.Try) and one.handlers for one in path_to(self.loop, statement)[1:-1])
            if divides and any(caught):
                text = say("an error in it is caught where it stands, and would not be later")
                yield self._reason("block", text, statement)
        for node in (part for statement in self.statements for part in ast.walk(statement)):
            if isinstance(node, _LEAVES):
                yield self._reason("leaves", say("it leaves the loop, or hands control to somebody else"), node)
        yield from self._of_the_moment()
        yield from self._of_weights()
        for atom in self._staying:
            yield from self._of_piece(atom)
        beside = [one for one in self.calls.beside if not self._leads_to_loop(one)]
        yield from self._of_functions(say("what runs beside the loop"), self.loop, self.calls.with_behind(beside))

    def _of_piece(self, atom: ast.AST) -> Iterator[Reason]:
        """What a piece that stays does, and the functions behind it."""
        if any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(atom)):
            text = say("the loop hands control to its caller, who may look at anything")
            yield self._reason("moment", text, atom)
        functions = self.calls.behind([atom], self.drained.shown)
        unseen = self.calls.unseen([atom, *functions])
        if atom is self._head:
            unseen = tuple(dict.fromkeys((*unseen, *self.calls.gone_through())))
        if any(last_name(one.func) in _LOOKS_NAMES_UP and isinstance(one.func, ast.Name) for one in calls_in([atom])):
            yield self._reason("moment", say("the loop looks names up by their text"), atom)
        if self._writes_files and any(last_name(one.func) in _FILE_READERS for one in calls_in([atom, *functions])):
            yield self._reason("output", say("{who} looks at files", who=f"`{shown_text(atom)}`"), atom, FILES)
        if self._trackers & {ast.unparse(one.func) for one in calls_in([atom, *functions])}:
            text = say("{who} tells the tracker more", who=f"`{shown_text(atom)}`")
            yield self._reason("object", text, atom)
        yield from self._seen_by(atom, functions)
        yield from self._of_functions(f"`{shown_text(atom)}`", atom, (*functions, *unseen))
        stored = self._stored([atom], functions) if self._behind_moved else frozenset()
        found = {one.shown for one in stored if any(map(one.meets, self._looked_at))}
        by_others = self._changed_behind(functions) if self._put_in else frozenset()
        found |= {one.shown for one in by_others if any(map(one.meets, self._put_in))}
        for place in sorted(found):
            text = say("{who} changes {name}", who=f"`{shown_text(atom)}`", name=f"`{place}`")
            yield self._reason("object", text, atom)

    def _of_functions(self, who: str, atom: ast.AST, functions: Iterable[FunctionNode]) -> Iterator[Reason]:
        """What functions do that run where a piece stays."""
        pieces = [*functions] if atom is self.loop else [atom, *functions]
        if self._prints and any(writes_lines(one) for one in pieces):
            yield self._reason("output", say("{who} writes lines of its own", who=who), atom, LINES)
        outer = (place for one in functions for place in self._outer(one))
        met = next(filter(None, (self._met(one) or (one.shown if one in self._rebound else "") for one in outer)), "")
        met = met or next((name for one in functions for name in self._by_other_names(one)), "")
        if met:
            yield self._reason("object", say("{who} looks at {name}", who=who, name=f"`{met}`"), atom)

    def _leads_to_loop(self, function: FunctionNode) -> bool:
        """Whether a function is handed to something that starts the training with it."""
        return any(is_around(self.text, one, self.code) for one in self.calls.with_behind([function]))

    @cached_property
    def _trackers(self) -> frozenset[str]:
        """Functions of a library that log: its steps come in the order of the calls."""
        found = (one.func for one in [*self._moved_calls, *calls_in(self._behind_moved)])
        return frozenset(
            ast.unparse(one)
            for one in found
            if owner_of(one) in self.text.libraries and last_name(one).startswith("log")
        ) - frozenset(
            f"{owner}.{name}" for owner in ("np", "numpy", "math", "torch") for name in words("log log2 log10")
        )

    @cached_property
    def _writes_files(self) -> bool:
        return any(last_name(one.func) in _FILE_WRITERS for one in [*self._moved_calls, *calls_in(self._behind_moved)])

    def _reason(self, kind: ReasonKind, text: str, node: ast.AST, about: About = CODE) -> Reason:
        line = getattr(node, "lineno", self.loop.lineno)
        return Reason("known", kind, about, text, self.shown, line, line)

    def _of_the_moment(self) -> Iterator[Reason]:
        """What the statements do, by functions of the file, that is bound to the moment at which they stand."""
        functions = self._behind_moved
        texts = calls_in(self.calls.texts if self._prints else ())
        for node in [*self._moved_calls, *calls_in(functions), *texts]:
            name, owner = last_name(node.func), owner_of(node.func)
            at = node if node in self._moved_calls else self.statements[0]
            if name in _CLOCKS and (owner in _CLOCK_OWNERS or name == "elapsed_time"):
                yield self._reason("moment", say("it {kind}", kind=CLOCK), at, CLOCKS)
            elif name in _COLLECTIVES and owner not in ("np", "numpy", "functools", ""):
                yield self._reason("moment", say("it {kind}", kind=COLLECTIVE), at)
            elif _SETS.match(name) and owner in self.text.libraries and node not in texts:
                yield self._reason("moment", say("it changes a setting of the process"), at)
            elif file_lines.draws(node):
                yield self._reason("moment", say("it {kind}", kind=RANDOM), at)

    def _of_weights(self) -> Iterator[Reason]:
        """Weights and groups of an optimizer that the statements hold, which the loop changes."""
        for node in (part for one in self.statements for part in ast.walk(one)):
            root = chain_of(node)[-1]
            held = isinstance(node, ast.Attribute) and node.attr in _WEIGHTS and not self._is_computed(node)
            if held and isinstance(root, ast.Name) and root.id not in self._varying:
                text = say("{who} changes {name}", who=say("the loop"), name=f"`{shown_text(node)}`")
                yield self._reason("object", text, node)
        called = {one.func.id for one in calls_in(self._staying) if isinstance(one.func, ast.Name)}
        handed = [part for call in self._moved_calls for part in call.args if isinstance(part, ast.Name)]
        for name in (one for one in handed if one.id in called - self.text.libraries):
            text = say("{who} changes {name}", who=say("the loop"), name=f"`{name.id}`")
            yield self._reason("object", text, name)

    def _is_computed(self, node: ast.AST) -> bool:
        """Whether something is made of what stands there at once: a norm, an element, a mean."""
        parts = (part for one in self.statements for part in ast.walk(one))
        return any(
            getattr(one, "value", None) is node for one in parts if isinstance(one, (ast.Attribute, ast.Subscript))
        )

    # ------------------------------------------------------------------------------------------- what the statements do

    @cached_property
    def _moved(self) -> tuple[ast.AST, ...]:
        """The nodes of the statements that run later."""
        out: list[ast.AST] = []
        waiting = list(self.statements)
        while waiting:
            node = waiting.pop()
            if not any(span.holds(node) for span in self.kept):
                out.append(node)
                waiting += ast.iter_child_nodes(node)
        return tuple(out)

    @cached_property
    def _moved_calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in self._moved if isinstance(node, ast.Call))

    @cached_property
    def _behind_moved(self) -> tuple[FunctionNode, ...]:
        found = tuple(dict.fromkeys(one for call in self._moved_calls for one in self.calls.called(call.func)))
        handed = self.calls.beside if any(map(self.calls.is_of_a_variable, calls_in(found))) else ()
        return self.calls.with_behind((*found, *handed))

    @cached_property
    def _prints(self) -> bool:
        return any(map(prints, [*self._moved_calls, *calls_in(self._behind_moved)]))

    @cached_property
    def _looked_at(self) -> frozenset[Place]:
        """What the functions of the statements look at that is not handed to them."""
        return frozenset(place for function in self._behind_moved for place in self._outer(function))

    @cached_property
    def _changed(self) -> frozenset[Place]:
        """The variables whose objects the statements change, with all that those may be or hold."""
        found = {one for one, is_deep in self._directly.items() if is_deep}
        for function in self._behind_moved:
            own = (place for node in nodes_of(function) for place in self._changed_by(node, function))
            found |= {place for place in own if self._is_of_others(place, function)}
        without = frozenset(Place(self.code, name) for name in self._varying)
        reached = self.holders.reach(found, without)
        reached |= self._directly.keys()
        no_others = (one for one in reached if one.name != RESULT)  # each call of a function makes another object
        return frozenset(no_others) - (self.calls.constants - {one for one in found if one.name in self.text.functions})

    @cached_property
    def _directly(self) -> dict[Place, bool]:
        """The variables whose objects the statements' own text changes; whether that may be more than a new list."""
        alone = frozenset(filled(self._moved, self.holders.fresh))
        found = [(one, node not in alone) for node in self._moved for one in self._changed_by(node, self.code)]
        return {**dict.fromkeys((one for one, _ in found), False), **{one: True for one, is_deep in found if is_deep}}

    @cached_property
    def _put_in(self) -> frozenset[Place]:
        """The variables at which the statements look when they change such a list."""
        if all(self._directly.values()):
            return frozenset()
        nodes = (node for node in self._moved if isinstance(node, (ast.Name, ast.Attribute)))
        found = (self.text.place(node, self.code) for node in nodes if isinstance(node.ctx, ast.Load))
        return frozenset(one for one in found if one is not None and one.name not in self.holders.fresh)

    @cached_property
    def _rebound(self) -> frozenset[Place]:
        """The variables of others to which the statements give new values."""
        names = (node for node in self._moved if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        found = (self.text.place(node, self.code) for node in names)
        return frozenset(one for one in found if one is not None)

    def _by_other_names(self, piece: ast.AST) -> Iterator[str]:
        """Attributes of the loop's own object that a piece looks at under another name of it: `trainer.total`."""
        for node in ast.walk(piece) if self._own_changed else ():
            if not isinstance(node, ast.Attribute) or node.attr not in self._own_changed:
                continue
            if not (isinstance(node.value, ast.Name) and node.value.id in SELF):
                yield node.attr

    @cached_property
    def _own_changed(self) -> frozenset[str]:
        stored = (node for node in self._moved if self._target(node) is not None)
        found = (self.text.place(self._target(node) or node, self.code) for node in stored)
        return frozenset(one.attribute for one in found if one is not None and one.name in SELF) - {""}

    @cached_property
    def _varying(self) -> frozenset[str]:
        names = (node for node in ast.walk(self.loop) if isinstance(node, ast.Name))
        return frozenset(one.id for one in names if isinstance(one.ctx, ast.Store))

    def _changed_by(self, node: ast.AST, code: ast.AST) -> Iterator[Place]:
        """The variables whose objects a node changes; one that gets another object is told by its name already."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from self._handed(node, code)
            return
        found = self.text.place(target, code) if (target := self._target(node)) is not None else None
        if found is not None and (found.name not in SELF or found.attribute):
            yield found

    def _target(self, node: ast.AST) -> ast.expr | None:
        """What a store or a method changes."""
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return node if isinstance(node.ctx, (ast.Store, ast.Del)) else None
        if isinstance(node, ast.AugAssign):
            return node.target if isinstance(node.value, (ast.List, ast.ListComp, ast.Dict, ast.Tuple)) else None
        method = node.func if isinstance(node, ast.Call) else None
        if not isinstance(method, ast.Attribute) or method.attr in _OF_TEXTS or self._is_kept(method.value):
            return None
        return method.value

    def _is_kept(self, node: ast.AST) -> bool:
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
        if node.id in self._varying or self.text.is_settings(node.id):
            return True
        operands = (one for part in ast.walk(code) if isinstance(part, ast.BinOp) for one in (part.left, part.right))
        return any(isinstance(one, ast.Name) and one.id == node.id for one in operands)

    # --------------------------------------------------------------------------------------------------- what stays

    @cached_property
    def _staying(self) -> tuple[ast.AST, ...]:
        """The pieces of the loop that run where they stand: small statements, heads, and what is kept of the others."""
        return (self._head, *(atom for node in self.loop.body for atom in self._atoms(node)))

    @property
    def _head(self) -> ast.expr:
        return self.loop.test if isinstance(self.loop, ast.While) else self.loop.iter

    def _atoms(self, node: ast.AST) -> Iterator[ast.AST]:
        if self.drained.holds(node):
            return
        if any(span.holds(node) for span in self.later):
            yield from self._kept_parts(node)
            return
        inside = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.excepthandler))]
        if not inside or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self._atoms(child) if isinstance(child, (ast.stmt, ast.excepthandler)) else [child]

    def _kept_parts(self, node: ast.AST) -> Iterator[ast.AST]:
        if self._is_kept(node):
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self._kept_parts(child)

    def _seen_by(self, atom: ast.AST, functions: Iterable[FunctionNode]) -> Iterator[Reason]:
        """What a piece that stays looks at of the objects that the statements change."""
        unseen = {*told_by_identity(atom), *self.drained.asked_in(atom)}
        found = [one for one, at in self.text.mentions(atom, self.code) if at not in unseen or one in self._rebound]
        found += [place for one in functions for place in self._outer(one)]
        by_other_names = [name for one in (atom, *functions) for name in self._by_other_names(one)]
        for met in (*map(self._met, dict.fromkeys(found)), *by_other_names):
            if met:
                text = say("{who} looks at {name}", who=f"`{shown_text(atom)}`", name=f"`{met}`")
                yield self._reason("object", text, atom)
                return

    def _met(self, place: Place) -> str:
        """Which object that the statements change a variable may stand for or hold; empty where it is none."""
        if place not in self._known_met:
            self._known_met[place] = self._which_met(place)
        return self._known_met[place]

    def _which_met(self, place: Place) -> str:
        found = self.holders.holding([place]) if self._changed else frozenset()
        wholes = {one.whole for one in self._changed}
        met = [
            (one not in self._directly, one.shown)
            for one in found
            if one in self._changed or one.whole in self._changed or (not one.attribute and one in wholes)
        ]
        return min(met, default=(False, ""))[1]  # the same one in each process

    def _stored(self, nodes: Iterable[ast.AST], functions: Iterable[FunctionNode]) -> frozenset[Place]:
        """The attributes and variables of others that pieces of the loop, or functions behind them, store."""
        pieces = [(part, self.code) for node in nodes for part in ast.walk(node)]
        pieces += [(part, one) for one in functions for part in nodes_of(one)]
        out: set[Place] = set()
        for part, code in pieces:
            if isinstance(part, (ast.Attribute, ast.Subscript, ast.Name)) and isinstance(part.ctx, ast.Store):
                found = self.text.place(part, code)
                if found is not None and (code is self.code or self._is_of_others(found, code)):
                    out.add(found)
        return frozenset(out)

    def _changed_behind(self, functions: Iterable[FunctionNode]) -> frozenset[Place]:
        """The variables of others that functions store, or whose objects they change."""
        pieces = ((part, one) for one in functions for part in nodes_of(one))
        found = {
            place for part, one in pieces for place in self._changed_by(part, one) if self._is_of_others(place, one)
        }
        return self._stored((), functions) | found

    def _outer(self, function: FunctionNode) -> Iterator[Place]:
        """What a function looks at that is not handed to it: variables around it, its own object."""
        return (place for place in self.text.mentioned(function) if self._is_of_others(place, function))

    def _is_of_others(self, place: Place, function: ast.AST) -> bool:
        """Whether a variable is one of the loop's function too; the object of another class is told by its names."""
        if isinstance(place.owner, ast.ClassDef):
            return place.owner is self.text.family(self.code)
        return place.owner is not function or place.name in defaulted(function)
