"""Which CPUs each worker, its training processes and their loader workers get.

In: the machine's topology as the kernel tells it. Out: `Share`s. Without it the training thread shares its core with
whatever the scheduler puts there: a loader worker on the other half of the same core, or another row's process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")
FEWEST_CPUS = 8
"""Below this many CPUs for a worker nothing is set apart: the loader workers would be left with too few."""

Core = tuple[int, ...]
"""The CPUs of one physical core."""


@dataclass(frozen=True)
class Share:
    """`own` for the threads of the training process, `loaders` for what it forks; empty: as the system likes."""

    own: Core = ()
    loaders: Core = ()


def cores(system: Path = SYSTEM) -> list[Core]:
    """The physical cores this process may use, by NUMA node and number."""
    allowed = os.sched_getaffinity(0)
    found: set[Core] = set()
    for cpu in sorted(allowed):
        listing = system / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        siblings = _numbers(listing.read_text(encoding="utf-8")) if listing.exists() else (cpu,)
        found.add(tuple(sibling for sibling in siblings if sibling in allowed) or (cpu,))
    return sorted(found, key=lambda core: (_node(system, core[0]), core))


def split(every: Sequence[Core], workers: int) -> list[list[Core]]:
    """Equal shares of neighboring cores."""
    each = len(every) // workers
    return [list(every[number * each : (number + 1) * each]) for number in range(workers)]


def share(mine: Sequence[Core]) -> Share:
    """Half of the cores for the training process, one thread on each; the other half for its loader workers."""
    cpus = [cpu for core in mine for cpu in core]
    if len(cpus) < FEWEST_CPUS:
        return Share()
    half = len(mine) // 2
    own = tuple(core[0] for core in mine[:half])
    return Share(own, tuple(cpu for core in mine[half:] for cpu in core))


def settle(place: Share) -> None:
    """Move this process, and whatever it forks from now on, to their CPUs; to be called before torch computes."""
    if not place.own:
        return
    import torch

    os.sched_setaffinity(0, place.own)
    torch.set_num_threads(len(place.own))
    os.register_at_fork(after_in_child=lambda: os.sched_setaffinity(0, place.loaders))


def described(system: Path = SYSTEM) -> dict[str, object]:
    """What of the machine may matter for times."""
    every = cores(system)
    kernel = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cores": len(every),
        "threads_per_core": len(every[0]),
        "first_cores": [list(core) for core in every[:2]],
        "nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))),
        "huge_pages": _text(kernel),
        "page_reporting_order": _text(Path("/sys/module/page_reporting/parameters/page_reporting_order")),
        "clock_source": _text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
    }


def stolen() -> int:
    """Ticks that the host gave to others while this machine's CPUs wanted to run."""
    words = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    return int(words[8])


def _node(system: Path, cpu: int) -> int:
    nodes = sorted((system / f"cpu{cpu}").glob("node[0-9]*"))
    return int(nodes[0].name[4:]) if nodes else 0


def _numbers(listing: str) -> Core:
    """`0-1,8` as numbers."""
    found: list[int] = []
    for part in listing.strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8").strip() if path.exists() else None
