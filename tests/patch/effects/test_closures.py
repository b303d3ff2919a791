"""What is reached from an object is kept up to date, and nothing is gone through twice because something grew."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tracelens.patch.effects import file_effects as module
from tracelens.patch.effects import memory as memory_module
from tracelens.patch.effects.closures import Search
from tracelens.patch.effects.file_effects import file_effects
from tracelens.patch.effects.memory import ANY_KEY, MANY, SHARED, Limits, Memory
from tracelens.patch.effects.objects import Callbacks, Container, Instance, Object


def _list(memory: Memory, name: str) -> Container:
    return memory.make(Container, name, None)


def _instance(memory: Memory, number: int) -> Instance:
    return memory.make(Instance, None, f"site {number}", None)


def _is_instance(one: Object) -> bool:
    return isinstance(one, Instance)


LISTS = Search(lambda owner, name: isinstance(owner, Container) and name == ANY_KEY, _is_instance)


def test_what_a_list_of_lists_gets_is_found_and_who_asked_is_told() -> None:
    memory = Memory()
    unit = memory.make(Callbacks, SHARED, "unknown")
    outer, inner, one = _list(memory, "outer"), _list(memory, "inner"), _instance(memory, 1)
    memory.write(outer, ANY_KEY, {inner})
    memory.write(inner, ANY_KEY, {outer})
    assert memory.found(outer, LISTS, unit) == frozenset()
    memory.write(inner, "name", {one})
    assert not memory.waiting, "no way on leads through that field"
    memory.write(inner, ANY_KEY, {_list(memory, "empty")})
    assert not memory.waiting, "nothing that counts"
    memory.write(inner, ANY_KEY, {one})
    assert list(memory.waiting.units) == [unit]
    assert memory.found(outer, LISTS, unit) == memory.found(inner, LISTS, unit) == {one}


def test_one_object_in_the_place_of_many_ends_what_led_through_them() -> None:
    memory = Memory(Limits(held=2, effects=100))
    unit = memory.make(Callbacks, SHARED, "unknown")
    outer, inner = _list(memory, "outer"), _list(memory, "inner")
    memory.write(outer, ANY_KEY, {inner})
    memory.write(inner, ANY_KEY, {_instance(memory, 1)})
    assert memory.found(outer, LISTS, unit) == {_instance(memory, 1)}
    memory.write(inner, ANY_KEY, {_instance(memory, 2), _instance(memory, 3)})
    assert memory.content(inner, ANY_KEY) == {MANY}
    assert list(memory.waiting.units) == [unit]
    assert memory.found(outer, LISTS, unit) == frozenset()
    memory.write(outer, ANY_KEY, {_instance(memory, 4)})
    assert memory.found(outer, LISTS, unit) == {_instance(memory, 4)}


def test_a_chain_that_grows_at_its_end_is_gone_through_once() -> None:
    """Each of 50 lists is asked after each of 50 additions: 50 * 50 * 50 fields, if each were gone through again."""
    asked: list[Object] = []

    def goes_through(owner: Object, name: str) -> bool:
        asked.append(owner)
        return isinstance(owner, Container) and name == ANY_KEY

    search, memory = Search(goes_through, _is_instance), Memory()
    unit = memory.make(Callbacks, SHARED, "unknown")
    lists = [_list(memory, str(number)) for number in range(50)]
    for outer, inner in pairwise(lists):
        memory.write(outer, ANY_KEY, {inner})
    for number in range(50):
        memory.write(lists[-1], ANY_KEY, {_instance(memory, number)})
        assert all(len(memory.found(one, search, unit)) == number + 1 for one in lists)
    assert len(asked) < 3 * len(lists)


def test_what_is_too_large_for_one_file_is_so_where_more_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    real = module.analyse

    def counted(*given: object) -> object:
        begun.append(1)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(memory_module, "MAX_CALLS", 1)
    monkeypatch.setattr(module, "analyse", counted)
    loop = "def train(loader):\n    for x in loader:\n        print(x.sum())\n        print(x.mean())\n"
    texts = {"train.py": f"import steps\n{loop}train([])\nsteps.train([])\n", "steps.py": loop}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name, line in (("train.py", 3), ("steps.py", 2)):
        path = tmp_path / name
        assert file_effects(tmp_path, tmp_path / "train.py", path, texts[name]).reached(line) is None
    assert len(begun) == 2, "with many objects told apart and with few, of the script: `steps.py` runs beside it"
