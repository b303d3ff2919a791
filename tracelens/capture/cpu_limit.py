"""How often the kernel stopped a process because its control group had used up its CPU limit (a container's, Slurm's).

In: a process id. Out: counts since the group was made, from its `cpu.stat` (cgroup v2, or v1's cpu controller): periods
of the limit (100 ms, as a rule), and those in which the group was stopped. The limit may belong to a group above, which
is what a container's processes see of theirs; the nearest group with a limit counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_V1_FOLDERS = ("cpu", "cpu,cpuacct")


class LimitPeriods(NamedTuple):
    """Both only rise. `stopped` of `periods` were cut short."""

    periods: int
    stopped: int


class CpuLimit:
    """The CPU limit of one process's control group."""

    def __init__(self, process: int, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
        self._candidates = _files(proc / str(process) / "cgroup", groups)

    def read(self) -> LimitPeriods | None:
        """The counts of the nearest group with a limit; None without one. A group without counts none."""
        for path in self._candidates:
            found = _periods(path)
            if found is not None and found.periods:
                self._candidates = [path]
                return found
        return None


def _files(membership: Path, groups: Path) -> list[Path]:
    """The `cpu.stat` files of the process's group and of those above it, the nearest first."""
    try:
        lines = membership.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        hierarchy, controllers, name = [*line.split(":", 2), "", ""][:3]
        if hierarchy == "0":
            tops = [groups]
        elif "cpu" in controllers.split(","):
            tops = [groups / folder for folder in _V1_FOLDERS]
        else:
            continue
        parts = [part for part in name.split("/") if part and part != ".."]
        for top in tops:
            found += [top.joinpath(*parts[:depth]) / "cpu.stat" for depth in range(len(parts), -1, -1)]
    return found


def _periods(path: Path) -> LimitPeriods | None:
    """The two counts of a `cpu.stat`; None where the group has no limit, or the file is not there."""
    try:
        words = dict(line.split(maxsplit=1) for line in path.read_text(encoding="ascii").splitlines())
        return LimitPeriods(int(words["nr_periods"]), int(words["nr_throttled"]))
    except (OSError, ValueError, KeyError):
        return None
