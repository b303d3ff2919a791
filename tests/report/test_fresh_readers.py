"""What people who saw a first screen for the first time stumbled over: one claim each."""

from __future__ import annotations

import html as markup
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.support import report_cases as cases
from tests.support.places import SAMPLES
from tests.support.sample_plans import sample_plan
from tracelens import lever_names as names
from tracelens.cli import main
from tracelens.model import Lever, Location, Owner, PlannedDiagnosis, Speedup
from tracelens.report import (
    answer,
    edit_excerpt,
    first_screen,
    gain_words,
    html,
    lever_names,
    lever_order,
    lever_section,
    loader_lines,
    next_commands,
    sections,
    step_strip,
    text,
)
from tracelens.report.terminal import TerminalStyle

MS = 1_000_000


def screen(case: str, width: int = 80) -> str:
    return " ".join(text.recommendation(sample_plan(case), TerminalStyle(width)).split())


def page(case: str) -> str:
    body = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", html.render(sample_plan(case)))
    return re.sub(r"\s+", " ", markup.unescape(re.sub(r"<[^>]+>", "", body)))


def loading(edit_line: int = 2) -> PlannedDiagnosis:
    """A loop of 9.5 ms that waits 3.5 of them for batches, of which more workers save 3.2 (9.5 → 6.3)."""
    base = cases.recommended()
    waits = Owner("dataloader", 4 * MS, (Location("train.py", 6),))
    lever = Lever("workers=8", "loader", "predicted", "", "", predicted=Speedup(1.5, 1.4, 1.6))
    lever = replace(lever, locations=(Location("train.py", edit_line),))
    wanted = replace(base.recommendation, scheme=None, lever="workers=8")
    return cases.held(replace(base, levers=(lever,), recommendation=wanted), Owner("gpu", 6 * MS), waits)


def test_each_line_of_a_loader_is_said_to_be_what_it_is() -> None:
    assert loader_lines.said(loading()) == ("Line 6 waits for the DataLoader's batches; the change goes into line 2.")
    assert loader_lines.said(loading(edit_line=6)) == "", "one line is one line"
    assert loader_lines.said(cases.recommended()) == ""


def test_above_the_headline_stands_the_line_where_time_is_lost_and_then_the_one_to_change() -> None:
    assert answer.answer(loading()).where == "train.py, line 6; change: line 2"
    assert answer.answer(loading(edit_line=6)).where == "train.py, line 6"


def test_without_it_is_explained_where_the_table_has_the_column() -> None:
    held = Owner("gpu", 6 * MS)
    saves = cases.held(cases.recommended(), held, Owner("wait", 3 * MS, recoverable_ns=2 * MS))
    none = cases.held(cases.recommended(), held)
    for diagnosis, there in ((saves, True), (none, False)):
        section = sections.owners(diagnosis)
        assert section is not None and section.table is not None
        assert ("without it" in section.table.columns) is there is bool(section.note)


@pytest.mark.slow
def test_the_line_of_the_change_is_told_from_the_line_that_waits() -> None:
    said = "Line 54 waits for the DataLoader's batches; the change goes into line 34."
    assert said in screen("loader_bound") and said in page("loader_bound")
    assert "39" not in screen("loader_bound").partition(" now ")[0], "two lines, each with its part: no third one"


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "loader_bound", "pageable_copies"])
def test_a_gain_is_one_of_throughput_and_stands_beside_what_is_saved(case: str) -> None:
    for said in (screen(case), page(case)):
        assert re.search(r"saves [\d.]+ ms: \+\d+ % throughput \((?:measured|predicted), ", said)


@pytest.mark.slow
def test_of_two_waits_of_which_one_takes_no_time_it_is_said_why_both_count() -> None:
    said = "Lines 83 and 84 must both go: one alone saves <0.1 ms (predicted)."
    assert said in screen("sync_every_batch") and said in page("sync_every_batch")


@pytest.mark.slow
def test_a_wait_that_gives_most_of_it_alone_need_not_be_said_to_go_with_the_other() -> None:
    said = "Line 70 alone saves 2.36 ms (predicted)."
    assert said in screen("pageable_copies") and said in page("pageable_copies")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "seen", "because"),
    [
        ("sync_every_batch", "Two waits block Python for 8.1 of every 25.4 ms",
         "While line 83 waits, no batch is made: so the GPU idles 8.2 ms at line 75."),
        ("pageable_copies", "Two copies block Python for 3.62 of every 9.76 ms",
         "From pinned memory they run beside Python, and take 0.30 ms (recorded)."),
        ("loader_bound", "The DataLoader takes 9.3 ms of every 11.8 ms step",
         "The loop then still waits 2.2 ms for a batch."),
        ("host_bound", "408 launches leave the GPU idle 3.91 of every 6.00 ms", ""),
    ],
)  # fmt: skip
def test_a_headline_says_what_was_seen_and_below_it_stands_why_a_change_saves_another_time(
    case: str, seen: str, because: str
) -> None:
    for said in (screen(case), page(case)):
        assert seen in said and because in said
        assert len(seen.split()) <= 12 and "can be saved" not in said


@pytest.mark.slow
def test_measured_steps_are_told_from_recorded_ones() -> None:
    said = "Measured in 3 pairs of 200 steps"
    assert said in screen("sync_every_batch") and said in page("sync_every_batch")
    assert "10 steps recorded" in page("sync_every_batch")


@pytest.mark.slow
def test_nothing_is_best_of_what_nobody_knows_and_no_ceiling_stands_among_step_times() -> None:
    assert "best first" in page("sync_every_batch")
    for case in ("gpu_bound", "host_bound"):
        assert "best first" not in page(case) and "the order is no ranking" in page(case)
        levers = page(case).partition("the order is no ranking")[2].partition("The loop, line by line")[0]
        assert "acts on" not in levers.lower() and "not known" in levers
        assert "acts on" not in screen(case)
        assert "only a trial tells, so the order is no ranking." in " ".join(screen(case).split())


@pytest.mark.slow
def test_all_numbers_of_a_loop_that_is_limited_by_launches_stand_in_one_sentence() -> None:
    said = "The GPU idles 5.06 ms of a step, 3.91 of them while Python launches kernels."
    assert said in screen("host_bound") and said in page("host_bound")
    assert "issues work" not in page("host_bound"), "Python works: launching is a part of it"


@pytest.mark.slow
def test_the_idle_time_of_the_lines_and_that_of_the_picture_are_told_apart() -> None:
    """8.2 + <0.1 + 0.1 at three lines, 9.5 in the picture."""
    wide = screen("sync_every_batch", 120)
    assert "idle 9.5 ms" in wide and re.search(r"all other lines 1\.2 1\.1 ", wide)
    assert "GPU idle 9.5 ms" in page("sync_every_batch")
    assert "All other lines: host blocked 1.2 ms, GPU idle 1.1 ms." in page("sync_every_batch")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "loader_bound", "pageable_copies", "host_bound", "gpu_bound"])
def test_every_block_of_the_picture_has_its_number(case: str) -> None:
    """The narrow ones have no room for a label: the legend has all of them that can be seen, now and then."""
    strip = first_screen.first_screen(sample_plan(case)).strip
    assert strip is not None
    (key,) = re.findall(r'(?s)<figure class="strip".*?<ul class="key"[^>]*>(.*?)</ul>', html.render(sample_plan(case)))
    told = markup.unescape(re.sub(r"<[^>]+>", "", key))
    for kind in strip.kinds:
        kinds = next((kinds for kinds in (step_strip.BLOCKED, step_strip.IDLE) if kind in kinds), (kind,))
        if max(strip.total_ns(*kinds)) < answer.LEAST_KEY_SHARE * strip.steps[0].step_ns:
            continue
        own = [one for step in strip.steps for lane in step.lanes for one in lane.segments if one.kind == kind]
        assert f"{strip.legend(*kinds)} ms" in told or all(any(map(str.isalpha, one.label)) for one in own)


@pytest.mark.slow
def test_a_page_that_says_how_to_write_a_change_says_how_to_take_it_out() -> None:
    assert "Undo: tracelens revert run/" in page("sync_every_batch")
    assert "Undo:" not in page("loader_bound"), "fix asks first, and nothing is written yet"
    assert "Undo:" not in page("gpu_bound"), "trying writes nothing"


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "loader_bound", "pageable_copies"])
def test_the_step_times_that_are_shown_give_the_gain_that_is_shown(case: str) -> None:
    """Divided and subtracted by a reader, with the same digits for both."""
    now, then = re.findall(r"([\d.]+) ms (?:then [█▒·░]|GPU in)", screen(case))[:2]
    ((saved, gain),) = re.findall(r"saves ([\d.]+) ms: \+(\d+) % throughput", screen(case))[:1]
    assert len(now.partition(".")[2]) == len(then.partition(".")[2])
    half = 0.5 * 10.0 ** -len(then.partition(".")[2])  # as far as the digits of the shorter step go
    least, most = ((float(now) + sign * half) / (float(then) - sign * half) for sign in (-1, 1))
    assert round(100 * (least - 1)) <= int(gain) <= round(100 * (most - 1))
    assert float(saved) == pytest.approx(float(now) - float(then), abs=1e-6)


@pytest.mark.slow
def test_a_range_says_what_it_is_of() -> None:
    assert "14.7 to 21.0 ms, 95 % sure" in page("sync_every_batch")
    assert "2.8 to 5.6 ms, predicted" in page("loader_bound")


@pytest.mark.slow
def test_that_no_line_holds_the_time_is_said_on_the_page_too() -> None:
    said = "No single line waits for a tenth of the step."
    assert said in screen("host_bound") and said in page("host_bound")


@pytest.mark.slow
def test_what_would_help_has_the_name_of_its_lever_or_is_said_to_be_for_a_person() -> None:
    said = text.recommendation(sample_plan("host_bound"), TerminalStyle(120))
    assert "CUDA graphs (torch.compile reduce-overhead)" in said
    assert "or torch.compile reduce-overhead" in said
    assert "cheaper kernels (by hand)" in screen("gpu_bound")


@pytest.mark.slow
def test_what_the_next_command_tries_stands_in_the_table_of_the_page() -> None:
    plan = sample_plan("host_bound")
    table = lever_section.lever_table(plan)
    assert next_commands.next_command(plan).endswith(" compile compile=reduce-overhead")
    assert table is not None and {"compile", "compile=reduce-overhead"} <= {line.id for line in table.lines}


def test_no_line_breaks_inside_of_an_option() -> None:
    said = html._units("tracelens apply a-b/run --lever event-interval --dry-run")
    assert said.count('<span class="unit">--') == 2 and '<span class="unit">--dry-run</span>' in said
    assert '<span class="unit">event-interval</span>' in said, "nor inside of an id"
    assert html._units("a/" + "long-" * 40) == "a/" + "long-" * 40, "a path may have to"


@pytest.mark.slow
def test_a_wait_looks_the_same_beside_its_line_and_in_the_step() -> None:
    """Whether it is for a batch or for the GPU: both are the host's."""
    said = html.render(sample_plan("loader_bound"))
    assert "rect.block, rect.await, rect.hold { fill: url(#blocked); }" in said
    (key,) = re.findall(r'(?s)<figure class="strip".*?<ul class="key"[^>]*>(.*?)</ul>', said)
    assert "host blocked" in key and "waits for a batch" not in key


def test_the_baseline_is_named_without_a_word_of_statistics() -> None:
    from tracelens.report.answer import SOURCE

    assert SOURCE["measured"] == "measured: the script as it is"


def test_a_line_below_a_twentieth_of_the_step_is_no_part_of_the_answer() -> None:
    assert first_screen.LEAST_SHARE == 0.05


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound", "host_bound"])
def test_a_lever_has_one_name_for_people(case: str) -> None:
    """What `report` prints, `recommend` shows and the page lists; the id is what is typed, and stands beside it."""
    diagnosis = sample_plan(case)
    ids = [scheme.id for scheme in diagnosis.schemes]
    assert not [name for name in ids if name in diagnosis.recommendation.verdict]
    chosen = next((lever for lever in diagnosis.levers if lever.id == diagnosis.recommendation.scheme), None)
    if chosen is not None:
        name = lever_names.name(chosen, diagnosis)
        assert name in diagnosis.recommendation.verdict and name in screen(case) and name in page(case)
    long = text.recommendation(diagnosis, TerminalStyle(200, everything=True)).rpartition("next:")[0]
    shown = {name for name in ids if f"({name})" in long}
    assert shown == {scheme.id for scheme in diagnosis.schemes if scheme.estimate or scheme.reasons}


def test_a_name_has_what_is_typed_beside_it_where_that_differs() -> None:
    assert names.with_id("event-interval", 10) == "Wait every 10th batch (event-interval)"
    assert (names.with_id("bf16"), names.named("workers=8", None, 2)) == ("bf16", "DataLoader workers 2→8")
    assert names.named("interval-sync") == names.named("interval-sync", 1) == "Wait every Nth for all work"


@pytest.mark.slow
def test_the_long_form_has_what_the_first_screen_says_it_has() -> None:
    """Nobody looks for a diff or a plan that there is not; the levers that are not shown are all there."""
    for case, parts in (
        ("sync_every_batch", ", scores, the plan, the diff, the recording."),
        ("gpu_bound", " all levers, the recording."),
    ):
        diagnosis = sample_plan(case)
        assert parts in screen(case)
        long = text.recommendation(diagnosis, TerminalStyle(200, everything=True))
        assert all(lever_names.name(lever, diagnosis) in long for lever in lever_order.ordered_levers(diagnosis))


@pytest.mark.slow
def test_what_apply_leaves_out_and_what_it_says_is_next_are_one_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["apply", str(SAMPLES / "loader_bound" / "run"), "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    commands = [line.strip().removeprefix("next: ") for line in said if "tracelens verify" in line]
    assert len(commands) == 2 and len(set(commands)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", ["host_bound", "loader_bound"])
def test_what_a_trial_left_undecided_without_a_sign_of_a_gain_is_not_sent_to_another(case: str) -> None:
    table = lever_section.lever_table(sample_plan(case))
    assert table is not None
    line = next(line for line in table.lines if line.id == "event-interval")
    assert (line.gain, line.advice, line.command) == ("undecided", "no sign of a gain", "")
    assert "try run/ event-interval" not in page(case)
    assert all(line.advice == "leave it" for line in table.lines if line.gain == "no gain")


@pytest.mark.parametrize(("middle", "again"), [(1.1, True), (1.004, False), (0.91, False)])
def test_a_longer_trial_is_worth_its_time_where_the_middle_is_a_gain(middle: float, again: bool) -> None:
    assert Speedup(middle, 0.8, 1.3).may_gain is again


@pytest.mark.slow
def test_it_is_said_how_many_lines_of_a_change_are_shown() -> None:
    """No line is changed that has no row of its own: what is new stands between the lines."""
    for said in (screen("sync_every_batch"), page("sync_every_batch")):
        assert re.search(r"6 of 17 lines; (revert|all)", said)
        assert "changes, too" not in said and "new file" not in said.partition("Levers")[0]
    assert "changes, too" not in screen("pageable_copies")


def test_a_costly_line_that_goes_and_is_not_shown_is_named() -> None:
    """Line 75 goes, and one row of three is shown."""
    shown = edit_excerpt.EditExcerpt(
        "train.py", (edit_excerpt.EditRow("add", 80, "wait()"),), 3, (), 0, frozenset({75})
    )
    costly = SimpleNamespace(place=Location("train.py", 75))
    assert edit_excerpt.rest_of(shown, "tracelens apply run/", [costly]).startswith("1 of 3 lines (75 changes, too)")


@pytest.mark.slow
def test_the_command_that_shows_all_of_a_change_can_be_pasted() -> None:
    shown = text.recommendation(sample_plan("sync_every_batch"), TerminalStyle(80)).splitlines()
    assert shown[-2:] == ["look: tracelens apply run/ --dry-run", "next: tracelens apply run/"]


@pytest.mark.slow
def test_it_is_said_that_a_default_is_overridden_and_why_there_are_not_more_workers() -> None:
    for said in (screen("loader_bound"), page("loader_bound")):
        assert "Line 34 is a default: --workers on the command line overrides it." in said
        assert "16 CPU cores: twice as many workers are not predicted to gain more." in said


def test_no_more_workers_are_judged_than_the_replay_looks_at() -> None:
    from tracelens.replay import worker_count

    assert loader_lines.MOST_REPLAYED == worker_count.MOST_WORKERS


@pytest.mark.slow
def test_which_levers_may_change_results_is_said_before_they_are_tried() -> None:
    for case, starred, what in (
        ("gpu_bound", "bf16 *", "* may change results: rounding."),
        ("host_bound", "Batch size 2x *", "* may change results: rounding, the training."),
    ):
        assert starred in screen(case) and what in screen(case)
    assert "may change rounding" in page("gpu_bound") and "may change the training" in page("host_bound")
    assert "pinned memory 70–71" in screen("pageable_copies"), "a change of the loop keeps them: no star"


@pytest.mark.slow
def test_a_wait_that_costs_only_together_with_others_is_not_called_free() -> None:
    """Two waits cost 8.6 ms, and the table called the longest of them free."""
    for case, free in (("sync_every_batch", False), ("gpu_bound", True)):
        section = sections.waits(sample_plan(case))
        assert section.table is not None
        assert ("free" in {row[-1] for row in section.table.rows}) is free


@pytest.mark.slow
def test_how_much_there_is_to_read_of_each_change_stands_beside_it() -> None:
    table = lever_section.lever_table(sample_plan("sync_every_batch"))
    assert table is not None
    sizes = {line.id: line.size for line in table.lines}
    assert sizes["event-interval"] == "15 lines in, 2 out"
    assert sizes["workers=1"] == "1 line in, 1 out" and sizes["compile"] == ""


@pytest.mark.slow
def test_why_a_better_prediction_stands_below_what_was_measured_is_said() -> None:
    """Where nothing stands out of order nothing is said."""
    said = "Measured goes before predicted."
    assert gain_words.measured_first([("measured", 1.45), ("predicted", 1.5)]) == said
    for name in ("pageable_copies", "sync_every_batch"):
        assert said not in screen(name) and said not in page(name)
    assert "2–4 are about the same." in screen("sync_every_batch"), (
        "and not only ranges that overlap, as that of 1 does"
    )
