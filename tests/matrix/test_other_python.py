"""The agent and the line clock under another Python with torch: the planted owner is right.

How near its cost is depends on who else uses the machine: `tests/owners/known.py --python` measures that.

`make matrix` makes that Python's environment (OTHER_PYTHON, by default python3.12, where lines are clocked by
`sys.monitoring`) and names its interpreter in TRACELENS_OTHER_PYTHON.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.owners import known

pytestmark = pytest.mark.programs

PLANTS = ("json", "gc", "python", "forward", "item", "generator")
"""C code, the collector, Python, a module, the loader in the main thread, another function's frame."""


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that has torch."""
    path = os.environ.get("TRACELENS_OTHER_PYTHON")
    if not path or not os.access(path, os.X_OK):
        pytest.skip("TRACELENS_OTHER_PYTHON names no other Python: make matrix")
    if subprocess.run([path, "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip(f"{path} has no torch")
    return path


@pytest.mark.parametrize("plant", PLANTS)
def test_the_planted_owner_is_right(plant: str, python: str) -> None:
    judged = known.judge(plant, python)
    assert judged.right, judged
    assert judged.owned > 0, judged
