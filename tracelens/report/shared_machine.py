"""What else the machine did while the training was timed: other programs on its cores, a CPU limit, a GPU in use.

In: a Diagnosis with the samples of its recording. Out: sentences, none where the script had the machine for itself or
nothing was sampled. No line of the script is to blame for such time, and every number of the recording holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.messages import say
from tracelens.model import Diagnosis
from tracelens.report.training_window import taken_in, training_window

FULL = 0.9
"""Share of the cores: below it, a core was free for who wanted one."""
OTHERS = 0.2
"""Share of the cores, too: what our own monitor and the system's services take stays below it."""
OFTEN_STOPPED = 0.05
"""Of the limit's periods. A group that is stopped now and then loses less than that of its time."""
GPU_BEFORE_PERCENT = 20
"""NVML counts the display and other small work below it."""
BEFORE_SECONDS = 0.5
"""After the launch, in which no script has come to use a GPU: importing torch alone takes longer."""


@dataclass(frozen=True, slots=True)
class SharedMachine:
    """None: not sampled, or not so."""

    cores: int | None = None
    cores_of_others: float | None = None
    """Cores that other programs kept busy, where no core was left free."""
    stopped_share: float | None = None
    """Of the periods of a CPU limit, those in which it stopped the script."""
    gpu_busy_before: float | None = None
    """Percent, before the script can have used the GPU."""

    def said(self) -> tuple[str, ...]:
        """One sentence for each."""
        told = []
        if self.cores_of_others is not None:
            amounts = {"used": self.cores_of_others, "cores": self.cores}
            told.append(
                say(
                    "Other programs took {used:.1f} of the machine's {cores} cores meanwhile: "
                    "every time on the CPU is longer than it would be alone.",
                    **amounts,
                )
            )
        if self.stopped_share is not None:
            told.append(
                say(
                    "The CPU limit of this container or job stopped the script in {share:.0f} % of its periods: "
                    "a higher limit, or fewer threads and workers, gives that time back.",
                    share=100 * self.stopped_share,
                )
            )
        if self.gpu_busy_before is not None:
            told.append(
                say(
                    "The GPU was {busy:.0f} % busy before the script began: another program uses it.",
                    busy=self.gpu_busy_before,
                )
            )
        return tuple(told)


def shared_machine(diagnosis: Diagnosis) -> SharedMachine:
    """What the samples tell."""
    rows, run = diagnosis.monitor, diagnosis.run
    if run is None:
        return SharedMachine()
    training = [row for row, inside in zip(rows, taken_in(rows, training_window(diagnosis)), strict=True) if inside]
    cores = run.environment.get("cpu_count")
    cores = cores if isinstance(cores, int) and cores > 0 else None
    return SharedMachine(
        cores, _cores_of_others(training, cores), _stopped_share(training), _gpu_before(rows, run.variables or {})
    )


def _cores_of_others(rows: Sequence[Mapping[str, Any]], cores: int | None) -> float | None:
    shares = [(_number(row, "cpu_percent"), _number(row, "process_cpu_percent")) for row in rows]
    known = [(all_of_it, own) for all_of_it, own in shares if all_of_it is not None and own is not None]
    if not known or cores is None:
        return None
    busy = cores * sum(all_of_it for all_of_it, _ in known) / len(known) / 100
    others = busy - sum(own for _, own in known) / len(known) / 100
    return others if busy >= FULL * cores and others >= OTHERS * cores else None


def _stopped_share(rows: Sequence[Mapping[str, Any]]) -> float | None:
    counts = [(_number(row, "cpu_limit_periods"), _number(row, "cpu_limit_stopped")) for row in rows]
    known = [(periods, stopped) for periods, stopped in counts if periods is not None and stopped is not None]
    if not known or known[-1][0] <= known[0][0]:
        return None
    share = (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])
    return min(1.0, share) if share >= OFTEN_STOPPED else None


def _gpu_before(rows: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> float | None:
    """Of the only GPU that NVML sees: of several, nothing says which one the script is given."""
    if not rows or variables.get("CUDA_VISIBLE_DEVICES"):
        return None
    until = int(rows[0]["unix_ns"]) + int(BEFORE_SECONDS * 1e9)
    first: list[Sequence[Mapping[str, Any]]] = [row.get("gpus") or [] for row in rows if int(row["unix_ns"]) <= until]
    busy = [value for gpus in first if len(gpus) == 1 and (value := _number(gpus[0], "utilization")) is not None]
    mean = sum(busy) / len(busy) if busy else 0.0
    return mean if mean >= GPU_BEFORE_PERCENT else None


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return value if isinstance(value, int | float) else None
