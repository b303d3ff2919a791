"""Run one arm of a public script: a process forked from one that has imported torch, observed as `verify` does it.

In: an `Arm`: a copy of the script's folder, arguments, how many steps, what to watch. Out: the `Result` it left: the
agent's record, standard output, its end. Forked before CUDA is initialized, each arm has a context of its own but
does not pay the seconds of `import torch`. What a patched version is compared by is `tracelens.verify`'s own.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

SHIM = Path(__file__).parent / "shim"
LEAST_STEPS = 30
OBSERVER = ("numbers.py", "clock.py")
"""Where our own observer waits once, after the last step."""
SAVING = ("storage.py", "serialization.py")
"""Where torch.save copies weights to the host."""
RESIDENT_EVERY = 10
"""Steps between two looks at the process's memory on the host."""
READS = re.compile(
    r"\.item\(|\.tolist\(|\.cpu\(|\.numpy\(|\bfloat\(|\bint\(|format|\bprint\b|%|update|assert|\bif\b|\bwhile\b"
)
"""Source lines that read a value; other lines at which a host waits copy to the GPU."""


@dataclass(frozen=True)
class Arm:
    """One process to run. `folder` is its own; everything that it writes stays there."""

    folder: Path
    script: str
    """Relative to `folder`, which is also the top of what the script may reach with `../`."""
    arguments: tuple[str, ...]
    mode: Literal["numbers", "timed", "syncs"]
    steps: int
    images: int
    deterministic: bool = False
    interrupt_at: int | None = None
    """The step at whose end the process gets a SIGINT."""
    deadline_s: float | None = None
    poison: bool = False
    """Overwrite freed GPU memory, as `verify` does for versions that copy on a stream of their own."""
    environment: dict[str, str] = field(default_factory=dict)
    seed_shift: int = 0
    """Added to every seed that the script sets: another run of the same experiment."""


@dataclass(frozen=True)
class Result:
    """What an arm left behind."""

    status: int
    seconds: float
    stdout: str
    stderr: str
    record: dict[str, Any] | None
    syncs: dict[str, Any] | None
    memory: list[tuple[int, int, int]]
    """(step, bytes allocated on the GPU, bytes of the process on the host)."""


def prepare(images: tuple[int, ...] = ()) -> None:
    """Import what every arm needs, and make the data sets of so many images, once and without touching CUDA."""
    from tracelens.capture.window_plan import KINETO_SILENT

    os.environ.update(KINETO_SILENT)  # read when torch is imported; a recorded process would have it
    sys.path.insert(0, str(SHIM))
    import synthetic

    synthetic.install()
    with contextlib.suppress(ImportError):
        import torchvision
        import torchvision.transforms
        import torchvision.utils  # noqa: F401
    import torch
    import torch._dynamo
    import torch.utils.data

    from tracelens.launch.inside import hooks  # noqa: F401
    from tracelens.verify.inside import agent  # noqa: F401

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a pool of threads that exists when a process forks is a trap in its child
    for count in images:
        synthetic.make(count)
    torch.set_num_threads(threads)


def run(arms: list[Arm], timeout_s: float = 60.0) -> list[Result]:
    """Run arms side by side; those whose times count are given alone."""
    started = [(arm, time.monotonic(), _fork(arm)) for arm in arms]
    ends = {}
    limit = time.monotonic() + timeout_s
    while len(ends) < len(started):
        for _, begun, process in started:
            if process in ends:
                continue
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                ends[process] = (os.waitstatus_to_exitcode(status), time.monotonic() - begun)
            elif time.monotonic() > limit:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
        time.sleep(0.02)
    return [_read(arm, *ends[process]) for arm, _, process in started]


def _read(arm: Arm, status: int, seconds: float) -> Result:
    out = arm.folder / "out"
    records = [json.loads(path.read_text()) for path in sorted(out.glob("record-*.json"))]
    syncs = json.loads((out / "syncs.json").read_text()) if (out / "syncs.json").exists() else None
    memory = json.loads((out / "memory.json").read_text()) if (out / "memory.json").exists() else []
    text = [(out / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    return Result(status, seconds, *text, records[0] if records else None, syncs, memory)


def _fork(arm: Arm) -> int:
    (arm.folder / "tmp").mkdir(exist_ok=True)
    environment = (
        {"TRACELENS_SYNTHETIC_IMAGES": str(arm.images), "TMPDIR": str(arm.folder / "tmp")}
        | ({"CUBLAS_WORKSPACE_CONFIG": ":4096:8"} if arm.deterministic else {})
        | arm.environment
    )

    def child() -> int:
        watch = _observe(arm)
        return run_script(script.name, lambda: watch.finish(arm.folder / "out"))

    script = arm.folder / arm.script
    return fork(child, script, arm.arguments, arm.folder / "out", environment)


def fork(
    child: Callable[[], int], script: Path, arguments: tuple[str, ...], out: Path, environment: dict[str, str]
) -> int:
    """A new process that stands where `python SCRIPT` would stand after its imports; it ends with `child()`'s status.

    Its standard output and error go to files in `out`.
    """
    out.mkdir(exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.setsid()
        _redirect(out)
        os.environ.update({"MPLBACKEND": "Agg"} | environment)
        tempfile.tempdir = None  # the parent has looked up its own
        os.chdir(script.parent)
        sys.argv = [script.name, *arguments]
        sys.path.insert(0, str(script.parent))
        atexit._clear()
        status = child()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def seed() -> None:
    """What an arm is seeded with, where no agent does it."""
    import random

    import numpy
    import torch

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def run_script(name: str, finish: Callable[[], None] = lambda: None) -> int:
    """Run the script as `__main__`, then what waits for the process's end; returns its exit code."""
    status = 0
    try:
        runpy.run_path(name, run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    finish()
    atexit._run_exitfuncs()
    return status


def _redirect(out: Path) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        target = os.open(out / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _observe(arm: Arm) -> Watch:
    import numpy

    from tracelens.launch.inside import hooks
    from tracelens.verify.inside import agent

    out = str(arm.folder / "out")
    config = {
        "mode": "timed" if arm.mode == "syncs" else arm.mode,
        "out": out,
        "scratch": str(arm.folder),
        "tree": str(arm.folder / "tree"),
        "project": str(arm.folder / "nowhere"),
        "steps": arm.steps,
        "least_steps": LEAST_STEPS,
        "warmup": 10,
        "block": 10,
        "seed": arm.seed_shift,
        "seed_shift": arm.seed_shift,
        "deterministic": arm.deterministic,
        "deadline_s": arm.deadline_s,
        "freed_memory_fill": arm.poison,
        "landlock": False,
        "patched": [],
    }
    watch = Watch(arm)
    hooks.install()
    hooks.on_step(watch.step)  # before the agent's: at the last step that one ends the process
    agent.arm(config)
    numpy.random.seed(arm.seed_shift)
    return watch


class Watch:
    """Counts where the host waits for the GPU, samples memory, and interrupts where it was told to."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._steps = 0
        self._places: Counter[str] = Counter()
        self._memory: list[tuple[int, int, int]] = []
        self._resident = 0
        self._counting = self._ended = False

    def step(self, step: Any) -> None:
        import torch

        self._steps += 1
        if self._arm.mode == "syncs" and torch.cuda.is_initialized():
            if self._steps == 10:
                self._count()
            if self._steps % RESIDENT_EVERY == 0:
                self._resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            self._memory.append((self._steps, torch.cuda.memory_allocated(), self._resident))
            if self._steps == self._arm.steps:  # what follows is the observer's own reading of the end state
                torch.cuda.set_sync_debug_mode("default")
                self._ended = True
        if self._steps == self._arm.interrupt_at:
            signal.raise_signal(signal.SIGINT)

    def finish(self, out: Path) -> None:
        if not self._counting:
            return
        import torch

        torch.cuda.set_sync_debug_mode("default")
        (out / "memory.json").write_text(json.dumps(self._memory))
        counted = self._steps - 10
        (out / "syncs.json").write_text(json.dumps({"steps": counted, "places": dict(self._places)}))

    def _count(self) -> None:
        """From here on: what torch warns of, and the explicit waits that it is silent about."""
        import torch

        self._counting = True
        warnings.simplefilter("always")
        warnings.showwarning = self._warned
        torch.cuda.set_sync_debug_mode("warn")
        for owner, name in (
            (torch.cuda, "synchronize"),
            (torch.cuda.Event, "synchronize"),
            (torch.cuda.Stream, "synchronize"),
            (torch.accelerator, "synchronize"),
        ):
            self._wrap(owner, name)

    def _warned(self, message: Any, _category: Any, filename: str, line: int, *_: Any) -> None:
        if "synchronizing" in str(message):
            self._note(filename, line)

    def _wrap(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            if "/torch/" not in frame.f_code.co_filename:
                self._note(frame.f_code.co_filename, frame.f_lineno)
            return original(*arguments, **options)

        setattr(owner, name, counted)

    def _note(self, filename: str, line: int) -> None:
        """A wait, by what it is: the drain of a patched script, a read, or a copy to the GPU."""
        import linecache

        if self._ended:
            return
        text = linecache.getline(filename, line)
        name = Path(filename).name
        if name in OBSERVER:
            return
        if name == "tracelens_runtime.py":
            kind = "prefetch gate" if "in_flight" in text else "drain"
        elif "grad_scaler" in name:
            kind = "grad scaler"
        elif name in SAVING:
            kind = "checkpoint"
        elif "synchronize" in text:
            kind = "synchronize"
        else:
            kind = "read" if READS.search(text) else "copy"
        self._places[f"{kind} {name}:{line}"] += 1
