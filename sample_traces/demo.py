"""What `make demo` does: the whole loop, first on a run that was recorded on an H200, then on this machine.

Works on copies below `demo-out/`, so that the checkout stays as it is. Opens nothing; the last lines say where the
reports are.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "demo-out"
CASE = "sync_every_batch"


def main() -> int:
    shutil.rmtree(OUT, ignore_errors=True)
    here, recorded = OUT / "this-machine", OUT / "h200"
    here.mkdir(parents=True)
    shutil.copy(HERE / CASE / "train.py", here)
    shutil.copytree(HERE / CASE, recorded)

    title("A training script, recorded and verified on an NVIDIA H200")
    for command in ("recommend", "report", "apply"):
        tracelens(recorded, command, "run/")
    # The measurement of the H200 stays in its Run; here the same patch is held against the original on this machine.
    shutil.copy(HERE / CASE / "train.py", recorded / "original.py")
    tracelens(recorded, "verify", "original.py", "train.py", "--steps", "20", "--budget", "1m", expect=(0, 3))
    tracelens(recorded, "revert", "run/")

    title("The same script on this machine")
    tracelens(here, "profile", "-o", "run", "--stop-after-window", "train.py")
    for command in (["recommend"], ["report"], ["apply"], ["verify", "--steps", "40", "--budget", "1m"]):
        tracelens(here, command[0], "run/", *command[1:], expect=(0, 3))

    title("Two reports to look at")
    print(f"  H200           {(recorded / 'run' / 'report.html').relative_to(OUT.parent)}")
    print(f"  this machine   {(here / 'run' / 'report.html').relative_to(OUT.parent)}")
    return 0


def title(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}", flush=True)


def tracelens(folder: Path, *words: str, expect: tuple[int, ...] = (0,)) -> None:
    print(f"\n$ tracelens {shlex.join(words)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "tracelens", *words], cwd=folder, check=False).returncode
    if status not in expect:
        raise SystemExit(f"tracelens {words[0]} returned {status}; the demo stops here")


if __name__ == "__main__":
    sys.exit(main())
