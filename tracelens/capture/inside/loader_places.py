"""Notes at which line of the user's code each DataLoader is made, so that a patch can change its arguments.

In: `DataLoader.__init__`, from when torch was imported on. Out: the line of an iterator's loader. A loader that a
framework makes anew from one of the user's keeps its sampler, and so the user's line.
"""

from __future__ import annotations

import functools
import linecache
import sys
import weakref
from typing import Any

from torch.utils.data import DataLoader

from tracelens.capture.inside import user_frames
from tracelens.capture.inside.user_frames import Place
from tracelens.launch.inside import dynamo_skip

MOST_PLACES = 64
"""Loaders that are remembered; a script that makes one per epoch makes all at the same line."""
_places: dict[int, tuple[weakref.ref[Any], Place]] = {}
"""By identity of what gives the loader its indices: loader and iterator both hold it, and neither knows the other."""


def install() -> None:
    """Note each loader from here on; does nothing the second time."""
    original = DataLoader.__init__
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def noted_init(loader: Any, *args: Any, **kwargs: Any) -> None:
        original(loader, *args, **kwargs)
        place = user_frames.innermost(sys._getframe(1))
        if place is not None and "DataLoader" in linecache.getline(place[0], place[1]):  # not a subclass's `super()`
            _note(loader, place)

    dynamo_skip.skip_frames(noted_init)
    DataLoader.__init__ = noted_init


def of_iterator(iterator: Any) -> Place | None:
    """The line at which the loader of this iterator was made; None where it is not known."""
    indices = getattr(iterator, "_index_sampler", None)
    reference, place = _places.get(id(indices), (None, None))
    return place if reference is not None and reference() is indices else None


def _note(loader: Any, place: Place) -> None:
    indices = getattr(loader, "_index_sampler", None)
    known = _places.get(id(indices))
    if known is not None and known[0]() is indices:
        return
    if known is None and len(_places) >= MOST_PLACES:
        del _places[next(iter(_places))]
    try:
        _places[id(indices)] = weakref.ref(indices), place
    except TypeError:  # a sampler of the user's that is a tuple, say
        return
