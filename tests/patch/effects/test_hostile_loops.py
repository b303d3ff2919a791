"""No loop in which something sees the delay is called safe, in whichever surroundings and files it stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.hostile_moves import HOSTILE
from tests.support.moves import SURROUNDINGS, asked_once, one_file, two_files


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", ["function", "method", "module"])
@pytest.mark.parametrize("loop", HOSTILE)
def test_is_not_safe(loop: str, around: str, files: Callable[..., dict[str, str]]) -> None:
    assert asked_once(files(HOSTILE[loop], SURROUNDINGS[around])).tier != "safe"
