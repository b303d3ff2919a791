"""The recipes that need --unsafe: what is lost is what was said, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.patching import Outcome, assert_same, defer, fired, patch_of, patched_text, run, script
from tracelens.model import UNSAFE_EDITS, Edit, Location, Patch, Stall
from tracelens.patch.files import apply
from tracelens.patch.loop.thinned import MARK
from tracelens.patch.recipes import Wanted, make

N = 10
READS = ("thin-logs", "move-guard")


def edits(text: str, *kinds: str) -> tuple[Edit, ...]:
    """One Edit per kind, at every line that fires."""
    out = []
    for kind in kinds:
        if kind in ("more-workers", "persistent-workers"):
            out.append(Edit(kind, workers=2 if kind == "more-workers" else 0))  # type: ignore[arg-type]
        else:
            out.append(Edit(kind, locations=fired(text), interval=N))  # type: ignore[arg-type]
    return tuple(out)


def unsafe(folder: Path, text: str, *kinds: str, **options: object) -> Patch:
    return patch_of(folder, text, edits(text, *kinds), unsafe=True, **options)


def ran(folder: Path, patch: Patch) -> Outcome:
    """Run the patched script beside the helper file that came with it."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in patch.files:
        if one.path.name == "tracelens_runtime.py":
            (folder / one.path.name).write_bytes(one.after)
    return run(folder, patched_text(patch))


def reasons(patch: Patch, kind: str) -> list[str]:
    return [one.obstacle for one in patch.declined if one.edit == kind]


# ------------------------------------------------------------------------------------------------- moved guards

POISON = 13
"""The batch whose loss is not a number."""
GUARDED = """
import math, sys
import numpy as np
total = 0.0
for step, (x, y) in enumerate(loader):
    sys.updates = step
    if step == {poison}:
        x = x * float("nan")
    loss = criterion(model(x), y)
    {guard}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += {value}
    print(f"{{step}}: {{{value}:.4f}}")
print("end", total)
"""

ITEM = "loss_value = loss.item()  # fires\n"
GUARDS = {
    "mae": (ITEM + "if not math.isfinite(loss_value):\n    print('Loss is {}, stopping'.format(loss_value))\n"
            "    sys.exit(1)", "loss_value"),
    "convnext": (ITEM + "if not math.isfinite(loss_value):\n    print('Loss is', loss_value)\n"
                 "    assert math.isfinite(loss_value)", "loss_value"),
    "detr": (ITEM + "if not math.isfinite(loss_value):\n    print(f'step {step}')\n    print(loss_value)\n"
             "    sys.exit(3)", "loss_value"),
    "dino": ("if not math.isfinite(loss.item()):  # fires\n    print('Loss is {}'.format(loss.item()))\n"
             "    sys.exit(1)", "1.0"),
    "fcn": (ITEM.replace("loss.item", "loss.data.item") + "if np.isnan(loss_value):\n"
            "    raise ValueError('loss is nan while training')", "loss_value"),
    "assert": ("assert torch.isfinite(loss).all(), f'bad loss at {step}'  # fires", "1.0"),
    "raise": ("if torch.isnan(loss) or torch.isinf(loss):  # fires\n    raise RuntimeError(f'NaN at {step}')", "1.0"),
    "method": ("if loss.isnan().any():  # fires\n    raise RuntimeError", "1.0"),
    "itself": ("if loss != loss:  # fires\n    raise FloatingPointError('nan')", "1.0"),
    "tensor": ("if math.isnan(loss.detach()):  # fires\n    sys.exit('not a number')", "1.0"),
    "limits": (ITEM + "assert not (np.isnan(loss_value) or loss_value > 1e5), 'Loss explosion: {}'"
               ".format(loss_value)", "loss_value"),
    "any": (ITEM + "if any([loss_value > 1e8, math.isnan(loss_value)]):\n    raise Exception('Loss exploded')",
            "loss_value"),
    "one line": (ITEM + "if math.isnan(loss_value): sys.exit(2)", "loss_value"),
    "break": (ITEM + "if math.isnan(loss_value):\n    print('stop')\n    break", "loss_value"),
}  # fmt: skip


def guarded(name: str, poison: int) -> str:
    guard, value = GUARDS[name]
    return script(GUARDED.format(poison=poison, guard=guard.replace("\n", "\n    "), value=value))


@pytest.mark.parametrize("name", GUARDS)
def test_a_moved_guard_ends_the_training_as_before_some_updates_later(name: str, tmp_path: Path) -> None:
    text = guarded(name, POISON)
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks if hunk.edit == "move-guard"] == [("TL601", "unsafe")]
    before, early = run(tmp_path / "before", text), sys.updates  # type: ignore[attr-defined]
    after, late = ran(tmp_path / "after", patch), sys.updates  # type: ignore[attr-defined]
    assert after.ending == before.ending
    assert (before.ending != "") is (name != "break")
    assert (early, late) == (POISON, 19), "the guard looks at the end of its ten batches, not of the training"
    logged = [line for line in after.output.splitlines() if not re.match(r"\d+: 1.0000", line)]
    expected = [line for line in before.output.splitlines() if not re.match(r"\d+: 1.0000", line)]
    assert logged == expected, "what waited behind the guard was never to be written"


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_bad_batch_nothing_differs(name: str, tmp_path: Path) -> None:
    text = guarded(name, poison=-1)
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert assert_same(tmp_path, text, patch).ending == ""
    assert not re.search(
        r"^    .*\.item\(\)", patched_text(patch).partition("ahead.over")[2].replace("ahead.item", ""), re.M
    )


OTHERS = {
    "continue": ("if math.isnan(loss_value):\n    continue", "(`continue`)"),
    "zero_grad": ("if math.isnan(loss_value):\n    optimizer.zero_grad()", "something else than to end the training"),
    "scale": ("if math.isnan(loss_value):\n    loss = loss * 0", "something else than to end the training"),
    "else": ("if math.isnan(loss_value):\n    sys.exit(1)\nelse:\n    good = step", "has an `else`"),
    "saves": ("if math.isnan(loss_value):\n    torch.save(x, 'bad.pt')\n    sys.exit(1)", "more than log"),
    "sometimes": ("if math.isnan(loss_value):\n    if step > 3:\n        break\n    raise ValueError", "(`break`)"),
    "kept": ("if math.isnan(loss_value):  # tracelens: keep\n    sys.exit(1)", "tracelens: keep"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_guard_that_does_something_else_stays(name: str, tmp_path: Path) -> None:
    guard, why = OTHERS[name]
    text = script(GUARDED.format(poison=-1, guard=(ITEM + guard).replace("\n", "\n    "), value="loss_value"))
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert patch.empty
    assert why in reasons(patch, "move-guard")[0]


def test_a_guard_whose_value_is_read_in_each_batch_all_the_same_stays(tmp_path: Path) -> None:
    guard = "loss_value = loss.item()\n    if math.isnan(loss_value):  # fires\n        sys.exit(1)"
    text = script(GUARDED.format(poison=-1, guard=guard, value="loss_value"))
    patch = unsafe(tmp_path, text, "move-guard")
    assert patch.empty and "read in each batch all the same" in reasons(patch, "move-guard")[0]


def test_a_condition_that_is_no_check_for_a_number_is_no_guard(tmp_path: Path) -> None:
    guard = ITEM + "if loss_value > 5:\n        sys.exit(1)"
    text = script(GUARDED.format(poison=-1, guard=guard.replace("\nif", "\n    if"), value="loss_value"))
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert patch.empty and reasons(patch, "move-guard") == []


SAVING = """
import math, sys
for step, (x, y) in enumerate(loader):
    if step == 13:
        x = x * float("nan")
    loss = criterion(model(x), y)
    if math.isnan(loss.item()):  # fires
        {end}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (5, 15):
        torch.save(model.state_dict(), f"kept{{step}}.pt")
print("after", step)
"""


@pytest.mark.parametrize("end", ["sys.exit(1)", "break", "raise ValueError('nan')"])
def test_no_weights_are_saved_before_the_guard_has_looked(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = script(SAVING.format(end=end))
    monkeypatch.chdir(tmp_path)
    patch = unsafe(tmp_path, text, "move-guard")
    assert "it saves after the guard has looked" in patch.hunks[0].reason
    after = ran(tmp_path / "after", patch)
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["kept5.pt"]
    assert after.ending == run(tmp_path / "before", text).ending


def test_a_loop_that_saves_in_each_batch_keeps_its_guard(tmp_path: Path) -> None:
    text = script(SAVING.format(end="sys.exit(1)").replace("if step in (5, 15):", "with torch.no_grad():"))
    assert "saves in each batch" in reasons(unsafe(tmp_path, text, "move-guard"), "move-guard")[0]


def test_a_return_out_of_the_loop_does_not_lose_the_guard(tmp_path: Path) -> None:
    body = """
    import math, sys
    def train():
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x * (float("nan") if step == 3 else 1)), y)
            if math.isnan(loss.item()):  # fires
                sys.exit(1)
            loss.backward()
            optimizer.step()
            if step == 6:
                return 5
    train()
    """
    text = script(body)
    patch = unsafe(tmp_path, text, "move-guard")
    assert ran(tmp_path / "after", patch).ending == run(tmp_path / "before", text).ending == "SystemExit: 1"


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


# ------------------------------------------------------------------------------------------------------ workers

LOADER = """
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.randn(4), index % 3


def main():
    loader = DataLoader({arguments})
    for epoch in range(2):
        for x, y in loader:
            STEP
        print(epoch, loss.item())


{call}
"""
GUARD = 'if __name__ == "__main__":\n    main()'
ITEMS = "Noisy(), batch_size=4, shuffle=True"


def loading(arguments: str = ITEMS, call: str = GUARD) -> str:
    return script(LOADER.format(arguments=arguments, call=call))


def apart(folder: Path, text: str) -> str:
    """The lines of a script run in a process of its own, as its workers need."""
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(text)
    command = [sys.executable, "train.py"]
    return subprocess.run(command, check=True, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=120).stdout


def test_workers_are_added_and_the_script_runs(tmp_path: Path) -> None:
    text = loading()
    patch = unsafe(tmp_path, text, "more-workers")
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks] == [("TL701", "unsafe")]
    assert "random draws of the data set" in patch.hunks[0].reason and "main guard" in patch.hunks[0].reason
    assert f"DataLoader({ITEMS}, num_workers=2)" in patched_text(patch)
    before, after = apart(tmp_path / "before", text), apart(tmp_path / "after", patched_text(patch))
    assert len(after.splitlines()) == len(before.splitlines()) == 2
    assert after != before, "the items are drawn by the workers' generators, as the reason says"


def test_a_written_number_is_raised_and_never_lowered(tmp_path: Path) -> None:
    assert "num_workers=2" in patched_text(unsafe(tmp_path, loading(f"{ITEMS}, num_workers=1"), "more-workers"))
    assert unsafe(tmp_path, loading(f"{ITEMS}, num_workers=2"), "more-workers").empty


WORKERLESS = {
    "argument": (f"{ITEMS}, num_workers=count", GUARD, "", "comes from `count`"),
    "hidden": (f"{ITEMS}, **options", GUARD, "", "hidden in `*` or `**`"),
    "stream": (ITEMS, GUARD, "from torch.utils.data import IterableDataset\n", "may be a stream"),
    "open file": (ITEMS, GUARD, "def opened(path):\n    return h5py.File(path)\n", "keeps a file open"),
    "on the gpu": (ITEMS.replace("Noisy()", "[x.cuda() for x in []]"), GUARD, "", "is on the GPU"),
    "spawned": (ITEMS, "torch.multiprocessing.set_start_method('spawn')\nmain()", "", "no main guard"),
    "lambda": (f"{ITEMS}, collate_fn=lambda b: b, multiprocessing_context='spawn'", GUARD, "", "is a lambda"),
    "kept": (f"{ITEMS})  # tracelens: keep\n    (", GUARD, "", "tracelens: keep"),
}


@pytest.mark.parametrize("name", WORKERLESS)
def test_loaders_that_cannot_have_workers_stay(name: str, tmp_path: Path) -> None:
    arguments, call, head, why = WORKERLESS[name]
    text = head + loading(arguments, call)
    patch = unsafe(tmp_path, text, "more-workers")
    assert patch.empty
    assert why in reasons(patch, "more-workers")[0]


def test_without_a_main_guard_workers_must_be_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = loading(call="main()")
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["fork", "spawn", "forkserver"])
    assert "workers must be forked" in unsafe(tmp_path, text, "more-workers").hunks[0].reason
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["forkserver", "spawn", "fork"])
    assert "starts workers by forkserver" in reasons(unsafe(tmp_path, text, "more-workers"), "more-workers")[0]


def test_workers_that_stay_alive_change_the_second_epoch_only(tmp_path: Path) -> None:
    text = loading(f"{ITEMS}, num_workers=1")
    patch = unsafe(tmp_path, text, "persistent-workers")
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks] == [("TL801", "unsafe")]
    assert "from the second epoch on the shuffle" in patch.hunks[0].reason
    before, after = apart(tmp_path / "before", text), apart(tmp_path / "after", patched_text(patch))
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[1] != before.splitlines()[1]


def test_the_number_of_workers_may_stand_behind_a_name(tmp_path: Path) -> None:
    patch = unsafe(tmp_path, loading(f"{ITEMS}, num_workers=count"), "persistent-workers")
    assert "num_workers=count, persistent_workers=count > 0" in patched_text(patch)


def test_where_workers_must_not_stay_alive(tmp_path: Path) -> None:
    with_workers = f"{ITEMS}, num_workers=1"
    changing = loading(with_workers).replace(
        "        for x, y in loader", "        loader.dataset.epoch = epoch\n        for x, y in loader"
    )
    once = loading(with_workers).replace("    for epoch in range(2):", "    epoch = 0\n    if True:")
    for text, why in (
        (changing, "the data set may change between two epochs"),
        (once, "there is no second epoch"),
        (loading(), "has no workers"),
    ):
        patch = unsafe(tmp_path, text, "persistent-workers")
        assert patch.empty
        assert why in reasons(patch, "persistent-workers")[0]
    assert unsafe(tmp_path, loading(f"{with_workers}, persistent_workers=True"), "persistent-workers").empty


# ------------------------------------------------------------------------------------------- the patch as a whole

WHOLE = """
import math, sys
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(60, 4), torch.randint(0, 3, (60,)))


def main():
    total = 0.0
    loader = DataLoader(data, batch_size=4, num_workers=1)
    for epoch in range(2):
        for x, y in loader:
            STEP
            loss_value = loss.item()  # fires
            if not math.isfinite(loss_value):
                sys.exit(1)
            total += loss_value
            print(loss.norm().item())  # fires
    print(total)


if __name__ == "__main__":
    main()
"""


def test_without_unsafe_every_place_is_listed_and_not_a_byte_differs(tmp_path: Path) -> None:
    text = script(WHOLE)
    plain = patch_of(tmp_path, text, defer(text))
    offered = patch_of(tmp_path, text, (*defer(text), *edits(text, *UNSAFE_EDITS)))
    assert [one.after for one in offered.files] == [one.after for one in plain.files]
    assert offered.hunks == plain.hunks
    told = {one.edit: one.obstacle for one in offered.declined if one.edit in UNSAFE_EDITS}
    assert set(told) == set(UNSAFE_EDITS)
    assert all("needs --unsafe: " in obstacle for obstacle in told.values())
    assert offered.by_hand == plain.by_hand, "they are no work for a person"


def test_hunks_have_families_of_their_own_and_obey_only_and_skip(tmp_path: Path) -> None:
    text = script(WHOLE)
    wanted = (*defer(text), *edits(text, *UNSAFE_EDITS))
    every = patch_of(tmp_path, text, wanted, unsafe=True)
    assert [hunk.id for hunk in every.hunks] == ["TL701", "TL801", "TL601", "TL501"], "what waits, waits with the guard"
    assert every.left_alone == ()
    only = patch_of(tmp_path, text, wanted, unsafe=True, only=("TL601",))
    assert [hunk.id for hunk in only.hunks] == ["TL601"] and MARK not in only.diff
    skipped = patch_of(tmp_path, text, wanted, unsafe=True, skip=("TL601",))
    assert "TL601" not in [hunk.id for hunk in skipped.hunks] and MARK in skipped.diff


@pytest.mark.parametrize(
    "kinds",
    [
        ("thin-logs",),
        ("move-guard",),
        ("more-workers",),
        ("persistent-workers",),
        ("defer-read", *UNSAFE_EDITS),
        ("event-sync", "interval-sync", "defer-read", *UNSAFE_EDITS),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_second_run_changes_nothing_and_revert_is_exact(kinds: tuple[str, ...], ending: str, tmp_path: Path) -> None:
    text = script(WHOLE).replace("print(total)", "torch.cuda.synchronize()").replace("\n", ending)
    path = tmp_path / "train.py"
    wanted = edits(text, *kinds)
    patch = patch_of(tmp_path, text, wanted, unsafe=True)
    assert not patch.empty
    apply.write(patch, tmp_path / "backup")
    now = path.read_bytes().decode()
    stalls = tuple(
        Stall(f"s{n}", "cudaStreamSynchronize", "d2h", 1.0, 0, 0, None, "unknown", Location("train.py", n))
        for n, line in enumerate(now.splitlines(), 1)
        if ".item()" in line
    )
    again = tuple(
        replace(edit, locations=(), stalls=tuple(s.id for s in stalls)) if edit.locations else edit for edit in wanted
    )
    assert make(tmp_path, path, again, stalls, Wanted(N, unsafe=True)).diff == ""
    apply.revert(tmp_path / "backup")
    assert path.read_bytes() == text.encode()
    shutil.rmtree(tmp_path / "backup", ignore_errors=True)


METERS = """
class Meters:
    def __init__(self):
        self.values = {}

    def update(self, **values):
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def log_every(self, batches, every):
        count = 0
        for batch in batches:
            yield batch
            if count % every == 0:
                print(count, {name: sum(values) for name, values in self.values.items()})
            count += 1
"""
ENGINE = """
import math, sys
from meters import Meters


def train_one_epoch(poison):
    meters = Meters()
    for x, y in meters.log_every(loader, 7):
        x = x * float("nan") if poison and x is loader[13][0] else x
        loss = criterion(model(x), y)
        loss_value = loss.item()  # fires
        if not math.isfinite(loss_value):
            print("Loss is {}, stopping training".format(loss_value))
            print(sorted(meters.values))
            sys.exit(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters.update(loss=loss_value)
    return meters.values


kept = train_one_epoch("poison" in sys.argv)
print(kept)
"""


@pytest.mark.parametrize("arguments", [(), ("poison",)])
def test_the_engine_of_a_project_with_meters(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """The shape of MAE, DeiT and DETR: a guard, and meters that their own generator prints."""
    text = script(ENGINE)
    for folder in (tmp_path, tmp_path / "before", tmp_path / "after"):
        folder.mkdir(exist_ok=True)
        (folder / "meters.py").write_text(METERS)
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert [hunk.id for hunk in patch.hunks] == ["TL601"]
    sys.modules.pop("meters", None)
    assert assert_same(tmp_path, text, patch, arguments).ending == ("SystemExit: 1" if arguments else "")
    sys.modules.pop("meters", None)
