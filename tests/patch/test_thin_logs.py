"""thin-logs: lines that only show a value are printed more rarely, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import defer, fired, patch_of, patched_text, run, script
from tests.support.unsafe_patches import N, edits, ran, reasons, unsafe
from tracelens.model import Edit
from tracelens.patch.loop.thinned import MARK

# ------------------------------------------------------------------------------------------------- thinned lines

LOGGED = """
total, history = 0.0, []
for {head}:
    STEP
    total += loss.item()  # fires
    history.append(float(loss.detach()))
    {line}  # fires
print("sum", total)
"""
HEADS = {
    "no counter": "x, y in loader",
    "enumerate": "i, (x, y) in enumerate(loader)",
    "from one": "i, (x, y) in enumerate(loader, 1)",
    "bound again": "i, (x, y) in enumerate(loader)",
    "parentheses": "(x, y) in (loader)",
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("kinds", [("thin-logs",), ("defer-read", "thin-logs")])
def test_lines_are_missing_and_sums_are_not(name: str, kinds: tuple[str, ...], tmp_path: Path) -> None:
    line = 'print(f"loss {loss.item():.6f} of {total:.6f}")'
    body = LOGGED.format(head=HEADS[name], line=line)
    text = script(body.replace("STEP", "i = 3\n    STEP") if name == "bound again" else body)
    patch = unsafe(tmp_path, text, *kinds)
    assert [hunk.id for hunk in patch.hunks if hunk.edit == "thin-logs"] == ["TL501"]
    before, after = run(tmp_path / "before", text), ran(tmp_path / "after", patch)
    written = before.output.splitlines()
    assert after.output.splitlines() == [*written[:-1:N], written[-1]]
    assert {k: v for k, v in after.results.items() if k in before.results} == before.results
    assert "the others are lost" in patch.hunks[-1].reason


SHOWN = {
    "print of the tensor": "print('loss', loss)",
    "logger": "logger.info('loss %.4f', loss.item())",
    "bar": "bar.set_postfix(loss=loss.item())",
    "event file": "writer.add_scalar('loss', loss.item(), len(history))",
    "file": "log_file.write(f'{loss.item()}\\n')",
    "clock": "print(time.time() > 0, loss.item())",
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_only_shows_a_value_is_thinned(name: str, tmp_path: Path) -> None:
    text = script(
        "import logging, sys, time\nimport unittest.mock\n"
        "logger = logging.Logger('x')\nlogger.addHandler(logging.StreamHandler(sys.stdout))\n"
        "bar, writer, log_file = (unittest.mock.Mock() for _ in range(3))\n"
        + LOGGED.format(head="x, y in loader", line=SHOWN[name])
        + "calls = len(bar.mock_calls) + len(writer.mock_calls) + len(log_file.mock_calls)\n"
    )
    patch = unsafe(tmp_path, text, "thin-logs")
    before, after = run(tmp_path / "before", text), ran(tmp_path / "after", patch)
    assert after.results["total"] == before.results["total"]
    assert after.results["history"] == before.results["history"]
    lost = len(before.output.splitlines()) - len(after.output.splitlines())
    assert lost + int(before.results["calls"]) - int(after.results["calls"]) == 20, "23 batches, 3 shown"


def test_a_value_that_is_only_shown_is_read_only_then(tmp_path: Path) -> None:
    body = """
    for x, y in loader:
        STEP
        shown = loss.item()  # fires
        if shown_at_all:
            print('''two
    lines''', shown)
        print(shown)
    """
    text = script("shown_at_all = True\n" + body.replace("\n    ", "\n"))
    patch = unsafe(tmp_path, text, "thin-logs")
    inside = patched_text(patch).partition("for ")[2]
    assert inside.count(MARK) == 3
    before, after = run(tmp_path / "before", text), ran(tmp_path / "after", patch)
    assert after.output.splitlines() == [
        line for n in range(0, 23, N) for line in before.output.splitlines()[3 * n : 3 * n + 3]
    ]


NOT_THINNED = {
    "draw": ("print(loss.item(), torch.rand(1))", "`torch.rand(…)` in it may change something"),
    "pop": ("print(loss.item(), history.pop())", "`history.pop(…)` in it may change something"),
    "helper": ("print(loss.item(), check())", "`check(…)` in it may change something"),
    "own printer": ("show(loss.item())", "`show(…)` does more than print"),
    "walrus": ("print((last := loss.item()))", "binds a name"),
    "kept": ("print(loss.item())  # tracelens: keep", "tracelens: keep"),
    "one line": ("if total: print(loss.item())", None),
    "last word": ("if total > 1e9:\n        print(loss.item())  # fires\n        sys.exit(1)", None),
    "meter": ("meter.update(loss.item())", None),
    "list": ("history.append(loss.item())", None),
}


@pytest.mark.parametrize("name", NOT_THINNED)
def test_a_line_that_does_more_than_show_stays(name: str, tmp_path: Path) -> None:
    line, why = NOT_THINNED[name]
    head = "seen = []\ndef check():\n    return seen.append(1)\ndef show(value):\n    check()\n    print(value)\n"
    text = script(
        head + LOGGED.format(head="x, y in loader", line=line).replace("total += loss.item()  # fires", "pass")
    )
    patch = unsafe(tmp_path, text, "thin-logs")
    assert patch.empty
    assert [why in reason for reason in reasons(patch, "thin-logs") if why] == ([True] if why else [])


def test_thinned_lines_and_other_changes_of_the_same_for_line(tmp_path: Path) -> None:
    """The prefetch goes around the loader, the counter around both."""
    text = script(
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "items = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))\n"
        "data = DataLoader(items, batch_size=4, num_workers=1)\n"
        "for x, y in data:\n    x = x.to(device)  # copies\n    y = y.to(device)  # copies\n    STEP\n"
        "    print(loss.item())  # fires\n"
    )
    copies = Edit("prefetch", locations=fired(text, "# copies"), depth=1)
    patch = patch_of(tmp_path, text, (*edits(text, "thin-logs"), copies), unsafe=True)
    assert "for batch_number, (x, y) in enumerate(tracelens_runtime.prefetch(data, device, depth=1)):" in patched_text(
        patch
    )


NOTICED_LINES = {
    "a part of a line": ("", "print('.', end='')", "a part of a line"),
    "an object that counts": (
        "class M:\n    t = 0\n    def __str__(self): self.t += 1; return str(self.t)\nm = M()",
        "print(m, loss.item())",
        "changes its object",
    ),
    "a dict that makes what it lacks": (
        "from collections import defaultdict\nd = defaultdict(int)",
        "print(d[i], loss.item())",
        "is another thing",
    ),
    "an own enumerate": ("def enumerate(it): return ((7, b) for b in it)", "print(loss.item())", "the file's own"),
    "a file that is looked at": (
        "f = open('l', 'w')\ndef size(): return f.tell()",
        "f.write(str(loss.item()))",
        "is looked at again",
    ),
}


@pytest.mark.parametrize("name", NOTICED_LINES)
def test_a_line_whose_absence_would_be_noticed_is_not_thinned(name: str, tmp_path: Path) -> None:
    before, line, why = NOTICED_LINES[name]
    text = script(f"{before}\nfor i, (x, y) in enumerate(loader):\n    STEP\n    {line}  # fires\n")
    patch = patch_of(tmp_path, text, (Edit("thin-logs", locations=defer(text)[0].locations, interval=10),), unsafe=True)
    assert patch.empty
    assert any(why in one.obstacle for one in patch.declined)
