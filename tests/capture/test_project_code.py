"""Code of the user's project is found wherever it is, a library's is not, and nothing of the script's runs for it."""

from __future__ import annotations

import gc
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tracelens.capture.inside.project_code import ProjectCode
from tracelens.capture.inside.user_frames import is_users

TEXT = """
import functools
from collections.abc import Sequence


def plain():
    def inner():
        return (each for each in ())
    return inner


def deco(function):
    def around(*values):
        return function(*values)
    return around


@deco
def decorated(): pass


@functools.lru_cache(maxsize=None)
def cached(): pass


def first(one, two): pass


part = functools.partial(first, 1)
del first


class Layer:
    class Inner:
        def nested(self): pass

    def method(self): pass

    @classmethod
    def of_class(cls): pass

    @staticmethod
    def static(): pass

    @property
    def value(self): pass

    @value.setter
    def value(self, new): pass


bound = Layer().method


def endless():
    while True:
        yield


under_way = endless()
next(under_way)
del endless
TABLE = {"double": [lambda twice: 2 * twice]}
"""
IN_MODULES = {"plain", "inner", "<genexpr>", "deco", "around", "decorated", "cached", "first", "nested", "method"}
IN_MODULES |= {"of_class", "static", "value"}
IN_OBJECTS = {"<lambda>", "endless"}

Importing = Callable[[str, str], types.ModuleType]


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importing]:
    """Writes a module of a project and imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def write(name: str, text: str) -> types.ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


def found(project: ProjectCode, name: str) -> set[str]:
    """Functions of one module."""
    return {code.co_name for code in project.codes.values() if Path(code.co_filename).stem == name}


def searched() -> ProjectCode:
    project = ProjectCode()
    project.search()
    return project


def test_code_is_found_in_modules_classes_closures_containers_and_generators(importing: Importing) -> None:
    importing("places", TEXT)
    assert found(searched(), "places") == IN_MODULES | IN_OBJECTS


def test_what_is_hidden_from_the_collector_is_found_in_its_module(importing: Importing) -> None:
    importing("frozen", TEXT)
    gc.collect()
    gc.freeze()
    try:
        assert found(searched(), "frozen") == IN_MODULES
    finally:
        gc.unfreeze()


def test_code_under_way_is_found_with_all_that_is_written_in_it() -> None:
    text = "def gone():\n    return lambda: 0\ndel gone\ncodes = look()"
    names = {"look": lambda: found(searched(), "nowhere")}
    exec(compile(text, "/project/nowhere.py", "exec"), names)
    assert names["codes"] == {"<module>", "gone", "<lambda>"}


def test_no_code_of_libraries_is_found() -> None:
    codes = searched().codes.values()
    assert codes
    assert all(is_users(code) for code in codes)
    assert not any("site-packages" in code.co_filename or code.co_filename.startswith("<") for code in codes)


def test_a_module_that_is_imported_later_is_found_by_looking_again(importing: Importing) -> None:
    project = searched()
    importing("late", TEXT)
    assert found(project, "late") == set()
    project.look_again()
    assert found(project, "late") == IN_MODULES
    project.forget()
    assert not project.codes
    project.look_again()
    assert found(project, "late") == IN_MODULES | IN_OBJECTS


def test_nothing_of_the_script_runs(importing: Importing) -> None:
    text = """
import types

ran = []


class Meta(type):
    def __hash__(cls):
        ran.append("hash")

    def __eq__(cls, other):
        ran.append("eq")

    def __getattribute__(cls, name):
        ran.append(name)
        return type.__getattribute__(cls, name)


class Odd(metaclass=Meta):
    def method(self): pass

    def __getattribute__(self, name):
        ran.append(name)

    @property
    def __class__(self):
        ran.append("class")


class Lazy(types.ModuleType):
    def __getattribute__(self, name):
        ran.append(name)


odd, lazy = Odd(), Lazy("lazy_module")
ran.clear()
"""
    module = importing("traps", text)
    sys.modules["lazy_module"] = vars(module)["lazy"]
    sys.modules["no_module"] = vars(module)["odd"]
    try:
        codes = found(searched(), "traps")
    finally:
        del sys.modules["lazy_module"], sys.modules["no_module"]
    assert vars(module)["ran"] == []
    assert "method" in codes


@pytest.mark.parametrize("fails", [False, True])
def test_code_that_was_compiled_is_watched_where_torch_names_it(
    importing: Importing, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    module = importing("compiled", "def forward(): pass")
    made = module.forward.__code__.replace(co_name="made")

    def entries(code: types.CodeType) -> list[types.SimpleNamespace]:
        if fails:
            raise TypeError(code)
        return [types.SimpleNamespace(code=made)] if code is module.forward.__code__ else []

    dynamo = types.ModuleType("torch._C._dynamo.eval_frame")
    monkeypatch.setattr(dynamo, "_debug_get_cache_entry_list", entries, raising=False)
    monkeypatch.setitem(sys.modules, dynamo.__name__, dynamo)
    assert found(searched(), "compiled") == ({"forward"} if fails else {"forward", "made"})
