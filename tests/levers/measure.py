"""`tracelens try` on one loop of `gpu_loops`, and the hand-made loop beside it.

    measure.py try NAME FOLDER SECONDS [LEVER…]       the whole command, then the hand-made loop in pairs of its own
    measure.py planned NAME FOLDER SECONDS [LEVER…]   what the command does, in its order, the hand-made loop among it
    measure.py session NAME FOLDER SECONDS LEVER…     without a recording: levers and hand-made loop in one session
    measure.py together NAME FOLDER SECONDS LEVER…    these levers at once, and the hand-made loop, in pairs by turns

Out: FOLDER/NAME.json; `table.py` makes the table of docs/try.md of such rows. Run one per GPU, or several with one
LOOP_LOCK (see `gpu_loops`), each on cores of its own; what `compile` takes is then not known, because it holds the time
that was waited for the lock. LOOP_HAND=0 leaves the hand-made loop out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracelens import lever_trials, pipeline, trials
from tracelens.levers.chosen import chosen
from tracelens.model import Toggle
from tracelens.schemes import rules
from tracelens.verify import lever_store
from tracelens.verify.lever_store import LeverRecord
from tracelens.verify.lever_trial import LEVER_POLICY, LeverMeasurement, LeverRequest, LeverTrial, all_together
from tracelens.verify.request import script_command
from tracelens.verify.supervisor import lever_session, scratch_folder
from tracelens.verify.supervisor.lever_results import LeverUnderTrial
from tracelens.verify.supervisor.working_copy import WorkingCopy

HERE = Path(__file__).parent
SCRIPT = "gpu_loops.py"
BY_HAND = LeverTrial("by-hand", (Toggle("environment", "LOOP_BY_HAND", "1"),))
HAND_SECONDS = 100.0
STEP_NS = {"gan": 10_000_000, "loader": 60_000_000, "host_line": 150_000_000}
"""What decides how many steps a process makes, where a step is not about 40 ms."""


class BesideHand(lever_session.LeverSession):
    """The hand-made loop is timed like a lever, and is no part of a combination."""

    def _first_round(self, lever: LeverUnderTrial) -> None:
        """Its numbers are another program's: a process that compiles for them would take the time of its pairs."""
        if lever.trial is not BY_HAND:
            super()._first_round(lever)
            return
        lever.standing = "measured"
        self._time(lever)

    def combine_at_once(self) -> None:
        """Before other levers get more rounds, the hand-made loop has as many pairs as the combination."""
        self._without_hand(super().combine_at_once)
        for hand in [one for one in self.levers if one.trial is BY_HAND and one.alive]:
            while len(hand.pairs) < LEVER_POLICY.least_rounds and self._affords(1, [hand]):
                self._time_base()
                self._time(hand)
            self._tell_results()

    def combine(self) -> None:
        self._without_hand(super().combine)

    def _without_hand(self, stage: Callable[[], None]) -> None:
        hand = [one for one in self.levers if one.trial is BY_HAND]
        self.levers = [one for one in self.levers if one.trial is not BY_HAND]
        try:
            stage()
        finally:
            self.levers = [*hand, *self.levers]

    def measurement(self, lever: LeverUnderTrial) -> LeverMeasurement:
        told = super().measurement(lever)
        if told.compiled is None or "LOOP_LOCK" not in os.environ:
            return told
        return replace(told, compiled={**told.compiled, "seconds": None, "pays_after_steps": None})


class TogetherBesideHand(BesideHand):
    """One combination and the hand-made loop."""

    def combine_at_once(self) -> None:
        """There is one combination."""

    def combine(self) -> None:
        self.combination = next(one for one in self.levers if one.trial is not BY_HAND)


def work_folder(name: str, folder: Path) -> Path:
    """A folder with the script alone."""
    work = folder / f"work-{name}"
    work.mkdir(parents=True, exist_ok=True)
    (work / SCRIPT).write_bytes((HERE / SCRIPT).read_bytes())
    return work


def whole_command(name: str, folder: Path, seconds: float, levers: Sequence[str]) -> dict[str, Any]:
    """What the command says, and the hand-made loop, one after the other on the same device."""
    work = work_folder(name, folder)
    words = ["try", SCRIPT, *levers, "--budget", f"{seconds:.0f}s", "--format", "json", "--", name]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tracelens", *words], cwd=work, capture_output=True, text=True, check=False
    )
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    stored = next((json.loads(path.read_text()) for path in sorted(work.glob("tracelens-runs/*/try.json"))), None)
    return {
        "loop": name,
        "status": done.returncode,
        "took_s": round(time.monotonic() - begun, 1),
        "stderr": done.stderr[-6000:],
        "levers": answer.get("levers"),
        "owners": answer.get("owners"),
        "try": stored,
        "by_hand": session(name, folder, HAND_SECONDS, ())["by_hand"],
    }


def together(name: str, folder: Path, seconds: float, levers: Sequence[str]) -> dict[str, Any]:
    """All levers at once and the hand-made loop, by turns."""
    return session(name, folder, seconds, levers, at_once=True)


def planned(name: str, folder: Path, seconds: float, words: Sequence[str]) -> dict[str, Any]:
    """A recording, then what `try` with these words would try on it, in one session with the hand-made loop: levers,
    their order and the combination are the command's own."""
    begun = time.monotonic()
    work = work_folder(name, folder)
    recording = folder / f"run-{name}"
    record = ["profile", "--stop-after-window", "-o", str(recording), SCRIPT, name]
    subprocess.run([sys.executable, "-m", "tracelens", *record], cwd=work, check=True, stdout=sys.stderr)
    diagnosis = pipeline.plan(pipeline.examine(pipeline.open_inputs((recording,))))
    run = lever_trials.run_of(diagnosis)
    planned = lever_trials.plan(diagnosis, rules.load().levers, words)
    recorded_s = time.monotonic() - begun
    request = LeverRequest(
        trials.command_of(run),
        run.cwd,
        run.cwd,
        seconds - recorded_s,
        step_ns=diagnosis.steps.best_known_ns,
        start_s=trials.start_seconds(diagnosis),
    )
    row = {
        "words": list(words),
        "recorded_s": round(recorded_s, 1),
        "recorded_us": diagnosis.steps.best_known_ns / 1e3,
        "planned": [trial.id for trial in planned.trials],
        "left_out": {one.trial.id: one.reason for one in planned.left_out},
        "owners": [[one.kind, round(one.owned_ns / diagnosis.owners.wall_ns, 3)] for one in diagnosis.owners.owners],
    }
    return measured(name, folder, request, planned.trials, row)


def session(name: str, folder: Path, seconds: float, levers: Sequence[str], *, at_once: bool = False) -> dict[str, Any]:
    """The levers and the hand-made loop in one session, each beside the same originals."""
    work = work_folder(name, folder)
    known = rules.load().levers
    named = [
        LeverTrial(lever.id, lever.toggles, another_training=lever.rule.family == "batch")
        for word in levers
        for lever in chosen(word, known)
    ]
    kind: type[BesideHand] = BesideHand
    if at_once:
        merged = all_together(named)
        assert merged is not None
        named, kind = [merged], TogetherBesideHand
    request = LeverRequest(script_command(SCRIPT, name), work, work, seconds, step_ns=STEP_NS.get(name, 40_000_000))
    return measured(name, folder, request, named, {}, kind)


def measured(
    name: str,
    folder: Path,
    request: LeverRequest,
    levers: Sequence[LeverTrial],
    known: dict[str, Any],
    kind: type[BesideHand] = BesideHand,
) -> dict[str, Any]:
    """The session, and its row."""
    lines: list[str] = []
    begun = time.monotonic()

    def told(line: str) -> None:
        lines.append(f"{time.monotonic() - begun:6.1f} s  {line}")
        print(lines[-1], file=sys.stderr, flush=True)

    request = replace(request, progress=told, found=told)
    compiled = os.environ.get("LOOP_COMPILE") != "0"
    row: dict[str, Any] = {"loop": name, "by_hand_may_compile": compiled, "seconds": request.budget_s, "by_hand": None}
    row |= known

    def keep(result: lever_session.LeverSessionResult) -> None:
        record = LeverRecord(result.levers, result.combination, result.base_ns, result.environment, {})
        document = lever_store.document(record)
        attempts = LeverRecord(tuple(map(tried.measurement, tried.tried_together)))
        document["tried_together"] = lever_store.document(attempts)["levers"]
        hand = next((one for one in document["levers"] if one["id"] == BY_HAND.id), row["by_hand"])
        row.update(took_s=round(result.seconds, 1), stderr=lines, by_hand=hand, **{"try": document})
        (folder / f"{name}.json").write_text(json.dumps(row, indent=1))  # after each lever: a time limit may end us

    with scratch_folder.opened(None) as scratch:
        copy = WorkingCopy(scratch.folder, request.project, request.cwd)
        hand = [] if os.environ.get("LOOP_HAND") == "0" else [BY_HAND]
        tried = kind(request, [*hand, *levers], copy, keep, scratch.watch_group)
        tried.run()
    keep(tried.result())
    return row


if __name__ == "__main__":
    mode, loop, target = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    run = {"try": whole_command, "planned": planned, "session": session, "together": together}[mode]
    row = run(loop, target, float(sys.argv[4]), sys.argv[5:])
    (target / f"{loop}.json").write_text(json.dumps(row, indent=1))
