"""One row of the dynamic corpus: a public script, its original and its patched versions, held against each other.

In: an entry of the manifest and the folder with the scripts. Out: one JSON value, written anew after every stage, so
that a run that is cut short keeps what it has. The order: record and plan; the original twice and each patched version,
all of them also interrupted and counted; the revert. `timing` takes the times afterwards, from the plan left here.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import against
import patches
import worker
from entry import MANY_IMAGES, Entry, Setting
from patches import BY_HAND
from times_of import ORIGINAL
from worker import Arm, Result

from tracelens.model import Patch
from tracelens.patch.files import apply
from tracelens.verify.compare import numbers, seed_tolerance

NOT_REACHED = "the script ended before that step"
MAKE_SECONDS = 150
"""On a GPU: a recording or plan that takes longer is given up, so that the rows behind it are tried."""
SHIFTS = (1, 2)
"""Three seeds of the original in all."""


class Row:
    """The stages of one row."""

    def __init__(self, entry: Entry, setting: Setting) -> None:
        self.entry, self.setting = entry, setting
        self.place = setting.scratch / entry.name
        self.value: dict[str, Any] = {
            "name": entry.name,
            "repository": entry.repository,
            "commit": entry.commit,
            "path": entry.path,
            "arguments": list(self.arguments),
            "device": "cpu",
            "patched_from": "every place" if setting.assume else "a recording",
            "seconds": {},
            "versions": {},
        }
        self.plan = patches.Plan({})
        self.deterministic = bool(entry.noisy) and setting.gpu
        self.alive: list[str] = []

    @property
    def arguments(self) -> tuple[str, ...]:
        own = self.entry.cpu_arguments
        return self.entry.arguments if self.setting.gpu or own is None else own

    def run(self, *, compare: bool = True) -> dict[str, Any]:
        """All stages, or only the patches; a stage that fails is a result, and ends the row."""
        shutil.rmtree(self.place, ignore_errors=True)
        stages: tuple[Callable[[], None], ...] = (
            self.make,
            self.compare,
            self.revert,
        )
        for stage in stages if compare else stages[:1]:
            begun = time.monotonic()
            if stage == self.revert and not self.alive:
                break
            if begun > self.setting.ends:
                self.value["cut_short"] = f"before {stage.__name__}"
                self._write()
                break
            try:
                with _limited(MAKE_SECONDS if stage == self.make and self.setting.gpu else 0):
                    stage()
            except Exception as error:
                self.value["failed"] = f"{stage.__name__}: {type(error).__name__}: {error}"[:1500]
                break
            finally:
                self.value["seconds"][stage.__name__] = round(time.monotonic() - begun, 1)
                self._write()
        return self.value

    # ---------------------------------------------------------------------------------------------- the patches

    def make(self) -> None:
        """Record the original and ask for its patches."""
        project = self._project("project")
        script = project / self.entry.path
        if not self.setting.assume:
            begun = time.monotonic()
            environment = {"TRACELENS_SYNTHETIC_IMAGES": str(self.entry.record_images)}
            run = patches.record(script, self.arguments, self.place / "runs", environment)
            self.value["seconds"]["record"] = round(time.monotonic() - begun, 1)
            self.plan = patches.planned(run, (*patches.ASKED, *self.entry.also), unsafe=self.entry.unsafe)
        else:
            schemes = (*patches.ASKED, *self.entry.also)
            self.plan = patches.assumed(project, script, schemes, unsafe=self.entry.unsafe)
        self.value["recommended"] = {"scheme": self.plan.recommended, "verdict": self.plan.verdict}
        self.value["recorded"] = self.plan.recorded
        if self.entry.hand:
            edits = {self._here(old): self._here(new) for old, new in self.entry.hand.items()}
            self.plan.patches[BY_HAND] = patches.by_hand(script, edits)
        seen: dict[tuple[bytes, ...], str] = {}
        for name, patch in self.plan.patches.items():
            self.value["versions"][name] = version = against.described(patch)
            key = tuple(file.after for file in patch.files)
            if key and key in seen:
                version["same_as"] = seen[key]
            elif key:
                seen[key] = name
                self.alive.append(name)
        (self.place / "plan").write_bytes(pickle.dumps(self.plan))

    def compare(self) -> None:
        """Everything but times, side by side: the numbers, an interrupt in mid-epoch, the waits for the GPU.

        The original twice gives the noise floor; each patched version is held against it, bit for bit. If two
        originals differ, both comparisons are made again under deterministic algorithms.
        """
        names = [ORIGINAL, "again", *self.alive]
        jobs = [(name, "numbers") for name in names]
        if any(map(patches.may_differ, names)):
            jobs += [(f"seed {shift}", "numbers") for shift in SHIFTS]
        jobs += [(name, "interrupted") for name in names if _interrupted(name)]
        counted = [(name, "syncs") for name in (ORIGINAL, *self.alive) if self.setting.gpu]
        found = self.arms([*jobs, *counted])
        noise = against.parted(found[ORIGINAL, "numbers"], found["again", "numbers"])
        self.value["noise"] = self.entry.noisy if self.deterministic else noise
        if noise is not None and not self.deterministic:
            self.deterministic = True
            found |= self.arms(jobs)
            noise = against.parted(found[ORIGINAL, "numbers"], found["again", "numbers"])
        self.value["noise_deterministic"] = noise if self.deterministic else None
        first = found[ORIGINAL, "numbers"]
        self.value["original"] = against.left(first)
        if first.record is None or first.status != 0:
            raise RuntimeError(f"the original ended with {first.status}: {first.stderr[-800:]}")
        self.value["device"] = first.record["device"]
        interrupted = found[ORIGINAL, "interrupted"]
        self.value["interrupted"] = {"ended": interrupted.status, "lines": len(interrupted.stdout.splitlines())}
        for name in self.alive:
            self._judge(name, found, comparable=noise is None)
        for name, _ in counted:
            target = self.value["original"] if name == ORIGINAL else self.value["versions"][name]
            target["syncs"] = against.syncs(found[name, "syncs"])
            target["memory"] = against.memory(found[name, "syncs"].memory)

    def _judge(self, name: str, found: dict[tuple[str, str], Result], comparable: bool) -> None:
        version, result = self.value["versions"][name], found[name, "numbers"]
        version["ended"] = result.status
        version["compared"] = None if result.record is None else numbers.compared_counts(against.record(result))
        for kind, key in (("numbers", "difference"), ("interrupted", "interrupted_difference")):
            if (name, kind) in found:
                first, again = found[ORIGINAL, kind], found["again", kind]
                if name.endswith(patches.LOSSY):
                    version["lines_lost"] = against.lines_lost(first, found[name, kind])
                    first, again = against.as_long_as(found[name, kind], first, again)
                more = () if _prints_less(name) else (again,)
                version[key] = against.parted(first, found[name, kind], more) if comparable else "not comparable"
        if patches.may_differ(name):
            version["seed_noise"] = self._band(found, result)
        if _interrupted(name) and found[ORIGINAL, "interrupted"].status == found[ORIGINAL, "numbers"].status == 0:
            version["interrupted_difference"] = NOT_REACHED
        if version["difference"] and result.status != found[ORIGINAL, "numbers"].status:
            version["stderr"] = result.stderr[-800:]

    def _band(self, found: dict[tuple[str, str], Result], result: Result) -> dict[str, Any] | None:
        """The losses of a version that may change numbers, against those of the original under other seeds."""
        records = [found[name, "numbers"].record for name in (ORIGINAL, *(f"seed {shift}" for shift in SHIFTS))]
        if result.record is None or None in records:
            return None
        losses = [seed_tolerance.losses_of(record) for record in records if record is not None]
        judged = seed_tolerance.judge(
            losses, seed_tolerance.losses_of(result.record), result.record["steps"], patches.INTERVAL
        )
        lines = [len(one.stdout.splitlines()) for one in (found[ORIGINAL, "numbers"], result)]
        return {
            **judged.document(),
            "lines": lines,
            "equal_losses": losses[0] == seed_tolerance.losses_of(result.record),
        }

    def revert(self) -> None:
        """Apply and revert in a copy: every byte as before, nothing left."""
        for name in (one for one in self.alive if one != BY_HAND):
            project = self._project(f"revert-{name}")
            before = _tree(project)
            patch = _moved(self.plan.patches[name], self.place / "project", project)
            backup = self.place / f"backup-{name}"
            apply.write(patch, backup)
            changed = _tree(project) != before
            apply.revert(backup)
            self.value["versions"][name]["revert_exact"] = changed and _tree(project) == before

    # --------------------------------------------------------------------------------------------------- helpers

    def arms(self, jobs: list[tuple[str, str]]) -> dict[tuple[str, str], Result]:
        """Run versions for what they are wanted for, all at once; folders of equal length keep printed paths alike."""
        made = []
        for number, (name, kind) in enumerate(jobs):
            folder = self.place / f"arm-{self.setting.worker:02d}-{number:02d}"
            shutil.rmtree(folder, ignore_errors=True)
            self._copy_to(folder, self.plan.patches.get(name))
            shift = int(name.split()[1]) if name.startswith("seed ") else 0
            made.append(Arm(folder, self.entry.path, self.arguments, **self._options(kind), seed_shift=shift))
        return dict(zip(jobs, worker.run(made, self.setting.timeout_s), strict=True))

    def _options(self, kind: str) -> dict[str, Any]:
        entry = self.entry
        if kind == "syncs":
            return {"mode": "syncs", "steps": entry.sync_steps, "images": MANY_IMAGES}
        if kind == "timed":
            return {"mode": "timed", "steps": 20_000, "images": MANY_IMAGES, "deadline_s": entry.timed_s}
        common = {"mode": "numbers", "steps": entry.steps, "images": entry.images, "deterministic": self.deterministic}
        return {**common, "interrupt_at": entry.interrupt_at if kind == "interrupted" else None}

    def _project(self, name: str) -> Path:
        folder = self.place / name
        shutil.rmtree(folder, ignore_errors=True)
        self._copy_to(folder, None)
        return folder

    def _copy_to(self, folder: Path, patch: Patch | None) -> None:
        source = self.setting.sources / self.entry.repository.replace("/", "+")
        for path in (self.entry.path, *self.entry.beside):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self._here((source / path).read_text()))
        for name in self.entry.folders:
            ((folder / self.entry.path).parent / name).mkdir(parents=True, exist_ok=True)
        if patch is not None:
            for file in _moved(patch, self.place / "project", folder).files:
                file.path.write_bytes(file.after)

    def _here(self, text: str) -> str:
        """The script's text as it runs on this machine."""
        for old, new in (self.entry.edits or {}).items():
            text = text.replace(old, new)
        for old, new in (self.entry.cpu or {}).items() if not self.setting.gpu else ():
            text = text.replace(old, new)
        return text

    def _write(self) -> None:
        self.setting.results.mkdir(parents=True, exist_ok=True)
        path = self.setting.results / f"{self.entry.name}.json"
        path.with_suffix(".part").write_text(json.dumps(self.value, indent=1, sort_keys=True) + "\n")
        path.with_suffix(".part").replace(path)


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in the block after so many seconds; 0 for no limit. In a process's main thread only."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _prints_less(name: str) -> bool:
    """Its output is not compared."""
    return name == BY_HAND or patches.may_differ(name)


def _interrupted(name: str) -> bool:
    """What it leaves then is compared."""
    return not (_prints_less(name) or name.endswith(patches.LOSSY))


def _moved(patch: Patch, old: Path, new: Path) -> Patch:
    from dataclasses import replace

    files = tuple(replace(file, path=new / file.path.resolve().relative_to(old.resolve())) for file in patch.files)
    return replace(patch, root=new, files=files)


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
