"""What the replay says of the waits of a loop: the cost of each, and of all together.

In: a ReplayTrace, or why there is none. Out: `WaitCosts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelens.model import Abstention
from tracelens.replay import explanations, exposed_cost
from tracelens.replay.replay_trace import ReplayTrace


@dataclass(frozen=True, slots=True)
class WaitCosts:
    """`per_stall` and `together_ns` are ns per step; nothing where there is no replay."""

    per_stall: Mapping[str, int]
    explanations: tuple[str, ...]
    together_ns: int | None


def measure(replay_trace: ReplayTrace | Abstention) -> WaitCosts:
    """The costs of all waits."""
    if isinstance(replay_trace, Abstention):
        return WaitCosts({}, (), None)
    per_stall = exposed_cost.per_stall(replay_trace)
    explained = tuple(explanation.text for explanation in explanations.explain(replay_trace, per_stall))
    return WaitCosts(per_stall, explained, exposed_cost.together(replay_trace))
