"""Installs the toggles of a trial process.

In: the toggles of the configuration. Out: their records. Those that the supervisor makes (the environment, a patch of
the working copy) have none here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracelens.verify.inside.toggles import autocast, flags, loaders, modules, optimizers
from tracelens.verify.inside.toggles.toggle_record import ToggleRecord

_INSTALLERS: dict[str, Callable[[ToggleRecord], None]] = {
    "autocast": autocast.install,
    "flag": flags.install,
    "compile": modules.install_compile,
    "channels-last": modules.install_channels_last,
    "optimizer-argument": optimizers.install_argument,
    "zero-grad": optimizers.install_zero_grad,
    "loader-argument": loaders.install,
    "batch": loaders.install,
}


def install(toggles: Iterable[Mapping[str, Any]]) -> tuple[ToggleRecord, ...]:
    """Right after torch was imported, once the launcher's hooks are in place."""
    records = tuple(ToggleRecord(toggle) for toggle in toggles if toggle["kind"] in _INSTALLERS)
    for record in records:
        _INSTALLERS[record.kind](record)
    return records
