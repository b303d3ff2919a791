"""A forward-only pass before the training: the mean of the data, an evaluation before the first epoch.

In: a window that has closed, and the steps that come after it. Out: whether the recording starts again, once, because
the training began only then. When the window closes nobody can know: a script that only evaluates shows the same
batches, and for it that recording is the right one. So it is kept until a training has been recorded.
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
    """The recording of a forward-only pass, kept until a training has been recorded in its place."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._replaced = False

    @property
    def pending(self) -> bool:
        """Such a pass was recorded, and no training has begun so far."""
        return self._folder is not None and not self._replaced

    def is_one(self, data: RecordingData, *, stops: bool) -> bool:
        """Whether the window that is about to be saved is of such a pass; if so, its notes say it.

        `stops`: the script is to be ended with its recording. It goes on nevertheless if it has made an optimizer.
        """
        if data.source != "dataloader" or hooks.rule().trains or self._folder is not None:
            return False
        if stops and not existing_optimizers.any_below(torch.optim.Optimizer):
            data.notes.append(f"{ONLY_READS}; without --stop-after-window, a training that follows is recorded instead")
            return False
        data.notes.append(ONLY_READS)
        data.window["provisional"] = True  # no report is made while the training may still come
        return True

    def keep(self, folder: Path) -> None:
        """It was saved in `folder`."""
        self._folder = folder

    def training_began(self) -> bool:
        """Whether the training has begun after such a pass; True once."""
        if not self.pending or not hooks.rule().trains:
            return False
        self._replaced = True
        return True

    def discard(self, data: RecordingData) -> None:
        """Delete the recording of the pass: the training was recorded."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            data.notes.append("batches were only read before the training began; their recording was replaced")

    def stays(self, reason: str) -> bool:
        """Keep the recording of the pass, as nothing of the training was recorded for `reason`, and note that in it.

        False where there is no such recording.
        """
        if self._folder is None:
            return False
        with suppress(OSError, ValueError):  # the folder is gone, and the recording with it
            entry = json.loads((self._folder / "rank.json").read_text(encoding="utf-8"))
            entry["notes"] = [*entry["notes"], f"a training came after that, and nothing of it was recorded: {reason}"]
            rank_files.write_entry(self._folder, entry)
        return True
