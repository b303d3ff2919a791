"""The registry of Edit kinds: every table covers every kind and names nothing else; an unknown kind has no estimate.

Each check collects sentences that say what is missing where, so that a failure reads as the list of things to add.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import get_args

import pytest
import yaml

from tests.support.builders import Machine
from tests.support.places import ROOT
from tests.support.replaying import COPY, READ, SYNC, build
from tracelens.edit_kinds import (
    DEFINITIONS,
    EDIT_DEFINITIONS,
    EditDefinition,
    EditKind,
    LoopCondition,
    NotReplayed,
    ReplayRule,
    definition,
    hunk_id,
    one_change,
    replay_rule,
)
from tracelens.errors import RuleError
from tracelens.model import UNSAFE_EDITS, Abstention, Edit, Estimate
from tracelens.patch import recipes
from tracelens.patch.recipes.build import recipe
from tracelens.replay import edits, estimate
from tracelens.replay.calibration import Calibration
from tracelens.replay.program import Program
from tracelens.replay.replay_trace import HostOp, ReplayTrace, all_host_ops
from tracelens.report.edit_labels import label
from tracelens.schemes import plan, rules
from tracelens.schemes.families import dropped_together

HELPERS = {
    "arguments",
    "build",
    "called_functions",
    "called_helpers",
    "carried_attributes",
    "carried_contents",
    "carried_forms",
    "carried_looks",
    "carried_numbers",
    "carried_reads",
    "carried_values",
    "every_nth",
    "host_memory",
    "batch_writes",
    "copies_to_host",
    "items_on_gpu",
    "plain_items",
    "kept_results",
    "memory_writes",
    "named_reads",
    "numbers_already",
    "passing_functions",
    "pinned",
    "project_calls",
    "returned_reads",
    "rewriting",
    "rounding",
    "same_program",
    "scalar_expressions",
    "step_bodies",
    "step_functions",
    "tensor_loops",
    "wait_dependents",
    "waits_that_stay",
    "warnings_seen",
}
"""Modules of patch/recipes/ that serve recipes and are none."""
MADE_UP = "count-to-ten"


# ------------------------------------------------------------------------------------------------ tables and kinds


def missing_pieces() -> Iterator[str]:
    """What a kind still needs, and what is there without a kind, as sentences."""
    for kind in get_args(EditKind):
        if kind not in EDIT_DEFINITIONS:
            yield f"tracelens/edit_kinds.py: EditKind names {kind!r}, and DEFINITIONS has no definition of it"
    for kind in EDIT_DEFINITIONS:
        if kind not in get_args(EditKind):
            yield f"tracelens/edit_kinds.py: {kind!r} has a definition and is not named in EditKind"
        if find_spec(f"{recipes.__name__}.{definition(kind).recipe}") is None:
            yield f"tracelens/patch/recipes/{definition(kind).recipe}.py: the recipe of {kind!r} is missing"
        elif not callable(recipe(kind)):
            yield f"tracelens/patch/recipes/{definition(kind).recipe}.py: has no `propose` for {kind!r}"
        for name in ("rule.yaml", "before.py", "after.py"):
            if not (ROOT / "rules/recipes" / kind / name).is_file():
                yield f"rules/recipes/{kind}/{name}: is missing"
    taken: dict[int, EditDefinition] = {}
    for one in EDIT_DEFINITIONS.values():
        if taken.setdefault(one.hunk, one).recipe != one.recipe:
            free = 1 + max(other.hunk for other in EDIT_DEFINITIONS.values())
            yield f"tracelens/edit_kinds.py: hunk={one.hunk} of {one.id!r} is {taken[one.hunk].id!r}: write hunk={free}"
    known = {one.recipe for one in EDIT_DEFINITIONS.values()} | HELPERS
    for path in sorted((ROOT / "tracelens/patch/recipes").glob("[!_]*.py")):
        if path.stem not in known:
            yield f"tracelens/patch/recipes/{path.name}: no definition names this recipe"
    for folder in sorted((ROOT / "rules/recipes").iterdir()):
        if folder.name not in EDIT_DEFINITIONS:
            yield f"rules/recipes/{folder.name}: tracelens/edit_kinds.py has no such kind"
    for page in ("docs/rules.md", "docs/patching.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for kind in EDIT_DEFINITIONS:
            if f"`{kind}`" not in text:
                yield f"{page}: does not name {kind!r}: run docs/generate.py"


def test_every_table_covers_every_kind_and_names_nothing_else() -> None:
    assert list(missing_pieces()) == []


def test_a_kind_without_its_pieces_is_told_what_is_missing_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EDIT_DEFINITIONS, MADE_UP, made_up(recipe="count_to_ten"))  # type: ignore[arg-type]
    told = "\n".join(missing_pieces())
    assert f"{MADE_UP!r} has a definition and is not named in EditKind" in told
    assert f"tracelens/patch/recipes/count_to_ten.py: the recipe of {MADE_UP!r} is missing" in told
    assert f"rules/recipes/{MADE_UP}/rule.yaml: is missing" in told
    with pytest.raises(RuleError, match=f"recipes/{MADE_UP}/rule.yaml: is missing"):
        rules.load()


def test_a_number_that_is_taken_is_told_with_the_next_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EDIT_DEFINITIONS, MADE_UP, made_up(recipe="count_to_ten", hunk=8))  # type: ignore[arg-type]
    free = 1 + max(one.hunk for one in DEFINITIONS)
    told = f"tracelens/edit_kinds.py: hunk=8 of {MADE_UP!r} is 'persistent-workers': write hunk={free}"
    assert told in list(missing_pieces())


def test_hunk_ids_of_kinds_with_one_and_two_digits_never_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EDIT_DEFINITIONS, MADE_UP, made_up(hunk=11))  # type: ignore[arg-type]
    assert [hunk_id("defer-read", count) for count in (1, 99, 101)] == ["TL101", "TL199", "TL1101"]
    assert [hunk_id(MADE_UP, count) for count in (1, 101)] == ["TL11-01", "TL11-101"]  # type: ignore[arg-type]


def test_a_recipe_or_a_folder_that_no_definition_names_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(EDIT_DEFINITIONS, "prefetch")  # type: ignore[arg-type]
    told = "\n".join(missing_pieces())
    assert "EditKind names 'prefetch', and DEFINITIONS has no definition of it" in told
    assert "tracelens/patch/recipes/prefetch.py: no definition names this recipe" in told
    assert "rules/recipes/prefetch: tracelens/edit_kinds.py has no such kind" in told
    with pytest.raises(LookupError, match="'prefetch' has no definition: add one to DEFINITIONS"):
        definition("prefetch")


def test_ids_are_unique_and_well_formed_and_kinds_of_one_number_share_their_recipe() -> None:
    assert len(EDIT_DEFINITIONS) == len(DEFINITIONS)
    assert all(re.fullmatch("[a-z][a-z0-9]*(-[a-z]+)*", one.id) for one in DEFINITIONS)
    for one in DEFINITIONS:
        assert {definition(other).recipe for other in one_change(one.id)} == {one.recipe}
    assert one_change("event-sync") == one_change("interval-sync") == {"event-sync", "interval-sync"}


def test_rule_files_say_the_tier_of_the_definition_and_name_schemes_that_exist() -> None:
    schemes = {scheme.id for scheme in rules.load().schemes}
    for one in DEFINITIONS:
        rule = yaml.safe_load((ROOT / "rules/recipes" / one.id / "rule.yaml").read_text(encoding="utf-8"))
        assert rule["tier"] == one.tier
        assert set(rule.get("offered_by", ())) <= schemes


def test_every_kind_is_part_of_a_scheme_or_the_recipe_of_a_lever() -> None:
    loaded = rules.load()
    used = {template.kind for scheme in loaded.schemes for template in scheme.edits}
    used |= {kind for scheme in loaded.schemes for kind in scheme.unsafe}
    assert used | {lever.recipe for lever in loaded.levers if lever.recipe} == set(EDIT_DEFINITIONS)


def test_every_condition_has_its_test_and_is_used() -> None:
    assert set(plan._CONDITIONS) == set(get_args(LoopCondition))
    assert {condition for one in DEFINITIONS for condition in one.conditions} == set(get_args(LoopCondition))


def test_unsafe_kinds_are_those_of_that_tier() -> None:
    assert set(UNSAFE_EDITS) == {one.id for one in DEFINITIONS if one.tier == "unsafe"}


def test_a_plan_does_without_unsafe_kinds_first_and_with_what_depends_on_a_kind() -> None:
    assert [sorted(kinds) for kinds in dropped_together()] == [
        ["thin-logs"],
        ["move-guard"],
        ["more-workers"],
        ["loader-workers"],
        ["prefetch"],
        ["async-copy", "prefetch"],
        ["defer-read", "event-sync", "interval-sync"],
    ]


def test_labels_differ_and_name_the_interval_where_the_kind_has_one() -> None:
    assert len({label((kind,), 10) for kind in EDIT_DEFINITIONS}) == len(EDIT_DEFINITIONS)
    assert label(("thin-logs",), 20) == "Write lines every 20 batches only (unsafe)"
    assert label(("defer-read",), 1) == "Read results as soon as they have arrived, without waiting"
    assert label(("event-sync", "interval-sync"), 5) == "Record an event, wait for it every 5 batches"
    for one in DEFINITIONS:
        assert ("10" in label((one.id,), 10)) == ("interval" in one.parameters)


# ------------------------------------------------------------------------------------------------------ the replay


def made_up(**changes: object) -> EditDefinition:
    """A kind that nothing but the registry knows."""
    other = NotReplayed("counting is not in a trace", "count by hand")
    return replace(definition("thin-logs"), **{"id": MADE_UP, "hunk": 99, "replay": other, **changes})  # type: ignore[arg-type]


STALLS_OF = {"copy": COPY, "read": READ, "steering-read": READ, "synchronize": SYNC, "event": "event"}


def starved(machine: Machine) -> None:
    """A step with something to change for every rule: it waits for its loader, a copy, a read and the GPU."""
    machine.load_batch(9_000)
    machine.copy("h2d", "pageable", 300, nbytes=15_000_000)
    machine.launch("gemm", 500)
    machine.item()
    machine.launch("gemm", 500)
    machine.synchronize()
    machine.host(40)


@pytest.fixture(scope="module")
def trace() -> ReplayTrace:
    return build(starved, calibration=Calibration(loader_workers=2, loader_cores=16))


def asked(kind: EditKind) -> Edit:
    own = definition(kind)
    stalls = dict.fromkeys(STALLS_OF[group] for group in own.acts_on) if own.ends_waits else {}
    return Edit(kind, tuple(stalls), interval=10, depth=1, workers=8)


@pytest.mark.parametrize("rule", get_args(ReplayRule))
def test_every_rule_of_the_replay_changes_a_step_and_belongs_to_a_kind(rule: ReplayRule, trace: ReplayTrace) -> None:
    kinds = [kind for kind in EDIT_DEFINITIONS if replay_rule(kind) == rule]
    assert kinds, f"tracelens/edit_kinds.py: no definition uses the replay rule {rule!r}"
    for kind in kinds:
        changed = host_calls(edits.apply(trace, (asked(kind),))) - host_calls(edits.apply(trace))
        assert changed, f"tracelens/replay/edits.py: {kind!r} changes no call of a step, so {rule!r} has no code"


def host_calls(program: Program) -> set[HostOp]:
    return {call for variant in program.variants for call in all_host_ops(variant)}


@pytest.mark.parametrize("kind", EDIT_DEFINITIONS)
def test_a_kind_is_estimated_where_its_definition_says_how_and_nowhere_else(kind: EditKind, trace: ReplayTrace) -> None:
    answer = estimate.predict(trace, (asked(kind),))
    rule = replay_rule(kind)
    if isinstance(rule, NotReplayed):
        assert answer == Abstention("replay", rule.missing, rule.hint)
    else:
        assert isinstance(answer, Estimate)


def test_a_kind_that_is_not_declared_replayable_has_no_estimate(
    trace: ReplayTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EDIT_DEFINITIONS, MADE_UP, made_up())  # type: ignore[arg-type]
    counting = Edit(MADE_UP, (SYNC,), interval=10)  # type: ignore[arg-type]
    expected = Abstention("replay", "counting is not in a trace", "count by hand")
    assert estimate.predict(trace, (counting,)) == expected
    assert estimate.predict(trace, (asked("defer-read"), counting)) == expected, "nor has a set with it"


def test_a_kind_without_a_definition_has_no_estimate(trace: ReplayTrace) -> None:
    answer = estimate.predict(trace, (Edit(MADE_UP, (SYNC,), interval=10),))  # type: ignore[arg-type]
    assert isinstance(answer, Abstention)
    assert MADE_UP in answer.missing


def test_a_kind_that_changes_no_step_leaves_the_estimate_of_the_others(trace: ReplayTrace) -> None:
    deferred = asked("defer-read")
    assert estimate.predict(trace, (deferred, asked("persistent-workers"))) == estimate.predict(trace, (deferred,))
