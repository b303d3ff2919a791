"""The agent inside each arm: seeds it, fences it, records it, and ends it after the agreed number of steps.

In: the configuration the parent wrote, in every Python process of the arm. Out: `record-<rank>-<pid>.json` in the arm's
folder from each process that trained, and the list of refused writes. Nothing waits for the GPU before the last step.

Two moments: `start` before the script's first line (fence, seeds, import paths; called by `early/sitecustomize.py`),
`arm` once torch was imported (hooks; called by the launcher's bootstrap). The heavy parts are imported in the second,
so that helper processes stay cheap.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tracelens.launch import ranks
from tracelens.verify.inside import fence, overlay

STUBBORN = 3
"""A script that swallows SystemExit this often is ended without asking."""
LINGER_SECONDS = 20.0
"""Where the parent says nothing: how long a process may live on after its last step."""
GAVE_UP = 98
"""Exit code of an arm whose observer failed: a bug of ours, not of the script's."""
_started: dict[str, Any] = {}


def start(config: Mapping[str, Any]) -> None:
    """Before the script's first line, in every Python process of the arm."""
    out = str(config["out"])
    guard = fence.Fence(config["scratch"], config["tree"], os.path.join(out, f"refused-{os.getpid()}.txt"))
    _started.update(began=time.monotonic(), fence=guard)
    _started["kernel"] = (
        fence.ask_kernel((config["scratch"], *fence.DEVICES)) if config.get("landlock", True) else False
    )
    guard.arm()
    random.seed(config["seed"])
    sys.path[:] = [_in_copy(entry, config) for entry in sys.path]


def arm(config: Mapping[str, Any]) -> None:
    """Once torch was imported: seed it, observe its training steps."""
    try:
        if not _started:
            start(config)
        _observe(config)
    except Exception as error:  # noqa: BLE001 -- the launcher lets a script without agent run on, to its natural end
        _give_up(f"the observer cannot be armed: {error!r}")


def _observe(config: Mapping[str, Any]) -> None:
    import torch

    from tracelens.launch.inside import hooks

    torch.manual_seed(config["seed"])
    if config.get("seed_shift"):
        _shift_seeds(config["seed_shift"])
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(config["seed"] % 2**32)
    if config.get("deterministic"):
        _be_deterministic(torch)
    fence.check_torch_writer(_started["fence"], torch)
    hooks.install()
    Observer(config, hooks)


class Observer:
    """Follows the training loop of this process. Does nothing and writes nothing where no step is seen."""

    def __init__(self, config: Mapping[str, Any], hooks: Any) -> None:
        from tracelens.verify.inside import clock, numbers, poison, window

        self._config = config
        self._steps = 0
        self._refusals = 0
        self._pid: int | None = None
        self._done = False
        self._script: Any = None
        self._source: str | None = None
        self._numbers, self._poison = numbers, poison
        self._optimizers = numbers.Optimizers()
        self._losses = numbers.Losses() if config["mode"] == "numbers" else None
        self._clock = clock.StepClock(config["warmup"], config["block"])
        self._window = None
        if config["mode"] == "window":
            path = os.path.join(config["out"], f"rank-{_rank()}-{os.getpid()}.pt.trace.json")
            self._window = window.Window(config["window_first"], config["window_warmup"], config["window_steps"], path)
        hooks.on_failure(_give_up)
        if config.get("poison"):  # before the step that may be the last one; what it queued is still running
            hooks.on_backward(self._sweep)
            hooks.on_step(self._sweep)
        hooks.on_step(self._step)
        if self._losses is not None:
            hooks.on_backward(self._losses.note)

    def _step(self, step: Any) -> None:
        self._clock.tick()
        if self._pid != os.getpid():
            self._begin()
        self._steps += 1
        self._source = step.source
        self._optimizers.note(step.optimizer)
        if self._window is not None:
            self._window.tick()
        if self._steps >= self._config["steps"] or self._late():
            self._stop()

    def _sweep(self, _: Any) -> None:
        self._poison.sweep()

    def _begin(self) -> None:
        """The first step of this process (a forked rank starts its own count)."""
        self._pid = os.getpid()
        self._script = _file(sys.modules["__main__"])  # Python takes it away when the script has ended
        atexit.register(self._finish, "script ended")
        if "multiprocessing" in sys.modules:  # forked ranks leave without atexit
            from multiprocessing import util

            util.Finalize(None, self._finish, args=("script ended",), exitpriority=100)
        # Some scripts end so, lest a thread or a library keep them
        os._exit = self._leaving(os._exit)  # type: ignore[assignment]  # to mypy a function is not its name alone

    def _leaving(self, leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
        def leaving(status: int) -> NoReturn:
            self._finish("script ended")
            leave(status)

        return leaving

    def _late(self) -> bool:
        deadline = self._config.get("deadline_s")
        if deadline is None or self._steps < self._config["least_steps"]:
            return False
        return bool(time.monotonic() - _started["began"] > deadline)

    def _stop(self) -> None:
        self._finish("steps")
        if not self._refusals:
            _end_later(float(self._config.get("linger_s", LINGER_SECONDS)))
        self._refusals += 1
        if self._refusals > STUBBORN:
            sys.stdout.flush()
            os._exit(0)
        raise SystemExit(0)  # through the script's own `finally` blocks: a patched loop reads its last losses there

    def _finish(self, reason: str) -> None:
        if self._done or self._pid != os.getpid():
            return
        self._done = True
        ended = time.monotonic()
        record = {**self._identity(), "steps": self._steps, "stopped": reason, "step_source": self._source}
        record["seconds_to_end"] = ended - _started["began"]
        record["clock"] = self._clock.finish()
        record["side_streams"] = self._poison.side_streams()
        record["state"] = self._numbers.state(self._optimizers)
        if self._losses is not None:
            record["losses"] = self._losses.read()
            record["losses_skipped"] = self._losses.skipped
        if self._window is not None:
            record["window"] = self._window.finish()
        record.update(_loaded(self._config, self._script))
        _write(os.path.join(self._config["out"], f"record-{record['rank']}-{record['pid']}.json"), record)

    def _identity(self) -> dict[str, Any]:
        import torch

        on_gpu = torch.cuda.is_initialized()
        return {
            "pid": os.getpid(),
            "rank": _rank(),
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "kernel_fence": _started.get("kernel"),
        }


def _give_up(reason: str) -> None:
    """An observer failed. Without it this process would train to its natural end: end it, and say why."""
    sys.stdout.flush()
    sys.stderr.write(f"tracelens verify: {reason}\n")
    sys.stderr.flush()
    os._exit(GAVE_UP)


def _end_later(seconds: float) -> None:
    """A thread of the script's may outlive its training (a heartbeat, a server); nobody waits for it here."""

    def end() -> None:
        time.sleep(seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    threading.Thread(target=end, name="tracelens-end", daemon=True).start()


def _shift_seeds(shift: int) -> None:
    """Whatever seed the script sets, it gets another one: a script with a fixed seed has a seed noise all the same.

    Generators that it makes and seeds one by one keep theirs.
    """
    import torch

    places = [(random, "seed"), (torch, "manual_seed"), (torch.random, "manual_seed")]
    places += [(torch.cuda, name) for name in ("manual_seed", "manual_seed_all")]
    if (numpy := sys.modules.get("numpy")) is not None:
        places += [(numpy.random, "seed"), (numpy.random, "default_rng")]
    for owner, name in places:
        setattr(owner, name, _shifted(getattr(owner, name), shift))


def _shifted(set_seed: Any, shift: int) -> Any:
    def shifted(*arguments: Any, **options: Any) -> Any:
        changed = [value + shift if isinstance(value, int) else value for value in arguments]
        return set_seed(*changed, **{k: v + shift if isinstance(v, int) else v for k, v in options.items()})

    return shifted


def _be_deterministic(torch: Any) -> None:
    """As far as torch can be made to; a script that asks for benchmarking later is overruled at its first forward."""
    torch.use_deterministic_algorithms(True, warn_only=True)

    def overrule(*_: Any) -> None:
        torch.backends.cudnn.benchmark = False
        handle.remove()

    handle = torch.nn.modules.module.register_module_forward_pre_hook(overrule)


def _in_copy(entry: str, config: Mapping[str, Any]) -> str:
    """An import path into the project (an editable install) leads to the working copy instead."""
    absolute = os.path.abspath(entry) if entry else entry
    if not entry or not overlay.below(absolute, config["project"]) or _is_python(absolute):
        return entry
    return overlay.mirrored(absolute, config["tree"])


def _is_python(path: str) -> bool:
    """A virtual environment inside the project is no source of the project."""
    return any(overlay.below(path, os.path.abspath(folder)) for folder in (sys.prefix, sys.base_prefix))


def _loaded(config: Mapping[str, Any], script: Any) -> dict[str, list[str]]:
    """Which of the patched files this process runs from the working copy, and which from their original place."""
    found = [script, *map(_file, list(sys.modules.values()))]
    files = {os.path.realpath(file) for file in found if isinstance(file, str)}
    wanted = {path: os.path.realpath(overlay.mirrored(path, config["tree"])) for path in config["patched"]}
    return {
        "loaded": [path for path, copy in wanted.items() if copy in files],
        "foreign": [path for path in wanted if os.path.realpath(path) in files],
    }


def _file(module: Any) -> Any:
    return vars(module).get("__file__") if hasattr(module, "__dict__") else None


def _rank() -> int:
    told = ranks.rank()
    if told is not None:
        return told
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return 0


def _write(path: str, record: Mapping[str, Any]) -> None:
    with open(path + ".part", "w", encoding="utf-8") as out:
        json.dump(record, out)
    os.replace(path + ".part", path)
