"""The code of a project that Python or a library may run of what it has, without a call that the text names.

In: objects that a library is handed, or that are shown, compared, gone through or computed with. Out: the objects among
them that act, and by the word of the vocabulary for what is done with them (the protocol) the methods that may run.
What no entry says exactly is `IMPLICIT`: every function, generator and iterator among them, and all methods.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tracelens.patch.effects import classes
from tracelens.patch.effects.callables import is_function, is_partial
from tracelens.patch.effects.closures import Search
from tracelens.patch.effects.memory import ANY_DATA, CLASS, DATA, KEYS, WEIGHTS, Memory, Objects, Unit
from tracelens.patch.effects.objects import Class, Container, Function, Generator, Instance, Object, Thing
from tracelens.patch.effects.operators import OPERATORS as OPERATORS_
from tracelens.patch.effects.vocabulary import Entry
from tracelens.patch.effects.words import words

IMPLICIT = "implicit"
PASS, TEXT, NUMBERS, OPERATORS, BATCHES, MODULE = "pass", "text", "numbers", "operators", "batches", "module"
CALLING = frozenset({IMPLICIT, PASS, BATCHES, "unknown", "later"})
"""The protocols by which functions are called and generators are gone through."""
LOADED = "loaded"
_LOOKS_INSIDE = re.compile(r"\{[^{}:!]*[.\[]|\{[^{}]*\{[^{}]*[.\[]")
"""`{meter.average}`, `{row[loss]}`, and the same within what says how a value is shown: `{:{row[width]}}`."""
OF_DATA = ("__getitem__", "__getitems__", "__iter__", "__next__", "__len__", "forward", "__call__")
"""By what a library knows data and models that it is handed."""
LAZY = ("lazy", "pairs", "numbered")
"""What libraries call objects that run functions while somebody goes through them."""
_HELD, _FACTORY = "<held>", "<factory>"
_NAMELESS = (DATA, ANY_DATA, WEIGHTS)
_NEVER = "__init__ __new__ __del__ __init_subclass__ __set_name__ __class_getitem__ __prepare__"
"""What runs only where a class or an object is made."""
_WRITTEN = (
    "__call__ __enter__ __exit__ __aenter__ __aexit__ __setattr__ __delattr__ __setitem__ __delitem__ __set__"
    " __delete__ __setstate__ __post_init__"
)
"""What no operator or text calls unless it is written there."""
_TEXTS = "__str__ __repr__ __format__ extra_repr _get_name"
_SIZES = (
    "__len__ __bool__ __int__ __float__ __complex__ __bytes__ __hash__ __abs__ __round__ __index__ __trunc__ __floor__"
    " __ceil__ __divmod__ __rdivmod__ __pow__ __rpow__ __delattr__ __instancecheck__ __subclasscheck__ __str__"
)
_COMPUTING = "__call__ forward __getitem__ __getitems__ __len__ __iter__ __next__"
OF_MODULES = words(
    "add_module apply bfloat16 buffers children compile cpu cuda double eval extra_repr float get_buffer"
    " get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia named_buffers named_children"
    " named_modules named_parameters parameters register_backward_hook register_buffer register_forward_hook"
    " register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook"
    " register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter"
    " register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule"
    " share_memory state_dict to to_empty train type xpu zero_grad _apply _call_impl _get_backward_hooks"
    " _get_backward_pre_hooks _get_name _load_from_state_dict _maybe_warn_non_full_backward_hook _named_members"
    " _register_load_state_dict_pre_hook _register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict"
    " _slow_forward _wrapped_call_impl"
)
"""All methods of `torch.nn.Module` but `forward`: a class may override each, and a library that has the module calls
them. Written down, because torch is not imported here."""
_EXACT = {TEXT: tuple(_TEXTS.split()), NUMBERS: tuple(_SIZES.split()), BATCHES: tuple(_COMPUTING.split())}
"""The methods that are all that a protocol calls."""
OF_OPERATORS = (
    *dict.fromkeys(f"__{left}{name}__" for name in OPERATORS_.values() for left in ("", "r", "i")),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__hash__", "__bool__", "__len__"),
    *("__neg__", "__pos__", "__invert__"),
)
"""What an operator calls."""
_DEFINES, _STORES = words(_NEVER), words(_WRITTEN)


def of_loaded(protocol: str) -> tuple[str, ...]:
    """The methods that may run of what comes out of a file: as data or a model it computes, else as it is used."""
    if protocol in (TEXT, NUMBERS, OPERATORS):
        return _EXACT.get(protocol, OF_OPERATORS)
    return (*OF_DATA, *_EXACT[TEXT], *_EXACT[NUMBERS]) if protocol == IMPLICIT else OF_DATA


def protocol_of(entry: Entry, full: str, node: ast.AST) -> str:
    """What a library's function does with what it has, at a node; without a word for it, anything."""
    if full == "<plain>.format" and _shows_whole_values(node):
        return TEXT
    if entry.calls:
        return entry.calls
    return OPERATORS if full.startswith("<list>.") else IMPLICIT


def _shows_whole_values(node: ast.AST) -> bool:
    """Whether a text that stands there, such as `"{:.2f}".format(loss)`, only shows what it is given: it looks for no
    part of a value, and no `*` brings along what another text would be made of at the same node."""
    method = node.func if isinstance(node, ast.Call) else None
    text = method.value if isinstance(method, ast.Attribute) and method.attr == "format" else None
    if not isinstance(node, ast.Call) or not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return False
    unpacked = any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords)
    return not unpacked and not _LOOKS_INSIDE.search(text.value)


def acting(one: Object, memory: Memory, unit: Unit) -> Objects:
    """The functions, generators, iterators and objects of the project that a library has with an object."""
    if isinstance(one, (Container, Thing)) and one not in _NAMELESS and not is_function(one):
        return memory.found(one, _ACTING, unit)
    return frozenset({one}) if is_active(one) else frozenset()


def handed(one: Object, memory: Memory, unit: Unit) -> Objects:
    """What a library that has an object may hand to the functions that it calls."""
    return memory.found(one, _HANDED, unit) - {one}


def within(one: Object, memory: Memory, unit: Unit) -> Objects:
    """The objects of the project that are reached through the attributes of one."""
    return memory.found(one, _WITHIN, unit) - {one}


def asked_for_keys(objects: Objects, memory: Memory) -> Objects:
    """Of what stands right of `%`, what may run code to find the value of a key: a list or a function is only shown."""
    made = (one for one in objects if not isinstance(one, Container) or memory.has(one, _FACTORY))
    return frozenset(one for one in made if not is_function(one))


def is_active(one: Object) -> bool:
    """Whether code of the project can run that belongs to an object."""
    return isinstance(one, (Generator, Instance)) or is_lazy(one) or is_function(one) or is_loaded(one)


def is_loaded(one: Object) -> bool:
    """Whether an object comes out of a file: it may be any object of the project."""
    return isinstance(one, Thing) and one.kind == LOADED


def is_lazy(one: Object) -> bool:
    """Whether functions run while somebody goes through an object of a library."""
    return isinstance(one, Thing) and one.kind in LAZY


def _is_holding(one: Object) -> bool:
    return isinstance(one, (Container, Thing)) and one not in _NAMELESS and not is_partial(one)


def _is_inside(name: str) -> bool:
    return name in (_HELD, _FACTORY, KEYS) or name.startswith("[")


def _through_lists(owner: Object, name: str) -> bool:
    """It goes on through lists and objects of a library, not through the arguments that a function has been given."""
    return _is_inside(name) and _is_holding(owner)


def _through_attributes(owner: Object, name: str) -> bool:
    """The same, and through the attributes of the project's objects."""
    return name != CLASS if isinstance(owner, Instance) else _through_lists(owner, name)


def _is_handed(one: Object) -> bool:
    return isinstance(one, (Container, Instance, Thing)) and not is_function(one) and not is_lazy(one)


_ACTING = Search(_through_lists, is_active)
_HANDED = Search(_through_lists, _is_handed)
_WITHIN = Search(_through_attributes, lambda one: isinstance(one, Instance))


def methods(one: Instance, protocol: str, memory: Memory, unit: Unit, *, deep: bool = False) -> tuple[str, ...]:
    """The methods of an object that may run; `deep`: it is only an attribute of what the library has."""
    if protocol in _EXACT:
        return _EXACT[protocol]
    kinds = set(classes.kinds(one.made, memory, unit))
    of_module = "module" in kinds and "" not in kinds
    wanted = _DEFINES if protocol not in (OPERATORS, PASS, MODULE) else _DEFINES | _STORES
    out = dict[str, None]()
    for name in dict.fromkeys(classes.methods(one.made, memory, unit)):
        special = name.startswith("__") and name.endswith("__")
        if (special and (name not in wanted or (protocol == PASS and name == "__call__"))) or (
            not special
            and (
                (of_module and name in OF_MODULES and protocol != OPERATORS)
                or (protocol == PASS and name == "keys")
                or (not deep and protocol not in (OPERATORS, PASS, MODULE) and (not of_module or name == "forward"))
            )
        ):
            out[name] = None
    return tuple(out)


def getters(made: Class, memory: Memory, unit: Unit) -> Iterator[str]:
    """The attributes of a class that may run code when they are looked up."""
    for base in classes.order(made, memory, unit):
        if isinstance(base, Class):
            for name in memory.names(base, unit):
                if any(is_getter(one) for one in memory.read(base, name, unit)):
                    yield name


def is_getter(one: Object) -> bool:
    """Whether what a class has under a name is asked for the value: neither a function nor a constant."""
    if isinstance(one, Function):
        return not classes.marks(one).isdisjoint({"property", "cached_property"})
    return isinstance(one, Instance) or (isinstance(one, Thing) and one.kind == "getter")
