"""Times that a loop measures with the host's clock: which of them events on the GPU can measure instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import loop_at, parsed
from tracelens.patch.loop import timing
from tracelens.patch.loop.facts import LoopFacts, facts_of
from tracelens.patch.loop.loops import Blocked


def facts(folder: Path, body: str, functions: str = "") -> LoopFacts:
    """Of a loop with this body, as the last statement of a file."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    source = parsed(folder, f"import time\nfrom datetime import datetime\n{functions}for x in loader:\n{lines}")
    return facts_of(source, loop_at(source, 3 + functions.count("\n")))


def measured(folder: Path, body: str) -> tuple[list[int], list[str]]:
    """The lines at which clocks become events, counted from the loop's, and the differences."""
    made = facts(folder, body)
    found, source = timing.time_measurements(made), made.source
    return [source.line(start) - 3 for start in found.starts], [source.code(span) for span in found.spans]


def obstacle(folder: Path, body: str, functions: str = "") -> str:
    with pytest.raises(Blocked) as blocked:
        timing.time_measurements(facts(folder, body, functions))
    return blocked.value.obstacle


# ------------------------------------------------------------------------------------------- what can be measured


@pytest.mark.parametrize(
    ("body", "starts", "spans"),
    [
        ("train(x)", [], []),
        ("t = time.time()\ntrain(x)\nprint(time.time() - t)", [1], ["time.time() - t"]),
        ("a = time.time()\ntrain(x)\nb = time.time()\nmeter.update(b - a)", [1, 3], ["b - a"]),
    ],
)
def test_a_difference_of_two_clock_reads_of_one_pass(
    body: str, starts: list[int], spans: list[str], tmp_path: Path
) -> None:
    assert measured(tmp_path, body) == (starts, spans)


# --------------------------------------------------------------------------------------------- what stands in the way


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "print(time.time() - before)",
            "the loop reads the clock, and the synchronize makes what it measures true",
        ),
        ("t = time.time()\nt = time.time() - t", "`t` is a time, and something else as well"),
        ("t = time.time_ns()", "the loop reads a clock that does not count in seconds"),
        ("t = datetime.now()", "the loop reads a clock that does not count in seconds"),
        ("t = time.time()\nprint(t)", "the time in `t` is used in another way than to measure"),
        ("t = time.time()\ndef f():\n    return t", "a function defined here uses a time of the loop"),
        ("s = a.elapsed_time(b)", "the time between two CUDA events is asked for, when both must be over"),
    ],
)
def test_a_time_that_only_the_hosts_clock_has(body: str, told: str, tmp_path: Path) -> None:
    assert obstacle(tmp_path, body) == told


def test_a_function_of_the_file_that_asks_for_it_counts(tmp_path: Path) -> None:
    functions = "def report():\n    print(a.elapsed_time(b))\n"
    told = "the time between two CUDA events is asked for, when both must be over"
    assert obstacle(tmp_path, "report()", functions) == told


# ---------------------------------------------------------------------------------------------------------- events


@pytest.mark.parametrize(
    "body",
    [
        "b.synchronize()\ns = a.elapsed_time(b)",
        "b.synchronize()\nif x:\n    s = a.elapsed_time(b)",
        "train(x)",
    ],
)
def test_events_that_are_waited_for_may_be_asked(body: str, tmp_path: Path) -> None:
    timing.check_events(facts(tmp_path, body))


@pytest.mark.parametrize(
    "body",
    [
        "s = a.elapsed_time(b)",
        "s = a.elapsed_time(b)\nb.synchronize()",
        "if x:\n    b.synchronize()\ns = a.elapsed_time(b)",
    ],
    ids=["never", "too late", "not for certain"],
)
def test_events_that_only_a_read_waits_for_are_told(body: str, tmp_path: Path) -> None:
    with pytest.raises(Blocked, match="this read is what waits for them"):
        timing.check_events(facts(tmp_path, body))
