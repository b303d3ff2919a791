"""Settings of torch: read at the first forward or backward, when the script has made its own, and set then.

In: a toggle of kind `flag`. Out: the setting has the value, or is found to have it already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import hooks
from tracelens.verify.inside.toggles.toggle_record import ToggleRecord


def install(record: ToggleRecord) -> None:
    """Set the flag when the loop begins to compute."""
    at_first_computation(lambda: _set(record))


def at_first_computation(act: Callable[[], None]) -> None:
    """Call `act` once: before the first forward of any module, or before the first backward where there is none."""
    removers: list[Callable[[], None]] = []

    def once(*_: Any) -> None:
        if removers:
            for remove in removers:
                remove()
            removers.clear()
            act()

    handle = torch.nn.modules.module.register_module_forward_pre_hook(once)
    removers.extend((handle.remove, hooks.on_backward(once)))


def _set(record: ToggleRecord) -> None:
    read, write = _SETTINGS[record.name]
    try:
        before = read()
        if before == record.value:
            record.already(f"it is {before} already")
            return
        write(record.value)
    except RuntimeError as error:  # torch refuses to mix its older and newer settings of float32 precision
        record.refused(str(error).partition("\n")[0])
        return
    record.applied(f"it was {before}")


def _tf32() -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32)


def _set_tf32(value: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = value
    torch.backends.cudnn.allow_tf32 = value


def _benchmark() -> bool:
    return bool(torch.backends.cudnn.benchmark)


def _set_benchmark(value: bool) -> None:
    torch.backends.cudnn.benchmark = value


def _set_anomaly_detection(value: bool) -> None:
    torch.autograd.set_detect_anomaly(value)


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "tf32": (_tf32, _set_tf32),
    "cudnn-benchmark": (_benchmark, _set_benchmark),
    "matmul-precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "anomaly-detection": (torch.is_anomaly_enabled, _set_anomaly_detection),
}
"""How each setting is read and written; the names are those of `tracelens.levers.definition.FLAGS`."""
