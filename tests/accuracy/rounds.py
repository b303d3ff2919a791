"""One row on its way: recorded and predicted first, then rounds of the loop as it is and its patched versions.

In: a row, a folder, where to keep things. Out: the row's JSON, whole after every round. A round is: the base, half of
the versions, the base again, the other half, in an order drawn anew; each run a fresh process.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.accuracy import arm as arms
from tests.accuracy import rows as listed
from tests.accuracy.placement import Share
from tests.accuracy.recording import record
from tests.accuracy.stats import half_width, median

FIRST_ROUNDS, MOST_ROUNDS = 3, 8
WIDE = 0.03
WARMUP_SECONDS, MEASURED_SECONDS = 0.5, 1.0
LEAST_WARMUP, LEAST_BLOCKS, MOST_BLOCKS = 20, 4, 150
ARM_SECONDS = 60.0


@dataclass(frozen=True)
class Setting:
    """How rows are run: where files go, on which CPUs, until when."""

    out: Path
    place: Share = arms.EVERYWHERE
    placement: str = "shared"
    stop: float = math.inf
    """Unix time after which no process is started."""
    small: bool = False
    oracle: bool = False


class Row:
    """A row's recording, prediction and processes so far."""

    def __init__(self, row: listed.Row, folder: Path, setting: Setting) -> None:
        self.row, self.setting, self.folder = row, setting, folder
        self.versions: list[str] = []
        self.arguments = tuple((row.small if setting.small else row.arguments).split())
        self.arms: list[dict[str, Any]] = []
        self.rounds = 0
        self.step_us = 0.0
        folder.mkdir(parents=True)
        shutil.copy(row.script, folder / "train.py")
        shutil.copy(listed.LOOPS / "images.py", folder)

    def begin(self) -> None:
        """Record, predict, patch: all on disk before a version is run, and nothing else running on these CPUs."""
        self.meta = self._record()
        self.step_us = self.meta["ranks"][0]["clock"]["unprofiled_mean_ns"] / 1e3
        out, log = self.folder / "prediction.json", self.folder / "predict.log"
        if not arms.forked(lambda: _predict(self.folder / "run", out, self.folder / "versions"), ARM_SECONDS, log):
            raise RuntimeError(f"no prediction: {tail(log)}")
        self.prediction = json.loads(out.read_text(encoding="utf-8"))
        found = {scheme["version"] for scheme in self.prediction["schemes"].values() if scheme.get("version")}
        self.versions = sorted(found)
        self._keep_recording()
        if self.setting.oracle:
            self._record_versions()

    def round(self) -> None:
        """Run the base, and the versions that still need it: all of them at first, then those that scatter."""
        first = self.rounds < FIRST_ROUNDS
        chosen = list(self.versions if first else self.wide())
        random.Random(f"{self.row.name} {self.rounds}").shuffle(chosen)
        half = (len(chosen) + 1) // 2
        again = ["base"] if first else []
        for version in ("base", *chosen[:half], *again, *chosen[half:]):
            if time.time() < self.setting.stop:
                self.run(version)
        self.rounds += 1

    @property
    def open(self) -> bool:
        """More rounds would help and are allowed."""
        if not self.versions or self.rounds >= MOST_ROUNDS:
            return False
        return self.rounds < FIRST_ROUNDS or bool(self.wide()) or self._scatters("base")

    def wide(self) -> list[str]:
        """The versions that scatter; one of them all where only the base does, since it is what they are held to."""
        wide = [version for version in self.versions if self._scatters(version)]
        return wide or (self.versions[:1] if self._scatters("base") else [])

    def run(self, version: str) -> None:
        """One fresh process."""
        folder = self.folder if version == "base" else self.folder / "versions" / version
        out = self.folder / f"arm-{len(self.arms)}.json"
        warmup = max(LEAST_WARMUP, math.ceil(WARMUP_SECONDS * 1e6 / self.step_us / arms.BLOCK) * arms.BLOCK)
        blocks = math.ceil(MEASURED_SECONDS * 1e6 / self.step_us / arms.BLOCK)
        wanted = arms.Arm(str(folder), self.arguments, warmup, min(MOST_BLOCKS, max(LEAST_BLOCKS, blocks)), str(out))
        if self.setting.small:
            wanted = arms.Arm(str(folder), self.arguments, 20, 2, str(out))
        log, began = self.folder / f"arm-{version}.log", time.time()
        if not arms.forked(lambda: arms.measure(wanted), ARM_SECONDS, log, self.setting.place):
            raise RuntimeError(f"{version} failed: {tail(log)}")
        found = json.loads(out.read_text(encoding="utf-8"))
        self.arms.append({"version": version, "rep": self.rounds, "at_unix": round(began, 1)} | found)

    def write(self) -> None:
        """The row as it stands."""
        if len({arm["version"] for arm in self.arms}) <= len(self.versions):
            return  # not a whole round yet
        environment = self.meta.get("environment", {})
        document = {
            "schema": 2,
            "row": self.row.name,
            "loop": self.row.loop,
            "size": self.row.size,
            "arguments": " ".join(self.arguments),
            "tuning": self.row.tuning,
            "environment": {key: environment.get(key) for key in ("python", "torch", "cuda", "driver", "gpus")},
            "placement": self.setting.placement,
            "prediction": self.prediction,
            "versions": self.versions,
            "block": arms.BLOCK,
            "arms": self.arms,
        }
        folder = self.setting.out / "rows"
        folder.mkdir(exist_ok=True)
        (folder / f"{self.row.name}.json").write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")

    def _scatters(self, version: str) -> bool:
        medians = [median(arm["block_us"]) for arm in self.arms if arm["version"] == version]
        return len(medians) < FIRST_ROUNDS or half_width(medians) > WIDE

    def _record(self) -> dict[str, Any]:
        record(self.folder, self.folder / "run", self.arguments, self.setting.place)
        meta: dict[str, Any] = json.loads((self.folder / "run" / "run.json").read_text(encoding="utf-8"))
        if not meta["complete"]:
            raise RuntimeError(f"not recorded: {meta['reason']}: {tail(self.folder / 'record.log')}")
        return meta

    def _keep_recording(self) -> None:
        kept = self.setting.out / "runs" / self.row.name
        shutil.copytree(self.folder / "run", kept / "run")
        for file in self.folder.glob("*.py"):
            shutil.copy(file, kept)
        if (self.folder / "versions").exists():
            shutil.copytree(self.folder / "versions", kept / "versions")

    def _record_versions(self) -> None:
        """The patched versions' own traces: what the replay should have said, read off the real thing."""
        for version in self.versions:
            folder = self.folder / "versions" / version
            record(folder, folder / "run", self.arguments, self.setting.place, short=True)
            shutil.copytree(folder / "run", self.setting.out / "runs" / self.row.name / "oracle" / version)


def _predict(run: Path, out: Path, versions: Path) -> None:
    from tests.accuracy import predict

    predict.write(run, out, versions)


def tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-1500:] if log.exists() else "no output"
