"""Decides which calls of a training script end a training step: pure logic, without torch.

In: a stream of events (an optimizer's outermost `step()` returned, a backward returned, a DataLoader was asked for its
next batch). Out: for each, whether a step ends there. Separate from the hooks so that a test needs only a list of
letters.

The rule:
- The anchor is the least frequent optimizer (a GAN's generator, stepped once per three steps of the discriminator),
  that is the one with the longest gap between its exits; among equals the one that appeared last. Very rare ones are
  ignored, and so is one that is absent for more than twice its gap (a phase of the training that is over).
- Exits of the anchor without a backward since the last counted one belong to the same step (one call per parameter
  group, chained optimizers), unless the script never calls backward at all.
- Optimizers that step inside backward count once, when that backward returns.
- Without an optimizer a step ends where the DataLoader is asked for the next batch, without either where backward
  returns. The same holds where the optimizer is no longer called (the step was captured into a CUDA graph, or
  compiled as a whole).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sized
from dataclasses import dataclass
from typing import Literal

Source = Literal["optimizer", "dataloader", "backward"]

RECENT = 64
"""Exits that are kept to say what a step consists of; enough for several periods of any anchor."""
RAREST = 16
"""An optimizer stepped less than once per 16 exits is no anchor (an update of a temperature every 100 batches)."""
ABSENCE = 2
"""Gaps after which an optimizer counts as gone: one missing step may be a skipped one, two are a new phase."""
BATCHES_WITHOUT_BACKWARD = 8
"""An evaluation loop: nothing was differentiated in so many batches."""
BATCHES_OF_OWN_UPDATE = 8
"""An update written by hand: no optimizer was made in so many, so none accumulates."""
BATCHES_WITHOUT_OPTIMIZER = 64
"""Accumulation over more micro-batches than this before the first step of an optimizer is unusual."""
IN_BACKWARD = "optimizer in backward"


@dataclass
class _OptimizerExits:
    """When an optimizer's step returned, counted in exits of any optimizer."""

    order: int
    last: int
    gap: int


class StepRule:
    """Counts training steps; each method that reports an event returns whether it ends a step."""

    def __init__(self, optimizers: Sized = ()) -> None:
        """`optimizers`: what is known to have been made, while there is none no step of one is waited for long."""
        self._optimizers = optimizers
        self.count = 0
        self.source: Source | None = None
        self.anchor: Hashable | None = None
        self.restarted = False
        """The last step was counted by another anchor or source than the one before: no duration may span the two."""
        self._recent: deque[Hashable] = deque(maxlen=RECENT)
        self._exits = 0
        self._seen: dict[Hashable, _OptimizerExits] = {}
        self._backwards_since = 0
        self._backwards = 0
        self._backwards_alone = 0
        """Backwards since the last exit of any optimizer."""
        self._batches = 0
        """Batches asked for since the last exit of any optimizer."""
        self._only: Hashable = None
        """The only optimizer so far, the usual case; None once there are several."""

    def optimizer_ended(self, key: Hashable) -> bool:
        """The outermost `step()` of optimizer `key` returned, outside backward."""
        if key == self._only:
            self._exits += 1
            self._batches = self._backwards_alone = 0
        else:
            self._remember(key)
            if key != self._choose():
                return False
        if self._backwards and not self._backwards_since:
            return False
        return self._count("optimizer", key)

    def backward_ended(self, *, stepped_inside: bool) -> bool:
        """An outermost backward returned; `stepped_inside`: optimizers ran within it."""
        self._backwards += 1
        self._backwards_since += 1
        if stepped_inside:
            return self.optimizer_ended(IN_BACKWARD)
        self._backwards_alone += 1
        alone = not self._batches and self._backwards_alone > self._patience()
        return alone and self._count("backward", None)

    def batch_wanted(self) -> bool:
        """A DataLoader is asked for its next batch: ends the previous iteration where nothing else ends a step."""
        self._batches += 1
        return self._batches > self._patience() and self._count("dataloader", None)

    @property
    def trains(self) -> bool:
        """A backward ran, or an optimizer stepped."""
        return self._backwards > 0 or self._exits > 0

    @property
    def batches(self) -> int:
        """Batches that were asked for since the last optimizer's step."""
        return self._batches

    def fast_path_key(self) -> Hashable:
        """The one optimizer whose every step follows a backward and is a training step; None in any other loop."""
        plain = self.source == "optimizer" and self._only == self.anchor != IN_BACKWARD
        return self._only if plain and self._backwards and not self._backwards_since else None

    def catch_up(self, steps: int, repeats: int, *, backwards: int, batches: int) -> None:
        """Count what the fast path has seen: `steps` of that optimizer, and `repeats`, its calls that ended no step.

        `backwards` and `batches` came after the last of them.
        """
        self.count += steps
        self._exits += steps + repeats
        if steps:
            self.restarted = False
            self._backwards_since = self._backwards_alone = self._batches = 0
        self._backwards_since += backwards
        self._backwards_alone += backwards
        self._batches += batches

    def per_step(self) -> dict[Hashable, float]:
        """How often each optimizer of the recent past stepped per step of the anchor."""
        if self._only is not None:
            return {self._only: 1.0} if self.anchor == self._only else {}
        frequency = Counter(self._recent)
        base = frequency.get(self.anchor, 0)
        return {key: count / base for key, count in frequency.items()} if base else {}

    def _patience(self) -> int:
        """After how many batches or backwards without a step of an optimizer they count as steps themselves."""
        if not self.trains:
            return BATCHES_WITHOUT_BACKWARD
        return BATCHES_WITHOUT_OPTIMIZER if self._exits or self._optimizers else BATCHES_OF_OWN_UPDATE

    def _remember(self, key: Hashable) -> None:
        if self._only is not None:
            self._fill_history(self._only)
        self._only = None if self._seen else key
        self._exits += 1
        self._batches = 0
        self._backwards_alone = 0
        self._recent.append(key)
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = _OptimizerExits(order=len(self._seen), last=self._exits, gap=self._exits)
        else:
            seen.gap, seen.last = self._exits - seen.last, self._exits

    def _fill_history(self, only: Hashable) -> None:
        """A second optimizer has appeared: fill in the history that is not kept while there is only one."""
        seen = self._seen[only]
        if self._exits > seen.last:
            seen.gap, seen.last = 1, self._exits
        self._recent.extend([only] * min(RECENT, self._exits - len(self._recent)))

    def _choose(self) -> Hashable:
        if len(self._seen) == 1:
            return next(iter(self._seen))
        present = [
            (seen.gap, seen.order, key)
            for key, seen in self._seen.items()
            if seen.gap <= RAREST and self._exits - seen.last <= ABSENCE * seen.gap
        ]
        return max(present, key=lambda entry: entry[:2])[2] if present else None

    def _count(self, source: Source, anchor: Hashable | None) -> bool:
        self.restarted = source != self.source or anchor != self.anchor
        if self.restarted:
            self.source, self.anchor = source, anchor
        self._backwards_since = 0
        self.count += 1
        return True
