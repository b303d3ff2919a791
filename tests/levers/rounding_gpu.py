"""Levers that round otherwise on three loops: `python -m tests.levers.rounding_gpu OUT [LEVER…]`.

Writes the patch of the levers for each loop, runs original and patched script by turns and puts their step times into
OUT/times.json, with the diffs beside it. With `--fix LOOP` it is the whole command on one loop. On a CPU the loops are
small, to rehearse it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tracelens.levers.definition import by_id
from tracelens.model import Edit
from tracelens.patch.recipes import PatchOptions, make
from tracelens.schemes import rules

LOOPS = Path(__file__).parent / "rounding"
NAMES = ("conv", "gpt", "vit")
ROUNDS = 2


def edits(levers: list[str]) -> tuple[Edit, ...]:
    """The Edits of these levers, as `fix` has them."""
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


def timed(name: str, levers: list[str], out: Path, steps: int) -> dict[str, object]:
    """One loop, original and patched by turns."""
    folders = [out / name / which for which in ("original", "patched")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(LOOPS / f"{name}.py", folder / "train.py")
    script = folders[1] / "train.py"
    patch = make(folders[1], script, edits(levers), (), PatchOptions(unsafe=True))
    for file in patch.files:
        file.path.write_bytes(file.after)
    (out / f"{name}.diff").write_text(patch.diff)
    rows = [[ran(folder / "train.py", steps) for folder in folders] for _ in range(ROUNDS)]
    return {
        "loop": name,
        "levers": levers,
        "hunks": [f"{hunk.location} {hunk.edit}" for hunk in patch.hunks],
        "declined": [f"{one.location} {one.edit}: {one.obstacle}" for one in patch.declined],
        "step_ms": [[step for _, step in row] for row in rows],
        "losses": [[losses for losses, _ in row] for row in rows],
        "speedup": max(row[0][1] / row[1][1] for row in rows[-1:]),
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
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.fix:
        fixed(asked.fix, asked.levers, asked.out, asked.budget)
        return
    rows = []
    for name in asked.loops:
        rows.append(timed(name, asked.levers, asked.out, asked.steps))
        print(json.dumps(rows[-1]), flush=True)
        (asked.out / "times.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
