"""The agent inside a trial process: confines its writes, seeds it, observes it, ends it after the agreed steps.

In: the `AgentConfig` that the supervisor wrote, in every Python process of the trial. Out: one record per process that
trained, and the list of refused writes, both in the folder `out`.

Two moments: `start` before the script's first line (sandbox, seeds, import paths; called by `early/sitecustomize.py`),
`arm` once torch was imported (hooks; called by the launcher's bootstrap). The second imports the heavy parts, so that
helper processes that never train stay cheap.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from tracelens.verify import exchange, overlay
from tracelens.verify.exchange import AgentConfig
from tracelens.verify.inside import sandbox
from tracelens.verify.inside.sandbox import WriteSandbox

_started: list[tuple[float, WriteSandbox, bool]] = []
"""Empty, or one entry: when `start` ran (monotonic seconds), the write sandbox, whether the kernel enforces it too."""


def start(config: AgentConfig) -> None:
    """Before the script's first line, in every Python process of the trial."""
    refused = os.path.join(config["out"], exchange.REFUSED_WRITES.format(pid=os.getpid()))
    guard = WriteSandbox(config["scratch"], config["tree"], refused)
    kernel = config.get("landlock", True) and sandbox.ask_kernel((config["scratch"], *sandbox.DEVICES))
    _started[:] = [(time.monotonic(), guard, kernel)]
    guard.install()
    random.seed(config["seed"])
    sys.path[:] = [_in_copy(entry, config) for entry in sys.path]


def arm(config: AgentConfig) -> None:
    """Once torch was imported: seed it, observe its training steps."""
    try:
        if not _started:
            start(config)
        _observe(config)
    except Exception as error:  # noqa: BLE001 -- the launcher lets a script without agent run on, to its natural end
        give_up(f"the observer cannot be armed: {error!r}")


def give_up(reason: str) -> None:
    """End this process, because its observer failed: it would train to its natural end and leave no record."""
    sys.stdout.flush()
    sys.stderr.write(f"tracelens verify: {reason}\n")
    sys.stderr.flush()
    os._exit(exchange.OBSERVER_FAILED)


def _observe(config: AgentConfig) -> None:
    import torch

    from tracelens.launch.inside import hooks

    began, guard, kernel = _started[0]
    torch.manual_seed(config["seed"])
    if config.get("seed_shift"):
        _shift_seeds(config["seed_shift"])
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(config["seed"] % 2**32)
    if config.get("deterministic"):
        _be_deterministic(torch)
    sandbox.check_torch_writer(guard, torch)
    hooks.install()

    from tracelens.verify.inside.observer import Observer
    from tracelens.verify.inside.toggles import installing

    toggles = installing.install(config.get("toggles", ()))
    Observer(config, began, kernel, toggles).attach(give_up)


def _shift_seeds(shift: int) -> None:
    """Add `shift` to each seed that the script sets, so that a script with a fixed seed shows its seed noise too.

    Generators that the script makes and seeds one by one keep their seeds.
    """
    import torch

    setters = [(random, "seed"), (torch, "manual_seed"), (torch.random, "manual_seed")]
    setters += [(torch.cuda, name) for name in ("manual_seed", "manual_seed_all")]
    if (numpy := sys.modules.get("numpy")) is not None:
        setters += [(numpy.random, "seed"), (numpy.random, "default_rng")]
    for owner, name in setters:
        setattr(owner, name, _shifted(getattr(owner, name), shift))


def _shifted(set_seed: Any, shift: int) -> Any:
    def shifted(*arguments: Any, **options: Any) -> Any:
        changed = [value + shift if isinstance(value, int) else value for value in arguments]
        return set_seed(*changed, **{k: v + shift if isinstance(v, int) else v for k, v in options.items()})

    return shifted


def _be_deterministic(torch: Any) -> None:
    """Deterministic algorithms where torch has them; the script's `benchmark = True` is undone at its first forward.

    What has none may run all the same (`warn_only`); but then the fused attention kernels keep their other order of
    additions, too, so that attention is computed step by step.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    for name in ("flash", "mem_efficient", "cudnn"):
        if (enable := getattr(torch.backends.cuda, f"enable_{name}_sdp", None)) is not None:
            enable(False)

    def overrule(*_: Any) -> None:
        torch.backends.cudnn.benchmark = False
        handle.remove()

    handle = torch.nn.modules.module.register_module_forward_pre_hook(overrule)


def _in_copy(entry: str, config: AgentConfig) -> str:
    """An import path into the project (an editable install) leads to the working copy instead."""
    absolute = os.path.abspath(entry) if entry else entry
    if not entry or not overlay.below(absolute, config["project"]) or _is_python(absolute):
        return entry
    return overlay.mirrored(absolute, config["tree"])


def _is_python(path: str) -> bool:
    """A virtual environment inside the project is no source of the project."""
    return any(overlay.below(path, os.path.abspath(folder)) for folder in (sys.prefix, sys.base_prefix))
