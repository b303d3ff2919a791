"""The order of a trial of levers: one cheap round for each, all together, more rounds, other combinations.

In: a `LeverRequest` and its `LeverTrial`s, the most promising first. Out: a `LeverMeasurement` per lever, and that of
the best combination. Every process is fresh, in a working copy of its own; each lever is paired with originals that
ran beside it. Ctrl-C ends the trial and keeps what was measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tracelens.errors import Inconclusive, Refused
from tracelens.messages import say, say_count
from tracelens.verify.compare import lever_numbers, numbers, pooled_times, times
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.exchange import Mode
from tracelens.verify.lever_trial import (
    LEVER_POLICY,
    LeverMeasurement,
    LeverRequest,
    LeverTrial,
    all_together,
    check_budget,
    steps_for,
    together,
)
from tracelens.verify.policy import POLICY
from tracelens.verify.request import duration_text, pair_text
from tracelens.verify.supervisor import lever_results, processes, scratch_folder
from tracelens.verify.supervisor.lever_results import LeverUnderTrial
from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import ProcessRecord, TrialProcess

ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class LeverSessionResult:
    """Everything that was measured. `interrupted`: Ctrl-C ended it."""

    levers: tuple[LeverMeasurement, ...]
    combination: LeverMeasurement | None
    base_ns: int | None
    environment: dict[str, object]
    sources: tuple[str, ...]
    """The project's files that the original ran, relative to the project."""
    interrupted: bool
    seconds: float
    apart: tuple[str, ...] = ()
    """Ids of levers that gain, for which no time was left to try them beside the combination."""


def try_levers(
    request: LeverRequest, trials: Sequence[LeverTrial], on_result: Callable[[LeverSessionResult], object]
) -> LeverSessionResult:
    """Measure all levers; `on_result` gets what is known after each of them. Raises where the original itself cannot be
    run to a conclusion."""
    check_budget(request, len(trials))
    project, cwd = request.project.resolve(), request.cwd.resolve()
    with scratch_folder.opened(request.scratch_parent) as scratch:
        copy = WorkingCopy(scratch.folder, project, cwd)
        session = LeverSession(request, trials, copy, on_result, scratch.watch_group)
        session.run()
    return session.result()


class LeverSession:
    """The runs of one trial of levers, in order, within its budget."""

    def __init__(
        self,
        request: LeverRequest,
        trials: Sequence[LeverTrial],
        copy: WorkingCopy,
        on_result: Callable[[LeverSessionResult], object] = lambda _: None,
        on_group: Callable[[int], None] = processes.ignore_group,
    ) -> None:
        self.request = request
        self.copy = copy
        self.on_group = on_group
        self.on_result = on_result
        self.levers = [LeverUnderTrial(trial) for trial in trials]
        self.combination: LeverUnderTrial | None = None
        self.tried_together: list[LeverUnderTrial] = []
        self.began = time.monotonic()
        self.steps = POLICY.default_steps if request.step_ns is None else steps_for(request.step_ns)
        self.originals: list[ProcessRecord] = []
        self.seeded: list[ProcessRecord] = []
        self.noise: Difference | None = None
        self.deterministic = False
        self.base: ProcessRecord | None = None
        """The timed original that ran last."""
        self.longest_s: float | None = None
        self.interrupted = False
        self.apart: tuple[str, ...] = ()

    def run(self) -> None:
        """All stages; Ctrl-C ends them, not what is known."""
        try:
            self.run_originals()
            self.first_rounds()
            self.compare_seeds()
            self.combine_at_once()
            self.more_rounds()
            self.combine()
        except KeyboardInterrupt:
            self.interrupted = True

    # ---------------------------------------------------------------------------------------------- the original

    def run_originals(self) -> None:
        """Two originals: their pace, and whether two runs agree at all."""
        self._tell(say("original, first run"))
        process = replace(
            self._process(ORIGINAL, "numbers", self.steps),
            deadline_s=self.request.budget_s / 5,
            timeout_s=max(self.request.budget_s, 60.0),
        )
        first = self._start(process, None)
        self.longest_s = max(POLICY.shortest_wait_seconds, POLICY.longest_wait * first.seconds)
        if any(rank["stopped"] != "script ended" for rank in first.ranks):
            self.steps = min(first.steps, self._affordable_steps(first))
            if self.steps < first.steps:
                first = self._numbers_of_original()
        self.originals = [first, self._numbers_of_original()]
        self.noise = numbers.tensor_difference(*self.originals)
        if self.noise is not None:
            self._tell(say("two runs of the original differ; comparing once more under deterministic algorithms"))
            self.deterministic = True
            self.originals = [self._numbers_of_original(), self._numbers_of_original()]
            self.noise = numbers.tensor_difference(*self.originals)

    def _affordable_steps(self, first: ProcessRecord) -> int:
        """Steps with which the first rounds of all levers fit into their part of the budget; never below the least."""
        processes_to_come = 2 + (2 + 1 / LEVER_POLICY.bases_every) * len(self.levers)
        each_s = LEVER_POLICY.first_share * self.left_s / processes_to_come
        steps = int((each_s - first.startup_seconds) / max(first.seconds_per_step, 1e-6))
        return max(LEVER_POLICY.least_steps, steps - steps % POLICY.block_steps)

    def _numbers_of_original(self) -> ProcessRecord:
        self._tell(say("original, numbers"))
        return self._start(self._process(ORIGINAL, "numbers", self.steps, deterministic=self.deterministic), None)

    # -------------------------------------------------------------------------------------------------- rounds

    def first_rounds(self) -> None:
        """Each lever once for its numbers, and timed once beside an original.

        What compiles comes last: one such process takes as long as several others, and would take their time.
        """
        for number, lever in enumerate(sorted(self.levers, key=lambda one: _compiles(one.trial))):
            if self._spent_share > LEVER_POLICY.first_share and number:
                break
            if number % LEVER_POLICY.bases_every == 0:
                self._time_base()
            self._first_round(lever)
            self._tell_results()

    def _first_round(self, lever: LeverUnderTrial) -> None:
        self._tell(say("{trial}, numbers", trial=lever.trial.id))
        process = self._process(lever.trial.id, "numbers", self.steps, deterministic=self.deterministic)
        lever.record = self._attempt(lever, process)
        if lever.record is None:
            return
        if self.noise is None and not lever.trial.another_training:
            lever.difference = lever_numbers.difference(self.originals[0], lever.record)
        self._time(lever)

    def more_rounds(self) -> None:
        """Rounds of what promises something, every second one in reverse order; where not all fit, of the fastest."""
        for number in range(LEVER_POLICY.rounds - 1):
            several = [*self.levers, *self.tried_together]
            wanted = sorted(filter(self._wants_another, several), key=lambda lever: -lever.middle)
            while wanted and not self._affords(1, wanted):
                wanted.pop()  # what gains least
            if not wanted:
                return
            self._tell(
                say_count(
                    "round {number} of {count} lever",
                    "round {number} of {count} levers",
                    len(wanted),
                    number=number + 2,
                )
            )
            for position, lever in enumerate(wanted if number % 2 else reversed(wanted)):
                if position % LEVER_POLICY.bases_every == 0:
                    self._time_base()
                self._time(lever)
            self._tell_results()

    def _wants_another(self, lever: LeverUnderTrial) -> bool:
        """Whether one more pair can change what is said of it."""
        middle = pooled_times.center(lever.pairs)
        if not lever.alive or middle is None or middle < LEVER_POLICY.hopeless:
            return False
        if len(lever.pairs) < 2:
            return True
        if len(lever.pairs) < LEVER_POLICY.least_rounds:
            return middle > LEVER_POLICY.promising
        return middle > LEVER_POLICY.promising and not _decided(lever)

    def _time_base(self) -> None:
        self._tell(say("original, timed"))
        self.base = self._start(self._process(ORIGINAL, "timed", self.steps), None)

    def _time(self, lever: LeverUnderTrial) -> None:
        """One more timed run, paired with the original that ran last."""
        assert self.base is not None
        self._tell(say("{trial}, timed", trial=lever.trial.id))
        record = self._attempt(lever, self._process(lever.trial.id, "timed", self.steps))
        lever.seconds = record.seconds if record is not None else None
        base = self.base.timed_steps()
        timed = record.timed_steps() if record is not None else None
        if base is not None and timed is not None:
            lever.pairs.append((base.step_ns, timed.step_ns / lever.trial.factor))
            self.request.found(f"{lever.trial.id}  {pair_text(*lever.pairs[-1])}")

    # ------------------------------------------------------------------------------------------------- numbers

    def compare_seeds(self) -> None:
        """The original under other seeds, where a lever that is worth it changes numbers."""
        changed = [lever for lever in self.levers if self._needs_seeds(lever)]
        if not changed or not self._affords(POLICY.band_seeds - 1):
            return
        while len(self.seeded) < POLICY.band_seeds - 1:
            shift = len(self.seeded) + 1
            self._tell(say("original, seed {seed}", seed=self.request.seed + shift))
            process = self._process(ORIGINAL, "numbers", self.steps, deterministic=self.deterministic)
            self.seeded.append(self._start(replace(process, seed_shift=shift), None))
        for lever in changed:
            self._judge_by_seeds(lever)

    def _needs_seeds(self, lever: LeverUnderTrial) -> bool:
        differs = lever.difference is not None or self.noise is not None
        return lever.standing == "measured" and differs and not lever.trial.another_training

    def _judge_by_seeds(self, lever: LeverUnderTrial) -> None:
        if self.seeded and lever.record is not None and self._needs_seeds(lever):
            originals = (self.originals[0], *self.seeded)
            lever.band = lever_numbers.tolerance(originals, lever.record, POLICY.block_steps)

    # --------------------------------------------------------------------------------------------- combination

    def combine_at_once(self) -> None:
        """All levers that are not slower alone, as one trial, before more rounds of each: no other number is worth as
        much, not even from one pair, and what the levers of a loop hide from each other cannot mislead it. But a single
        pair gets its range from the second pairs of the others: where these do not fit any more, they come first."""
        wanted = self._fastest_first(LEVER_POLICY.harmless)
        merged = all_together([lever.trial for lever in wanted], self.request.joined)
        if merged is not None and self._affords_together(*wanted, pairs=1, then=wanted):
            self._try_together(merged)

    def combine(self) -> None:
        """From what is fastest so far on, add what makes it faster still; each step is measured as such.

        A lever that gains nothing alone may gain beside another: what the first one removes may have hidden it.
        """
        self._choose()
        if self.combination is None:
            return
        order = self._fastest_first(LEVER_POLICY.hopeless)
        known = self.combination.trial.members or (self.combination.trial.id,)
        others = [lever for lever in order if lever.trial.id not in known]
        for position, lever in enumerate(others):
            merged = together(self.combination.trial, lever.trial, self.request.joined)
            if isinstance(merged, str) or self._tried(merged):
                continue
            if not self._affords_together(lever, self.combination):
                self.apart = tuple(one.trial.id for one in others[position:] if self.measurement(one).gains)
                break
            self._try_together(merged)

    def _fastest_first(self, least: float) -> list[LeverUnderTrial]:
        """The levers that ran and are at least so many times as fast as the original, or would not show it."""
        usable = [lever for lever in self.levers if lever.alive and lever.pairs]
        fastest = max((lever.middle for lever in usable), default=0.0)
        if fastest >= LEVER_POLICY.hiding:
            least = min(least, 1 / (2 - 1 / fastest))
        return sorted((one for one in usable if one.middle >= least), key=lambda lever: -lever.middle)

    def _choose(self) -> None:
        """What is fastest beyond doubt so far; several levers only where they are worth it beside fewer."""
        alone = (lever for lever in self._fastest_first(LEVER_POLICY.hopeless) if self.measurement(lever).gains)
        self.combination = next(alone, None)
        for attempt in self.tried_together:
            least = LEVER_POLICY.worth_adding * (self.combination.middle if self.combination is not None else 1.0)
            if attempt.alive and self.measurement(attempt).gains and attempt.middle >= least:
                self.combination = attempt

    def _tried(self, merged: LeverTrial) -> bool:
        return any(set(one.trial.members) == set(merged.members) for one in self.tried_together)

    def _affords_together(
        self, *levers: LeverUnderTrial, pairs: int = LEVER_POLICY.least_rounds, then: Sequence[LeverUnderTrial] = ()
    ) -> bool:
        """Whether the numbers and so many pairs of these levers together fit into the budget, and `then` one more round
        of others. Together they take about as long as the one whose process takes longest."""
        longest = max(levers, key=lambda lever: lever.seconds or 0.0)
        return self._affords(pairs + bool(then), [longest] * (1 + pairs) + list(then))

    def _try_together(self, merged: LeverTrial) -> None:
        attempt = LeverUnderTrial(merged)
        self.tried_together.append(attempt)
        single = max(one.middle for one in self.levers if one.trial.id in merged.members)
        standing = max(single, self.combination.middle if self.combination is not None else 1.0)
        self._time_base()
        self._first_round(attempt)
        self._judge_by_seeds(attempt)
        if attempt.middle < standing:
            return
        while attempt.alive and len(attempt.pairs) < LEVER_POLICY.least_rounds and self._affords(1, [attempt]):
            self._time_base()
            before = len(attempt.pairs)
            self._time(attempt)
            if len(attempt.pairs) == before:
                break
        self._choose()
        self._tell_results()

    # ------------------------------------------------------------------------------------------------- results

    def measurement(self, lever: LeverUnderTrial) -> LeverMeasurement:
        """What is known of one lever now."""
        everything = {one.trial.id: one.pairs for one in (*self.levers, *self.tried_together)}
        speedup = pooled_times.speedups(everything).get(lever.trial.id)
        return lever_results.measurement(lever, speedup, self.originals, self.noise)

    def result(self) -> LeverSessionResult:
        """All levers, in the order in which they were given."""
        first = self.originals[0] if self.originals else None
        timed = self.base.timed_steps() if self.base is not None else None
        return LeverSessionResult(
            levers=tuple(self.measurement(lever) for lever in self.levers),
            combination=None if self.combination is None else self.measurement(self.combination),
            base_ns=None if timed is None else round(timed.step_ns),
            environment={} if first is None else lever_results.environment(first),
            sources=() if first is None else lever_results.sources(first, self.request.project.resolve()),
            interrupted=self.interrupted,
            seconds=time.monotonic() - self.began,
            apart=self.apart,
        )

    @property
    def left_s(self) -> float:
        """What is left of the budget."""
        return self.request.budget_s - (time.monotonic() - self.began)

    @property
    def _spent_share(self) -> float:
        return 1 - self.left_s / self.request.budget_s

    def _affords(self, originals: int, levers: Sequence[LeverUnderTrial] = ()) -> bool:
        """Whether so many more runs of the original and one of each of these levers fit into the budget."""
        warm = [*self.originals[1:], *self.seeded, *filter(None, (self.base,))]  # the first one read torch from disk
        usual = max((record.seconds for record in warm), default=math.inf)
        return originals * usual + sum(lever.seconds or usual for lever in levers) <= self.left_s

    def _tell_results(self) -> None:
        self.on_result(self.result())

    # ----------------------------------------------------------------------------------------------- processes

    def _attempt(self, lever: LeverUnderTrial, process: TrialProcess) -> ProcessRecord | None:
        """Run with the lever; its failure is a result, the others go on."""
        process = replace(process, toggles=lever.trial.toggles)
        try:
            record = self._start(process, lever.trial)
        except (Inconclusive, Refused) as error:
            lever.standing, lever.reason = "failed", _brief(error.message)
            return None
        lever.standing, lever.reason = lever_results.standing(lever.trial, record)
        return record if lever.standing == "measured" else None

    def _process(self, name: str, mode: Mode, steps: int, *, deterministic: bool = False) -> TrialProcess:
        return TrialProcess(name, mode, steps, self.request.seed, deterministic=deterministic, timeout_s=self.longest_s)

    def _start(self, process: TrialProcess, trial: LeverTrial | None) -> ProcessRecord:
        patch = trial.patch if trial is not None and trial.patch is not None else self.request.original
        return processes.run(process, self.request.command, self.copy, patch, self.on_group)

    def _tell(self, text: str) -> None:
        self.request.progress(say("{text}  (at most {left} left)", text=text, left=duration_text(max(self.left_s, 1))))


def _brief(message: str) -> str:
    """What happened, and the last line of what the program said: its error."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


def _compiles(trial: LeverTrial) -> bool:
    return any(toggle.kind == "compile" for toggle in trial.toggles)


def _decided(lever: LeverUnderTrial) -> bool:
    return times.judge(times.ratio_of(lever.pairs), len(lever.pairs)) != "inconclusive"
