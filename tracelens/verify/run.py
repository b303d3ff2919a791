"""Original against patched, in fresh interleaved processes: the order of a verification.

In: a `Request`. Out: a `Verification` per change. The order: two originals and each patched version compare the
numbers; one recorded run of each version counts what waits; interleaved rounds compare the times while the budget
lasts. The user's files are compared before and after.

    verify(request) -> Verification                    one change
    verify_all(request, changes) -> tuple[...]         several changes that share the original's runs
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tracelens.errors import Inconclusive, Refused, TracelensError, UsageError
from tracelens.model import Patch, Verification
from tracelens.verify import arms, band, copy, numbers, recorded, result, scratch, times
from tracelens.verify import request as asked
from tracelens.verify.arms import Arm, ArmRecord
from tracelens.verify.numbers import Difference
from tracelens.verify.policy import POLICY
from tracelens.verify.request import Change, Pace, Plan, Request

ORIGINAL = "original"


def verify(request: Request) -> Verification:
    """Measure the request's one change. Raises when the original itself cannot be run to a conclusion."""
    if request.change is None:
        raise UsageError("nothing to verify: no change was given", hint="name a scheme, or two scripts")
    return verify_all(request, (request.change,))[0]


def verify_all(request: Request, changes: tuple[Change, ...]) -> tuple[Verification, ...]:
    """Measure several changes of one launch; each round of timed runs holds the original and all of them."""
    asked.check(request, changes)
    request.progress(asked.plan(request, len(changes)).text)
    project, cwd = request.project.resolve(), request.cwd.resolve()
    before = copy.snapshot((project, cwd))
    with scratch.opened(request.scratch_parent) as space:
        session = Session(request, changes, copy.Place(space.folder, project, cwd), space.runs)
        session.compare_numbers()
        session.record_windows()
        session.compare_times()
    touched = copy.changed(before, copy.snapshot((project, cwd)))
    return tuple(result.of(session.outcome_of(trial, touched)) for trial in session.trials)


@dataclass(slots=True)
class Trial:
    """One change while it is being measured."""

    change: Change
    record: ArmRecord | None = None
    difference: Difference | None = None
    failure: str | None = None
    broken: bool = False
    band: band.Band | None = None
    """Of an unsafe change whose numbers changed."""
    poisoned: bool = False
    """It was also run with freed GPU memory overwritten."""
    window: recorded.Window | None = None
    timed: list[tuple[ArmRecord, ArmRecord]] = field(default_factory=list)
    """Pairs (original, patched) of one round."""

    @property
    def alive(self) -> bool:
        if self.failure is not None:
            return False
        return self.band.verdict == "within seed noise" if self.band else self.difference is None

    @property
    def pairs(self) -> list[tuple[float, float]]:
        stretches = [(a.stretch(), b.stretch()) for a, b in self.timed]
        return [(a.step_ns, b.step_ns) for a, b in stretches if a is not None and b is not None]


def _side_streams(record: ArmRecord) -> bool:
    """Whether any rank took GPU memory on a stream of its own."""
    return any(rank.get("side_streams") for rank in record.ranks)


class Session:
    """The runs of one verification, in order, within its budget."""

    def __init__(
        self,
        request: Request,
        changes: tuple[Change, ...],
        place: copy.Place,
        runs: Callable[[int], None] = arms.unwatched,
    ) -> None:
        self.request = request
        self.runs = runs
        self.place = place
        self.trials = [Trial(change) for change in changes]
        self.began = time.monotonic()
        self.block = max(POLICY.block_steps, *(change.interval for change in changes))
        self.originals: list[ArmRecord] = []
        self.seeded: list[ArmRecord] = []
        """The original under other seeds, where a change alters numbers on purpose."""
        self.noise: Difference | None = None
        """Between two originals, under deterministic algorithms if they were needed."""
        self.plain_noise: Difference | None = None
        self.deterministic = False
        self.window: recorded.Window | None = None
        self.steps = request.steps
        self.plan: Plan | None = None
        self.mask_steps = 0
        self.refused: dict[str, None] = {}
        self.longest_s: float | None = None

    # ------------------------------------------------------------------------------------------------ numbers

    def compare_numbers(self) -> None:
        """Two originals give the noise floor, each change is held against the first."""
        self._probe()
        self._twin()
        if self.noise is not None:
            self.plain_noise, self.deterministic, self.originals = self.noise, True, []
            self._tell("two runs of the original differ; comparing once more under deterministic algorithms")
            self.originals.append(self._run(ORIGINAL, None, "numbers", self.steps))
            self._twin()
        for trial in self.trials:
            self._try(trial, "numbers", self.steps)
            if trial.record is not None and (self.noise is None or trial.change.unsafe):
                trial.difference = numbers.tensors(self.originals[0], trial.record)
            if trial.record is not None and trial.alive and _side_streams(trial.record):
                self._poison(trial)
        for trial in self.trials:
            if trial.record is not None and trial.difference is not None and trial.change.unsafe:
                trial.band = self._band_of(trial.record)

    def _probe(self) -> None:
        """The first original: how fast is it, how many steps fit?"""
        processes = 3 + len(self.trials) + POLICY.least_pairs * (1 + len(self.trials))
        arm = self._arm(ORIGINAL, "numbers", self.request.steps)
        arm = replace(arm, deadline_s=self.request.budget_s / processes, timeout_s=max(self.request.budget_s, 60.0))
        self._tell("original, first run")
        probe = self._keep(self._start(arm, self.request.original))
        self.originals.append(probe)
        self.longest_s = max(POLICY.shortest_wait_seconds, POLICY.longest_wait * probe.seconds)
        by_itself = all(rank["stopped"] == "script ended" for rank in probe.ranks)
        self.steps = self.request.steps if by_itself else probe.steps
        pace = Pace(probe.startup_seconds, probe.seconds_per_step)
        left = self.request.budget_s - probe.seconds
        self.plan = asked.fit(replace(self.request, steps=probe.steps), len(self.trials), pace, left)
        self._tell(self.plan.text)

    def _poison(self, trial: Trial) -> None:
        """Once more with freed GPU memory overwritten: a copy stream whose memory is reused too early shows itself."""
        original = self.originals[0]
        if self.noise is not None:
            return
        if _side_streams(original) and numbers.tensors(original, self._poisoned(ORIGINAL, self.request.original)):
            return  # the original has such a race of its own: nothing can be said of the change
        try:
            record = self._poisoned(trial.change.name, trial.change.patch)
        except arms.ArmFailed as error:
            trial.failure, trial.broken = f"with freed GPU memory overwritten, {error.message}", True
        else:
            found = numbers.tensors(original, record)
            trial.difference = found and replace(found, where=f"{found.where}, with freed GPU memory overwritten")
            trial.poisoned = True

    def _poisoned(self, version: str, patch: Patch | None) -> ArmRecord:
        self._tell(f"{version}, numbers with freed GPU memory overwritten")
        arm = replace(self._arm(version, "numbers", self.steps), poison=True, deterministic=self.deterministic)
        return self._keep(self._start(arm, patch))

    def _band_of(self, record: ArmRecord) -> band.Band:
        """Hold the losses of a change that alters numbers on purpose against those of the original's seeds."""
        while len(self.seeded) < POLICY.band_seeds - 1:
            shift = len(self.seeded) + 1
            self._tell(f"original, seed {self.request.seed + shift}")
            arm = replace(self._arm(ORIGINAL, "numbers", self.steps), seed_shift=shift)
            arm = replace(arm, deterministic=self.deterministic)
            self.seeded.append(self._keep(self._start(arm, self.request.original)))
        found = []
        for rank in range(len(record.ranks)):
            originals = [band.losses_of(one.ranks[rank]) for one in (self.originals[0], *self.seeded)]
            found.append(band.judge(originals, band.losses_of(record.ranks[rank]), record.steps, self.block))
        return next((one for one in found if one.verdict == "diverges"), found[0])

    def _twin(self) -> None:
        self.originals.append(self._run(ORIGINAL, None, "numbers", self.steps))
        self.noise = numbers.tensors(self.originals[-2], self.originals[-1])

    # ------------------------------------------------------------------------------------------------ windows

    def record_windows(self) -> None:
        """One run per version with a profiler window in it; its times are not used."""
        steps = min(self.steps, asked.window_steps(self.block))
        if self.left_s <= 0:
            return
        try:
            self.window = recorded.read_all(self._run(ORIGINAL, None, "window", steps).ranks)
        except TracelensError as error:  # the numbers and times do not depend on it
            self.window = recorded.Window(0, reason=error.message)
        for trial in self.trials:
            if trial.alive:
                try:
                    record = self._run(trial.change.name, trial.change.patch, "window", steps)
                    trial.window = recorded.read_all(record.ranks)
                except TracelensError as error:
                    trial.window = recorded.Window(0, reason=error.message)

    # -------------------------------------------------------------------------------------------------- times

    def compare_times(self) -> None:
        """Rounds of all versions, every second one in reverse order, until they decide or the budget is used up."""
        assert self.plan is not None
        steps = self.plan.steps
        rounds, last_s = 0, 0.0
        while rounds < POLICY.most_pairs and any(trial.alive for trial in self.trials):
            if (rounds and last_s > self.left_s) or self.left_s <= 0:
                break
            if rounds >= self.plan.rounds and self._decided():
                break
            begun = time.monotonic()
            self._round(rounds, steps)
            rounds += 1
            last_s = time.monotonic() - begun

    def _round(self, number: int, steps: int) -> None:
        self._tell(f"timed round {number + 1}")
        alive = [trial for trial in self.trials if trial.alive]
        order: list[Trial | None] = [None, *alive]
        original: ArmRecord | None = None
        done: list[tuple[Trial, ArmRecord]] = []
        for trial in order if number % 2 == 0 else reversed(order):
            if trial is None:
                original = self._run(ORIGINAL, None, "timed", steps, deterministic=False)
            elif (record := self._attempt(trial, "timed", steps)) is not None:
                done.append((trial, record))
        assert original is not None
        for trial, record in done:
            trial.timed.append((original, record))
            if self.plain_noise is None and trial.band is None and not numbers.states(original, record):
                trial.difference = numbers.tensors(original, record)

    def _decided(self) -> bool:
        """Every change has a verdict about its speed."""
        trials = [trial for trial in self.trials if trial.alive]
        return all(times.judge(times.ratio_of(t.pairs), len(t.pairs)) != "inconclusive" for t in trials)

    # --------------------------------------------------------------------------------------------------- arms

    @property
    def left_s(self) -> float:
        return self.request.budget_s - (time.monotonic() - self.began)

    def outcome_of(self, trial: Trial, touched: tuple[str, ...]) -> result.Measured:
        """Everything that is known of one change, printed output compared last: every original adds to its mask."""
        mask = None
        if trial.record is not None and trial.difference is None and self.noise is None:
            same = [run for run in self.originals if run.steps == trial.record.steps]
            trial.difference, mask = numbers.printed(same, trial.record)
        return result.Measured(
            request=self.request,
            change=trial.change,
            originals=tuple(self.originals),
            record=trial.record,
            noise=self.noise,
            plain_noise=self.plain_noise,
            difference=trial.difference,
            failure=trial.failure,
            broken=trial.broken,
            timed=tuple(trial.timed),
            pairs=tuple(trial.pairs),
            windows=(self.window, trial.window),
            mask=mask,
            refused=tuple(self.refused),
            touched=touched,
            seconds=time.monotonic() - self.began,
            band=trial.band,
            poisoned=trial.poisoned,
        )

    def _try(self, trial: Trial, mode: arms.Mode, steps: int) -> None:
        trial.record = self._attempt(trial, mode, steps)

    def _attempt(self, trial: Trial, mode: arms.Mode, steps: int) -> ArmRecord | None:
        """Run a patched version; its failure is a result, the others go on."""
        deterministic = self.deterministic and mode == "numbers"
        try:
            record = self._run(trial.change.name, trial.change.patch, mode, steps, deterministic=deterministic)
        except arms.ArmFailed as error:
            trial.failure, trial.broken = error.message, True
        except (Inconclusive, Refused) as error:
            trial.failure = error.message
        else:
            if any(rank["loaded"] for rank in record.ranks):
                return record
            trial.failure = "no process of this command loads a patched file, so nothing was tried"
        return None

    def _run(
        self, version: str, patch: Patch | None, mode: arms.Mode, steps: int, *, deterministic: bool | None = None
    ) -> ArmRecord:
        arm = self._arm(version, mode, steps)
        arm = replace(arm, deterministic=self.deterministic if deterministic is None else deterministic)
        if mode != "timed":
            self._tell(f"{version}, {'recorded run' if mode == 'window' else 'numbers'}")
        files = self.request.original if version == ORIGINAL else patch
        return self._keep(self._start(arm, files))

    def _start(self, arm: Arm, files: Patch | None) -> ArmRecord:
        return arms.run(arm, self.request.command, self.place, files, self.runs)

    def _arm(self, version: str, mode: arms.Mode, steps: int) -> Arm:
        return Arm(version, mode, steps, self.request.seed, self.block, timeout_s=self.longest_s)

    def _keep(self, record: ArmRecord) -> ArmRecord:
        self.refused.update(dict.fromkeys(record.refused))
        return record

    def _tell(self, text: str) -> None:
        self.request.progress(text)
