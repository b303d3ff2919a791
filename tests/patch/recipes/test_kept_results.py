"""A recipe is asked once about one state of a file, and again as soon as anything it depends on is another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.patching import SUM, defer, patch_of, script
from tracelens.model import Edit
from tracelens.patch.code.source import parse
from tracelens.patch.proposal import RecipeAnswer, RecipeRequest, Target
from tracelens.patch.recipes import build
from tracelens.patch.recipes.kept_results import answered


class Recipe:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[RecipeRequest] = []

    def __call__(self, request: RecipeRequest) -> RecipeAnswer:
        self.asked.append(request)
        return RecipeAnswer()


def request(text: bytes = b"a = 1\n") -> RecipeRequest:
    source = parse(Path("/project/train.py"), "train.py", text)
    return RecipeRequest(source, source.names, Edit("defer-read"), (Target(1),))


OTHERS: tuple[dict[str, object], ...] = (
    {"edit": Edit("defer-read", interval=10)},
    {"targets": (Target(2),)},
    {"unsafe": True},
    {"workers": 4},
    {"root": Path("/elsewhere")},
    {"checked": False},
    {"lossy": False},
    {"changing": frozenset({3})},
    {"helped": frozenset({3})},
    {"start_method": "forkserver"},
    {"source": parse(Path("/project/train.py"), "train.py", b"a = 2\n")},
)


def test_the_same_question_is_answered_once() -> None:
    recipe = Recipe()
    assert answered(recipe, request()) is answered(recipe, request())
    assert len(recipe.asked) == 1


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: next(iter(other)))
def test_another_question_is_asked_again(other: dict[str, object]) -> None:
    recipe = Recipe()
    answered(recipe, request())
    answered(recipe, replace(request(), **other))
    assert len(recipe.asked) == 2


def test_every_field_of_a_request_is_part_of_the_question() -> None:
    told_apart = {name for other in OTHERS for name in other}
    assert told_apart | {"names"} == set(RecipeRequest.__dataclass_fields__)  # names are the source's


def test_two_recipes_do_not_share_answers() -> None:
    first, second = Recipe(), Recipe()
    answered(first, request())
    answered(second, request())
    assert len(second.asked) == 1


def test_a_second_patch_with_the_same_edit_asks_nothing_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RecipeRequest] = []
    propose = build.recipe("defer-read")

    def counting(one: RecipeRequest) -> RecipeAnswer:
        asked.append(one)
        return propose(one)

    monkeypatch.setattr(build, "recipe", lambda _: counting)
    text = script(SUM)
    first = patch_of(tmp_path, text, defer(text))
    once = len(asked)
    assert patch_of(tmp_path, text, defer(text)) == first
    assert len(asked) == once > 0
