"""HolisticTraceAnalysis (HTA) asked about a recording: its own numbers, and ours by its definitions on the same rows.

In: a Timeline. Out: a `SecondOpinion`. HTA is imported here and nowhere before; whatever it raises becomes a note,
because a second opinion that fails must not cost the first.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Any

import pandas as pd

from tracelens.errors import TracelensError
from tracelens.messages import say
from tracelens.model import Timeline
from tracelens.model.second_opinion import ComparedQuantity, SecondOpinion
from tracelens.trace import hta_bridge, hta_measures

NO_ANSWER = say("HTA gives no answer here")
CAUSES = {"host_wait": say("waiting for the host"), "kernel_wait": say("between two kernels"), "other": "other"}
_TEMPORAL = (("span", "kernel_time"), ("idle", "idle_time"), ("compute", "compute_time"), ("rest", "non_compute_time"))
_NAMES = {
    "span": say("from the first operation to the last"),
    "idle": say("GPU idle"),
    "compute": say("GPU computes"),
    "rest": say("GPU only copies or communicates"),
}
Answers = dict[str, float]


def ask(picture: Timeline) -> SecondOpinion:
    """All answers; each that HTA cannot give is a row without its number, and a note."""
    asked = _Asked(picture)
    quantities = (*_temporal(asked, picture), *_idle(asked, picture), *_overlap(asked, picture))
    return SecondOpinion("HTA", asked.version, quantities, (*_differences(quantities, picture), *asked.failures))


class _Asked:
    """HTA over one trace, and what it raised."""

    def __init__(self, picture: Timeline) -> None:
        self.failures: dict[str, None] = {}
        self.version = "unknown"
        self.rank = picture.trace.rank or 0
        self._facade = self._try("reading", lambda: hta_bridge.analysis(picture.trace, include_last_step=True))
        if self._facade is not None:
            import hta.version

            self.version = ".".join(map(str, hta.version.__version_tuple__))
            self._critical_path(picture)

    def answer(self, what: str, question: Callable[[Any], Any]) -> Any:
        """None where HTA could not read the trace, or raised."""
        facade = self._facade
        return None if facade is None else self._try(what, lambda: question(facade))

    def _critical_path(self, picture: Timeline) -> None:
        if any("ProfilerStep" in name for name in picture.trace.names):
            self.answer(say("critical path"), lambda hta: hta.critical_path_analysis(self.rank, "ProfilerStep", 0))
        else:
            self.failures[say("its critical path needs ProfilerStep marks, which this recording does not have")] = None

    def _try(self, what: str, question: Callable[[], Any]) -> Any:
        try:
            with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                return question()
        except TracelensError as error:
            self.failures[error.message] = None
        except Exception as error:  # noqa: BLE001 - a third party's code on anybody's trace may raise anything
            first = (str(error).splitlines() or [""])[0][:80]
            self.failures[f"{NO_ANSWER} ({what}): {type(error).__name__}{f': {first}' if first else ''}"] = None
        return None


def _rows(picture: Timeline) -> pd.DataFrame:
    """The GPU operations that HTA looks at: with step marks, those whose launch it saw."""
    ops = picture.ops()
    marked = len({name for name in picture.trace.names if "ProfilerStep" in name}) >= 2
    return ops[(ops["call"] >= 0).to_numpy()] if marked else ops


def _temporal(asked: _Asked, picture: Timeline) -> Iterator[ComparedQuantity]:
    row = asked.answer(say("temporal breakdown"), lambda hta: hta.get_temporal_breakdown(visualize=False).iloc[0])
    theirs: Answers = {} if row is None else {key: float(row[f"{word}(us)"]) / 1000 for key, word in _TEMPORAL}
    mine = hta_measures.temporal(_rows(picture))
    values = (mine.span_ns, mine.idle_ns, mine.compute_ns, mine.non_compute_ns)
    for (key, _), ns in zip(_TEMPORAL, values, strict=True):
        yield ComparedQuantity(_NAMES[key], "ms", theirs.get(key), ns / 1e6 if mine.span_ns else None)


def _idle(asked: _Asked, picture: Timeline) -> Iterator[ComparedQuantity]:
    """Idle time by its cause, each stream taken alone."""
    ranks = [asked.rank]
    rows = asked.answer(say("idle breakdown"), lambda hta: hta.get_idle_time_breakdown(ranks=ranks, visualize=False)[0])
    theirs = (
        {}
        if rows is None
        else {str(k): float(v) / 1000 for k, v in rows.groupby("idle_category")["idle_time"].sum().items()}
    )
    operations = _rows(picture)
    mine: Answers = {}
    if not operations.empty:
        found = hta_measures.idle_by_stream(operations, picture.calls())
        mine = {str(k): float(v) / 1e6 for k, v in found.groupby("cause", observed=False)["idle_ns"].sum().items()}
    for cause, said in CAUSES.items():
        value = float(mine.get(cause, 0.0)) if mine else None
        other = float(theirs.get(cause, 0.0)) if theirs else None
        if value or other:
            yield ComparedQuantity(say("streams idle, {said}", said=said), "ms", other, value)


def _overlap(asked: _Asked, picture: Timeline) -> Iterator[ComparedQuantity]:
    share = hta_measures.communication_overlap(_rows(picture))
    if share is None:
        return
    row = asked.answer(say("communication overlap"), lambda hta: hta.get_comm_comp_overlap(visualize=False).iloc[0])
    value = None if row is None else float(row["comp_comm_overlap_pctg"])
    yield ComparedQuantity(
        say("communication under computation"), "%", None if value is None or math.isnan(value) else value, 100 * share
    )


def _differences(quantities: tuple[ComparedQuantity, ...], picture: Timeline) -> Iterator[str]:
    """The known defects of HTA that are at work where a number differs."""
    if not any(quantity.agrees is False for quantity in quantities):
        return
    yield say("known of HTA: it rounds every start up and every end down to a microsecond: short kernels lose time")
    if "cuda_sync" in picture.trace.categories:
        yield say("known of HTA: it counts the rows of synchronizations on a stream as work of the GPU")
    if picture.ops()["stream"].nunique() > 1:
        yield say("known of HTA: it takes each stream alone: their idle times add up to more than the GPU's")
