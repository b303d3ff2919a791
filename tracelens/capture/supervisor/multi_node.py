"""One Run folder for several parents: the nodes of a job, each with a `tracelens profile --run-dir` of its own.

In: a folder on storage that all nodes see. Out: who leads (writes run.json, waits for the others) and who follows
(adds what the leader did not wait for). Apart from `session` because a recording on one machine needs none of it.

All agreement is by files that only one process can create, which shared file systems guarantee; no locks, no network.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracelens import run
from tracelens.capture.run_json import RunJsonWriter
from tracelens.errors import UsageError

LEAD_FILE = ".lead"
NODE_PREFIX = ".node-"
NODES_SECONDS = 30.0
"""The leader waits so long, after its own command, for commands of other nodes: they end together."""
AMEND_SECONDS = 10.0
_LOOK_SECONDS = 0.2


class SharedRunFolder:
    """This parent's part in a shared Run folder; made before its command starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{NODE_PREFIX}{platform.node()}-{os.getpid()}"
        self.leads = _claim(folder)
        if not self.leads and (folder / run.RUN_FILE).is_file() and not (folder / LEAD_FILE).exists():
            raise UsageError(f"{folder} holds a recording already", hint="give another folder with --run-dir")
        self._own.write_text("running", encoding="ascii")

    @property
    def boot_folder(self) -> str:
        """A name of its own for the bootstrap folder of each parent."""
        return f"boot-{platform.node()}-{os.getpid()}"

    def wait(self, run_json: RunJsonWriter, wanted: tuple[int, ...] | None) -> None:
        """The leader's command has ended: give the others time for theirs."""
        self._own.unlink(missing_ok=True)
        end = time.monotonic() + NODES_SECONDS
        while time.monotonic() < end:
            run_json.collect()
            if not list(self._folder.glob(f"{NODE_PREFIX}*")) and not run_json.missing(wanted):
                return
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """The leader has written run.json: who comes now amends it."""
        (self._folder / LEAD_FILE).unlink(missing_ok=True)

    def follow(self, run_json: RunJsonWriter) -> None:
        """A follower's command has ended: the leader takes its ranks, or has left and they are added here."""
        run_json.collect()
        self._own.unlink(missing_ok=True)
        end = time.monotonic() + NODES_SECONDS + AMEND_SECONDS
        while (self._folder / LEAD_FILE).exists() and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        with _alone(self._folder):
            amend(self._folder, run_json)


def amend(folder: Path, run_json: RunJsonWriter) -> None:
    """Add ranks to a run.json that was written without them; does nothing if they are all there."""
    path = folder / run.RUN_FILE
    with suppress(OSError, ValueError):
        meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = {entry.get("trace") for entry in (*meta["ranks"], *meta.get("set_aside", ()))}
        late = [entry for entry in run_json.entries if entry.get("trace") not in known]
        if not late:
            return
        rows = [{key: value for key, value in entry.items() if key != "process"} for entry in late]
        meta["ranks"] = sorted([*meta["ranks"], *rows], key=lambda entry: int(entry["rank"]))
        world = max(int(entry.get("world_size") or 1) for entry in meta["ranks"])
        lost = sorted(set(range(world)) - {int(entry["rank"]) for entry in meta["ranks"]})
        faults = [str(entry["reason"]) for entry in meta["ranks"] if entry.get("reason")]
        faults += [f"rank {rank} left no recording" for rank in lost]
        meta |= {"world_size": world, "complete": not faults, "reason": "; ".join(dict.fromkeys(faults)) or None}
        run.write_json(path, meta)
        run_json.clear()


def _claim(folder: Path) -> bool:
    """Create the leader's file; False if there is one, or if the folder holds a recording that has ended."""
    if (folder / run.RUN_FILE).is_file():
        return False
    try:
        os.close(os.open(folder / LEAD_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time; a file that somebody killed has left is ignored after a while."""
    path = folder / f"{LEAD_FILE}-amend"
    end = time.monotonic() + AMEND_SECONDS
    while time.monotonic() < end:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
