"""Patches that --unsafe makes, verified with real processes: each is held to what its reason says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.lean import PRELUDE
from tests.support.patching import fired
from tests.support.verifying import session
from tracelens.model import Edit
from tracelens.patch.recipes import PatchOptions, make
from tracelens.verify import result
from tracelens.verify.request import PatchedVersion

pytestmark = pytest.mark.programs

LOOP = """\
import math
torch.set_num_threads(1)
torch.manual_seed(17)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
def main():
    total = 0.0
    for step in range(100_000):
        loss = net(torch.randn(8, 16)).pow(2).mean()
        if not math.isfinite(loss.item()):  # guard
            sys.exit(1)
        opt.zero_grad()
        loss.backward()
        total += loss.item()
        print(f"step {step} loss {loss.item():.6f}")  # line
        opt.step()
main()
"""
STEPS = 30


@pytest.fixture
def project() -> Iterator[Path]:
    """Below a short name: workers talk over sockets in the folder for temporary files, whose paths are limited."""
    with tempfile.TemporaryDirectory(prefix="tl-") as name:
        (Path(name) / "project").mkdir()
        yield Path(name) / "project"


def changed(path: Path, name: str, kind: str, mark: str = "", **asked: int) -> PatchedVersion:
    text = path.read_text()
    edit = Edit(kind, locations=fired(text, mark) if mark else (), interval=10, **asked)  # type: ignore[arg-type]
    patch = make(path.parent, path, (edit,), (), PatchOptions(unsafe=True))
    assert [hunk.edit for hunk in patch.hunks] == [kind], patch.declined
    return PatchedVersion(patch, name, interval=10)


def test_lines_may_be_missing_and_numbers_may_not(project: Path) -> None:
    path = project / "train.py"
    path.write_text(PRELUDE + LOOP)
    found = session(path, changed(path, "thin", "thin-logs", "# line"), changed(path, "later", "move-guard", "# guard"))
    found.request, found.steps = replace(found.request, steps=STEPS), STEPS
    found.compare_numbers()
    thin, later = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    assert thin.numbers_equal is True, thin.verdict
    assert "the output differs, as an unsafe change may make it" in thin.verdict
    assert thin.details["unsafe"] == ["only the lines of every 10th batch are written: the others are lost"]
    assert later.numbers_equal is True, later.verdict
    assert "the output differs" not in later.verdict


DRAWN = (
    LOOP.partition("def main")[0]
    + """\
class Drawn(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        return torch.randn(16)
def main():
    loader = torch.utils.data.DataLoader(Drawn(), batch_size=8)
    for x in loader:
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
if __name__ == "__main__":
    main()
"""
)


def test_workers_that_draw_other_numbers_stay_within_seed_noise(project: Path) -> None:
    path = project / "train.py"
    path.write_text(PRELUDE + DRAWN)
    found = session(path, changed(path, "workers", "more-workers", workers=1))
    found.request, found.steps = replace(found.request, steps=60), 60
    found.compare_numbers()
    (workers,) = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    assert workers.numbers_equal is False
    assert workers.details["seed_noise"]["verdict"] == "within seed noise", workers.verdict
    assert "as an unsafe change may" in workers.verdict
