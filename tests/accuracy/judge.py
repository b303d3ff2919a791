"""Raw rows → pairs of one prediction and one measurement, with everything that the table says of them.

In: a row's JSON as `measure.py` wrote it. Out: `Judged`. A pair is one distinct patched version: schemes that make the
same code are one pair. Times are µs per step. For tuning rows the prediction is that of the tuned model (`again`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accuracy.stats import center, half_width, interval, median

WIDE = 0.03
"""A measurement whose 95 % half-width is above 3 % supports no statement about errors of that size."""
FEWEST = 3
NOTHING = 0.02
RECOMMENDED = "recommended"


@dataclass(frozen=True)
class Measured:
    """One version's processes: the middle, the 95 % interval, how many."""

    step: float
    low: float
    high: float
    processes: int
    half_width: float


@dataclass(frozen=True)
class Pair:
    """One prediction against one measurement."""

    row: str
    schemes: tuple[str, ...]
    base: Measured
    measured: Measured
    base_predicted: float
    predicted: float
    low: float
    high: float
    ratio: Measured
    """Patched ÷ base, by interleaved pairs."""
    simple: dict[str, float]

    @property
    def measurable(self) -> bool:
        enough = min(self.base.processes, self.measured.processes) >= FEWEST
        return enough and max(self.base.half_width, self.measured.half_width) <= WIDE

    @property
    def gain(self) -> float:
        """Measured, as a share of the base step."""
        return 1 - self.ratio.step

    @property
    def predicted_gain(self) -> float:
        return 1 - self.predicted / self.base_predicted

    @property
    def error(self) -> float:
        """From the nearer end of the measured interval; 0 inside of it."""
        return beyond(self.predicted, self.measured)

    @property
    def raw_error(self) -> float:
        return self.predicted / self.measured.step - 1

    @property
    def change_error(self) -> float:
        """The same of the ratio patched ÷ base: the loop's own drift between processes left out."""
        return beyond(self.predicted / self.base_predicted, self.ratio)

    @property
    def inside(self) -> bool:
        """The measurement lies in the predicted 80 % range."""
        return self.low <= self.measured.step <= self.high

    @property
    def wrong_sign(self) -> bool:
        """One says faster by at least 1 %, the other says slower, and not by noise."""
        promised, slowed = self.predicted_gain > 0.01, self.ratio.low > 1
        warned, sped = self.predicted_gain < -0.01, self.ratio.high < 1
        return (promised and slowed) or (warned and sped)

    @property
    def false_promise(self) -> bool:
        return self.predicted_gain > 0.02 and self.gain < 0.01


@dataclass(frozen=True)
class Judged:
    """One row."""

    name: str
    tuning: bool
    profiled: float | None
    unprofiled: float | None
    base: Measured
    base_error: float | None
    """Replay of the recorded steps against the recorded steps."""
    anchor_error: float | None
    """Replay without the profiler's cost against the unprofiled step."""
    pairs: tuple[Pair, ...]
    refused: str | None
    fastest_regret: float | None
    """Measured time of the version predicted fastest, over the best measured one."""
    winner_regret: float | None
    """The same for the recommended version (nothing, where none was recommended)."""


def beyond(predicted: float, measured: Measured) -> float:
    if measured.low <= predicted <= measured.high:
        return 0.0
    nearer = measured.low if predicted < measured.low else measured.high
    return predicted / nearer - 1


def judged(document: dict[str, Any]) -> Judged:
    """Everything that one row says."""
    prediction = document.get("again") if document["tuning"] else None
    prediction = prediction or document["prediction"]
    base = prediction["base"]
    times = {version: _medians(document, version) for version in ("base", *document["versions"])}
    measured = {version: summed_up(values) for version, values in times.items() if values}
    pairs = tuple(
        _pair(document["row"], version, prediction, measured, times)
        for version in document["versions"]
        if _schemes(prediction, version) and times[version]
    )
    return Judged(
        name=document["row"],
        tuning=document["tuning"],
        profiled=base.get("recorded_us"),
        unprofiled=base.get("step_us"),
        base=measured["base"],
        base_error=base.get("error_recorded"),
        anchor_error=base.get("error_unprofiled"),
        pairs=pairs,
        refused=base["abstention"] or (None if pairs else _reason(prediction)),
        fastest_regret=_fastest(prediction, measured) if pairs else None,
        winner_regret=_winner(prediction, measured) if pairs else None,
    )


def summed_up(values: list[float]) -> Measured:
    low, high = interval(values)
    return Measured(center(values), low, high, len(values), half_width(values))


def _medians(document: dict[str, Any], version: str) -> list[float]:
    return [median(arm["block_us"]) for arm in document["arms"] if arm["version"] == version]


def _schemes(prediction: dict[str, Any], version: str) -> list[str]:
    """The schemes that make this version and have an estimate; the recommended one only where it stands alone."""
    names = [
        name
        for name, scheme in prediction["schemes"].items()
        if scheme.get("version") == version and "estimate" in scheme
    ]
    return [name for name in names if name != RECOMMENDED] or names


def _reason(prediction: dict[str, Any]) -> str:
    reasons = [scheme.get("reason") for scheme in prediction["schemes"].values() if scheme.get("reason")]
    return "; ".join(dict.fromkeys(str(reason) for reason in reasons)) or "nothing to predict"


def _pair(
    row: str,
    version: str,
    prediction: dict[str, Any],
    measured: dict[str, Measured],
    times: dict[str, list[float]],
) -> Pair:
    names = _schemes(prediction, version)
    scheme = prediction["schemes"][names[0]]
    estimate = scheme["estimate"]
    ratios = [after / before for after, before in zip(times[version], times["base"], strict=False)]
    return Pair(
        row=row,
        schemes=tuple(names),
        base=measured["base"],
        measured=measured[version],
        base_predicted=estimate["base_us"],
        predicted=estimate["step_us"],
        low=estimate["low_us"],
        high=estimate["high_us"],
        ratio=summed_up(ratios),
        simple=_simple(prediction["base"], scheme, estimate["base_us"]),
    )


def _simple(base: dict[str, Any], scheme: dict[str, Any], step: float) -> dict[str, float]:
    """What simpler predictors say of the same change."""
    waits = {f"s{number}": stall["wait_us"] for number, stall in enumerate(base["stalls"], start=1)}
    kept: dict[str, float] = {}
    for edit in scheme["edits"]:
        for stall in edit["stalls"]:
            share = 1 / edit["interval"] if edit["interval"] > 1 else 0.0
            kept[stall] = min(share, kept.get(stall, 1.0))
    removed = sum(waits.get(stall, 0.0) * (1 - share) for stall, share in kept.items())
    bound = max(scheme["bounds_us"].values())
    return {
        "no change": step,
        "step − summed sync": max(step - removed, 0.1 * step),
        "step − idle": step * (1 - (base["idle_share"] or 0.0)),
        "the bound alone": bound,
    }


def _fastest(prediction: dict[str, Any], measured: dict[str, Measured]) -> float:
    """A predicted gain below 2 % is called "nothing" by the program, and the loop is left as it is."""
    base = prediction["base"]["step_us"]
    candidates = [("base", base)]
    for scheme in prediction["schemes"].values():
        promised = scheme["estimate"]["step_us"] if "estimate" in scheme else base
        if scheme.get("version") in measured and promised < base * (1 - NOTHING):
            candidates.append((scheme["version"], promised))
    chosen = min(candidates, key=lambda candidate: candidate[1])[0]
    return measured[chosen].step / min(one.step for one in measured.values()) - 1


def _winner(prediction: dict[str, Any], measured: dict[str, Measured]) -> float:
    chosen = prediction["schemes"].get(RECOMMENDED, {}).get("version") or "base"
    return measured.get(chosen, measured["base"]).step / min(one.step for one in measured.values()) - 1
