"""Whether statements of a loop may run later: after the rest of their batch and of the batches that follow.

In: the effects of a project, and a `Question`. Out: an `Answer`, proved or with the reasons why not. Statements that
run later keep their order among themselves; they may not meet what stays in the loop, nor what runs between batches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tracelens.messages import say
from tracelens.patch.effects import at_once, names, syntax, tensor_work
from tracelens.patch.effects.after_exceptions import Seen, is_plain_block, late_errors, seen_of
from tracelens.patch.effects.analysis import Analysis, units_of
from tracelens.patch.effects.attributes import COUNT, FLUSHED
from tracelens.patch.effects.deeds import Deed, Deeds, is_occasional, is_of_an_error, is_time_of_day
from tracelens.patch.effects.dispatch import STATE, TEXT
from tracelens.patch.effects.file_lines import shown_text
from tracelens.patch.effects.identity import Identities
from tracelens.patch.effects.kept import KeptValues, evaluated_in_place
from tracelens.patch.effects.log_files import looks_at_logs
from tracelens.patch.effects.memory import DATA, ELSEWHERE, SHARED
from tracelens.patch.effects.objects import (
    BAR,
    CLOCK,
    COLLECTIVE,
    DISK_READ,
    DISK_WRITE,
    GENERAL,
    NAMES,
    OUTPUT,
    QUEUED,
    RAISES,
    RANDOM,
    READS,
    SETS,
    SUSPENDS,
    TRACKED,
    UNKNOWN,
    WRITES,
    Activation,
    Callbacks,
    Effect,
    Instance,
    Module,
    Name,
    Unknown,
    is_thing,
)
from tracelens.patch.effects.places import Loop, Span, loop_at, nodes_in, path_to, span_of
from tracelens.patch.effects.question import Answer, Question, Tier
from tracelens.patch.effects.raising import may_raise
from tracelens.patch.effects.reasons import (
    CLOCKS,
    CODE,
    FILES,
    LINES,
    About,
    Certainty,
    Distance,
    Reason,
    ReasonKind,
    about_of,
    certainty,
    not_known,
)
from tracelens.patch.effects.same_file import WrittenFiles
from tracelens.patch.effects.stamps import is_stamp
from tracelens.patch.effects.surroundings import follows_a_wait, goes_through_bar, is_of_its_own, maps
from tracelens.patch.effects.touched import Touched

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


def judge(analysis: Analysis, question: Question, started: Path) -> Answer:
    """The answer for the loop, in all the ways in which its function is called. `started`: the script."""
    file = analysis.project.file(question.path)
    if file is None or file.tree is None:
        raise ValueError(f"{question.path} cannot be parsed")
    loop = loop_at(file.tree, question.line, question.column)
    if loop is None:
        raise ValueError(f"no loop starts at {question.path}:{question.line}")
    units = units_of(analysis, file.tree, loop)
    judges = [_Judge(analysis, question, unit, loop) for unit in units]
    reasons = {reason for one in judges for reason in one.reasons()}
    seen = {seen_of(analysis, one.unit, loop, one.moved, started) for one in judges} or {"results"}
    if not units:
        reasons = {not_known(say("who runs the loop is not known"), file.shown, loop.lineno)}
    ordered = tuple(sorted(reasons, key=lambda one: one.order))
    tier: Tier = "refused" if any(one.known for one in ordered) else "checked" if ordered else "safe"
    after: Seen | None = "lines" if "lines" in seen else "results" if "results" in seen else None
    return Answer(tier, ordered, after)


class _Judge:
    """The question for one unit: the loop's function as called with one receiver, or its module."""

    def __init__(self, analysis: Analysis, question: Question, unit: Module | Activation, loop: Loop) -> None:
        self.analysis, self.question, self.unit, self.loop = analysis, question, unit, loop
        self.memory = memory = analysis.memory
        self.shown = names.module_of(unit).file.shown
        self.statements = [node for span in question.later for node in nodes_in(loop, span)]
        kept = question.kept if question.kept is not None else evaluated_in_place(self.statements)
        self.kept = KeptValues(analysis, unit, kept)
        self.deeds = Deeds(memory, unit, question.drained)
        self.moved = [one for deed in self.deeds.chosen_deeds(self._is_later) for one in self.kept.left_of(deed)]
        anytime = memory.make(Callbacks, ELSEWHERE, "later")
        self.staying = [
            *self.deeds.chosen_deeds(self._stays),
            *(replace(one, elsewhere=True) for one in self.deeds.behind(loop, anytime)),
        ]

    # --------------------------------------------------------------------------------------------------------- pieces

    def _is_later(self, node: ast.AST) -> bool:
        return any(span.holds(node) for span in self.question.later) and not self.kept.holds(node)

    def _stays(self, node: ast.AST) -> bool:
        """Whether a node runs in the loop, between two batches included, where the statement stands that waits."""
        path = names.module_of(self.unit).file.path
        if any(path == where and span.holds(node) for where, span in self.question.drained):
            return False
        inside = node is self.loop or self._in_loop(node) or any(span.holds(node) for span in self._in_head)
        return inside and not self._is_later(node)

    @cached_property
    def _in_head(self) -> tuple[Span, ...]:
        """The generator expressions that the loop goes through: they run between two batches."""
        head = self.loop.test if isinstance(self.loop, ast.While) else self.loop.iter
        spans = (span_of(part) for part in syntax.walk(head) if isinstance(part, ast.GeneratorExp))
        return tuple(span for span in spans if span is not None)

    def _in_loop(self, node: ast.AST) -> bool:
        parts = [*self.loop.body, self.loop.test if isinstance(self.loop, ast.While) else self.loop.target]
        spans = (span_of(part) for part in parts)
        return any(span is not None and span.holds(node) for span in spans)

    # -------------------------------------------------------------------------------------------------------- reasons

    def reasons(self) -> Iterator[Reason]:
        """All that speaks against the move."""
        yield from self._of_the_text()
        yield from self._of_errors()
        yield from self._of_the_moment()
        yield from self._of_bars()
        yield from self._of_the_moment_of_others()
        yield from self._of_objects()
        yield from self._of_lines()
        yield from self._of_time()

    def _reason(self, kind: ReasonKind, about: About, text: str, deed: Deed, known: bool = True) -> Reason:
        path, line = deed.place
        shown = path or self.shown
        inside = self.loop.lineno < line <= (self.loop.end_lineno or line)
        distance = Distance(shown != self.shown or not inside, self._below_bar)
        certain = certainty(about, distance, known and not deed.perhaps)
        return Reason(certain, kind, about, text, shown, line, _line(deed.at))

    @cached_property
    def _identities(self) -> Identities:
        return Identities(self.analysis, self.unit, self.loop)

    @cached_property
    def _below_bar(self) -> bool:
        """Whether the loop goes through a progress bar, counted or not."""
        return not isinstance(self.loop, ast.While) and goes_through_bar(self.analysis, self.unit, self.loop.iter)

    def _of_the_text(self) -> Iterator[Reason]:
        """Statements that end something, and blocks around them that are over when they run."""
        for statement in self.statements:
            if any(isinstance(part, _LEAVES) for part in syntax.walk(statement)):
                text = say("it leaves the loop, or hands control to somebody else")
                yield Reason("known", "leaves", CODE, text, self.shown, _line(statement))
            yield from self._of_own_reads(statement)
            for block in path_to(self.loop, statement)[1:-1]:
                if isinstance(block, (ast.Try, ast.TryStar)) and (block.handlers or block.finalbody):
                    yield self._of_a_try(statement, block)
                if isinstance(block, (ast.With, ast.AsyncWith)) and not all(
                    is_plain_block(self.analysis, self.unit, item) for item in block.items
                ):
                    text = say("the `with` block around it is over when it runs")
                    certain: Certainty = "known" if at_once.says_how_shown(block) else "suspected"
                    yield Reason(certain, "block", CODE, text, self.shown, _line(block))
                elif isinstance(block, (ast.With, ast.AsyncWith)) and self._computes_as_told(statement, block):
                    text = say("it may compute with tensors as the `with` block around it says, which is over then")
                    yield Reason("suspected", "block", CODE, text, self.shown, _line(block))

    def _of_own_reads(self, statement: ast.AST) -> Iterator[Reason]:
        """Reads that are a method of the project, whatever that does: no tensor can be kept in place of its object."""
        for call in (one for one in syntax.walk(statement) if isinstance(one, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr in at_once.READS:
                owners = self.analysis.value(self.unit, call.func.value)
                if call in self.kept.calls_of_the_project and all(isinstance(one, Instance) for one in owners):
                    text = say("{who} is a method of the project", who=f"`{shown_text(call)}`")
                    yield Reason("known", "object", CODE, text, self.shown, _line(call))

    def _computes_as_told(self, statement: ast.AST, block: ast.With | ast.AsyncWith) -> bool:
        """Whether a statement leaves a block that says how tensors are computed, and computes with some."""
        told = any(map(tensor_work.sets_how_to_compute, block.items))
        return told and tensor_work.computes(self.analysis, self.unit, statement, self.kept.holds)

    def _of_a_try(self, statement: ast.AST, block: ast.AST) -> Reason:
        """Whether an error of the statement itself is caught where it stands; those of others are not."""
        if may_raise(self.analysis, self.unit, statement, self.kept.holds):
            text = say("an error in it is caught where it stands, and would not be later")
            return Reason("known", "block", CODE, text, self.shown, _line(block))
        text = say("it runs where an exception may be caught")
        return Reason("suspected", "block", CODE, text, self.shown, _line(block))

    def _of_errors(self) -> Iterator[Reason]:
        """Errors that would come some batches later, where more than the end of the process depends on them."""
        if not any(may_raise(self.analysis, self.unit, one, self.kept.holds) for one in self.statements):
            return
        for text, path, line in late_errors(self.analysis, self.unit, self.loop):
            yield Reason("suspected", "moment", CODE, text, path, line)
        written = next((deed for deed in self.staying if deed.effect.kind == DISK_WRITE), None)
        if written is not None:
            text = say("an error in it would come after more has been written")
            yield self._reason("moment", FILES, text, written, known=False)

    def _of_the_moment(self) -> Iterator[Reason]:
        """What binds a statement to the moment at which it stands."""
        for deed in self.moved:
            kind = deed.effect.kind
            if kind == CLOCK and self._is_of_the_line(deed):
                continue
            if kind == CLOCK:
                yield self._reason("moment", CLOCKS, say("it {kind}", kind=kind), deed, not self._shows_itself(deed.at))
            elif kind in (RANDOM, COLLECTIVE, NAMES, SUSPENDS, SETS):
                yield self._reason("moment", CODE, say("it {kind}", kind=kind), deed)
            elif kind == QUEUED:
                yield self._reason("moment", CODE, say("it {kind}", kind=kind), deed, known=False)
            elif kind == RAISES:
                text = say("it may raise, some batches later than it does now")
                yield self._reason("moment", CODE, text, deed, known=False)
            elif kind == GENERAL:
                text = say("`{what}` may do more than to compute", what=deed.effect.field.strip("<>"))
                yield self._reason("hidden", CODE, text.replace(">.", "."), deed, known=False)
            elif kind == UNKNOWN:
                yield self._reason(
                    "moment", CODE, say("what {why} does is not known", why=_why(deed)), deed, known=False
                )

    def _of_the_moment_of_others(self) -> Iterator[Reason]:
        """What stays, and binds the statements to the moment at which they stand."""
        for deed in self.staying:
            if deed.effect.kind == DISK_WRITE and any(span.holds(deed.at) for span in self.question.later):
                text = say("a file is opened, which is closed when the line has run")
                yield self._reason("moment", FILES, text, deed, known=False)
            if deed.effect.kind == NAMES:
                yield self._reason("moment", CODE, say("the loop looks names up by their text"), deed)
            elif self._is_seen_outside and at_once.ends_process(deed.node) and not is_of_an_error(deed):
                text = say("{who} may end the process at once, with what waits", who=self._who(deed))
                yield self._reason("moment", CODE, text, deed)
            elif at_once.looks_into_function(deed.node):
                text = say("{who} looks into a function", who=self._who(deed))
                yield self._reason("moment", CODE, text, deed)
            elif deed.effect.kind == SUSPENDS and deed.unit is self.unit:
                text = say("the loop hands control to its caller, who may look at anything")
                yield self._reason("moment", CODE, text, deed)

    def _of_bars(self) -> Iterator[Reason]:
        """Bars that would stand still until what waits is read: what they say of time is wrong then."""
        for deed in self.moved:
            moves = deed.effect.kind == WRITES and deed.effect.field in (STATE, COUNT)
            if moves and is_thing(deed.effect.target, "bar"):
                text = say("it moves a progress bar, which then goes on several batches at a time")
                yield self._reason("moment", CODE, text, deed, known=False)

    @cached_property
    def _is_seen_outside(self) -> bool:
        """Whether the statements leave something that lasts longer than the process."""
        return any(one.effect.kind in (OUTPUT, DISK_WRITE, TRACKED) for one in self.moved)

    def _shows_itself(self, node: ast.AST) -> bool:
        """Whether the clock is read by a function whose call is a statement: it shows the time of several batches."""
        parts = (part for statement in self.statements for part in syntax.walk(statement))
        return node in self.kept.calls_of_the_project and any(is_of_its_own(part, node) for part in parts)

    def _is_of_the_line(self, deed: Deed) -> bool:
        """Whether a moment only stands on a line: it is that of the line."""
        if is_time_of_day(deed):
            return is_stamp(self.analysis, deed)
        return deed.unit is self.unit and deed.node not in self.analysis.timed_places

    def _of_objects(self) -> Iterator[Reason]:
        """Variables and objects that both touch, and one of them changes."""
        visible = [one for one in self.moved if not isinstance(one.effect.target, Unknown)]
        certain = Touched([one for one in visible if not one.perhaps], self.memory, through_unknown=False)
        parts = [one for one in self.moved if one.effect.target is SHARED and not one.effect.deep]
        anything = Touched([*visible, *parts], self.memory, through_unknown=True)
        for deed in self.moved:
            target = deed.effect.target if deed.effect.kind == WRITES else None
            if isinstance(target, Name) and target.full[:1] != "<":
                yield self._reason("object", CODE, say("it changes a setting of a library"), deed)
            if target is DATA:
                text = say(
                    "what it changes may be a part of the model, the optimizer or the settings, which the loop uses"
                )
                yield self._reason("object", CODE, text, deed, known=False)
        for deed in self.staying:
            met = certain.meets(deed)
            if met is not None:
                yield self._met(deed, met)
                continue
            met = anything.meets(deed)
            if met is not None:
                yield self._met(deed, met, known=False)

    def _met(self, deed: Deed, what: Effect, known: bool = True) -> Reason:
        about, known = about_of(what, self._identities), known and deed.effect.field != FLUSHED
        if deed.effect.kind == WRITES and at_once.switches_logger(deed.node):
            about = replace(about, kind="object")  # wherever it is done
        name = about.name
        if deed.effect.target is SHARED:
            unknown = next((one for one in self.staying if one.effect.kind == UNKNOWN and one.at is deed.at), None)
            who = _why(unknown) if unknown is not None else say("unknown code")
            text = say("{who} is not known, and was handed what holds {name}", who=who, name=name)
            return self._reason("object", about, text, deed, known=False)
        if deed.effect.kind == READS and deed.effect.field == TEXT:
            if deed.at is self.loop:
                text = say("the bar is drawn between two batches, and shows the text of a batch before until then")
            else:
                text = say("the bar is drawn when it moves, and shows the text of a batch before until then")
            return self._reason("object", about, text, deed, known=False)
        if deed.at is self.loop and not deed.elsewhere:
            if deed.effect.kind == WRITES:
                text = say("the loop's iterator changes {name} between two batches", name=name)
            else:
                text = say("the loop's iterator looks at {name} between two batches", name=name)
            return self._reason("object", about, text, deed, known)
        told = {"who": self._who(deed), "name": name}
        changes = deed.effect.kind == WRITES
        text = say("{who} changes {name}", **told) if changes else say("{who} looks at {name}", **told)
        return self._reason("object", about, text, deed, known)

    def _of_lines(self) -> Iterator[Reason]:
        """Lines on the screen keep their order, and what reads a file finds what was written before.

        A bar is drawn over a moment later, but not where a line was written below it: there it stays as it was.
        """
        written = WrittenFiles(self.memory, self.moved)
        for moved, other, about in ((OUTPUT, OUTPUT, LINES), (BAR, OUTPUT, LINES), (DISK_WRITE, DISK_READ, FILES)):
            own = [one for one in self.moved if one.effect.kind == moved or (moved == DISK_WRITE and maps(one))]
            if not own:
                continue
            certain = moved != BAR and any(not one.perhaps and not maps(one) for one in own)
            for deed in self.staying:
                if deed.effect.kind == other:
                    surely = certain and (deed.unit is self.unit or deed.at is self.loop or not is_occasional(deed))
                    same = written.shared_with(deed.node) if other == DISK_READ else ""
                    about_it = CODE if same else about
                    yield self._reason("output", about_it, self._seen(deed, other), deed, surely or bool(same))
                elif deed.effect.kind == UNKNOWN and moved in (OUTPUT, BAR):
                    asked = say("whether {why} writes lines of its own is not known", why=_why(deed))
                    yield self._reason("output", about, asked, deed, known=False)
        looks = looks_at_logs(self.memory, self.moved)
        for deed in self.staying:
            if deed.effect.kind in looks and deed.at is not self.loop:  # the loader reads its data set
                text = say("{who} looks at a file, which may be the log", who=self._who(deed))
                yield self._reason("output", FILES, text, deed, known=False)

    def _seen(self, deed: Deed, kind: str) -> str:
        who = self._who(deed)
        return say("{who} writes lines of its own", who=who) if kind == OUTPUT else say("{who} looks at files", who=who)

    def _who(self, deed: Deed) -> str:
        if deed.elsewhere:
            return say("what runs beside the loop")
        if isinstance(deed.at, ast.Name) and isinstance(deed.at.ctx, ast.Store):
            return say("the loop")
        return say("the loop's iterator") if deed.at is self.loop else f"`{_text(deed.at)}`"

    def _of_time(self) -> Iterator[Reason]:
        """Durations that people read, and that had the wait in them; and what else a clock may be asked for."""
        for deed in self.staying:
            if deed.effect.kind != CLOCK or follows_a_wait(self.analysis, deed) or is_stamp(self.analysis, deed):
                continue
            if deed.node in self.analysis.shown_places:
                text = say("a duration that is shown or decides is measured in the loop, and the wait is a part of it")
            else:
                text = say("what the clock is read for, a time that is written or decides, may be another")
            yield self._reason("time", CLOCKS, text, deed, known=False)


def _why(deed: Deed) -> str:
    return deed.effect.target.why if isinstance(deed.effect.target, Unknown) else say("a function")


def _text(node: ast.AST) -> str:
    return shown_text(node) if isinstance(node, (ast.expr, ast.stmt)) else ""


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
