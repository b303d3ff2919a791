"""Lines that two changes insert at one place: what belongs to the code above comes first, the deepest of it before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

FORMS = {
    "a loop below a function that ends with a loop": """
        def evaluate(epoch):
            for number, (x, y) in enumerate(loader):
                loss = criterion(model(x), y)
                print(f"held out {epoch} {number} {loss.item():.6f}")  # fires
        for step, (x, y) in enumerate(loader):
            STEP
            print(f"train {step} {loss.item():.6f}")  # fires
            if step % 5 == 4:
                evaluate(step)
    """,
    "two functions": """
        def train():
            for step, (x, y) in enumerate(loader):
                STEP
                print(f"train {step} {loss.item():.6f}")  # fires
        def evaluate():
            for number, (x, y) in enumerate(loader):
                loss = criterion(model(x), y)
                print(f"held out {number} {loss.item():.6f}")  # fires
        train()
        evaluate()
    """,
    "a loop below a loop": """
        for step, (x, y) in enumerate(loader):
            STEP
            print(f"train {step} {loss.item():.6f}")  # fires
        for number, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            print(f"held out {number} {loss.item():.6f}")  # fires
    """,
    "a loop that ends with a loop": """
        for step, (x, y) in enumerate(loader):
            STEP
            print(f"train {step} {loss.item():.6f}")  # fires
            if step % 11 == 10:
                for number, (x, y) in enumerate(loader):
                    loss = criterion(model(x), y)
                    print(f"held out {number} {loss.item():.6f}")  # fires
        print("end")
    """,
    "a loop below a loop in a branch": """
        if len(loader) > 3:
            for step, (x, y) in enumerate(loader):
                STEP
                print(f"train {step} {loss.item():.6f}")  # fires
        for number, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            print(f"held out {number} {loss.item():.6f}")  # fires
    """,
}


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_two_loops_stand_in_their_order(form: str, tmp_path: Path) -> None:
    text = script(FORMS[form])
    patch = patch_of(tmp_path, text, checked=True)
    assert not patch.declined
    assert patch.hunks
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("form", FORMS)
def test_those_of_helpers_too(form: str, tmp_path: Path) -> None:
    """Not one scalar of a known type: the runtime reads it; a `break` needs a line behind the loop."""
    several = "print(loss.tolist(), model.weight.tolist(), loss.item())  # fires"
    text = script(FORMS[form])
    lines = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += [indent + several, f"{indent}if loss > 1e9:", f"{indent}    break"] if "# fires" in line else [line]
    text = "\n".join(lines) + "\n"
    assert_same(tmp_path, text, patch_of(tmp_path, text, checked=True))
