"""More DataLoader workers: what the loader can supply then, and what it costs the training loop.

In: a Tape, Edits. Out: the Tape with a faster loader, before all other Edits act. Where the loop waits for its workers,
all of them are busy, so W of them need W periods for a batch each; more of them share that time, as far as there are
cores. Where the loop never waits, the recording does not show how fast they could be: more of them change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens.model import Edit
from tracelens.replay.items import Block, Item, Loader, Tape, single


def hired(tape: Tape, edits: Sequence[Edit]) -> Tape:
    """The Tape with as many workers as its more-workers Edits ask for; never fewer than it has."""
    wanted = max((edit.workers for edit in edits if edit.kind == "more-workers"), default=0)
    now = tape.loader.workers
    if now is None or wanted <= now:
        return tape
    making = _making_ns(tape)
    if making is None:
        return replace(tape, loader=Loader(wanted, None))
    own = _hand_over_ns(tape)
    loads = len(_spans(tape)) / len(tape.steps)
    period = max(making // useful(tape, wanted), round(own * loads), _pinning_ns(tape))
    if tape.loader.period_ns is not None:  # what was reached already stays so
        period = min(period, tape.loader.period_ns)
    steps = tuple(tuple(_taken_over(element, own) for element in step) for step in tape.steps)
    return replace(tape, loader=Loader(wanted, period), steps=steps)


def least_step_ns(tape: Tape) -> int:
    """What the workers need for the batches of a step if nothing keeps them waiting; 0 where that was not measured.

    Never more than the step as it is, which they did deliver. Time that they do not spend on a core, reading a disk
    say, is not in it, so they may need longer.
    """
    costs, workers = tape.calibration, tape.loader.workers
    if not workers or not costs.loader_batch_ns:
        return 0
    at_once = min(workers, costs.loader_cores or workers)
    loads = len(_spans(tape)) / len(tape.steps)
    return min(round(costs.loader_batch_ns * loads / at_once), tape.base_ns)


def useful(tape: Tape, workers: int) -> int:
    """How many of the workers get a core: all but the training thread's, where the run says how many there are."""
    cores = tape.calibration.loader_cores
    return workers if cores is None else max(1, tape.loader.workers or 0, min(workers, cores - 1))


def _making_ns(tape: Tape) -> int | None:
    """What one worker needs for the batches of a step; None where the recording does not show it."""
    if tape.loader.workers == 0:
        return round(sum(_spans(tape)) / len(tape.steps)) or None
    return None if tape.loader.period_ns is None else tape.loader.period_ns * (tape.loader.workers or 1)


def _hand_over_ns(tape: Tape) -> int:
    """The main thread's own work to take one batch over: what it was when a batch was there, for the rest was waiting.

    The first quarter, because workers deliver in bursts, and the last call of an epoch brings no batch.
    """
    if tape.loader.workers == 0:
        return tape.calibration.unpack_ns
    spans = sorted(_spans(tape))
    return min(spans[len(spans) // 4], tape.calibration.loader_work_limit_ns) if spans else 0


def _pinning_ns(tape: Tape) -> int:
    """The pin thread of a pinned loader copies every batch, however many workers there are."""
    copies = [item for step in tape.steps for item in single(step) if item.engine == "h2d" and item.kind == "launch"]
    copied = sum(item.size for item in copies) if tape.loader.workers else 0
    return round(copied * 1_000 / tape.calibration.pin_thread_bytes_per_us / len(tape.steps))


def _spans(tape: Tape) -> list[int]:
    return [item.issue_ns for step in tape.steps for item in single(step) if item.kind == "loader"]


def _taken_over(element: Item | Block, own_ns: int) -> Item | Block:
    if isinstance(element, Item) and element.kind == "loader" and element.issue_ns > own_ns:
        return element._replace(issue_ns=own_ns, rows=0)
    return element
