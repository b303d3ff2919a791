"""One Run, every format: the numbers are those of the JSON wherever they stand."""

from __future__ import annotations

import html as markup
import json
import re
from typing import Any

import pytest

from tests.support.sample_plans import sample_plan
from tests.support.told import idle_factor, told_busy, told_parts, told_wait_ns
from tracelens.cli import renderers
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions
from tracelens.cli.renderers.renderer import PlanAnswer, render
from tracelens.report import text, wording
from tracelens.report.terminal import TerminalStyle

pytestmark = pytest.mark.slow  # every bundled Run is planned and reported

CASES = ("sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound", "host_bound")
Answers = dict[str, Any]


@pytest.fixture(scope="module", params=CASES)
def answers(request: pytest.FixtureRequest) -> Answers:
    """What `report` says of a recorded Run in each format."""
    diagnosis = sample_plan(request.param)
    answer = PlanAnswer(diagnosis, (), PlanOptions())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "160")  # a narrow terminal gets lists, which have no rows to compare
        found: Answers = {
            renderer.name: render(renderer.page, answer, Presentation(renderer.name, verbose=True))
            for renderer in renderers.RENDERERS
        }
    found["json"], found["sarif"] = json.loads(found["json"]), json.loads(found["sarif"])
    body = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", found["html"])
    found["page"] = re.sub(r"\s+", " ", markup.unescape(re.sub(r"<[^>]+>", "", body)))
    celled = re.sub(r"<[^>]+>", "", re.sub(r"</(?:td|th|dd|dt|span|li|p)>", " | ", body))
    found["cells"] = re.sub(r"\s+", " ", markup.unescape(celled))
    found["bare"] = found["page"].replace(" ", "")
    screen = text.recommendation(diagnosis, TerminalStyle(120))
    found["screen"] = re.sub(r"\s+", " ", screen)
    found["flat"] = re.sub(r"\s+", " ", found["text"])
    found["analyze"] = text.analysis(diagnosis, TerminalStyle(120))
    scale = idle_factor(found["json"])
    found["waited"] = [told_wait_ns(stall, diagnosis.timeline, scale) for stall in wording.ranked_stalls(diagnosis)]
    return found


TIME = re.compile(r"(<?)\\?(<?)(\d[\d,]*(?:\.\d+)?) ?(ms|µs)")
PERCENT = re.compile(r"([+−]?)(\d+(?:\.\d+)?) ?%")
CELL = re.compile(r"^\\?(<?)(\d[\d,]*(?:\.\d+)?)$")


def is_rounded(digits: str, value: float) -> bool:
    """Whether what is written is this value, to the last digit that is written."""
    last = 10.0 ** -len(digits.partition(".")[2])
    return abs(float(digits.replace(",", "")) - value) <= 0.5001 * last


def is_time(written: tuple[str, str, str], ms: float) -> bool:
    """`<`, digits and unit; as so many ms."""
    below, digits, unit = written
    value = ms * (1000 if unit == "µs" else 1)
    if below:
        return 0 < value < float(digits)
    # "µs" has two significant digits and none behind the point: 12 stands for 11.5 to 12.5
    return is_rounded(digits, value)


def tells_ms(said: str, ms: float) -> bool:
    """Whether some time in the text is this one, read as a reader reads it."""
    return any(is_time((found[1] or found[2], found[3], found[4]), ms) for found in TIME.finditer(said))


def tells_gain(said: str, speedup: float) -> bool:
    """Whether some percentage in the text is what this speedup gains: 100 · (old ÷ new − 1)."""
    value = 100 * (speedup - 1)
    return any(
        is_rounded(found[2], -value if found[1] == "−" else value) for found in PERCENT.finditer(said) if found[1]
    )


def told_speedup(base_us: float, speedup: float) -> float:
    """Of the two step times as a reader sees them, with the digits of the step now; exact where those are too few."""
    digits = 1 if base_us >= 10_000 else 2
    then = round(base_us / speedup / 1000, digits)
    return speedup if then * 10**digits < 100 else round(base_us / 1000, digits) / then


def tells_gain_of(said: str, before: str, after: str) -> bool:
    """Whether a reader who divides finds the percentage, as far as the digits of both times go."""
    unit = 10.0 ** -len(after.partition(".")[2])
    least, most = ((float(before) + sign * unit / 2) / (float(after) - sign * unit / 2) for sign in (-1, 1))
    percents = [float(found[2]) for found in PERCENT.finditer(said) if found[1] == "+"]
    return any(100 * (least - 1) - 0.5 <= value <= 100 * (most - 1) + 0.5 for value in percents)


def test_the_numbers_of_this_test_are_read_as_a_person_reads_them() -> None:
    assert tells_ms("takes 12.34 ms.", 12.341) and not tells_ms("takes 12.34 ms.", 12.35)
    assert tells_ms("<0.01 ms", 0.004) and not tells_ms("<0.01 ms", 0.02) and tells_ms("31 µs", 0.0312)
    assert tells_gain("+45 %", 1.451) and not tells_gain("+45 %", 1.46) and not tells_gain("45 %", 1.45)
    assert tells_gain("−3 %", 0.97) and not tells_gain("+3 %", 0.97)


def rows_with(text: str, *names: str) -> list[str]:
    return [line for line in text.splitlines() if all(name in line for name in names)]


def test_the_verdict_is_one_sentence(answers: Answers) -> None:
    verdict = answers["json"]["verdict"]
    assert verdict in answers["flat"] and verdict in markup.unescape(answers["html"])
    assert verdict.replace("_", "\\_") in answers["markdown"]
    assert verdict.replace("%", "%25") in answers["github"]
    recommended = answers["json"]["recommendation"]
    assert recommended["verdict"] == verdict


SPREAD = re.compile(r"(\d+\.\d+) ms (?:\([^\d]*)?(\d+\.\d+) to (\d+\.\d+)")


def spreads_of(page: str, estimate: dict[str, float]) -> list[str]:
    """Each place of the page that has the estimate with its range, with the words behind it; the first is enough."""
    found = []
    for one in SPREAD.finditer(page):
        pairs = zip(one.groups(), ("step_us", "low_us", "high_us"), strict=True)
        if all(is_rounded(digits, estimate[name] / 1000) for digits, name in pairs):
            found.append(page[one.start() : one.end() + 60])
    return found[:1]


def known_to_gain(estimate: dict[str, float]) -> bool:
    return estimate["base_us"] > estimate["high_us"]


def status_of(estimate: dict[str, Any]) -> str:
    """What a gain is called that is not certain: measured within 3 % of none, or wider; predicted to be 5 % or less."""
    low, high = (estimate["base_us"] / estimate[end] for end in ("high_us", "low_us"))
    if high < 1:
        return "slower"
    if estimate["evidence"] == "measured":
        return "no gain" if low >= 0.97 and high <= 1.03 else "undecided"
    return "not sure" if estimate["speedup"] >= 1.05 else "no gain"


def test_a_lever_has_one_number_with_one_status_in_every_table(answers: Answers) -> None:
    """The table of levers and that of the changes of the loop: measured stays measured, decided or not."""
    estimates = {scheme["id"]: scheme["estimate"] for scheme in answers["json"]["schemes"] if scheme["estimate"]}
    base_us = answers["json"]["baseline"]["step_us"]
    for lever in answers["json"]["levers"]:
        known = lever["measured"] or lever["predicted"]
        if lever["id"] not in estimates or known is None or lever["state"] == "not_applicable":
            continue
        estimate = estimates[lever["id"]]
        assert lever["state"] == {"measured": "measured", "replayed": "predicted"}[estimate["evidence"]]
        assert known["speedup"] == pytest.approx(estimate["speedup"], rel=1e-6)
        gains = known_to_gain(estimate)
        said = f"{100 * (told_speedup(base_us, known['speedup']) - 1):+.0f} %" if gains else status_of(estimate)
        rows = [row for row in answers["text"].splitlines() if f"({lever['id']})" in row and re.search(r"\(\d", row)]
        assert len(rows) >= 2 and all(said in row for row in rows), (said, rows)


def test_each_scheme_has_the_same_numbers(answers: Answers) -> None:
    judged = [scheme for scheme in answers["json"]["schemes"] if scheme["estimate"]]
    assert judged
    for scheme in judged:
        estimate = scheme["estimate"]
        rows = rows_with(answers["text"], f"{scheme['id']}", "ms (")
        (in_text,) = [row for row in rows if "range" in row or "95" in row]
        rows = rows_with(answers["markdown"].partition("# Implementation record")[0], f"`{scheme['id']}`", "|")
        (in_markdown,) = [row for row in rows if SPREAD.search(row)]
        (on_page,) = spreads_of(answers["page"], estimate)
        for row in (in_text, in_markdown, on_page):
            step, low, high = SPREAD.findall(row)[0]
            assert tells_ms(f"{step} ms", estimate["step_us"] / 1000)
            assert tells_ms(f"{low} ms", estimate["low_us"] / 1000) and tells_ms(
                f"{high} ms", estimate["high_us"] / 1000
            )
            told = told_speedup(answers["json"]["baseline"]["step_us"], estimate["speedup"])
            assert tells_gain(row, told) if known_to_gain(estimate) else status_of(estimate) in row
        if scheme["total"] is not None:
            total = re.compile(r"(?<![\d.])\d{1,2}\.\d\d(?![\d%])")
            for row in (in_text, in_markdown):
                assert any(is_rounded(one, scheme["total"]) for one in total.findall(row))
        assert estimate["speedup"] == pytest.approx(estimate["base_us"] / estimate["step_us"])
        rank = "–" if scheme["rank"] is None else str(scheme["rank"])
        if any(one["rank"] is not None for one in judged):  # else the column of ranks is empty, and absent
            assert in_text.split()[0] == rank and in_markdown.split("|")[1].strip() == rank


def cells_behind(page: str, place: str) -> list[str]:
    """What stands behind each mention of a place on the page, until the row must have ended."""
    return [page[found.end() : found.end() + 160] for found in re.finditer(rf"{re.escape(place)}(?!\d)", page)]


def has_times(row: str, times: tuple[float | None, ...]) -> bool:
    """Whether cells one behind another of a row are these (ns); what is not known says so."""
    cells = [cell.strip() for cell in row.split("|") if cell.strip()]
    return any(
        all(map(is_cell, cells[start : start + len(times)], times)) for start in range(len(cells) - len(times) + 1)
    )


def is_cell(cell: str, ns: float | None) -> bool:
    if ns is None:
        return cell == "not measured"
    return cell == "0 ms" if round(ns) == 0 else tells_ms(cell, ns / 1e6) and TIME.fullmatch(cell) is not None


def test_each_wait_has_the_same_numbers(answers: Answers) -> None:
    """The JSON has them as recorded, all others on the baseline."""
    scale = idle_factor(answers["json"])
    for wait, waited_ns in zip(answers["json"]["syncs"], answers["waited"], strict=True):
        idle, exposed = wait["gpu_idle_us_per_step"], wait["exposed_us_per_step"]
        brought = (None if idle is None else scale * (idle - wait["profiler_us_per_step"]), exposed)
        times = (waited_ns, *(None if us is None else 1000 * us for us in brought))
        place = f"{wait['location']['path']}:{wait['location']['line']}" if wait["location"] else "not recorded"
        for rows in (rows_with(answers["markdown"], place), cells_behind(answers["cells"], place)):
            assert any(has_times(row, times) for row in rows), (place, times, rows)


def test_the_parts_of_a_step_add_up_and_are_the_same(answers: Answers) -> None:
    """The JSON has them as recorded, page, Markdown and terminal on the baseline."""
    parts, baseline = answers["json"]["breakdown"], answers["json"]["baseline"]["step_us"]
    told_us = told_parts(answers["json"])
    assert sum(parts["parts"].values()) == pytest.approx(parts["wall_us"])
    assert sum(told_us.values()) == pytest.approx(baseline)
    pairs = re.compile(r"\| \\?(<?)([\d.]+)(?: ms)? \| ([\d.]+) % \|")
    for told in (answers["cells"], answers["markdown"]):
        shown = [(below, digits, share) for below, digits, share in pairs.findall(told)]
        for value in filter(None, told_us.values()):
            ms, share = value / 1000, 100 * value / baseline
            assert any(
                is_rounded(percent, share) and (ms < float(digits) if below else is_rounded(digits, ms))
                for below, digits, percent in shown
            ), (ms, share, shown)


def test_the_gpu_works_as_long_wherever_it_is_said(answers: Answers) -> None:
    """Busy share and the time of kernels: in the head, in the picture, in the table, in `analyze` and in the JSON."""
    told, base_ms = told_parts(answers["json"]), answers["json"]["baseline"]["step_us"] / 1000
    busy, kernels_ms = told_busy(answers["json"]), told["compute"] / 1000
    copies = told["copy_exposed"] / 1000 / base_ms
    copies = copies if copies >= 0.05 else 0.0  # where copies matter they are told apart
    assert answers["json"]["baseline"]["gpu_busy_share"] == pytest.approx(busy)
    for screen in (answers["screen"], answers["flat"], answers["analyze"]):
        shown = re.findall(r"GPU (?:busy|kernels) (\d+) %", screen)
        assert set(shown) == {f"{100 * (busy - copies):.0f}"}
    (on_page,) = re.findall(r"GPU(?:busy|kernels)(\d+)(?:→\d+)?%", answers["bare"])
    assert is_rounded(on_page, 100 * (busy - copies))
    (in_analyze,) = re.findall(r"(?m)^ *Compute .* (<?[\d.]+ ms) ", answers["analyze"])
    assert tells_ms(in_analyze, kernels_ms)
    ((idle, _),) = re.findall(r"· idle ([\d.]+)(?: → [\d.]+)?( ms)", answers["screen"])
    assert is_rounded(idle, base_ms * (1 - busy))
    now, *_ = re.findall(r'aria-label="GPU: ([^"]*)"', answers["html"])
    assert tells_ms(re.findall(r"works (&lt;)?([\d.]+ ms)", now)[0][1], kernels_ms)


def test_the_page_and_the_terminal_have_the_same_answer(answers: Answers) -> None:
    """Headline, step time, gain and next command stand on both first screens, in the same digits."""
    found = answers["json"]
    base_ms = found["baseline"]["step_us"] / 1000
    assert found["headline"].rstrip(".") in answers["page"] and found["headline"].rstrip(".") in answers["screen"]
    (on_page,) = re.findall(r"Steptime([\d.]+)", answers["bare"])
    (on_screen,) = re.findall(r" ([\d.]+) ms per step, GPU (?:busy|kernels)", answers["screen"])
    assert is_rounded(on_page, base_ms) and is_rounded(on_screen, base_ms)
    wanted = found["recommendation"]["scheme"] or found["recommendation"]["lever"]
    lever = next((one for one in found["levers"] if one["id"] == wanted), None)
    known = lever and (lever["measured"] or lever["predicted"])
    if known and known["low"] > 1:
        then_ms = base_ms / known["speedup"]
        (after,) = re.findall(r"Steptime[\d.]+→([\d.]+)ms", answers["bare"])
        faster = re.search(r"Throughput([+−]\d+%)", answers["bare"])
        told = told_speedup(1000 * base_ms, known["speedup"])
        assert is_rounded(after, then_ms) and faster is not None and tells_gain(faster[1], told)
        assert len(after.partition(".")[2]) == len(on_page.partition(".")[2]), "a pair has the same digits"
        ((saved, gained),) = re.findall(r" saves ([\d.]+ ms): ([^(]*) throughput \(", answers["screen"])
        assert tells_ms(saved, float(on_page) - float(after)) and tells_gain(gained, told)
        assert tells_gain_of(gained, on_page, after), "a reader who divides finds it"
        (then,) = re.findall(r" then +[█▒·░]+ +([\d.]+ ms)", answers["screen"])
        assert tells_ms(then, then_ms)
        assert any(is_rounded(one, then_ms) for one in re.findall(r"([\d.]+) \(", answers["markdown"]))
    assert answers["json"]["gpu_busy_share"] + answers["json"]["idle_share"] == pytest.approx(1)


def test_every_format_ends_with_one_next_command(answers: Answers) -> None:
    """What the terminal prints is on the page and in the Markdown, to the letter; a Run is named as a folder."""
    (wanted,) = re.findall(r"next: (tracelens .+?) *$", answers["screen"])
    (in_long,) = re.findall(r"(?m)^next: (tracelens .+)$", answers["text"])
    (on_page,) = re.findall(r'<code id="command-next">(.*?)</code>', answers["html"])
    assert in_long == wanted and markup.unescape(re.sub(r"<[^>]+>", "", on_page)) == wanted
    assert f"Next:\n\n```sh\n{wanted}\n```" in answers["markdown"]
    assert wanted.split()[2].endswith("run/")


def test_each_finding_costs_the_same_everywhere(answers: Answers) -> None:
    logged = {result["ruleId"]: result["message"]["text"] for result in answers["sarif"]["runs"][0]["results"]}
    assert set(logged) == {finding["id"] for finding in answers["json"]["findings"]}
    for finding in answers["json"]["findings"]:
        cost_ms = finding["cost_us_per_step"] / 1000
        assert tells_ms(answers["page"], cost_ms) and tells_ms(logged[finding["id"]], cost_ms)
        assert any(tells_ms(row, cost_ms) for row in rows_with(answers["github"], finding["id"]))


def test_predicted_and_measured_agree_with_what_verify_kept(answers: Answers) -> None:
    for scheme in answers["json"]["schemes"]:
        estimate = scheme["estimate"]
        if estimate is None or estimate["evidence"] != "measured":
            continue
        if not scheme["applicable"]:
            assert tells_gain(scheme["reasons"][0], estimate["speedup"]) and "measured" in scheme["reasons"][0]
            continue
        assert f"measured: step time x {1 / estimate['speedup']:.3f}" in scheme["reasons"]
        record = answers["markdown"].partition("# Implementation record")[2]
        measured = [row for row in record.splitlines() if row.startswith("| measured on this machine")]
        assert tells_gain(measured[0], told_speedup(estimate["base_us"], estimate["speedup"]))
        graded = next(row for row in record.splitlines() if "as fast as predicted" in row)
        predicted = next(row for row in record.splitlines() if row.startswith("| predicted by the replay"))
        span = re.search(r"measured, (.*) predicted", graded)
        assert span is not None and span[1] in predicted, "one prediction is graded, and it is the one shown"


def test_the_time_of_the_headline_stands_in_the_picture(answers: Answers) -> None:
    """What was seen, and no saving: the part of a lane that is as long has the same digits."""
    told = re.search(r"([\d.]+)(?: ms)? of every [\d.]+ ms", answers["json"]["headline"])
    if told is None:
        assert answers["json"]["headline_kind"] == "gpu"
        return
    lanes = re.findall(r'aria-label="((?:Python thread|GPU): [^"]*)"', answers["html"])
    assert any(f" {told[1]} ms" in lane for lane in lanes), (told[1], lanes)
