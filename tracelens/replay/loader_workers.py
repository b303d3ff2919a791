"""More DataLoader workers: how often the loader delivers a batch then, and its cost to the training loop.

In: a ReplayTrace, Edits. Out: the ReplayTrace with a faster loader; all other Edits are applied to that. Where the loop
waits for its workers, all W of them are busy and each needs W loader periods for a batch. More workers share that time,
as far as there are CPU cores. Where the loop never waits, the recording does not show how fast the workers are, and
more of them change nothing. Which samples come next is the main thread's to find out, with or without workers; and
where an iterator is made anew, so are its workers, and the loop waits for the first batch as if there were one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tracelens.edit_kinds import replay_rule
from tracelens.model import Edit
from tracelens.replay.merged_launches import host_time
from tracelens.replay.replay_trace import HostOp, OpBlock, ReplayTrace, editable_host_ops


def with_more_workers(trace: ReplayTrace, edits: Sequence[Edit]) -> ReplayTrace:
    """The ReplayTrace with as many workers as its more-workers Edits ask for; never fewer than it has."""
    wanted = max((edit.workers for edit in edits if replay_rule(edit.kind) == "more-workers"), default=0)
    now = trace.loader.workers
    if now is None or wanted <= now:
        return trace
    making = _making_ns(trace)
    if making is None:
        return replace(trace, loader=replace(trace.loader, workers=wanted, period_ns=None))
    own = _hand_over_ns(trace)
    loads = len(_spans(trace)) / len(trace.steps)
    first = min(1.0, trace.loader.iterators / loads) if loads else 0.0
    starting = 0 if now else trace.calibration.worker_start_ns
    begun = round(first * (making / loads + starting)) if loads else 0
    shared = round((1 - first) * making)
    period = max(shared // workers_with_a_core(trace, wanted), round(own * loads), _pinning_ns(trace))
    if trace.loader.period_ns is not None:  # what was reached already stays so
        period = min(period, trace.loader.period_ns)
    steps = tuple(tuple(_taken_over(element, own, begun) for element in step) for step in trace.steps)
    return replace(trace, loader=replace(trace.loader, workers=wanted, period_ns=period), steps=steps)


def with_ready_batches(trace: ReplayTrace) -> ReplayTrace:
    """The ReplayTrace of a loop whose batches are there when it asks for them."""
    return replace(trace, steps=tuple(tuple(_taken_over(element, 0) for element in step) for step in trace.steps))


def least_step_ns(trace: ReplayTrace) -> int:
    """What the workers need for the batches of a step if nothing keeps them waiting; 0 where that was not measured.

    Never more than the step as it is, which they did deliver. Time that they do not spend on a core, reading a disk
    say, is not in it, so they may need longer.
    """
    costs, workers = trace.calibration, trace.loader.workers
    if not workers or not costs.loader_batch_ns:
        return 0
    at_once = min(workers, costs.loader_cores or workers)
    loads = len(_spans(trace)) / len(trace.steps)
    return min(round(costs.loader_batch_ns * loads / at_once), trace.own_ns)


def workers_with_a_core(trace: ReplayTrace, workers: int) -> int:
    """How many of the workers get a core: all but the training thread's, where the run says how many there are."""
    cores = trace.calibration.loader_cores
    return workers if cores is None else max(1, trace.loader.workers or 0, min(workers, cores - 1))


def _making_ns(trace: ReplayTrace) -> int | None:
    """What one worker needs for the batches of a step; None where the recording does not show it. The profiler records
    nothing in a worker: what its rows cost the training thread, which makes the batches now, is not in it."""
    if trace.loader.workers == 0:
        made = (host_time(op, trace.overhead.row_ns)[1] for op in _loads(trace))
        return max(0, round(sum(made) / len(trace.steps)) - _order_ns(trace)) or None
    return None if trace.loader.period_ns is None else trace.loader.period_ns * (trace.loader.workers or 1)


def _hand_over_ns(trace: ReplayTrace) -> int:
    """The main thread's own work to take one batch over: what it was when a batch was there, for the rest was waiting.

    The first quarter, because workers deliver in bursts, and the last call of an epoch brings no batch.
    """
    if trace.loader.workers == 0:
        loads = len(_spans(trace)) / len(trace.steps)
        return trace.calibration.unpack_ns + (round(_order_ns(trace) / loads) if loads else 0)
    spans = sorted(_spans(trace))
    return min(spans[len(spans) // 4], trace.calibration.loader_work_limit_ns) if spans else 0


def _order_ns(trace: ReplayTrace) -> int:
    """Per step, on the scale of the HostOps."""
    return round(trace.loader.order_ns * trace.pace)


def _pinning_ns(trace: ReplayTrace) -> int:
    """The pin thread of a pinned loader copies every batch, however many workers there are."""
    copies = [
        op for step in trace.steps for op in editable_host_ops(step) if op.engine == "h2d" and op.kind == "launch"
    ]
    copied = sum(op.size for op in copies) if trace.loader.workers else 0
    return round(copied * 1_000 / trace.calibration.pin_thread_bytes_per_us / len(trace.steps))


def _spans(trace: ReplayTrace) -> list[int]:
    return [op.issue_ns for op in _loads(trace)]


def _loads(trace: ReplayTrace) -> Iterator[HostOp]:
    return (op for step in trace.steps for op in editable_host_ops(step) if op.kind == "loader")


def _taken_over(element: HostOp | OpBlock, own_ns: int, begun_ns: int = 0) -> HostOp | OpBlock:
    """`begun_ns`: what beginning new iterators takes, shared among all batches."""
    if not isinstance(element, HostOp) or element.kind != "loader":
        return element
    if element.issue_ns > own_ns:
        return element._replace(issue_ns=own_ns + begun_ns, rows=0)
    return element._replace(issue_ns=element.issue_ns + begun_ns)
