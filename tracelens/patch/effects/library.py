"""What calls of libraries do, by the vocabulary: effects, results, and what they call back in the project.

In: the full name of what is called and what it is given. Out: the objects that it gives; its effects are entered into
the summary of the caller. A name that the vocabulary does not have is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tracelens.patch.effects import durations, implicit, log_files, paths, screens, vocabulary
from tracelens.patch.effects.attributes import COUNT, REMADE
from tracelens.patch.effects.callables import is_unknown_function
from tracelens.patch.effects.callbacks import CallbackRules, has_content
from tracelens.patch.effects.dispatch import HELD, STATE, TEXT, Arguments, Dispatch, Here
from tracelens.patch.effects.holders import named_by
from tracelens.patch.effects.library_calls import LibraryCall
from tracelens.patch.effects.memory import (
    ANY_KEY,
    DATA,
    HOOKS,
    NONE,
    PLAIN,
    RAISED,
    REPLACED,
    WEIGHTS,
    Memory,
    Objects,
    is_tensor,
)
from tracelens.patch.effects.objects import (
    BAR,
    CLOCK,
    DISK_READ,
    DISK_WRITE,
    GENERAL,
    NAMES,
    OUTPUT,
    READS,
    WRITES,
    Callbacks,
    Container,
    Duration,
    Effect,
    Instance,
    Moment,
    Name,
    Object,
    Plain,
    Thing,
)
from tracelens.patch.effects.results import Results
from tracelens.patch.effects.special import METHODS, SPECIAL, mocked
from tracelens.patch.effects.vocabulary import Entry

_KEEPS = tuple(f"<list>.{name}" for name in ("append", "add", "insert", "appendleft", "setdefault", "put", "push"))

_ERRORS = ("Error", "Exception", "Interrupt", "Exit", "Iteration", "Warning")
MAX_DEPTH = 8
"""Dots in the name of a library's function; there are no longer ones, but an assignment in a loop could make some."""


_COMPUTE = frozenset(f"<module>.{name}" for name in ("__call__", "forward", "generate", "__getitem__", "__next__"))
"""Calls of a module, or of one of its parts."""

_OF_TRACKERS = frozenset({"<accelerator>.log", "<accelerator>.log_images", "<accelerator>.print"})
"""They look at the trackers, and at which rank this is: nothing that a step of the training changes."""

_CHANGE_TRACKERS = frozenset({"<accelerator>.init_trackers", "<accelerator>.end_training"})

_OF_BARS = {
    "text": ((WRITES, TEXT), (WRITES, "desc"), (WRITES, "postfix")),
    "count": ((READS, TEXT), (WRITES, COUNT), (WRITES, "format_dict")),
    "lines": ((READS, STATE),),
}
"""What a method reads and changes of its bar, of which nobody gets the rest: neither its text nor how far it is decides
on the other. It is drawn with both."""


class Library:
    """Applies the vocabulary."""

    def __init__(self, memory: Memory, dispatch: Dispatch) -> None:
        self.memory = memory
        self.dispatch = dispatch
        self.callbacks = CallbackRules(memory, dispatch)
        self.results = Results(memory, dispatch)
        self._passing: set[Thing] = set()
        """What is gone through at present, the one within the other."""

    # ------------------------------------------------------------------------------------------------------- reading

    def read(self, full: str, receiver: Object | None, here: Here) -> Objects:
        """An attribute of a library's module or object."""
        owner, _, last = full.rpartition(".")
        if receiver is not None and "." in owner:  # the middle of a long path says nothing more
            full = f"<{self._kind_after(owner)}>.{last}"
        elif owner.count(".") > MAX_DEPTH:
            return self.memory.unknown(f"`{owner}`")
        member = frozenset({self.memory.make(Name, full, receiver)})
        if isinstance(receiver, Thing) and receiver.kind == "logger":
            return member | {receiver}  # its handlers and filters are parts of it
        if full == "sys.modules":
            self.memory.effect(here.unit, here.node, Effect(NAMES))
        entry = vocabulary.lookup(full)
        if entry is not None and entry.gives == "held" and isinstance(receiver, Thing):
            return member | self.memory.read(receiver, HELD, here.unit)
        if entry is None or entry.gives != "weights":
            return member
        own = self.memory.read(receiver, HELD, here.unit) if isinstance(receiver, Thing) else ()
        return member | self.results.weights(receiver) | frozenset(filter(is_tensor, own))

    def _kind_after(self, full: str) -> str:
        entry = vocabulary.lookup(full)
        if entry is not None and entry.gives.startswith("<"):
            return entry.gives[1:-1]
        is_data = entry is not None and entry.gives in ("data", "new data", "plain")
        return "data" if is_data else full[1:].partition(">")[0]

    # ------------------------------------------------------------------------------------------------------- calling

    def through(self, objects: Objects, protocol: str, here: Here) -> Objects:
        """What Python runs of the objects where no text names a call; see `implicit`."""
        return self.callbacks.through(objects, protocol, here)

    def call(self, called: Name, given: Arguments, here: Here) -> Objects:
        """A call of a library's function, or of a method of its object."""
        self.memory.spend()
        if (full := paths.full_name(called.full, given)) != called.full:
            called = self.memory.make(Name, full, called.receiver)
        if ".mock." in f".{called.full}":
            mocked(given, here, self.memory)
        special = SPECIAL.get(called.full) or METHODS.get(called.full.rpartition(".")[2])
        if special is not None:
            return special(LibraryCall(called, given, here, self.dispatch))
        self._hooks(called, given, here)
        self._made_anew(called, given, here)
        entry = vocabulary.lookup(called.full)
        if entry is None or entry.gives == "unknown":
            if called.receiver is None and vocabulary.is_module(called.full):
                return NONE  # a module, which nobody calls: it is one of several things that a name can stand for
            if called.full.startswith("builtins.") and called.full.endswith(_ERRORS):
                return self.results.holder(given.objects, here)
            receiver = frozenset({called.receiver} if called.receiver is not None else ())
            return self.dispatch.unknown(f"`{called.full}(…)`", given.objects | receiver, here)
        if vocabulary.is_general(called.full):
            self.memory.effect(here.unit, here.node, Effect(GENERAL, None, called.full))
        self._effects(entry, called, given, here)
        opened = log_files.opened_by(LibraryCall(called, given, here, self.dispatch), entry)
        if opened:
            self.memory.effect(here.unit, here.node, Effect(opened))
        results = self.callbacks.enter(entry, called, given, here) | self._unnamed(entry, called, given, here)
        self._show(entry, given.objects | results, here)
        return self.results.result(entry, called, given, results, here) | self._timed(
            entry, called, given, results, here
        )

    def _unnamed(self, entry: Entry, called: Name, given: Arguments, here: Here) -> Objects:
        """What runs though the call does not name it: parts of loggers, special methods behind a base's method, and
        the text of the exception that is being handled."""
        receiver = called.receiver
        if called.full.startswith("traceback.") or called.full.endswith(".exception") or "exc_info" in given.named:
            self.callbacks.through(frozenset({RAISED}), implicit.TEXT, here)
        if isinstance(here.node, ast.Call):  # not what the call does with its arguments, which may be kept for it
            here = Here(here.unit, here.node.func)
        if entry.changes == "logging" and OUTPUT in entry.does:
            state = self.memory.make(Name, "<logging>", None)
            logger = self.memory.make(Thing, "logger", "logger", None)
            parts = self.memory.read(state, HELD, here.unit) | self.memory.read(logger, HELD, here.unit)
            return self.callbacks.through(parts, implicit.IMPLICIT, here)
        if isinstance(receiver, Instance) and called.full.startswith(("<list>.", "<data>.")):
            return self.callbacks.through(frozenset({receiver}), implicit.PASS, here)
        return NONE

    def _show(self, entry: Entry, objects: Objects, here: Here) -> None:
        """Durations that people see."""
        if {OUTPUT, BAR, DISK_WRITE} & set(entry.does) or entry.changes in ("tracker", "logging", "figure"):
            for effect in durations.shown(objects, self.memory):
                self.memory.effect(here.unit, here.node, effect)

    def _timed(self, entry: Entry, called: Name, given: Arguments, results: Objects, here: Here) -> Objects:
        """What a clock said, and what a function computes of it."""
        if CLOCK in entry.does and not durations.is_given_time(called.full, len(given.positional)):
            made = Duration if called.full.endswith("elapsed_time") else Moment
            return frozenset({self.memory.make(made, *([here.node] * (2 if made is Duration else 1)))})
        if entry.gives not in ("plain", "data", "new data", "elements"):
            return NONE
        objects = given.objects | results | (NONE if called.receiver is None else {called.receiver})
        if called.full.endswith(".format"):  # `"{meter.average}".format(meter=meter)`
            objects |= NONE.union(*(self._inside_all(one, here) for one in objects if isinstance(one, Instance)))
        return durations.timed(objects, self.memory)

    def _inside_all(self, owner: Object, here: Here) -> Objects:
        return NONE.union(*(self.memory.read(owner, name, here.unit) for name in self.memory.names(owner, here.unit)))

    def _effects(self, entry: Entry, called: Name, given: Arguments, here: Here) -> None:
        note = self.memory.effect
        for kind in entry.does:
            if kind != CLOCK or not durations.is_given_time(called.full, len(given.positional)):
                note(here.unit, here.node, Effect(kind))
        if OUTPUT in entry.does:
            self._screen(given, here)
        written_to = given.objects if called.receiver is None else given.objects | {called.receiver}
        on_screen = DISK_WRITE in entry.does and screens.is_any_screen(written_to, self.memory, here.unit)
        if on_screen or screens.is_verbose(here.node) or screens.speaks(called.receiver, self.memory, here.unit):
            note(here.unit, here.node, Effect(OUTPUT))
        for one in given.objects:
            if has_content(one):
                note(here.unit, here.node, Effect(READS, one, "", deep=True))
        self._changes_receiver(entry, called, given, here)
        self._changes_others(entry, called, given, here)
        for one in given.named.get("out", NONE):
            note(here.unit, here.node, Effect(WRITES, one, STATE))

    def _changes_receiver(self, entry: Entry, called: Name, given: Arguments, here: Here) -> None:
        """A method reads its object, and may change it."""
        note, receiver = self.memory.effect, called.receiver
        array = is_tensor(receiver) and not vocabulary.knows(called.full)
        in_place = called.full.startswith("<data>.") and (array or called.full.endswith("_"))
        changed = in_place or entry.changes in ("self", "weights", *_OF_BARS)
        if receiver is None or not has_content(receiver):
            return
        if entry.changes in _OF_BARS and isinstance(receiver, Thing):
            for kind, shown in _OF_BARS[entry.changes]:
                note(here.unit, here.node, Effect(kind, receiver, shown))
            return
        if called.full in _CHANGE_TRACKERS:
            note(here.unit, here.node, Effect(WRITES, receiver, "trackers"))
        if called.full in _OF_TRACKERS:
            note(here.unit, here.node, Effect(READS, receiver, "trackers"))
            return
        name = ANY_KEY if called.full.startswith("<list>") else STATE
        note(here.unit, here.node, Effect(READS, receiver, name))
        if isinstance(receiver, Thing):
            note(here.unit, here.node, Effect(READS, receiver, HELD, deep=True))
        named = named_by(receiver)
        if named is not None:
            note(here.unit, here.node, Effect(READS, named, "", deep=True))
        if changed:
            note(here.unit, here.node, Effect(WRITES, receiver, name))
            if named is not None:
                note(here.unit, here.node, Effect(WRITES, named, "*"))
            self._keep(called, receiver, given, here)

    def _changes_others(self, entry: Entry, called: Name, given: Arguments, here: Here) -> None:
        """A function may change what it is given, the weights, or the one state of its library."""
        note = self.memory.effect
        if entry.changes == "args" or (not entry.changes and _may_change(entry, called, given, here)):
            content = frozenset(filter(has_content if entry.changes == "args" else _is_told_apart, given.objects))
            if not entry.changes:
                self.memory.summary(here.unit).may_change |= {(here.node, one) for one in content}
            for one in content:
                note(here.unit, here.node, Effect(WRITES, one, ANY_KEY))
                note(here.unit, here.node, Effect(WRITES, one, STATE))
                if isinstance(one, Container):  # `heapq.heappush(kept, one)`
                    self.memory.write(one, ANY_KEY, content - {one})
            self._change_tensors((one for one in given.objects if isinstance(one, (Container, Thing))), here)
        elif entry.changes == "weights":
            note(here.unit, here.node, Effect(WRITES, WEIGHTS, STATE))
            self._change_tensors(given.objects | (NONE if called.receiver is None else {called.receiver}), here)
        elif entry.changes not in ("", "self", "text"):
            state = self.memory.make(Name, f"<{entry.changes}>", None)
            note(here.unit, here.node, Effect(WRITES, state, STATE))
            self.memory.write(state, HELD, filter(has_content, given.objects))

    def _change_tensors(self, owners: Iterable[Object], here: Here) -> None:
        """All tensors that the objects have change: an optimizer's own, those in a list."""
        for one in self.memory.reach(filter(has_content, owners), through_unknown=False):
            if one is WEIGHTS or is_tensor(one):
                self.memory.effect(here.unit, here.node, Effect(WRITES, one, STATE))

    def _screen(self, given: Arguments, here: Here) -> None:
        """What a line is written to: an object of the project in the place of the screen or of a file."""
        for name in ("sys.stdout", "sys.stderr"):
            stand_in = self.memory.make(Name, name.rpartition(".")[0], None)
            objects = self.memory.read(stand_in, name.rpartition(".")[2], here.unit) | given.named.get("file", NONE)
            self.dispatch.special(objects, ("write", "flush"), Arguments((frozenset({PLAIN}),)), here)
            for one in given.named.get("file", NONE):
                if isinstance(one, (Thing, Name)) and has_content(one):
                    self.memory.effect(here.unit, here.node, Effect(WRITES, one, STATE))
                    self.memory.effect(here.unit, here.node, Effect(DISK_WRITE))

    def _keep(self, called: Name, receiver: Object, given: Arguments, here: Here) -> None:
        """What an object is given it may hold from then on; a module computes with it, and holds none of it."""
        if isinstance(receiver, Thing) and receiver.kind == "module" and called.full in _COMPUTE:
            return
        kept = frozenset(filter(has_content, given.objects))
        if implicit.is_loaded(receiver):  # it stands for data and for what it may have itself already
            kept = frozenset(one for one in kept if implicit.acting(one, self.memory, here.unit) - {receiver})
        if not called.full.startswith("<list>"):
            self.memory.write(receiver, HELD, kept)
        elif called.full in _KEEPS:
            self.memory.write(receiver, ANY_KEY, given.objects)
        else:
            inside = self.dispatch.passes(given.objects - {PLAIN}, here) | given.objects & {PLAIN, DATA}
            inside |= NONE.union(*given.named.values())
            self.memory.write(receiver, ANY_KEY, inside)
            named = named_by(receiver)
            if named is not None:  # `vars(settings).update(…)`
                self.memory.write(named, "*", inside)

    def _made_anew(self, called: Name, given: Arguments, here: Here) -> None:
        """`nn.MSELoss.__init__(criterion, reduction="none")`"""
        if called.receiver is None and called.full.rpartition(".")[2] in REMADE:
            for one in given.positional[0] if given.positional else given.rest:
                self.memory.effect(here.unit, here.node, Effect(WRITES, one, "*"))

    def _hooks(self, called: Name, given: Arguments, here: Here) -> None:
        last = called.full.rpartition(".")[2]
        if last.startswith("register_") and "hook" in last:
            receiver = frozenset({called.receiver}) if isinstance(called.receiver, Instance) else NONE
            self.memory.write(HOOKS, HELD, given.objects | receiver)
        elif called.full.endswith("saved_tensors_hooks"):
            self.memory.write(REPLACED, HELD, given.objects)
        elif last in ("backward", "__call__", "step", "grad", "forward"):
            for holder in (HOOKS, REPLACED):
                self.memory.calls(here.unit, here.node, self.memory.make(Callbacks, holder, "later"))

    # --------------------------------------------------------------------------------------------------------- passes

    def passes(self, over: Thing | Name, here: Here) -> Objects:
        """A pass over a library's object."""
        if isinstance(over, Name):
            return self.call(over, Arguments(), here) if over.full.endswith("__next__") else self._pass_name(over, here)
        if over in self._passing:
            return NONE  # it holds itself
        self._passing.add(over)
        out: Objects
        if implicit.is_loaded(over):
            kept = self.memory.read(over, HELD, here.unit)
            out = self.through(frozenset({over}), implicit.PASS, here) | kept | {DATA}
        else:
            out = self._pass_thing(over, self.memory.read(over, HELD, here.unit), here)
        self._passing.discard(over)
        return out

    def _pass_thing(self, over: Thing, held: Objects, here: Here) -> Objects:
        if over.kind == "bar":
            self.memory.effect(here.unit, here.node, Effect(BAR))
            for changed in (STATE, COUNT, "format_dict"):
                self.memory.effect(here.unit, here.node, Effect(WRITES, over, changed))
            self.memory.effect(here.unit, here.node, Effect(READS, over, TEXT))
            return self.dispatch.passes((one for one in held if not isinstance(one, Plain)), here) | {DATA}
        if over.kind in implicit.LAZY:
            self.memory.effect(here.unit, here.node, Effect(WRITES, over, STATE))
            return self._pass_lazily(over, held, here)
        if over.kind == "file":
            self.memory.effect(here.unit, here.node, Effect(DISK_READ))
            return frozenset({PLAIN})
        if over.kind == "data":
            names = self.memory.keys(over, here.unit)
            return NONE.union({over}, *(self.memory.read(over, name, here.unit) for name in names))
        if over.kind == "loader":  # it may draw the order of its samples
            self.memory.effect(here.unit, here.node, Effect(GENERAL, None, "<loader>.__iter__"))
        if over.kind == "holder":
            return held | self.dispatch.passes(self.dispatch.held_behind(over, here), here) | {over, PLAIN, DATA}
        return self.call(self.memory.make(Name, f"<{over.kind}>.__next__", over), Arguments(), here)

    def _pass_name(self, over: Name, here: Here) -> Objects:
        entry = vocabulary.lookup(over.full)
        if entry is None and over.receiver is None and vocabulary.is_module(over.full):
            return NONE  # nor does anybody go through it
        if entry is None:
            return self.dispatch.unknown(f"`{over.full}`", NONE, here)
        if isinstance(over.receiver, (Thing, Container, Instance)) and over.receiver is not DATA:
            self.memory.effect(here.unit, here.node, Effect(READS, over.receiver, STATE))
        return frozenset({WEIGHTS if entry.gives == "weights" else DATA})

    def _pass_lazily(self, over: Thing, held: Objects, here: Here) -> Objects:
        methods = {one for one in held if isinstance(one, Name) and has_content(one)}
        functions = methods.union(self.dispatch.called_ones(held, here), filter(is_unknown_function, held))
        given = self.dispatch.passes(held - functions, here)
        results = self.dispatch.invoke(functions, Arguments((given,), rest=given), here)
        if over.kind == "lazy":
            return given | results
        pair = self.memory.make(Container, over.site, "<pair>")
        if over.kind == "numbered":
            self.memory.write(pair, "[0]", {PLAIN})
        self.memory.write(pair, "[1]" if over.kind == "numbered" else ANY_KEY, given)
        return frozenset({pair})


def _is_told_apart(one: Object) -> bool:
    """Whether an object is a list or an array."""
    return isinstance(one, Container) or is_tensor(one)


def _may_change(entry: Entry, called: Name, given: Arguments, here: Here) -> bool:
    """Whether a function may change what it is given: torch says so, others that only a pattern knows may."""
    if not called.full.startswith("torch."):
        return not (entry.fresh or vocabulary.knows(called.full)) and entry.gives in ("data", "new data")
    if called.full.endswith("_") or "inplace" in given.named:
        return True
    flags = (getattr(one, "value", None) is True for one in getattr(here.node, "args", ())[1:])
    return ".functional." in called.full and any(flags)
