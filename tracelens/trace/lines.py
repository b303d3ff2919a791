"""From the line clock's log to time per line: for each step, who was on top of the stack from when to when.

In: a `LineLog`. Out: `LineTimes`, intervals that fill each step without a hole, each with the user's lines under way at
that time (outermost first). Pure and without numpy, so that it can be checked on paper.

The rules, each for something that a log does not say by itself:

1. A function's time before its first line belongs to that line, not to its `def`.
2. A line of a function that is not on top means that events are missing: what lies above is over.
3. A hot line is logged `cap` times. The time afterwards is shared among the lines that may have run unseen, as they
   shared it while they were seen.
4. Logging costs time, and hot lines most of it: `weight_ns` is an interval's length without that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tracelens.model import LineLog, LoggedStep

Line = tuple[int, int]
"""(position in `LineLog.codes`, line number)."""
Path = tuple[Line, ...]

LINE, ENTER, LEAVE, NOTE = range(4)
_SILENCED = 0
FEWEST_EVENTS = 40
"""Fewer say nothing about what logging one costs; and then it costs next to nothing together."""
EVENT_COST_QUANTILE = 0.05
"""A step runs statements that do almost nothing (`pass`, a name): their intervals are the cost of an event."""


@dataclass(frozen=True, slots=True)
class LineInterval:
    """[start, end) on the Unix clock, with the lines under way; `weight_ns` is its length without the clock's cost."""

    start_ns: int
    end_ns: int
    path: Path
    weight_ns: int

    @property
    def line(self) -> Line | None:
        """The innermost line of the user's; None while no function of the user's was under way."""
        return self.path[-1] if self.path else None


@dataclass(frozen=True, slots=True)
class LineStep:
    """One attributed step: intervals in order, without a hole from its start to its end."""

    number: int
    start_ns: int
    end_ns: int
    intervals: tuple[LineInterval, ...]

    def __post_init__(self) -> None:
        edges = [self.start_ns, *(interval.end_ns for interval in self.intervals)]
        starts = [*(interval.start_ns for interval in self.intervals), self.end_ns]
        if edges != starts:
            raise ValueError(f"the lines of step {self.number} do not fill it")


def fold(log: LineLog) -> tuple[LineStep, ...]:
    """The steps of a log, each read by itself."""
    return tuple(
        LineStep(step.number, step.start_unix_ns, step.end_unix_ns, tuple(_intervals(log, step, until)))
        for step, until in zip(log.steps, [*(step.first for step in log.steps[1:]), len(log.events)], strict=True)
    )


def time_per_line(step: LineStep) -> Mapping[Line | None, int]:
    """How long each line was the innermost one, without the clock's own cost."""
    total: Counter[Line | None] = Counter()
    for interval in step.intervals:
        total[interval.line] += interval.weight_ns
    return total


# ------------------------------------------------------------------------------------------------- what was seen


@dataclass
class _Span:
    """Between two events. `silenced`: the function on top reports nothing meanwhile; `capped`: lines that were seen
    `cap` times by then."""

    start: int
    end: int
    path: Path
    unlogged: int = 0
    silenced: bool = False
    capped: frozenset[Line] = frozenset()
    over: frozenset[int] = frozenset()
    """Functions that were entered `cap` times by then: what they do is seen no more."""

    @property
    def line(self) -> Line | None:
        return self.path[-1] if self.path else None


def _intervals(log: LineLog, step: LoggedStep, until: int) -> Iterator[LineInterval]:
    spans = _Reader(log, step).read(until)
    cost = _event_cost([span.end - span.start for span in spans])
    share = _Shares(spans, log.cap)
    for span in spans:
        weight = max(0, span.end - span.start - cost - span.unlogged * log.call_cost_ns)
        parts = share.parts(span, weight)
        if parts is None:
            yield LineInterval(span.start, span.end, span.path, weight)
        else:
            yield from _cut(span, parts)


def _cut(span: _Span, parts: Sequence[tuple[Path, int]]) -> Iterator[LineInterval]:
    """The span in pieces whose lengths are as the parts' weights; their order says nothing."""
    total, given, start = sum(weight for _, weight in parts), 0, span.start
    for path, weight in parts:
        given += weight
        end = span.start + (span.end - span.start) * given // total
        yield LineInterval(start, end, path, weight)
        start = end


def _event_cost(lengths: Sequence[int]) -> int:
    filled = sorted(length for length in lengths if length > 0)
    return filled[int(EVENT_COST_QUANTILE * len(filled))] if len(filled) >= FEWEST_EVENTS else 0


class _Reader:
    """One step's events as spans: keeps the stack of the user's functions."""

    def __init__(self, log: LineLog, step: LoggedStep) -> None:
        self._log = log
        self._step = step
        self._stack: list[Line | None] = []
        """None: entered, and no line seen yet."""
        self._codes: list[int] = []
        self._last: dict[int, int] = {}
        self._seen: Counter[Line] = Counter()
        self._capped: frozenset[Line] = frozenset()
        self._entered: Counter[int] = Counter()
        self._over: frozenset[int] = frozenset()
        self._spans: list[_Span] = []
        self._waiting: list[int] = []
        """Spans whose innermost function has not reached a line yet."""

    def read(self, until: int) -> list[_Span]:
        log, step = self._log, self._step
        at, silenced = step.start_unix_ns, False
        for position in range(step.first, until):
            now, place = log.times_unix_ns[position], log.places[log.events[position]]
            self._close(at, now, silenced)
            at, silenced = max(at, now), False
            if place.kind == NOTE:
                silenced = place.code == _SILENCED
                if not silenced and self._spans:
                    self._spans[-1].unlogged += place.line
            else:
                self._take(place.code, place.line, place.kind, counted=now > step.start_unix_ns)
        self._close(at, step.end_unix_ns, silenced)
        return self._spans

    def _close(self, start: int, end: int, silenced: bool) -> None:
        if end <= start:
            return
        if self._stack and self._stack[-1] is None:
            self._waiting.append(len(self._spans))
        known = tuple(line for line in self._stack if line is not None)
        self._spans.append(_Span(start, end, known, silenced=silenced, capped=self._capped, over=self._over))

    def _take(self, code: int, line: int, kind: int, *, counted: bool) -> None:
        if kind == ENTER:
            self._settle()
            self._codes.append(code)
            self._stack.append(None)
            self._entered[code] += 1
            if self._entered[code] == self._log.cap:
                self._over |= {code}
        elif kind == LEAVE:
            self._pop_to(code)
            if self._codes:
                self._settle()
                self._drop()
        else:
            self._pop_to(code)
            if not self._codes:  # its entering was not logged any more
                self._codes.append(code)
                self._stack.append(None)
            self._set(code, line)
            self._count((code, line), counted)

    def _pop_to(self, code: int) -> None:
        """Remove the frames above this function's, so that its frame is on top.

        Where it has no frame, its call was not logged: a frame is added on top of those that run.
        """
        if code in self._codes:
            while self._codes[-1] != code:
                self._settle()
                self._drop()
        elif self._codes:
            self._codes.append(code)
            self._stack.append(None)

    def _drop(self) -> None:
        code, line = self._codes.pop(), self._stack.pop()
        if line is not None:
            self._last[code] = line[1]

    def _set(self, code: int, line: int) -> None:
        self._stack[-1] = (code, line)
        self._give((code, line))
        self._last[code] = line

    def _settle(self) -> None:
        """The function on top calls or ends without having shown a line: the last one it was seen at, or its `def`."""
        if self._stack and self._stack[-1] is None:
            code = self._codes[-1]
            first = self._log.codes[code].line or 0
            self._stack[-1] = (code, self._last.get(code, first))
            self._give(self._stack[-1])

    def _give(self, line: Line | None) -> None:
        """Spans since the function was entered belong to its first line."""
        if line is None:
            return
        for position in self._waiting:
            self._spans[position].path = (*self._spans[position].path, line)
        self._waiting.clear()

    def _count(self, line: Line, counted: bool) -> None:
        self._seen[line] += counted
        if self._seen[line] == self._log.cap:
            self._capped |= {line}


# ---------------------------------------------------------------------------------------------- what was not seen


@dataclass
class _Shares:
    """How a span is shared among lines that may have run unseen in it. Asked in the order of the spans."""

    spans: Sequence[_Span]
    cap: int
    _next: dict[Line, set[Line]] = field(default_factory=lambda: defaultdict(set))
    _paths: dict[Line, Path] = field(default_factory=dict)
    _total: Counter[Line] = field(default_factory=Counter)
    _visits: Counter[Line] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        lines = [span.line for span in self.spans]
        for line, following in zip(lines, lines[1:]):  # noqa: B905, RUF007
            if line is not None and following is not None:
                self._next[line].add(following)
        self._often = {line for line, count in Counter(lines).items() if line is not None and 2 * count >= self.cap}

    def parts(self, span: _Span, weight: int) -> list[tuple[Path, int]] | None:
        """(path, weight) of each line that ran, the span's own first; None where it was alone."""
        line = span.line
        if line is None:
            return None
        self._paths[line] = span.path
        others = self._unseen(span, line) & self._paths.keys() if weight else set()
        if not others:
            self._add(line, weight)
            return None
        own = self._own(span, line, weight, others)
        shares = {other: self._total[other] for other in sorted(others)}
        parts = [(span.path, own)]
        parts += [(_below(span.path, self._paths[other]), part) for other, part in _proportional(weight - own, shares)]
        self._add(line, own)
        for path, part in parts[1:]:
            self._total[path[-1]] += part
        return [part for part in parts if part[1]]

    def _own(self, span: _Span, line: Line, weight: int, others: set[Line]) -> int:
        """What the line itself took: its part of the loop if it is one of the loop's, else what it takes at a time."""
        together = sum(self._total[other] for other in others)
        if not together:
            return weight
        if line in span.capped or (span.silenced and self._in_one_loop(line, others, others)):
            return weight * self._total[line] // (self._total[line] + together)
        return min(weight, self._total[line] // max(1, self._visits[line])) if self._visits[line] else weight

    def _unseen(self, span: _Span, line: Line) -> set[Line]:
        if span.silenced:
            # The function on top has not ended: what runs is its own, or what it calls and is logged no more.
            among = {other for other in self._often if other[0] == line[0] or other[0] in span.over}
            ahead = self._reach(line, among) - {line}
            loop = {other for other in ahead if self._in_one_loop(line, {other}, among)}
            return loop or ahead
        if not span.capped:
            return set()
        return self._reach(line, span.capped) - {line}

    def _in_one_loop(self, line: Line, others: set[Line], among: set[Line]) -> bool:
        return any(line in self._reach(other, among | {line}) for other in others)

    def _reach(self, line: Line, among: set[Line] | frozenset[Line]) -> set[Line]:
        """Lines that were seen to follow, through lines of `among` alone."""
        reached: set[Line] = set()
        front = [line]
        while front:
            new = {other for other in self._next[front.pop()] if other in among and other not in reached}
            reached |= new
            front += new
        return reached

    def _add(self, line: Line, weight: int) -> None:
        self._total[line] += weight
        self._visits[line] += 1


def _below(path: Path, known: Path) -> Path:
    """A line that was seen with other callers (`known`), as it runs below `path`: two statements of a loop may call the
    same function, and what it takes belongs to the one that is under way."""
    code = path[-1][0]
    for position, (own, _) in enumerate(known):
        if own == code:
            return (*path[:-1], *known[position:])
    shared = 0
    while shared < min(len(path), len(known)) and path[shared][0] == known[shared][0]:
        shared += 1
    return (*path, *known[shared:])


def _proportional(amount: int, shares: Mapping[Line, int]) -> list[tuple[Line, int]]:
    """`amount` in whole parts as `shares`; they add up to it."""
    total, given, used = sum(shares.values()), 0, 0
    parts = []
    for line, share in shares.items():
        used += share
        upto = amount * used // total if total else 0
        parts.append((line, upto - given))
        given = upto
    return parts
