"""From what `verify` measured of a change to what becomes of it.

In: a `Verification` and the patch that it ran. Out: a `Judgement`. Pure.

    proved      faster, with the same numbers: may be written
    other       faster, with numbers or lines that an unsafe change altered within what seeds do: asked for apart
    nothing     no gain
    undecided   measured too little
    refused     slower, other numbers, or an error
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracelens.messages import say
from tracelens.model import Outcome, Patch, Verification

Standing = Literal["proved", "other", "nothing", "undecided", "refused"]
_STANDINGS: dict[Outcome, Standing] = {
    "faster": "proved",
    "no change": "nothing",
    "slower": "refused",
    "different numbers": "refused",
    "failed": "refused",
    "inconclusive": "undecided",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    standing: Standing
    reason: str


def judge(trial: Verification, patch: Patch) -> Judgement:
    """`patch` with its unproved hunks marked by the trials of its Run."""
    standing = _STANDINGS[trial.outcome]
    if standing != "proved":
        return Judgement(standing, trial.verdict)
    if patch.unsafe:
        return Judgement("other", trial.verdict)
    if trial.numbers_equal is not True:
        return Judgement("undecided", trial.verdict)
    if patch.unchecked:
        why = patch.unchecked_because or say("nothing has checked it")
        return Judgement(
            "undecided",
            say("{location} is not proved to keep the results: {why}", location=patch.unchecked[0].location, why=why),
        )
    return Judgement("proved", trial.verdict)
