"""What a call of a library gives, by the vocabulary: something new, or what it was handed, as it is or within another.

In: a call and its entry. Out: objects. Whatever the vocabulary does not declare to be new may be, or have, each of the
arguments: views of arrays, settings, records, iterators, decorators.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from tracelens.patch.effects import classes, screens, vocabulary
from tracelens.patch.effects.attributes import FACTORY, VIEW
from tracelens.patch.effects.callables import is_picker
from tracelens.patch.effects.callbacks import acts, has_content
from tracelens.patch.effects.dispatch import HELD, STATE, Arguments, Dispatch, Here
from tracelens.patch.effects.holders import MODULES, is_holder, modules_in
from tracelens.patch.effects.implicit import LOADED, is_loaded
from tracelens.patch.effects.losses import TOLD, is_mean
from tracelens.patch.effects.memory import (
    ANY_KEY,
    CLASS,
    DATA,
    IN_PLACE_LAYER,
    KEYS,
    LAYER,
    NONE,
    PLAIN,
    SLICE,
    WEIGHTS,
    Memory,
    Objects,
)
from tracelens.patch.effects.objects import (
    WRITES,
    Activation,
    Callbacks,
    Container,
    Effect,
    Instance,
    Name,
    Object,
    Thing,
    is_thing,
)
from tracelens.patch.effects.vocabulary import Entry

FRESH = "<fresh>"
"""Marks an object whose calls give new tensors: a loss."""
COLLATED = "<collated>"
"""Marks a loader that puts its batches together as torch does: of tensors, numbers and texts."""
IN_PLACE = "<in place>"
"""Marks a module that changes what it is given: `nn.ReLU(inplace=True)`."""
_OF_NUMBERS = re.compile(
    r"torch\.nn\.(Lazy)?(Conv|Linear|Bilinear|(Sync)?BatchNorm|InstanceNorm|GroupNorm|LayerNorm|RMSNorm|Embedding"
    r"|(Alpha|Feature)?Dropout|(Adaptive)?(Avg|Max)Pool|\w*ReLU|\w*Pad[123]d|Upsample|PixelShuffle|Flatten|Identity"
    r"|Tanh|Sigmoid|(Log)?Softmax|GELU|SiLU|Hardtanh|Softplus)\w*$"
)
"""Layers that are made of numbers alone, wherever these come from."""
_OF_ARRAYS = re.compile(r"(numpy|torch|sklearn\.metrics)\.\w+$")
"""Functions that compute with arrays: a list that they are given is read, and becomes an array."""
_COMPUTES = re.compile(r"(numpy|scipy|sklearn|cv2|PIL|skimage|librosa)\.|torch\.\w+$")
"""Functions that give arrays and numbers, whatever they are given."""
_LISTS = (ast.List, ast.Tuple, ast.ListComp, ast.Subscript)
"""Places that make lists and tuples."""
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_CONTAINERS = frozenset(
    f"torch.nn.{name}"
    for name in ("Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "DataParallel")
)


_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_COLLATE_POSITION = 6


class Results:
    """Applies what the entries say that calls give."""

    def __init__(self, memory: Memory, dispatch: Dispatch) -> None:
        self.memory = memory
        self.dispatch = dispatch

    def result(self, entry: Entry, called: Name, given: Arguments, results: Objects, here: Here) -> Objects:
        """The objects that a call can give; `results` are those of what it calls back."""
        if entry.gives.startswith("<"):
            return self._made(entry, called, given, here)
        if entry.gives in ("list", "parts"):
            listed = entry.gives == "list"
            return self._list(called, given, results, here) if listed else self._parts(called, here)
        collated = entry.gives == "called" and self._is_collated(called.receiver, here)
        return self._batch(results, here) if collated else self._by_word(entry, called, given, results, here)

    def _by_word(self, entry: Entry, called: Name, given: Arguments, results: Objects, here: Here) -> Objects:
        match entry.gives:
            case "args":
                out = frozenset(filter(has_content, given.objects)) or self._decorator(called, here)
            case "self":
                out = frozenset({called.receiver or DATA})
            case "held":
                out = self._held(called, given, here) | {DATA}
            case "called":
                out = self._tensors(called, given, here) | {DATA}
            case "elements":
                out = self._elements(called, given, here)
            case "weights":
                out = self.weights(called.receiver)
            case "copy" if called.receiver is not WEIGHTS:
                out = frozenset({called.receiver or DATA})
            case "new data" | "new views" | "copy":
                made = self.memory.make(Thing, "data", here.node, here.maker)
                out = self._handed_on(entry, called, given, here) | {made}
            case "data" | "views":
                own = called.receiver if called.full.startswith("<data>") and called.receiver else DATA
                out = self._handed_on(entry, called, given, here) | {own}
            case _:
                return frozenset({PLAIN})
        return out | results

    def _made(self, entry: Entry, called: Name, given: Arguments, here: Here) -> Objects:
        kind = entry.gives[1:-1]
        in_place = "inplace" in given.named or any(map(_is_true, getattr(here.node, "args", ())))
        layer = kind == "module" and not entry.fresh and _is_layer(called, given)
        own = (IN_PLACE_LAYER if in_place else LAYER) if layer else None
        thing = own or self.memory.make(Thing, kind, *self._site(kind, called, here))
        if not layer and kind != LOADED:  # what a file is read with is no part of it
            self.memory.write(thing, HELD, filter(acts, given.objects))
        if not layer:
            screens.note_made(thing, given.objects, here, self.memory)
        if entry.fresh:
            self.memory.write(thing, FRESH, {PLAIN})
            self.memory.write(thing, CLASS, {self.memory.make(Name, called.full, None)})
            if not is_mean(called.full, len(given.positional), given.named, bool(given.rest)):
                self.memory.write(thing, TOLD, {PLAIN})
        if called.full in _LOADERS and _collates_as_torch(here.node):
            self.memory.write(thing, COLLATED, {PLAIN})
        if kind == "module" and in_place:
            self.memory.write(thing, IN_PLACE, {PLAIN})
        return frozenset({thing})

    # -------------------------------------------------------------------------------------------------------- batches

    def _is_collated(self, loader: Object | None, here: Here) -> bool:
        return isinstance(loader, Thing) and bool(self.memory.read(loader, COLLATED, here.unit))

    def _batch(self, results: Objects, here: Here) -> Objects:
        """What torch puts together of a data set's items: lists and dicts of tensors, numbers and texts.

        It refuses other objects, but for those of a class that is a list or a dict: a named tuple.
        """
        own = frozenset(one for one in results if isinstance(one, Instance) and self._is_sequence(one, here))
        if not any(isinstance(one, Container) for one in results):
            return own | {DATA}
        made = self.memory.make(Container, here.node, "<batch>")
        self.memory.write(made, ANY_KEY, {DATA, PLAIN, made})
        return own | {DATA, made}

    def _is_sequence(self, one: Instance, here: Here) -> bool:
        return not set(classes.kinds(one.made, self.memory, here.unit)) <= {"module", "loader"}

    # ------------------------------------------------------------------------------------------- what may be the same

    def _handed_on(self, entry: Entry, called: Name, given: Arguments, here: Here) -> Objects:
        """Tensors of which the result may be a view, and an object that has the other arguments."""
        exact = vocabulary.knows(called.full) and entry.gives not in ("views", "new views")
        if (exact or entry.fresh) and "inplace" not in given.named:
            return NONE
        receiver = called.receiver if isinstance(called.receiver, Thing) and called.receiver.kind != "data" else None
        objects = self._without_lists(given.objects, here) if _OF_ARRAYS.match(called.full) else given.objects
        content = [one for one in (*objects, receiver or PLAIN) if has_content(one)]
        method = called.full.startswith("<data>.") and not called.full.endswith("__call__")
        arrays = _COMPUTES.match(called.full) is not None  # of what comes out of a file, too: as plain data
        data = {one for one in content if is_thing(one, "data")}
        out = {one for one in content if (is_loaded(one) and not arrays) or (one in data and not method)}
        kept = [one for one in content if one not in data and not is_loaded(one) and not self._is_plain(one, here)]
        a_class = called.receiver is None and called.full.rpartition(".")[2][:1].isupper()
        return self.holder(kept, here) | out if kept or a_class else frozenset(out)

    def _without_lists(self, objects: Objects, here: Here) -> Objects:
        """An array is made of what a list has and never has the list, as it would have a dict."""
        lists = frozenset(one for one in objects if isinstance(one, Container) and isinstance(one.site, _LISTS))
        return objects - lists | self.dispatch.passes(lists, here)

    def holder(self, kept: Iterable[Object], here: Here) -> Objects:
        """An object of which no more is known than what it has."""
        return self.dispatch.made(HELD, filter(has_content, kept), Thing, "holder", here.node, here.maker)

    def _is_plain(self, one: Object, here: Here) -> bool:
        """Whether an argument only says something: a setting, or a list of numbers that is written there."""
        if isinstance(one, Name):
            return one.receiver is not None and is_holder(one.receiver)
        if not isinstance(one, Container) or not isinstance(one.site, _DISPLAYS):
            return False
        written = isinstance(one.site, ast.Tuple) or one.site in getattr(here.node, "args", ())
        inside = (self.memory.read(one, name, here.unit) for name in self.memory.keys(one, here.unit))
        return written and not any(has_content(part) for held in inside for part in held)

    def _tensors(self, called: Name, given: Arguments, here: Here) -> Objects:
        """What a module of a library may give as it is: `nn.Flatten()(x)`, `nn.Identity()(x)`."""
        receiver = called.receiver
        if not isinstance(receiver, Thing) or receiver is DATA or self.memory.read(receiver, FRESH, here.unit):
            return NONE
        tensors = frozenset(one for one in given.objects if is_thing(one, "data") and one is not WEIGHTS)
        for one in tensors if self.memory.read(receiver, IN_PLACE, here.unit) else ():
            self.memory.effect(here.unit, here.node, Effect(WRITES, one, STATE))
        return tensors

    # ------------------------------------------------------------------------------------------------- by their words

    def weights(self, receiver: Object | None) -> Objects:
        """Parts of a module or optimizer, which from now on is known to have some."""
        if receiver is not None and has_content(receiver):
            self.memory.write(receiver, HELD, {WEIGHTS})
        return frozenset({WEIGHTS})

    def _decorator(self, called: Name, here: Here) -> Objects:
        """What a call without a function gives that is one: it is handed the function in another call."""
        if isinstance(called.receiver, Thing):
            return frozenset({called.receiver, PLAIN})
        return frozenset({self.memory.make(Thing, "context", here.node, here.maker), PLAIN})

    def _site(self, kind: str, called: Name, here: Here) -> tuple[object, object]:
        """Loggers and trackers are one each; other objects are told apart by the place that makes them."""
        if kind in ("logger", "tracker", "sender", "figure", "screen", LOADED):
            return kind, None
        if called.receiver is not None and isinstance(called.receiver, Thing) and called.receiver.kind == kind:
            return called.receiver.site, called.receiver.maker
        if called.full in _CONTAINERS and not isinstance(here.unit, Callbacks):
            function = here.unit.function if isinstance(here.unit, Activation) else None
            return (function.owner or function if function is not None else here.unit), MODULES
        return here.node, here.maker

    def _held(self, called: Name, given: Arguments, here: Here) -> Objects:
        if called.full == "<module>.__getitem__":  # `self.layers[i](x)`: the part computes
            return self._tensors(called, given, here)
        receiver = called.receiver
        if isinstance(receiver, Thing) and receiver is not DATA:
            return self.memory.read(receiver, HELD, here.unit) | {receiver}
        if isinstance(receiver, Instance) and called.full.endswith("submodule"):
            return modules_in(receiver, self.memory, here.unit)
        return NONE

    def _parts(self, called: Name, here: Here) -> Objects:
        """`module.children()`, `module.named_modules()`: what a pass over it gives, with the names of the parts."""
        own = modules_in(called.receiver, self.memory, here.unit) if called.receiver is not None else NONE
        going = self.memory.make(Container, here.node, here.maker)
        inside = own | {DATA}
        if ".named_" in called.full:
            pair = self.memory.make(Container, here.node, "<pair>")
            self.memory.write(pair, "[0]", {PLAIN})
            self.memory.write(pair, "[1]", inside)
            inside = frozenset({pair})
        self.memory.write(going, ANY_KEY, inside)
        return frozenset({going})

    def _elements(self, called: Name, given: Arguments, here: Here) -> Objects:
        if called.full.startswith("<list>") and called.receiver is not None:
            inside = self._inside(called.receiver, here) | given.objects | {PLAIN}
            return inside | (self.dispatch.part(inside, here) if SLICE in given.objects else NONE)
        chosen = given.named.get("default", NONE)
        if called.full in ("builtins.max", "builtins.min") and len(given.positional) > 1:
            chosen |= NONE.union(*given.positional)
        return self.dispatch.passes(given.objects - {PLAIN}, here) | (given.objects & {DATA}) | chosen | {PLAIN}

    def _inside(self, owner: Object, here: Here) -> Objects:
        names = (KEYS, *self.memory.keys(owner, here.unit))
        return NONE.union(*(self.memory.read(owner, name, here.unit) for name in names))

    def _list(self, called: Name, given: Arguments, results: Objects, here: Here) -> Objects:
        made = self.memory.make(Container, here.node, here.maker)
        inside = results | frozenset(one for value in given.named.values() for one in value if not is_picker(one))
        if called.receiver is not None and called.full.startswith("<list>"):
            inside |= self._inside(called.receiver, here)
        functions = self.dispatch.called_ones(given.objects, here)
        functions |= frozenset(one for one in given.objects if isinstance(one, Name))
        inside |= self.dispatch.passes(given.objects.difference(functions, {PLAIN}), here)
        if called.full == "collections.defaultdict":
            inside |= self.dispatch.invoke(functions, Arguments(), here)
            self.memory.write(made, FACTORY, {PLAIN, *(one for one in functions if not isinstance(one, Name))})
        if called.full.endswith((".items", ".values", ".keys")) and isinstance(called.receiver, Container):
            self.memory.write(made, VIEW, {called.receiver})
        if called.full.startswith(("builtins.dict", "collections.")):
            pairs = [one for one in inside if isinstance(one, Container)]
            inside |= NONE.union(*(self.dispatch.elements(one, ANY_KEY, here) for one in pairs))
        if called.full.endswith((".items", ".most_common", ".popitem")):
            pair = self.memory.make(Container, here.node, "<pair>")
            self.memory.write(pair, ANY_KEY, inside | {PLAIN})
            if called.full.endswith(".popitem"):
                return frozenset({pair})
            inside = frozenset({pair})
        self.memory.write(made, ANY_KEY, inside | {PLAIN})
        return frozenset({made})


def _is_layer(called: Name, given: Arguments) -> bool:
    """Whether a call makes a layer of torch that has nothing of the project: one is as good as another."""
    if _OF_NUMBERS.match(called.full):
        return True
    torch_has_it = called.full.startswith("torch.nn.") and called.full not in _CONTAINERS
    return torch_has_it and not any(map(acts, given.objects))


def _collates_as_torch(call: object) -> bool:
    """Whether a loader is made without a function of its own for its batches, and with batches."""
    if not isinstance(call, ast.Call) or len(call.args) > _COLLATE_POSITION:
        return False
    words = {one.arg: one.value for one in call.keywords}
    hidden = None in words or any(isinstance(one, ast.Starred) for one in call.args)
    sizes = [*call.args[1:2], *(value for word, value in words.items() if word == "batch_size")]
    single = any(isinstance(size, ast.Constant) and size.value is None for size in sizes)
    return not (hidden or single or "collate_fn" in words)


def _is_true(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
