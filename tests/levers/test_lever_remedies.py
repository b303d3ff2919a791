"""Which levers an owner has, which Edits write them, and which of them the verdict asks for."""

from __future__ import annotations

import pytest

from tests.support.places import ROOT
from tracelens.lever_remedies import PlannedLevers, Wanted, beyond_levers, edits_of, lever_of_loss, with_remedies
from tracelens.levers.states import LeverFacts
from tracelens.model import Edit, Hunk, InventoryItem, Location, Owner, Owners, Patch, Scheme, UnsafeOffer
from tracelens.model.patch import FilePatch
from tracelens.remedies import Remedy
from tracelens.schemes import rules

RULES = rules.load().levers
LINE = Location("train.py", 61)
COLLECT = Owner("host_line", 31_000, (LINE, Location("train.py", 20)), "gc.collect")
WAIT = Owner("wait", 4_000, (Location("train.py", 70),), "Tensor.item", group="s1")
LOADER = Owner("dataloader", 10_000, (Location("data.py", 11),))
NOTHING = Wanted((), ())


def facts(*owners: Owner, **changes: object) -> LeverFacts:
    total = sum(owner.owned_ns for owner in owners)
    return LeverFacts(gpu=True, owners=Owners(total, owners), **changes)  # type: ignore[arg-type]


def test_a_lever_with_a_recipe_is_an_edit_at_the_innermost_line_of_its_owner() -> None:
    assert edits_of(RULES, facts(COLLECT), NOTHING) == {
        "gc-collect": (Edit("rare-call", locations=(LINE,), interval=100),)
    }


def test_levers_of_the_loader_need_no_line_and_a_number_where_one_is_usual() -> None:
    workers = InventoryItem("loader_workers", True, "num_workers=2, recorded", 2)
    found = edits_of(RULES, facts(LOADER, inventory=(workers,)), NOTHING)
    assert found["prefetch=4"] == (Edit("loader-ahead", depth=4),)
    assert found["pin-memory"] == (Edit("loader-pinning"),)
    assert "workers=4" not in found, "the replay finds no number that pays"
    none = InventoryItem("loader_workers", False, "num_workers=0, recorded", 0)
    assert "prefetch=4" not in edits_of(RULES, facts(LOADER, inventory=(none,)), NOTHING)


@pytest.mark.parametrize(
    ("code", "lever"),
    [
        ("average.mul_(0.9).add_(own, alpha=0.1)", "ema-at-once"),
        ("average.data = average.data * 0.9 + own.data * 0.1", "ema-at-once"),
        ("optimizer.zero_grad(set_to_none=False)", "set-to-none"),
        ("total += sum(p.grad.norm().item() for p in model.parameters())", "stacked-reads"),
        ("total += param_norm.item() ** 2", "stacked-reads"),
        ("total += loss.item()", None),
        ("optimizer.zero_grad()", None),
    ],
)
def test_a_line_that_a_recipe_can_write_is_an_edit_there(code: str, lever: str | None) -> None:
    place = Location("train.py", 2)
    known = facts(Owner("launch", 4_000, (place,)), texts={"train.py": f"first\n    {code}\n"})
    found = {name: edits for name, edits in edits_of(RULES, known, NOTHING).items() if edits[0].locations}
    assert list(found) == ([lever] if lever else [])
    assert all(edits[0].locations == (place,) for edits in found.values())


def test_what_calls_something_else_or_takes_next_to_nothing_gets_no_edit() -> None:
    other = Owner("host_line", 31_000, (LINE,), "tokenize")
    small = Owner("host_line", 10, (LINE,), "gc.collect")
    assert edits_of(RULES, facts(other, small), NOTHING) == {}


def test_an_owner_lists_the_schemes_that_end_its_wait_and_then_what_a_recipe_writes() -> None:
    scheme = Scheme(
        "interval-sync", "", (Edit("interval-sync", ("s1",)),), None, {}, None, None, None, 1, None, True, ()
    )
    known = facts(COLLECT, WAIT, LOADER)
    collecting, waiting, loading = with_remedies(known.owners, RULES, known, (scheme,)).owners
    assert collecting.remedies[0] == "gc-collect" and "line" in collecting.remedies
    assert waiting.remedies[0] == "interval-sync"
    assert "workers" in loading.remedies and "gc-collect" not in loading.remedies


@pytest.mark.parametrize(
    ("code", "lever"),
    [
        ("norms = [p.grad.norm().item() for p in model.parameters()]", "stacked-reads"),
        ("batch[batch > 0.5] *= 0.9", "boolean-mask"),
        ("loss = criterion(output[mask], target[mask])", "boolean-mask"),
        ("length = int(lengths.max())", "tensor-as-number"),
        ("state = copy.deepcopy(model.state_dict())", "ema-in-place"),
        ("for sample, target in zip(samples, targets):", "loop-over-samples"),
        ("dist.all_reduce(loss_value)", "rarer-metrics"),
    ],
)
def test_a_line_is_known_by_what_stands_in_it(code: str, lever: str) -> None:
    wait = Owner("wait", 4_000, (Location("train.py", 2),), "cudaStreamSynchronize", group="s1")
    known = facts(wait, texts={"train.py": f"first\n    {code}\n"})
    (waiting,) = with_remedies(known.owners, RULES, known, ()).owners
    assert waiting.remedies[0] == lever
    other = facts(wait, texts={"train.py": "first\n    loss.backward()\n"})
    (waiting,) = with_remedies(other.owners, RULES, other, ()).owners
    assert lever not in waiting.remedies


def test_what_is_done_already_is_no_remedy() -> None:
    pinned = InventoryItem("pinned_memory", True, "pin_memory=True")
    known = facts(LOADER, inventory=(pinned,))
    (loading,) = with_remedies(known.owners, RULES, known, ()).owners
    assert "pin-memory" not in loading.remedies


def test_the_lever_of_the_largest_loss_is_one_that_a_patch_writes_if_there_is_one() -> None:
    known = facts(COLLECT, LOADER)
    owners = with_remedies(known.owners, RULES, known, ())
    change = Patch(ROOT, (FilePatch(ROOT / "train.py", b"", b"1"),), (), (), "")
    written = PlannedLevers((), None, {"gc-collect": Remedy((), None, change)}, owners)
    assert lever_of_loss(COLLECT, written) == "gc-collect"
    assert lever_of_loss(LOADER, written) is None
    declined = Remedy((), None, Patch(ROOT, (), (), (), ""))
    assert lever_of_loss(COLLECT, PlannedLevers((), None, {"gc-collect": declined}, owners)) == "gc-collect"
    both = {"workers=8": declined, "workers=4": Remedy((), None, change)}
    assert lever_of_loss(LOADER, PlannedLevers((), None, both, owners)) == "workers=4"
    assert lever_of_loss(None, PlannedLevers((), None, both, owners)) is None
    guess = {"prefetch=4": Remedy((Edit("loader-ahead", depth=4),), None, change)}
    assert lever_of_loss(LOADER, PlannedLevers((), None, guess, owners)) is None, "nobody knows what it gives"


def test_what_a_lever_of_its_own_writes_is_not_said_to_need_unsafe() -> None:
    """`apply` named the same workers as left out until they are checked, and as a change that needs --unsafe."""
    at, elsewhere = Location("train.py", 39), Location("train.py", 80)
    checked = Hunk("TL701", "loader-workers", "checked", at, "8 workers instead of 2", "because", unproved="draws")
    lever = {"workers=8": Remedy((Edit("loader-workers", workers=8),), None, Patch(ROOT, (), (checked,), (), ""))}
    more = Hunk("TL701", "more-workers", "unsafe", at, "8 workers instead of 2", "because")
    guard = Hunk("TL601", "move-guard", "unsafe", elsewhere, "looks every 10 batches", "because")
    assert beyond_levers(UnsafeOffer("full-pipeline", (more,)), lever) is None
    assert beyond_levers(UnsafeOffer("full-pipeline", (more, guard)), lever) == UnsafeOffer("full-pipeline", (guard,))
    assert beyond_levers(UnsafeOffer("full-pipeline", (more,)), {}) == UnsafeOffer("full-pipeline", (more,))
    assert beyond_levers(None, lever) is None


def test_a_lever_that_rounds_otherwise_is_made_for_whoever_names_it_and_for_nobody_else() -> None:
    known = facts(Owner("optimizer", 30_000, (LINE,)), Owner("gpu", 30_000))
    rounding = {rule.id for rule in RULES if rule.effect == "rounding"}
    assert not rounding & {name.partition("=")[0] for name in edits_of(RULES, known, NOTHING)}
    found = edits_of(RULES, known, Wanted((), ("fused", "matmul-precision=medium", "matmul-precision=odd")))
    assert {name: edits for name, edits in found.items() if name.partition("=")[0] in rounding} == {
        "fused": (Edit("fused-optimizer"),),
        "matmul-precision=medium": (Edit("matmul-precision", choice="medium"),),
    }
