"""One file of a project, ready to be asked about its loops.

In: the project's root, the started script, a file and its text. Out: `FileEffects`. What can run with the file is
the started script, the file itself, and whatever imports it: subclasses, callbacks and wrappers are found there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

from tracelens.messages import say
from tracelens.patch.effects import syntax
from tracelens.patch.effects.analysis import Analysis, analyse, units_of
from tracelens.patch.effects.blocking_copies import blocking, is_handed_to_project
from tracelens.patch.effects.deeds import Deeds
from tracelens.patch.effects.file_drains import drains
from tracelens.patch.effects.file_holders import FileHolders, NamedHolders
from tracelens.patch.effects.file_text import FileText, stored_in_libraries
from tracelens.patch.effects.judged_by_file import FileJudge
from tracelens.patch.effects.kept import evaluated_in_place
from tracelens.patch.effects.memory import Limits, TooLarge, all_limits
from tracelens.patch.effects.movable import judge
from tracelens.patch.effects.names import module_of
from tracelens.patch.effects.objects import READS, UNKNOWN, WRITES, Callbacks, Effect, Module, Name
from tracelens.patch.effects.ordinary import hides, unusual
from tracelens.patch.effects.places import (
    Loop,
    Span,
    function_of,
    functions_around,
    functions_with_loops,
    loop_at,
    nodes_in,
)
from tracelens.patch.effects.project import Project, ProjectFile
from tracelens.patch.effects.question import Answer, Question
from tracelens.patch.effects.reached import Reached, filled_in_place
from tracelens.patch.effects.reasons import Reason, not_known
from tracelens.patch.effects.running import Running
from tracelens.patch.effects.scopes import Function as FunctionNode

_RELIED_ON = re.compile(r"torch\.(cuda|accelerator|Tensor|autograd|utils\.data)\.|torch\.(stack|Tensor)$")
"""What patches rely on: waits, events and streams, reads of tensors, loaders."""
_SETTINGS = re.compile(r"\.(backends|config|_[a-z]\w*)\b")
"""What torch itself wants to be assigned to, and its private parts, which old scripts mend."""
_HIDES = re.compile(
    r"\bdef __(get|set|torch_function|torch_dispatch)__|\baddFilter\b|\bsetLogRecordFactory\b|\bsys\.modules\b"
    r"|\bsys\.std(out|err) *=(?!=)|\bglobals\(\)|\bbuiltins\.\w+ *=(?!=)"
)
"""What runs code, or changes lines, where the text does not show it."""
MAX_FAILURES = 2
"""Analyses of a file that were given up: after these no other is begun, also for other texts of the file."""
MAX_STARTS = 4
"""Files that import it, whose text is read with what they import themselves: they hand it models and loaders."""
MAX_FOLLOWED = 60
"""Files that a file imports, directly or through others, whose text is read where the project is given up."""
MAX_IMPORTERS = 40
"""Files that import the file in question, each of which is looked at as if it were started."""


@dataclass(eq=False)
class _Attempts:
    """Which analyses of a file, with the rest of its project as it is, were too large. A patch asks about several texts
    of one file that differ in a few lines: what is too large for one of them is so for the others."""

    hopeless: set[tuple[Limits, frozenset[Path]]]
    """What is too large where these files run, whichever functions are asked about, and so where more run: known to all
    files of the project."""
    failed: set[tuple[Limits, str]] = field(default_factory=set)
    worked: set[tuple[Limits, str]] = field(default_factory=set)

    def is_hopeless(self, limits: Limits, files: Iterable[Path]) -> bool:
        return any(limits == tried and known.issubset(files) for tried, known in self.hopeless)

    def is_worth(self, limits: Limits, name: str, files: Iterable[Path]) -> bool:
        if (limits, name) in self.worked or self.is_hopeless(limits, files):
            return (limits, name) in self.worked
        known = [one for one in self.failed if one[0] == limits]
        return (limits, name) not in self.failed and len(known) < MAX_FAILURES


@dataclass(frozen=True, eq=False)
class FileEffects:
    """A file with its project; what is known of it is worked out once for all its loops."""

    project: Project
    path: Path
    started: Path | None
    _attempts: _Attempts = field(default_factory=lambda: _Attempts(set()))
    _analyses: dict[tuple[Limits, str], Analysis | None] = field(default_factory=dict)
    """By the functions that are asked about: all of the file, or one where it is too large for all of them."""
    _places: dict[ProjectFile, tuple[int, str] | None] = field(default_factory=dict)
    _answers: dict[Question, Answer] = field(default_factory=dict)
    """A plan is judged when it is made and when it is written."""

    def answer(self, question: Question) -> Answer:
        """Whether the statements may run later. Raises `ValueError` where no loop starts at the question's line."""
        if question not in self._answers:
            self._answers[question] = self._answer(question)
        return self._answers[question]

    def _answer(self, question: Question) -> Answer:
        file = self.project.file(question.path)
        if file is None or file.tree is None:
            return _unknown(say("Python's parser cannot read the file"), question)
        loop = loop_at(file.tree, question.line, question.column)
        if loop is None:
            raise ValueError(f"no loop starts at {question.path}:{question.line}")
        analysis = self._analysis(file.tree, loop)
        if analysis is None:
            found = (*self._seen_in_file(file, loop, question), *self._hiding_in(file))
            seen = tuple(sorted(found, key=lambda one: one.order))
            answer = _unknown(say("the project is too large to be followed"), question)
            return replace(answer, tier="refused", reasons=seen) if seen else answer
        hidden = tuple(not_known(text, file.shown, question.line) for text in self._hidden)
        if analysis.memory.limits.coarse:
            many = say("the project is so large that many of its objects are not told apart")
            hidden = (
                *hidden,
                not_known(many, file.shown, question.line),
                *self._seen_in_file(file, loop, question, analysis),
            )
        answer = judge(analysis, question, self.started or self.path)
        answer = _with(_supposed(answer) if analysis.memory.limits.coarse else answer, hidden)
        unusual = () if answer.reasons else self._unusual(analysis)
        if unusual and answer.seen_after_exceptions is None and analysis.runs_beside:
            answer = replace(answer, seen_after_exceptions="results")  # a thread may show what a queue leads to
        return _with(answer, unusual)

    def place(self, text: str, place: Span) -> Span:
        """Where in the text that is asked about here that is which stands at a place of another text with the same
        effects."""
        own = self.project.changed.get(self.path, text)
        return place if own == text else blocking(text).place_in(blocking(own), place)

    @property
    def holds_for_all_copies(self) -> bool:
        """Whether all this is known to be the same where other copies of the file block."""
        found = [one for one in self._analyses.values() if one is not None]
        own = ((one, module) for one in found for module in one.memory.objects(Module) if module.file.path == self.path)
        return bool(self._analyses) and not any(is_handed_to_project(one.memory, module) for one, module in own)

    def holders(self, line: int) -> NamedHolders | None:
        """What of the names of the loop that starts there the text of the file tells, where no more is known."""
        tree = self._tree
        loop = loop_at(tree, line) if tree is not None else None
        if loop is None or tree is None:
            return None
        return NamedHolders(self._holders.within(loop), function_of(tree, loop))

    def _seen_in_file(
        self, file: ProjectFile, loop: Loop, question: Question, analysis: Analysis | None = None
    ) -> Iterator[Reason]:
        """The obstacles that the file itself shows, where its project is too large to be followed, or to be told apart:
        what is called by its name alone is looked for among what the analysis calls then."""
        later = [node for span in question.later for node in nodes_in(loop, span)]
        kept = question.kept if question.kept is not None else evaluated_in_place(later)
        holders = self._holders.within(loop)
        files = ((self.project.file(path), span) for path, span in question.drained)
        places = ((one.tree, span) for one, span in files if one is not None and one.tree is not None)
        drained = drains(function_of(holders.text.tree, loop), holders.text.tree, places)
        units = units_of(analysis, file.tree, loop) if analysis is not None and file.tree is not None else ()
        running = Running(analysis.memory, units, loop) if analysis is not None else None
        yield from FileJudge(holders, loop, question.later, kept, drained, file.shown, running).reasons()

    def _hiding_in(self, file: ProjectFile) -> Iterator[Reason]:
        """What of the file hides what it does: nobody has followed what it meets."""
        found = _HIDES.search(file.text)
        if found is not None:
            line = file.text.count("\n", 0, found.start()) + 1
            text = say("what {place} hides is not known", place=f"`{found.group().strip()}`")
            yield replace(not_known(text, file.shown, line), certainty="known")

    @cached_property
    def _holders(self) -> FileHolders:
        assert self._tree is not None
        starts = [self.path, *([self.started] if self.started is not None else ()), *self._importers[:MAX_STARTS]]
        paths = [
            path for path in (*self.project.imported(self.path), *self.project.imported(*starts)) if path != self.path
        ]
        followed = ((self.project.tree(path), path) for path in list(dict.fromkeys(paths))[:MAX_FOLLOWED])
        others = [(tree, partial(self._is_own, path)) for tree, path in followed if tree is not None]
        return FileHolders(FileText(self._tree, partial(self._is_own, self.path), others))

    @property
    def _tree(self) -> ast.Module | None:
        return self.project.tree(self.path)

    def changes_nothing(self, span: Span) -> bool:
        """Whether what stands there leaves everything as it was, for certain: tensors, objects, variables of others."""
        tree = self._tree
        node = next(nodes_in(tree, span), None) if tree is not None else None
        if tree is None or node is None or any(map(filled_in_place, syntax.walk(node))):
            return False
        analysis = self._analysis(tree, node)
        if analysis is None:
            return False
        asked = (Deeds(analysis.memory, unit, ()) for unit in units_of(analysis, tree, node))
        deeds = (deed for one in asked for deed in one.chosen_deeds(span.holds))
        return all(deed.effect.kind not in (WRITES, UNKNOWN) for deed in deeds)

    def reached(self, line: int) -> Reached | None:
        """What is known behind the names of the loop that starts there; None where nothing is."""
        tree = self._tree
        loop = loop_at(tree, line) if tree is not None else None
        if loop is None or tree is None:
            return None
        analysis = self._analysis(tree, loop)
        return Reached(analysis, units_of(analysis, tree, loop), loop) if analysis is not None else None

    @cached_property
    def replaced(self) -> str:
        """Which function of torch that patches rely on the project replaces, as a clause; empty where it does not."""
        known = next(filter(None, map(self._together, all_limits())), None)
        memory = known.memory if known is not None else None
        name = self._replaced_by_text() if memory is None else ""
        if name:
            return say("{shown} replaces `{name}`", shown=self.path.name, name=name)
        for unit, summary in memory.summaries.items() if memory is not None else ():
            stored = (effect for _, effect in summary.effects if effect.kind == WRITES)
            for target, name in ((effect.target, effect.field) for effect in stored):
                full = f"{target.full}.{name}" if isinstance(target, Name) else ""
                if _RELIED_ON.match(full) and not _SETTINGS.search(full) and not isinstance(unit, Callbacks):
                    return say("{shown} replaces `{name}`", shown=module_of(unit).file.shown, name=full)
        return ""

    def _replaced_by_text(self) -> str:
        """The same where nothing was followed."""
        found = (name for tree in self._holders.text.modules for name in stored_in_libraries(tree))
        return next((one for one in found if _RELIED_ON.match(one) and not _SETTINGS.search(one)), "")

    def _analysis(self, tree: ast.AST, node: ast.AST) -> Analysis | None:
        """The first that can be made: of all loops, of this one alone, and the same with fewer objects told apart."""
        for limits in all_limits():
            found = self._together(limits) or self._analysed_alone(limits, tree, node)
            if found is not None:
                return found
        return None

    def _together(self, limits: Limits) -> Analysis | None:
        """One analysis for every loop of the file: a function that nobody calls may be called beside any other."""
        return None if self._tree is None else self._kept("", functions_with_loops(self._tree), limits)

    def _analysed_alone(self, limits: Limits, tree: ast.AST, loop: ast.AST) -> Analysis | None:
        around = functions_around(tree, loop)
        names = (getattr(one, "name", "") for one in around)
        return self._kept(f"<module>.{'.'.join(names)}", around, limits)

    def _kept(self, name: str, functions: Sequence[FunctionNode], limits: Limits) -> Analysis | None:
        if (limits, name) not in self._analyses:
            self._analyses[limits, name] = self._analysed(name, functions, limits)
        return self._analyses[limits, name]

    def _analysed(self, name: str, functions: Sequence[FunctionNode], limits: Limits) -> Analysis | None:
        if not self._attempts.is_worth(limits, name, self._started):
            return None
        try:
            found = analyse(self.project, self._started, functions, limits)
        except (TooLarge, RecursionError) as error:
            if isinstance(error, TooLarge) and error.by_itself:
                self._attempts.hopeless.add((limits, frozenset(self._started)))
            self._attempts.failed.add((limits, name))
            return None
        self._attempts.worked.add((limits, name))
        return found

    def _unusual(self, analysis: Analysis) -> tuple[Reason, ...]:
        """What the files of the project that can run are written in, where the proof does not follow that."""
        files = dict.fromkeys(module.file for module in analysis.memory.objects(Module))
        by_other_names = _hiding(analysis)
        found = ((file.shown, self._unusual_places(file) or by_other_names.get(file)) for file in files)
        return tuple(
            not_known(say("what {place} hides is not known", place=place[1]), shown, place[0])
            for shown, place in found
            if place is not None
        )

    def _unusual_places(self, file: ProjectFile) -> tuple[int, str] | None:
        if file not in self._places:
            self._places[file] = unusual(file.tree, partial(self._is_own, file.path)) if file.tree is not None else None
        return self._places[file]

    def _is_own(self, importer: Path, full: str) -> bool:
        """Whether an import means a file of the project, or something in one."""
        names = (full, full.rpartition(".")[0])
        return any(name and self.project.module(name, 0, importer) is not None for name in names)

    @cached_property
    def _started(self) -> tuple[Path, ...]:
        """What runs anyway: the script, the file, and what imports it."""
        started = (self.started,) if self.started is not None else ()
        return (*started, self.path, *self._importers[:MAX_IMPORTERS])

    @cached_property
    def _importers(self) -> tuple[Path, ...]:
        return self.project.importers(self.path)

    @cached_property
    def _hidden(self) -> tuple[str, ...]:
        """What of the project cannot be looked at."""
        out = [say("the project has more files than are read")] if not self.project.complete else []
        out += [say("more files import this one than are read")] if len(self._importers) > MAX_IMPORTERS else []
        for path in self._importers[:MAX_IMPORTERS]:
            if self.project.tree(path) is None:
                out.append(say("{name} imports this file, and Python's parser cannot read it", name=path.name))
        return tuple(out)


def file_effects(root: Path, started: Path | None, path: Path, text: str) -> FileEffects:
    """The file `path` with that text, whatever the disk has of it.

    They are those of an earlier text where only copies block that did not before: `FileEffects.place` tells where what
    stands in the one is in the other.
    """
    states = tuple(map(_state, Project(root).paths))
    known = _by_text(root, started, path, blocking(text).text, states)
    if text not in known:
        earlier = next((one for one in known.values() if one.holds_for_all_copies), None)
        new = FileEffects(Project(root, {path: text}), path, started, _attempts(started, path, states))
        known[text] = earlier or new
    return known[text]


@lru_cache(maxsize=4)
def _by_text(
    root: Path, started: Path | None, path: Path, text: str, states: tuple[tuple[str, int, int], ...]
) -> dict[str, FileEffects]:
    """The effects of the texts that are this one but for what blocks."""
    del root, started, path, text, states  # the key alone
    return {}


@lru_cache(maxsize=64)
def _attempts(started: Path | None, path: Path, states: tuple[tuple[str, int, int], ...]) -> _Attempts:
    del started, path  # of the key alone
    return _Attempts(_hopeless(states))


@lru_cache(maxsize=4)
def _hopeless(states: tuple[tuple[str, int, int], ...]) -> set[tuple[Limits, frozenset[Path]]]:
    del states  # the key alone
    return set()


def _state(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), found.st_mtime_ns, found.st_size


def _hiding(analysis: Analysis) -> dict[ProjectFile, tuple[int, str]]:
    """By file, a place that looks up what hides something under another name: of a module that another file imports."""
    out: dict[ProjectFile, tuple[int, str]] = {}
    for unit, summary in analysis.memory.summaries.items():
        if isinstance(unit, Callbacks):
            continue
        for node, effect in summary.effects:
            if isinstance(node, ast.Attribute) and _is_hidden(effect, node.attr):
                out.setdefault(module_of(unit).file, (node.lineno, f"`{ast.unparse(node)}`"))
    return out


def _is_hidden(effect: Effect, name: str) -> bool:
    """Whether an effect is that of looking up what hides something, by its full name."""
    owner = effect.target
    if effect.kind != READS or effect.field != name or not isinstance(owner, Name) or owner.receiver is not None:
        return False
    return hides(f"{owner.full}.{name}")


def _unknown(text: str, question: Question) -> Answer:
    reason = not_known(text, question.path.name, question.line)
    return Answer("checked", (reason,), seen_after_exceptions="results")


def _supposed(answer: Answer) -> Answer:
    """The same where few objects are told apart: what may be met is no obstacle for that, a block around it is."""
    reasons = tuple(
        one if one.kind in ("leaves", "block") else replace(one, certainty="suspected") for one in answer.reasons
    )
    return _with(replace(answer, tier="checked" if reasons else answer.tier, reasons=()), reasons)


def _with(answer: Answer, more: tuple[Reason, ...]) -> Answer:
    """The answer with further things that are not known, or that the file shows."""
    if not more:
        return answer
    known = any(one.known for one in (*answer.reasons, *more))
    return replace(answer, tier="refused" if known else "checked", reasons=(*answer.reasons, *more))
