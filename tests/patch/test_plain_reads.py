"""Deferred reads without a helper: where they stand, what they lose where a script is killed, what they leave alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.every_place import ON_GPU, every_place
from tests.support.patching import assert_same, defer, patch_of, patched_text, script
from tracelens.model import Edit, Patch

WINDOW = """
    def main():
        running = 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            running += loss.item()  # fires
            if i % 5 == 4:
                print(f"[{i + 1}] {running / 5:.6f}")
                running = 0.0
        return running
    result = main()
"""


def added(patch: Patch) -> list[str]:
    return [line[1:] for line in patch.diff.splitlines() if line.startswith("+") and not line.startswith("+++")]


def names(patch: Patch) -> list[str]:
    return [one.path.name for one in patch.files]


def test_a_sum_is_read_where_it_is_printed_and_after_the_loop(tmp_path: Path) -> None:
    text = script(WINDOW)
    patch = patch_of(tmp_path, text)
    assert [line.strip() for line in added(patch)] == [
        "pending_losses = []",
        "pending_losses.append(loss.detach().clone())",
        "for loss_value in pending_losses:",
        "running += loss_value.item()  # fires",
        "pending_losses.clear()",
        "for loss_value in pending_losses:",
        "running += loss_value.item()",
    ]
    assert (names(patch), [hunk.tier for hunk in patch.hunks]) == (["train.py"], ["safe"])
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("batches", [0, 1, 4, 5, 23])
def test_any_number_of_batches(batches: int, tmp_path: Path) -> None:
    text = script(WINDOW, batches)
    assert_same(tmp_path, text, patch_of(tmp_path, text))


def test_a_list_grows_by_all_that_waits(tmp_path: Path) -> None:
    text = script("losses = []\nfor x, y in loader:\n    STEP\n    losses.append(loss.item())\nprint(losses)\n")
    patch = patch_of(tmp_path, text, defer(text, mark="losses.append(loss.item())"))
    assert "    losses.extend(torch.stack(pending_losses).tolist())" in added(patch)
    assert_same(tmp_path, text, patch)


FORMS = {
    "two sums": (
        "total = right = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()  # fires\n"
        "    n = y.size(0)\n    right += (model(x).argmax(1) == y).sum().item() / n  # fires\nprint(total, right)\n",
        "safe",
    ),
    "print in each batch": ("for x, y in loader:\n    STEP\n    print(loss.item())  # fires\n", "checked"),
    "the number of the batch": (
        "for i, (x, y) in enumerate(loader):\n    STEP\n    print(i, loss.item())  # fires\n",
        "checked",
    ),
    "a learning rate": (
        "total = 0.0\nfor x, y in loader:\n    STEP\n"
        "    total += loss.item() * optimizer.param_groups[0]['lr']  # fires\nprint(total)\n",
        "checked",
    ),
    "a list of somebody else": (
        "def train(losses):\n    for x, y in loader:\n        STEP\n        losses.append(loss.item())  # fires\n"
        "kept = []\ntrain(kept)\nprint(kept)\n",
        "safe",
    ),
    "a loss of one dimension": (
        "total = 0.0\nfor x, y in loader:\n    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y).reshape(1)\n    loss.backward()\n    optimizer.step()\n"
        "    total += loss.item()  # fires\nprint(total)\n",
        "safe",
    ),
    "a return in the loop": (
        "def train():\n    total = 0.0\n    for i, (x, y) in enumerate(loader):\n        STEP\n"
        "        total += loss.item()  # fires\n        if i == 7:\n            return total\nprint(train())\n",
        "safe",
    ),
    "a name that only the statements bind": (
        "def train():\n    for i, (x, y) in enumerate(loader):\n        STEP\n        value = loss.item()  # fires\n"
        "        if i % 4 == 0:\n            print(value)\ntrain()\n",
        "safe",
    ),
    "types that differ": (
        "seen = []\nfor i, (x, y) in enumerate(loader):\n    STEP\n    kind = torch.int64 if i % 2 else torch.float32\n"
        "    seen.append((loss.detach() * 9).to(kind).item())  # fires\nprint(seen)\n",
        "safe",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_needs_no_file_and_leaves_the_same(name: str, tmp_path: Path) -> None:
    body, tier = FORMS[name]
    text = script(body)
    patch = patch_of(tmp_path, text)
    assert (names(patch), [hunk.tier for hunk in patch.hunks]) == (["train.py"], [tier])
    assert_same(tmp_path, text, patch)


HELPED = {
    "an exception that is caught": (
        "total = 0.0\ntry:\n    for x, y in loader:\n        STEP\n        total += loss.item()  # fires\n"
        "except KeyboardInterrupt:\n    print(total)\n"
    ),
    "an else of the loop": (
        "total = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()  # fires\nelse:\n    print(total)\n"
    ),
}


@pytest.mark.parametrize("name", HELPED)
def test_what_lines_of_torch_cannot_do_is_done_by_helpers(name: str, tmp_path: Path) -> None:
    text = script(HELPED[name])
    patch = patch_of(tmp_path, text)
    assert names(patch) == ["train.py", "tracelens_runtime.py"]
    assert_same(tmp_path, text, patch)


METER = """
    class Meter:
        total = 0.0
        def update(self, value, n):
            self.total += value * n
    meter = Meter()
    def train(criterion):
        for x, y in loader:
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
            meter.update(loss.item(), x.size(0))  # fires
    train(F.mse_loss)
    print(meter.total)
"""


def test_values_of_which_the_shape_is_not_known_are_read_one_by_one(tmp_path: Path) -> None:
    text = script(METER)
    patch = patch_of(tmp_path, text)
    assert [line.strip() for line in added(patch)] == [
        "pending_losses = []",
        "pending_losses.append((loss.detach().clone(), x.size(0)))",
        "for loss_value, x_size in pending_losses:",
        "meter.update(loss_value.item(), x_size)  # fires",
    ]
    assert_same(tmp_path, text, patch)


def test_a_value_that_is_used_twice_is_read_once(tmp_path: Path) -> None:
    text = script(METER.replace("loss.item(), x.size(0))", "loss.item(), x.size(0) + 0 * loss.item())"))
    patch = patch_of(tmp_path, text)
    assert [line.strip() for line in added(patch)][-3:] == [
        "for loss_value, x_size in pending_losses:",
        "loss_value = loss_value.item()",
        "meter.update(loss_value, x_size + 0 * loss_value)  # fires",
    ]
    assert_same(tmp_path, text, patch)


TAKEN = {
    "a loss that begins as a number": (
        "total = 0.0\nfor x, y in loader:\n    opt.zero_grad()\n    loss = 0\n    loss += F.mse_loss(model(x), y)\n"
        "    loss.backward()\n    opt.step()\n    total += loss.item()  # fires\nprint(total)\n",
        "`loss` is taken for a tensor",
    ),
    "what a function of the file computes": (
        "import json\ndef share(x):\n    return json.loads(str(len(x)))\ntotal = 0.0\nfor x, y in loader:\n    STEP\n"
        "    part = share(x)\n"
        "    total += loss.item() * part  # fires\nprint(total)\n",
        "`part` is taken for a number or a text",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_only_likely_of_a_value_makes_plain_lines_checked(name: str, tmp_path: Path) -> None:
    body, told = TAKEN[name]
    text = script(body)
    patch = patch_of(tmp_path, text)
    assert (names(patch), [hunk.tier for hunk in patch.hunks]) == (["train.py"], ["checked"])
    assert told in patch.hunks[0].unproved
    assert_same(tmp_path, text, patch)
    assert names(patch_of(tmp_path, text, checked=False)) != ["train.py"]


def test_without_checked_hunks_helpers_keep_what_an_exception_would_lose(tmp_path: Path) -> None:
    text = script(FORMS["print in each batch"][0])
    checked, proved = (patch_of(tmp_path, text, checked=allowed) for allowed in (True, False))
    assert "lines and results of the last 9 batches at most are missing" in checked.hunks[0].unproved
    assert ([hunk.tier for hunk in proved.hunks], proved.left_out) == (["safe"], ())
    assert names(proved) == ["train.py", "tracelens_runtime.py"]


def test_what_an_exception_would_lose_is_kept_by_helpers_where_it_was_asked_for(tmp_path: Path) -> None:
    """A trial ends its loop by an exception, in the middle of a batch."""
    printed, rate = (
        patch_of(tmp_path, script(FORMS[name][0]), lossy=False) for name in ("print in each batch", "a learning rate")
    )
    assert (names(printed), [hunk.tier for hunk in printed.hunks]) == (["train.py", "tracelens_runtime.py"], ["safe"])
    assert (names(rate), [hunk.tier for hunk in rate.hunks]) == (["train.py"], ["checked"])


def test_a_hunk_that_is_left_out_is_the_one_that_would_be_written(tmp_path: Path) -> None:
    text = script(
        "from somewhere import show\nfor x, y in loader:\n    STEP\n    show(x)\n    print(loss.item())  # fires\n"
    )
    checked, proved = (patch_of(tmp_path, text, checked=allowed) for allowed in (True, False))
    assert "lines and results of the last 9 batches" in checked.hunks[0].unproved
    assert (proved.hunks, proved.left_out) == ((), checked.hunks)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_kill_loses_no_line_that_the_script_prints_every_few_batches(tmp_path: Path) -> None:
    text = script(WINDOW).replace(
        "if i % 5 == 4:", "if i == 12:\n            import os; os._exit(1)\n        if i % 5 == 4:"
    )
    text = text.replace('running / 5:.6f}")', 'running / 5:.6f}", flush=True)')
    patch = patch_of(tmp_path, text)
    outputs = []
    for name, source in (("before.py", text), ("after.py", patched_text(patch))):
        (tmp_path / name).write_text(source)
        done = subprocess.run([sys.executable, tmp_path / name], capture_output=True, check=False, timeout=120)
        outputs.append((done.returncode, done.stdout))
    assert outputs[0] == outputs[1]
    assert outputs[0][1].count(b"\n") == 2


def test_a_meter_without_a_read_is_updated_at_once(tmp_path: Path) -> None:
    text = script(
        """
        class Meter:
            def __init__(self, name):
                self.name, self.total = name, 0.0
            def update(self, value):
                self.total += value
        class Progress:
            def __init__(self, *meters):
                self.meters = meters
            def display(self, batch):
                print(batch, [meter.total for meter in self.meters])
        sizes, losses = Meter("size"), Meter("loss")
        progress = Progress(sizes, losses)
        for i, (x, y) in enumerate(loader):
            sizes.update(len(x))
            STEP
            losses.update(loss.item())  # fires
            if i % 4 == 0:
                progress.display(i)
        """
    )
    patch = patch_of(tmp_path, text)
    assert not any("sizes" in line for line in added(patch))
    assert_same(tmp_path, text, patch)


def test_a_line_of_every_few_batches_is_left_alone(tmp_path: Path) -> None:
    patch = every_place(
        tmp_path, "for i, (x, y) in enumerate(loader):\n    STEP\n    if i % 9 == 0:\n        print(loss.item())\n"
    )
    assert patch.empty
    assert [one.obstacle for one in patch.declined] == ["it is read only in few batches"]


@pytest.mark.parametrize(
    ("constant", "test", "patched"),
    [
        ("DEBUG = False", "DEBUG", False),
        ("DEBUG = 0", "DEBUG and i > 3", False),
        ("", "False", False),
        ("DEBUG = True", "not DEBUG", False),
        ("DEBUG = True", "DEBUG", True),
        ("DEBUG = False", "not DEBUG", True),
        ("DEBUG = False", "DEBUG or i > 3", True),
        ("DEBUG = False\nDEBUG = len(loader) > 3", "DEBUG", True),
    ],
)
def test_a_read_that_is_never_made_is_left_alone(constant: str, test: str, patched: bool, tmp_path: Path) -> None:
    body = f"{constant}\nfor i, (x, y) in enumerate(loader):\n    STEP\n    if {test}:\n        print(loss.item())\n"
    patch = every_place(tmp_path, body)
    assert (bool(patch.hunks), patch.declined) == (patched, ())


def test_beside_a_wait_that_stays_nothing_is_gained(tmp_path: Path) -> None:
    body = (
        "import math\ntotal = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()\n"
        "    if not math.isfinite(loss.item()):\n        break\n"
    )
    patch = every_place(tmp_path, body)
    assert patch.empty
    assert "the wait in line 18 stays in each batch, right beside it: nothing would be gained" in [
        one.obstacle for one in patch.declined
    ]


BUS = "class Bus:\n    def fire(self, step, loss):\n        model.last_loss = loss\nbus = Bus()\n"
NORM = """
def grad_norm():
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.norm().item() ** 2
    return total
"""
PICK = "def pick(x):\n    return int(model(x).argmax().item())\n"
COUNTER = """
class Counter:
    def __init__(self):
        self.data = []
    def log(self, guess, target):
        guess = int(guess)
        self.data.append(guess)
counter = Counter()
"""
ERROR = """
def error(guess, target):
    wrong = 1.0 - guess.float().eq(target.float()).float().mean().item()
    return wrong
"""
BESIDE_OR_MANY = {
    "the value in the argument of a call": (
        BUS + "total = 0.0\nfor i, (x, y) in enumerate(loader):\n    STEP\n    total += loss.item()\n"
        "    bus.fire(step=i, loss=loss.item())\n    model.seen = model.last_loss\nprint(total)\n",
        "right beside it: nothing would be gained",
    ),
    "many in a function that the batch calls": (
        NORM + "total, norms = 0.0, 0.0\nfor x, y in loader:\n    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n    loss.backward()\n    norms += grad_norm()\n    optimizer.step()\n"
        "    total += loss.item()\nprint(total, norms)\n",
        "several times in each batch: hardly anything would be gained",
    ),
    "copies to the host in the arguments of another call": (
        ON_GPU.format(
            before="total += loss.item()\n    pred = out.max(1)[1]",
            after="score = accuracy_score(y.cpu().data.squeeze().numpy(), pred.cpu().data.squeeze().numpy())",
        ),
        "right beside it: nothing would be gained",
    ),
    "a tensor handed to an event file": (
        ON_GPU.format(before="writer.add_scalar('loss', loss, 1)", after="total += loss.item()"),
        "right beside it: nothing would be gained",
    ),
    "a condition of an assert": (
        ON_GPU.format(before="assert out.max() <= 3, 'too large'", after="total += loss.item()"),
        "right beside it: nothing would be gained",
    ),
    "a condition": (
        ON_GPU.format(
            before="kl = torch.mean(out)\n    if kl > 0.1:\n        optimizer.lr = 0.1", after="total += loss.item()"
        ),
        "right beside it: nothing would be gained",
    ),
    "a method that asks for the number of a tensor": (
        COUNTER + ON_GPU.format(before="total += loss.item()", after="counter.log(out.argmax(1).sum(), y)"),
        "right beside it: nothing would be gained",
    ),
    "a function that reads what it is given": (
        ERROR + ON_GPU.format(before="total += loss.item()", after="wrong = error(out.argmax(1), y)"),
        "right beside it: nothing would be gained",
    ),
    "a read behind a branch of few batches": (
        ON_GPU.format(
            before="total += loss.item()\n    if i % 10 == 0:\n        model(x)",
            after="model.seen = loss.item()\n    print(model.seen + len(model.parts))",
        ),
        "right beside it: nothing would be gained",
    ),
    "a norm of each parameter where it has a gradient": (
        "norms = [0.0, 0.0]\nnamed = list(model.named_parameters())\ntotal = 0.0\nfor x, y in loader:\n    STEP\n"
        "    total += loss.item()\n    for n in range(len(named)):\n"
        "        norm = named[n][1].grad.norm().cpu().numpy() if named[n][1].grad is not None else 0\n"
        "        model.norms[n] += norm\n        print(model.norms)\nprint(total)\n",
        "several times in each batch: hardly anything would be gained",
    ),
    "a function that a loop in the batch calls": (
        PICK + "total, state = 0.0, 0\nfor x, y in loader:\n    for t in range(5):\n"
        "        state = pick(x + state)\n    STEP\n    total += loss.item()\nprint(total)\n",
        "several times in each batch: hardly anything would be gained",
    ),
}


@pytest.mark.parametrize("loop", BESIDE_OR_MANY)
def test_beside_waits_that_stay_in_what_the_batch_calls_nothing_is_gained(loop: str, tmp_path: Path) -> None:
    body, said = BESIDE_OR_MANY[loop]
    patch = every_place(tmp_path, body)
    assert "defer-read" not in [hunk.edit for hunk in patch.hunks], patch.diff
    assert any(said in one.obstacle for one in patch.declined), patch.declined


def test_values_that_a_loop_in_the_batch_reads_wait_with_the_others(tmp_path: Path) -> None:
    body = (
        "def train():\n    sums = {'loss': 0.0}\n    for x, y in loader:\n        STEP\n"
        "        sums['loss'] += loss.item()\n        for name, value in dict(loss=loss).items():\n"
        "            sums[name] += value.item()\n    return sums\nprint(train())\n"
    )
    patch = every_place(tmp_path, body)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"], patch.declined


@pytest.mark.parametrize(
    "called",
    [
        "if i % 100 == 0:\n        norms += grad_norm()",
        "if watched:\n        norms += grad_norm()",
        "for watch in watched:\n        norms += grad_norm()",
        "norms += 1.0",
    ],
)
def test_a_function_that_may_never_be_called_leaves_something_to_gain(called: str, tmp_path: Path) -> None:
    body = (
        NORM + "watched = []\ntotal, norms = 0.0, 0.0\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
        f"    {called}\n    optimizer.zero_grad()\n    total += loss.item()\nprint(total, norms)\n"
    )
    assert [hunk.edit for hunk in every_place(tmp_path, body).hunks] == ["defer-read"]


SOMETHING_TO_GAIN = {
    "the copy of a batch that stays on the host": "total += loss.item()\n    n = lengths.cpu().numpy()",
    "an assert about sizes": "assert y.size(0) <= 5\n    total += loss.item()",
    "a condition of a number": "if i > 3 and scale > 0.5:\n        scale /= 2\n    total += loss.item()",
    "a function of a number": "total += loss.item()\n    counter.log(len(x), 1)",
    "a function in few batches": "total += loss.item()\n    if i % 10 == 0:\n        counter.log(out.sum(), y)",
    "a function below a condition": "total += loss.item()\n    if watched:\n        counter.log(out.sum(), y)",
    "a number in an event file": "writer.add_scalar('rate', scale, i)\n    total += loss.item()",
    "a tensor that may be none": "if loss is not None:\n        scale = 1.0\n    total += loss.item()",
    "a second loss that may be none": (
        "total += loss.item()\n    if model.second is not None:\n        model.seen = model.second.item()"
        "\n    if model.seen:\n        print(model.seen)"
    ),
    "an int of a number": "total += loss.item()\n    half = int(i / 2)\n    print(half)",
}


@pytest.mark.parametrize("name", SOMETHING_TO_GAIN)
def test_what_may_not_wait_in_each_batch_leaves_something_to_gain(name: str, tmp_path: Path) -> None:
    body = (
        COUNTER + "total, scale, watched = 0.0, 1.0, []\nfor i, (x, y, lengths) in enumerate(loader):\n"
        "    x, y = x.to(device), y.to(device)\n    optimizer.zero_grad()\n    out = model(x)\n"
        "    loss = criterion(out, y)\n    loss.backward()\n    optimizer.step()\n"
        f"    {SOMETHING_TO_GAIN[name]}\nprint(total)\n"
    )
    patch = every_place(tmp_path, body)
    assert "defer-read" in [hunk.edit for hunk in patch.hunks], patch.declined


def test_a_wait_that_stays_before_the_step_leaves_something_to_gain(tmp_path: Path) -> None:
    body = (
        "import math\ntotal = 0.0\nfor x, y in loader:\n    loss = criterion(model(x), y)\n"
        "    if not math.isfinite(loss.item()):\n        break\n    loss.backward()\n    optimizer.step()\n"
        "    total += loss.item()\nprint(total)\n"
    )
    assert [hunk.edit for hunk in every_place(tmp_path, body).hunks] == ["defer-read"]


def test_a_patched_loop_is_not_patched_again(tmp_path: Path) -> None:
    for body in (WINDOW, FORMS["print in each batch"][0], FORMS["the number of the batch"][0]):
        first = patch_of(tmp_path, script(body), (Edit("defer-read", interval=10),))
        assert not first.empty
        assert patch_of(tmp_path, patched_text(first), (Edit("defer-read", interval=10),)).empty


SUMS = """
def train():
    total = right = worst = 0.0
    for x, y in loader:
        STEP
        BODY
    return total, right, worst
print(train())
"""
SEVERAL_STATEMENTS = {
    "three sums": (
        "total += loss.item()  # fires\n        right += 2 * loss.item()\n        worst += loss.item() ** 2\n"
    ),
    "a block": "value = loss.item()  # fires\n        if value > worst:\n            worst = value\n",
    "comments": (
        "total += loss.item()  # fires\n        # the largest so far\n        if loss.item() > worst:\n"
        "            worst = loss.item()  # it is kept\n        right += 1 if worst > 1 else 0\n"
    ),
}


@pytest.mark.parametrize("name", SEVERAL_STATEMENTS)
def test_statements_that_run_after_the_loop_only_stand_there_without_a_function(name: str, tmp_path: Path) -> None:
    text = script(SUMS.replace("BODY\n", SEVERAL_STATEMENTS[name]))
    patch = patch_of(tmp_path, text)
    assert (names(patch), [hunk.tier for hunk in patch.hunks]) == (["train.py"], ["safe"])
    assert not any("def " in line for line in added(patch))
    assert_same(tmp_path, text, patch)


WHOLE = """
def train():
    kept, others = [], []
    for x, y in loader:
        STEP
        READS
    return kept, others
print(train())
"""
OF_ALL_ELEMENTS = {
    "lists": "kept.extend(model(x).argmax(1).cpu().tolist())  # fires\n        others += y.tolist()  # fires\n",
    "two lists of one tensor": "kept.append(y.tolist())  # fires\n        others.append(y.tolist())  # fires\n",
    "the size of a batch": (
        "size = x.size()[0]\n        kept.append(y.tolist())  # fires\n        others.append(loss.item() * size)\n"
    ),
}


@pytest.mark.parametrize("name", OF_ALL_ELEMENTS)
def test_tensors_of_many_elements_wait_in_a_list_where_that_is_checked(name: str, tmp_path: Path) -> None:
    """How many elements they have is known to the helper only, which reads a large one at once."""
    text = script(WHOLE.replace("READS\n", OF_ALL_ELEMENTS[name]))
    checked, proved = (patch_of(tmp_path, text, checked=allowed) for allowed in (True, False))
    assert (names(checked), [hunk.tier for hunk in checked.hunks]) == (["train.py"], ["checked"])
    assert "is kept on the GPU until then, however large it is" in checked.hunks[0].unproved
    assert any("== 10:" in line for line in added(checked))
    assert_same(tmp_path, text, checked)
    assert (names(proved), [hunk.tier for hunk in proved.hunks]) == (["train.py", "tracelens_runtime.py"], ["safe"])


@pytest.mark.parametrize("read", ["tolist()", "cpu().numpy()"])
@pytest.mark.parametrize("checked", [True, False])
def test_each_place_has_a_list_or_an_array_of_its_own(read: str, checked: bool, tmp_path: Path) -> None:
    body = f"kept.append(y.{read})  # fires\n        others.append(y.{read})  # fires\n"
    text = script(WHOLE.replace("READS\n", body).replace("    return kept", "    kept[0][0] = -1\n    return kept"))
    patch = patch_of(tmp_path, text, checked=checked)
    assert len(patch.hunks) == 1
    assert_same(tmp_path, text, patch)


STEPS = """
class Trainer:
    def __init__(self, config):
        self.config = config
    def step(self, x, y, scale):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meta = {"loss": RETURNED, "norm": torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)}
        return meta
    def train(self):
        for i, (x, y) in enumerate(loader):
            scale = self.config["scale"] * (i + 1) / self.config["batches"]
            meta = self.step(x, y, scale)
            if i % 5 == 0:
                print(meta)
            loss = meta["loss"]
            print(f"{i + 1}: {loss:.2f}, {scale:.1e}")
Trainer(dict(scale=1.0, batches=23)).train()
"""


@pytest.mark.parametrize(("returned", "patched"), [("loss.item()", False), ("loss.detach()", True)])
def test_a_line_of_numbers_that_have_been_read_stays(returned: str, patched: bool, tmp_path: Path) -> None:
    patch = every_place(tmp_path, STEPS.replace("RETURNED", returned))
    assert ("defer-read" in [hunk.edit for hunk in patch.hunks]) == patched, patch.diff or patch.declined


def test_what_is_lost_of_lines_that_do_not_come_in_each_batch_is_counted_in_lines(tmp_path: Path) -> None:
    """Nine lines of every fifth batch are those of 45 batches."""
    text = script(
        "for i, (x, y) in enumerate(loader):\n    STEP\n    if i in (1, 2, 5):\n        print(loss.item())  # fires\n"
    )
    (hunk,) = patch_of(tmp_path, text, checked=True).hunks
    assert "lines and results of the last 9 times at most are missing" in hunk.unproved
    assert "read every 10 times instead" in hunk.reason


@pytest.mark.parametrize(("k", "waits"), [("2", True), ("4", True), ("5", False), ("every", False)])
def test_a_read_of_every_second_batch_is_no_read_of_few(k: str, waits: bool, tmp_path: Path) -> None:
    loop = (
        f"every = 50\nfor i, (x, y) in enumerate(loader):\n    STEP\n    if i % {k} == 0:\n        print(loss.item())\n"
    )
    patch = every_place(tmp_path, loop)
    assert ("it is read only in few batches" in [one.obstacle for one in patch.declined]) != waits
    assert bool(patch.hunks) == waits
