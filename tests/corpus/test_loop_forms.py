"""The count of loop forms, on a script whose answer can be read off."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.loop_forms import count

SCRIPT = """
import torch
for epoch in range(3):
    for number, (x, y) in enumerate(tqdm(train_loader)):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        if number >= limit:
            break
while step < most:
    loss = model(batch()).sum()
    loss.backward()
    optimizer.step()
"""


def test_each_loop_is_counted_with_the_loops_around_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert dict(count(tmp_path)) == {
        "training loops": 2,
        "for, over enumerate": 1,
        "inside: for, over range": 1,
        "a comparison leads to break or return": 1,
        "while, a comparison": 1,
    }
