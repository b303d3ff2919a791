"""One step now and then: one drawing for page, card and terminal, as long as the baseline and as busy as recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tracelens.model import DrawnSpan, DrawnStep, Estimate
from tracelens.report import fix_card, screen_text, text
from tracelens.report.first_screen import first_screen
from tracelens.report.step_strip import GPU, PYTHON, Segment, StripLane, StripStep, _moved
from tracelens.report.terminal import TerminalStyle


def lane(*parts: tuple[str, float]) -> StripLane:
    segments, x = [], 0.0
    for kind, width in parts:
        segments.append(Segment(kind, width, x, width, "", "", ""))
        x += width
    return StripLane(GPU, tuple(segments), "")


@pytest.mark.parametrize(
    ("parts", "drawn"),
    [
        ((("lost", 50), ("gpu", 50)), "·····█████"),
        ((("lost", 20), ("copy", 10), ("lost", 10), ("gpu", 30)), "··▒·███"),  # a shorter step on the same scale
        ((("lost", 4), ("gpu", 96)), "██████████"),
        ((("lost", 99.6), ("gpu", 0.4)), "··········█"),  # it works, so it is seen
        ((("gpu", 100),), "██████████"),
        ((("whole", 70),), "░░░░░░░"),  # measured, and its parts not recorded
    ],
)
def test_a_step_in_a_terminal_has_the_parts_of_the_page(parts: tuple[tuple[str, float], ...], drawn: str) -> None:
    assert screen_text.strip_of(lane(*parts), 10) == drawn


def test_page_and_terminal_draw_the_same_steps() -> None:
    screen = first_screen(cases.recommended())
    assert screen.strip is not None and screen.then is not None
    now, then = screen.strip.steps
    assert (now.step_ns, then.step_ns) == (cases.recommended().steps.best_known_ns, screen.then.step_ns)
    for step in (now, then):
        assert step.gpu is not None
        assert sum(part.ns for part in step.gpu.segments) == pytest.approx(step.step_ns, rel=0.01)
    drawn = text.recommendation(cases.recommended(), TerminalStyle(80)).splitlines()
    assert [line.split()[0] for line in drawn if "█" in line][:2] == ["now", "then"]


@pytest.mark.parametrize(("waits", "told"), [((1_000_000, 4_300_000), True), ((1_000_000, 1_300_000), False)])
def test_a_wait_for_a_batch_that_grows_is_explained(waits: tuple[int, int], told: bool) -> None:
    steps = [
        StripStep("", 10_000_000, "", (StripLane(PYTHON, (Segment("await", ns, 0, 1, "", "", ""),), ""),), 1)
        for ns in waits
    ]
    assert _moved(steps, 10_000_000).startswith("Waiting for a batch goes from 1.0 to 4.3 ms") is told
    assert _moved(steps[:1], 10_000_000) == ""


def test_without_steps_nothing_is_drawn() -> None:
    diagnosis = cases.recommended()
    screen = first_screen(replace(diagnosis, steps=replace(diagnosis.steps, source="none")))
    assert screen.strip is None


def test_the_card_of_fix_draws_what_its_trial_measured() -> None:
    """On the trial's own originals: not on the step time that was known before."""
    diagnosis = cases.recommended()
    (trial,) = diagnosis.verifications
    window = {"windows": {"after": {"gpu_busy_us_per_step": 1500.0}}}
    times = {"base_ns": 2 * (trial.base_ns or 0), "patched_ns": 2 * (trial.patched_ns or 0)}
    slower = replace(trial, **times, details={**trial.details, **window})
    card = fix_card.card(diagnosis, next(iter(diagnosis.patches.values())), slower)
    assert card.strip is not None
    assert [step.step_ns for step in card.strip.steps] == [slower.base_ns, slower.patched_ns]
    drawn = fix_card.text(card, TerminalStyle(80)).splitlines()
    assert [line.split()[0] for line in drawn if "█" in line][:2] == ["now", "then"]
    unmeasured = replace(trial, ratio=None)
    assert fix_card.card(diagnosis, next(iter(diagnosis.patches.values())), unmeasured).strip is None


def test_the_busy_share_that_is_told_is_the_one_that_is_drawn() -> None:
    """A change of copies changes how long they take: the 7 ms of kernels now, and the copy of the predicted step."""
    base = cases.recommended()
    scheme = base.recommendation.scheme
    predicted = replace(
        base, verifications=(), drawn=(DrawnStep(scheme, 8_000_000, (bar("gemm", 0, 4), bar("Memcpy HtoD", 4, 5))),)
    )
    screen = first_screen(predicted)
    assert screen.then is not None and screen.strip is not None and screen.then.busy_share is not None
    then = screen.strip.steps[1].gpu
    assert then is not None
    works = {part.kind: part.ns for part in then.segments}
    assert works["gpu"] + works["copy"] == pytest.approx(screen.then.busy_share * screen.then.step_ns)
    assert (works["gpu"], works["copy"]) == (pytest.approx(7_000_000), pytest.approx(1_000_000))


def test_the_parts_of_a_measured_step_are_those_of_its_own_recording() -> None:
    """Of 8.17 ms measured the GPU was recorded to work 7.5, 0.5 of them copies beside no kernel."""
    base = cases.recommended()
    (trial,) = base.verifications
    own = {"gpu_busy_us_per_step": 7500.0, "h2d_us_per_step": 800.0, "h2d_hidden_us_per_step": 300.0}
    for after, parts in (
        (own, {"lost": 670_000, "copy": 500_000, "gpu": 7_000_000}),
        ({"gpu_busy_share": 0.9}, {"whole": 8_170_000}),  # of a step that the profiler stretched
        ({**own, "gpu_busy_us_per_step": 9000.0}, {"whole": 8_170_000}),  # recorded at another pace
    ):
        measured = replace(trial, details={"windows": {"after": after}})
        estimate = Estimate(9_500_000, 8_170_000, 8_000_000, 8_400_000, "stream", "unprofiled", "measured")
        schemes = (replace(base.schemes[0], estimate=estimate), *base.schemes[1:])
        screen = first_screen(replace(base, schemes=schemes, verifications=(measured,)))
        assert screen.strip is not None and screen.then is not None
        then = screen.strip.steps[1].gpu
        assert then is not None
        assert {part.kind: part.ns for part in then.segments} == pytest.approx(parts)
        assert screen.then.busy_share == (pytest.approx(7.5 / 8.17) if "gpu" in parts else None)


def bar(name: str, start_ms: int, end_ms: int) -> DrawnSpan:
    return DrawnSpan("stream 7", name, start_ms * 1_000_000, end_ms * 1_000_000)
