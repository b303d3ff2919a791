"""Verification without processes: intervals, masks, verdicts, verify.json."""

import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tracelens.errors import InputError, UsageError
from tracelens.model import Estimate, FilePatch, Patch, Ratio, Verification
from tracelens.report import text
from tracelens.report.terminal import TerminalStyle
from tracelens.verify import imported_sources, request, result, store, verdict
from tracelens.verify.compare import printed_output, times
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.policy import POLICY
from tracelens.verify.trial_process import timed_steps_of


def test_student_interval_of_three_pairs_is_worked_out_by_hand():
    ratio = times.ratio_of([(1.0, math.exp(-0.1)), (1.0, math.exp(-0.2)), (1.0, math.exp(-0.3))])
    half = 4.303 * 0.1 / math.sqrt(3)
    assert ratio.value == pytest.approx(math.exp(-0.2))
    assert ratio.low == pytest.approx(math.exp(-0.2 - half))
    assert ratio.high == pytest.approx(math.exp(-0.2 + half))


def test_one_pair_has_no_interval():
    assert times.ratio_of([(2.0, 1.0)]) is None


def test_one_outlier_among_few_pairs_widens_the_interval_and_not_the_number():
    """The pairs of a real trial: three end at 6.7 to 6.8 ms, one original took 11.7 instead of 9.4 to 9.8 ms."""
    ratio = times.ratio_of([(9725, 6692), (9423, 6670), (11694, 6772), (9796, 6805)])
    assert ratio.value == pytest.approx((6692 + 6805) / (9725 + 9796))
    assert 1 / ratio.high - 1 < 0.30 and 1 / ratio.low - 1 > 0.74


@pytest.mark.parametrize("pairs", [2, 3, 4, 5, 6, 7, 8, 9, 16, 50])
def test_the_number_lies_in_its_interval(pairs):
    dice = random.Random(pairs)
    for _ in range(200):
        tail = [(1.0, math.exp(min(dice.expovariate(1.0) ** 3, 50.0))) for _ in range(pairs)]
        ratio = times.ratio_of(tail)
        assert ratio.low <= ratio.value <= ratio.high
    assert times.ratio_of([(3.0, 1.1)] * pairs).value == pytest.approx(1.1 / 3)


def test_one_burst_does_not_widen_the_interval_of_many_pairs():
    clean = [(1.0, 0.90 + 0.001 * n) for n in range(-5, 6)]
    burst = [*clean, (1.0, 3.0)]
    ratio = times.ratio_of(burst)
    assert len(burst) == POLICY.most_pairs
    assert ratio.high < 1
    assert times.judge(ratio, len(burst)) == "faster"


@pytest.mark.parametrize("pairs", [3, 5, 7, 8, 12, 15, 16, 40])
def test_the_interval_holds_the_truth_95_times_in_100(pairs):
    dice = random.Random(7)
    held = 0
    for _ in range(400):
        ratio = times.ratio_of([(1.0, math.exp(dice.gauss(-0.05, 0.02))) for _ in range(pairs)])
        held += ratio.low <= math.exp(-0.05) <= ratio.high
    assert 0.92 <= held / 400 <= 0.99


@pytest.mark.parametrize(
    ("ratio", "pairs", "expected"),
    [
        (Ratio(0.80, 0.78, 0.82), 5, "faster"),
        (Ratio(0.995, 0.993, 0.997), 5, "no change"),  # significant, but within 1 %
        (Ratio(1.0, 0.98, 1.02), 5, "no change"),
        (Ratio(1.0, 0.95, 1.05), 5, "inconclusive"),
        (Ratio(0.8, 0.6, 1.07), 5, "inconclusive"),
        (Ratio(1.2, 1.1, 1.3), 5, "slower"),
        (Ratio(0.8, 0.79, 0.81), 2, "inconclusive"),
        (None, 0, "inconclusive"),
    ],
)
def test_outcome_of_an_interval(ratio, pairs, expected):
    assert times.judge(ratio, pairs) == expected


def test_step_time_is_the_median_of_blocks_and_a_drain_every_tenth_step_counts_once_per_block():
    step = [1_000] * 9 + [11_000]
    ends = [sum((step * 5)[:n]) for n in range(51)]
    timed_steps = timed_steps_of({"warmup": 10, "block": 10, "host_ns": ends[1:], "cuda_blocks": []})
    assert timed_steps.step_ns == 2_000
    assert timed_steps.steps == 40


def test_cuda_events_win_over_the_host_clock_and_the_last_part_block_counts_in_the_mean_only():
    spans = [
        {"first": 10, "last": 20, "ns": 100},
        {"first": 20, "last": 30, "ns": 300},
        {"first": 30, "last": 40, "ns": 100},
        {"first": 40, "last": 42, "ns": 80},
    ]
    timed_steps = timed_steps_of({"warmup": 10, "block": 10, "host_ns": list(range(42)), "cuda_blocks": spans})
    assert (timed_steps.clock, timed_steps.steps, timed_steps.blocks_ns) == ("cuda_event", 32, (10, 30, 10))
    assert timed_steps.step_ns == 10
    assert timed_steps.mean_ns == pytest.approx(580 / 32)


def test_a_script_that_ends_within_the_warm_up_has_no_step_time():
    assert timed_steps_of({"warmup": 10, "block": 10, "host_ns": [1, 2, 3], "cuda_blocks": []}) is None


A = "start in /tmp/x81\nstep 0 loss 0.50 time 0.011\nstep 1 loss 0.40 time 0.012\n"
B = "start in /tmp/q17\nstep 0 loss 0.50 time 0.013\nstep 1 loss 0.40 time 0.012\n"


def test_tokens_that_differ_between_originals_are_masked_in_their_whole_column():
    mask = printed_output.mask_of([A, B])
    patched = "start in /tmp/zzz\nstep 0 loss 0.50 time 0.020\nstep 1 loss 0.40 time 0.999\n"
    assert printed_output.difference(A, patched, mask) is None


PADDED = "Epoch [1] Time {:6.3f} ({:6.3f}) Loss {:.4f}\n"


def padded(time, loss=2.5):
    """As progress meters print: a time of ten seconds takes a space less than one of nine."""
    return "".join(PADDED.format(time + n, time + n / 2, loss) for n in range(2))


def test_the_padding_of_a_masked_number_is_masked_with_it():
    """From 9.9 to 10.1 seconds the line's spaces move: on a machine that is slow once, equal lines were unequal."""
    mask = printed_output.mask_of([padded(8.1), padded(8.3)])
    assert printed_output.difference(padded(8.1), padded(9.6), mask) is None
    assert printed_output.difference(padded(8.1), padded(9.6, loss=2.6), mask).line == 1
    wide = printed_output.mask_of([padded(8.1), padded(9.6)])
    assert wide.lines == frozenset()
    assert printed_output.difference(padded(8.1), padded(11.2), wide) is None
    assert printed_output.difference(padded(8.1), padded(11.2, loss=2.6), wide).line == 1


def test_a_time_is_masked_as_a_whole():
    """Two originals that both took two hours and some minutes say nothing of one that took three."""
    mask = printed_output.mask_of(["it 10 eta: 2:47:53 acc 3:1\n", "it 10 eta: 2:51:09 acc 3:1\n"])
    assert printed_output.difference("it 10 eta: 2:47:53 acc 3:1\n", "it 10 eta: 3:02:11 acc 3:1\n", mask) is None
    assert printed_output.difference("it 10 eta: 2:47:53 acc 3:1\n", "it 10 eta: 3:02:11 acc 4:1\n", mask).line == 1
    assert printed_output.difference("it 10 eta: 2:47:53 acc 3:1\n", "it 20 eta: 2:47:53 acc 3:1\n", mask).line == 1
    clock = printed_output.mask_of(["at 17:29:19.25 ok\n", "at 17:29:20.75 ok\n"])
    assert printed_output.difference("at 17:29:19.25 ok\n", "at 18:00:02.00 ok\n", clock) is None
    step = printed_output.mask_of(["12:0.25\n", "12:0.31\n"])  # a step and a time, no clock
    assert printed_output.difference("12:0.25\n", "13:0.25\n", step).line == 1


@pytest.mark.parametrize(
    ("original", "patched"),
    [
        ("loss:0.5 epoch_Time:4.0min:", "loss:0.5 epoch_Time:0.0min:"),
        ("10 loss 0.5 took 12 s", "10 loss 0.5 took 7 s"),
        ("0.5 in 12.3 seconds", "0.5 in 7.1 seconds"),
        ("ETA: 3 loss 0.5", "ETA: 1 loss 0.5"),
        ("0.5 3.1 it/s", "0.5 4.7 it/s"),
        ("0.5 (312 samples/sec)", "0.5 (498 samples/sec)"),
        ("Time 1.2 (1.3) Loss 0.5", "Time 0.8 (1.3) Loss 0.5"),
    ],
)
def test_times_and_rates_are_masked_also_where_two_originals_round_to_the_same(original, patched):
    """An estimate in whole minutes agrees between two originals and changes because the patch is faster."""
    mask = printed_output.mask_of([original, original])
    assert printed_output.difference(original, patched, mask) is None
    changed = patched.replace("0.5", "0.6")
    assert printed_output.difference(original, changed, mask).line == 1


@pytest.mark.parametrize(
    ("original", "patched"),
    [("epoch 3 min 0.1", "epoch 4 min 0.1"), ("3 samples", "4 samples"), ("acc 0.1 lr 2", "acc 0.1 lr 3")],
)
def test_numbers_beside_other_words_are_compared(original, patched):
    assert printed_output.difference(original, patched, printed_output.mask_of([original, original])).line == 1


def test_spaces_that_nothing_masks_count():
    assert printed_output.difference("a  1\n", "a 1\n", printed_output.mask_of(["a  1\n", "a  1\n"])) is not None


def test_a_changed_loss_beside_a_masked_time_is_found():
    mask = printed_output.mask_of([A, B])
    patched = A.replace("loss 0.40", "loss 0.41")
    assert printed_output.difference(A, patched, mask).line == 3


def test_a_missing_last_line_is_a_difference():
    found = printed_output.difference(A, A[: A.rindex("step 1")], printed_output.mask_of([A, A]))
    assert (found.line, found.patched) == (3, None)


def test_swapped_lines_differ_in_order_but_not_as_a_set():
    mask = printed_output.mask_of(["a 1\nb 2\n", "a 1\nb 2\n"])
    assert printed_output.difference("a 1\nb 2\n", "b 2\na 1\n", mask) is not None
    assert printed_output.difference("a 1\nb 2\n", "b 2\na 1\n", mask, ordered=False) is None


def test_outputs_of_different_length_cannot_be_compared():
    assert not printed_output.mask_of(["a\nb\n", "a\n"]).comparable


EVIDENCE = verdict.VerdictEvidence(None, None, None, False, Ratio(0.8, 0.78, 0.82), 5, False)
ESTIMATE = Estimate(1_000_000, 800_000, 760_000, 840_000, "host", "unprofiled", "replayed", ("a",))


def test_different_numbers_outrank_any_speed():
    evidence = replace(EVIDENCE, difference=Difference("loss", "backward 3", "0.5", "0.25"))
    assert verdict.outcome_of(evidence) == "different numbers"
    assert verdict.numbers_equal(evidence) is False
    assert "backward 3" in verdict.sentence(evidence, ESTIMATE)


def test_an_original_that_does_not_repeat_itself_is_inconclusive_but_its_speed_is_said():
    evidence = replace(EVIDENCE, noise=Difference("loss", "backward 1", "0.5", "0.25"))
    assert verdict.outcome_of(evidence) == "inconclusive"
    assert verdict.numbers_equal(evidence) is None
    assert "+25 %" in verdict.sentence(evidence, None)


def test_prediction_stands_beside_the_measurement():
    text = verdict.sentence(EVIDENCE, ESTIMATE)
    assert "+25 %" in text
    assert "inside the predicted range" in text
    outside = replace(EVIDENCE, ratio=Ratio(0.99, 0.98, 1.0))
    assert "outside the predicted range" in verdict.sentence(outside, ESTIMATE)


def test_the_gain_is_that_of_the_step_times_that_are_shown():
    evidence = replace(EVIDENCE, ratio=Ratio(0.6636, 0.58, 0.82), middle_ns=(25_430_000, 16_875_000))
    assert "Faster: +50 %, 95 % interval +22 % to +72 %" in verdict.sentence(evidence, None)


def test_pairs_that_scatter_wildly_name_no_number():
    evidence = replace(EVIDENCE, ratio=Ratio(0.33, 0.0015, 76.0), pairs=3)
    text = verdict.sentence(evidence, ESTIMATE)
    assert verdict.outcome_of(evidence) == "inconclusive"
    assert "3 interleaved pairs scatter too much to name a number" in text
    assert "%" not in text


def test_a_patched_version_that_fails_is_a_verdict_of_its_own():
    evidence = replace(EVIDENCE, failure="exit code 1", broken=True)
    assert (verdict.outcome_of(evidence), verdict.numbers_equal(evidence)) == ("failed", None)
    assert verdict.sentence(evidence, None) == "The patched version failed: exit code 1"


def verification(scheme, outcome="faster"):
    details = {"steps": 200, "notes": ["n"]}
    return Verification(scheme, outcome, True, Ratio(0.8, 0.7, 0.9), 1_000_500, 800_250, ESTIMATE, "v", details)


def test_store_keeps_other_schemes_and_gives_back_what_it_took(tmp_path):
    store.write(tmp_path, [verification("event-sync"), verification("pinned-copy")])
    store.write(tmp_path, [verification("event-sync", "slower"), verification(None)])
    back = {one.scheme: one for one in store.read(tmp_path)}
    assert {name: one.outcome for name, one in back.items()} == {
        "pinned-copy": "faster",
        "event-sync": "slower",
        None: "faster",
    }
    one = back["pinned-copy"]
    assert (one.ratio, one.base_ns, one.patched_ns, one.predicted) == (
        Ratio(0.8, 0.7, 0.9),
        1_000_500,
        800_250,
        ESTIMATE,
    )
    assert one.details["steps"] == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outcome": "splendid"}, "outcome should be one of"),
        ({"ratio": {"value": "x", "low": 1, "high": 1}}, "ratio.value should be a number"),
        ({"ratio": {"value": 0, "low": 0, "high": 0}}, "not above 0"),
        ({"ratio": {"value": float("inf"), "low": 1, "high": 1}}, "Infinity is no JSON"),
        ({"predicted": {"base_us": 1}}, "missing"),
        ({"base_us": "a"}, "base_us should be a number"),
        ({"windows": []}, "windows should be an object"),
    ],
)
def test_store_says_what_is_wrong_with_an_entry(tmp_path, change, said):
    entry = store.document(verification("event-sync")) | change
    (tmp_path / "verify.json").write_text(json.dumps({"schema_version": 1, "entries": [entry]}))
    with pytest.raises(InputError, match=said):
        store.read(tmp_path)


def test_store_reads_nothing_where_nothing_was_verified(tmp_path):
    assert store.read(tmp_path) == ()


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"schema_version": 2, "entries": []}', '{"schema_version": 1, "entries": [{}]}']
)
def test_a_foreign_verify_json_is_an_input_error_and_is_not_written_over(tmp_path, text):
    path = tmp_path / "verify.json"
    path.write_text(text)
    with pytest.raises(InputError):
        store.read(tmp_path)
    if text != '{"schema_version": 1, "entries": [{}]}':
        with pytest.raises(InputError):
            store.write(tmp_path, [verification("event-sync")])
        assert path.read_text() == text


def test_document_is_json(tmp_path):
    json.dumps(store.document(verification("event-sync")), allow_nan=False)


PATCH = Patch(
    __import__("pathlib").Path("/p"), (FilePatch(__import__("pathlib").Path("/p/a.py"), b"1", b"2"),), (), (), ""
)


def asked(tmp_path, **options):
    return request.VerificationRequest(
        request.script_command("a.py"), tmp_path, tmp_path, request.PatchedVersion(PATCH, "event-sync"), **options
    )


def test_plan_says_the_budget_before_anything_is_known(tmp_path):
    said = request.opening(asked(tmp_path, budget_s=600, step_ns=10))
    assert "at most 10 min" in said and "about" not in said


def test_plan_gives_up_steps_before_rounds_and_then_says_that_the_budget_is_small(tmp_path):
    pace = request.Pace(8.0, 0.5)
    large, medium, small = (
        request.fit(asked(tmp_path, budget_s=budget), 1, pace, budget) for budget in (10_000, 1_200, 20)
    )
    assert (large.steps, large.rounds) == (200, POLICY.pairs)
    assert medium.steps < 200
    assert medium.rounds == POLICY.pairs
    assert medium.seconds <= 1_200
    assert small.rounds == POLICY.least_pairs
    enough = request.sufficient_budget(small.seconds)
    assert "too small" in small.text and f"--budget {enough}s" in small.text
    again = request.fit(asked(tmp_path, budget_s=enough), 1, pace, enough)
    assert again.seconds <= enough, "what is said to be needed is enough"


def test_fast_steps_are_timed_for_longer(tmp_path):
    found = request.fit(asked(tmp_path), 1, request.Pace(8.0, 2.6e-3), 600)
    assert found.steps == pytest.approx(2.0 / 2.6e-3, abs=1)


def test_nothing_to_verify_is_a_usage_error(tmp_path):
    empty = Patch(tmp_path, (), (), (), "")
    with pytest.raises(UsageError, match="nothing"):
        request.check(asked(tmp_path), (request.PatchedVersion(empty, "event-sync"),))
    with pytest.raises(UsageError, match="less than"):
        request.check(asked(tmp_path, steps=3), (request.PatchedVersion(PATCH),))
    with pytest.raises(UsageError, match="twice"):
        request.check(asked(tmp_path), (request.PatchedVersion(PATCH), request.PatchedVersion(PATCH)))


def test_hand_made_change_takes_the_place_of_before_with_its_neighbors(tmp_path):
    for folder, imports in (("old", "import helper"), ("new", "import helper, extra")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper.py").write_text("x = 1")
        (tmp_path / folder / "train.py").write_text(imports)
    (tmp_path / "new" / "extra.py").write_text("y = 1")
    patch = request.hand_made(tmp_path / "old" / "train.py", tmp_path / "new" / "train.py")
    after = {file.path.name: file.after for file in patch.files}
    assert after == {"train.py": b"import helper, extra", "extra.py": b"y = 1"}
    assert {file.path.parent for file in patch.files} == {tmp_path / "old"}
    with pytest.raises(InputError):
        request.hand_made(tmp_path / "old" / "train.py", tmp_path / "none.py")


def test_what_merely_lies_beside_a_hand_made_script_is_left_there(tmp_path):
    """AFTER.py in a folder of all sorts, such as /tmp: only what it imports comes along."""
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "pkg").mkdir(parents=True)
    (new / "pkg" / "deep").mkdir(parents=True)
    (old / "train.py").write_text("import pkg.model")
    (new / "train.py").write_text("import torch\nfrom pkg.model import net\ndef main():\n    import late\n")
    (new / "pkg" / "model.py").write_text("from .deep import block\nimport shared")
    (new / "pkg" / "deep" / "block.py").write_text("")
    for name in ("late", "shared", "stray", "pkg2"):
        (new / f"{name}.py").write_text("x = 1")
    (new / "broken.py").write_text("def (")
    for n in range(imported_sources.MOST_FILES + 1):
        (new / f"other{n}.py").touch()
    patch = request.hand_made(old / "train.py", new / "train.py")
    taken = {str(file.path.relative_to(old)) for file in patch.files}
    assert taken == {"train.py", "late.py", "shared.py", "pkg/model.py", "pkg/deep/block.py"}
    (new / "train.py").write_text("\n".join(f"import other{n}" for n in range(imported_sources.MOST_FILES + 1)))
    with pytest.raises(UsageError, match="more than 200 files"):
        request.hand_made(old / "train.py", new / "train.py")


def test_two_equal_scripts_are_no_change(tmp_path):
    for name in ("before.py", "after.py"):
        (tmp_path / name).write_text("x = 1")
    patch = request.hand_made(tmp_path / "before.py", tmp_path / "after.py")
    with pytest.raises(UsageError, match="the same, byte for byte"):
        request.check(asked(tmp_path), (request.PatchedVersion(patch),))


def test_the_two_step_times_were_measured_as_a_pair_and_are_what_the_ratio_is_of():
    """Three pairs: the second has the middle ratio, 0.8. Two pairs: the means of both sides."""
    pairs = ((100.0, 85.0), (130.0, 104.0), (110.0, 70.0))
    measured = SimpleNamespace(pairs=pairs)
    ratio = times.ratio_of(pairs)
    assert result._shown(measured, ratio) == (130, 104) and ratio.value == pytest.approx(0.8)
    two = times.ratio_of(pairs[:2])
    assert result._shown(SimpleNamespace(pairs=pairs[:2]), two) == (115, 94) and two.value == pytest.approx(94.5 / 115)
    assert result._shown(SimpleNamespace(pairs=pairs[:1]), None) == (None, None)
    assert result._shown(SimpleNamespace(pairs=()), None) == (None, None)


def test_of_several_changes_each_verdict_names_its_own():
    both = [
        Verification(scheme, "no change", True, Ratio(1.0, 0.99, 1.01), 100, 100, None, "Same results.", {})
        for scheme in ("event-sync", "pinned-copy")
    ]
    shown = text.verification(both, TerminalStyle(120, color=False), "tracelens report")
    assert "Wait each batch for an event (event-sync): Same results." in shown
    assert "Copy from pinned memory (pinned-copy): Same results." in shown
    assert "event-sync" not in text.verification(both[:1], TerminalStyle(120, color=False), "tracelens report")
