"""What the checks of `tracelens doctor` look at, and what one of them says.

In: what torch and NVML said, the environment, where to look for files. Out: `MachineFacts` and `Check`, as values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ADMIN_ONLY = Path("/proc/driver/nvidia/params")
DRIVER = Path("/proc/driver/nvidia/version")
SHARED_MEMORY = Path("/dev/shm")


def distribution(name: str) -> str | None:
    """The version of an installed distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Check:
    """`good` is None where nothing is wrong but something is missing that we could use."""

    name: str
    good: bool | None
    found: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Everything the checks look at, so that a test can hand in another one."""

    torch: Mapping[str, Any] | str
    """What torch says of itself, or why it could not be asked."""
    gpus: Mapping[str, Any]
    """`driver` and `gpus` as NVML names them."""
    folder: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    admin_only: Path = ADMIN_ONLY
    driver_file: Path = DRIVER
    shared_memory: Path = SHARED_MEMORY
    version: Callable[[str], str | None] = distribution
    """The installed version of a distribution."""

    @property
    def facts(self) -> Mapping[str, Any]:
        return {} if isinstance(self.torch, str) else self.torch

    @property
    def driver(self) -> str | None:
        """As NVML says, else as the kernel module says."""
        named = self.gpus.get("driver")
        if isinstance(named, str):
            return named
        match = re.search(r"Kernel Module.*?\s(\d{3,}\.[\d.]+)", read(self.driver_file))
        return match[1] if match else None


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
