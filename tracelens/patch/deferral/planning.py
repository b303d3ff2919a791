"""Which statements of a loop run later, and before which ones they must have run.

In: a loop and the statements whose reads should wait. Out: a `Deferral`, or `Blocked`. Every statement that touches
a result of a deferred one is deferred too, so that all of them keep their order; one that cannot be is preceded by
a drain if it is rare (a checkpoint every 1,000 steps, a return), and blocks the whole otherwise. Lines on the
screen are a result like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, meets, rebound, touched, walk, written
from tracelens.patch.code.outside import BESIDES
from tracelens.patch.deferral import around, constants, notes, other_users, proof, shared_arrays
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.deferral.kept_parts import changed_later
from tracelens.patch.deferral.read_places import ReadPlaces, read_places
from tracelens.patch.deferral.statements import StatementCaptures
from tracelens.patch.deferral.written_through import files_behind
from tracelens.patch.loop import deciding_clocks, guards, heads, timing
from tracelens.patch.loop.bars import Bar, moved_by_hand
from tracelens.patch.loop.between import Looks
from tracelens.patch.loop.doubts import by_text, doubt, doubting
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.host import opens_file
from tracelens.patch.loop.loops import DECIDES, FEW_BATCHES, KEPT, Blocked, Suspected, is_rare

MAX_JOINING = 6
"""Statements without a read that are taken into a plan because it may not pass them."""


@dataclass(frozen=True)
class StatementRun:
    """Statements that stand together and become one function: whole lines, or one small statement within a line."""

    statements: tuple[cst.CSTNode, ...]
    captures: tuple[Capture, ...]
    again: tuple[StatementRun, ...] = ()
    """Places with the same statements of the same values, as in another branch: they fill the same list."""

    @property
    def places(self) -> tuple[StatementRun, ...]:
        return (self, *self.again)


@dataclass(frozen=True)
class Deferral:
    """A plan for one loop. `state` are the keys that deferred statements write."""

    facts: LoopFacts
    runs: tuple[StatementRun, ...]
    drains: tuple[cst.CSTNode, ...]
    """Statements before which everything deferred must have run."""
    state: frozenset[str]
    notes: tuple[str, ...]
    looks: Looks | None = None
    """When the iterator of the loop looks at the results: what waits runs before."""
    bar: Bar | None = None
    """A progress bar that the loop runs over and whose text waits: all has to run before it closes."""
    unproved: str = ""
    """What of the project is not known, without which the plan is not proved; empty where it is."""
    doubts: tuple[str, ...] = ()
    """Of that: obstacles that the text of the file suggests."""

    @cached_property
    def places(self) -> ReadPlaces:
        """Where what waits is read. Raises `Blocked` where a time that is shown would be another one."""
        return read_places(self.facts, self.runs, self.drains)


def plan(facts: LoopFacts, seeds: Sequence[cst.CSTNode]) -> Deferral:
    """Plan to defer the statements in `seeds` and whatever depends on them; raises `Blocked`.

    Statements in rare branches are deferred with the others where that is possible; where not, all that waits runs
    before them.
    """
    return _first(facts, seeds, [(one, rare) for one in _ways(facts) for rare in (False, True)])


def _ways(facts: LoopFacts) -> Iterator[LoopFacts]:
    """The facts, the same with doubts noted, and the same by text alone where the proof is asked of the rest."""
    yield from (facts, doubting(facts))
    doubts = facts.doubts
    if doubts is None or doubts.asks_project:
        yield by_text(facts)


def _grown(facts: LoopFacts, seeds: Sequence[cst.CSTNode]) -> Deferral:
    """A plan that takes in the statements that another plan may not pass, as long as there are such."""
    wanted, first = list(seeds), None
    while True:
        try:
            return _plan(facts, wanted, wait_for_rare=False)
        except proof.NotMovable as refused:
            first = first or refused
            there = (leaf for leaf in facts.leaves if facts.source.line(leaf) == refused.at and leaf not in wanted)
            more = [leaf for leaf in there if isinstance(leaf, cst.BaseSmallStatement)]
            wanted += more
            if not more or len(wanted) > len(seeds) + MAX_JOINING:
                raise first from None
        except Blocked as blocked:
            raise first or blocked from None


def plan_between(facts: LoopFacts, seeds: Sequence[cst.CSTNode]) -> Deferral:
    """Plan to defer the statements in `seeds`, with every statement of a rare branch left where it stands.

    What the script shows every K batches it then shows at the same batches as before. Raises `Blocked`.
    """
    return _first(facts, seeds, [(one, True) for one in _ways(facts)])


def _first(facts: LoopFacts, seeds: Sequence[cst.CSTNode], ways: Iterable[tuple[LoopFacts, bool]]) -> Deferral:
    """The first plan that can be made; where none is, raises the obstacle of the last way.

    That is what the loop's own lines and the project say; those before it may be names alone.
    """
    timing.check_events(facts)
    deciding_clocks.check(facts)
    told = Blocked(None, "", "")
    for given, wait_for_rare in ways:
        make = partial(_plan, seeds=seeds, wait_for_rare=True) if wait_for_rare else partial(_grown, seeds=seeds)
        try:
            made = make(given)
        except Blocked as blocked:
            known = bool(told.obstacle) and blocked.obstacle == FEW_BATCHES[0]
            told = told if known and around.constant_condition(facts, blocked.node) else blocked
            continue
        return constants.read_where_used(made, make)
    raise told


def _plan(facts: LoopFacts, seeds: Sequence[cst.CSTNode], wait_for_rare: bool) -> Deferral:
    members, state = _closure(facts, seeds, wait_for_rare)
    if facts.doubts is not None:
        facts.doubts.clear()  # those of statements that were tried
    around.check_frame(facts)
    other_users.check(facts, members, state)
    planner = _Planner(facts, state, frozenset(members), wait_for_rare)
    runs, drains = planner.block(facts.loop.body, rare=False)
    shown = heads.check(facts, members, state - guards.last_words(facts, members))
    looks, bar = (shown, None) if isinstance(shown, Looks) else (None, shown)
    missing = [seed for seed in seeds if not any(_holds(run, seed) for run in runs)]
    if missing or not runs:
        if missing and (above := around.constant_condition(facts, missing[0])) is not None:
            planner._block(above.body)  # raises why they stay: by its name alone is it one of few batches
        raise Blocked(missing[0] if missing else facts.loop, *FEW_BATCHES)
    moved = frozenset(node for run in runs for statement in run.statements for node in walk(statement))
    for leaf in moved:
        if isinstance(leaf, cst.BaseSmallStatement):
            _check_results(facts, leaf, state)
    shared_arrays.check(facts, moved)
    drains += tuple(node for node in guards.lookouts(facts, moved) if node not in drains)
    if facts.by_text:
        _note_who_stays(facts, members, state)
    doubts = facts.doubts.sentences if facts.doubts is not None else ()
    deferral = Deferral(facts, runs, drains, state, (), looks, bar, doubts=doubts)
    return replace(deferral, notes=tuple(notes.told(deferral)), unproved=proof.unproved(deferral))


def _note_who_stays(facts: LoopFacts, members: Sequence[cst.CSTNode], state: frozenset[str]) -> None:
    """Note the statements that stay although what they call may touch a result; no plan by text alone is proved."""
    leaves = (leaf for leaf in facts.leaves if not any(leaf is member for member in members))
    reaching = [leaf for leaf in leaves if facts.reaches(leaf, state)]
    for leaf in reaching or [facts.loop]:
        text = say("what it calls may touch what waits")
        doubt(facts, Suspected(leaf, text, say("read the value every N batches")))


def _check_results(facts: LoopFacts, leaf: cst.BaseSmallStatement, state: frozenset[str]) -> None:
    """Raise `Blocked` where a statement would run later, and what it writes is not known to be written then.

    What a function behind its arguments changes is no matter of this: those are evaluated where they stand.
    """
    results = written(leaf, facts.names)
    if not results <= state:
        StatementCaptures(facts, state | results).small(leaf)  # raises why they were left out
        raise Blocked(leaf, say("it uses the value in the same batch"), say("read the value every N batches"))


def _closure(
    facts: LoopFacts, seeds: Sequence[cst.CSTNode], wait_for_rare: bool = False
) -> tuple[list[cst.CSTNode], frozenset[str]]:
    """All statements that touch a result of a deferred one, and the keys of these results."""
    members = [part for seed in seeds for part in (seed, *guards.inside(facts, seed))]
    state = _results(facts, frozenset(), members)
    grown = True
    while grown:
        grown = False
        for leaf in facts.leaves:
            if any(leaf is member for member in members) or not facts.uses(leaf, state):
                continue
            bar = moved_by_hand(facts, leaf)
            if bar is not None and not facts.uses(leaf, state - facts.aliases(frozenset({bar}))):
                continue
            members.append(leaf)
            grown = True
            if within := guards.inside(facts, leaf):
                members += within
                state = _results(facts, state, within)
            stays = wait_for_rare and facts.in_rare_branch(leaf)
            if isinstance(leaf, cst.BaseSmallStatement) and not stays and _recordable(facts, state, leaf):
                state = _results(facts, state, [leaf])
    return members, state


def _results(facts: LoopFacts, state: frozenset[str], statements: Sequence[cst.CSTNode]) -> frozenset[str]:
    """The keys in `state` and those that the statements write, with the objects that hold one another."""
    keys = {key for statement in statements for key in written(statement, facts.names)}
    keys |= {key for statement in statements for key in changed_later(facts, statement)}
    objects = keys - {name for statement in statements for name in rebound(statement) - facts.kept_by(statement)}
    known = facts.other_names if facts.by_text else facts.aliases  # who else holds one is asked of the project then
    return state | keys | known(frozenset(objects)) | files_behind(facts, frozenset(objects))


def _recordable(facts: LoopFacts, state: frozenset[str], leaf: cst.BaseSmallStatement) -> bool:
    try:
        StatementCaptures(facts, state | written(leaf, facts.names) | changed_later(facts, leaf)).small(leaf)
    except Blocked:
        return False
    return not facts.source.kept_by_comment(leaf)


_Split = tuple[tuple[StatementRun, ...], tuple[cst.CSTNode, ...]]
"""Runs, and drains."""


@dataclass(frozen=True)
class _Planner:
    facts: LoopFacts
    state: frozenset[str]
    members: frozenset[cst.CSTNode]
    wait_for_rare: bool

    def block(self, block: cst.BaseSuite, rare: bool) -> _Split:
        """Runs and drains of one block; in a rare one, a statement that cannot wait makes the block stay as it is."""
        if not (rare and self.wait_for_rare):
            try:
                return self._block(block)
            except Blocked:
                if not rare:
                    raise
        return (), (next(statement for statement in block.body if self._touches(statement)),)

    def _block(self, block: cst.BaseSuite) -> _Split:
        runs: list[StatementRun] = []
        drains: list[cst.CSTNode] = []
        together: list[cst.CSTNode] = []
        recorder = self._recorder()
        for statement in block.body:
            grown = self._taken(recorder, statement)
            if grown is not None:
                recorder = grown
                together.append(statement)
                continue
            runs += _run(together, recorder)
            together, recorder = [], self._recorder()
            if self._touches(statement):
                inner_runs, inner_drains = self._inside(statement)
                runs += inner_runs
                drains += inner_drains
        return (*runs, *_run(together, recorder)), tuple(drains)

    def _recorder(self) -> StatementCaptures:
        return StatementCaptures(self.facts, self.state)

    def _taken(self, recorder: StatementCaptures, statement: cst.CSTNode) -> StatementCaptures | None:
        """The recorder with the statement added, or None where it does not run later as a whole."""
        if not self._touches(statement) or isinstance(statement, cst.BaseSmallStatement):
            return None
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
            return None
        whole = isinstance(statement, (cst.SimpleStatementLine, cst.If)) or opens_file(statement)
        if not whole or not self._all_members(statement):
            return None
        if self.wait_for_rare and isinstance(statement, cst.If) and is_rare(statement.test, self.facts.varying):
            return None
        trial = StatementCaptures(self.facts, self.state, dict(recorder.captures))
        try:
            trial.statement(statement)
        except Blocked:
            return None
        return trial

    def _all_members(self, statement: cst.CSTNode) -> bool:
        leaves = [n for n in walk(statement) if isinstance(n, cst.BaseSmallStatement)]
        return all(
            (leaf in self.members or isinstance(leaf, cst.Pass)) and not self.facts.source.kept_by_comment(leaf)
            for leaf in leaves
        )

    def _touches(self, statement: cst.CSTNode) -> bool:
        return any(node in self.members for node in walk(statement))

    def _inside(self, statement: cst.CSTNode) -> _Split:
        """A statement that stays, with runs inside it, or a drain before it."""
        if isinstance(statement, cst.Return):
            return (), (statement,)
        if isinstance(statement, cst.SimpleStatementLine):
            return self._line(statement)
        if isinstance(statement, cst.BaseSmallStatement):
            return self._small(statement)
        if statement in self.members:
            raise Blocked(statement, *self._why_not(statement))
        if isinstance(statement, cst.If):
            return self._branches(statement)
        if isinstance(statement, (cst.For, cst.While, cst.With)):
            if isinstance(statement, cst.With):
                around.check_context(statement, self.facts)
            return self._with_else(self.block(statement.body, rare=False), getattr(statement, "orelse", None))
        return self._below_try(statement)

    def _below_try(self, node: cst.CSTNode) -> _Split:
        """The body of a `try` whose handlers have nothing to do with the results."""
        blocked = Blocked(
            node, say("the value is used where an exception may be caught"), say("read it every N batches")
        )
        parts = [*node.handlers, node.orelse, node.finalbody] if isinstance(node, cst.Try) else [node]
        if any(part is not None and self._touches(part) for part in parts):
            raise blocked
        doubt(self.facts, blocked.suspected())
        assert isinstance(node, cst.Try)
        return self.block(node.body, rare=False)

    def _line(self, line: cst.SimpleStatementLine) -> _Split:
        if len(line.body) == 1:
            small = line.body[0]
            if isinstance(small, (cst.Return, cst.Raise)):
                return (), (line,)
            raise Blocked(small, *self._why_not(small))
        found = [self._small(small) for small in line.body if small in self.members]
        return tuple(r for runs, _ in found for r in runs), tuple(d for _, drains in found for d in drains)

    def _small(self, small: cst.BaseSmallStatement) -> _Split:
        if isinstance(small, (cst.Return, cst.Raise)):
            return (), (small,)
        recorder = self._recorder()
        if self.facts.source.kept_by_comment(small):
            raise Blocked(small, *self._why_not(small))
        recorder.small(small)
        return tuple(_run([small], recorder)), ()

    def _branches(self, node: cst.If) -> _Split:
        rare = is_rare(node.test, self.facts.varying)
        return self._with_else(self.block(node.body, rare) if self._touches(node.body) else ((), ()), node.orelse)

    def _with_else(self, found: _Split, orelse: cst.If | cst.Else | None) -> _Split:
        if orelse is None or not self._touches(orelse):
            return found
        runs, drains = found
        more, further = self._inside(orelse) if isinstance(orelse, cst.If) else self.block(orelse.body, rare=False)
        return (*runs, *more), (*drains, *further)

    def _why_not(self, node: cst.CSTNode) -> tuple[str, str]:
        """The reason why a statement that touches the results cannot run later, in words."""
        if self.facts.source.kept_by_comment(node):
            return KEPT
        if isinstance(node, (cst.If, cst.While)) and node not in self.facts.guards:
            return DECIDES
        if isinstance(node, (cst.For, cst.With)):
            return around.why_block_stays(self.facts, node, self.members)
        if (loud := self._loud(node)) is not None:
            why = say(
                "`{loud}(…)` writes lines or files itself, which keep their place among those that would wait",
                loud=loud,
            )
            return why, say("write these lines every N batches too, or not at all")
        try:
            recorder = self._recorder()
            recorder.small(node) if isinstance(node, cst.BaseSmallStatement) else recorder.statement(node)
        except Blocked as blocked:
            held = other_users.only_holds(self.facts, self.members, self.state, node)
            return held or blocked.obstacle, blocked.by_hand
        return say("it uses the value in the same batch"), say("read the value every N batches")

    def _loud(self, node: cst.CSTNode) -> str | None:
        """Returns the name of the first call that writes output, for a statement that uses no result otherwise.

        None where the statement reads or changes what the deferred statements read or change, or where no call writes.
        """
        if meets(touched(node, self.facts.names), self.state):
            return None
        calls = (part for part in walk(node) if isinstance(part, cst.Call))
        return next((dotted(call.func) for call in calls if self.facts.behind(call).seen & BESIDES & self.state), None)


def _run(together: list[cst.CSTNode], recorder: StatementCaptures) -> Iterator[StatementRun]:
    if together:
        yield StatementRun(tuple(together), tuple(recorder.captures.values()))


def _holds(run: StatementRun, seed: cst.CSTNode) -> bool:
    return any(node is seed for statement in run.statements for node in walk(statement))
