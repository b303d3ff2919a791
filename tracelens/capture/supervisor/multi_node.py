"""One Run folder for the parents on several nodes of a job, each a `tracelens profile --run-dir`.

In: a folder on storage that all nodes share. Out: which parent is the leader (it writes run.json and waits for the
others); the others are followers and add the ranks that the leader did not wait for.

They agree through files that only one process can create, which shared file systems guarantee; no locks, no network.
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
from tracelens.messages import say

LEAD_FILE = ".lead"
NODE_PREFIX = ".node-"
NODES_SECONDS = 30.0
"""How long the leader waits, after its own command, for those of other nodes, which end at about the same time."""
AMEND_SECONDS = 10.0
"""How long a follower waits for another one that is adding its ranks."""
_POLL_SECONDS = 0.2


class SharedRunFolder:
    """This parent's part in a shared Run folder; made before its command starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / f"{NODE_PREFIX}{platform.node()}-{os.getpid()}"
        self.leads = _claim(folder)
        if not self.leads and (folder / run.RUN_FILE).is_file() and not (folder / LEAD_FILE).exists():
            raise UsageError(
                say("{folder} holds a recording already", folder=folder), hint=say("give another folder with --run-dir")
            )
        self._own.write_text("running", encoding="ascii")

    @property
    def boot_folder(self) -> str:
        """The name of this parent's bootstrap folder, which is unique."""
        return f"boot-{platform.node()}-{os.getpid()}"

    def wait(self, run_json: RunJsonWriter, wanted: tuple[int, ...] | None) -> None:
        """In the leader, when its command has ended: wait for the other nodes' commands and ranks."""
        self._own.unlink(missing_ok=True)
        end = time.monotonic() + NODES_SECONDS
        while time.monotonic() < end:
            run_json.collect()
            if not list(self._folder.glob(f"{NODE_PREFIX}*")) and not run_json.missing(wanted):
                return
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """In the leader, when run.json is written: followers add to it from now on."""
        (self._folder / LEAD_FILE).unlink(missing_ok=True)

    def follow(self, run_json: RunJsonWriter) -> None:
        """In a follower, when its command has ended: wait for the leader, then add the ranks that it left out."""
        run_json.collect()
        self._own.unlink(missing_ok=True)
        end = time.monotonic() + NODES_SECONDS + AMEND_SECONDS
        while (self._folder / LEAD_FILE).exists() and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        with _one_at_a_time(self._folder):
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
        faults += [say("rank {rank} left no recording", rank=rank) for rank in lost]
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
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Exclude other parents meanwhile. A lock file that a killed parent has left is ignored after `AMEND_SECONDS`."""
    path = folder / f"{LEAD_FILE}-amend"
    end = time.monotonic() + AMEND_SECONDS
    while time.monotonic() < end:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
