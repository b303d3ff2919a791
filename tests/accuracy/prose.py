"""The words of docs/accuracy.md around its tables; numbers in them come from the raw files too.

In: the rows and the folder of raw files. Out: Markdown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accuracy.judge import judged
from accuracy.stats import median, quantile

METHOD = """\
## How it was measured

1. The loop is recorded by `tracelens profile` (12 steps under the profiler, at least 2 s without it).
2. From that recording alone TraceLens predicts the step time of every scheme that applies, and its patcher makes the patched copies from the same Edits. Both are on disk before a
   patched step has run (`prediction.at_unix` in the raw rows; the replay's source has the digest `prediction.model`).
3. Original and patched versions are then run in turn, each time in a fresh process: three rounds, five for versions whose 95 % half-width is above 3 %. A process lets half a second and at least 20 steps
   pass and then times blocks of ten steps by CUDA events for 0.6–2 s. Its time is the median block; the interval is Student's over the processes' logarithms.
4. Versions with the same code are run once; *n* is the number of processes.

Each process is forked from one that has imported torch and never touched the GPU, so its CUDA context, allocators and caches are its own. Four rows run at a time, each on a GPU and 16 cores of its own.
Errors are counted from the nearer end of the measured interval, as shares of the measured step. **Host-bound loops differ from process to process by 3–20 % on this machine**; where that is more than ±3 % the pair
is marked ± and listed as unmeasurable, as are four rows for which the machine's time ended after two rounds. An error from the nearer end of a wide interval says little, so for all pairs the errors from the middle are shown too.

To repeat it on a machine with GPUs (rows that are there already are left out; the table may grow run by run):

    python tests/accuracy/measure.py held-out --out OUT --budget 540     # rows, loops, or: tuning, held-out, all
    tar xzf OUT/rows.tar.gz && cp rows/*.json docs/data/accuracy/
    python tests/accuracy/replay_again.py RUNS --keep                    # only after a change to the model: the tuning rows
    python tests/accuracy/table.py                                       # writes this page
"""

SIMPLE = """\
The same measurable held-out pairs, predicted by simpler means: nothing changes; the step less the host's waits that the Edits remove (less a share of 1/N where they are spaced out); the step less all GPU idle time;
the largest of the four limits (host, stream, copy, loader) that the replay itself works with.
"""

SIMPLE_ALL = """\
All held-out pairs, those included that scatter more, counted from the middle of the measurement; here the loop's own drift between the recording and the later processes is in every predictor's error:
"""

COLUMNS = """\
Times in ms per step. *base* is the unprofiled step of the recording, which predictions start from. ± unmeasurable, ! false promise, ↯ wrong sign. *error* is from the nearer end of the measured interval.
"""

CHOICE = """\
*replay* is the error of the replayed base against the recorded and the unprofiled step. The second is small by construction: one number, the profiler's cost per recorded row (or the host's pace), is fitted to it.
*measured later* is the same loop in the processes of the comparison. The last columns are measured times: of the version predicted fastest (of the loop as it is, where less than 2 % is predicted), and of the recommended one,
against the best version measured.
"""


def opening(documents: list[dict[str, Any]], raw: Path) -> str:
    first = documents[0]["environment"]
    gpus = first.get("gpus") or []
    name = str(gpus[0]) if gpus else "GPU"
    rows = [judged(document) for document in documents]
    pairs = [pair for row in rows if not row.tuning for pair in row.pairs if pair.measurable]
    large = [pair for pair in pairs if pair.gain > 0.03]
    errors = [abs(pair.error) for pair in pairs]
    every = [pair for row in rows if not row.tuning for pair in row.pairs]
    all_errors = [abs(pair.raw_error) for pair in every]
    worst = max(pairs, key=lambda pair: abs(pair.error))
    return (
        "# Predicted and measured\n\n"
        "<!-- made by tests/accuracy/table.py from docs/data/accuracy; edit those, not this page -->\n\n"
        f"On {len({d['loop'] for d in documents})} training loops at {len(documents)} sizes ({name}, torch {first.get('torch')}), "
        f"the replay's step times for patched loops that it had never seen were off by {100 * median(errors):.1f} % in the median, {100 * quantile(errors, 0.9):.1f} % at the 90th percentile and "
        f"{100 * max(errors):.1f} % at worst ({worst.row}, {worst.schemes[0]}), over the {len(pairs)} held-out pairs (of {len({pair.row for pair in pairs})} rows, most of them bound by the GPU) that could be measured to ±3 %; {len(large)} of them gained more than 3 %. "
        f"Over all {len(every)} held-out pairs, those included that scatter more, and counted from the middle of each measurement, it is {100 * median(all_errors):.1f} % in the median and {100 * quantile(all_errors, 0.9):.1f} % at the 90th percentile. "
        "What could not be measured, and what the replay refuses to predict, is listed below.\n"
    )


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


def findings(raw: Path) -> str:
    return "\n".join((_disturbance(raw), _pinning(raw), _streams(raw), LIMITS))


def _read(raw: Path, name: str) -> Any:
    path = raw / "machine" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _disturbance(raw: Path) -> str:
    found = _read(raw, "disturbance")
    if found is None:
        return ""
    alone = next(one["alone"] for one in found if "alone" in one)
    lines = ["## Do four rows at a time disturb each other?\n", "| loop | alone | four at once |", "|---|---|---|"]
    for name, value in alone.items():
        together = ", ".join(f"{one['together'][name] / 1e3:.1f}" for one in found)
        lines.append(f"| {name} | {value / 1e3:.1f} ms | {together} ms |")
    lines.append(
        "\nThe same loop on all four GPUs, so this is the worst case. Loops that move tens of MB per batch through the host share its memory and get slower; others do not. Original and patched versions run in turn, so both "
        "are slowed, but a prediction starts from a recording made at another moment.\n"
    )
    return "\n".join(lines)


def _pinning(raw: Path) -> str:
    parts, main = _read(raw, "pinning"), _read(raw, "pinmain")
    if parts is None or main is None:
        return ""
    lines = [
        "## What pinning costs, and where\n",
        "Median µs per step of a small loop (8 workers, or none), each part timed on the host; the loop waits for the GPU in every step.\n",
        "| batch | workers | | in `next` | giving back the last batch | `.to` |",
        "|---|---|---|---|---|---|",
    ]
    for key, seen in parts.items():
        if not isinstance(seen, dict) or "next" not in seen or "thread" in key or "every 10" in key:
            continue
        kind, size, memory = (key.replace("loop, ", "none, ").replace("workers, ", "8, ").split(", "))[:3]
        cells = (size, kind, memory, f"{seen['next']:.0f}", f"{seen['release']:.0f}", f"{seen['to']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")

    def steps(word: str, name: str) -> str:
        chosen = [seen for key, seen in main.items() if key.startswith(f"{word}, {name}")]
        return ", ".join(f"{one['step_us'] / 1e3:.1f}" for one in chosen)

    lines.append(
        "\nWith workers, the pin thread takes over three things from the training thread: unpacking the batch (about 1 ms whatever its size), giving back its shared memory (8.5 GB/s), and reading it once (6.5 GB/s: it was "
        "mapped a moment ago). A loop that waits for the GPU gains all of it; one that never waits gains little more than the copy, since the pin thread needs the interpreter for the rest; and below the time of "
        "those three no step can go: the pin thread sets the pace. That is what the replay models, from the loop's own copy.\n\n"
        "Without workers, an earlier run had 12.6 MB per batch cost 4.6–6.3 ms in the training thread, and so had ours beside three other rows. On a quieter machine the same loop takes "
        f"{steps('pageable', 'as it is')} ms per step pageable and {steps('pinned', 'as it is')} pinned ({steps('pageable', 'one thread')} and {steps('pinned', 'one thread')} with one thread for CPU operations). "
        "No pinned memory was asked of the driver and pinning caused no page faults, so neither first touch nor `cudaHostAlloc` is the reason: the copy into pinned memory is shared by all CPU threads and lasts as long as "
        "its slowest one, which is short unless something else keeps cores or memory busy. The default is the quiet rate, its range reaches down to the other.\n"
    )
    return "\n".join(lines)


def _streams(raw: Path) -> str:
    found = _read(raw, "streams")
    if found is None:
        return ""
    lines = [
        "## The seeds' scheme 1: forward and backward on different streams\n",
        "A transformer at two sizes, pinned batches, a synchronize per step; step time against everything on one stream.\n",
        "| size | one stream | forward and backward on streams of their own | batches copied ahead | both |",
        "|---|---|---|---|---|",
    ]
    for size, one in found.items():
        base = median(one["step_us"]["plain"]) / 1e3
        shares = [f"{100 * (one['ratio'][key] - 1):+.1f} %" for key in ("split", "prefetched", "both")]
        lines.append(f"| {size} | {base:.2f} ms | " + " | ".join(shares) + " |")
    split = found["large"]["kernels"]["split"]
    streams = "; ".join(f"{count} from the {where}" for where, count in split["per_stream"].items())
    lines.append(
        f"\nOf the kernels of one step of the larger one with two streams: {streams}; time in which kernels of two streams ran at once: {split['overlap_us']:.0f} µs. Although `backward()` was called under the other stream, its kernels "
        "ran on the forward's: PyTorch's autograd runs each backward operation on the stream of its forward operation. And were it otherwise, the backward needs the forward's last result, so nothing could overlap. "
        "The part of scheme 1 that can help is copying the next batch beside the compute, and only where the copy is not hidden already. TraceLens therefore makes no Edit that splits forward and backward.\n"
    )
    return "\n".join(lines)


LIMITS = """\
## What it cannot predict

- **Competition between kernels of several streams.** Kernel times are kept as recorded. cuDNN's LSTM runs on ten streams whose large kernels take turns; the replay of such steps comes out up to 4 % short and is refused.
- **What workers could deliver.** A loop that never waits for its loader does not show how much faster the loader could be. Where a remedy makes the step shorter than the workers' own time per batch, the gain ends there, and
  the prediction does not know it.
- **Waits between streams.** On CUDA 12.9 and newer a trace does not say which event a stream waits for. The replay takes the record that the waiting stream's next kernel followed most closely, and refuses when the recorded steps are
  then off by more than 3 %.
- **Another moment of the same machine.** A prediction starts from the step time of the recording; a host-bound loop may run 10 % faster or slower in the next process.
"""
