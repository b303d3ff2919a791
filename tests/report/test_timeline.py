"""The timeline that one can zoom, the switches and the sliders: what they hold, how they answer, how fast they are."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import report_cases as cases
from tests.support.browsing import Opened, marks
from tests.support.builders import AUTOGRAD, MAIN, Events
from tracelens.cli.planning import PlanOptions, planned
from tracelens.model import Diagnosis, Lever, Speedup
from tracelens.report import html, sections, zoomable_timeline
from tracelens.trace import timeline


def unpacked(document: dict[str, Any]) -> list[list[tuple[int, ...]]]:
    """What the script reads, by another reader: per lane (start, length, name, kind, link)."""
    raw, at = gzip.decompress(base64.b64decode(document["data"])), 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    lanes = []
    for lane in document["lanes"]:
        columns = [[number() for _ in range(lane["count"])] for _ in range(5)]
        columns[0] = list(np.cumsum(columns[0]))
        lanes.append(list(zip(*columns, strict=True)))
    assert at == len(raw)
    return lanes


def packed(diagnosis: Diagnosis) -> dict[str, Any]:
    document = zoomable_timeline.document(diagnosis)
    assert document is not None
    return document


def test_numbers_of_every_size_come_back() -> None:
    values = [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**40 + 5, 2**62]
    raw = zoomable_timeline.varints(np.array(values, dtype=np.int64))
    assert len(raw) == sum(max(1, -(-value.bit_length() // 7)) for value in values)
    assert zoomable_timeline.varints(np.array([], dtype=np.int64)) == b""
    assert zoomable_timeline.varints(np.array([300], dtype=np.int64)) == b"\xac\x02"


def test_every_event_of_the_recording_is_in_its_lane() -> None:
    document, recorded = packed(cases.planned()), cases.timeline()
    named = {
        (lane["name"], lane["part"]): events for lane, events in zip(document["lanes"], unpacked(document), strict=True)
    }
    calls = named["Python thread", "CUDA calls and waits"]
    assert len(calls) == len(recorded.tables.calls)
    assert {("Stream 7", ""), ("Copies", "all streams"), ("GPU idle", "by cause")} < set(named)
    waits = [event for event in calls if document["kinds"][event[3]] == "wait"]
    assert [(start, length, link) for start, length, _, _, link in waits] == [
        (k * 10_000_000 + 2_000_000, 6_000_000, k + 1) for k in range(3)
    ]
    gaps = [event for event in named["GPU idle", "by cause"] if document["kinds"][event[3]] == "idle_sync"]
    assert [link for *_, link in gaps] == [1, 2, 3]  # each gap names the wait that owns it
    assert document["waits"][0] == ["torch.cuda.synchronize at train.py:11", 6_000_000, 2_000_000, "stall-1"]


def test_operators_are_in_the_lane_of_their_thread() -> None:
    events = Events()
    events.step(0, 0, 100)
    for name, at, thread in (
        ("loss", 10, MAIN),
        ("backward", 20, AUTOGRAD),
        ("adam", 30, MAIN),
        ("more", 40, AUTOGRAD),
    ):
        events.add("cpu_op", f"aten::{name}", at, 5, tid=thread)
    events.add("cpu_op", "aten::inner", 11, 2)
    events.add("cpu_op", "autograd::engine::evaluate_function: MulBackward0", 50, 5, tid=AUTOGRAD)
    document = packed(replace(cases.planned(), timeline=timeline.build(events.trace())))
    named = {
        lane["name"]: [document["names"][name].rpartition(":")[2].strip() for _, _, name, *_ in rows]
        for lane, rows in zip(document["lanes"], unpacked(document), strict=True)
        if lane["part"] == "operators"
    }
    assert named == {"Python thread": ["loss", "adam"], "Autograd thread": ["backward", "more", "MulBackward0"]}


def test_too_many_events_lose_the_shortest_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoomable_timeline, "MOST_EVENTS", 20)
    document = packed(cases.planned())
    assert sum(lane["count"] for lane in document["lanes"]) <= 20
    assert sum(lane["stalls"] for lane in document["lanes"]) == 3  # never a wait
    page = html.render(cases.planned())
    assert f"{document['left_out']} events shorter than" in page and 'data-tl="downsampled"' in page


@pytest.mark.slow
def test_the_page_of_200_000_events_is_small_and_says_nothing_of_loss() -> None:
    page = html.render(cases.huge())
    document = packed(cases.huge())
    assert sum(lane["count"] for lane in document["lanes"]) >= 200_000
    assert len(page.encode()) <= 3 << 20 and 'data-tl="downsampled"' not in page


def test_a_small_page_is_small() -> None:
    assert len(html.render(cases.recommended()).encode()) <= 400_000


# ---------------------------------------------------------------------------------------------------- in a browser


def marked(test: Any) -> Any:
    for mark in marks:
        test = mark(test)
    return test


def shown_range(page: Any) -> str:
    """The range in view, once the frame that the last key or click asked for is drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    text: str = page.inner_text("[data-tl=range]")
    return text


def moved(page: Any, before: str) -> str:
    """The range once it is another: input events arrive when the browser gets to them."""
    for _ in range(60):
        if (now := shown_range(page)) != before:
            return now
        page.wait_for_timeout(50)
    return before


@marked
def test_the_lanes_of_the_page_are_those_of_the_data(open_page: Callable[..., Opened]) -> None:
    document, page = packed(cases.tried()), open_page(cases.tried()).page
    rows = page.evaluate(
        "[...document.querySelectorAll('[data-tl=lanes] li')].map(li => [li.querySelector('b').textContent,"
        " Number(li.dataset.count), Number(li.dataset.stalls)])"
    )
    assert rows == [[lane["name"], lane["count"], lane["stalls"]] for lane in document["lanes"]]
    assert sum(row[2] for row in rows) == 3


@marked
def test_keys_wheel_and_drag_move_it_and_zero_comes_back(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.tried()).page
    home = shown_range(page)
    page.focus("#lanes")
    seen = {home}
    for key in ("+", "ArrowRight", "ArrowLeft", "ArrowLeft", "-", "a"):
        page.keyboard.press(key)
        seen.add(shown_range(page))
    assert len(seen) >= 6
    page.keyboard.press("0")
    assert shown_range(page) == home
    box = page.locator("#lanes").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.wheel(0, -300)
    wheeled = moved(page, home)
    assert wheeled != home
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 120, box["y"] + 60, steps=4)
    page.mouse.up()
    assert moved(page, wheeled) != wheeled


@marked
def test_the_wheel_scrolls_the_page_until_the_timeline_has_the_focus(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.tried()).page
    page.locator("#lanes").scroll_into_view_if_needed()
    box, home, scrolled = page.locator("#lanes").bounding_box(), shown_range(page), page.evaluate("scrollY")
    page.mouse.move(box["x"] + 400, box["y"] + 60)
    page.mouse.wheel(0, -200)
    page.wait_for_function("before => scrollY < before", arg=scrolled, polling=50)
    assert shown_range(page) == home


@marked
def test_next_wait_is_named_with_its_source_line(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.tried()).page
    page.focus("#lanes")
    page.keyboard.press("n")
    first = page.inner_text("[data-tl=selected]")
    assert "torch.cuda.synchronize at train.py:11" in first and "host blocked 6.00 ms" in first
    assert "GPU idle because of it 2.00 ms" in first
    page.keyboard.press("n")
    before = shown_range(page)
    page.keyboard.press("p")
    assert shown_range(page) != before and page.inner_text("[data-tl=selected]") == first
    page.keyboard.press("Escape")
    assert page.inner_text("[data-tl=selected]") == "Nothing selected."


@marked
def test_an_idle_gap_leads_to_its_cause(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.tried()).page
    box = page.locator("#lanes").bounding_box()
    # the last lane is idle time: the gap of 2 ms at the end of the step
    page.locator("#lanes").click(position={"x": box["width"] - 60, "y": box["height"] - 20})
    text = page.inner_text("[data-tl=selected]")
    assert "GPU idle after a synchronize, 2.00 ms; cause: torch.cuda.synchronize at train.py:11" in text
    page.keyboard.press("Escape")
    page.keyboard.press("g")  # the same by keyboard
    text = page.inner_text("[data-tl=selected]")
    assert text.startswith("Gap 1 of 6 by size:") and "cause: torch.cuda.synchronize at train.py:11" in text
    page.click("#cause")
    assert page.inner_text("[data-tl=selected]").startswith(
        "torch.cuda.synchronize at train.py:11: host blocked 6.00 ms"
    )
    page.click("#row")
    assert page.evaluate("location.hash") == "#stall-1"


@marked
def test_a_row_of_the_waits_selects_it_in_the_timeline_and_its_address_restores_it(
    open_page: Callable[..., Opened],
) -> None:
    page = open_page(cases.tried()).page
    page.click("#waits summary")
    page.click("a[data-stall=stall-1]")
    selected = page.inner_text("[data-tl=selected]")
    assert "train.py:11" in selected and page.evaluate("location.hash") == "#stall-1"
    assert page.evaluate("document.activeElement.id") == "lanes"
    again = open_page(cases.tried(), at="#stall-1").page
    assert again.inner_text("[data-tl=selected]") == selected


@marked
def test_200_000_events_open_and_zoom_quickly(open_page: Callable[..., Opened]) -> None:
    """By the processor time of the page's main thread: a fifth of the bounds, however busy the machine is."""
    opened = open_page(cases.huge(), viewport={"width": 1280, "height": 900})
    page = opened.page
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used_seconds() -> float:
        values = {metric["name"]: metric["value"] for metric in metrics.send("Performance.getMetrics")["metrics"]}
        return float(values["TaskDuration"])

    page.reload()
    page.wait_for_selector("canvas[data-ready]", state="attached")
    opening = used_seconds()
    page.focus("#lanes")
    page.keyboard.press("a")
    keys = ["+"] * 12 + ["ArrowRight"] * 6 + ["-"] * 12
    for key in keys:
        page.keyboard.press(key)
        shown_range(page)
    zooming = (used_seconds() - opening) / len(keys)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    heap = page.evaluate("performance.memory.usedJSHeapSize")
    print(f"open {opening * 1e3:.0f} ms, zoom {zooming * 1e3:.1f} ms per key, {nodes} nodes, {heap >> 20} MiB")
    assert 0 < opening < 1.0 and 0 < zooming < 0.05
    assert nodes < 5000 and heap < 200 << 20
    assert opened.complaints == []


# ------------------------------------------------------------------------------------------- trying things out


@marked
def test_a_combination_is_looked_up_and_never_added_up(open_page: Callable[..., Opened]) -> None:
    page = open_page(cases.tried()).page
    assert page.inner_text("[data-tl=tried]").startswith("8.10 ms per step (80 % range 7.90 to 8.30 ms), +17 %")
    assert "This is event-interval; verify measured 9.50 → 8.17 ms." in page.inner_text("[data-tl=tried]")
    page.check("#tryout input[value='2']")
    assert page.inner_text("[data-tl=tried]").startswith("7.70 ms")  # the sum of the three gains would be 9.15 ms
    for value in ("0", "1", "2"):
        page.uncheck(f"#tryout input[value='{value}']")
    assert page.inner_text("[data-tl=tried]") == "No change: the loop as it is."


@marked
def test_bars_are_as_long_as_their_step_times(open_page: Callable[..., Opened]) -> None:
    levers = tuple(
        Lever(name, "scheme", "predicted", name, "", predicted=Speedup(ratio, ratio - 0.05, ratio + 0.05), rank=rank)
        for rank, (name, ratio) in enumerate((("event-interval", 1.5), ("pinned-copy", 1.2)), start=1)
    )
    page = open_page(replace(cases.tried(), levers=levers), viewport={"width": 1280, "height": 900}).page
    widths = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('tr[data-lever]')].map(tr => [tr.dataset.lever,"
        " [tr.querySelector('rect.bar').getBoundingClientRect().width,"
        " tr.querySelector('line.now').getBoundingClientRect().left"
        " - tr.querySelector('svg').getBoundingClientRect().left]]))"
    )
    for name, ratio in (("event-interval", 1.5), ("pinned-copy", 1.2)):
        then, now = widths[name]
        assert then / now == pytest.approx(1 / ratio, abs=2 / now)


@pytest.mark.slow
@marked
def test_the_pages_weighted_totals_are_those_of_the_program(open_page: Callable[..., Opened]) -> None:
    from tests.support.places import SAMPLE
    from tracelens import pipeline

    examined = pipeline.examine(pipeline.open_inputs((SAMPLE,)))
    planned = pipeline.illustrate(examined, pipeline.plan(examined))
    page = open_page(planned).page
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    before = totals(page)
    assert before == {s.id: f"{s.total:.2f}" for s in planned.schemes if s.estimate and s.total is not None}
    raw = page.locator("#scoring .score").all_inner_texts()
    weights = {
        "performance": 5.0,
        "difficulty": 5.0,
        "complexity": 40.0,
        "memory": 10.0,
        "maintainability": 35.0,
        "risk": 5.0,
    }
    for name, weight in weights.items():
        page.fill(f"input[data-criterion={name}]", str(int(weight)))
    other = pipeline.plan(examined, pipeline.Options(weights=weights))
    assert totals(page) == {s.id: f"{s.total:.2f}" for s in other.schemes if s.estimate and s.total is not None}
    ranked = [s.id for s in sorted(other.schemes, key=lambda s: s.rank or 99) if s.rank and s.estimate]
    shown = page.evaluate("[...document.querySelectorAll('#scoring tbody tr')].map(tr => tr.dataset.scheme)")
    assert shown[: len(ranked)] == ranked
    assert sorted(page.locator("#scoring .score").all_inner_texts()) == sorted(raw)
    page.click("#reset")
    assert totals(page) == before


def totals(page: Any) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('[data-total]')].map(b => [b.dataset.total, b.textContent]))"
    )
    return {name: text for name, text in found.items() if text != "–"}


# ---------------------------------------------------------------------------------------------------- ranks, checks


@marked
def test_every_rank_has_a_row_and_the_straggler_is_named(open_page: Callable[..., Opened]) -> None:
    page = open_page(replace(cases.tried(), ranks=cases.ranks(8, late=3))).page
    assert page.locator("[data-tl=ranks] tbody tr").count() == 8
    assert "Rank 3 is a straggler: its step is 20 % longer." in page.inner_text("#ranks")
    assert "the others wait for it" in page.inner_text("[data-tl=ranks] tbody tr:nth-child(4)")


def test_above_64_ranks_there_is_a_map_and_the_slowest() -> None:
    page = html.render(replace(cases.tried(), ranks=cases.ranks(200, late=150)))
    assert page.count('<rect class="heat') == 200 and page.count('<rect class="heat level-4"') == 1
    assert "rank 150" in page and "192 faster ranks are in the map only" in page


def test_ranks_that_end_together_are_told_apart_by_who_waits_least() -> None:
    even = tuple(replace(one, median_ns=12_000_000) for one in cases.ranks(4, late=2))
    assert "Rank 2 waits least in collectives: the others wait for it." in html.render(
        replace(cases.tried(), ranks=even)
    )
    assert "No rank stands out" in html.render(replace(cases.tried(), ranks=cases.ranks(4, late=None)))
    assert 'id="ranks"' not in html.render(replace(cases.tried(), ranks=cases.ranks(1, late=None)))


def test_no_symptom_is_in_two_groups() -> None:
    diagnosis = cases.tried()
    known = [sections.found(diagnosis), sections.passed(diagnosis), sections.unjudged(diagnosis)]
    names = [
        row[1] if part.id != "not-judged" else row[0]
        for part in known
        if part and part.table
        for row in part.table.rows
    ]
    assert sorted(names) == [
        "compile",
        "exposed_communication",
        "loader wait",
        "overlap_gap",
        "per-batch-sync",
        "sync_stall",
    ]


def test_the_data_of_the_timeline_is_json_that_cannot_end_its_script() -> None:
    page = html.render(cases.with_names("</script><!--<script>\u2028", cases.tried()))
    block = re.search(r'id="tl-timeline">(.*?)</script>', page, re.DOTALL)
    assert block is not None and "<" not in block[1]
    assert any("</script>" in name for name in json.loads(block[1])["names"])


@marked
def test_a_recording_without_a_gpu_is_drawn_too(open_page: Callable[..., Opened], tmp_path: Path) -> None:
    events = Events()
    for number in range(6):
        events.step(number, 100 * number, 100)
        events.add("cpu_op", "aten::mm", 100 * number + 10, 50)
    opened = open_page(planned((events.write(tmp_path / "cpu.pt.trace.json"),), PlanOptions()))
    assert opened.complaints == []
    assert opened.page.locator("#strip").count() == 0
    opened.page.click("[data-key=a]")
    assert shown_range(opened.page).startswith("steps 0 to 5")
    assert opened.complaints == []
