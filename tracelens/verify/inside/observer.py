"""Follows the training loop of one process of a trial and writes its record after the last step.

In: the agent's configuration and the hooks' calls. Out: the file `record-<rank>-<pid>.json`. Nothing waits for the GPU
before the last step. A process in which no step is seen writes nothing.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch

from tracelens.launch import ranks
from tracelens.launch.inside import hooks
from tracelens.verify import exchange, overlay
from tracelens.verify.exchange import AgentConfig
from tracelens.verify.inside import freed_memory_fill, profiler_window, step_timer, tensor_records
from tracelens.verify.inside.toggles.modules import compile_counts
from tracelens.verify.inside.toggles.toggle_record import ToggleRecord

MOST_REFUSALS = 3
"""A script that catches SystemExit more often than this is ended with `os._exit`."""
LINGER_SECONDS = 20.0
"""How long a process may live on after its last step where the configuration gives no `linger_s`."""


class Observer:
    """Counts the steps of this process, records what its mode asks for, and ends it. Make one, then `attach` it."""

    def __init__(
        self, config: AgentConfig, began: float, kernel_sandbox: bool, toggles: tuple[ToggleRecord, ...] = ()
    ) -> None:
        self._toggles = toggles
        self._config = config
        self._began = began
        self._kernel_sandbox = kernel_sandbox
        self._steps = 0
        self._refusals = 0
        self._pid: int | None = None
        self._done = False
        self._script: Any = None
        self._source: str | None = None
        self._optimizers = tensor_records.Optimizers()
        self._losses = tensor_records.Losses() if config["mode"] == "numbers" else None
        self._settings = tensor_records.Settings() if config["mode"] == "numbers" else None
        self._timer = step_timer.StepTimer(config["warmup"], config["block"])
        self._window = None
        if config["mode"] == "window":
            path = os.path.join(config["out"], f"rank-{_rank()}-{os.getpid()}.pt.trace.json")
            sizes = config["window_first"], config["window_warmup"], config["window_steps"]
            self._window = profiler_window.ProfilerWindow(*sizes, path)

    def attach(self, on_failure: Callable[[str], None]) -> None:
        """Register with the launcher's hooks; `on_failure` gets one line about an observer that raised."""
        hooks.on_failure(on_failure)
        if self._config.get("freed_memory_fill"):
            # Before `_step`, which may end the process: what the last step queued is still running
            hooks.on_backward(_fill_freed_memory)
            hooks.on_step(_fill_freed_memory)
        hooks.on_step(self._step)
        if self._losses is not None:
            hooks.on_backward(self._losses.note)

    def _step(self, step: hooks.Step) -> None:
        self._timer.tick()
        if self._pid != os.getpid():
            self._begin()
        self._steps += 1
        self._source = step.source
        self._optimizers.note(step.optimizer)
        if self._settings is not None:
            self._settings.note(step.optimizer, self._steps)
        if self._window is not None:
            self._window.tick()
        if self._steps >= self._config["steps"] or self._late():
            self._stop()

    def _begin(self) -> None:
        """The first step of this process (a forked rank starts its own count)."""
        self._pid = os.getpid()
        self._script = _file(sys.modules["__main__"])  # Python takes it away when the script has ended
        atexit.register(self._finish, "script ended")
        if "multiprocessing" in sys.modules:  # forked ranks leave without atexit
            from multiprocessing import util

            util.Finalize(None, self._finish, args=("script ended",), exitpriority=100)
        # Some scripts end so, lest a thread or a library keep them
        os._exit = self._recording_exit(os._exit)  # type: ignore[assignment]  # to mypy a function is not its name alone

    def _recording_exit(self, leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
        def recording_exit(status: int) -> NoReturn:
            self._finish("script ended")
            leave(status)

        return recording_exit

    def _late(self) -> bool:
        deadline = self._config.get("deadline_s")
        if deadline is None or self._steps < self._config["least_steps"]:
            return False
        return time.monotonic() - self._began > deadline

    def _stop(self) -> None:
        self._finish("steps")
        if not self._refusals:
            _end_later(float(self._config.get("linger_s", LINGER_SECONDS)))
        self._refusals += 1
        if self._refusals > MOST_REFUSALS:
            sys.stdout.flush()
            os._exit(0)
        raise SystemExit(0)  # through the script's own `finally` blocks: a patched loop reads its last losses there

    def _finish(self, reason: str) -> None:
        if self._done or self._pid != os.getpid():
            return
        self._done = True
        record = {**self._identity(), "steps": self._steps, "stopped": reason, "step_source": self._source}
        record["seconds_to_end"] = time.monotonic() - self._began
        record["clock"] = self._timer.finish()
        record["peak_bytes"] = torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
        record["toggles"] = [toggle.document() for toggle in self._toggles]
        record["compiled"] = compile_counts()
        record["side_streams"] = freed_memory_fill.side_streams()
        record["state"] = tensor_records.state(self._optimizers)
        if self._losses is not None:
            record["losses"] = self._losses.read()
            record["losses_skipped"] = self._losses.skipped
        if self._settings is not None:
            record["settings"] = self._settings.read()
        if self._window is not None:
            record["window"] = self._window.finish()
        record.update(_loaded(self._config, self._script))
        name = exchange.RECORD.format(rank=record["rank"], pid=record["pid"])
        _write(os.path.join(self._config["out"], name), record)

    def _identity(self) -> dict[str, Any]:
        on_gpu = torch.cuda.is_initialized()
        return {
            "pid": os.getpid(),
            "rank": _rank(),
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "kernel_fence": self._kernel_sandbox,  # the key of verify.json
        }


def _fill_freed_memory(_: Any) -> None:
    freed_memory_fill.sweep()


def _end_later(seconds: float) -> None:
    """End the process after `seconds`: a thread of the script (a heartbeat, a server) may outlive its training."""

    def end() -> None:
        time.sleep(seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    threading.Thread(target=end, name="tracelens-end", daemon=True).start()


def _loaded(config: AgentConfig, script: Any) -> dict[str, list[str]]:
    """Which of the patched files this process runs from the working copy, and which from their original place.

    `sources` are all files of the project that it runs, by the path they stand for.
    """
    sources = [script, *map(_file, list(sys.modules.values()))]
    files = {os.path.realpath(file) for file in sources if isinstance(file, str)}
    wanted = {path: os.path.realpath(overlay.mirrored(path, config["tree"])) for path in config["patched"]}
    return {
        "loaded": [path for path, copy in wanted.items() if copy in files],
        "foreign": [path for path in wanted if os.path.realpath(path) in files],
        "sources": sorted({path for file in files if (path := _in_project(file, config)) is not None}),
    }


def _in_project(file: str, config: AgentConfig) -> str | None:
    """The file of the user's project that a loaded file stands for; None for installed packages."""
    tree = os.path.realpath(config["tree"])
    path = "/" + os.path.relpath(file, tree) if overlay.below(file, tree) else file
    mine = overlay.below(path, config["project"]) and "/site-packages/" not in path
    return path if mine else None


def _file(module: Any) -> Any:
    return vars(module).get("__file__") if hasattr(module, "__dict__") else None


def _rank() -> int:
    from_launcher = ranks.rank()
    if from_launcher is not None:
        return from_launcher
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return 0


def _write(path: str, record: Mapping[str, Any]) -> None:
    with open(path + ".part", "w", encoding="utf-8") as out:
        json.dump(record, out)
    os.replace(path + ".part", path)
