"""Sections of a report as data: a heading, a table, a note. Built once; page and Markdown only lay them out.

In: a Diagnosis. Out: `Section`s. A cell is text of any origin, a `Code` cell is set as code; renderers escape both.
Times that stand beside the step are brought to the one baseline; evidence is as recorded, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracelens.messages import joined, say, say_count
from tracelens.model import (
    ISSUING_KINDS,
    Diagnosis,
    Measure,
    Owner,
    PlannedDiagnosis,
    Scheme,
    Stage,
    Stall,
    on_baseline,
)
from tracelens.report import gain_words, line_times, next_commands, wording
from tracelens.report.formatting import (
    DASH,
    capitalized,
    estimate_range,
    milliseconds,
    percent,
    readable_id,
    said_columns,
    short_ms,
)
from tracelens.report.text import MET, by_rank
from tracelens.units import known_by, step_ms

SMALLEST_OWNER = 0.005
"""Of the step. What owns less is added up in the last row."""
LAUNCHING = {
    "launch": say("forward pass and the rest"),
    "backward": say("backward pass"),
    "optimizer": say("optimizer"),
}
"""Parts of the loop that issue the GPU's work, which the headline has as one sum."""


class Code(str):
    """Text that is set as code."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Table:
    """`numbers` are columns set flush right; `anchors` are the rows' ids, where something links to them. A column of
    which no row says anything is left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    anchors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kept = said_columns(len(self.columns), self.rows)
        numbers = frozenset(new for new, place in enumerate(kept) if place in self.numbers)
        object.__setattr__(self, "columns", tuple(self.columns[place] for place in kept))
        object.__setattr__(self, "rows", tuple(tuple(row[place] for place in kept) for row in self.rows))
        object.__setattr__(self, "numbers", numbers)


@dataclass(frozen=True, slots=True)
class Section:
    """`hint` says in a few words what is in it: it stands beside the title of a folded section."""

    id: str
    title: str
    hint: str = ""
    lede: str = ""
    table: Table | None = None
    items: tuple[str, ...] = ()
    note: str = ""


# ------------------------------------------------------------------------------------------------ where a step goes


def step_parts(diagnosis: Diagnosis) -> Section | None:
    """The parts of a step on the baseline; None without a GPU."""
    rows = tuple(
        (wording.PARTS[part][0], wording.PARTS[part][1], short_ms(ns), percent(share, 1))
        for part, ns, share in wording.shown_parts(on_baseline(diagnosis).breakdown)
    )
    if not rows:
        return None
    base = diagnosis.steps.best_known_ns
    told = step_ms(base, base)
    lede = say("Of a step of {base} ms; each moment has one owner.", base=told)
    table = Table((say("part"), say("what it is"), "ms", say("share")), rows, frozenset({2, 3}))
    return Section("parts", say("Where a step goes"), lede=lede, table=table)


def owners(diagnosis: Diagnosis) -> Section | None:
    """Who holds the step, the largest first; None where nobody is known."""
    diagnosis = on_baseline(diagnosis)
    known = [owner for owner in diagnosis.owners.owners if owner.owned_ns > 0]
    large = [owner for owner in known if diagnosis.owners.share(owner) >= SMALLEST_OWNER or owner.kind in ISSUING_KINDS]
    if not large:
        return None
    rows = list(_owner_rows(large, diagnosis))
    rest = sum(owner.owned_ns for owner in known) - sum(owner.owned_ns for owner in large)
    if rest > 0:
        share = rest / diagnosis.owners.wall_ns
        smaller = say("{count} smaller", count=len(known) - len(large))
        rows.append((smaller, "", short_ms(rest), percent(share, 1), DASH))
    columns = (say("who holds it"), say("where"), "ms", say("share"), say("without it"))
    table = Table(columns, tuple(rows), frozenset({2, 3, 4}))
    notes = [_LAUNCHES] if _launches(large, diagnosis) and _has_launch_latency(diagnosis) else []
    if columns[-1] in table.columns:  # a column of which no row says anything is left out
        notes.append(_WITHOUT_IT)
    return Section("owners", say("Who holds it"), table=table, note=joined(" ", notes) if notes else "")


_LAUNCHES = say(
    "“Launching kernels” is all idle time while Python launches; by parts of the step, most of it is “host too slow”, "
    "the rest “launch latency”."
)
_WITHOUT_IT = say(
    "“Without it” is what a step is shorter by when this alone is gone, predicted; what overlaps is not added up."
)


def _launches(owners: Sequence[Owner], diagnosis: Diagnosis) -> Sequence[Owner]:
    """The owners that are one sum; none where only one of them holds anything."""
    launching = [owner for owner in owners if diagnosis.breakdown is not None and owner.kind in ISSUING_KINDS]
    return launching if len(launching) > 1 else []


def _has_launch_latency(diagnosis: Diagnosis) -> bool:
    known = diagnosis.breakdown.known if diagnosis.breakdown is not None else {}
    return 0 < known.get("idle_launch", 0) < known.get("idle_host", 0)


def _owner_rows(owners: Sequence[Owner], diagnosis: Diagnosis) -> Iterator[tuple[str, ...]]:
    """The largest first. All that launches is one sum, as in the headline, with its parts of the loop below."""
    summed = _launches(owners, diagnosis)
    rest = [owner for owner in owners if owner not in summed]
    whole_ns = sum(owner.owned_ns for owner in summed)
    for owner in rest:
        if owner.owned_ns >= whole_ns:
            yield _owner(owner, diagnosis)
    if summed:
        share = percent(whole_ns / max(diagnosis.owners.wall_ns, 1), 1)
        yield say("Launching kernels"), "", short_ms(whole_ns), share, DASH
    for owner in summed:
        _, *cells = _owner(owner, diagnosis)
        part = LAUNCHING[owner.kind]
        part = say("{name}: {call}", name=part, call=owner.callee) if _called(owner) else part
        yield say("of it: {part}", part=part), *cells
    for owner in rest:
        if owner.owned_ns < whole_ns:
            yield _owner(owner, diagnosis)


def _owner(owner: Owner, diagnosis: Diagnosis) -> tuple[str, ...]:
    name = _who(owner)
    where = Code(wording.places(owner.locations)) if owner.locations else ""
    known = owner.recoverable_ns is not None and owner.recoverable_ns > 0
    saves = f"−{short_ms(owner.recoverable_ns)}" if known else DASH
    return name, where, short_ms(owner.owned_ns), percent(diagnosis.owners.share(owner), 1), saves


def _who(owner: Owner) -> str:
    """Kind and call; without the inside of torch's DataLoader, which says no more than its name."""
    count = 1 + (owner.group or "").count("+")
    if owner.kind == "wait" and count > 1:
        return say("{count} waits for the GPU", count=count)
    name = wording.OWNERS[owner.kind]
    return say("{name}: {call}", name=name, call=owner.callee) if _called(owner) else name


def _called(owner: Owner) -> bool:
    """Whether its call says more than its name."""
    name = owner.callee or ""
    return name not in ("", owner.kind) and not name.endswith("DataLoaderIter.__next__")


# ---------------------------------------------------------------------------------------------------------- waits


def waits(diagnosis: Diagnosis) -> Section:
    """Host waits with their three numbers, costliest first; without one what that means."""
    stalls = wording.ranked_stalls(on_baseline(diagnosis))
    if not stalls:
        return Section("waits", say("Waits of the host"), say("none"), wording.no_waits(diagnosis))
    columns = (
        say("where"),
        say("call"),
        say("calls"),
        say("host blocked"),
        say("GPU idle"),
        say("without it"),
        say("verdict"),
    )
    anchors = tuple(f"stall-{number}" for number in range(1, len(stalls) + 1))
    lede = say(
        "Per step: how long the host was blocked, how much idle time of the GPU the wait causes, and what removing it "
        "alone would give back. A long wait is often free."
    )
    return Section(
        "waits",
        say("Waits of the host"),
        say_count("{count} place", "{count} places", len(stalls)),
        lede,
        Table(columns, tuple(_wait(stall, diagnosis) for stall in stalls), frozenset({2, 3, 4, 5}), anchors),
        note=wording.together(diagnosis),
    )


def _wait(stall: Stall, diagnosis: Diagnosis) -> tuple[str, ...]:
    return (
        Code(wording.stall_place(stall)) if stall.location else say("not recorded"),
        Code(wording.stall_call(stall)),
        f"{stall.calls_per_step:.1f}",
        milliseconds(stall.wait_ns),
        milliseconds(stall.gpu_idle_ns),
        milliseconds(stall.exposed_ns),
        line_times.wait_verdict(stall, diagnosis),
    )


# -------------------------------------------------------------------------------------------------------- schemes


def estimates(diagnosis: PlannedDiagnosis) -> Section | None:
    """Every change of the loop with its estimate, its rating and its score here, or the reason against it."""
    if not diagnosis.schemes:
        return None
    columns = (
        say("rank"),
        say("change"),
        say("step (range)"),
        say("gain"),
        say("evidence"),
        say("rating before"),
        say("score"),
        say("why not"),
    )
    rows = tuple(_estimate(scheme, diagnosis.steps.best_known_ns) for scheme in by_rank(diagnosis))
    lede = say(
        "Scores are of 10. The gain ranks; the weights decide where two gains cannot be told "
        "apart. The rating before this run is an opinion about other loops and counts for nothing."
    )
    return Section(
        "schemes", say("Changes of the loop"), lede=lede, table=Table(columns, rows, frozenset({0, 2, 3, 5, 6}))
    )


def _estimate(scheme: Scheme, base_ns: int) -> tuple[str, ...]:
    estimate = scheme.estimate
    return (
        str(scheme.rank or DASH),
        Code(scheme.id),
        estimate_range(estimate) if estimate else DASH,
        gain_words.of_estimate(estimate, base_ns) if estimate else DASH,
        known_by(estimate.evidence) if estimate else DASH,
        DASH if scheme.prior_total is None else f"{scheme.prior_total:.2f}",
        DASH if scheme.total is None else f"{scheme.total:.2f}",
        joined("; ", scheme.reasons) if not scheme.applicable else "",
    )


def score_note(diagnosis: PlannedDiagnosis) -> str:
    """What 10 means for performance here, and for which weights another change would win."""
    most = diagnosis.recommendation.sensitivity.get("performance_10_is_percent")
    moved, said = wording.sensitivity(diagnosis), []
    if most is not None:
        said.append(say("For performance 10 is {most:+.0f} %, the most that a change gains here.", most=most))
    if moved:
        said.append(say("Each weight moved alone: {changes}.", changes=joined("; ", moved)))
    return joined(" ", said)


# --------------------------------------------------------------------------------------------------------- checks


def found(diagnosis: Diagnosis) -> Section | None:
    """Symptoms with their cost."""
    rows = tuple(
        (
            finding.title,
            Code(finding.id),
            Code(str(finding.location)) if finding.location else "",
            milliseconds(finding.cost_ns),
            percent(finding.share, 1),
            finding.evidence,
        )
        for finding in diagnosis.findings
    )
    columns = (say("what"), say("id"), say("where"), say("per step"), say("share"), say("evidence"))
    hint = say_count("{count} symptom", "{count} symptoms", len(rows))
    return _section("found", say("Found"), hint, Table(columns, rows, frozenset({3, 4})))


def passed(diagnosis: Diagnosis) -> Section | None:
    """Symptoms that were looked for and not found, or that cannot occur here."""
    rows: list[tuple[str, ...]] = [(check.meaning, Code(check.detector), say("passed")) for check in diagnosis.passed]
    rows += [(check.reason, Code(check.detector), say("not applicable")) for check in diagnosis.not_applicable]
    hint = say_count("{count} check", "{count} checks", len(diagnosis.passed))
    return _section(
        "passed", say("Checked, no problem"), hint, Table((say("what"), say("check"), say("result")), tuple(rows))
    )


def unjudged(diagnosis: Diagnosis) -> Section | None:
    """What could not be judged, and what to record."""
    rows: list[tuple[str, ...]] = [
        (joined(", ", names), missing, capitalized(hint))
        for names, missing, hint in wording.grouped_abstentions(diagnosis)
    ]
    rows += [
        (readable_id(item.id), say("cannot be told"), item.evidence)
        for item in diagnosis.inventory
        if item.present is None
    ]
    hint = say_count("{count} thing", "{count} things", len(rows))
    table = Table((say("what"), say("what is missing"), say("how to record it")), tuple(rows))
    return _section("not-judged", say("Could not be judged"), hint, table)


def inventory(diagnosis: Diagnosis) -> Section | None:
    """What the loop does already and what it does not."""
    does = {True: say("yes"), False: say("no")}
    rows = tuple(
        (readable_id(item.id), does[item.present], item.evidence)
        for item in sorted(diagnosis.inventory, key=lambda item: item.present is not True)
        if item.present is not None
    )
    return _section(
        "inventory", say("What the loop does already"), "", Table((say("what"), say("it does"), say("evidence")), rows)
    )


def beyond(diagnosis: PlannedDiagnosis) -> Section | None:
    """Measures of the training speed guide that the loop does not have; opinions, and said to be."""
    rows = tuple(map(_measure, wording.untried(diagnosis)))
    table = Table(
        (say("lever"), say("what it is"), say("the guide expects"), say("acts on"), say("watch out")),
        rows,
        frozenset({3}),
    )
    return _section("beyond", wording.BEYOND, say("opinions of a guide"), table, wording.BEYOND_NOTE)


def _measure(measure: Measure) -> tuple[str, ...]:
    return Code(measure.id), measure.how, wording.expected(measure), wording.at_most(measure), measure.caution


# ----------------------------------------------------------------------------------------------------------- plan


def plan(diagnosis: PlannedDiagnosis) -> Section | None:
    """The stages with their goals, and what each says to do."""
    rows = [row for stage in wording.plan(diagnosis) for row in _stage(stage, diagnosis)]
    table = Table((say("stage"), say("goal"), say("state"), say("evidence")), tuple(rows))
    return _section("plan", say("The plan"), say("{count} stages", count=len(wording.plan(diagnosis))), table)


def _stage(stage: Stage, diagnosis: PlannedDiagnosis) -> Sequence[tuple[str, ...]]:
    name = say("{number}. {title}", number=stage.number, title=capitalized(stage.title))
    goals = [(name, goal.text, MET[goal.met], goal.evidence) for goal in stage.goals]
    changes = (name, ", ".join(stage.schemes), "", "")
    advice = [(name, capitalized(next_commands.advice(stage, diagnosis)), "", "")] if stage.advice else []
    return [changes, *goals, *advice]


def _section(name: str, title: str, hint: str, table: Table, lede: str = "") -> Section | None:
    return Section(name, title, hint, lede, table) if table.rows else None
