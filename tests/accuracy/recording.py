"""What `tracelens profile` records of one script, with the child forked instead of started.

In: a folder with train.py. Out: a Run folder. Apart because it reaches into the product's capture session.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.accuracy import arm as arms
from tests.accuracy.placement import Share

RECORD_SECONDS = 90.0


def record(
    folder: Path, run: Path, arguments: tuple[str, ...], place: Share = arms.EVERYWHERE, *, short: bool = False
) -> None:
    """`tracelens profile`: what the product records, without its imports."""
    from tracelens.capture.supervisor import recording
    from tracelens.capture.window_plan import WindowPlan
    from tracelens.launch import supervisor

    def started(launch: Any, boot: Path, *_: Any) -> int:
        config = json.loads((boot / "config.json").read_text(encoding="utf-8"))
        log = folder / "record.log"
        good = arms.forked(lambda: _recorded(config, folder, arguments), RECORD_SECONDS, log, place)
        return 0 if good else 1

    supervisor.run = started
    plan = WindowPlan(unprofiled_steps=10, unprofiled_seconds=0.2, clean=8, attributed=1) if short else WindowPlan()
    recording.profile(
        recording.ProfileOptions(
            kind="script",
            words=("train.py", *arguments),
            out=run,
            plan=plan,
            stop_after_window=True,
            monitor=False,
            cwd=folder,
        )
    )


def _recorded(config: dict[str, Any], folder: Path, arguments: tuple[str, ...]) -> None:
    import torch

    from tracelens.capture.inside import agent

    torch.manual_seed(0)
    agent.arm(config)
    arms.script(str(folder), arguments)
