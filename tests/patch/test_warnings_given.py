"""A function of the project that warns in each batch: Python shows a warning once for each place that gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.limits import LIMITS
from tests.support.patching import assert_same, patch_of, script

LOOP = """
import sys
import warnings
class Net(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        if x.size(1) % 256 == 0:
            parts = 256
        else:
            parts = x.size(1)
            TELL
        return self.inner(x)
net = Net(model)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    print("%.5f" % loss.item())  # fires
"""


@pytest.mark.parametrize("limits", [*LIMITS, ""])
@pytest.mark.parametrize(("tell", "waits"), [("warnings.warn(f'parts of {parts}')", True), ("print(parts)", False)])
def test_lines_wait_beside_a_warning_and_not_beside_a_line(
    tell: str, waits: bool, limits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limits:
        LIMITS[limits](monkeypatch)
    text = script(LOOP.replace("TELL", tell))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == (["checked"] if waits else [])
    if waits:
        assert_same(tmp_path, text, patch)
