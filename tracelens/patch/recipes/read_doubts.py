"""What is not known of reads that wait, as sentences.

In: a plan and its form without a helper, if it has one. Out: what of the project is not known, what is gone where an
exception ends the loop, and what is only likely. Apart because a person decides by these words.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracelens.messages import say
from tracelens.patch.code.outside import FILES, OUTPUT
from tracelens.patch.deferral.plain_plan import PlainPlan
from tracelens.patch.deferral.planning import Deferral


def unproved(deferral: Deferral, reads: PlainPlan | None, interval: int) -> Iterator[str]:
    """What of the project is not known, what is gone where an exception ends the loop, and what is only likely."""
    if deferral.unproved:
        yield deferral.unproved
    if reads is None:
        return
    last = say("of the last {interval} batches at most", interval=interval - 1)
    names = ", ".join(f"`{name}`" for name in sorted(reads.lost - {OUTPUT, FILES}))
    if reads.lost & {OUTPUT, FILES}:
        yield say("where an exception or a signal ends the loop, lines {last} are not written", last=last)
    elif names:
        yield say(
            "where an exception or a signal ends the loop, {names} lacks the values {last}", names=names, last=last
        )
    for value in reads.assumed:
        yield say("`{value}` is taken for a tensor", value=value)
    for value in reads.numbers:
        yield say("`{value}` is taken for a number or a text", value=value)
    for rate in reads.rates:
        yield say("`{rate}` is taken for a number, which it is unless the optimizer keeps it in a tensor", rate=rate)
