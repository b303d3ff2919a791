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
from tracelens.patch.effects import file_lines, syntax
from tracelens.patch.effects.at_once import READS, ends_process, says_how_shown, switches_logger
from tracelens.patch.effects.file_calls import CALLED, is_around
from tracelens.patch.effects.file_constants import told_by_identity
from tracelens.patch.effects.file_drains import Drains
from tracelens.patch.effects.file_holders import FileHolders
from tracelens.patch.effects.file_lines import calls_in, owner_of, shown_text, writes_lines
from tracelens.patch.effects.file_moved import FileMoved
from tracelens.patch.effects.file_text import SELF, Place, chain_of
from tracelens.patch.effects.memory import Memory
from tracelens.patch.effects.objects import CLOCK, COLLECTIVE, RANDOM
from tracelens.patch.effects.places import Loop, Span, function_of, last_name, path_to
from tracelens.patch.effects.reasons import CLOCKS, CODE, FILES, LINES, About, Reason, ReasonKind
from tracelens.patch.effects.running import Running
from tracelens.patch.effects.scopes import FUNCTIONS, nodes_of
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_CLOCKS = words("time perf_counter monotonic process_time now utcnow today elapsed_time")
_CLOCK_OWNERS = words("time datetime timeit")
_COLLECTIVES = words(
    "all_reduce all_gather all_gather_object barrier broadcast reduce reduce_scatter gather_for_metrics"
)
_LOOKS_NAMES_UP = words("globals locals eval exec vars breakpoint")
_SETS = re.compile(r"set_|manual_seed$|seed$|putenv$|enable_|disable_")
_FILE_READERS = words(
    "open read_text read_csv load loadtxt exists isfile listdir getsize stat readlines glob fromfile memmap getvalue"
)
_WEIGHTS = words("weight bias grad data param_groups")


def _looks_at_files(call: ast.Call) -> bool:
    return last_name(call.func) in _FILE_READERS or owner_of(call.func) == "shutil"


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
        running: Running | None = None,
    ) -> None:
        self.holders, self.text, self.loop, self.shown = holders, holders.text, loop, shown
        self._known_met: dict[Place, str] = {}
        self.calls, self.drained, self.later = holders.calls, drained, later
        self.code = function_of(self.text.tree, loop)
        self.running = running or Running(Memory(), (), loop)
        self.moved = FileMoved(holders, self.running, loop, later, kept)
        self.statements = self.moved.statements

    def reasons(self) -> Iterator[Reason]:
        """All obstacles that the text of the file shows."""
        for statement in self.statements:
            yield from self._of_blocks(statement)
            yield from self._of_own_reads(statement)
        for node in (part for statement in self.statements for part in syntax.walk(statement)):
            if isinstance(node, _LEAVES):
                yield self._reason("leaves", say("it leaves the loop, or hands control to somebody else"), node)
        yield from self._of_the_moment()
        yield from self._of_weights()
        for atom in self._staying:
            yield from self._of_piece(atom)
        started = self.calls.with_behind(one for one in self.calls.beside if not self._leads_to_loop(one))
        beside = self.running.among(started, [self.loop])
        yield from self._of_functions(say("what runs beside the loop"), self.loop, beside)
        yield from self._of_changes(say("what runs beside the loop"), self.loop, beside)

    def _of_blocks(self, statement: ast.AST) -> Iterator[Reason]:
        """Blocks around a statement that are over when it runs."""
        around = path_to(self.loop, statement)[1:-1]
        divides = any(isinstance(part, (ast.Div, ast.FloorDiv, ast.Mod)) for part in syntax.walk(statement))
        if divides and any(isinstance(one, ast.Try) and one.handlers for one in around):
            text = say("an error in it is caught where it stands, and would not be later")
            yield self._reason("block", text, statement)
        if any(map(says_how_shown, around)):
            yield self._reason("block", say("the `with` block around it is over when it runs"), statement)

    def _of_own_reads(self, statement: ast.AST) -> Iterator[Reason]:
        """Reads that are a method of the project, whatever that does: no tensor can be kept in place of its object."""
        for call in (one for one in calls_in([statement]) if isinstance(one.func, ast.Attribute)):
            assert isinstance(call.func, ast.Attribute)
            place = self.text.place(call.func.value, self.code) if call.func.attr in READS else None
            if place is not None and self.holders.is_made_with(place, call.func.attr):
                text = say("{who} is a method of the project", who=f"`{shown_text(call)}`")
                yield self._reason("object", text, statement)

    def _of_piece(self, atom: ast.AST) -> Iterator[Reason]:
        """What a piece that stays does, and the functions behind it."""
        if any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in syntax.walk(atom)):
            text = say("the loop hands control to its caller, who may look at anything")
            yield self._reason("moment", text, atom)
        own = self._own_where_called
        functions = self.running.among(self.calls.behind([atom], self.drained.shown, own), [atom])
        unseen = self.calls.unseen([atom, *functions], own)
        if atom is self._head and not self._counts:
            unseen = tuple(dict.fromkeys((*unseen, *self.calls.gone_through())))
        if any(last_name(one.func) in _LOOKS_NAMES_UP and isinstance(one.func, ast.Name) for one in calls_in([atom])):
            yield self._reason("moment", say("the loop looks names up by their text"), atom)
        unseen = self.running.among(unseen, [atom])
        called = calls_in([atom, *functions])
        if self.moved.is_seen_outside and any(map(ends_process, called)):
            text = say("{who} may end the process at once, with what waits", who=f"`{shown_text(atom)}`")
            yield self._reason("moment", text, atom)
        stores = (part for one in (atom, *functions) for part in syntax.walk(one) if switches_logger(part))
        if self.moved.prints and any("log" in ast.unparse(one).lower() for one in stores):
            text = say("{who} changes {name}", who=f"`{shown_text(atom)}`", name=say("the {kind}", kind="logger"))
            yield self._reason("object", text, atom)
        if self.moved.writes_files and any(map(_looks_at_files, called)):
            yield self._reason("output", say("{who} looks at files", who=f"`{shown_text(atom)}`"), atom, FILES)
        if self.moved.trackers & {ast.unparse(one.func) for one in called}:
            text = say("{who} tells the tracker more", who=f"`{shown_text(atom)}`")
            yield self._reason("object", text, atom)
        yield from self._seen_by(atom, functions)
        yield from self._of_functions(f"`{shown_text(atom)}`", atom, (*functions, *unseen))
        yield from self._of_changes(f"`{shown_text(atom)}`", atom, functions)

    @property
    def _own_where_called(self) -> ast.AST | None:
        """The loop's own function, where calls of unknown objects would run it by its name: a `forward` that trains.
        None of those in its own loop begins the training anew."""
        return self.code if getattr(self.code, "name", "") in CALLED else None

    def _of_changes(self, who: str, atom: ast.AST, functions: tuple[FunctionNode, ...]) -> Iterator[Reason]:
        """What a piece, or functions that run with it, change of what the statements look at when they run."""
        own = () if atom is self.loop else (atom,)
        stored = self._stored(own, functions) if self.moved.behind else frozenset()
        found = {one.shown for one in stored if any(map(one.meets, self.moved.looked_at))}
        used = self.moved.put_in | self.moved.values
        changed = self._changed_behind(functions) if used else frozenset()
        found |= {one.shown for one in changed if any(map(one.meets, used))}
        for place in sorted(found):
            yield self._reason("object", say("{who} changes {name}", who=who, name=f"`{place}`"), atom)

    def _of_functions(self, who: str, atom: ast.AST, functions: Iterable[FunctionNode]) -> Iterator[Reason]:
        """What functions do that run where a piece stays."""
        pieces = [*functions] if atom is self.loop else [atom, *functions]
        if self.moved.prints and any(writes_lines(one) for one in pieces):
            yield self._reason("output", say("{who} writes lines of its own", who=who), atom, LINES)
        outer = (place for one in functions for place in self.moved.outer(one))
        met = next(
            filter(None, (self._met(one) or (one.shown if one in self.moved.rebound else "") for one in outer)), ""
        )
        met = met or next((name for one in functions for name in self._by_other_names(one)), "")
        if met:
            yield self._reason("object", say("{who} looks at {name}", who=who, name=f"`{met}`"), atom)

    def _leads_to_loop(self, function: FunctionNode) -> bool:
        """Whether a function is handed to something that starts the training with it."""
        return any(is_around(self.text, one, self.code) for one in self.calls.with_behind([function]))

    def _reason(self, kind: ReasonKind, text: str, node: ast.AST, about: About = CODE) -> Reason:
        line = getattr(node, "lineno", self.loop.lineno)
        return Reason("known", kind, about, text, self.shown, line, line)

    def _of_the_moment(self) -> Iterator[Reason]:
        """What the statements do, by functions of the file, that is bound to the moment at which they stand."""
        functions = self.moved.behind
        written = self.running.among(self.calls.texts, self.statements) if self.moved.prints else ()
        texts = calls_in(written)
        for node in [*self.moved.calls_made, *calls_in(functions), *texts]:
            name, owner = last_name(node.func), owner_of(node.func)
            at = node if node in self.moved.calls_made else self.statements[0]
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
        for node in (part for one in self.statements for part in syntax.walk(one)):
            root = chain_of(node)[-1]
            held = isinstance(node, ast.Attribute) and node.attr in _WEIGHTS and not self._is_computed(node)
            if held and isinstance(root, ast.Name) and root.id not in self.moved.varying:
                text = say("{who} changes {name}", who=say("the loop"), name=f"`{shown_text(node)}`")
                yield self._reason("object", text, node)
        called = {one.func.id for one in calls_in(self._staying) if isinstance(one.func, ast.Name)}
        handed = [part for call in self.moved.calls_made for part in call.args if isinstance(part, ast.Name)]
        for name in (one for one in handed if one.id in called - self.text.libraries):
            text = say("{who} changes {name}", who=say("the loop"), name=f"`{name.id}`")
            yield self._reason("object", text, name)

    def _is_computed(self, node: ast.AST) -> bool:
        """Whether something is made of what stands there at once: a norm, an element, a mean."""
        parts = (part for one in self.statements for part in syntax.walk(one))
        return any(
            getattr(one, "value", None) is node for one in parts if isinstance(one, (ast.Attribute, ast.Subscript))
        )

    def _by_other_names(self, piece: ast.AST) -> Iterator[str]:
        """Attributes that a piece looks at under another name: of the loop's own object, `trainer.total`, or of a class
        whose objects share them."""
        own, of_classes = self.moved.own_changed, self.moved.of_classes
        for node in syntax.walk(piece) if own or of_classes else ():
            if isinstance(node, ast.Attribute) and node.attr in own | of_classes:
                by_itself = isinstance(node.value, ast.Name) and node.value.id in SELF
                if not by_itself or node.attr in of_classes:
                    yield node.attr

    # --------------------------------------------------------------------------------------------------- what stays

    @cached_property
    def _staying(self) -> tuple[ast.AST, ...]:
        """The pieces of the loop that run where they stand: small statements, heads, and what is kept of the others."""
        return (self._head, *(atom for node in self.loop.body for atom in self._atoms(node)))

    @property
    def _counts(self) -> bool:
        """Whether the loop goes through numbers, or through nothing (`while True:`): nothing of the project runs where
        it takes the next one."""
        head = self._head
        if isinstance(head, ast.Constant):
            return isinstance(self.loop, ast.While)
        named = isinstance(head, ast.Call) and isinstance(head.func, ast.Name) and head.func.id == "range"
        return named and "range" not in {*self.text.functions, *self.text.classes}

    @property
    def _head(self) -> ast.expr:
        return self.loop.test if isinstance(self.loop, ast.While) else self.loop.iter

    def _atoms(self, node: ast.AST) -> Iterator[ast.AST]:
        if self.drained.holds(node):
            return
        if any(span.holds(node) for span in self.later):
            yield from self._kept_parts(node)
            return
        inside = [child for child in syntax.children(node) if isinstance(child, (ast.stmt, ast.excepthandler))]
        if not inside or isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node
            return
        for child in syntax.children(node):
            yield from self._atoms(child) if isinstance(child, (ast.stmt, ast.excepthandler)) else [child]

    def _kept_parts(self, node: ast.AST) -> Iterator[ast.AST]:
        if self.moved.is_kept(node):
            yield node
            return
        for child in syntax.children(node):
            yield from self._kept_parts(child)

    def _seen_by(self, atom: ast.AST, functions: Iterable[FunctionNode]) -> Iterator[Reason]:
        """What a piece that stays looks at of the objects that the statements change."""
        unseen = {*told_by_identity(atom), *self.drained.asked_in(atom)}
        mentions = self.text.mentions(atom, self.code)
        found = [one for one, at in mentions if at not in unseen or one in self.moved.rebound]
        found += [place for one in functions for place in self.moved.outer(one)]
        by_other_names = [name for one in (atom, *functions) for name in self._by_other_names(one)]
        of_modules = [one.shown for one in found if one in self.moved.rebound and one.owner is not self.code]
        for met in (*map(self._met, dict.fromkeys(found)), *of_modules, *by_other_names):
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
        found = self.holders.holding([place]) if self.moved.changed else frozenset()
        wholes = {one.whole for one in self.moved.changed}
        met = [
            (one not in self.moved.directly, one.shown)
            for one in found
            if one in self.moved.changed or one.whole in self.moved.changed or (not one.attribute and one in wholes)
        ]
        return min(met, default=(False, ""))[1]  # the same one in each process

    def _stored(self, nodes: Iterable[ast.AST], functions: Iterable[FunctionNode]) -> frozenset[Place]:
        """The attributes and variables of others that pieces of the loop, or functions behind them, store."""
        pieces = [(part, self.code) for node in nodes for part in syntax.walk(node)]
        pieces += [(part, one) for one in functions for part in nodes_of(one)]
        out: set[Place] = set()
        for part, code in pieces:
            if isinstance(part, (ast.Attribute, ast.Subscript, ast.Name)) and isinstance(part.ctx, ast.Store):
                found = self.text.place(part, code)
                if found is not None and (code is self.code or self.moved.is_of_others(found, code)):
                    out.add(found)
        return frozenset(out)

    def _changed_behind(self, functions: Iterable[FunctionNode]) -> frozenset[Place]:
        """The variables of others that functions store, or whose objects they change."""
        pieces = ((part, one) for one in functions for part in nodes_of(one))
        found = {
            place
            for part, one in pieces
            for place in self.moved.changed_by(part, one)
            if self.moved.is_of_others(place, one)
        }
        return self._stored((), functions) | found
