"""Raw rows → pairs of one prediction and one measurement, with everything that the table says of them.

In: a row's JSON as `measure.py` wrote it. Out: `Judged`. A pair is one distinct patched version: schemes that make the
same code are one pair. Times are µs per step. For tuning rows the prediction is that of the tuned model (`again`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tests.accuracy.stats import center, half_width, interval, median

WIDE = 0.03
"""A measurement whose 95 % half-width is above 3 % supports no statement about errors of that size."""
FEWEST = 3
NOTHING = 0.02
NO_GAIN = 0.01
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
    """Patched ÷ base of the same round: what drifts from round to round is left out."""
    simple: dict[str, float]

    @property
    def measurable(self) -> bool:
        enough = min(self.base.processes, self.measured.processes) >= FEWEST
        return enough and max(self.base.half_width, self.measured.half_width) <= WIDE

    @property
    def change_measurable(self) -> bool:
        """Less is asked: the change is known to ±3 %, whatever the step itself did from round to round."""
        return self.ratio.processes >= FEWEST and self.ratio.half_width <= WIDE

    @property
    def no_gain(self) -> bool:
        """Nothing was gained or lost that could be told from nothing."""
        return abs(self.gain) < NO_GAIN or self.ratio.low <= 1 <= self.ratio.high

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
    def change_inside(self) -> bool:
        """The measured change lies in the predicted range, taken as one of the change."""
        return self.low <= self.ratio.step * self.base_predicted <= self.high

    @property
    def wrong_sign(self) -> bool:
        """One says faster by at least 1 %, the other says slower, and not by noise."""
        promised, slowed = self.predicted_gain > 0.01, self.ratio.low > 1
        warned, sped = self.predicted_gain < -0.01, self.ratio.high < 1
        return (promised and slowed) or (warned and sped)

    @property
    def false_promise(self) -> bool:
        return self.predicted_gain > 0.02 and self.gain < 0.01

    @property
    def sure_false_promise(self) -> bool:
        """Even the better end of the measured interval gains too little."""
        return self.predicted_gain > 0.02 and 1 - self.ratio.low < 0.01


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
    sure_regret: float | None
    """What the version predicted fastest loses for certain: the lower end of its interval over the best one's upper."""
    winner_sure_regret: float | None
    """The same for the recommended version."""
    idle: float | None
    """How long the GPU idles in a recorded step of the loop as it is, as a share."""
    recommended: str | None
    fastest: str | None
    """The scheme predicted fastest; None where that is the loop as it is."""
    predicted_gains: dict[str, float]
    model: str | None
    base_now_error: float | None
    """Replay of the recorded steps by the model as it is now."""
    process_variance: float
    """Of the logarithm of a process's step, within versions."""


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
        _pair(document, version, prediction, measured)
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
        sure_regret=_sure(_predicted_fastest(prediction, measured)[1], measured) if pairs else None,
        winner_sure_regret=_sure(_recommended(prediction, measured), measured) if pairs else None,
        idle=base.get("idle_share"),
        recommended=document["prediction"].get("recommended"),
        fastest=_predicted_fastest(prediction, measured)[0] if pairs else None,
        predicted_gains=_gains(prediction),
        model=prediction.get("model"),
        base_now_error=(document.get("base_now") or document.get("again", {}).get("base", {})).get("error_recorded"),
        process_variance=_process_variance(times),
    )


def summed_up(values: list[float]) -> Measured:
    low, high = interval(values)
    return Measured(center(values), low, high, len(values), half_width(values))


def _medians(document: dict[str, Any], version: str) -> list[float]:
    return [median(arm["block_us"]) for arm in document["arms"] if arm["version"] == version]


def _process_variance(times: dict[str, list[float]]) -> float:
    squares, freedom = 0.0, 0
    for values in times.values():
        if values:
            logs = [math.log(value) for value in values]
            mean = sum(logs) / len(logs)
            squares += sum((value - mean) ** 2 for value in logs)
            freedom += len(logs) - 1
    return squares / freedom if freedom else 0.0


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


def _pair(document: dict[str, Any], version: str, prediction: dict[str, Any], measured: dict[str, Measured]) -> Pair:
    names = _schemes(prediction, version)
    scheme = prediction["schemes"][names[0]]
    estimate = scheme["estimate"]
    return Pair(
        row=document["row"],
        schemes=tuple(names),
        base=measured["base"],
        measured=measured[version],
        base_predicted=estimate["base_us"],
        predicted=estimate["step_us"],
        low=estimate["low_us"],
        high=estimate["high_us"],
        ratio=summed_up(_ratios(document, version)),
        simple=_simple(prediction["base"], scheme, estimate["base_us"]),
    )


def _ratios(document: dict[str, Any], version: str) -> list[float]:
    """Patched ÷ base, round by round; the base runs once or twice in a round."""
    rounds: dict[int, dict[str, list[float]]] = {}
    for arm in document["arms"]:
        rounds.setdefault(arm["rep"], {}).setdefault(arm["version"], []).append(median(arm["block_us"]))
    return [
        center(seen[version]) / center(seen["base"]) for seen in rounds.values() if "base" in seen and version in seen
    ]


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


def _predicted_fastest(prediction: dict[str, Any], measured: dict[str, Measured]) -> tuple[str | None, str]:
    """Scheme and version. A predicted gain below 2 % is called "nothing" by the program: the loop stays as it is."""
    base = prediction["base"]["step_us"]
    candidates: list[tuple[float, str | None, str]] = [(base, None, "base")]
    for name, scheme in prediction["schemes"].items():
        promised = scheme["estimate"]["step_us"] if "estimate" in scheme else base
        if scheme.get("version") in measured and promised < base * (1 - NOTHING):
            candidates.append((promised, name, scheme["version"]))
    _, name, version = min(candidates, key=lambda candidate: candidate[0])
    return name, version


def _fastest(prediction: dict[str, Any], measured: dict[str, Measured]) -> float:
    _, chosen = _predicted_fastest(prediction, measured)
    return measured[chosen].step / min(one.step for one in measured.values()) - 1


def _sure(chosen: str, measured: dict[str, Measured]) -> float:
    """What this version loses to the best one for certain."""
    best = min(measured.values(), key=lambda one: one.step)
    return max(0.0, measured[chosen].low / best.high - 1)


def _gains(prediction: dict[str, Any]) -> dict[str, float]:
    """Predicted gain in percent of training speed, as the program's score counts it, by scheme."""
    return {
        name: 100 * (scheme["estimate"]["base_us"] / scheme["estimate"]["step_us"] - 1)
        for name, scheme in prediction["schemes"].items()
        if "estimate" in scheme
    }


def _winner(prediction: dict[str, Any], measured: dict[str, Measured]) -> float:
    chosen = _recommended(prediction, measured)
    return measured[chosen].step / min(one.step for one in measured.values()) - 1


def _recommended(prediction: dict[str, Any], measured: dict[str, Measured]) -> str:
    """The recommended version; the loop as it is where none was recommended."""
    chosen = prediction["schemes"].get(RECOMMENDED, {}).get("version")
    return chosen if chosen in measured else "base"
