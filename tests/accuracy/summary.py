"""The first screen of docs/accuracy.md, and what is said of its results: every number is computed.

In: raw rows and judged ones. Out: Markdown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.accuracy import noise, targets
from tests.accuracy.judge import Judged, Pair
from tests.accuracy.stats import median
from tests.accuracy.targets import MET, MISSED, errors, every, large, loop, measurable, ninetieth, percent
from tracelens.replay.trace_builder import MOST_ERROR
from tracelens.schemes import rules as rule_files

GIVES_UP = 0.02
"""A recommended version that loses more than this to the fastest measured one is worth a word."""

READING = """\
*held out* counts the pairs whose measurement is good to ±3 %, and whether the target is met there; the next column counts every held-out pair, however much its processes scatter.
"""


def opening(documents: list[dict[str, Any]], held: list[Judged], tuning: list[Judged]) -> str:
    name, version = cards(documents), documents[0]["environment"].get("torch")
    rows = held + tuning
    loops = {loop(row) for row in rows}
    parts = (
        "# Predicted and measured\n",
        "<!-- made by tests/accuracy/table.py from docs/data/accuracy; edit those, not this page -->\n",
        "Before a line of a training loop is changed, TraceLens says what its step time would be. This page holds such predictions, written to disk first, against what the patched loops then took: "
        f"{len(loops)} loops at {len(rows)} sizes ({name}; torch {version}). {len({loop(row) for row in held})} of the loops were held out: no number of the model was fitted to them.\n",
        "**What you can rely on**\n",
        *_reliable(held),
        "\n**What you cannot**\n",
        *_unreliable(held, tuning),
        "\n" + _verdicts(held),
    )
    return "\n".join(parts)


def cards(documents: list[dict[str, Any]]) -> str:
    """`NVIDIA H200: 22 rows, NVIDIA H100 80GB HBM3: 9 rows`."""
    counts = Counter(str((document["environment"].get("gpus") or ["GPU"])[0]) for document in documents)
    return ", ".join(f"{card}: {count} rows" for card, count in counts.most_common())


def _reliable(held: list[Judged]) -> list[str]:
    pairs, total = measurable(held), every(held)
    found, gained = errors(pairs), large(pairs)
    worst = max(pairs, key=lambda pair: abs(pair.error))
    own, (low, high) = noise.net(held), noise.interval(held)
    simple = min((other.own, name) for name in targets.predictors(total) if (other := noise.net(held, name)))
    whole = [row for row in held if row.pairs and row.sure_regret is not None]
    wrong = sum(pair.wrong_sign for pair in pairs)
    empty = sum(pair.false_promise for pair in pairs)
    return [
        f"- *The step time of a patched loop that repeats itself from process to process.* {len(pairs)} of {len(total)} held-out pairs (of {len({pair.row for pair in pairs})} rows) could be measured to ±3 %; there the prediction was off by "
        f"{percent(median(found))} in the median, {percent(ninetieth(found))} at the 90th percentile, {percent(max(found))} at worst ({worst.row}, {worst.schemes[0]}). {len(gained)} of them gained more than 3 %, up to {percent(max(pair.gain for pair in pairs), 0)}.",
        f"- *The direction.* There, {wrong} wrong signs beyond noise and {empty} false promises in {len(pairs)} pairs; over all {len(total)}, {sum(p.wrong_sign for p in total)} and {sum(p.false_promise for p in total)} "
        f"({sum(p.sure_false_promise for p in total)} of them beyond noise).",
        f"- *The change.* Over all {len(total)} held-out pairs of {len({pair.row for pair in total})} rows, measurable or not, and with the scatter of the measurement taken out, the predicted change is off by {percent(own.own if own else 0.0)} (root mean "
        f"square; 95 % interval {percent(low)}–{percent(high)}). The best of the simple predictors below ({simple[1]}) is off by {percent(simple[0])}.",
        f"- *The choice.* In {sum(row.fastest_regret is not None and row.fastest_regret <= 0.02 for row in whole)} of {len(whole)} held-out rows the version predicted fastest is within 2 % of the best one measured; "
        f"beyond both intervals, in {sum((row.sure_regret or 0.0) <= 0.02 for row in whole)} of {len(whole)}.",
    ]


def _unreliable(held: list[Judged], tuning: list[Judged]) -> list[str]:
    total = every(held)
    middle = errors(total, middle=True)
    drifts = [abs(row.base.step / row.unprofiled - 1) for row in held if row.unprofiled and row.refused is None]
    refused = [row for row in held + tuning if row.refused]
    inside = sum(pair.inside for pair in total) / len(total)
    names = ", ".join(row.name for row in refused)
    return [
        f"- *A host-bound loop's step time in milliseconds.* The same loop, unchanged, took {percent(median(drifts))} more or less than in its recording in the median of the rows and {percent(max(drifts))} at worst; a prediction made from one "
        f"recording cannot be expected to come nearer. Over all {len(total)} held-out pairs, from the middle of each measurement: {percent(median(middle))} in the median, {percent(ninetieth(middle))} at the 90th percentile.",
        f"- *The 80 % range as 80 %.* It held {percent(inside, 0)} of all held-out measurements and {percent(sum(p.inside for p in measurable(held)) / len(measurable(held)), 0)} of the measurable ones: it allows for what a loop does from one process "
        "to the next, which was more on this machine for loops bound by the host, and less for the others. "
        f"As a range of the change (patched ÷ base) it held {percent(sum(p.change_inside for p in total) / len(total), 0)} of all. [The ranges](#the-ranges) says what another rule would hold.",
        f"- *Competition between kernels of several streams.* Kernel times are kept as recorded. Where the replay of the recorded steps is then off by more than {percent(MOST_ERROR, 0)}, it refuses"
        + (f" ({names})." if refused else "."),
        "- *What workers could deliver.* A loop that never waits for its loader does not show how much faster the loader could be. A recording by `tracelens profile` notes the CPU time that the workers spend on a batch, and no step is predicted to be shorter than that allows; time that they spend elsewhere (a disk, a network) is not in it. The older recordings of this page do not have it. "
        "For a loop that does wait, the Edit for more workers has a bound: they share the work evenly, count only as far as there are cores beside the training thread's, and deliver no faster than the main thread takes batches over and a pin thread copies them.",
        "- *Waits between streams.* On CUDA 12.9 and newer a trace does not say which event a stream waits for. A recording by `tracelens profile` notes the events that the loop's own Python records and waits for, and those waits are resolved. For the others (events of C++ code, traces made elsewhere) the replay takes the record that the waiting stream's next kernel followed most closely, and refuses where that does not reproduce the recorded steps.",
    ]


def _verdicts(held: list[Judged]) -> str:
    found = targets.verdicts(held)
    missed = "; ".join(found[MISSED])
    said = (
        f"Of {len(found[MET]) + len(found[MISSED])} targets, {len(found[MET])} are met on the measurable held-out pairs"
    )
    return said + (f". Missed: {missed}.\n" if missed else ".\n")


def sizes(rows: list[Judged]) -> str:
    """How many loops at how many sizes, and how different they are."""
    count: dict[str, int] = {}
    for row in rows:
        count[loop(row)] = count.get(loop(row), 0) + 1
    several = [name for name, number in count.items() if number >= 2]
    single = [name for name, number in count.items() if number < 2]
    idle = sorted(row.idle for row in rows if row.idle is not None)
    verdict = MET if len(several) >= 12 else MISSED
    return (
        f"Loops at two sizes or more: {len(several)} (wanted: 12 or more; {verdict}){'; at one: ' + ', '.join(single) if single else ''}. While recorded, their GPUs idle {percent(idle[0], 0)} to {percent(idle[-1], 0)} of the step "
        f"(median {percent(median(idle), 0)}): from bound by the GPU to bound by the host. {len(targets.without_gain(every(rows)))} of {len(every(rows))} pairs gain nothing that could be told from none.\n"
    )


def bound(pairs: list[Pair]) -> str:
    """Whether the bound alone would do."""
    if not pairs:
        return ""
    ours, theirs = errors(pairs), errors(pairs, "the bound alone")
    nearer = sum(b <= a for a, b in zip(ours, theirs, strict=True))
    within = sum(b <= 0.03 for b in theirs)
    does = median(theirs) <= max(median(ours), 0.005) and ninetieth(theirs) <= max(ninetieth(ours), 0.005)
    verdict = (
        "The bound alone does as well as the replay on these pairs."
        if does
        else "The bound alone does not do as well as the replay on these pairs."
    )
    return (
        f"{verdict} It is as near or nearer on {nearer} of {len(pairs)} and within 3 % on {within}; "
        f"at the 90th percentile it is off by {percent(ninetieth(theirs))}, the replay by {percent(ninetieth(ours))}. It leaves out every wait of one limit for another, so where it errs it promises too much.\n"
    )


def choice(rows: list[Judged]) -> str:
    """What the weighted winner gives up, and why it is another one than the fastest."""
    rules = rule_files.load(None, None)
    full, best = rules.scales["performance"].points[-1]
    judged = [row for row in rows if row.pairs and row.refused is None and row.winner_sure_regret is not None]
    costly = sorted((row for row in judged if _given_up(row) > GIVES_UP), key=lambda row: -_given_up(row))
    parts = [
        f"`tracelens` recommends the scheme with the best weighted total, not the fastest one: performance is {rules.weights['performance']:g} % of it, the rest asks how much code changes, how hard it is to read and what could break. "
        f"In {len(judged) - len(costly)} of {len(judged)} rows, tuning rows included, that gives up no more than {percent(GIVES_UP, 0)} of the best measured step beyond both intervals."
    ]
    capped = [row for row in costly if row.recommended and row.predicted_gains.get(row.recommended, 0.0) >= full]
    if capped:
        row = capped[0]
        fastest = max(row.predicted_gains, key=lambda name: row.predicted_gains[name])
        parts.append(
            f"The most it gives up on purpose is {percent(row.winner_regret or 0.0)} ({row.name}; {percent(_given_up(row))} for certain): `{row.recommended}` was predicted to make training {row.predicted_gains[row.recommended or '']:.0f} % faster, "
            f"`{fastest}` {row.predicted_gains[fastest]:.0f} %. Both get {best:g} points of 10 for performance, because the seeds' scale, made from gains of 3–15 %, ends at {full:g} %: above it the score no longer sees a difference, and the smaller "
            f"patch wins. That is so in {len(capped)} of the {len(costly)} rows where more than {percent(GIVES_UP, 0)} is given up. It is sensible as long as a gain beyond {full:g} % is not worth another "
            "changed line, and wrong for a long training run. The verdict names the fastest scheme and its gain beside the recommended one for that reason; `--weights performance=100` asks for speed alone where the scores differ, and "
            "`--scheme NAME` takes the fastest."
        )
    refused = [row for row in costly if not row.recommended]
    if refused:
        names = ", ".join(f"{row.name} ({percent(_given_up(row))})" for row in refused)
        parts.append(f"Nothing was recommended, and something would have helped for certain: {names}.")
    return "\n\n".join(parts) + "\n"


def _given_up(row: Judged) -> float:
    return row.winner_sure_regret or 0.0
