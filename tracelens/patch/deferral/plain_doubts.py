"""What is not proved of reads that wait, as sentences without a full stop.

In: their plan, and its form in plain lines where it has one. Out: what of the project is not known, what is gone where
an exception ends the loop, and what is only likely of the values. Apart because a form in plain lines has nobody to
look at values while the script runs: what the helpers would ask then is told here.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracelens.messages import say
from tracelens.patch.code.outside import FILES, OUTPUT
from tracelens.patch.deferral import bar_texts
from tracelens.patch.deferral.helper_place import unsure
from tracelens.patch.deferral.plain_plan import PlainPlan
from tracelens.patch.deferral.planning import Deferral
from tracelens.patch.loop.bars import moves_bar


def doubts(deferral: Deferral, reads: PlainPlan | None, interval: int) -> Iterator[str]:
    """What of the project is not known, what is gone where an exception ends the loop, and what is only likely."""
    if deferral.unproved:
        yield deferral.unproved
    moved = (statement for run in deferral.runs for statement in run.statements)
    if deferral.facts.reached is None and any(moves_bar(deferral.facts, statement) for statement in moved):
        yield say("a progress bar shows its text some batches late, or moves several batches at a time")
    shows = bar_texts.shows_text(deferral)
    if shows and deferral.bar is not None and deferral.bar.assumed:
        yield say("`{total}` is taken for the number of batches", total=deferral.bar.assumed)
    if reads is None:
        if place := unsure(deferral.facts.source):
            yield place
        if shows:  # an exception of the loader has closed it when what waits is read
            yield say("where an exception or a signal ends the loop, the bar keeps the text of a batch before, or none")
        return
    if reads.texts:
        yield say("the bar shows a new text every {interval} batches and in the last one", interval=interval)
    last = say("of the last {interval} batches at most", interval=interval - 1)
    if reads.below_conditions:
        last = say("of the last {interval} times at most", interval=interval - 1)
    names = ", ".join(f"`{name}`" for name in sorted(reads.lost - {OUTPUT, FILES}))
    if reads.lost & {OUTPUT, FILES}:
        yield say("where an exception or a signal ends the loop, lines and results {last} are missing", last=last)
    elif names:
        yield say(
            "where an exception or a signal ends the loop, {names} lacks the values {last}", names=names, last=last
        )
    yield from _of_values(reads)


def _of_values(reads: PlainPlan) -> Iterator[str]:
    """What values are taken for."""
    for value in reads.whole:
        yield say("all of `{value}` is kept on the GPU until then, however large it is", value=value)
    for value in reads.assumed:
        yield say("`{value}` is taken for a tensor", value=value)
    for value in reads.unchanged:
        yield say("`{value}` is taken for one that the training step does not write into", value=value)
    for value in reads.numbers:
        yield say("`{value}` is taken for a number or a text", value=value)
    for rate in reads.rates:
        yield say("`{rate}` is taken for a number, which it is unless the optimizer keeps it in a tensor", rate=rate)
