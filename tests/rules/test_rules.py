"""Meta-tests over everything in `rules/`, and what a broken rules folder says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.places import SEEDS
from tracelens.edit_kinds import EDIT_DEFINITIONS
from tracelens.errors import RuleError
from tracelens.model import CRITERIA
from tracelens.schemes import rules

RULES = rules.load()

PRIORS = {  # the table of the design, row by row: six scores, mean of five, weighted total
    "more-streams": ((9, 6, 7, 6, 6, 6), 6.8, 7.05),
    "event-sync": ((6, 9, 9, 10, 9, 8), 8.6, 8.15),
    "interval-sync": ((6, 10, 10, 10, 10, 10), 9.2, 8.80),
    "event-interval": ((8, 10, 9, 9, 9, 9), 9.0, 8.95),
    "full-pipeline": ((10, 3, 3, 4, 4, 1), 4.8, 5.25),
}
EDITS = {
    "more-streams": ["async-copy", "prefetch"],
    "event-sync": ["event-sync", "defer-read"],
    "interval-sync": ["interval-sync", "defer-read"],
    "event-interval": ["event-sync", "interval-sync", "defer-read"],
    "full-pipeline": ["event-sync", "interval-sync", "defer-read", "async-copy", "prefetch"],
    "pinned-copy": ["async-copy"],
}


def claims(scheme):
    """Every sentence and range of a scheme that names a seed."""
    lists = (scheme.gain, scheme.days, scheme.lines, scheme.applicability, scheme.pros, scheme.cons)
    for items in (*lists, scheme.risks, scheme.references, scheme.sources):
        yield from items


def mistakes_of(folder: Path | None = None, weights=None) -> tuple[str, ...]:
    with pytest.raises(RuleError) as caught:
        rules.load(folder, weights)
    assert caught.value.exit_code == 2
    return caught.value.mistakes


# ------------------------------------------------------------------------------------------------------- meta-tests


def test_the_schemes_are_the_seeds_and_ours_in_the_seeds_order():
    assert [scheme.id for scheme in RULES.schemes] == [*PRIORS, "pinned-copy"]
    assert [scheme.number for scheme in RULES.schemes] == ["1", "2", "3", "2+3", "4", None]


@pytest.mark.parametrize("name", PRIORS)
def test_priors_are_those_of_the_design(name):
    scores, mean, total = PRIORS[name]
    rule = RULES.scheme(name)
    assert tuple(rule.priors[criterion] for criterion in ("performance", "difficulty", "complexity")) == scores[:3]
    assert tuple(rule.priors[criterion] for criterion in ("memory", "maintainability", "risk")) == scores[3:]
    assert sum(scores[:5]) / 5 == mean
    weighted = sum(rule.priors[criterion] * RULES.weights[criterion] for criterion in CRITERIA) / 100
    assert round(weighted, 10) == total


def test_our_own_scheme_has_no_prior():
    assert RULES.scheme("pinned-copy").priors is None


@pytest.mark.parametrize("name", EDITS)
def test_each_scheme_makes_its_edits(name):
    assert [edit.kind for edit in RULES.scheme(name).edits] == EDITS[name]


def test_scheme_two_reads_at_once_and_the_others_every_n():
    intervals = {s.id: [e.interval for e in s.edits if e.kind == "defer-read"] for s in RULES.schemes}
    assert intervals["event-sync"] == [1]
    assert intervals["event-interval"] == intervals["interval-sync"] == intervals["full-pipeline"] == [None]


@pytest.mark.parametrize("scheme", RULES.schemes, ids=lambda scheme: scheme.id)
def test_each_scheme_names_references_and_sources(scheme):
    assert scheme.references and scheme.sources and scheme.pros and scheme.cons and scheme.risks


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seed documents are not beside this checkout")
def test_every_claim_names_a_heading_that_the_seed_has():
    documents = {path.name: path.read_text(encoding="utf-8") for path in SEEDS.iterdir()}
    headings = {
        name: {line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#")}
        for name, text in documents.items()
    }
    goals = [goal for stage in RULES.stages for goal in stage.goals]
    named = [claim for scheme in RULES.schemes for claim in claims(scheme)] + goals
    assert len(named) > 50
    assert [claim for claim in named if claim.section not in headings[claim.seed]] == []


def test_contradicting_seeds_are_both_shown():
    gains = [(span.low, span.high) for span in RULES.scheme("more-streams").gain]
    assert (3, 5) in gains and (5, 10) in gains and (10, 15) in gains
    assert len(RULES.scheme("event-interval").days) == 2


def test_the_performance_scale_is_the_seeds():
    scale = RULES.scales["performance"]
    assert [scale.score(gain) for gain in (-5, 0, 2, 4, 12.5, 15, 80)] == [0, 0, 3, 6, 9, 10, 10]


@pytest.mark.parametrize("name", RULES.scales)
def test_every_other_scale_falls_from_good_to_bad(name):
    scores = [score for _, score in RULES.scales[name].points]
    assert scores == sorted(scores, reverse=name != "performance")
    assert RULES.scales[name].why


def test_stages_hold_every_scheme_once():
    staged = [scheme for stage in RULES.stages for scheme in stage.schemes]
    assert sorted(staged) == sorted(scheme.id for scheme in RULES.schemes)
    assert [stage.number for stage in RULES.stages] == [1, 2, 3]


def test_recipes_are_named_after_edit_kinds():
    assert set(RULES.recipes) == set(EDIT_DEFINITIONS)


def test_every_recipe_says_in_a_line_what_the_loop_does_before_and_after():
    assert [kind for kind, recipe in RULES.recipes.items() if not (recipe.loop_before and recipe.loop_after)] == []


# ---------------------------------------------------------------------------------------------------------- weights


def test_weights_that_are_not_named_share_the_rest_in_proportion():
    weights = rules.load(None, {"performance": 65}).weights
    assert sum(weights.values()) == pytest.approx(100)
    assert weights["performance"] == 65
    assert weights["difficulty"] == pytest.approx(12.5)  # 25 of the 70 that the others had, now of 35


def test_all_six_weights_are_taken_at_their_proportions():
    weights = rules.load(None, dict.fromkeys(CRITERIA, 2.0)).weights
    assert weights == pytest.approx(dict.fromkeys(CRITERIA, 100 / 6))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"performence": 10}, "did you mean 'performance'"),
        ({"risk": -1}, "from 0 up"),
        ({"risk": float("nan")}, "from 0 up"),
        ({"risk": 60, "memory": 60}, "add up to 120"),
        (dict.fromkeys(CRITERIA, 0.0), "at least one"),
    ],
)
def test_weights_that_make_no_sense_are_named(given, words):
    (mistake,) = mistakes_of(None, given)
    assert words in mistake and mistake.startswith("--weights")


# --------------------------------------------------------------------------------------------------- broken folders


def test_a_users_folder_overlays_file_by_file(tmp_path):
    text = (rules.default_folder() / "schemes/pinned-copy/rule.yaml").read_text(encoding="utf-8")
    own = tmp_path / "schemes/pinned-copy/rule.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(text.replace("title: Copy from pinned memory", "title: House rule"), encoding="utf-8")
    loaded = rules.load(tmp_path)
    assert loaded.scheme("pinned-copy").title.startswith("House rule")
    assert loaded.scheme("event-sync") == RULES.scheme("event-sync")


def test_a_new_scheme_is_added(tmp_path):
    folder = tmp_path / "schemes/copy-only"
    folder.mkdir(parents=True)
    text = (rules.default_folder() / "schemes/pinned-copy/rule.yaml").read_text(encoding="utf-8")
    (folder / "rule.yaml").write_text(text.replace("id: pinned-copy", "id: copy-only"), encoding="utf-8")
    assert rules.load(tmp_path).scheme("copy-only") is not None


def test_all_mistakes_of_all_files_come_at_once(tmp_path):
    shutil.copytree(rules.default_folder(), tmp_path / "r")
    weights = tmp_path / "r/weights.yaml"
    weights.write_text(weights.read_text(encoding="utf-8").replace("  risk: 5\n", "  risk: 6\n"), encoding="utf-8")
    scheme = tmp_path / "r/schemes/event-sync/rule.yaml"
    text = scheme.read_text(encoding="utf-8").replace("kind: event-sync", "kind: event-snyc")
    scheme.write_text(text.replace("difficulty: 9", "difficulty: nine") + "pro: []\n", encoding="utf-8")
    (tmp_path / "r/findings/idle_gpu.yaml").write_text("id: idle_cpu\ntitle: [\n", encoding="utf-8")
    found = mistakes_of(tmp_path / "r")
    assert any(m.startswith("weights.yaml: weights:") and "101" in m for m in found)
    assert any("event-sync/rule.yaml: edits[0].kind" in m and "did you mean 'event-sync'" in m for m in found)
    assert any("priors.difficulty" in m and "'nine'" in m for m in found)
    assert any("event-sync/rule.yaml: pro:" in m and "did you mean 'pros'" in m for m in found)
    assert any(m.startswith("findings/idle_gpu.yaml: line ") for m in found)
    assert len(found) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("- a\n- b\n", "expected keys with values"),
        ("id: x\nid: y\n", "line 2"),
        ("id: !!python/object/apply:os.system ['true']\n", "not YAML"),
        ("id: " + "[" * 1500, "not YAML"),
        ("\x00", "not YAML"),
    ],
)
def test_files_that_are_no_rules_are_named(tmp_path, text, words):
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings/sync_stall.yaml").write_text(text, encoding="utf-8")
    found = mistakes_of(tmp_path)
    assert all(mistake.startswith("findings/sync_stall.yaml: ") for mistake in found)
    assert any(words in mistake for mistake in found)


def test_bytes_that_are_no_text_and_files_at_the_wrong_place_are_named(tmp_path):
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings/sync_stall.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "scheme.yaml").write_text("id: x\n", encoding="utf-8")
    found = mistakes_of(tmp_path)
    assert any("sync_stall.yaml: cannot be read" in mistake for mistake in found)
    assert any(mistake.startswith("scheme.yaml: no rule is read from here") for mistake in found)


def test_an_id_must_be_the_name_of_its_file(tmp_path):
    (tmp_path / "findings").mkdir()
    text = (rules.default_folder() / "findings/idle_gpu.yaml").read_text(encoding="utf-8")
    (tmp_path / "findings/other.yaml").write_text(text, encoding="utf-8")
    assert mistakes_of(tmp_path) == (
        "findings/other.yaml: id: expected 'other' as the file is named, found 'idle_gpu'",
    )


def test_a_folder_that_is_none(tmp_path):
    assert mistakes_of(tmp_path / "nowhere") == (f"{tmp_path / 'nowhere'}: is not a folder",)


def test_recipes_are_checked(tmp_path):
    folder = tmp_path / "recipes/prefetch"
    folder.mkdir(parents=True)
    lines = ["id: prefetch", "title: Prefetch", "tier: sure", "conditions: [a loader]", "by_hand: Write a loop"]
    (folder / "rule.yaml").write_text("\n".join(lines), encoding="utf-8")
    (folder / "before.py").write_text("for x in loader:\n    step(x)\n", encoding="utf-8")
    (folder / "after.py").write_text("for x in\n", encoding="utf-8")
    found = mistakes_of(tmp_path)
    assert any(mistake.startswith("recipes/prefetch/rule.yaml: tier:") for mistake in found)
    assert any(mistake.startswith("recipes/prefetch/after.py: line 1: not Python") for mistake in found)


@pytest.mark.parametrize("name", ["notes.txt", "weights.yaml/inside.txt"])
def test_a_folder_that_holds_no_rule_was_not_meant(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    with pytest.raises(RuleError, match="holds no rule"):
        rules.load(tmp_path)
