"""What an examiner found who wanted to be hurt by a recording: each case here once changed or ended a job."""

from __future__ import annotations

import json
import linecache
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import ROOT, SCRIPTS
from tracelens.capture.inside import recording_limits
from tracelens.capture.inside.loop_bounds import iterations, look
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.cli import main
from tracelens.errors import UsageError
from tracelens.launch import supervisor
from tracelens.launch.inside import hooks, user_signals
from tracelens.monitor import TrainingMonitor
from tracelens.run import read as read_run

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

OWN = (torch.Tensor.item, torch.Tensor.to, torch.Tensor.__getitem__, torch.where, torch.tensor)


@contextmanager
def attributed() -> Iterator[Any]:
    """As within the attributed steps."""
    from tracelens.capture.inside.attribution import Attribution

    attribution = Attribution()
    attribution.install()
    try:
        assert torch.Tensor.item is not OWN[0]
        yield attribution
    finally:
        attribution.remove()
    assert (torch.Tensor.item, torch.Tensor.to, torch.Tensor.__getitem__, torch.where, torch.tensor) == OWN


# ------------------------------------------------------------------------------------- functions that are looked at


def picks(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, torch.nonzero(x).sum().to(x.dtype)) + torch.unique(x).sum()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")
def test_torchscript_compiles_within_attributed_steps_and_afterwards() -> None:
    from torch.jit._builtins import _get_builtin_table

    before = dict(_get_builtin_table())
    with attributed():
        within = torch.jit.script(picks)(torch.tensor([-1.0, 2.0]))
    assert within.tolist() == torch.jit.script(picks)(torch.tensor([-1.0, 2.0])).tolist() == picks_plainly()
    assert dict(_get_builtin_table()) == before


def picks_plainly() -> list[float]:
    return [float(one) for one in picks(torch.tensor([-1.0, 2.0]))]


class Tabled(torch.Tensor):
    """A tensor that knows what it can do by a table, as torch's guide to extending it shows."""

    @classmethod
    def __torch_function__(cls, func: Any, _types: Any, _args: Any = (), _kwargs: Any = None) -> Any:
        known = {torch_own: number for number, torch_own in enumerate(OWN)}
        return known.get(func, NotImplemented)


def test_a_tensor_class_with_a_table_of_functions_finds_torchs_own() -> None:
    value = torch.ones(3).as_subclass(Tabled)
    with attributed() as attribution:
        assert (value.item(), value.to("cpu"), value[0], torch.where(value)) == (0, 1, 2, 3)
        with pytest.raises(TypeError, match="NotImplemented"):
            value.cpu()
        assert torch.ones(1).item() == 1.0
    assert [mark.call for mark in attribution.marks][:4] == [
        "Tensor.item",
        "Tensor.to",
        "Tensor.__getitem__",
        "torch.where",
    ]


def test_a_mode_sees_torchs_own_functions_and_no_question_of_ours() -> None:
    from torch.overrides import TorchFunctionMode

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    value = torch.ones(1)
    both = []
    for within in (False, True):
        seen: list[Any] = []
        with Watching():
            if within:
                with attributed():
                    seen.clear()
                    value.item()
                    value.to("cpu")
            else:
                value.item()
                value.to("cpu")
        both.append([one for one in seen if "__get__" not in str(one)][:2])
    assert both[0] == both[1]
    assert all(first is second for first, second in zip(*both, strict=True))


def test_what_torch_learns_once_it_does_not_learn_of_us() -> None:
    from torch.overrides import _get_overridable_functions, get_ignored_functions, get_testing_overrides
    from torch.utils import _device

    lists = (_get_overridable_functions, get_ignored_functions, get_testing_overrides)
    for one in (*lists, _device._device_constructors):
        one.cache_clear()
    with attributed():
        with torch.device("meta"):
            assert torch.tensor([1.0]).device.type == "meta"
        for one in lists:
            one()
    with torch.device("meta"):
        assert torch.tensor([1.0]).device.type == "meta"
    assert torch.Tensor.item in get_testing_overrides()
    assert torch.Tensor.item in _get_overridable_functions()[0][torch.Tensor]


def test_what_the_script_puts_in_the_place_of_a_method_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracelens.capture.inside.attribution import Attribution

    own = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", own)  # put back in the end
    attribution = Attribution()
    attribution.install()

    def mine(value: torch.Tensor) -> Any:
        return own(value)

    torch.Tensor.tolist = mine  # type: ignore[method-assign]
    attribution.remove()
    assert torch.Tensor.tolist is mine


# --------------------------------------------------------------------------------------------- warnings and errors


def warns(value: torch.Tensor) -> None:
    torch.tensor(value)


LINE = warns.__code__.co_firstlineno + 1


def shown_by(act: Callable[[], Any]) -> list[tuple[str, int]]:
    shown: list[tuple[str, int]] = []
    before = warnings.showwarning
    warnings.showwarning = lambda _message, _category, path, line, *_: shown.append((path, line))  # type: ignore[assignment]
    try:
        act()
    finally:
        warnings.showwarning = before
    return shown


def test_a_warning_names_the_scripts_line_and_is_not_shown_again() -> None:
    def act() -> None:
        warns(torch.ones(1))
        with attributed():
            warns(torch.ones(1))
            warns(torch.ones(1))
        warns(torch.ones(1))

    def begins_within() -> None:
        with attributed():
            warns(torch.ones(1))
        warns(torch.ones(1))

    for told in (act, begins_within):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert shown_by(told) == [(__file__, LINE)]


def test_the_scripts_filters_judge_its_own_line() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        with attributed():
            warns(torch.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with attributed(), pytest.raises(UserWarning, match="copy construct"):
            warns(torch.ones(1))


SEEN = """
import sys, traceback, torch
sys.path.insert(0, sys.argv[1])
from tracelens.launch import hooks
hooks.install(); hooks.on_step(lambda step: None)

@torch.jit.script
def scripted(x):
    y = (x * x).sum()
    torch.autograd.backward([y])
    return y

w = torch.ones(3, requires_grad=True)
scripted(w)
assert w.grad.tolist() == [2.0, 2.0, 2.0]

class Failing(torch.optim.SGD):
    def step(self, closure=None):
        raise ValueError("on purpose")

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 3
    def __getitem__(self, index): raise KeyError("on purpose")

for act in (
    Failing([w], lr=0.1).step,
    lambda: torch.ones(1).backward(),
    lambda: list(torch.utils.data.DataLoader(Rows())),
    lambda: torch.amp.GradScaler("cpu").step(Failing([w], lr=0.1)),
):
    try:
        act()
    except Exception:
        text = traceback.format_exc()
        assert "tracelens" not in text and "in <module>" in text, text
print("seen")
"""


def test_an_error_that_the_script_prints_itself_shows_no_frame_of_ours(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    words = [sys.executable, str(tmp_path / "seen.py"), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("seen\n", 0), done.stderr


def test_an_error_within_an_attributed_call_shows_no_frame_of_ours() -> None:
    with attributed():
        try:
            torch.ones(2).item()
        except RuntimeError as error:
            trace, names = error.__traceback__, []
            while trace is not None:
                names.append(trace.tb_frame.f_code.co_filename)
                trace = trace.tb_next
    assert not [name for name in names if "attribution" in name]


# --------------------------------------------------------------------------------------------------------- signals


@pytest.fixture
def alarm() -> Iterator[list[int]]:
    """The usual way to limit a training's time."""
    came: list[int] = []

    def too_long(number: int, _frame: Any) -> None:
        came.append(number)
        raise TimeoutError("the script's own")

    before = signal.signal(signal.SIGALRM, too_long)
    yield came
    signal.signal(signal.SIGALRM, before)


def test_what_a_handler_of_the_scripts_raises_is_not_taken_for_our_mistake(alarm: list[int]) -> None:
    failures: list[str] = []
    removers = [
        hooks.on_failure(failures.append),
        hooks.on_step(lambda _step: signal.raise_signal(signal.SIGALRM)),
    ]
    try:
        with pytest.raises(TimeoutError, match="own"):
            hooks._tell("step", hooks._observers.step, None)
        assert not failures
        removers.append(hooks.on_step(lambda _step: int("ours")))
        hooks._observers.step = hooks._observers.step[1:]
        hooks._tell("step", hooks._observers.step, None)
        assert "invalid literal" in failures[0]
    finally:
        for remove in removers:
            remove()


def test_a_handler_of_the_scripts_runs_after_we_have_saved(alarm: list[int]) -> None:
    from tracelens.capture.inside.exit_guard import ExitGuard

    saved = []
    with pytest.raises(TimeoutError, match="own"):
        with ExitGuard(lambda _reason: None).undisturbed():
            try:
                signal.raise_signal(signal.SIGALRM)
                saved.append("whole")
            except OSError:  # as saving does with a full disk
                saved.append("a part")
        end = time.monotonic() + 5
        while time.monotonic() < end:
            time.sleep(0.001)
    assert saved == ["whole"]
    assert alarm == [signal.SIGALRM]
    assert signal.getsignal(signal.SIGALRM).__name__ == "too_long"  # type: ignore[union-attr]


def test_a_signal_is_not_written_into_a_file_that_took_our_descriptor(tmp_path: Path) -> None:
    from tracelens.capture.inside.exit_guard import ExitGuard

    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    rescue = ExitGuard(lambda _reason: None)
    rescue.install()
    pipe = rescue._pipe
    assert pipe is not None
    with (tmp_path / "users").open("wb", buffering=0) as mine:
        os.dup2(mine.fileno(), pipe)  # as after os.closerange
        try:
            time.sleep(0.1)
            signal.raise_signal(signal.SIGUSR1)
            assert (tmp_path / "users").read_bytes() == b""
            rescue.remove()
            assert signal.set_wakeup_fd(-1) == -1
        finally:
            os.close(pipe)
            signal.signal(signal.SIGUSR1, before)


FORKS = """
import os, sys, warnings
sys.path.insert(0, sys.argv[1])
import torch
from tracelens.capture.inside.main_thread_timer import MainThreadTimer

waits = MainThreadTimer(60.0, print)
os.register_at_fork(before=waits.stop)
for turn in range(20):
    waits.start()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
print("fine")
"""


def test_a_fork_finds_no_thread_of_ours_where_python_warns_of_it(tmp_path: Path) -> None:
    """Python 3.12 counts the system's threads, after the functions that are registered for the moment before."""
    (tmp_path / "forks.py").write_text(FORKS)
    for python in {sys.executable, *filter(None, os.environ.get("TRACELENS_OTHER_PYTHONS", "").split(":"))}:
        words = [python, "-W", "always", str(tmp_path / "forks.py"), str(ROOT)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.stdout == "fine\n", done.stderr
        assert "multi-threaded" not in done.stderr


def test_whose_error_it_is_is_told_by_the_handlers() -> None:
    assert not user_signals.raised_by_handler(ValueError("nobody's"))


def test_a_descriptor_that_became_the_scripts_is_not_closed() -> None:
    """A script that makes itself a daemon closes all descriptors, and opens files of the same numbers."""
    from tracelens.capture.inside.exit_guard import ExitGuard

    rescue = ExitGuard(lambda _reason: None)
    rescue.install()
    pipe = rescue._pipe
    assert pipe is not None
    mine, other = os.pipe()
    try:
        os.dup2(other, pipe)
        rescue.remove()
        os.write(pipe, b"still open")
        assert os.read(mine, 20) == b"still open"
    finally:
        for one in (mine, other, pipe):
            os.close(one)


# ---------------------------------------------------------------------------------------------------- what is left


def test_a_loader_made_in_the_loops_own_line_is_not_as_long_as_its_data() -> None:
    from torch.utils.data import DataLoader

    rows = [torch.ones(1)] * 8
    for _number, _batch in enumerate(DataLoader(rows, batch_size=4)):  # type: ignore[arg-type]
        assert iterations(sys._getframe()) is None
    for _number, _row in enumerate(iter(rows)):
        assert iterations(sys._getframe()) == 7 - _number


def test_asking_a_loader_for_its_length_leaves_nothing_behind() -> None:
    """Asked for its length, a DataLoader warns when more comes than an IterableDataset has told."""
    from torch.utils.data import DataLoader, IterableDataset

    class TellsTooLittle(IterableDataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[int]:
            return iter(range(4))

    loader = DataLoader(TellsTooLittle())
    seen = []
    for _number, _batch in enumerate(loader):
        seen.append(iterations(sys._getframe()))
    assert seen[0] == 0
    assert len(list(loader)) == 4  # a warning is an error here


def test_a_length_that_raises_costs_no_recording() -> None:
    from torch.utils.data import DataLoader

    from tracelens.capture.inside.process_facts import LoaderFacts

    class Raises:
        def __len__(self) -> int:
            raise ZeroDivisionError

    class RaisesAll(DataLoader):  # type: ignore[type-arg]
        def __len__(self) -> int:
            raise ZeroDivisionError

    loader = RaisesAll([torch.ones(1)])  # type: ignore[arg-type]
    assert iterations_of(loader) is None
    iterator = iter(DataLoader([torch.ones(1)]))  # type: ignore[arg-type]
    iterator._index_sampler = Raises()
    noted = LoaderFacts()
    noted.saw(iterator, torch.ones(1))
    assert noted.listed()[0]["batches"] is None


def iterations_of(loader: Any) -> int | None:
    for _batch in enumerate(loader):
        return iterations(sys._getframe())
    return 0


LENGTH = 30


def looks(loop: Iterator[Any] | Any, *, turns: int = 2) -> int | None:
    """Steps that are left after so many turns of a loop, by two looks at it."""
    before = None
    for _ in range(turns):
        frame = next(loop)
        now = look(frame, live=frame.f_locals.get("live", ()))
        left, before = (None if before is None else now.steps(before)), now
    return left


def yields_of(form: str) -> Iterator[FrameType]:
    """A loop of `LENGTH` turns, over two epochs of half as many where there are epochs; yields its frame in each."""
    source = "def loop(rows, live, most=LENGTH):\n" + textwrap.indent(textwrap.dedent(form), "    ")
    path = f"/nowhere/{abs(hash(source))}.py"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    names: dict[str, Any] = {"LENGTH": LENGTH, "frame": lambda: sys._getframe(1), "DataLoader": Noted, "count": count}
    exec(compile(source, path, "exec"), names)
    yield from names["loop"](TensorDataset(torch.ones(LENGTH, 1), torch.ones(LENGTH, 1)), LIVE)


class Noted(DataLoader):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        LIVE.insert(0, super().__iter__())
        return LIVE[0]


LIVE: list[Any] = []


@pytest.mark.parametrize(
    ("form", "left"),
    [
        ("loader = DataLoader(rows)\nfor x, y in loader:\n    yield frame()", 28),
        ("for x, y in DataLoader(rows):\n    yield frame()", 28),
        ("loader = DataLoader(rows, 2)\nfor epoch in range(2):\n    for x, y in loader:\n        yield frame()", 28),
        ("batches = list(DataLoader(rows))\nfor x, y in batches:\n    yield frame()", 28),
        ("wrapped = [one for one in rows]\nfor both in wrapped:\n    yield frame()", 28),
        ("same = [1] * 30\nfor x in same:\n    yield frame()", None),
        ("one = iter(DataLoader(rows))\nwhile True:\n    x, y = next(one)\n    yield frame()", 28),
        ("step = 0\nwhile step < most:\n    yield frame()\n    step += 1", 28),
        ("step = 0\nwhile not step >= most:\n    yield frame()\n    step += 1", None),
        ("step = most\nwhile step > 0:\n    yield frame()\n    step -= 1", 28),
        ("step = 0\nwhile True:\n    yield frame()\n    step += 1\n    if step == most:\n        break", 28),
        ("for step in count():\n    if most and step >= most:\n        break\n    yield frame()", 28),
        ("for step in count():\n    if step > 5 and most is None:\n        break\n    yield frame()", None),
        ("for step in range(4000):\n    if step == most - 1:\n        return\n    yield frame()", 27),
        ("patience = 0\nfor step in range(4000):\n    if patience > 3:\n        break\n    yield frame()", 3998),
        ("loss = 1.0\nwhile loss > 0.5:\n    yield frame()", None),
        ("turn = 0\nwhile turn < 2:\n    for step in range(15):\n        yield frame()\n    turn += 1", 28),
    ],
)
def test_a_loop_that_counts_says_what_is_left(form: str, left: int | None) -> None:
    LIVE.clear()
    assert looks(yields_of(form)) == left


def test_a_short_epoch_in_a_loop_without_end_is_not_the_whole_script() -> None:
    LIVE.clear()
    form = "loader = DataLoader(rows, {})\nwhile True:\n    for x, y in loader:\n        yield frame()"
    assert looks(yields_of(form.format(1))) == 28
    assert looks(yields_of(form.format(3))) is None


def test_what_helps_a_script_that_was_too_short_is_said() -> None:
    plan = WindowPlan().with_unknown_length()
    assert plan.longest() == 170
    for steps, words in ((60, "--steps 3, or let it make 170 steps"), (20, "let it make 170 steps (or 21, with")):
        assert words in plan.advice(steps, "--steps ")
    fewer = replace(WindowPlan(), clean=3).with_unknown_length()
    assert fewer.longest() <= 60
    assert fewer.unprofiled_enough(fewer.unprofiled_most_steps, 0.001)
    assert WindowPlan().fitted(1).advice(3, "--steps ").endswith("at least 4 steps")
    assert not WindowPlan().fitted(1000).advice(500, "--steps ")


FORMS = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
steps = int(sys.argv[1])
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(steps, 8), torch.ones(steps, 1)))
for x, y in (row for row in rows):
    (model(x) - y).sum().backward()
    optimizer.step()
"""


def test_a_plain_loop_over_a_loader_of_sixty_batches_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(PRELUDE + FORMS.replace("(row for row in rows)", "loader"))
    outcome = profile(ProfileOptions("script", ("short.py", "60"), cwd=tmp_path, monitor=False))
    assert (outcome.complete, outcome.reason) == (True, None)
    (recording,) = read_run(outcome.folder).recordings
    assert len(recording.clock.profiled_ns) == 12


def test_a_short_pass_that_only_reads_is_not_recorded_in_the_trainings_place() -> None:
    plans = []
    loaders = SimpleNamespace(live=lambda: LIVE[:1])
    for source in ("dataloader", "optimizer"):
        told: Any = SimpleNamespace(source=source, plan=WindowPlan(), notes=[], loaders=loaders)
        LIVE.clear()
        length = recording_limits.RemainingSteps()
        loop = yields_of("for x, y in DataLoader(rows):\n    yield frame()")
        for frame, _ in zip(loop, range(2), strict=False):
            length.look(told, frame)
        plans.append((told.plan.open_ended, told.plan.shrunk))
    assert plans == [(True, False), (False, True)]


def test_a_script_that_was_too_short_says_how_many_steps_there_were(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(
        PRELUDE + FORMS.replace("in rows", "in [(torch.ones(8), torch.ones(1))] * steps")
    )
    plan = WindowPlan(unprofiled_seconds=1e6)  # however slow this machine is
    outcome = profile(ProfileOptions("script", ("short.py", "60"), cwd=tmp_path, monitor=False, plan=plan))
    assert (outcome.reason or "").startswith("the script ended before the recording was complete, after 60 steps")
    assert "--steps 3, or let it make 170 steps" in (outcome.reason or "")


# ------------------------------------------------------------------------------------------------------ from inside


def test_what_is_no_number_of_steps_or_batches_is_refused(tmp_path: Path) -> None:
    import tracelens

    for wrong in ({"steps": 0}, {"steps": 2.5}, {"steps": "3"}, {"interval": 0}, {"interval": -3}, {"interval": 1.5}):
        with pytest.raises(UsageError, match=r"(steps|interval) is"):
            tracelens.profile(tmp_path / "run", **wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


TWICE = """
import sys; sys.path.insert(0, sys.argv[1])
import tracelens
from tracelens.errors import UsageError

once = tracelens.profile("first", quiet=True)
with once:
    pass
try:
    with once:
        print("not here")
except UsageError as error:
    print(error)
with tracelens.profile("second", quiet=True) as again:
    pass
print(again.reason)
"""


def test_a_recording_is_entered_once_and_the_next_one_is_not_hindered(tmp_path: Path) -> None:
    words = [sys.executable, "-c", TWICE, str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{tmp_path / 'first'} was recorded into before",
        "no training step was seen inside the block",
    ]


def test_a_monitor_says_that_its_file_cannot_be_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        TrainingMonitor(tmp_path).start_monitoring()


def test_ranks_that_set_one_file_aside_at_once_do_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = tmp_path / "monitor.jsonl"
    older.write_text("{}\n")
    rename = Path.rename

    def later(path: Path, target: Path) -> Path:
        rename(path, target)  # another rank, a moment earlier
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", later)
    with TrainingMonitor(older) as monitor:
        monitor.log_iteration(0.1)
    assert monitor.get_summary().iterations.count == 1


def entry_of(folder: Path, name: str, **told: Any) -> None:
    (folder / name).mkdir()
    whole = {"rank": 0, "world_size": 1, "complete": True, "notes": [], "process": {}, "clock": {}, **told}
    (folder / name / "rank.json").write_text(json.dumps(whole))


def test_of_processes_that_all_call_themselves_rank_0_one_is_chosen_and_it_is_said(tmp_path: Path) -> None:
    for number, (name, steps) in enumerate({"rank0": 40, "rank0.2": 60, "rank0.10": 60, "rank0.3": 90}.items()):
        trace = None if name == "rank0.3" else f"{name}/trace.json"
        entry_of(tmp_path, name, steps_seen=steps, job=str(number))
        if trace:
            (tmp_path / trace).write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}')
            entry = json.loads((tmp_path / name / "rank.json").read_text())
            (tmp_path / name / "rank.json").write_text(json.dumps({**entry, "trace": trace}))
    start = LaunchRecord("command", ("pool.py",), tmp_path, None, {}, stop_after_window=False, interval=10)
    ledger = RunJsonWriter(tmp_path, start)
    ledger.collect()
    ledger.close(0, None)
    said = "4 processes trained as rank 0; the one with the most steps stands for them"
    assert ledger.notes() == (said,)
    read = read_run(tmp_path)
    (recording,) = read.recordings
    assert (recording.meta["job"], recording.meta["notes"]) == ("1", [said])
    assert [one["steps_seen"] for one in read.meta["set_aside"]] == [60, 40, 90]


def test_two_monitors_of_one_file_do_not_mix_their_rows(tmp_path: Path) -> None:
    """Ranks that share a folder, each with its own monitor: the first one writes."""
    path = tmp_path / "monitor.jsonl"
    with TrainingMonitor(path) as first, TrainingMonitor(path) as second:
        for _ in range(3):
            first.log_iteration(0.25)
            second.log_iteration(0.75)
    assert (first.get_summary().iterations.count, second.get_summary().iterations.count) == (3, 3)
    files = sorted(tmp_path.iterdir())
    rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    found = [{row["iteration_seconds"] for row in one if "iteration" in row} for one in rows]
    assert sorted(map(sorted, found)) == [[0.25], [0.75]]
    with TrainingMonitor(path) as again:
        again.log_iteration(0.5)
    assert again.get_summary().file == str(path)  # nobody writes there any more; what was there is kept
    assert (tmp_path / "monitor.jsonl.1").is_file()


def test_each_rank_has_a_monitors_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with TrainingMonitor(tmp_path / "monitor.jsonl") as monitor:
        monitor.log_iteration(0.5)
    assert monitor.get_summary().file == str(tmp_path / "monitor-rank3.jsonl")


def test_a_clock_that_is_set_does_not_end_the_window(tmp_path: Path) -> None:
    text = PRELUDE + FORMS.replace("(row for row in rows)", "loader") + "    time.time_ns = lambda at=next(later): at\n"
    head = "import itertools, time\nlater = itertools.count(10**18, 10**14)\n"
    (tmp_path / "clock.py").write_text(head + text)
    outcome = profile(ProfileOptions("script", ("clock.py", "60"), cwd=tmp_path, monitor=False))
    assert (outcome.complete, outcome.reason) == (True, None)
    (recording,) = read_run(outcome.folder).recordings
    assert len(recording.clock.profiled_ns) == 12


LISTS = """
import os, sys
sys.dont_write_bytecode = True
os.makedirs("torch")
open("torch/__init__.py", "w").write("")
sys.path.insert(0, os.getcwd())
seen = set()
sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename))
import torch
sys.setprofile(None)
print(sorted(name for name in seen if "/boot/" in name), any("<tracelens>" in name for name in seen))
"""


def test_what_lists_the_files_that_ran_does_not_list_one_that_will_be_gone(tmp_path: Path) -> None:
    (tmp_path / "lists.py").write_text(LISTS)
    command = (sys.executable, str(tmp_path / "lists.py"))
    launch = supervisor.Launch(command=command, agent="nowhere", config={"run": str(tmp_path)}, cwd=tmp_path)
    with supervisor.bootstrap(launch, tmp_path / "boot") as boot:
        paths = {**os.environ, "PYTHONPATH": str(boot)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=paths)
    assert (done.stdout, done.stderr) == ("[] True\n", "")


# ------------------------------------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize("given", ["0-", "4-", "0,2-"])
def test_a_span_of_ranks_without_an_end_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", f"--ranks={given}", "train.py"]) == 2
    assert "no list of ranks" in capsys.readouterr().err


def test_a_rank_that_does_not_exist_is_not_called_a_script_without_steps(tmp_path: Path) -> None:
    words = (str(SCRIPTS / "plain.py"), "8")
    outcome = profile(ProfileOptions("script", words, cwd=tmp_path, monitor=False, ranks=(5, 6)))
    assert outcome.reason == "no rank that was asked for (5, 6) made a training step"


# ------------------------------------------------------------------------------------------------ nothing can be kept

GONE = """
import shutil, sys
from pathlib import Path
import torch

run = Path(sys.argv[1])
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
on = []
for step in range(1, 41):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    on.append(torch.autograd._profiler_enabled())
    if step == 16 and run.is_dir():  # nobody can make a folder in it any more
        shutil.rmtree(run)
        run.write_text("")
        assert on[-1]
print(on[-1])
"""


def test_where_not_even_a_folder_can_be_made_the_profiler_does_not_stay_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone.py").write_text(PRELUDE + GONE)
    plan = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, unprofiled_most_steps=8, clean=5)
    options = ProfileOptions("script", ("gone.py", "run"), cwd=tmp_path, out=Path("run"), monitor=False, plan=plan)
    outcome = profile(options)
    assert capfd.readouterr().out == "False\n"
    assert (outcome.status, outcome.complete) == (0, False)  # the script's own, though we could write nothing
    assert (outcome.reason or "").startswith("run.json could not be written")
