"""Finds the code objects of the user's project, so that the line clock can watch these and no library's.

In: the interpreter as it is. Out: code objects, each with those that it contains (inner functions, lambdas, generator
expressions). `search` looks at every object that the garbage collector knows, which takes tens of milliseconds in a
large process; `look_again` at what has come since, in less than one. Nothing of the script's runs meanwhile: no type
is hashed or compared but by identity, and no attribute is read that a class of the script's could define.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any

from tracelens.capture.inside.user_frames import is_users, is_users_file

_WRAPPERS = (staticmethod, classmethod, property, functools.partial, MethodType)
"""What holds a function in a module or a class, besides closures and `__wrapped__`."""


class ProjectCode:
    """Code of the project by `id`, in the order in which it was found; kept alive as long as this is."""

    def __init__(self) -> None:
        self.codes: dict[int, CodeType] = {}
        self._modules: set[str] = set()
        """Names of modules that have been looked at."""
        self._searched = False

    def search(self) -> None:
        """Find all code that can run."""
        self._searched = True
        self._add(_alive())
        self._look()

    def look_again(self) -> None:
        """Find what runs now and what was imported since the last time."""
        if not self._searched:
            self.search()
        else:
            self._look()

    def forget(self) -> None:
        """Keep no code alive any longer."""
        self.codes.clear()
        self._modules.clear()
        self._searched = False

    def _look(self) -> None:
        self._add(_under_way())
        self._look_at_new_modules()
        self._add(_compiled(tuple(self.codes.values())))

    def _add(self, codes: Iterable[CodeType]) -> None:
        for code in codes:
            if id(code) not in self.codes and is_users(code):
                self.codes[id(code)] = code
                self._add(part for part in code.co_consts if type(part) is CodeType)

    def _look_at_new_modules(self) -> None:
        """Also finds what `gc.freeze` hides from the collector."""
        modules = tuple((name, module) for name, module in tuple(sys.modules.items()) if name not in self._modules)
        self._modules.update(name for name, _ in modules)
        own = {name: module for name, module in modules if name == "__main__" or _is_users_module(module)}
        self._add(_reachable([*own.values()], own.keys()))


def _alive() -> Iterator[CodeType]:
    """Code of the functions that exist, and of generators and coroutines that are under way."""
    for value in gc.get_objects():
        kind = type(value)
        if kind is FunctionType:
            yield value.__code__
        elif kind is GeneratorType:
            yield value.gi_code
        elif kind is CoroutineType:
            yield value.cr_code
        elif kind is AsyncGeneratorType:
            yield value.ag_code


def _under_way() -> Iterator[CodeType]:
    """Code of the frames of all threads; a script's own file is one of them, with all that is written in it."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            yield frame.f_code
            frame = frame.f_back


def _reachable(modules: Iterable[ModuleType], names: Iterable[str]) -> Iterator[CodeType]:
    """Code of the functions, methods and decorated functions of these modules, called `names`; whatever is in a list
    or an object of theirs is left to the collector."""
    todo: list[Any] = [value for module in modules for value in tuple(_namespace(module).values())]
    seen, own = set[int](), frozenset(names)
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value)
        if kind is FunctionType:
            yield value.__code__
            todo += (*gc.get_referents(*(value.__closure__ or ())), *value.__dict__.values())
        elif kind is functools._lru_cache_wrapper:
            todo += value.__dict__.values()
        elif any(kind is one for one in _WRAPPERS):
            todo += gc.get_referents(value)
        elif issubclass(kind, type):
            members = type.__getattribute__(value, "__dict__")
            if members.get("__module__") in own:
                todo += members.values()


def _compiled(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    """Code that `torch.compile` made of these, which runs in their place; none where this torch does not say."""
    entries = getattr(sys.modules.get("torch._C._dynamo.eval_frame"), "_debug_get_cache_entry_list", None)
    if entries is not None:
        with suppress(Exception):
            for code in codes:
                yield from (entry.code for entry in entries(code))


def _is_users_module(module: object) -> bool:
    if not issubclass(type(module), ModuleType):
        return False
    path = _namespace(module).get("__file__")
    return type(path) is str and is_users_file(path)


def _namespace(module: object) -> dict[str, Any]:
    names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return names
