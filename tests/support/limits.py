"""The limits of the engine, lowered: it gives each project up, or hardly tells its objects apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tracelens.patch.effects import file_effects, memory


def give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)


def tell_few_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_effects, "all_limits", lambda: (memory.Limits(1, memory.COARSE_EFFECTS),))


LIMITS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {"none": give_up, "few": tell_few_apart}
