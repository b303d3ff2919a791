"""Which thread runs the training loop, and which ones run its backward passes.

In: the rows of a Trace and its API calls. Out: thread ids. Apart, because steps, waits and idle time all need it and
a trace nowhere states it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracelens.trace.tables import Rows

STEP, LOADER, OPTIMIZER = "ProfilerStep", "enumerate(DataLoader)", "Optimizer.step"
MARKS = ("user_annotation", "cpu_op")
"""Categories of annotations; before 2022 they were recorded as operators."""
_BACKWARD = "autograd::engine::evaluate_function"


@dataclass(frozen=True)
class Threads:
    main: int | None
    autograd: tuple[int, ...]

    @property
    def loop(self) -> tuple[int, ...]:
        """The threads whose calls form one sequence: main waits while autograd issues the backward pass."""
        return self.autograd if self.main is None else (self.main, *self.autograd)


def find(rows: Rows, calls: pd.DataFrame) -> Threads:
    marks = rows.of(MARKS)
    backward = rows.named(marks, lambda name: name.startswith(_BACKWARD))
    workers = {int(thread) for thread in np.unique(rows.column("tid")[backward])}
    main = _main(rows, calls, workers)
    return Threads(main, tuple(sorted(workers - {main})))


def _main(rows: Rows, calls: pd.DataFrame, workers: set[int]) -> int | None:
    marks = rows.of(MARKS)
    for prefix in (STEP, OPTIMIZER, LOADER):
        found = rows.named(marks, lambda name, prefix=prefix: name.startswith(prefix))  # type: ignore[misc]
        if len(found):
            return _most_frequent(rows.column("tid")[found])
    for threads in (calls["thread"].to_numpy(), rows.column("tid")[rows.of(("cpu_op",))]):
        others = threads[~np.isin(threads, list(workers))]
        if len(others):
            return _most_frequent(others)
    return _most_frequent(calls["thread"].to_numpy()) if len(calls) else None


def _most_frequent(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()])
