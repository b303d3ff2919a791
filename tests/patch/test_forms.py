"""Forms of loops, loaders and reads that are seen through: generators that print meters, hidden arguments, formats."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.support.meter_loops import LOOP, MODULO, logged, meters
from tests.support.patching import Outcome, assert_same, defer, fired, patch_of, patched_text, script
from tracelens.model import Edit, EditKind, Location, Patch, Stall
from tracelens.patch.recipes import Wanted, make


def compare(folder: Path, text: str, patch: Patch, helper: str | None = None) -> Outcome:
    """`assert_same`, with a module of the project beside both versions."""
    for name in ("before", "after") if helper is not None else ():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "meters.py").write_text(helper or "")
    sys.modules.pop("meters", None)
    try:
        return assert_same(folder, text, patch)
    finally:
        sys.modules.pop("meters", None)


SHOWN = {
    "every so often, and after the last": meters(),
    "every so often": meters(MODULO),
    "counted by enumerate": meters(loop="        for i, obj in enumerate(iterable):\n", update="", start=""),
    "counted from one": meters(start="        i = 1\n"),
    "counted before it is looked at": meters(MODULO, update="", before="            i += 1\n"),
    "counted just behind the yield": meters(update="", after="            i += 1\n"),
    "only where somebody looks": meters("if torch.is_grad_enabled() and i % print_freq == 0:"),
    "by names of its own": meters(
        "if i % often == 0 or i == 22:", head='            header = ""\n        often = print_freq\n'
    ),
}


@pytest.mark.parametrize("interval", [10, 4, 1])
@pytest.mark.parametrize("every", ["1", "5", "10", "23", "50"])
def test_a_generator_shows_the_same_meters_at_the_same_batches(every: str, interval: int, tmp_path: Path) -> None:
    text = logged(meters(), every=every)
    patch = patch_of(tmp_path, text, defer(text, interval))
    assert patch.declined == ()
    assert "return i % print_freq == 0 or i == len(iterable) - 1" in patched_text(patch)
    left = assert_same(tmp_path, text, patch)
    assert left.ending == ""
    assert "epoch 1" in left.output


@pytest.mark.parametrize("name", SHOWN)
def test_when_a_generator_shows_its_meters_is_told_from_its_source(name: str, tmp_path: Path) -> None:
    text = logged(SHOWN[name])
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert "ahead.over(enumerate(" in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


@pytest.mark.parametrize("every", ["3", "40"])
def test_the_generator_may_stand_in_another_file_of_the_project(every: str, tmp_path: Path) -> None:
    helper = "import torch\n" + meters()
    (tmp_path / "meters.py").write_text(helper)
    text = logged("import meters\nfrom meters import Value\n", LOOP.replace("Meters(", "meters.Meters("), every)
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert any("`log_every` (meters.py:" in hunk.reason for hunk in patch.hunks)
    assert compare(tmp_path, text, patch, helper).ending == ""


def test_a_library_class_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "meters.py").write_text("import torch\n" + meters())
    text = logged("from meters import Value\nfrom library.meters import Meters\n")
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert {"made elsewhere" in one.obstacle for one in patch.declined} == {True}


SEEN_TOO_OFTEN = {
    "prints its meters in each pass": (meters(after="            print(self)\n"), "in each pass"),
    "keeps its meters under another name": (
        meters(head='            header = ""\n        mine = self.meters\n', after="            print(len(mine))\n"),
        "in each pass",
    ),
    "hands its meters to something that prints": (
        meters(head='            header = ""\n        passes.values.append(self.meters)\n'),
        "in each pass",
    ),
    "prints its meters at the end": (meters(tail="        print(header, self)\n"), "at its end"),
    "prints in the branch that is taken otherwise": (
        meters(MODULO.replace("if", "if i < 0:\n                pass\n            elif")),
        "`else`",
    ),
    "prints by chance": (meters("if torch.rand(1) < 0.5:"), "more than the batch's number"),
    "prints when a meter says so": (meters("if self.meters:"), "in each pass"),
    "prints in one of two ways": (meters("if i % print_freq == 0 or header == str(i):"), "more than"),
    "changes its interval": (meters(head='            header = ""\n        print_freq += 1\n'), "more than"),
    "asks for its length before": (
        meters("if i == last:", head='            header = ""\n        last = len(iterable) - 1\n'),
        "more than",
    ),
    "counts by twos": (meters(update="            i += 2\n"), "does not count"),
    "counts only some passes": (meters(update="            if obj:\n                i += 1\n"), "does not count"),
    "counts again": (meters(update="            i += 1\n        i = 0\n"), "does not count"),
    "leaves passes out": (meters(after="            if i == 3:\n                continue\n"), "in the middle"),
    "has two yields": (meters(tail="        yield from ()\n"), "`yield`"),
    "runs over something else": (meters(loop="        for obj in iter(iterable):\n"), "runs over something else"),
    "gives itself away": (meters(made="        self.delimiter = delimiter\n        ALL.append(self)\n"), "hands"),
    "counts in a name of the file": (meters(start="        global i\n        i = 0\n"), "names of the whole file"),
    "has a function of its own": (
        meters(head='            header = ""\n        show = lambda: print(self)\n', after="            show()\n"),
        "function of its own",
    ),
    "is another one": (meters() + "Meters.log_every = Meters.log_every\n", "replaced"),
    "is there twice": (
        meters() + "class Other(Meters):\n    def log_every(self, *a):\n        pass\n",
        "more than once",
    ),
}


@pytest.mark.parametrize("name", SEEN_TOO_OFTEN)
def test_a_generator_that_may_show_its_meters_at_any_time_is_left_alone(name: str, tmp_path: Path) -> None:
    classes, words = SEEN_TOO_OFTEN[name]
    patch = patch_of(tmp_path, logged(classes))
    assert patch.empty
    assert [words in one.obstacle for one in patch.declined] == [True, True]


CALLS_OF_OTHER_KINDS = {
    "handed over": (
        LOOP.replace("limit=10 ** 6):\n    logger = M", "limit=9, logger=None):\n    other = M"),
        "elsewhere",
    ),
    "one of two": (LOOP.replace("    logger.add", "    logger = logger or None\n    logger.add"), "made elsewhere"),
    "new in each pass": (LOOP.replace("        STEP", "        logger = logger\n        STEP"), "made elsewhere"),
    "an interval that is used up": (LOOP.replace("print_freq, f", "next(iter([print_freq])), f"), "evaluated again"),
    "a loader that is used up": (LOOP.replace("(loader,", "(iter(loader),"), "evaluated again"),
    "hidden arguments": (LOOP.replace("print_freq, f", "*[print_freq], f"), "hidden"),
    "an iterator around it": (LOOP.replace("in enumerate(", "in zip(range(9), "), "between two batches"),
}


@pytest.mark.parametrize("name", CALLS_OF_OTHER_KINDS)
def test_a_generator_whose_object_or_arguments_are_not_known_is_left_alone(name: str, tmp_path: Path) -> None:
    loop, words = CALLS_OF_OTHER_KINDS[name]
    patch = patch_of(tmp_path, logged(meters(), loop))
    assert patch.empty
    assert {words in one.obstacle for one in patch.declined} == {True}


def test_a_tensor_that_a_meter_reads_itself_is_kept_as_it_was_and_read_by_the_meter(tmp_path: Path) -> None:
    """The meter's own read stays the meter's: one by one, when the statement runs."""
    loop = LOOP.replace("rate=optimizer", "error=1 - right / len(y), rate=optimizer")
    text = logged(meters(), loop.replace("        STEP\n", "        STEP\n        right.zero_() if step else 0\n", 0))
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert assert_same(tmp_path, text, patch).ending == ""
    whole = logged(meters(), LOOP.replace("        if step", "        logger.update(whole=loss)\n        if step"))
    patch = patch_of(tmp_path, whole)
    assert patch.empty
    assert {"tensor `loss` itself" in one.obstacle for one in patch.declined} == {True}


def test_lines_of_the_loop_itself_do_not_wait_beside_those_of_its_generator(tmp_path: Path) -> None:
    loop = LOOP.replace("        if step", "        print(step, loss.item())  # fires\n        if step")
    text = logged(meters(), loop)
    patch = patch_of(tmp_path, text)
    assert ["the iterator uses the results" in one.obstacle for one in patch.declined] == [True]
    assert assert_same(tmp_path, text, patch).ending == ""


def test_a_generator_over_a_loader_that_is_prefetched_is_asked_for_the_loader_itself(tmp_path: Path) -> None:
    data = "loader = torch.utils.data.DataLoader([(x[0], y[0]) for x, y in loader], batch_size=2, num_workers=2)\n"
    loop = LOOP.replace(
        "        STEP", "        x = x.to(device)  # copied\n        y = y.to(device)  # copied\n        STEP"
    )
    text = logged(meters() + data, loop)
    edits = (*defer(text), Edit("prefetch", locations=fired(text, "# copied")))
    after = patched_text(patch_of(tmp_path, text, edits))
    assert (
        "logger.log_every(tracelens_runtime.prefetch(loader, device, depth=1, leaves_early=True), print_freq" in after
    )
    assert "(i, iterable=loader, print_freq=print_freq):" in after


READS = {
    'print("%.3f" % loss)': "ahead.number(loss)",
    'print("%d %.3f" % (i, loss.detach()))': "ahead.number(loss.detach())",
    'print("%.3f" % loss.data)': "ahead.number(loss.data)",
    'print("%d%% %+6.2e" % (correct.sum(), loss.data))': "ahead.number(correct.sum())",
    'print("%s %5.1f" % ("loss", 100 * correct.float().mean()))': "ahead.number(100 * correct.float().mean())",
    'print("{:.3f}".format(loss))': "ahead.formatted(loss)",
    'print("{0:.3f} {1}".format(loss, i))': "ahead.formatted(loss)",
    'print("{}".format(loss))': "ahead.formatted(loss)",
    'print("{value:.4f}".format(value=loss))': "ahead.formatted(loss)",
    'print("{:.2f}".format(100.0 * correct.sum() / len(y)))': "ahead.formatted(100.0 * correct.sum() / len(y))",
    'print(format(loss, ".3f"))': "ahead.formatted(loss)",
    'print(format(loss.item(), ".3f"))': "ahead.item(loss)",
    "print(round(loss.item(), 3))": "ahead.item(loss)",
    'print(f"{float(loss.detach()):.3f}")': "ahead.number(loss.detach())",
    'print(f"{loss:.3f} {i}")': "ahead.formatted(loss)",
    'print(f"{loss}")': "ahead.formatted(loss)",
    'print(f"{100.0 * correct.sum() / len(y):.2f}")': "ahead.formatted(100.0 * correct.sum() / len(y))",
    "total += correct.cpu().sum()": "ahead.host(correct)",
    "total += float(correct.cpu().sum()) / 5": "ahead.values(correct)",
    "total += loss.cpu().sum().item()": "ahead.values(loss)",
    "total += loss.data.cpu().double().mean(0).item()": "ahead.values(loss)",
    "total += guess.cpu().numpy().sum()": "ahead.numpy(guess)",
    "total += loss.data.cpu().numpy()[()]": "ahead.numpy(loss)",
    "total += loss.view(1).data.cpu().numpy()[0]": "ahead.numpy(loss.view(1))",
    "total += loss.detach().cpu().numpy().reshape(-1)[0]": "ahead.numpy(loss)",
    "total += correct.sum().item() / len(y)": "ahead.item(correct.sum())",
    "total += (guess.cpu().numpy() == y.cpu().numpy()).mean()": "ahead.numpy(y)",
    "total += 1 - (guess.cpu().numpy() == y.cpu().numpy()).astype(float).mean()": "ahead.numpy(guess)",
    "seen.append(guess.cpu().numpy().tolist())": "ahead.numpy(guess)",
    "seen.append(loss.detach().cpu().numpy().item())": "ahead.numpy(loss)",
    "total += x[correct].mean().item()": "ahead.item(x[correct].mean())",
}

READING = """
import numpy as np
total, seen, label = 0.0, [], "none"
for i, (x, y) in enumerate(loader):
    STEP
    guess = model(x).argmax(1)
    correct = guess == y
    {line}  # fires
    label = "loss" if i % 2 else "again"
    seen.append(label)
    loss.detach().mul_(2)
    correct.zero_()
print(float(total), seen)
"""


TO_A_SCALAR = "ignore:Converting a tensor with requires_grad=True to a scalar"
"""The warning of a `%.3f` or `float(…)` of the loss itself, which its number has no need of."""


@pytest.mark.filterwarnings(TO_A_SCALAR)
@pytest.mark.parametrize("line", READS)
def test_a_read_is_seen_in_whatever_form_it_takes(line: str, tmp_path: Path) -> None:
    text = script(READING.format(line=line))
    patch = patch_of(tmp_path, text)
    assert patch.declined == ()
    assert READS[line] in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


WHOLE = {
    "print(loss)": "the text of the tensor `loss` itself",
    'print("loss", loss.detach())': "the text of the tensor `loss.detach()` itself",
    "seen.append(str(loss))": "the text of the tensor `loss` itself",
    'print("%s" % loss)': "the text of the tensor `loss` itself",
    'print("loss: %r" % loss.data)': "the text of the tensor `loss.data` itself",
    'print(f"{loss!r}")': "the text of the tensor `loss` itself",
    'print("right", correct.float().mean())': "the text of the tensor `correct.float().mean()` itself",
    "kept = x[correct]": "the shape of `x[correct]` depends on values",
    "kept = x[~correct]": "the shape of `x[~correct]` depends on values",
    "kept = x[y == 1]": "the shape of `x[y == 1]` depends on values",
    "kept = x[:, x[0] > 0]": "the shape of `x[:, x[0] > 0]` depends on values",
    "total += len(correct.nonzero())": "the shape of `correct.nonzero()` depends on values",
    "kept = torch.masked_select(x[:, 0], correct)": "the shape of `torch.masked_select(x[:, 0], correct)` depends",
    "kept = torch.unique(y)": "the shape of `torch.unique(y)` depends on values",
}


@pytest.mark.parametrize("line", WHOLE)
def test_what_is_more_than_a_number_is_named(line: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(READING.format(line=line)))
    assert patch.empty
    assert [WHOLE[line] in one.obstacle for one in patch.declined] == [True]
    assert all(one.by_hand for one in patch.declined)


ODD = {
    "a number of dimensions, formatted": 'print("{}".format(x.detach().sum(0)))',
    "an element too many for a number": 'print("%.3f" % x.sum(0))',
    "a parameter's own format": 'print(f"{scale} {loss:.3f}")',
    "a parameter with a format that it does not know": 'print(f"{scale:.3f} {loss:.3f}")',
    "values of a graph": "total = total + scale.cpu().sum(); seen.append(loss.item())",
    "another order of the elements": "total += x[:, ::2].t().cpu().sum().item() + loss.item()",
    "one that repeats itself": "total += x[:, :1].expand(5, 9).cpu().mean().item() + loss.item()",
    "a key": 'print("%(a).3f" % {"a": loss.item()})',
    "a width from elsewhere": 'print("%*.3f" % (9, loss.item()))',
    "a tuple that is one value": 'pair = (loss.item(), i); print("%.3f %d" % pair)',
    "not a number, as a whole one": 'print("%d %.3f" % (loss * float("nan"), loss))',
}


@pytest.mark.filterwarnings(TO_A_SCALAR)
@pytest.mark.parametrize("name", ODD)
def test_odd_values_leave_what_they_left_or_the_same_error(name: str, tmp_path: Path) -> None:
    text = script("scale = nn.Parameter(torch.tensor(0.5))" + READING.format(line=ODD[name]))
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def test_text_of_what_is_no_tensor_is_left_as_it_was(tmp_path: Path) -> None:
    """Nothing changes for values that are kept as they are."""
    line = 'print(f"{label} {loss.item():.3f}", "%s %d" % (label, len(label)), "%d" % len(seen))'
    text = script(READING.format(line=line))
    after = patched_text(patch_of(tmp_path, text))
    assert "ahead.later(replay_batch, label, ahead.item(loss), len(label), len(seen))" in after


STATIC_STORAGE = """
class Replayed:
    '''Gives the same storage in each call, as a replayed CUDA graph does.'''
    def __init__(self, function):
        self.function, self.storage = function, None
    def __call__(self, *given):
        with torch.no_grad():
            made = self.function(*given)
            self.storage = made.clone() if self.storage is None else self.storage.copy_(made)
        return self.storage
measure = Replayed(lambda x, y: criterion(model(x), y))
total, lines = 0.0, []
for i, (x, y) in enumerate(loader):
    STEP
    value = measure(x, y)
    total += value.item()  # fires
    lines.append(f"{value:.6f}")  # fires
    print(i, lines[-1], value.view(1).tolist())  # fires
print(total)
"""


def test_storage_that_the_next_batch_overwrites_is_copied_right_where_it_is_read(tmp_path: Path) -> None:
    text = script(STATIC_STORAGE)
    patch = patch_of(tmp_path, text, defer(text, 1000))
    assert patch.declined == ()
    assert assert_same(tmp_path, text, patch).ending == ""


COMPILED = """
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(16, 32, device=device), torch.randint(0, 8, (16,), device=device)) for _ in range(40)]


@torch.compile(mode="reduce-overhead")
def forward(x, y):
    return criterion(model(x), y)


losses, total = [], 0.0
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad(set_to_none=True)
    loss = forward(x, y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())  # fires
    total += loss.item() / 2  # fires
    print(i, f"{loss.item():.9f}")  # fires
"""


def test_the_copy_of_a_compiled_functions_result_is_made_outside_of_it_and_before_its_next_call(tmp_path: Path) -> None:
    lines = [line.strip() for line in patched_text(patch_of(tmp_path, COMPILED)).splitlines()]
    loop = lines[lines.index("for i, (x, y) in ahead.over(enumerate(loader)):") :]
    assert loop[-2:] == ["optimizer.step()", "ahead.later(replay_batch, ahead.item(loss), i)"]
    region = lines[lines.index('@torch.compile(mode="reduce-overhead")') :][:3]
    assert region[1:] == ["def forward(x, y):", "return criterion(model(x), y)"]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch 2.11's own, when it imports its compiler
@pytest.mark.filterwarnings("ignore::UserWarning")  # its advice about speed, and about graphs with nothing in them
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_reads_of_a_compiled_function_with_cuda_graphs_can_wait(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, COMPILED)
    torch._dynamo.reset()
    left = assert_same(tmp_path, COMPILED, patch)
    torch._dynamo.reset()
    assert left.ending == ""
    assert left.output.count("\n") == 40


ON_CPU = """
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cpu")
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([(torch.randn(4), i % 3) for i in range(20)], batch_size=4)
total = 0.0
for x, y in loader:
    x = x.to(device)  # fires
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()  # fires
print(total)
"""
MAY_USE_A_GPU = {
    "its device comes from outside": ('torch.device("cpu")', "torch.device(input())"),
    "its device has another name": (".to(device)  # fires", ".to(elsewhere)  # fires"),
    "it names one in a branch": ('torch.device("cpu")', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'),
    "its model was saved somewhere": ("nn.Linear(4, 3).to(device)", 'torch.load("model.pt")'),
    "another library makes the model": ("from torch import nn", "from torch import nn\nimport timm"),
    "it sets a device for all": ("total = 0.0", "total = 0.0\ntorch.set_default_device(total)"),
}


@pytest.mark.parametrize("kind", ["defer-read", "async-copy", "prefetch", "event-sync"])
def test_a_script_that_uses_no_gpu_is_told_so_at_each_place(kind: EditKind, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, ON_CPU, (Edit(kind, locations=fired(ON_CPU), interval=10),))
    assert patch.empty
    assert ["nothing in this script uses a GPU" in one.obstacle for one in patch.declined] == [True, True]
    assert [one.location.line for one in patch.declined] == [12, 17]


@pytest.mark.parametrize("name", MAY_USE_A_GPU)
def test_a_script_that_may_use_a_gpu_is_patched(name: str, tmp_path: Path) -> None:
    old, new = MAY_USE_A_GPU[name]
    text = ON_CPU.replace(old, new)
    assert text != ON_CPU
    assert patch_of(tmp_path, text).hunks


def test_a_wait_that_was_recorded_shows_that_there_is_a_gpu(tmp_path: Path) -> None:
    place = Location("train.py", 17)
    stall = Stall("read", "cudaStreamSynchronize", "d2h", 1.0, 0, 0, None, "unknown", place)
    (tmp_path / "train.py").write_text(ON_CPU)
    edits = (Edit("defer-read", stalls=("read",), interval=10),)
    assert make(tmp_path, tmp_path / "train.py", edits, (stall,), Wanted(10)).hunks


def test_a_module_of_a_project_that_names_a_gpu_is_no_script_for_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import train\ntrain.model.cuda()\n")
    assert patch_of(tmp_path, ON_CPU).hunks
