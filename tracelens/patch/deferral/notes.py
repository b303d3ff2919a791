"""What a plan says of itself beside what it does: which moments change, and which stay.

In: a `Deferral`. Out: sentences without a full stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.patch.deferral.planning import Deferral


def told(deferral: Deferral) -> Iterator[str]:
    """The sentences."""
    looks = deferral.looks
    if looks is not None:
        yield say(
            "all that waits runs before `{function}` ({place}) shows it, so its lines stay the same",
            function=looks.function,
            place=looks.place,
        )
        yield say(
            "times and GPU memory that `{function}` itself measures are those of a host that runs ahead",
            function=looks.function,
        )
    places = deferral.places
    if places.single and places.shown and all(place.before for place in places.shown):
        yield say("in a batch that is shown a measured time holds its own wait, in others that of several ones or none")
    elif places.measured and places.single:
        yield say(
            "one measured time holds the wait for several batches and others none; that for the last ones is in no time"
        )
