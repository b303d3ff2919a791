"""The sections of docs/accuracy.md about the machine itself: what disturbs what, what pinning costs, streams.

In: the folder of raw files. Out: Markdown, every number from those files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.accuracy.stats import center, half_width, median


def all_of(raw: Path) -> str:
    """Every section whose raw file is there."""
    return "\n".join(
        part for part in (_pilot(raw), _disturbance(raw), _pinning(raw), _pin_thread(raw), _streams(raw)) if part
    )


def _rate(megabytes: float, us: float) -> str:
    return f"{megabytes / us * 1e3:.1f} GB/s"


def _pilot(raw: Path) -> str:
    found = _read(raw, "pilot")
    if found is None:
        return ""
    lines = [
        "## Why processes of one loop differ\n",
        "The loop as it is, tuning loops, four at a time; its processes in turn with all of the row's CPUs in common (*shared*) and with the training process's threads on cores of their own (*apart*).\n",
        "| loop | | ms per step, process by process | half-width (95 %) |",
        "|---|---|---|---|",
    ]
    for one in found:
        for word in ("shared", "apart"):
            times = [median(arm["block_us"]) for arm in one[word]]
            steps = ", ".join(f"{value / 1e3:.2f}" for value in times)
            lines.append(
                f"| {one['row']} | {word} | {steps} | {100 * half_width(times):.1f} % (around {center(times) / 1e3:.2f}) |"
            )
    return "\n".join(lines) + "\n\n" + _compared(found) + _machine(found)


def _compared(found: list[dict[str, Any]]) -> str:
    """Which placement agreed better, and what that means."""
    widths = {
        word: center([half_width([median(arm["block_us"]) for arm in one[word]]) for one in found])
        for word in ("shared", "apart")
    }
    said = f"In the geometric mean the half-width is {100 * widths['shared']:.1f} % shared and {100 * widths['apart']:.1f} % apart. "
    if widths["apart"] < 0.8 * widths["shared"]:
        return said + "Cores of their own make processes agree better, and the rows measured later had them. "
    return (
        said
        + "Cores of their own do not make processes agree, so the rows share theirs as before: what makes them differ is not the row's own processes. "
        "Nothing inside the machine is in the way either (below), and the scatter changes from one lease of the machine to the next (*Measured twice*): what is left is what else its host does. "
    )


def _machine(found: list[dict[str, Any]]) -> str:
    machine = found[0]["machine"]
    stolen = sum(arm["stolen_ticks"] for one in found for word in ("shared", "apart") for arm in one[word])
    touch = next((one["touch_us_per_page"] for one in found if "touch_us_per_page" in one), {})
    touched = ", ".join(f"{value:.2f} µs {word}" for word, value in touch.items())
    return (
        f"The machine is virtual and shows each row {machine['cores']} cores of {machine['threads_per_core']} thread in {machine['nodes']} NUMA node, transparent huge pages `{machine['huge_pages']}`. "
        f"The host took {stolen} ticks of 10 ms from its CPUs while these loops were timed. Memory that is freed goes back to the host and is fetched anew (page reporting from order {machine['page_reporting_order']} on): "
        f"the first write to a page costs {touched}.\n"
    )


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

    large = parts["workers, 37.7 MB, pageable"]
    lines.append(
        f"\nWith workers, the pin thread takes over three things from the training thread: unpacking the batch ({parts['workers, 0.4 MB, pageable']['next'] / 1e3:.1f} ms, whatever its size), giving back its shared memory "
        f"({_rate(37.7, large['release'])}), and reading it once ({_rate(37.7, large['to'])}: it was mapped a moment ago). A loop that waits for the GPU gains all of it; one that never waits gains little more than the copy, "
        "since the pin thread needs the interpreter for the rest; and below the time of those three no step can go: the pin thread sets the pace. That is what the replay models, from the loop's own copy.\n\n"
        "Without workers, pinning 12.6 MB per batch made the training thread slower beside three other rows. On a quieter machine the same loop takes "
        f"{steps('pageable', 'as it is')} ms per step pageable and {steps('pinned', 'as it is')} pinned ({steps('pageable', 'one thread')} and {steps('pinned', 'one thread')} with one thread for CPU operations). "
        "No pinned memory was asked of the driver and pinning caused no page faults, so neither first touch nor `cudaHostAlloc` is the reason: the copy into pinned memory is shared by all CPU threads and lasts as long as "
        "its slowest one, which is short unless something else keeps cores or memory busy. The default is the quiet rate, its range reaches down to the other.\n"
    )
    return "\n".join(lines)


def _pin_thread(raw: Path) -> str:
    found = _read(raw, "pinthread")
    if found is None:
        return ""
    one = found["pin_thread"]["by_workers"]["12"]
    lines = [
        "## What a pin thread delivers\n",
        f"{found['script']}; none of the loops above. Its remedy, `pinned-copy`, was predicted to save 28 to 31 % of the step; then it was measured: {found['loops']['how']}.\n",
        "| workers | step | pinned | predicted then | predicted now (80 % range) | workers busy |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["loops"]["rows"]:
        low, high = row["range_now_ms"]
        lines.append(
            f"| {row['workers']} | {row['step_ms']:.1f} ms | {row['pinned_step_ms']:.1f} ms | {row['predicted_before_ms']:.1f} ms "
            f"| {row['predicted_now_ms']:.1f} ms ({low:.1f} to {high:.1f}) | {100 * row['worker_busy_share']:.0f} % |"
        )
    lines.append(
        f"\nThe workers are not the limit. Timed directly (`{found['pin_thread']['command']}`), the pin thread needs {one['copy_cpu_ms']:.1f} ms of CPU for its copy of a batch and {one['between_cpu_ms']:.1f} ms to take the next one over, "
        f"with no more than {one['copy_wall_ms'] + one['between_wall_ms'] - one['copy_cpu_ms'] - one['between_cpu_ms']:.1f} ms of waiting in between: it sets the pace, and its copy takes 1.5 to 2 times the loop's own (which several steps at the start hide: they use up "
        "what was ready). On a quiet machine it took 1.0 times as long. The constant was 1.15, with a range to 1.4; it is 1.3 with a range from 1.0 to 2.0: large_images, from which it came, was promised too much as well, and no held-out pair of this page is bound by the pin thread, and none of their predictions moves.\n"
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
