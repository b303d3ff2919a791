"""Levers: which there are on a Run, in which order, and how a word of the command line names one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import report_cases
from tracelens import run_levers
from tracelens.errors import RuleError, UsageError
from tracelens.levers.chosen import chosen
from tracelens.levers.definition import by_id
from tracelens.levers.states import LeverFacts, levers_of_run, not_applicable
from tracelens.model import (
    NEW_ITERATOR,
    InventoryItem,
    Lever,
    Location,
    Owner,
    Owners,
    RankRecording,
    Run,
    Speedup,
    Toggle,
)
from tracelens.report.json import lever_entry
from tracelens.schemes import rules

LOADED = rules.load()
RULES = LOADED.levers
COLLECT = Location("train.py", 61, "train")


def facts(**changes: object) -> LeverFacts:
    """A step of 100 ns: 60 of the DataLoader, 30 of gc.collect (29 of them recoverable), 10 of the GPU."""
    owners = Owners(
        100,
        (
            Owner("dataloader", 60, (Location("train.py", 54, "train"),)),
            Owner(
                "host_line", 30, (COLLECT,), "gc.collect", recoverable_ns=20, low_ns=0, high_ns=50, evidence="replayed"
            ),
            Owner("gpu", 10),
        ),
    )
    return replace(LeverFacts(gpu=True, owners=owners), **changes)  # type: ignore[arg-type]


def states(known: LeverFacts) -> dict[str, Lever]:
    return {lever.id: lever for lever in levers_of_run(RULES, known)}


def test_the_levers_of_the_largest_owner_come_first() -> None:
    order = [lever.id for lever in levers_of_run(RULES, facts()) if lever.state == "not_tried"]
    assert order.index("workers=2") < order.index("bf16") < order.index("fused")


def test_a_line_that_owns_time_is_a_lever_with_what_the_replay_says_of_it() -> None:
    line = states(facts())["line=train.py:61"]
    assert line.state == "predicted"
    assert line.predicted == Speedup(1.25, 1.0, 2.0)
    assert line.locations == (COLLECT,)
    assert line.rank == 1
    assert not line.predicted.excludes_zero


def test_what_a_line_gives_back_is_taken_out_of_the_step_without_the_profiler() -> None:
    """Recorded steps of 100, of which 20 of the line's; without the profiler 60 of 200 go."""
    known = facts().owners
    line = replace(known.owners[1], recoverable_ns=60, low_ns=40, high_ns=100)
    other = replace(known, owners=(known.owners[0], line, known.owners[2]), base_ns=200)
    assert states(facts(owners=other))["line=train.py:61"].predicted == Speedup(200 / 140, 200 / 160, 2.0)


def test_a_line_whose_call_the_training_needs_is_no_lever_unless_it_is_named() -> None:
    owner = replace(facts().owners.owners[1], callee="model.forward")
    others = (facts().owners.owners[0], owner, facts().owners.owners[2])
    assert "line=train.py:61" not in states(facts(owners=Owners(100, others)))
    assert [lever.id for lever in chosen("line=train.py:61", RULES)] == ["line=train.py:61"]


def test_a_lever_is_done_or_does_not_apply_only_where_the_run_says_so() -> None:
    loop = (
        InventoryItem("amp", True, "kernels of 16 bits run"),
        InventoryItem("compile", None, "cannot be told"),
        InventoryItem("loader_workers", False, "num_workers=0, recorded", 0),
    )
    levers = states(facts(inventory=loop, torch="2.9.1", variables={"CUDA_LAUNCH_BLOCKING": None}))
    assert (levers["bf16"].state, levers["bf16"].reason) == ("done", "kernels of 16 bits run")
    assert levers["compile"].state == "not_tried"
    assert levers["prefetch=4"].state == "not_applicable"
    assert levers["prefetch=4"].reason == "the DataLoader has no workers (num_workers=0, recorded)"
    assert levers["launch-blocking"].state == "done"
    assert levers["cudnn-v8"].state == "not_applicable"
    assert states(facts(variables={"CUDA_LAUNCH_BLOCKING": "1"}))["launch-blocking"].state == "not_tried"


def test_levers_of_convolutions_need_one_and_an_optimizer_that_takes_many_tensors_is_no_lever() -> None:
    none = InventoryItem("convolutions", False, "no convolution was recorded")
    many = InventoryItem("foreach_optimizer", True, "the trace has '_foreach_add_'")
    levers = states(facts(inventory=(none, many)))
    for name in ("channels-last", "cudnn-benchmark"):
        assert (levers[name].state, levers[name].reason) == ("not_applicable", "no convolution was recorded")
    assert (levers["foreach"].state, levers["foreach"].reason) == ("done", "the trace has '_foreach_add_'")
    unknown = states(facts(inventory=(replace(none, present=None), replace(many, present=False))))
    assert {unknown[name].state for name in ("channels-last", "cudnn-benchmark", "foreach")} == {"not_tried"}


def test_without_a_dataloader_its_levers_do_not_apply() -> None:
    """A trial of each would take a process to find that out."""
    none = states(facts(loader=False))
    for name in ("workers=4", "pin-memory", "batch=2x", "prefetch=4"):
        assert (none[name].state, none[name].reason) == ("not_applicable", "no batch came from a DataLoader")
    for known in (True, None):
        assert states(facts(loader=known))["batch=2x"].state == "not_tried"


@pytest.mark.parametrize(
    ("noted", "known"), [([[]], False), ([[], [{"num_workers": 0}]], True), ([[], None], None), ([], None)]
)
def test_whether_there_is_a_loader_is_what_every_rank_noted(noted: list[object], known: bool | None) -> None:
    ranks = tuple(RankRecording(rank, None, meta={"loaders": loaders}) for rank, loaders in enumerate(noted))
    run = Run(Path("run"), ("python", "train.py"), None, Path(), True, ranks)
    assert run_levers.facts_of(report_cases.diagnosis(run=run)).loader is known


def test_without_a_gpu_its_levers_do_not_apply_and_what_is_unknown_may_be_tried() -> None:
    assert states(facts(gpu=False))["tf32"].state == "not_applicable"
    assert states(facts(gpu=None))["tf32"].state == "not_tried"
    assert states(facts(gpu=False))["workers=4"].state == "not_tried"


def test_what_was_measured_goes_before_what_was_predicted_and_keeps_the_prediction() -> None:
    result = Lever(
        "line=train.py:61", "host", "measured", "", "", measured=Speedup(1.3, 1.2, 1.4), numbers="same", rank=None
    )
    levers = levers_of_run(RULES, facts(), measured=(result,))
    assert levers[0].id == "line=train.py:61"
    assert (levers[0].rank, levers[0].state, levers[0].predicted) == (1, "measured", Speedup(1.25, 1.0, 2.0))


def test_a_state_that_its_numbers_contradict_is_refused() -> None:
    with pytest.raises(ValueError, match="not_tried"):
        Lever("bf16", "precision", "not_tried", "", "", measured=Speedup(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="without a result"):
        Lever("bf16", "precision", "measured", "", "")


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("bf16", ["bf16"]),
        ("workers=4", ["workers=4"]),
        ("workers", ["workers=2", "workers=4", "workers=8"]),
        ("compile", ["compile"]),
        ("compile=max-autotune", ["compile=max-autotune"]),
        ("line=train.py:61/10", ["line=train.py:61/10"]),
        ("event-interval", []),
    ],
)
def test_a_word_names_levers(word: str, ids: list[str]) -> None:
    assert [lever.id for lever in chosen(word, RULES, ["event-interval"])] == ids


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("worker", "unknown lever: worker. Did you mean workers=N?"),
        ("event-intervall", "unknown lever: event-intervall. Did you mean event-interval?"),
        ("fused-optimizer", "unknown lever: fused-optimizer. Did you mean fused?"),
        ("zzz", "unknown lever: zzz."),
        ("workers=many", "workers does not take 'many'"),
        ("workers=1000", "workers does not take '1000'"),
        ("bf16=2", "bf16 does not take '2'"),
        ("line", "line needs a value"),
        ("cached-samples", "cached-samples cannot be tried by itself"),
    ],
)
def test_a_word_that_names_no_lever_says_what_was_meant(word: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(word, RULES, ["event-interval"])
    assert caught.value.message == said


def test_the_value_goes_into_the_toggle_and_the_text() -> None:
    (lever,) = chosen("workers=4", RULES)
    assert lever.toggles == (Toggle("loader-argument", "num_workers", 4),)
    assert lever.text == "num_workers=4 in the DataLoader of the loop"


def test_a_scheme_is_a_lever_with_what_is_known_of_it() -> None:
    diagnosis = report_cases.planned()
    none = run_levers.SchemeResults((), {}, ())
    facts = run_levers.facts_of(diagnosis, workers=(4, 8))
    levers = run_levers.collect(diagnosis, LOADED, none, facts).levers
    numbers = [lever.id for lever in levers if lever.id.startswith("workers=")]
    assert numbers == ["workers=4", "workers=8"], "those that pay, instead of the usual ones"
    assert all(set(lever_entry(lever)) >= {"id", "state", "measured", "numbers"} for lever in levers)


@pytest.mark.parametrize(
    ("cores", "has", "numbers"),
    [(16, 0, (2, 4, 8)), (4, 0, (2, 4)), (4, 2, (4,)), (1, 0, ()), (None, 0, (2, 4, 8)), (16, 8, ())],
)
def test_without_a_replay_the_usual_numbers_of_workers_that_have_a_core_are_tried(
    cores: int | None, has: int, numbers: tuple[int, ...]
) -> None:
    recorded = Run(Path(), (), None, Path(), True, (), {"environment": {"cpu_count": cores}})
    loader = InventoryItem("loader_workers", has > 0, f"num_workers={has}, recorded", has)
    diagnosis = report_cases.planned(run=recorded, inventory=(loader,))
    assert run_levers.workers_to_try(diagnosis, LOADED) == numbers


def test_every_rule_can_be_read_and_names_what_it_changes() -> None:
    assert {"bf16", "tf32", "compile", "workers", "line", "batch"} <= {rule.id for rule in RULES}
    for rule in RULES:
        assert rule.owners and rule.when and rule.cost and rule.caution, rule.id
    assert by_id(RULES, "no-such") is None


def test_mistakes_in_a_lever_s_file_are_all_reported(tmp_path: Path) -> None:
    (tmp_path / "levers").mkdir()
    text = (rules.default_folder() / "levers" / "workers.yaml").read_text(encoding="utf-8")
    broken = text.replace("family: loader", "family: loaders").replace("low: 0", "low: 300").replace("when:", "wen:")
    (tmp_path / "levers" / "workers.yaml").write_text(broken, encoding="utf-8")
    shutil.copy(rules.default_folder() / "levers" / "bf16.yaml", tmp_path / "levers" / "other.yaml")
    with pytest.raises(RuleError) as caught:
        rules.load(tmp_path)
    said = "\n".join(caught.value.mistakes)
    assert "levers/workers.yaml: family: expected one of scheme, loader" in said
    assert "levers/workers.yaml: value.low: expected low not above high" in said
    assert "levers/workers.yaml: when: is missing" in said
    assert "levers/workers.yaml: wen: is not known here" in said
    assert "levers/other.yaml: id: expected 'other' as the file is named" in said


def test_what_takes_back_a_setting_that_nobody_knows_to_be_there_comes_last() -> None:
    """Its owners are the largest, and few runs have anomaly detection or a PyTorch 1."""
    launching = Owners(100, (Owner("launch", 80), Owner("gpu", 20)))
    order = [lever.id for lever in levers_of_run(RULES, facts(owners=launching)) if lever.state == "not_tried"]
    rare = {"anomaly-off", "launch-blocking", "cudnn-v8"}
    assert set(order[-len(rare) :]) == rare and "compile" in order[:2]


def test_one_change_under_two_names_is_one_lever() -> None:
    diagnosis = report_cases.recommended()
    first, *others = diagnosis.schemes
    twin = replace(
        first, id="twin", rank=None, same_as=first.id, reasons=(f"the same change as {first.id} on this loop",)
    )
    results = run_levers.SchemeResults((first, twin, *others), {"twin": first.estimate, first.id: first.estimate}, ())
    levers = {one.id: one for one in run_levers.collect(diagnosis, LOADED, results, facts()).levers}
    assert levers[first.id].state == "predicted" and levers[first.id].rank == 1
    assert (levers["twin"].state, levers["twin"].predicted) == ("not_applicable", None)
    assert levers["twin"].reason == f"the same change as {first.id} on this loop"


def test_the_number_of_workers_that_the_loop_has_is_no_lever() -> None:
    has_two = InventoryItem("loader_workers", True, "num_workers=2, recorded", 2)
    assert {"workers=4", "workers=8"} <= set(states(facts(inventory=(has_two,))))
    assert "workers=2" not in states(facts(inventory=(has_two,))) and "workers=2" in states(facts())
    has_twelve = replace(has_two, value=12)
    assert not [name for name in states(facts(inventory=(has_twelve,))) if name.startswith("workers=")]


def test_workers_do_not_apply_where_each_step_makes_an_iterator() -> None:
    """They would start with each; one that is kept is the lever then, and only then."""
    new = Owner("dataloader", 60, (Location("train.py", 4),), NEW_ITERATOR)
    kept = replace(new, callee="_SingleProcessDataLoaderIter.__next__")
    for owner, renewed in ((new, True), (kept, False)):
        facts = LeverFacts(gpu=True, owners=Owners(100, (owner, Owner("gpu", 40))), loader=True)
        reasons = {rule.id: not_applicable(rule, facts) for rule in RULES}
        assert {reasons[name] is not None for name in ("workers", "prefetch", "persistent-workers")} == {renewed}
        assert (reasons["kept-iterator"] is None) is renewed
