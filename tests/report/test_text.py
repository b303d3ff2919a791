"""Text reports: the verdict is the same string everywhere, numbers carry units, hostile names cannot act."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tests.support.builders import Events
from tracelens.model import Location, Verification
from tracelens.report import compare, compare_text, formatting, html, markdown, next_commands, text, wording
from tracelens.report import json as json_report
from tracelens.report.terminal import TerminalStyle
from tracelens.units import said_ms

PLAIN, COLOR = TerminalStyle(120, color=False), TerminalStyle(120, color=True)


def test_the_verdict_is_one_string_in_text_json_and_html() -> None:
    diagnosis = cases.recommended()
    verdict = wording.verdict(diagnosis)
    assert verdict in text.recommendation(diagnosis, PLAIN)
    assert json_report.document(diagnosis)["recommendation"]["verdict"] == verdict
    assert f'<meta name="description" content="{verdict}">' in html.render(diagnosis)


def test_an_analysis_names_the_costliest_wait_with_its_line_and_what_comes_back() -> None:
    said = wording.verdict(cases.diagnosis())
    assert "21 %" in said and "torch.cuda.synchronize" in said and "train.py:11" in said and "1.5 ms" in said


def test_an_analysis_does_not_call_waits_harmless_that_nobody_judged() -> None:
    base = cases.diagnosis()
    unknown = tuple(replace(stall, verdict="unknown", exposed_ns=None) for stall in base.stalls)
    harmless = tuple(replace(stall, verdict="harmless", exposed_ns=0) for stall in base.stalls)
    assert "No single wait" not in wording.verdict(replace(base, stalls=unknown))
    assert "No single wait costs step time" in wording.verdict(replace(base, stalls=harmless))


def test_a_recording_without_gpu_says_so() -> None:
    bare = replace(cases.diagnosis(), breakdown=None, gpu_busy_share=None, idle_share=None)
    assert "No GPU work was recorded" in text.analysis(bare, PLAIN)
    assert "Where a step goes" not in text.analysis(bare, PLAIN)


def test_three_numbers_per_wait_and_a_caret_under_the_call() -> None:
    out = text.analysis(cases.recommended(), replace(PLAIN, everything=True))
    row = next(line for line in out.splitlines() if line.lstrip().startswith("train.py:11"))
    # recorded 6 ms of 10, of 9.5 ms 5.7; 2 ms of the 2.5 that were idle, of 2 ms 1.6; what comes back was predicted
    assert [f"{number} ms" for number in re.findall(r"([\d.]+) ms", row)] == ["5.70 ms", "1.60 ms", "1.50 ms"]
    lines = out.splitlines()
    marked = next(i for i, line in enumerate(lines) if "^^^" in line)
    code, caret = lines[marked - 1], lines[marked]
    assert code[caret.index("^") : caret.rindex("^") + 1] == "torch.cuda.synchronize()"


def test_unknown_is_never_shown_as_zero() -> None:
    out = text.analysis(cases.diagnosis(), replace(PLAIN, everything=True))
    row = next(line for line in out.splitlines() if "cudaMemcpyAsync" in line)
    assert "not measured" in row


def test_escape_codes_only_where_the_look_allows_them() -> None:
    diagnosis = cases.recommended()
    for render in (text.analysis, text.recommendation):
        assert "\x1b" not in render(diagnosis, PLAIN)
        assert "\x1b[" in render(diagnosis, COLOR)


def test_control_characters_from_a_trace_never_reach_the_terminal() -> None:
    base = cases.diagnosis()
    evil = replace(base.stalls[0], call="\x1b]0;owned\x07item", location=Location("a\x1b[2Jb.py", 3))
    out = text.analysis(replace(base, stalls=(evil,)), PLAIN)
    assert "\x1b" not in out and "\x07" not in out and "\\x1b" in out


def test_the_last_words_of_a_failed_program_stay_lines() -> None:
    said = "The patched version fails: it ended with exit code 1:\nTraceback\n\x1b[31mIndexError"
    failed = Verification("event-sync", "different numbers", False, None, None, None, None, said)
    out = text.verification((failed,), PLAIN, "tracelens report")
    assert "exit code 1:\n  Traceback\n  \\x1b[31mIndexError\n" in out


@pytest.mark.programs
@pytest.mark.parametrize("word", ["a b", "\x1b[31m'\"\\x\n\u202e", os.fsdecode(b"n\xff1"), "\x9b5", "ü"])
def test_commands_can_be_shown_and_pasted_whatever_is_in_them(word: str) -> None:
    line = next_commands.line(word)
    assert line.isprintable()
    script = f'tracelens() {{ printf %s "$1"; }}; {line}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout == os.fsencode(word)


def test_rich_markup_in_names_is_text() -> None:
    base = cases.diagnosis()
    out = text.analysis(replace(base, stalls=(replace(base.stalls[0], call="[bold]x[/bold]"),)), PLAIN)
    assert "[bold]x[/bold]" in out


def test_schemes_show_prior_beside_evidence_and_the_reason_of_a_rejection() -> None:
    out = text.recommendation(cases.recommended(), replace(PLAIN, everything=True))
    assert "10 predicted (8)" in out
    assert "gains 0.2 %, within its noise of ±2 %" in out
    assert "Risk above 31.5 %: Wait each batch for an event would win" in out


def test_the_next_command_is_ready_to_paste() -> None:
    out = text.recommendation(cases.recommended(), PLAIN)
    assert out.rstrip().splitlines()[-1] == "next: tracelens apply tracelens-runs/r1/"


def test_verification_shows_predicted_beside_measured() -> None:
    out = text.verification(cases.recommended().verifications, PLAIN, "tracelens report")
    assert "16 % faster, same results." in out
    measured = next(line for line in out.splitlines() if "measured" in line and "gain" in line)
    predicted = next(line for line in out.splitlines() if "predicted" in line)
    assert "+16 %" in measured and "+14 %" in measured and "+17 %" in predicted


def test_recorded_windows_stand_before_beside_after_and_unknown_has_no_row() -> None:
    windows = {
        "before": {"syncs_per_step": 2.0, "sync_wait_us_per_step": 6000.0, "gpu_busy_share": None},
        "after": {"syncs_per_step": 0.2, "sync_wait_us_per_step": 0.0, "gpu_busy_share": 0.9},
    }
    one = replace(cases.recommended().verifications[0], details={"windows": windows})
    out = text.verification((one,), PLAIN, "tracelens report")
    assert "2 → 0.2" in out and "6.00 ms → 0 ms" in out and "GPU busy" not in out


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (None, "not measured"),
        (0, "0 ms"),
        (4_000, "4 µs"),
        (40_000, "0.040 ms"),
        (1_500_000, "1.50 ms"),
        (10**9, "1000 ms"),
    ],
)
def test_a_time_carries_its_unit(ns: int | None, said: str) -> None:
    assert formatting.milliseconds(ns) == said


def test_comparison_prints_what_changed() -> None:
    base = cases.diagnosis()
    new = replace(base, stalls=base.stalls[1:])
    out = compare_text.comparison(compare.compare_diagnoses(base, new), PLAIN, "tracelens recommend run")
    row = next(line for line in out.splitlines() if "torch.cuda.synchronize" in line)
    assert (
        "−6.00 ms" in row and "gone: 11" in row and row.rstrip().endswith("1.58 ms → –")
    )  # 1.5 of 9.5, of recorded 10


def test_what_all_waits_cost_together_is_said_where_single_ones_do_not_add_up_to_it() -> None:
    base = cases.recommended()
    alone = sum(stall.exposed_ns or 0 for stall in base.stalls if stall.verdict != "window_edge")
    more = replace(base, exposed_together_ns=alone + 3_000_000)
    sentence = wording.together(more)
    assert said_ms(alone + 3_000_000) in sentence and said_ms(alone) in sentence
    flat = " ".join(text.analysis(more, replace(PLAIN, everything=True)).split())
    assert sentence in flat and sentence in " ".join(text.recommendation(more, PLAIN).split())
    assert sentence in html.render(more) and sentence.split(":")[0] in markdown.summary(more)
    assert json_report.document(more)["exposed_together_us_per_step"] == (alone + 3_000_000) / 1000
    symptom = wording.symptom(more)
    assert "Python waits for it at train.py:11; what a change of that saves, tracelens recommend says." in symptom
    assert said_ms(alone + 3_000_000) not in symptom, "recommend has another number: what the change saves"
    for quiet in (None, alone):
        assert wording.together(replace(base, exposed_together_ns=quiet)) == ""
        assert "together" not in wording.symptom(replace(base, exposed_together_ns=quiet))


def test_without_steps_the_whole_recording_is_spoken_of_and_its_end_is_no_wait() -> None:
    base = cases.diagnosis()
    whole = replace(base, steps=replace(base.steps, source="none", count=1))
    assert "of the recording" in wording.symptom(whole) and "each step" not in wording.symptom(whole)
    edge = replace(base, stalls=tuple(replace(s, verdict="window_edge", exposed_ns=None) for s in base.stalls))
    assert "No single wait" not in wording.symptom(edge)


def test_a_change_of_a_time_is_never_a_zero_with_a_sign() -> None:
    assert [formatting.signed(ns) for ns in (0, -1_200, 12_440_000)] == ["0 ms", "−1.2 µs", "+12.44 ms"]


# -------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("listed", "worked", "said"),
    [
        ([{"id": 0, "name": "NVIDIA H200"}], True, "NVIDIA H200"),
        ([], True, "a GPU that the trace does not name"),
        ([], False, "no GPU in the recording"),
    ],
)
def test_a_gpu_without_a_name_is_a_gpu(listed: list[dict[str, object]], worked: bool, said: str) -> None:
    events = Events(top={"deviceProperties": listed})
    events.add("cpu_op", "aten::mm", 0, 5)
    if worked:
        events.kernel(events.call("cudaLaunchKernel", 5, 5), "gemm", 20, 5)
    assert wording.device(events.trace()) == said


def test_without_a_gpu_an_examination_says_where_the_step_goes() -> None:
    nothing = replace(cases.recommended(), idle_share=None, breakdown=None, headline_kind="unjudged")
    told = "no GPU work was recorded, so what a GPU waited for cannot be told."
    assert wording.symptom(nothing) == f"N{told[1:]}"
    known = replace(nothing, headline="The optimizer takes 70 % of the step", headline_kind="loss")
    assert wording.symptom(known) == f"The optimizer takes 70 % of the step; {told}"
