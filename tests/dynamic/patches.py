"""The patches of one public script: what TraceLens makes of a recording, or, without a GPU, of every place it knows.

In: the folder of a script and a recorded Run, or no Run. Out: a `Plan`: the patch of each version that is compared,
what was declined and why, what is recommended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelens.model import Edit, FilePatch, Location, Patch

ASKED = ("event-interval", "full-pipeline")
"""Schemes that are patched because they are named, whether they pay or not."""
INTERVAL = 10
RECORDING_SECONDS = 75.0
"""A recording that has not ended by then is given up."""
BY_HAND = "by hand"
UNSAFE = " --unsafe"
"""Behind a scheme's name: with the hunks that change what is printed, when a run stops, or which numbers it draws."""
CHECKED = " --checked"
"""Behind a scheme's name: with the hunks that a trial has to confirm, in the forms that lose nothing at an end."""
LOSSY = " --checked, plain"
"""With these in plain lines, as `tracelens patch --checked` writes them: what an end loses the hunks say themselves."""
KINDS = {
    "event-interval": {"read": ("defer-read",), "sync": ("event-sync", "interval-sync")},
    "full-pipeline": {"read": ("defer-read",), "sync": ("event-sync", "interval-sync"), "copy": ("async-copy",)},
    "more-streams": {"copy": ("async-copy",)},
}


@dataclass(frozen=True)
class Plan:
    """What to compare with the original."""

    patches: dict[str, Patch]
    """By scheme; an empty patch is one that was declined altogether."""
    recommended: str | None = None
    verdict: str = ""
    recorded: dict[str, Any] = field(default_factory=dict)


def record(script: Path, arguments: tuple[str, ...], runs: Path, environment: dict[str, str]) -> Path:
    """Profile the script as `tracelens profile --stop-after-window` does; returns the Run folder.

    The recorded process is forked from ours, which has imported torch: that costs seconds, and is no part of
    what is recorded.
    """
    from tracelens.capture.supervisor import recording as session
    from tracelens.launch import supervisor

    options = session.ProfileOptions(
        kind="script", words=(script.name, *arguments), out=runs, stop_after_window=True, cwd=script.parent
    )
    started, supervisor.run = supervisor.run, lambda *words: _forked(script, arguments, environment, *words)
    try:
        outcome = session.profile(options)
    finally:
        supervisor.run = started
    if not outcome.ranks:
        stderr = (runs / "stderr").read_text() if (runs / "stderr").is_file() else ""
        raise RuntimeError(f"profile recorded nothing (exit {outcome.status}): {outcome.reason} {stderr[-600:]}")
    return runs


def _forked(
    script: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    launch: Any,
    boot: Path,
    on_poll: Callable[[int], None],
    started: Callable[[int], None],
    _interrupted: Callable[[], None] | None = None,
) -> int:
    """What `supervisor.run` does, with a forked process in which the agent is armed at once."""
    import importlib

    import worker

    def child() -> int:
        config = json.loads((boot / "config.json").read_text())
        importlib.import_module(config["agent"]).arm(config)
        hand = {"pid": os.getpid(), "python": sys.version.split()[0], "argv": sys.argv[:1], "agent": "armed"}
        (boot / f"process-here-{os.getpid()}.json").write_text(json.dumps(hand))
        return worker.run_script(script.name)

    process = worker.fork(child, script, arguments, boot.parent, environment)
    started(process)
    limit = time.monotonic() + RECORDING_SECONDS
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > limit:
            os.killpg(process, signal.SIGKILL)
        on_poll(process)
        time.sleep(0.1)


def planned(run: Path, schemes: tuple[str, ...] = ASKED, *, unsafe: bool = False) -> Plan:
    """The plan as `recommend` makes it, and the patches of the schemes that are asked for by name."""
    from tracelens import pipeline

    examined = pipeline.examine(pipeline.open_inputs((run,)))
    own = pipeline.plan(examined)
    advice = own.recommendation
    patches = {}
    if advice is not None and advice.scheme in own.patches:
        patches["recommended"] = own.patches[advice.scheme]
    for name in schemes:
        forced = pipeline.plan(examined, pipeline.Options(forced=name))
        patches[name] = forced.patches.get(name) or Patch(Path("/"), (), (), (), "")
    if unsafe:
        for name in ASKED:
            forced = pipeline.plan(examined, pipeline.Options(forced=name, unsafe=True))
            patches |= _with_unsafe_hunks(name, forced.patches.get(name))
    steps = own.steps
    return Plan(
        patches,
        advice.scheme if advice else None,
        advice.verdict if advice else "",
        {
            "steps": steps.count,
            "step_us": (steps.unprofiled_median_ns or steps.median_ns) / 1000,
            "gpu_busy_share": own.gpu_busy_share,
            "schemes": {one.id: {"rank": one.rank, "reasons": list(one.reasons)} for one in own.schemes},
            "abstentions": [f"{one.detector}: {one.missing}" for one in own.abstentions],
        },
    )


def may_differ(name: str) -> bool:
    """Whether a version of this name may print less, or compute something else."""
    return name.endswith(UNSAFE)


def _with_checked_hunks(name: str, patch: Patch) -> dict[str, Patch]:
    return {name: patch} if any(hunk.tier == "checked" for hunk in patch.hunks) else {}


def _with_unsafe_hunks(name: str, patch: Patch | None) -> dict[str, Patch]:
    """A version of its own, if --unsafe adds anything."""
    return {name + UNSAFE: patch} if patch and any(hunk.tier == "unsafe" for hunk in patch.hunks) else {}


def assumed(root: Path, script: Path, schemes: tuple[str, ...] = ASKED, *, unsafe: bool = False) -> Plan:
    """Without a recording: patches that assume every read, copy and synchronize of the file to have fired.

    Those of proved hunks alone, as in `planned`, and versions of their own where checked hunks add to them.
    """
    from tracelens.patch.code import source
    from tracelens.patch.loop import sites
    from tracelens.patch.recipes import PatchOptions, make

    shown = str(script.relative_to(root))
    found = sites.find(source.parse(script, shown, script.read_bytes()))
    patches = {}
    for name in schemes:
        kinds = KINDS[name]
        places: dict[str, list[Location]] = {}
        for site in found:
            for kind in kinds.get(site.kind, ()):
                places.setdefault(kind, []).append(Location(shown, site.line))
        edits = tuple(Edit(kind, locations=tuple(where), interval=INTERVAL) for kind, where in places.items())  # type: ignore[arg-type]
        patches[name] = make(root, script, edits, (), PatchOptions(checked=False))
        patches |= _with_checked_hunks(name + CHECKED, make(root, script, edits, (), PatchOptions(lossy=False)))
        if name == ASKED[0]:
            patches |= _with_checked_hunks(name + LOSSY, make(root, script, edits, (), PatchOptions()))
    if unsafe:
        reads = tuple(Location(shown, site.line) for site in found if site.kind == "read")
        kinds_of_reads = ("defer-read", "thin-logs", "move-guard")
        edits = tuple(Edit(kind, locations=reads, interval=INTERVAL) for kind in kinds_of_reads)  # type: ignore[arg-type]
        patches |= _with_unsafe_hunks(ASKED[0], make(root, script, edits, (), PatchOptions(unsafe=True)))
    return Plan(patches)


def by_hand(script: Path, edits: dict[str, str]) -> Patch:
    """What somebody who knows the script would change, as the manifest gives it: texts, each of which occurs once."""
    before = script.read_text()
    after = before
    for old, new in edits.items():
        if before.count(old) != 1:
            raise ValueError(f"{script.name} holds {before.count(old)} times: {old!r}")
        after = after.replace(old, new)
    return Patch(script.parent, (FilePatch(script, before.encode(), after.encode()),), (), (), "")
