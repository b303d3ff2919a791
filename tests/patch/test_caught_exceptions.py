"""What waits when an exception leaves the loop is written, wherever somebody catches it and looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import defer, patch_of, script

LOOP = "for x, y in loader:\n        STEP\n        seen.append(loss.item())  # fires\n"
IN_WITH = (
    "def train():\n    with {}:\n        for x, y in loader:\n            STEP\n"
    "            seen.append(loss.item())  # fires\n"
)
CAUGHT = {
    "by the caller": f"seen = []\ndef train():\n    {LOOP}try:\n    train()\nexcept RuntimeError:\n    print(seen)\n",
    "by the caller's caller": f"seen = []\ndef train():\n    {LOOP}def main():\n    train()\ntry:\n    main()\n"
    "except RuntimeError:\n    print(seen)\n",
    "in the end": f"seen = []\ndef train():\n    {LOOP}try:\n    train()\nfinally:\n    print(seen)\n",
    "of a list that it is handed": f"def train(seen):\n    {LOOP}def main():\n    mine = []\n    try:\n"
    "        train(mine)\n    except RuntimeError:\n        print(mine)\nmain()\n",
    "of an object that knows itself": "known = []\nclass Meter:\n    def __init__(self):\n        self.rows = []\n"
    "        known.append(self)\n    def append(self, value):\n        self.rows.append(value)\n"
    f"def train():\n    seen = Meter()\n    {LOOP}try:\n    train()\nexcept RuntimeError:\n    print(known[0].rows)\n",
    "by a decorator": "seen = []\ndef guarded(function):\n    def inner():\n        try:\n            function()\n"
    "        except RuntimeError:\n            print(seen)\n    return inner\n"
    f"@guarded\ndef train():\n    {LOOP}train()\n",
    "by a block": "class Guard:\n    def __enter__(self):\n        return self\n    def __exit__(self, *error):\n"
    f"        return True\nseen = []\ndef train():\n    {LOOP}with Guard():\n    train()\nprint(seen)\n",
    "by a block around the loop": "class Guard:\n    def __enter__(self):\n        return self\n"
    "    def __exit__(self, *error):\n        return True\nseen = []\n"
    + IN_WITH.format("Guard()")
    + "train()\nprint(seen)\n",
    "by a block around the loop, of its own list": "class Guard:\n    def __enter__(self):\n        return self\n"
    "    def __exit__(self, *error):\n        return True\n"
    + IN_WITH.format("Guard()").replace("train():\n", "train():\n    seen = []\n")
    + "    print(seen)\ntrain()\n",
    "by the second of two blocks": "from contextlib import suppress\nseen = []\n"
    + IN_WITH.format("torch.enable_grad(), suppress(RuntimeError)")
    + "train()\nprint(seen)\n",
}
GENERATOR = "seen = []\ndef epochs():\n    {}\n        for epoch in range(2):\n            yield epoch\n{}"
IN_EPOCHS = f"def train():\n    {LOOP}"
REPORT = (
    "class Report:\n    def __enter__(self):\n        return self\n    def __exit__(self, *error):\n"
    "        print(seen)\n"
)
FINALLY = GENERATOR.format("try:", "    finally:\n        print(seen)\n") + IN_EPOCHS
CAUGHT |= {
    "by a generator's end": FINALLY + "for epoch in epochs():\n    train()\n",
    "by the end of one that a bar shows": "from tqdm import tqdm\n"
    + FINALLY
    + "for e in tqdm(epochs()):\n    train()\n",
    "by the end of one in a list": FINALLY + "[train() for epoch in epochs()]\n",
    "by the end of one that is asked": FINALLY
    + "def main():\n    each = epochs()\n    next(each)\n    train()\nmain()\n",
    "by what a generator catches": GENERATOR.format(
        "try:", "    except GeneratorExit:\n        print(seen)\n        raise\n"
    )
    + IN_EPOCHS
    + "for epoch in epochs():\n    train()\n",
    "by a block of a generator": REPORT
    + GENERATOR.format("with Report():", "")
    + IN_EPOCHS
    + "for epoch in epochs():\n    train()\n",
    "by a generator of an object": "seen = []\nclass Session:\n    def __iter__(self):\n        try:\n"
    f"            yield 1\n        finally:\n            print(seen)\n{IN_EPOCHS}"
    "for epoch in Session():\n    train()\n",
}
ENDS = {
    "nobody": f"seen = []\ndef train():\n    {LOOP}train()\nprint(seen)\n",
    "somebody else": f"seen = []\ndef train():\n    {LOOP}train()\n"
    "try:\n    print(seen)\nexcept RuntimeError:\n    pass\n",
    "the loop's own list": f"def train():\n    seen = []\n    {LOOP}    return seen\ntry:\n    train()\n"
    "except RuntimeError:\n    pass\n",
    "a bar around the loop": "from tqdm import tqdm\nseen = []\n"
    + IN_WITH.format("tqdm(total=23) as bar")
    + "train()\n",
    "a generator that only counts": f"seen = []\ndef epochs():\n    for epoch in range(2):\n        yield epoch\n"
    f"def train():\n    {LOOP}for epoch in epochs():\n    train()\n",
    "a generator that reads a file": "seen = []\ndef epochs():\n    with open('epochs.txt') as file:\n"
    f"        yield from file\ndef train():\n    {LOOP}for epoch in epochs():\n    train()\n",
    "a block that catches nothing": f"seen = []\ndef train():\n    {LOOP}with torch.enable_grad():\n    train()\n",
}


@pytest.mark.parametrize("name", CAUGHT)
def test_an_exception_that_is_caught_loses_nothing(name: str, tmp_path: Path) -> None:
    text = script(CAUGHT[name])
    for patch in (patch_of(tmp_path, text), patch_of(tmp_path, text, defer(text), checked=True)):
        assert patch.hunks
        for hunk in patch.hunks:
            assert hunk.tier == "checked" or {one.path.name for one in patch.files} > {"train.py"}


@pytest.mark.parametrize("name", ENDS)
def test_an_exception_that_nobody_sees_needs_no_helper(name: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(ENDS[name]))
    assert ([one.path.name for one in patch.files], [hunk.tier for hunk in patch.hunks]) == (["train.py"], ["safe"])


LOGGERS = {
    "the root's settings": "logging.basicConfig(filename='run.log')\nlog = logging.getLogger('t')\nlog.setLevel(20)\n",
    "handlers of the start": "log = logging.getLogger('t')\nif __name__ == '__main__':\n"
    "    log.addHandler(logging.FileHandler('run.log'))\n",
}


@pytest.mark.parametrize("name", LOGGERS)
def test_the_lines_of_a_logger_are_kept_whoever_gave_it_its_handler(name: str, tmp_path: Path) -> None:
    loop = "for x, y in loader:\n    STEP\n    log.info('%.4f', loss.item())  # fires\n"
    patch = patch_of(tmp_path, script("import logging\n" + LOGGERS[name] + loop), lossy=False)
    assert {one.path.name for one in patch.files} == {"train.py", "tracelens_runtime.py"}


def test_a_file_that_a_method_writes_is_written_before_the_process_ends(tmp_path: Path) -> None:
    text = (
        "from pathlib import Path\nclass Last:\n    def push(self, value):\n"
        "        Path('p.txt').write_text(str(value))\n"
        "last = Last()\nfor x, y in loader:\n    STEP\n    last.push(loss.item())  # fires\n"
    )
    patch = patch_of(tmp_path, script(text), lossy=False)
    assert {one.path.name for one in patch.files} == {"train.py", "tracelens_runtime.py"}


PERPLEXITY = (
    "import math\ndef train():\n    for x, y in loader:\n        STEP\n        print(math.exp(loss.item()))  # fires\n"
)
HANDLERS = {
    "by the caller": (
        "try:\n    train()\nexcept OverflowError:\n    optimizer.param_groups[0]['lr'] *= 0.1\n",
        "checked",
    ),
    "by nobody": ("train()\n", "safe"),
    "to end": ("try:\n    train()\nexcept OverflowError:\n    print('too large')\n    raise\n", "safe"),
    "of the keyboard": ("try:\n    train()\nexcept KeyboardInterrupt:\n    pass\n", "safe"),
}


@pytest.mark.parametrize("name", HANDLERS)
def test_an_error_that_is_caught_around_the_loop_is_not_proved_to_be_the_same_later(name: str, tmp_path: Path) -> None:
    """Whoever goes on after an overflow would have trained more batches by then."""
    text, tier = HANDLERS[name]
    patch = patch_of(tmp_path, script(PERPLEXITY + text), lossy=False)
    assert [hunk.tier for hunk in patch.hunks] == [tier]


RATIO = "print(i, loss.item() / (y > 9).sum().item())  # fires"
EARLY = "    for i, (x, y) in enumerate(loader):\n        STEP\n        {}\n        {}\n"
LATE_ERRORS = {
    "a return": "def train():\n" + EARLY.format(RATIO, "if i == 5:\n            return i") + "train()\n",
    "an exit": "import sys\ndef train():\n" + EARLY.format(RATIO, "if i == 5:\n            sys.exit(0)") + "train()\n",
    "a checkpoint": "def train():\n" + EARLY.format(RATIO, "torch.save(model.state_dict(), 'last.pt')") + "train()\n",
}
TIMELY = {
    "a break": LATE_ERRORS["a return"].replace("return i", "break"),
    "a return of a function in the loop": "def train():\n"
    + EARLY.format("def half():\n            return 1\n        " + RATIO, "half()")
    + "train()\n",
    "a return, and nothing that can fail": LATE_ERRORS["a return"].replace(" / (y > 9).sum().item()", ""),
    "a return, and a division by a number": LATE_ERRORS["a return"].replace("(y > 9).sum().item()", "8"),
    "a return, and a division where it stands": LATE_ERRORS["a return"].replace(
        "loss.item() / (y > 9).sum().item()", "i / len(y), loss.item()"
    ),
}


CAN_FAIL = {
    "a place in a list": "table[i] = loss.item()",
    "a sum in a dict": "sums['loss'] += loss.item()",
    "a quotient": "total /= loss.item()",
    "an assertion": "assert loss.item() < 9",
    "parts": "a, b = meter, loss.item(), i",
    "the whole of a slice": "table[:] = [loss.item()]",
}
CANNOT_FAIL = {
    "a key of a dict": "sums['loss'] = loss.item()",
    "a key of a dict with its number": "sums[f'loss {i}'] = loss.item()",
    "a sum": "total += loss.item() * 2",
    "a half": "total /= 2; mean = loss.item() / 2",
    "two values": "a, b = loss.item(), i",
    "a choice": "total = loss.item() if i > 3 else -1.0",
}
WHILE_CAUGHT = (
    "table, sums, total, mean, meter = [0.0] * 9, {{'loss': 0.0}}, 1.0, 0.0, 1\ntry:\n"
    "    for i, (x, y) in enumerate(loader):\n        STEP\n        {}  # fires\nexcept Exception:\n    print(i)\n"
    "print(table, sums, total, mean)\n"
)


METERS = {
    "a table that is full": ("self.rows[self.count] = value", "checked"),
    "behind a method": ("self.keep(value)", "checked"),
    "behind a lambda": ("(lambda: self.rows[value])()", "checked"),
    "a list that grows": ("self.rows.append(value)", "safe"),
    "a sum": ("self.total = self.total + value * 2", "safe"),
}
METER = (
    "class Meter:\n    def __init__(self):\n        self.rows, self.count, self.total = [0.0] * 9, 0, 0.0\n"
    "    def keep(self, value):\n        self.rows[self.count] = value\n"
    "    def append(self, value):\n        {}\n"
    "meter = Meter()\n"
)


@pytest.mark.parametrize("name", METERS)
def test_an_error_in_a_method_that_is_called_like_one_of_a_list_counts_too(name: str, tmp_path: Path) -> None:
    body, tier = METERS[name]
    text = METER.format(body) + WHILE_CAUGHT.format("meter.append(loss.item())").replace(", meter = ", ", _ = ")
    patch = patch_of(tmp_path, script(text), lossy=False)
    assert [hunk.tier for hunk in patch.hunks] == [tier]


@pytest.mark.parametrize("statement", [*CAN_FAIL.values(), *CANNOT_FAIL.values()], ids=[*CAN_FAIL, *CANNOT_FAIL])
def test_a_loop_that_an_error_ends_ends_at_the_same_batch(statement: str, tmp_path: Path) -> None:
    """With a handler around the loop: the table that is full stops the training at once, not some batches later."""
    patch = patch_of(tmp_path, script(WHILE_CAUGHT.format(statement)), lossy=False)
    tiers = {hunk.tier for hunk in patch.hunks}
    assert tiers == ({"safe"} if statement in CANNOT_FAIL.values() else tiers - {"safe"})


@pytest.mark.parametrize("name", LATE_ERRORS)
def test_an_error_that_would_be_lost_or_come_after_a_file_is_not_proved_to_be_the_same_later(
    name: str, tmp_path: Path
) -> None:
    """Nobody drains before `return`: the error is raised where Python ignores it, and the script ends with 0."""
    (hunk,) = patch_of(tmp_path, script(LATE_ERRORS[name]), lossy=False).hunks
    assert hunk.tier == "checked"
    assert "an error in it would" in (hunk.unproved or "")


@pytest.mark.parametrize("name", TIMELY)
def test_an_error_that_only_comes_later_or_cannot_come_is_no_doubt(name: str, tmp_path: Path) -> None:
    (hunk,) = patch_of(tmp_path, script(TIMELY[name]), lossy=False).hunks
    assert hunk.tier == "safe"


TRACKERS = {
    "an event file": (
        "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()\n",
        "writer.add_scalar('loss', loss.item(), i)",
    ),
    "wandb": ("import wandb\n", "wandb.log({'loss': loss.item()})"),
    "a run of mlflow": ("import mlflow\nrun = mlflow.start_run()\n", "run.log_metric('loss', loss.item(), i)"),
    "accelerate": (
        "from accelerate import Accelerator\naccelerator = Accelerator()\n",
        "accelerator.log({'loss': loss.item()})",
    ),
}
SENDERS = {
    "neptune": ("import neptune\nrun = neptune.init_run()\n", "run.log_metric('loss', loss.item())"),
    "comet": ("import comet_ml\nexperiment = comet_ml.Experiment()\n", "experiment.log_metric('loss', loss.item())"),
}
TOLD = "{}def train():\n    for i, (x, y) in enumerate(loader):\n        STEP\n        {}  # fires\ntrain()\n"


@pytest.mark.parametrize("name", TRACKERS)
def test_what_a_tracker_is_told_lasts_longer_than_the_process_as_a_line_does(name: str, tmp_path: Path) -> None:
    text = script(TOLD.format(*TRACKERS[name]))
    patch = patch_of(tmp_path, text, lossy=False)
    assert {one.path.name for one in patch.files} == {"train.py", "tracelens_runtime.py"}
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    (hunk,) = patch_of(tmp_path, text, checked=True).hunks
    assert (hunk.tier, hunk.unproved) == (
        "checked",
        "where an exception or a signal ends the loop, lines and results of the last 9 batches at most are missing",
    )


@pytest.mark.parametrize("name", SENDERS)
def test_a_tracker_with_a_thread_of_its_own_may_lose_what_comes_late_by_a_signal(name: str, tmp_path: Path) -> None:
    text = script(TOLD.format(*SENDERS[name]))
    for patch in (patch_of(tmp_path, text, lossy=False), patch_of(tmp_path, text, checked=True)):
        assert {hunk.tier for hunk in patch.hunks} <= {"checked"}


def test_whoever_looks_at_an_event_file_finds_what_the_batches_before_told_it(tmp_path: Path) -> None:
    before, told = TRACKERS["an event file"]
    look = "\n        writer.flush()\n        print(os.path.getsize('runs/events'))"
    text = script("import os\n" + TOLD.format(before, told).replace("  # fires", "  # fires" + look))
    assert {one.tier for one in patch_of(tmp_path, text, lossy=False).hunks} <= {"checked"}


def test_what_a_thread_may_show_that_gets_it_by_a_queue_is_said_to_be_lost(tmp_path: Path) -> None:
    """Nothing of it would be shown if all were read after the loop; nor is it said that the lines are the same."""
    files = "import queue, threading\nwaiting = queue.Queue()\ndef show():\n    while True: print(waiting.get())\n"
    (tmp_path / "consumer.py").write_text(f"{files}threading.Thread(target=show, daemon=True).start()\n")
    loop = "for i, (x, y) in enumerate(loader):\n    STEP\n    waiting.put(loss.item())  # fires\n"
    (hunk,) = patch_of(tmp_path, script(f"from consumer import waiting\n{loop}"), checked=True).hunks
    assert "`waiting` lacks the values of the last 9 batches at most" in hunk.unproved
    assert "same lines" not in hunk.reason and "read every 10 batches" in hunk.reason
