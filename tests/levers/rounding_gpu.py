"""Levers that round otherwise on three loops: `python -m tests.levers.rounding_gpu OUT [LEVER…]`.

Writes the patch of the levers for each loop, runs original and patched script by turns and puts their step times into
OUT/times.json, with the diffs beside it. With `--prepare` it stops before running; `--prepared` runs what is there, for
which torch is enough. With `--fix LOOP` it is the whole command on one loop. On a CPU the loops are small, to rehearse.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens.model import Edit

LOOPS = Path(__file__).parent / "rounding"
NAMES = ("conv", "gpt", "vit")
ROUNDS = 2


def edits(levers: list[str]) -> tuple[Edit, ...]:
    """The Edits of these levers, as `fix` has them."""
    from tracelens.levers.definition import by_id
    from tracelens.model import Edit
    from tracelens.schemes import rules

    known = rules.load().levers
    out = []
    for lever in levers:
        name, _, value = lever.partition("=")
        rule = by_id(known, name)
        if rule is None or rule.recipe is None:
            raise SystemExit(f"no recipe writes {lever}")
        out.append(Edit(rule.recipe, choice=value))
    return tuple(out)


def ran(script: Path, steps: int) -> tuple[list[float], float]:
    """The losses that a script prints, and its step in ms once it is warm."""
    done = subprocess.run(
        [sys.executable, script.name, str(steps)], cwd=script.parent, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script}: {done.stderr[-2000:]}")
    losses = [float(found) for found in re.findall(r"loss (\S+)", done.stdout)]
    return losses, float(re.findall(r"step_ms (\S+)", done.stdout)[0])


def prepared(name: str, levers: list[str], out: Path) -> None:
    """One loop as it is and patched, in two folders, with what was done to it."""
    from tracelens.patch.recipes import PatchOptions, make

    folders = [out / name / which for which in ("original", "patched")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(LOOPS / f"{name}.py", folder / "train.py")
    patch = make(folders[1], folders[1] / "train.py", edits(levers), (), PatchOptions(unsafe=True))
    for file in patch.files:
        file.path.write_bytes(file.after)
    (out / f"{name}.diff").write_text(patch.diff)
    said = {
        "loop": name,
        "levers": levers,
        "hunks": [f"{hunk.location} {hunk.edit}" for hunk in patch.hunks],
        "declined": [f"{one.location} {one.edit}: {one.obstacle}" for one in patch.declined],
    }
    (out / f"{name}.json").write_text(json.dumps(said))


def timed(name: str, out: Path, steps: int) -> dict[str, Any]:
    """One loop, original and patched by turns; the speed-up is that of the last turn, with what was compiled kept."""
    scripts = [out / name / which / "train.py" for which in ("original", "patched")]
    rows = [[ran(script, steps) for script in scripts] for _ in range(ROUNDS)]
    return {
        **json.loads((out / f"{name}.json").read_text()),
        "step_ms": [[step for _, step in row] for row in rows],
        "losses": [[losses for losses, _ in row] for row in rows],
        "speedup": rows[-1][0][1] / rows[-1][1][1],
    }


def fixed(name: str, levers: list[str], out: Path, budget: str) -> None:
    """`tracelens fix` on one loop; what it prints is the result."""
    folder = out / f"fix-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(LOOPS / f"{name}.py", folder / "train.py")
    command = [sys.executable, "-m", "tracelens", "fix", "train.py", *levers, "--no-write", "--budget", budget]
    done = subprocess.run([*command, "--", "4000"], cwd=folder, capture_output=True, text=True, check=False)
    (out / f"fix-{name}.txt").write_text(f"{done.stdout}\n{done.stderr}\nexit {done.returncode}\n")
    print(done.stdout, done.stderr[-1500:], f"exit {done.returncode}", sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("levers", nargs="*", default=["bf16", "compile", "fused"])
    parser.add_argument("--loops", nargs="*", default=list(NAMES))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--fix", choices=NAMES, help="the whole command on one loop instead")
    parser.add_argument("--budget", default="150s")
    parser.add_argument("--prepare", action="store_true", help="write the scripts, run nothing")
    parser.add_argument("--prepared", action="store_true", help="run the scripts that are there")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.fix:
        fixed(asked.fix, asked.levers, asked.out, asked.budget)
        return
    if not asked.prepared:
        for name in asked.loops:
            prepared(name, asked.levers, asked.out)
    rows: list[dict[str, Any]] = []
    for name in () if asked.prepare else asked.loops:
        rows.append(timed(name, asked.out, asked.steps))
        print(json.dumps(rows[-1]), flush=True)
        (asked.out / "times.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
