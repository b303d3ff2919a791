"""The words of docs/accuracy.md around its tables that say how things were done; numbers come from the raw files.

In: the rows. Out: Markdown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.accuracy.judge import judged
from tests.accuracy.stats import median

SIMPLE = """\
The same measurable held-out pairs, predicted by simpler means: nothing changes; the step less the host's waits that the Edits remove (less a share of 1/N where they are spaced out); the step less all GPU idle time;
the largest of the four limits (host, stream, copy, loader) that the replay itself works with.
"""

SIMPLE_ALL = """\
All held-out pairs, those included that scatter more, counted from the middle of the measurement; here the loop's own drift between the recording and the later processes is in every predictor's error:
"""

CHANGE = """\
Patched ÷ base within each round, the mean over the rounds with its interval: what drifts from one minute to the next cancels. It says whether the *change* was predicted, not the step time. Counted from the nearer end of the
interval, over every held-out pair whose ratio is known to ±3 %, measurable by the rule above or not:
"""

NOISE = """\
A measurement that scatters by 10 % says little about one prediction, and still something about a hundred of them: the mean square of the errors is the predictor's own plus the measurement's, and the second is known from how processes
of the same version differ. Errors of patched ÷ base here, as logarithms, of every held-out pair, a pair weighing the more the less its row scatters; the interval is from drawing rows anew:
"""

COLUMNS = """\
Times in ms per step. *base* is the unprofiled step of the recording, which predictions start from. ± unmeasurable, ! false promise, ↯ wrong sign. *error* is from the nearer end of the measured interval; *of the change*: the same
of patched ÷ base, ± where that scatters too much.
"""

CHOICE = """\
*replay* is the error of the replayed base against the recorded and the unprofiled step. The second is small by construction: one number, the profiler's cost per recorded row (or the host's pace), is fitted to it.
*measured later* is the same loop in the processes of the comparison. The last columns are measured times: of the version predicted fastest (of the loop as it is, where less than 2 % is predicted), and of the recommended one,
against the best version measured.
"""

TWICE = """\
The rule, written down before the second measurement: a row is measured again where its first measurement scattered or stopped short; the new one replaces the old one whatever it says, and the old raw file stays in
`docs/data/accuracy/earlier`. The rows on H100s were measured again because the model had changed: those that could be measured before came first, and what the machine's time left. Predictions of the second measurement start from a recording of their own. All pairs are counted here, measurable or not.
"""

STEPS = """\
1. The loop is recorded by `tracelens profile` (12 steps under the profiler, at least 2 s without it).
2. From that recording alone TraceLens predicts the step time of every scheme that applies, and its patcher makes the patched copies from the same Edits. Both are on disk before a patched step has run (`prediction.at_unix` in the
   raw rows; the replay's source has the digest `prediction.model`).
3. Original and patched versions are then run in rounds, each time in a fresh process, forked from one that has imported torch and never touched the GPU, so its CUDA context, allocators and caches are its own. A process lets half a
   second and at least 20 steps pass and then times blocks of ten steps by CUDA events for about a second or more. Its time is the median block; the interval is Student's over the processes' logarithms.
4. Versions with the same code are run once; *n* is the number of processes. Errors are counted from the nearer end of the measured interval, as shares of the measured step. A pair is *measurable* where the 95 % half-widths of the
   loop as it is and of the patched version are both at most 3 %, from three processes or more. An error from the nearer end of a wide interval says little, so for all pairs the errors from the middle are shown too.
"""

AGAIN = """\
To repeat it on a machine with GPUs (rows that are there already are left out; the table may grow run by run):

    python tests/accuracy/measure.py held-out --out OUT --budget 480 --stop 540     # rows, loops, or: tuning, held-out, all
    python tests/accuracy/measure.py --pilot --out OUT --stop 45                    # which placement of CPUs lets processes agree
    tar xzf OUT/rows.tar.gz && cp rows/*.json docs/data/accuracy/
    python tests/accuracy/replay_again.py RUNS --keep                               # only after a change to the model: the tuning rows
    python tests/accuracy/replay_again.py RUNS --shares                             # and how much of each step the host sets
    python tests/accuracy/table.py                                                  # writes this page
"""


def method(documents: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> str:
    """Steps in common, the two ways of running rounds, the models, the commands."""
    return "\n".join((STEPS, _rounds(documents), _models(documents), AGAIN))


def _rounds(documents: list[dict[str, Any]]) -> str:
    old = [document["row"] for document in documents if document["schema"] == 1]
    new = [document for document in documents if document["schema"] > 1]
    said = (
        f"{len(old)} rows were measured in the first way: three rounds in a fixed order, five for versions that scatter; four rows at a time, each on a GPU and 16 cores that training process and loader workers share; the "
        "prediction was computed beside the first process of the loop as it is.\n"
    )
    if new:
        apart = {document["placement"] for document in new}
        placed = (
            "the threads of the training process have cores of their own, apart from those of its loader workers (also while it is recorded)"
            if apart == {"apart"}
            else "all threads of a row share its 16 cores"
        )
        said += (
            f"\n{len(new)} rows were measured in a second way, after the first had shown how much host-bound loops scatter: three rounds in an order drawn anew, the loop as it is twice in each; up to eight rounds for versions that "
            f"scatter, later, when every row has had its three; {placed}; nothing runs beside a row on its CPUs; at most two rows at a time move 10 MB per batch or more. Rows: {', '.join(sorted(document['row'] for document in new))}. {_processes(new)}\n"
        )
    return said


def _processes(new: list[dict[str, Any]]) -> str:
    counts = [
        sum(arm["version"] == version for arm in document["arms"])
        for document in new
        for version in document["versions"]
    ]
    return f"The machine's time ended before every such version had its eight: they have {min(counts)} to {max(counts)} processes."


def _models(documents: list[dict[str, Any]]) -> str:
    used = Counter(
        (document["prediction"].get("model") or "unnamed") for document in documents if not document["tuning"]
    )
    parts = ", ".join(f"{count} by `{digest}`" for digest, count in used.most_common())
    return (
        f"The replay went on being mended between the runs, on the tuning rows and the tests' own traces; a held-out row keeps the prediction that was written before its patched versions ran. Held-out rows by model: {parts}. The loops as they are were replayed again by {_again(documents)}. "
        "So the first measurements of held-out loops were on this page when the later models were made. No constant was fitted to them; how well a model replays the loop as it was *recorded* was looked at on all recordings. "
        f"What cannot be said of today's model: {_older(documents)} "
        "Those recordings were not kept, and the machine's time went to the others.\n"
    )


def _older(documents: list[dict[str, Any]]) -> str:
    """The held-out rows whose prediction another model made than the newest measurement's."""
    held = [document for document in documents if not document["tuning"]]
    newest = max(held, key=lambda document: float(document["prediction"]["at_unix"]))["prediction"]["model"]
    rows = sorted(document["row"] for document in held if document["prediction"].get("model") != newest)
    return f"{len(rows)} of {len(held)} held-out rows have older predictions than `{newest}` ({', '.join(rows)}), and all tuning rows."


def _again(documents: list[dict[str, Any]]) -> str:
    models = {(document.get("base_now") or document.get("again") or {}).get("model") for document in documents}
    return ", ".join(f"`{digest}`" for digest in sorted(models - {None})) or "none"


def tuned(documents: list[dict[str, Any]]) -> str:
    """What the tuning rows said before and after."""
    first = [
        judged({key: value for key, value in document.items() if key != "again"})
        for document in documents
        if document["tuning"]
    ]
    errors = [abs(pair.error) for row in first for pair in row.pairs if pair.measurable]
    said = (
        f"median {100 * median(errors):.1f} %, worst {100 * max(errors):.1f} % of {len(errors)}" if errors else "none"
    )
    return (
        "A third of the loops, chosen before the first run. Their predictions here are replays by the model that was tuned on them; what was predicted before their patched runs had measurable errors of "
        f"{said}. The older traces and measurements of three loops that the tests hold the replay against were used for tuning too.\n"
    )
