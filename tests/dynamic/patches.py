"""The patches of one public script: what TraceLens makes of a recording, or, without a GPU, of every place it knows.

In: the folder of a script and a recorded Run, or no Run. Out: a `Plan`: the patch of each version that is compared,
what was declined and why, what is recommended.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelens.model import Edit, Location, Patch

ASKED = ("event-interval", "full-pipeline")
"""Schemes that are patched because they are named, whether they pay or not."""
INTERVAL = 10
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
    """Profile the script as a user would; returns the Run folder."""
    words = [sys.executable, "-m", "tracelens", "profile", "-q", "-o", str(runs), "--stop-after-window", script.name]
    done = subprocess.run(
        [*words, *arguments],
        cwd=script.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    if not (runs / "run.json").is_file():
        raise RuntimeError(f"profile left no Run (exit {done.returncode}): {done.stderr[-600:]}")
    return runs


def planned(run: Path) -> Plan:
    """The plan as `recommend` makes it, and the patches of the schemes that are asked for by name."""
    from tracelens import pipeline

    examined = pipeline.examine(pipeline.open_inputs((run,)))
    own = pipeline.plan(examined)
    advice = own.recommendation
    patches = {}
    if advice is not None and advice.scheme in own.patches:
        patches["recommended"] = own.patches[advice.scheme]
    for name in ASKED:
        forced = pipeline.plan(examined, pipeline.Options(forced=name))
        patches[name] = forced.patches.get(name) or Patch(Path("/"), (), (), (), "")
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


def assumed(root: Path, script: Path, schemes: tuple[str, ...] = ASKED) -> Plan:
    """Without a recording: patches that assume every read, copy and synchronize of the file to have fired."""
    from tracelens.patch import sites, source
    from tracelens.patch.recipes import make

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
        patches[name] = make(root, script, edits, (), INTERVAL)
    return Plan(patches)
