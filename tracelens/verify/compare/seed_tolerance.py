"""For numbers that change on purpose: whether the loss stays within the noise that other seeds make in the original.

In: the losses of the original under several seeds, and those of the patched version. Out: a `SeedTolerance`. A change
that moves a random draw or the order of a sum cannot give equal bits; it is compared with what the original does when
only the seed changes. Losses are averaged over blocks of steps; a block's band is the interval in which another run of
the original lies in 95 of 100 cases.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tracelens.messages import say
from tracelens.verify.compare.times import T95

MOST_OUTSIDE = 0.25
"""Share of blocks that may lie outside: 5 % are expected, but neighboring blocks are correlated."""
TAIL_SHARE = 0.25
"""The last quarter of the curve is judged by itself: where the loss ends matters most."""
LEAST_BLOCKS = 4
"""Fewer blocks give no verdict."""

Numerics = Literal["within seed noise", "diverges"]


@dataclass(frozen=True, slots=True)
class LossCurve:
    """One loss of the step (a GAN has two): per block the band's ends and the patched mean."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    patched: tuple[float, ...]
    outside: float
    """Share of the blocks that lie outside."""
    tail: tuple[float, float, float]
    """Of the last quarter: the band's low and high end, and the patched mean."""

    @property
    def diverges(self) -> bool:
        return self.outside > MOST_OUTSIDE or not _inside(*self.tail)


@dataclass(frozen=True, slots=True)
class SeedTolerance:
    """The verdict over all loss curves; None where there is none, then `reason` says why."""

    seeds: int
    verdict: Numerics | None = None
    curves: tuple[LossCurve, ...] = ()
    reason: str | None = None

    @property
    def shown(self) -> LossCurve | None:
        """The curve that a sentence quotes: one that diverges, else the first."""
        return next((curve for curve in self.curves if curve.diverges), self.curves[0] if self.curves else None)

    def document(self) -> dict[str, Any]:
        """As verify.json stores it. What is not finite is text there."""
        curves = [
            {
                "low": _plain(curve.low),
                "high": _plain(curve.high),
                "patched": _plain(curve.patched),
                "outside_share": curve.outside,
                "tail": dict(zip(("low", "high", "patched"), _plain(curve.tail), strict=True)),
            }
            for curve in self.curves
        ]
        return {"verdict": self.verdict, "seeds": self.seeds, "curves": curves, "reason": self.reason}


def judge(originals: Sequence[Sequence[float]], patched: Sequence[float], steps: int, block: int) -> SeedTolerance:
    """Compare one sequence of losses with those of the original under `len(originals)` seeds."""
    seeds = len(originals)
    length = min(map(len, (*originals, patched)))
    per_step = length // steps if steps and length % steps == 0 else 1
    blocks = length // per_step // block if per_step else 0
    if blocks < LEAST_BLOCKS:
        return SeedTolerance(
            seeds,
            reason=say(
                "{length} losses are too few for a curve in blocks of {block} steps", length=length, block=block
            ),
        )
    curves = []
    for offset in range(per_step):
        tracks = [_blocks(losses[offset:length:per_step], block) for losses in (*originals, patched)]
        if all(track == tracks[0] for track in tracks[1:seeds]):
            continue  # no noise to compare with: a constant, or a script whose generators we cannot reach
        curves.append(_curve(tracks[:-1], tracks[-1]))
    if not curves:
        return SeedTolerance(
            seeds, reason=say("the seeds change nothing: the script makes its random numbers in a way of its own")
        )
    return SeedTolerance(
        seeds, "diverges" if any(curve.diverges for curve in curves) else "within seed noise", tuple(curves)
    )


def losses_of(rank: Mapping[str, Any]) -> list[float]:
    """The single numbers that backward started from, in order."""
    entries = [entry for entry in rank.get("losses", ()) if math.prod(entry["shape"]) == 1 and entry.get("first")]
    return [float(entry["first"][0]) for entry in entries]


def _blocks(values: Sequence[float], block: int) -> tuple[float, ...]:
    return tuple(statistics.fmean(values[i : i + block]) for i in range(0, len(values) - block + 1, block))


def _curve(tracks: Sequence[tuple[float, ...]], patched: tuple[float, ...]) -> LossCurve:
    columns = list(zip(*tracks, strict=True))
    variances = [statistics.variance(column) if all(map(math.isfinite, column)) else math.inf for column in columns]
    ends = []
    for index, column in enumerate(columns):
        # A variance of three values is itself a guess: the neighboring blocks' make it steadier
        near = [value for value in variances[max(0, index - 1) : index + 2] if math.isfinite(value)]
        ends.append(_ends(column, statistics.fmean(near) if math.isfinite(variances[index]) else math.inf))
    outside = sum(not _inside(low, high, value) for (low, high), value in zip(ends, patched, strict=True))
    size = max(1, round(len(columns) * TAIL_SHARE))
    tails = [statistics.fmean(track[-size:]) for track in tracks]
    spread = statistics.variance(tails) if all(map(math.isfinite, tails)) else math.inf
    tail = (*_ends(tails, spread), statistics.fmean(patched[-size:]))
    low, high = zip(*ends, strict=True)
    return LossCurve(low, high, patched, outside / len(columns), tail)


def _ends(values: Sequence[float], variance: float) -> tuple[float, float]:
    """The interval of the next value in 95 of 100 cases; unbounded where the original is not finite."""
    if not math.isfinite(variance):
        return -math.inf, math.inf
    count = len(values)
    half = T95[min(count - 1, len(T95)) - 1] * math.sqrt(variance * (1 + 1 / count))
    center = statistics.fmean(values)
    return center - half, center + half


def _inside(low: float, high: float, value: float) -> bool:
    """Everything is inside an unbounded interval; a NaN is outside of any other."""
    return low == -math.inf or low <= value <= high


def _plain(values: Sequence[float]) -> list[float | str]:
    return [value if math.isfinite(value) else str(value) for value in values]
