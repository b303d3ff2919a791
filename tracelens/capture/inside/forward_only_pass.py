"""A pass that only reads, before the training: the mean of the data, an evaluation before the first epoch.

In: a window that has closed, and the steps that come after it. Out: whether the recording begins anew, once, because
the training came only then. Apart from the agent because nobody can know at that moment: a script that evaluates and
does nothing else shows the same batches, and its recording is the one that it wants.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import torch

from tracelens.capture.inside import rank_files
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.launch.inside import existing_optimizers, hooks

ONLY_READS = (
    "the recorded steps are batches of a DataLoader: no backward() and no optimizer's step came before they ended "
    "(an evaluation, a pass that only reads the data, or an update by autograd.grad or torch.func)"
)
WITHOUT_STOP = "without --stop-after-window a training that follows them is recorded in their place"


class ForwardOnlyPass:
    """What was recorded of a pass that only reads, kept until a training has been recorded in its place."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._replaced = False

    @property
    def pending(self) -> bool:
        """Such a pass was recorded, and no training has come so far."""
        return self._folder is not None and not self._replaced

    def begins(self, data: RecordingData, *, stops: bool) -> bool:
        """Before a window is saved: whether it is to be kept for the time being. Says in its notes what it is of.

        `stops`: the script shall end with its recording. It goes on all the same if it has made an optimizer.
        """
        if data.source != "dataloader" or hooks.rule().trains or self._folder is not None:
            return False
        if stops and not existing_optimizers.any_below(torch.optim.Optimizer):
            data.notes.append(f"{ONLY_READS}; without --stop-after-window, a training that follows is recorded instead")
            return False
        data.notes.append(ONLY_READS)
        data.window["provisional"] = True  # a report beside the training would be about something else
        return True

    def keep(self, folder: Path) -> None:
        """It was saved there."""
        self._folder = folder

    def over(self) -> bool:
        """Whether the training has begun after all; true once."""
        if not self.pending or not hooks.rule().trains:
            return False
        self._replaced = True
        return True

    def discard(self, data: RecordingData) -> None:
        """The training was recorded: it takes the place of the pass."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            data.notes.append("batches were only read before the training began; their recording was replaced")

    def stays(self, reason: str) -> bool:
        """Nothing of the training was recorded, for this reason: what was recorded first remains, and says so. False
        where there is no such thing."""
        if self._folder is None:
            return False
        with suppress(OSError, ValueError):  # the folder is gone: nothing is left to be explained
            entry = json.loads((self._folder / "rank.json").read_text(encoding="utf-8"))
            entry["notes"] = [*entry["notes"], f"a training came after that, and nothing of it was recorded: {reason}"]
            rank_files.write_entry(self._folder, entry)
        return True
