"""One line in several branches of a loop, as with and without autocast: its values wait in one list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.model import Edit, Location, Patch

BRANCHES = """
    import contextlib
    losses, total = [], 0.0
    mixed = [number % 3 == 1 for number in range(23)]
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        if mixed[i]:
            with contextlib.nullcontext():
                loss = criterion(model(x), y)
                FIRST
        else:
            loss = criterion(model(x).double(), y)
            SECOND
        loss.backward()
        optimizer.step()
        if i % 5 == 4:
            print(i, LOOKED_AT)
    print(sum(losses), total)
"""
APPENDED = "losses.append(loss.item())"
ADDED = "total += loss.item()"


def patched(folder: Path, first: str, second: str = "", looked_at: str = "losses") -> tuple[str, Patch]:
    body = BRANCHES.replace("FIRST", first).replace("SECOND", second or first).replace("LOOKED_AT", looked_at)
    text = script(body)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "loss.item()" in line]
    edit = Edit("defer-read", locations=tuple(Location("train.py", line) for line in lines), interval=10)
    return text, patch_of(folder, text, (edit,))


@pytest.mark.parametrize(
    ("line", "looked_at"), [(APPENDED, "losses[-1]"), (ADDED, "total"), (f"{APPENDED}  # kept", "losses[-1]")]
)
def test_one_list_holds_the_values_of_both(line: str, looked_at: str, tmp_path: Path) -> None:
    text, patch = patched(tmp_path, line, line.partition("  #")[0], looked_at)
    after = patched_text(patch)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert after.count("pending_losses = []") == 1
    assert after.count("pending_losses.append(loss.detach().clone())") == 2
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("first", "second"),
    [(APPENDED, "losses.append(2 * loss.item())"), (APPENDED, f"{APPENDED}  # in full"), (APPENDED, ADDED)],
)
def test_other_lines_are_not_taken_for_one(first: str, second: str, tmp_path: Path) -> None:
    text, patch = patched(tmp_path, first, second)
    assert not patch.empty
    assert "# in full" not in second or "# in full" in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_lines_of_every_batch_are_written_ten_at_a_time(tmp_path: Path) -> None:
    text, patch = patched(tmp_path, "print(i, loss.item())", looked_at="i")
    assert not patch.empty
    assert "tracelens_runtime" not in patched_text(patch)
    assert_same(tmp_path, text, patch)
