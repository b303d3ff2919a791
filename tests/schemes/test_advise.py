"""The answer: verdict sentence, limits of the user, stages with goals, sensitivity to the weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracelens.model import (
    BREAKDOWN_PARTS,
    Abstention,
    Breakdown,
    Edit,
    Estimate,
    InventoryItem,
    Location,
    Ratio,
    Stall,
    Verification,
)
from tracelens.schemes import advise, rules, score, wording
from tracelens.schemes.facts import AdoptionLimits, Facts

RULES = rules.load()
STEP = 10_000_000
SYNC = Stall("s1", "cudaDeviceSynchronize", "device", 1.0, 4_000_000, 1_500_000, 1_400_000, "exposed", None)
READ = Stall("s2", "cudaStreamSynchronize", "d2h", 1.0, 1_000_000, 0, 0, "harmless", Location("train.py", 57))
ALL = {
    rule.id: (Edit("interval-sync", ("s1", "s2"), interval=number),)  # each another change
    for number, rule in enumerate(RULES.schemes, start=1)
}


def estimate(gain: float, binding: str = "host") -> Estimate:
    step = round(STEP / (1 + gain / 100))
    return Estimate(STEP, step, step - 50_000, step + 50_000, binding, "unprofiled", "replayed")


def trial(scheme: str, ratio: float, **details) -> Verification:
    measured = Ratio(ratio, ratio - 0.01, ratio + 0.01)
    return Verification(scheme, "faster", True, measured, STEP, round(STEP * ratio), None, "", details)


def parts(**given: int) -> Breakdown:
    return Breakdown(STEP, dict.fromkeys(BREAKDOWN_PARTS, 0) | given)


def answer(gains: dict[str, float], limits: AdoptionLimits | None = None, **changes):
    facts = Facts(
        step_ns=STEP,
        plans=changes.pop("plans", ALL),
        estimates={name: estimate(gain) for name, gain in gains.items()} | changes.pop("estimates", {}),
        stalls=changes.pop("stalls", (SYNC, READ)),
        **changes,
    )
    return advise.recommend(RULES, score.judge(RULES, facts), facts, limits)


EVERYTHING = {
    "event-interval": 6.0,
    "interval-sync": 5.0,
    "event-sync": 3.0,
    "more-streams": 8.0,
    "full-pipeline": 14.0,
}


# ---------------------------------------------------------------------------------------------------------- verdict


def test_the_verdict_gives_cost_and_place():
    found = answer({"event-interval": 25.0})
    assert found.scheme == "event-interval"
    assert found.verdict == (
        "train.py:57: Wait every 4th batch saves 2.0 ms of every 10.0 ms step: "
        "+25 % throughput (+24 to +26 %, predicted)."
    )


def test_the_fastest_wins_by_its_gain():
    found = answer({"interval-sync": 15.0, "full-pipeline": 60.0})
    assert found.scheme == "full-pipeline"
    assert found.sensitivity["near_ties"] == ["full-pipeline"] and found.sensitivity["changes"] == {}
    assert found.sensitivity["performance_10_is_percent"] == 60.0


def test_the_fastest_is_named_when_a_limit_rules_it_out():
    found = answer({"interval-sync": 15.0, "full-pipeline": 60.0}, AdoptionLimits(days=2))
    assert found.scheme == "interval-sync"
    assert found.verdict.endswith("Copy ahead, wait every 3rd would be fastest with +60 %.")
    assert found.sensitivity["gives_up"] == {
        "fastest": "full-pipeline",
        "fastest_gain_percent": 60.0,
        "winner_gain_percent": 15.0,
        "points": 45.0,
    }


@pytest.mark.parametrize(
    ("binding", "name", "remedy"),
    [
        ("stream", "GPU-bound", "torch.compile"),
        ("host", "launch-bound", "CUDA graphs"),
        ("loader", "loader-bound", "DataLoader workers"),
        ("copy", "copy-bound", "smaller dtypes"),
    ],
)
def test_nothing_names_the_limit_and_what_helps_instead(binding, name, remedy):
    found = answer({"event-interval": 0.3, "interval-sync": 0.2}, binding=binding, gpu_busy_share=0.67)
    assert found.scheme is None
    assert found.verdict.startswith(
        "Nothing to fix: waits last 5.0 ms per step but no lever gains (best: Wait every 4th batch +0 %)"
    )
    assert f"{name}, GPU busy 67 %" in found.verdict and remedy in found.verdict
    assert len(found.verdict) <= 240


def test_a_gpu_that_is_busy_is_never_called_launch_bound():
    verdict = answer({"interval-sync": 0.0}, binding="host", gpu_busy_share=0.85).verdict
    assert "GPU-bound, GPU busy 85 %" in verdict and "launch" not in verdict


def test_a_large_gain_with_a_range_below_zero_is_for_a_trial_to_judge():
    """+18 % in the middle and -2 % at the low end: neither a promise nor nothing."""
    unsure = Estimate(STEP, 8_500_000, 7_500_000, 10_200_000, "host", "unprofiled", "replayed")
    found = answer({"interval-sync": 0.3}, binding="host", estimates={"event-interval": unsure})
    assert found.scheme is None and found.measure == "event-interval"
    assert found.verdict.startswith("Nothing to fix yet: waits last 5.0 ms per step, and ")
    assert "Wait every 4th batch may pay: +18 % (−2 to +33 %, predicted)" in found.verdict
    assert "verify --lever event-interval measures it" in found.verdict and len(found.verdict) <= 240
    assert answer({"interval-sync": 0.3}, binding="host").measure is None
    bare = answer({"interval-sync": 0.3}, binding="host", estimates={"event-interval": unsure}, has_run=False)
    assert "may pay" in bare.verdict and "tracelens verify" not in bare.verdict and "tracelens profile" in bare.verdict


def test_what_is_done_already_is_not_suggested():
    done = (InventoryItem("compile", True, "compiled regions"), InventoryItem("amp", False, "no autocast"))
    verdict = answer({"interval-sync": 0.0}, binding="stream", inventory=done).verdict
    assert "torch.compile" not in verdict and "bf16" in verdict


def test_the_limit_comes_from_the_breakdown_where_no_bound_was_computed():
    loader = parts(compute=3_000_000, idle_dataloader=5_000_000, idle_host=2_000_000)
    assert "loader-bound" in answer({"interval-sync": 0.0}, breakdown=loader).verdict


def test_no_waits_at_all():
    plans = dict.fromkeys(ALL, "the loop neither synchronizes nor reads a value in each batch")
    found = answer({}, plans=plans, stalls=(), binding="stream")
    assert found.scheme is None
    assert found.verdict.startswith("Nothing to fix: the host never waits")


def test_a_trace_without_a_gpu_gets_an_honest_sentence():
    found = answer({}, plans=dict.fromkeys(ALL, "no GPU"), stalls=(), has_gpu=False)
    assert found.scheme is None and "cannot be judged" in found.verdict


def test_a_trace_without_host_calls_does_not_say_that_nothing_waits():
    found = answer({}, plans=dict.fromkeys(ALL, "no calls"), stalls=(), waits_recorded=False)
    assert found.scheme is None and "were not recorded" in found.verdict


def test_abstentions_are_no_recommendation():
    abstained = dict.fromkeys(ALL, Abstention("replay", "no steps were found", "mark steps with profiler.step()"))
    found = answer({}, estimates=abstained)
    assert found.scheme is None
    assert found.verdict == "No lever could be judged: no steps were found; mark steps with profiler.step()."


def test_a_long_or_hostile_path_keeps_the_sentence_within_bounds():
    place = Location("x" * 400 + "\n\x1b[31m.py", 9)
    stall = Stall("s1", "api", "device", 1.0, STEP, 0, None, "unknown", place)
    verdict = answer({"event-interval": 25.0, "full-pipeline": 80.0}, stalls=(stall,)).verdict
    assert len(verdict) <= 240 and verdict.isprintable()


# ------------------------------------------------------------------------------------- time, gain, change tolerated


@pytest.mark.parametrize(
    ("limits", "scheme"),
    [
        (AdoptionLimits(days=2), "event-interval"),
        (AdoptionLimits(gain_percent=6, change="minimal", days=2), "event-interval"),
        (AdoptionLimits(change="acceptable"), "more-streams"),
        (AdoptionLimits(gain_percent=10), "full-pipeline"),
        (AdoptionLimits(days=5, gain_percent=7, change="acceptable"), "more-streams"),
    ],
)
def test_limits_that_can_be_had(limits, scheme):
    found = answer(EVERYTHING, limits)
    assert found.scheme == scheme
    assert found.sensitivity["limits"] == {"gave_way": [], "sentence": ""}


def test_the_gain_gives_way_first():
    found = answer(EVERYTHING, AdoptionLimits(days=2, gain_percent=20, change="minimal"))
    assert found.scheme == "event-interval"  # the fastest of those within two days
    assert found.sensitivity["limits"]["gave_way"] == ["gain"]
    assert "the gain gives way: 6.0 % of 20 %" in found.verdict


def test_the_time_and_the_amount_of_change_bind():
    time = answer({"more-streams": 8.0}, AdoptionLimits(days=1, change="acceptable"))
    assert time.scheme is None
    assert time.verdict == "Nothing fits the limits given: Copy the next batch ahead (+8.0 %) needs 5 days, not 1."
    change = answer({"more-streams": 8.0}, AdoptionLimits(days=9, change="minimal"))
    assert change.verdict.endswith("needs a change that is acceptable, not minimal.")
    both = answer({"full-pipeline": 14.0}, AdoptionLimits(days=2, change="minimal", gain_percent=5))
    assert both.scheme is None and "14 days, not 2 and a change that is" in both.verdict


def test_limits_do_not_make_a_worthless_scheme_win():
    assert answer({"interval-sync": 0.2}, AdoptionLimits(days=2, gain_percent=5)).scheme is None


# ----------------------------------------------------------------------------------------------------------- stages

BEFORE = {"syncs_per_step": 2.0, "sync_wait_us_per_step": 5000.0}
AFTER = {"syncs_per_step": 0.2, "sync_wait_us_per_step": 1000.0, "cpu_busy_share": 0.85, "gpu_busy_share": 0.7}
COUNTED = {"windows": {"before": BEFORE, "after": AFTER}}


def test_without_a_trial_no_goal_has_a_verdict():
    stages = answer(EVERYTHING).stages
    assert {goal.met for stage in stages for goal in stage.goals} == {None}
    assert stages[0].advice == "next command" and stages[0].command == ("verify", "event-interval")


def test_goals_are_held_against_the_trial():
    stages = answer(EVERYTHING, verifications=(trial("event-interval", 1 / 1.05, **COUNTED),)).stages
    met = {goal.text: goal.met for goal in stages[0].goals}
    assert met == {
        "synchronizations down by 90 %": True,
        "host wait down by 90 %": False,
        "CPU at 80 % or more": True,
        "training 3 % faster or more": True,
    }
    assert {goal.met for goal in stages[1].goals} == {None}


def test_a_stage_whose_goals_are_met_says_stop():
    counted = {"windows": {"before": BEFORE, "after": AFTER | {"sync_wait_us_per_step": 100.0}}}
    stages = answer(EVERYTHING, verifications=(trial("event-interval", 1 / 1.05, **counted),)).stages
    assert stages[0].advice == "stop: every goal of this stage is met"


def test_a_quantity_that_rose_is_said_to_have_risen():
    counted = {"windows": {"before": BEFORE, "after": AFTER | {"sync_wait_us_per_step": 11_550.0}}}
    stages = answer(EVERYTHING, verifications=(trial("event-interval", 1 / 1.05, **counted),)).stages
    assert (stages[0].goals[1].met, stages[0].goals[1].evidence) == (
        False,
        "Wait every Nth batch: up by 131 %, measured",
    )


def test_a_quantity_that_was_nothing_before_cannot_fall():
    counted = {"windows": {"before": {"syncs_per_step": 0.0}, "after": {"syncs_per_step": 0.0}}}
    stages = answer(EVERYTHING, verifications=(trial("event-interval", 0.9, **counted),)).stages
    assert stages[0].goals[0].met is None


def test_a_stage_that_could_not_be_judged_does_not_say_skip():
    abstained = dict.fromkeys(ALL, Abstention("replay", "no steps", "mark steps"))
    assert answer({}, estimates=abstained).stages[1].advice == "not judged: no estimate: no steps; mark steps"


def test_small_numbers_are_no_zero():
    tiny = replace(SYNC, wait_ns=2_130)
    verdict = answer({"interval-sync": -0.01}, stalls=(tiny,), binding="host").verdict
    assert "waits last <0.01 ms per step" in verdict and "+0 %" in verdict


def test_a_stage_that_does_not_pay_is_skipped_with_the_reason():
    assert answer({"interval-sync": 5.0, "more-streams": 0.1}).stages[1].advice.startswith("skip: no gain: +0 %")


# ------------------------------------------------------------------------------------------------------ sensitivity


def test_weights_do_not_decide_between_gains_that_differ():
    assert answer({"interval-sync": 14.0, "event-sync": 3.0}).sensitivity["changes"] == {}


# ------------------------------------------------------------------------------------------- what a verdict may claim


def test_a_gain_that_comes_from_several_lines_names_them():
    stalls = (replace(SYNC, location=Location("train.py", 55)), READ)
    assert answer({"event-interval": 25.0}, stalls=stalls).verdict.startswith(
        "train.py:55, 57: Wait every 4th batch saves"
    )


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        ((), ""),
        ((None, Location("a.py", 3), Location("a.py", 3)), "a.py:3"),
        ((Location("a.py", 3), Location("b.py", 9), Location("a.py", 5)), "a.py:3, 5 and 1 more"),
        (tuple(Location("a.py", line) for line in range(1, 7)), "a.py:1, 2, 3 and 3 more"),
        ((Location("a.py", None),), "a.py"),
    ],
)
def test_places_of_a_change(locations, expected):
    assert wording.places(locations) == expected


def test_without_steps_nobody_claims_to_know_each_batch():
    plans = dict.fromkeys(ALL, "the loop neither synchronizes nor reads a value in each batch")
    waits = answer({}, plans=plans, steps_found=False).verdict
    assert waits.startswith("No lever could be judged: no steps were found") and "tracelens profile" in waits
    assert (
        "in this recording (no steps were found in it)" in answer({}, plans=plans, stalls=(), steps_found=False).verdict
    )


def test_a_gpu_that_is_busy_with_collectives_is_not_told_to_run_cheaper_kernels():
    busy = parts(compute=3_000_000, communication_exposed=6_000_000, idle_host=1_000_000)
    verdict = answer({"interval-sync": 0.0}, binding="stream", breakdown=busy).verdict
    assert "communication-bound" in verdict and "kernels" not in verdict


def test_a_best_lever_that_loses_is_not_named():
    found = answer({"event-interval": -7.2, "interval-sync": -9.0}, binding="host", gpu_busy_share=0.67)
    assert "no lever gains" in found.verdict and "best:" not in found.verdict
