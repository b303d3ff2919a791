"""Why removing a wait gives nothing on this run: each explanation as an id, a sentence and its numbers.

In: a ReplayTrace, its exposed costs, its bounds. Out: the explanations that hold. The report decides which are printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelens.messages import say
from tracelens.model import Edit
from tracelens.replay import bounds, edits, exposed_cost
from tracelens.replay.bounds import Bounds
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace, editable_host_ops
from tracelens.replay.steady_state import step_time
from tracelens.units import ms

NEGLIGIBLE = 0.01
"""Below 1 % of the step a wait is harmless and a copy is no cost."""
NO_ROOM = 0.02
"""When the largest limit leaves less than 2 % of the step, no patch is worth making."""
LIMITED = {
    "host": say("limited by the host"),
    "stream": say("limited by the GPU"),
    "copy": say("limited by the copies"),
    "loader": say("limited by the DataLoader"),
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """`id` is stable, `text` is for people, `numbers` are what it rests on (ns per step, or shares of it)."""

    id: str
    text: str
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _StepFacts:
    step_ns: int
    waited_ns: int
    alone_ns: Mapping[str, int]
    together_ns: int
    limits: Bounds
    staged_ns: int
    """Transfer time of pageable batches per step."""
    copied_ns: int
    """Transfer time of all batches per step."""
    slack_ns: int
    """What no order of the same work can do better than the loop does now."""
    handed_over_ns: int
    """Host time for copying and unpacking batches, which pinned memory (and with workers a pin thread) takes away."""
    workers: int | None
    fewer_launches: str
    """What makes fewer of them."""
    doubled_ns: int | None
    """Step time with twice the workers, by replay; None where the loader does not set the pace or they are unknown."""


def explain(trace: ReplayTrace, alone: Mapping[str, int] | None = None) -> tuple[Explanation, ...]:
    """The sentences that hold on this run, none where waits cannot be judged; `alone`: the exposed costs, if known."""
    jointly = exposed_cost.together(trace)
    if jointly is None:
        return ()
    facts = _facts(trace, exposed_cost.per_stall(trace) if alone is None else alone, jointly)
    judges = (_gpu_bound, _refilled, _host_bound, _loader_bound, _absorbed, _same_stream, _copies_hidden, _no_room)
    return tuple(sentence for judge in judges if (sentence := judge(facts)) is not None)


def _facts(trace: ReplayTrace, alone: Mapping[str, int], jointly: int) -> _StepFacts:
    limits = bounds.step_bounds(trace)
    copies = [op for step in trace.steps for op in editable_host_ops(step) if op.engine == "h2d"]
    staged = sum(op.duration_ns for op in copies if op.kind == "staged")
    return _StepFacts(
        step_ns=trace.base_ns,
        waited_ns=sum(place.wait_ns for place in trace.stalls.values()),
        alone_ns=alone,
        together_ns=jointly,
        limits=limits,
        staged_ns=round(staged / len(trace.steps)),
        copied_ns=round(sum(op.duration_ns for op in copies) / len(trace.steps)),
        slack_ns=max(0, trace.base_ns - limits.largest_ns),
        handed_over_ns=_handed_over(trace),
        workers=trace.loader.workers,
        fewer_launches=say("torch.compile, CUDA graphs") if trace.python else say("CUDA graphs, larger batches"),
        doubled_ns=_doubled(trace),
    )


def _doubled(trace: ReplayTrace) -> int | None:
    if trace.loader.period_ns is None or not trace.loader.workers:
        return None
    more = Edit("more-workers", workers=2 * trace.loader.workers)
    before, after = (
        step_time(compile_program(edits.apply(trace, chosen), trace.overhead.row_ns)) for chosen in ((), (more,))
    )
    return round(trace.base_ns * after / before)


def _handed_over(trace: ReplayTrace) -> int:
    kinds = ("staged",) if trace.loader.workers == 0 else ("staged", "loader")
    has_copies = any(op.kind == "staged" for step in trace.steps for op in editable_host_ops(step))
    spent = sum(op.issue_ns for step in trace.steps for op in editable_host_ops(step) if op.kind in kinds)
    return spent // len(trace.steps) if has_copies else 0


def _gpu_bound(facts: _StepFacts) -> Explanation | None:
    idle = 1 - facts.limits.stream_ns / facts.step_ns
    if idle >= NO_ROOM:
        return None
    share = 100 * max(0.0, idle)
    text = say("The GPU idles {share:.1f} % of the step: the waits are for real work, expect 0-2 %.", share=share)
    return Explanation("gpu_bound", text, {"idle_share": max(0.0, idle), "stream_ns": facts.limits.stream_ns})


def _refilled(facts: _StepFacts) -> Explanation | None:
    small = NEGLIGIBLE * facts.step_ns
    if facts.waited_ns < small or facts.together_ns >= small:
        return None
    text = say(
        "The host waits for the GPU, and without any wait a step takes as long: "
        "each queue refills before the GPU runs dry."
    )
    return Explanation("refilled", text, {"wait_ns": facts.waited_ns, "exposed_ns": facts.together_ns})


def _host_bound(facts: _StepFacts) -> Explanation | None:
    limits = facts.limits
    if limits.binding != "host" or facts.waited_ns >= NEGLIGIBLE * facts.step_ns:
        return None
    text = say(
        "Synchronizations return at once: the host needs {host} per step to launch what takes the GPU {work}. "
        "Fewer launches would help ({launches}), fewer waits not.",
        host=ms(limits.host_ns),
        work=ms(limits.stream_ns),
        launches=facts.fewer_launches,
    )
    return Explanation("host_bound", text, {"host_ns": limits.host_ns, "stream_ns": limits.stream_ns})


def _loader_bound(facts: _StepFacts) -> Explanation | None:
    if facts.limits.binding != "loader":
        return None
    text = say(
        "The loader delivers a batch every {time}: any time saved elsewhere is spent waiting "
        "for the next batch. Make the loader faster first (more workers, cheaper samples).",
        time=ms(facts.limits.loader_ns),
    )
    numbers: dict[str, float] = {"loader_ns": facts.limits.loader_ns}
    if facts.doubled_ns is not None and facts.workers:
        text = say(
            "{text} With {more} workers instead of {workers}, each as fast as now, a step would take "
            "{time} (predicted).",
            text=text,
            more=2 * facts.workers,
            workers=facts.workers,
            time=ms(facts.doubled_ns),
        )
        numbers |= {"workers": facts.workers, "doubled_ns": facts.doubled_ns}
    return Explanation("loader_bound", text, numbers)


def _absorbed(facts: _StepFacts) -> Explanation | None:
    small = NEGLIGIBLE * facts.step_ns
    largest = max(facts.alone_ns.values(), default=0)
    if largest >= small or facts.together_ns < small:
        return None
    text = say(
        "No wait costs anything alone, because the next one takes its place; together they cost {time} per step.",
        time=ms(facts.together_ns),
    )
    return Explanation("absorbed", text, {"largest_alone_ns": largest, "together_ns": facts.together_ns})


def _same_stream(facts: _StepFacts) -> Explanation | None:
    if facts.staged_ns < NEGLIGIBLE * facts.step_ns:
        return None
    text = say(
        "{time} of copies per step come from pageable memory on the stream that computes: "
        "non_blocking alone hides nothing, pinned memory and a stream of their own do.",
        time=ms(facts.staged_ns),
    )
    return Explanation("same_stream", text, {"copy_ns": facts.staged_ns})


def _copies_hidden(facts: _StepFacts) -> Explanation | None:
    if facts.copied_ns >= NEGLIGIBLE * facts.step_ns:
        return None
    if facts.copied_ns:
        text = say("Copies to the GPU take {time} per step: prefetching them gains nothing.", time=ms(facts.copied_ns))
    else:
        text = say("The loop copies nothing to the GPU: there is nothing to prefetch.")
    return Explanation("copies_small", text, {"copy_ns": facts.copied_ns})


def _no_room(facts: _StepFacts) -> Explanation | None:
    share = facts.slack_ns / facts.step_ns
    if share >= NO_ROOM:
        return None
    if facts.limits.binding == "host" and facts.handed_over_ns >= NO_ROOM * facts.step_ns:
        text = say(
            "The host is busy {host} of a {step} step, so removing waits alone gains at most {share:.1f} %; "
            "{batches} of it are copying and unpacking batches, which a pinned loader takes off the training thread.",
            host=ms(facts.limits.host_ns),
            step=ms(facts.step_ns),
            share=100 * share,
            batches=ms(facts.handed_over_ns),
        )
        return Explanation(
            "busy_with_batches", text, {"host_ns": facts.limits.host_ns, "batches_ns": facts.handed_over_ns}
        )
    text = say(
        "Without any wait a step still takes {time}, {limited}: "
        "ordering the same work differently gains at most {share:.1f} %.",
        time=ms(facts.limits.largest_ns),
        limited=LIMITED[facts.limits.binding],
        share=100 * share,
    )
    return Explanation("no_room", text, {"bound_ns": facts.limits.largest_ns, "share": share})
