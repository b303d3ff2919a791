"""The order of a verification: original against patched versions, in fresh interleaved processes.

In: a `VerificationRequest`. Out: a `Verification` per version. First two originals and each patched version compare the
numbers, then one recorded run of each version counts what waits, then interleaved rounds compare the times while the
budget lasts. The user's files are compared before and after.

    verify(request) -> Verification                     one patched version
    verify_all(request, versions) -> tuple[...]         several versions that share the original's runs
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tracelens.errors import Inconclusive, Refused, TracelensError, UsageError
from tracelens.messages import say
from tracelens.model import Patch, Verification
from tracelens.run import sha256
from tracelens.verify import request as asked
from tracelens.verify.compare import numbers, seed_tolerance, times, window_statistics
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.compare.seed_tolerance import SeedTolerance
from tracelens.verify.compare.window_statistics import WindowStatistics
from tracelens.verify.exchange import Mode
from tracelens.verify.policy import POLICY
from tracelens.verify.request import Pace, PatchedVersion, VerificationPlan, VerificationRequest, pair_text
from tracelens.verify.result import VersionMeasurements, build_verification
from tracelens.verify.supervisor import processes, scratch_folder, working_copy
from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import ProcessRecord, TrialProcess

ORIGINAL = "original"


def verify(request: VerificationRequest) -> Verification:
    """Measure the request's one version. Raises where the original itself cannot be run to a conclusion."""
    if request.change is None:
        raise UsageError(say("nothing to verify: no change was given"), hint=say("name a scheme, or two scripts"))
    return verify_all(request, (request.change,))[0]


def verify_all(request: VerificationRequest, changes: tuple[PatchedVersion, ...]) -> tuple[Verification, ...]:
    """Measure several versions of one launch; each round of timed runs holds the original and all of them."""
    asked.check(request, changes)
    request.progress(asked.opening(request))
    project, cwd = request.project.resolve(), request.cwd.resolve()
    before = working_copy.snapshot((project, cwd))
    with scratch_folder.opened(request.scratch_parent) as scratch:
        copy = WorkingCopy(scratch.folder, project, cwd)
        session = Session(request, changes, copy, scratch.watch_group)
        session.compare_numbers()
        session.record_windows()
        session.compare_times()
    touched = working_copy.changed(before, working_copy.snapshot((project, cwd)))
    return tuple(build_verification(session.measurements(version, touched)) for version in session.versions)


@dataclass(slots=True)
class VersionUnderTest:
    """One patched version while it is measured."""

    change: PatchedVersion
    record: ProcessRecord | None = None
    """The run whose numbers were compared."""
    difference: Difference | None = None
    failure: str | None = None
    broken: bool = False
    tolerance: SeedTolerance | None = None
    """Of an unsafe version whose numbers changed."""
    freed_memory_filled: bool = False
    """It was also run with freed GPU memory overwritten."""
    window: WindowStatistics | None = None
    timed: list[tuple[ProcessRecord, ProcessRecord]] = field(default_factory=list)
    """Pairs (original, patched) of one round."""

    @property
    def alive(self) -> bool:
        """Whether it is worth further runs: it runs, and its numbers are equal or within the seeds' noise."""
        if self.failure is not None:
            return False
        return self.tolerance.verdict == "within seed noise" if self.tolerance else self.difference is None

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Step times (original, patched) in ns, of the rounds in which both were timed."""
        timed = [(original.timed_steps(), patched.timed_steps()) for original, patched in self.timed]
        return [(a.step_ns, b.step_ns) for a, b in timed if a is not None and b is not None]


def _uses_side_streams(record: ProcessRecord) -> bool:
    """Whether any rank took GPU memory on a stream other than the default one."""
    return any(rank.get("side_streams") for rank in record.ranks)


class Session:
    """The runs of one verification, in order, within its budget."""

    def __init__(
        self,
        request: VerificationRequest,
        changes: tuple[PatchedVersion, ...],
        copy: WorkingCopy,
        on_group: Callable[[int], None] = processes.ignore_group,
    ) -> None:
        self.request = request
        self.on_group = on_group
        self.copy = copy
        self.versions = [VersionUnderTest(change) for change in changes]
        self.began = time.monotonic()
        self.block = max(POLICY.block_steps, *(change.interval for change in changes))
        self.originals: list[ProcessRecord] = []
        self.seeded: list[ProcessRecord] = []
        """The original under other seeds, where a version alters numbers on purpose."""
        self.noise: Difference | None = None
        """Between two originals, under deterministic algorithms if they were needed."""
        self.plain_noise: Difference | None = None
        self.deterministic = False
        self.window: WindowStatistics | None = None
        self.steps = request.steps
        self.plan: VerificationPlan | None = None
        self.needed_s = 0.0
        """What a statement about speed takes altogether, as far as it is known."""
        self.refused: dict[str, None] = {}
        self.longest_s: float | None = None

    # ------------------------------------------------------------------------------------------------ numbers

    def compare_numbers(self) -> None:
        """Two originals give the noise floor, each version is compared with the first."""
        self._run_first_original()
        self._run_second_original()
        if self.noise is not None:
            self.plain_noise, self.deterministic, self.originals = self.noise, True, []
            self._tell(say("two runs of the original differ; comparing once more under deterministic algorithms"))
            self.originals.append(self._run(ORIGINAL, None, "numbers", self.steps))
            self._run_second_original()
        for version in self.versions:
            version.record = self._attempt(version, "numbers", self.steps)
            if version.record is not None and (self.noise is None or version.change.unsafe):
                version.difference = numbers.tensor_difference(self.originals[0], version.record)
            if version.record is not None and version.alive and _uses_side_streams(version.record):
                self._compare_with_freed_memory_filled(version)
        for version in self.versions:
            self._tell_numbers(version)
            if version.record is not None and version.difference is not None and version.change.unsafe:
                version.tolerance = self._seed_tolerance(version.record)

    def _run_first_original(self) -> None:
        """Its pace decides how many steps and rounds fit into the budget."""
        count = 3 + len(self.versions) + POLICY.least_pairs * (1 + len(self.versions))
        process = replace(
            self._process(ORIGINAL, "numbers", self.request.steps),
            deadline_s=self.request.budget_s / count,
            timeout_s=max(self.request.budget_s, 60.0),
        )
        self._tell(say("original, first run"))
        first = self._start(process, self.request.original)
        self.originals.append(first)
        self.longest_s = max(POLICY.shortest_wait_seconds, POLICY.longest_wait * first.seconds)
        by_itself = all(rank["stopped"] == "script ended" for rank in first.ranks)
        self.steps = self.request.steps if by_itself else first.steps
        pace = Pace(first.startup_seconds, first.seconds_per_step)
        left = self.request.budget_s - first.seconds
        self.plan = asked.fit(replace(self.request, steps=first.steps), len(self.versions), pace, left)
        self.needed_s = first.seconds + (self.plan.seconds or 0.0)
        self._tell(self.plan.text)

    def _run_second_original(self) -> None:
        self.originals.append(self._run(ORIGINAL, None, "numbers", self.steps))
        self.noise = numbers.tensor_difference(self.originals[-2], self.originals[-1])

    def _compare_with_freed_memory_filled(self, version: VersionUnderTest) -> None:
        """Run once more with freed GPU memory overwritten: memory that is reused too early changes the numbers."""
        original = self.originals[0]
        if self.noise is not None:
            return
        if _uses_side_streams(original):
            filled = self._run_with_freed_memory_filled(ORIGINAL, self.request.original)
            if numbers.tensor_difference(original, filled):
                return  # the original has such a race of its own: nothing can be said of the patched version
        try:
            record = self._run_with_freed_memory_filled(version.change.name, version.change.patch)
        except processes.ProcessFailed as error:
            version.failure, version.broken = (
                say("with freed GPU memory overwritten, {message}", message=error.message),
                True,
            )
        else:
            difference = numbers.tensor_difference(original, record)
            if difference is not None:
                where = say("{where}, with freed GPU memory overwritten", where=difference.where)
                version.difference = replace(difference, where=where)
            version.freed_memory_filled = True

    def _run_with_freed_memory_filled(self, name: str, patch: Patch | None) -> ProcessRecord:
        self._tell(say("{name}, numbers with freed GPU memory overwritten", name=name))
        process = self._process(name, "numbers", self.steps)
        return self._start(replace(process, freed_memory_fill=True, deterministic=self.deterministic), patch)

    def _seed_tolerance(self, record: ProcessRecord) -> SeedTolerance:
        """Compare the losses of a version that alters numbers on purpose with those of the original's seeds."""
        while len(self.seeded) < POLICY.band_seeds - 1:
            shift = len(self.seeded) + 1
            self._tell(say("original, seed {seed}", seed=self.request.seed + shift))
            process = self._process(ORIGINAL, "numbers", self.steps)
            process = replace(process, seed_shift=shift, deterministic=self.deterministic)
            self.seeded.append(self._start(process, self.request.original))
        per_rank = []
        for rank in range(len(record.ranks)):
            originals = [seed_tolerance.losses_of(run.ranks[rank]) for run in (self.originals[0], *self.seeded)]
            losses = seed_tolerance.losses_of(record.ranks[rank])
            per_rank.append(seed_tolerance.judge(originals, losses, record.steps, self.block))
        return next((judged for judged in per_rank if judged.verdict == "diverges"), per_rank[0])

    # ------------------------------------------------------------------------------------------------ windows

    def record_windows(self) -> None:
        """One run per version with a profiler window in it; its times are not used. A verdict does without: where time
        is short, it is kept for the pairs."""
        steps = min(self.steps, asked.window_steps(self.block))
        if self.left_s <= self._seconds_of_pairs(steps):
            return
        self.window = self._recorded_window(ORIGINAL, None, steps)
        for version in self.versions:
            if version.alive:
                version.window = self._recorded_window(version.change.name, version.change.patch, steps)

    def _seconds_of_pairs(self, window_steps: int) -> float:
        """What the windows and the fewest pairs take; 0 where no number of pairs would fit anyway."""
        assert self.plan is not None
        first, versions = self.originals[0], 1 + len(self.versions)
        pace = Pace(first.startup_seconds, first.seconds_per_step)
        ran = [version.record.seconds for version in self.versions if version.record is not None]
        beyond = sum(max(0.0, seconds - self.originals[-1].seconds) for seconds in ran)  # some versions compile
        pairs = POLICY.least_pairs * (versions * pace.seconds_for(self.plan.steps) + beyond)
        return pairs + versions * pace.seconds_for(window_steps) + beyond if pairs <= self.left_s else 0.0

    def _recorded_window(self, name: str, patch: Patch | None, steps: int) -> WindowStatistics:
        try:
            return window_statistics.read_all(self._run(name, patch, "window", steps).ranks)
        except TracelensError as error:  # the numbers and times do not depend on it
            return WindowStatistics(0, reason=error.message)

    # -------------------------------------------------------------------------------------------------- times

    def compare_times(self) -> None:
        """Rounds of all versions, every second one in reverse order, until they decide or the budget is used up."""
        assert self.plan is not None
        rounds, last_s = 0, 0.0
        while rounds < POLICY.most_pairs and any(version.alive for version in self.versions):
            if (rounds and last_s > self.left_s) or self.left_s <= 0:
                break
            if rounds >= self.plan.rounds and self._decided():
                break
            begun = time.monotonic()
            self._round(rounds, self.plan.steps)
            rounds += 1
            last_s = time.monotonic() - begun
            missing = max(0, POLICY.least_pairs - rounds)
            self.needed_s = max(self.needed_s, time.monotonic() - self.began + missing * last_s)

    def _round(self, number: int, steps: int) -> None:
        self._tell(say("timed round {number}", number=number + 1))
        alive = [version for version in self.versions if version.alive]
        order: list[VersionUnderTest | None] = [None, *alive]
        original: ProcessRecord | None = None
        timed: list[tuple[VersionUnderTest, ProcessRecord]] = []
        for version in order if number % 2 == 0 else reversed(order):
            if version is None:
                original = self._run(ORIGINAL, None, "timed", steps, deterministic=False)
            elif (record := self._attempt(version, "timed", steps)) is not None:
                timed.append((version, record))
        assert original is not None
        for version, record in timed:
            version.timed.append((original, record))
            if self.plain_noise is None and version.tolerance is None and not numbers.equal_states(original, record):
                version.difference = numbers.tensor_difference(original, record)

        self._tell_pairs(number + 1)

    def _decided(self) -> bool:
        """Every version has a verdict about its speed."""
        pairs = [version.pairs for version in self.versions if version.alive]
        return all(times.judge(times.ratio_of(each), len(each)) != "inconclusive" for each in pairs)

    # ------------------------------------------------------------------------------------------------- results

    @property
    def left_s(self) -> float:
        """What is left of the budget."""
        return self.request.budget_s - (time.monotonic() - self.began)

    def measurements(self, version: VersionUnderTest, touched: tuple[str, ...]) -> VersionMeasurements:
        """What is known of one version. Printed output is compared last: every original adds to its mask."""
        mask = None
        if version.record is not None and version.difference is None and self.noise is None:
            same = [run for run in self.originals if run.steps == version.record.steps]
            version.difference, mask = numbers.output_difference(same, version.record)
        return VersionMeasurements(
            request=self.request,
            change=version.change,
            originals=tuple(self.originals),
            record=version.record,
            noise=self.noise,
            plain_noise=self.plain_noise,
            difference=version.difference,
            failure=version.failure,
            broken=version.broken,
            timed=tuple(version.timed),
            pairs=tuple(version.pairs),
            windows=(self.window, version.window),
            mask=mask,
            refused=tuple(self.refused),
            touched=touched,
            seconds=time.monotonic() - self.began,
            needed_s=self.needed_s,
            tolerance=version.tolerance,
            freed_memory_filled=version.freed_memory_filled,
            sources=self._sources(version.change.patch),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _sources(self, patch: Patch) -> dict[str, str]:
        """The digest of each source that the original's numbers came from, without the files of the patch."""
        patched = {file.path.resolve() for file in patch.files}
        loaded = {Path(path) for rank in self.originals[0].ranks for path in rank.get("sources", ())} - patched
        project = self.request.project.resolve()
        return {
            path.relative_to(project).as_posix(): sha256(path.read_bytes())
            for path in sorted(loaded)
            if path.is_relative_to(project) and path.is_file()
        }

    # ----------------------------------------------------------------------------------------------- processes

    def _attempt(self, version: VersionUnderTest, mode: Mode, steps: int) -> ProcessRecord | None:
        """Run a patched version; its failure is a result, the others go on."""
        deterministic = self.deterministic and mode == "numbers"
        change = version.change
        try:
            record = self._run(change.name, change.patch, mode, steps, deterministic=deterministic)
        except processes.ProcessFailed as error:
            version.failure, version.broken = error.message, True
        except (Inconclusive, Refused) as error:
            version.failure = error.message
        else:
            if any(rank["loaded"] for rank in record.ranks):
                return record
            version.failure = say("no process of this command loads a patched file, so nothing was tried")
        return None

    def _run(
        self, name: str, patch: Patch | None, mode: Mode, steps: int, *, deterministic: bool | None = None
    ) -> ProcessRecord:
        process = self._process(name, mode, steps)
        process = replace(process, deterministic=self.deterministic if deterministic is None else deterministic)
        if mode != "timed":
            self._tell(f"{name}, {say('recorded run') if mode == 'window' else 'numbers'}")
        return self._start(process, self.request.original if name == ORIGINAL else patch)

    def _process(self, name: str, mode: Mode, steps: int) -> TrialProcess:
        return TrialProcess(name, mode, steps, self.request.seed, self.block, timeout_s=self.longest_s)

    def _start(self, process: TrialProcess, patch: Patch | None) -> ProcessRecord:
        record = processes.run(process, self.request.command, self.copy, patch, self.on_group)
        self.refused.update(dict.fromkeys(record.refused))
        return record

    def _tell(self, text: str) -> None:
        self.request.progress(text)

    def _found(self, version: VersionUnderTest, text: str) -> None:
        name = f"{version.change.name}: " if len(self.versions) > 1 else ""
        (self.request.found or self.request.progress)(f"{name}{text}")

    def _tell_numbers(self, version: VersionUnderTest) -> None:
        if version.failure is not None:
            self._found(version, "failed")
        elif self.noise is None and version.record is not None:
            count = numbers.compared_counts(version.record)
            what = say("{losses} losses, {tensors} tensors", losses=count["losses"], tensors=count["tensors"])
            same = (
                say("equal, bit for bit")
                if version.difference is None
                else say("different: {where}", where=version.difference.where)
            )
            self._found(version, say("results  {compared}  {same}", compared=what, same=same))

    def _tell_pairs(self, number: int) -> None:
        """The newest pair of each version that has one of this round."""
        for version in self.versions:
            if len(version.pairs) == number:
                original, patched = version.pairs[-1]
                self._found(
                    version, say("pair {number}   {pair_text}", number=number, pair_text=pair_text(original, patched))
                )
