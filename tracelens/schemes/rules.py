"""Read `rules/`: weights, schemes, stages, texts of findings and examples of recipes.

In: a folder of the user's (it overlays ours file by file: a file with the same relative path replaces ours, a new one
is added) and weights from the command line. Out: one `Rules` value, or one `RuleError` with every mistake of every
file. Plain facts are data, in YAML; what is done with them is code, elsewhere; there is no expression language.

Weights given on the command line: each is a percentage of the total, and criteria that are not named share the rest
in their old proportions. If all six are named, only their proportions count.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TypeVar

from tracelens.edit_kinds import EDIT_DEFINITIONS, SAFE_EDITS, EditKind, definition
from tracelens.errors import RuleError
from tracelens.levers import rules as lever_rules
from tracelens.messages import joined, say
from tracelens.model import CRITERIA
from tracelens.rule_files.fields import Fields, nearest, shown
from tracelens.rule_files.overlaid_files import RuleFiles
from tracelens.schemes import measures
from tracelens.schemes.catalog import (
    CHANGES,
    METRICS,
    NEEDS,
    SCALES,
    TIERS,
    EditTemplate,
    ExpectedRange,
    FindingText,
    GoalRule,
    Recipe,
    Rules,
    Scale,
    SchemeRule,
    SourcedClaim,
    StageRule,
)

__all__ = ["Rules", "default_folder", "load"]

Read = TypeVar("Read")
_HINT = say("mend the files named above; `tracelens rules` lists what is loaded")
_WEIGHTS_HINT = say(
    "such as --weights performance=50,risk=20; the criteria: {criteria}", criteria=joined(", ", CRITERIA)
)


def default_folder() -> Path:
    """Our own rules: inside the installed package, else beside it in the checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


def load(folder: Path | None = None, weights: Mapping[str, float] | None = None) -> Rules:
    """All rules; raises `RuleError` with all mistakes at once."""
    ours = default_folder()
    bundled = folder is None and weights is None
    return _bundled(ours, tuple(EDIT_DEFINITIONS)) if bundled else _read(ours, folder, weights)


@cache
def _bundled(ours: Path, kinds: tuple[EditKind, ...]) -> Rules:
    """Ours alone: they are part of the program, and several stages ask for them."""
    del kinds  # each has a recipe here: part of the key alone
    return _read(ours, None, None)


def _read(ours: Path, theirs: Path | None, weights: Mapping[str, float] | None) -> Rules:
    mistakes: list[str] = []
    files = RuleFiles(ours, theirs, mistakes)
    found, scales, stages = _weights_file(files)
    schemes = tuple(sorted(_each(files, "schemes/*/rule.yaml", _scheme, _folder_name), key=_seed_order))
    texts = _each(files, "findings/*.yaml", _finding, _file_stem)
    recipes = _each(files, "recipes/*/rule.yaml", lambda f: _recipe(f, files), _folder_name)
    levers = _each(files, lever_rules.FORM, lever_rules.read, _file_stem)
    guide = measures.read(files.yaml("measures.yaml"), mistakes)
    _check_stages(stages, schemes, mistakes)
    _check_recipes(recipes, schemes, mistakes)
    if weights is not None:
        found = _overridden(found, weights, mistakes)
    if mistakes:
        typed = all(mistake.startswith("--weights") for mistake in mistakes)
        raise RuleError(tuple(dict.fromkeys(mistakes)), hint=_WEIGHTS_HINT if typed else _HINT)
    return Rules(
        weights=found,
        scales=scales,
        schemes=tuple(_with_offers(scheme, recipes) for scheme in schemes),
        stages=stages,
        findings={text.id: text for text in texts},
        recipes={recipe.id: recipe for recipe in recipes},
        measures=guide,
        levers=levers,
    )


def _each(
    files: RuleFiles, form: str, read: Callable[[Fields], Read], expected_id: Callable[[str], str]
) -> tuple[Read, ...]:
    """One value per file that matches; its `id` must be the name that the file has."""
    out: list[Read] = []
    for name in files.matching(form):
        value = files.yaml(name)
        if value is None:
            continue
        fields = Fields(value, name, files.mistakes)
        out.append(read(fields))
        if isinstance(value, Mapping) and isinstance(value.get("id"), str) and value["id"] != expected_id(name):
            fields.wrong(
                "id",
                say(
                    "expected {expected_id!r} as the file is named, found {id}",
                    expected_id=expected_id(name),
                    id=shown(value["id"]),
                ),
            )
        fields.done()
    return tuple(out)


def _folder_name(name: str) -> str:
    return PurePosixPath(name).parent.name


def _file_stem(name: str) -> str:
    return PurePosixPath(name).stem


# ------------------------------------------------------------------------------------------------ weights and stages


def _weights_file(files: RuleFiles) -> tuple[dict[str, float], dict[str, Scale], tuple[StageRule, ...]]:
    value = files.yaml("weights.yaml")
    if value is None:
        return dict.fromkeys(CRITERIA, 0.0), {}, ()
    fields = Fields(value, "weights.yaml", files.mistakes)
    part = fields.inner("weights")
    weights = {criterion: part.number(criterion, 0, 100) for criterion in CRITERIA}
    part.done()
    if not math.isclose(sum(weights.values()), 100):
        fields.wrong("weights", say("expected to add up to 100, found {sum:g}", sum=sum(weights.values())))
    part = fields.inner("scales")
    scales = {name: _scale(part.inner(name)) for name in SCALES}
    part.done()
    stages = fields.each("stages", _stage)
    fields.done()
    return weights, scales, stages


def _scale(fields: Fields) -> Scale:
    scale = Scale(fields.text("measure"), fields.text("unit"), fields.prose("why"), fields.pairs("points"))
    fields.done()
    return scale


def _stage(fields: Fields) -> StageRule:
    return StageRule(
        number=int(fields.number("number", 1, 9)),
        title=fields.prose("title"),
        schemes=fields.texts("schemes"),
        goals=fields.each("goals", _goal),
    )


def _goal(fields: Fields) -> GoalRule:
    return GoalRule(
        text=fields.prose("text"),
        metric=fields.choice("metric", METRICS),
        at_least=fields.number("at_least", 0, 1000),
        seed=fields.text("seed"),
        section=fields.text("section"),
    )


def _check_stages(stages: tuple[StageRule, ...], schemes: tuple[SchemeRule, ...], mistakes: list[str]) -> None:
    known = [scheme.id for scheme in schemes]
    for stage in stages:
        for name in stage.schemes:
            if name not in known:
                mistakes.append(
                    say(
                        "weights.yaml: stages: stage {number}: no scheme {name!r}{nearest}",
                        number=stage.number,
                        name=name,
                        nearest=nearest(name, known),
                    )
                )


def _overridden(base: Mapping[str, float], given: Mapping[str, float], mistakes: list[str]) -> dict[str, float]:
    """The weights of the command line laid over those of the file (see the module's docstring)."""
    before = len(mistakes)
    for name, value in given.items():
        if name not in CRITERIA:
            mistakes.append(
                say("--weights: {name}: no such criterion{nearest}", name=name, nearest=nearest(name, CRITERIA))
            )
        elif isinstance(value, bool) or not math.isfinite(value) or value < 0:
            mistakes.append(
                say("--weights: {name}: expected a number from 0 up, found {value}", name=name, value=shown(value))
            )
    total = sum(value for value in given.values() if math.isfinite(value))
    rest = {criterion: base[criterion] for criterion in CRITERIA if criterion not in given}
    if not given or len(mistakes) > before:
        return dict(base)
    if total > 100 and rest:
        mistakes.append(
            say("--weights: the named weights add up to {total:g}, expected at most 100 percent", total=total)
        )
        return dict(base)
    if not rest or sum(rest.values()) == 0:
        if total == 0:
            mistakes.append(say("--weights: expected at least one weight above 0"))
            return dict(base)
        return {criterion: 100 * given.get(criterion, 0.0) / total for criterion in CRITERIA}
    share = (100 - total) / sum(rest.values())
    return {c: float(given[c]) if c in given else rest[c] * share for c in CRITERIA}


# ----------------------------------------------------------------------------------------------- schemes and texts


def _scheme(fields: Fields) -> SchemeRule:
    keys = fields.keys()
    if "unsafe" in keys:
        fields.ignore("unsafe")
        fields.wrong(
            "unsafe", say("is no longer read here: name the scheme under `offered_by` in recipes/<kind>/rule.yaml")
        )
    return SchemeRule(
        id=fields.text("id"),
        number=fields.text("number") if fields.has("number") else None,
        title=fields.prose("title"),
        summary=fields.prose("summary"),
        edits=_edits(fields),
        needs=fields.choices("needs", NEEDS),
        change=fields.choice("change", CHANGES),
        priors=_priors(fields),
        priors_source=fields.prose("priors_source"),
        gain=_spans(fields, "gain", 100),
        days=_spans(fields, "days", 365),
        lines=_spans(fields, "lines", 100_000),
        applicability=fields.each("applicability", _claim),
        pros=fields.each("pros", _claim),
        cons=fields.each("cons", _claim),
        risks=fields.each("risks", _claim),
        references=fields.each("references", _claim),
        sources=fields.each("sources", _claim),
    )


def _edits(fields: Fields) -> tuple[EditTemplate, ...]:
    kinds: list[EditKind] = []
    edits = fields.each("edits", lambda item: _edit(item, kinds))
    if len(set(kinds)) != len(kinds):
        fields.wrong("edits", say("expected each kind once"))
    return edits


def _edit(fields: Fields, kinds: list[EditKind]) -> EditTemplate:
    """One Edit of a scheme; its kind is added to `kinds` if there is such a kind."""
    kind = fields.choice("kind", SAFE_EDITS)
    if not fields.holds("kind", kind):  # which other keys it should have had cannot be said
        fields.ignore("interval", "depth")
        return EditTemplate(kind)
    kinds.append(kind)
    interval: int | None = 1
    parameters = definition(kind).parameters
    if "interval" in parameters:
        interval = {"N": None, "1": 1}[fields.choice("interval", ("N", "1"))]
    depth = int(fields.number("depth", 1, 16)) if "depth" in parameters else 0
    return EditTemplate(kind, interval, depth)


def _priors(fields: Fields) -> dict[str, float] | None:
    if not fields.has("priors"):
        return None
    part = fields.inner("priors")
    priors = {criterion: part.number(criterion, 0, 10) for criterion in CRITERIA}
    part.done()
    return priors


def _spans(fields: Fields, key: str, limit: float) -> tuple[ExpectedRange, ...]:
    spans = fields.each(key, lambda item: _span(item, limit))
    if any(span.low > span.high for span in spans):
        fields.wrong(key, say("expected low not above high"))
    return spans


def _span(fields: Fields, limit: float) -> ExpectedRange:
    low, high = fields.number("low", 0, limit), fields.number("high", 0, limit)
    return ExpectedRange(low, high, fields.text("seed"), fields.text("section"), fields.prose("note", default=""))


def _claim(fields: Fields) -> SourcedClaim:
    return SourcedClaim(fields.prose("text"), fields.text("seed"), fields.text("section"))


def _finding(fields: Fields) -> FindingText:
    return FindingText(
        id=fields.text("id"),
        title=fields.prose("title"),
        meaning=fields.prose("meaning"),
        measured=fields.prose("measured"),
        helps=fields.proses("helps"),
        nothing_when=fields.prose("nothing_when"),
    )


def _recipe(fields: Fields, files: RuleFiles) -> Recipe:
    kind: EditKind = fields.choice("id", tuple(EDIT_DEFINITIONS))
    tier = fields.choice("tier", TIERS)
    if fields.holds("tier", tier) and fields.holds("id", kind) and tier != definition(kind).tier:
        fields.wrong(
            "tier",
            say(
                "expected {tier}, as tracelens/edit_kinds.py says, found {found}",
                tier=definition(kind).tier,
                found=tier,
            ),
        )
    return Recipe(
        id=kind,
        title=fields.prose("title"),
        tier=tier,
        loop_before=fields.prose("loop_before", ""),
        loop_after=fields.prose("loop_after", ""),
        conditions=fields.proses("conditions"),
        by_hand=fields.prose("by_hand"),
        offered_by=fields.texts("offered_by") if fields.has("offered_by") else (),
        before=_python(files, f"recipes/{kind}/before.py"),
        after=_python(files, f"recipes/{kind}/after.py"),
    )


def _check_recipes(recipes: Sequence[Recipe], schemes: Sequence[SchemeRule], mistakes: list[str]) -> None:
    """Each Edit kind has its recipe's folder, and names schemes that exist."""
    known = [scheme.id for scheme in schemes]
    for kind in EDIT_DEFINITIONS.keys() - {recipe.id for recipe in recipes}:
        mistakes.append(
            say("recipes/{kind}/rule.yaml: is missing: each Edit kind of tracelens/edit_kinds.py has one", kind=kind)
        )
    for recipe in recipes:
        for name in recipe.offered_by:
            if name not in known:
                mistakes.append(
                    say(
                        "recipes/{recipe}/rule.yaml: offered_by: no scheme {name!r}{nearest}",
                        recipe=recipe.id,
                        name=name,
                        nearest=nearest(name, known),
                    )
                )


def _with_offers(scheme: SchemeRule, recipes: Sequence[Recipe]) -> SchemeRule:
    """The scheme with the Edits whose recipes name it; safe ones are made with N of the run, one batch ahead."""
    order = tuple(EDIT_DEFINITIONS)
    offered = sorted((r.id for r in recipes if scheme.id in r.offered_by), key=order.index)
    own = {template.kind for template in scheme.edits}
    safe = tuple(EditTemplate(kind, None, 1) for kind in offered if definition(kind).tier == "safe" and kind not in own)
    unsafe = tuple(kind for kind in offered if definition(kind).tier != "safe")
    return replace(scheme, edits=(*scheme.edits, *safe), unsafe=unsafe)


def _python(files: RuleFiles, name: str) -> str:
    """An example that at least parses."""
    source = files.text(name)
    try:
        ast.parse(source or "")
    except (SyntaxError, ValueError) as error:
        files.mistakes.append(
            say(
                "{name}: line {line}: not Python: {error}",
                name=name,
                line=getattr(error, "lineno", None) or 1,
                error=error,
            )
        )
    return source or ""


_ORDER = ("1", "2", "3", "2+3", "4")


def _seed_order(rule: SchemeRule) -> tuple[int, str]:
    """The seeds' order, the combination after its parts, ours at the end."""
    return (_ORDER.index(rule.number) if rule.number in _ORDER else len(_ORDER), rule.id)
