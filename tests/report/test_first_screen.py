"""One screen: the largest loss, its lines, at most five levers, one next command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tracelens.cli import output
from tracelens.model import Lever, Location, Owner, Owners, Speedup
from tracelens.report import first_screen, formatting, gain_words, screen_text, text
from tracelens.report.terminal import TerminalStyle

MS = 1_000_000


def lever(name: str, speedup: tuple[float, float, float] | None = None, rank: int | None = None) -> Lever:
    known = Speedup(*speedup) if speedup else None
    state = "predicted" if known else "not_tried"
    return Lever(name, "loader", state, name, "", predicted=known, rank=rank, command=f"try {name}")


@pytest.mark.parametrize(("ns", "said"), [(None, "–"), (0, "0"), (30_000, "<0.1"), (50_000, "0.1"), (7_940_000, "7.9")])
def test_times_have_one_decimal_and_unknown_is_not_zero(ns: int | None, said: str) -> None:
    assert formatting.short_ms(ns) == said


def test_levers_that_gain_come_first_and_five_are_shown() -> None:
    found = (
        lever("nothing", (1.0, 0.95, 1.05), 3),
        *(lever(f"untried{n}") for n in range(4)),
        lever("best", (1.5, 1.4, 1.6), 1),
        lever("second", (1.25, 1.2, 1.3), 2),
    )
    screen = first_screen.first_screen(replace(cases.recommended(), levers=found))
    assert [row.lever for row in screen.levers] == ["best", "second", "untried0", "untried1", "untried2"]
    assert screen.more_levers == 2
    best, _, untried, *_ = screen.levers
    # 9.5 ms without the profiler: 9.5 / 1.5 = 6.33, 9.5 / 1.6 = 5.94, 9.5 / 1.4 = 6.79
    assert (best.rank, best.step, best.gain) == ("1", "6.33 (5.94 to 6.79)", "+50 %")
    assert (untried.rank, untried.step, untried.gain, untried.evidence) == ("–", "–", "–", "not tried")


def test_a_lever_whose_range_includes_zero_is_no_gain() -> None:
    screen = first_screen.first_screen(replace(cases.recommended(), levers=(lever("even", (1.02, 0.98, 1.06), 1),)))
    assert (screen.levers[0].rank, screen.levers[0].gain) == ("–", "no gain")


def test_the_times_of_a_line_are_on_the_baseline() -> None:
    """Recorded steps of 10 ms, of which the line owns 4; the 6 ms of work leave it 3.5 of 9.5 without the profiler."""
    line = Location("train.py", 2, "main")
    quiet = replace(cases.recommended(), stalls=(), sources={"train.py": "import gc\ngc.collect()\n"})
    diagnosis = cases.held(quiet, Owner("gpu", 6 * MS), Owner("host_line", 4 * MS, (line,)))
    (shown,) = first_screen.first_screen(diagnosis).lines
    assert (shown.place.line, shown.text) == (2, "gc.collect()")
    assert (shown.host_blocked_ns, shown.gpu_idle_ns) == (None, 3_500_000)


@pytest.mark.parametrize("width", [80, 120])
def test_the_answer_fits_on_one_screen(width: int) -> None:
    out = text.recommendation(cases.recommended(), TerminalStyle(width))
    rows = out.splitlines()
    assert len(rows) <= 35 and max(map(len, rows)) <= width
    assert rows[-1].startswith("next: tracelens ")


def test_the_long_form_is_behind_verbose() -> None:
    short, long = (text.recommendation(cases.recommended(), TerminalStyle(100, everything=wanted)) for wanted in (0, 1))
    assert "Scores: this run (rating before it)" in long and "Scores" not in short


def test_variants_of_one_lever_share_its_number_and_the_recommended_one_stands_first() -> None:
    found = (
        lever("workers=8", (2.0, 1.8, 2.2), 1),
        lever("workers=4", (1.5, 1.4, 1.6), 2),
        lever("bf16", (1.2, 1.1, 1.3), 3),
    )
    diagnosis = cases.recommended()
    wanted = replace(diagnosis.recommendation, scheme=None, lever="workers=4")
    rows = first_screen.first_screen(replace(diagnosis, levers=found, recommendation=wanted)).levers
    assert [(row.rank, row.id) for row in rows] == [("1", "workers=4"), ("", "workers=8"), ("2", "bf16")]
    assert rows[1].lever.startswith("or ")


def test_levers_within_the_range_of_one_another_are_about_the_same() -> None:
    found = (
        lever("best", (1.5, 1.45, 1.55), 1),
        lever("second", (1.3, 1.2, 1.4), 2),
        lever("third", (1.25, 1.15, 1.35), 3),
        lever("last", (1.1, 1.05, 1.15), 4),
    )
    rows = first_screen.first_screen(replace(cases.recommended(), levers=found)).levers
    assert [row.like_last for row in rows] == [False, False, True, False]
    assert screen_text._same_ranks(rows) == ["2–3"]


@pytest.mark.parametrize(
    ("lines", "said"), [([], ""), ([83], "83"), ([83, 84], "83–84"), ([68, 76, 77], "68, 76–77"), ([1, 2, 3], "1–3")]
)
def test_lines_that_follow_one_another_are_a_span(lines: list[int], said: str) -> None:
    assert formatting.spans(lines) == said


def test_lines_of_one_change_are_bracketed() -> None:
    line = first_screen.CostlyLine(Location("a.py", 1, None), "x()", 1, 1)
    changed = replace(line, changed=True)
    assert screen_text._brackets([line, changed, line, changed]) == ["  ", "╭ ", "│ ", "╰ "]
    assert screen_text._brackets([line, changed]) == ["  ", "╶ "]
    assert screen_text._brackets([line, line]) == ["", ""]
    assert screen_text._brackets([changed]) == [""]


def test_every_sign_of_the_screen_can_be_spelled_in_ascii() -> None:
    out = text.recommendation(cases.recommended(), TerminalStyle(80))
    assert output._spelled(out, "ascii").encode("ascii")
    assert output._spelled("·█╭╰", "ascii") == ".#||"


def test_a_line_that_takes_no_time_is_shown_where_the_change_belongs() -> None:
    """The call that makes a DataLoader: no time is known of it, and the recommended lever is written there."""
    diagnosis = cases.recommended()
    workers = replace(lever("workers=8", (2.0, 1.8, 2.2), 1), locations=(Location("train.py", 9),))
    wanted = replace(diagnosis.recommendation, scheme=None, lever="workers=8")
    screen = first_screen.first_screen(replace(diagnosis, levers=(workers,), recommendation=wanted))
    (made,) = [line for line in screen.lines if line.changed]
    assert (made.place.line, made.host_blocked_ns, made.gpu_idle_ns) == (9, None, None)
    assert screen.levers[0].lines == "9"


def test_where_no_line_holds_a_tenth_of_the_step_none_is_shown() -> None:
    """Neither recommended nor large: the answer (launches, say) is not in a line."""
    diagnosis = cases.recommended()
    nothing = replace(diagnosis.recommendation, scheme=None, lever=None)
    line = Location("train.py", 2, "main")
    for owned_ns, shown in ((900_000, 0), (1_100_000, 1)):
        quiet = replace(diagnosis, stalls=(), recommendation=nothing)
        found = cases.held(quiet, Owner("launch", 10 * MS - owned_ns), Owner("host_line", owned_ns, (line,)))
        assert len(first_screen.first_screen(found).lines) == shown


def test_a_wait_beside_a_busy_gpu_is_said_to_be_free() -> None:
    diagnosis = replace(cases.recommended(), headline="in any language", headline_kind="gpu")
    free = Lever("event-interval", "scheme", "measured", "", "", measured=Speedup(1.0, 0.98, 1.03))
    nothing = replace(diagnosis.recommendation, scheme=None, lever=None)
    said = first_screen.first_screen(replace(diagnosis, levers=(free,), recommendation=nothing)).beside_lines
    # 6 ms of a recorded step of 10 ms, 40 µs beside it; a step is 9.5 ms
    assert said.startswith("Python waits 5.70 ms per step there, but the GPU works all that time.")
    assert said.endswith("Wait every 10th batch: +0 % throughput (measured, −2 to +3 %).")


def test_the_command_of_a_lever_names_the_run_that_was_typed() -> None:
    diagnosis = cases.recommended()
    found = (lever("workers=8", (2.0, 1.8, 2.2), 1),)
    typed = first_screen.first_screen(replace(diagnosis, levers=found), ("elsewhere/run", "--interval", "5"))
    assert typed.levers[0].command == "tracelens try elsewhere/run workers=8"
    bare = first_screen.first_screen(replace(diagnosis, levers=found, run=None))
    assert bare.levers[0].command == "", "a bare trace cannot be tried"


def test_a_lever_that_nobody_tried_is_named_with_what_it_acts_on() -> None:
    """4 ms of a recorded step of 10; without the profiler it takes 9.5, of which the GPU works 6."""
    diagnosis = cases.held(
        cases.recommended(), Owner("gpu", 6 * MS), Owner("host_line", 4 * MS, remedies=("gc-collect",))
    )
    wanted = replace(diagnosis.recommendation, scheme=None, lever="gc-collect")
    found = replace(diagnosis, levers=(lever("gc-collect"),), recommendation=wanted)
    screen = first_screen.first_screen(found)
    assert screen.instead == "Collect every 100th batch: saves at most 3.50 of 9.50 ms, not tried yet."
    assert (screen.levers[0].step, screen.then) == ("–", None), "a ceiling is no step time"


def test_why_the_gpu_idles_in_another_line_is_said_where_the_waits_keep_the_loader_from_working() -> None:
    base = cases.recommended()
    quiet = tuple(replace(stall, exposed_ns=30_000) for stall in base.stalls)
    ended = next(stall for edit in base.recommended.edits for stall in edit.stalls)  # type: ignore[union-attr]
    owners = Owners(10 * MS, (Owner("gpu", 6 * MS), Owner("dataloader", 4 * MS, group=ended)))
    gains = replace(lever(base.recommendation.scheme or "", (1.2, 1.1, 1.3), 1), family="scheme")
    base = replace(base, levers=(gains,))
    screen = first_screen.first_screen(replace(base, stalls=quiet, owners=owners))
    assert screen.beside_lines == "Lines 11 and 12 must both go: one alone saves 0.03 ms (predicted)."
    assert screen.reason == "While line 11 waits, no batch is made: so the GPU idles 3.20 ms at line 6."
    apart = replace(owners, owners=(owners.owners[0], replace(owners.owners[1], group=None)))
    assert "no batch" not in first_screen.first_screen(replace(base, stalls=quiet, owners=apart)).reason


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (("measured", "predicted"), "Ranges are 95 % sure where measured, 80 % where predicted."),
        (("measured", "not_tried"), "Ranges are 95 % sure."),
        (("predicted",), "Ranges are 80 % sure."),
        (("not_tried",), ""),
    ],
)
def test_how_sure_a_range_is_is_said_of_what_is_shown(states: tuple[str, ...], said: str) -> None:
    assert gain_words.ranges(states) == said
    shown = {"measured": {"measured": Speedup(1.2, 1.1, 1.3)}, "predicted": {"predicted": Speedup(1.2, 1.1, 1.3)}}
    found = tuple(
        Lever(f"workers={place}", "loader", state, "", "", rank=place, **shown.get(state, {}))
        for place, state in enumerate(states)
    )
    out = " ".join(text.recommendation(cases.recommended(levers=found), TerminalStyle(120)).split())
    assert (said in out) if said else ("Ranges are" not in out)
