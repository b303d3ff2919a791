"""Hunks of tier `checked`, for tests of what is done with them: a recipe that proves nothing."""

from __future__ import annotations

import pytest

from tracelens.edit_kinds import EditKind
from tracelens.patch.proposal import RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import build

UNKNOWN = "who reads `history` is not known"


def prove_nothing(monkeypatch: pytest.MonkeyPatch, *kinds: EditKind, unknown: str = UNKNOWN) -> None:
    """Make the hunks of these kinds `checked`, because of `unknown`."""
    recipe = build.recipe

    def unproved(kind: EditKind) -> build.Propose:
        def propose(request: RecipeRequest) -> RecipeAnswer:
            answer = recipe(kind)(request)
            if kind not in kinds:
                return answer
            return RecipeAnswer(tuple(one.as_checked(unknown) for one in answer.proposals), answer.declined)

        return propose

    monkeypatch.setattr(build, "recipe", unproved)
