"""Record the sample Runs again, on a machine with a CUDA GPU: the whole loop, for every case.

    python sample_traces/record.py OUT [CASE ...] [--budget 4m]

Writes OUT/<case>/train.py and OUT/<case>/run/ with the trace, the analysis and the verification; nothing in the
checkout changes. Copy `OUT/<case>/run` over `sample_traces/<case>/run` to keep a recording. The output of every
command goes to OUT/<case>/log.txt as well.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = {
    "sync_every_batch": "event-interval",
    "gpu_bound": "event-interval",
    "pageable_copies": "pinned-copy",
    "host_bound": "event-interval",
    "loader_bound": "event-interval",
}
"""Which scheme is measured. Where none is recommended, the one that removes every synchronization shows why."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--budget", default="4m", help="time for one verification")
    parser.add_argument("--no-verify", action="store_true")
    options = parser.parse_args()
    failed = [case for case in options.cases if not record(case, options)]
    print(f"recorded: {', '.join(case for case in options.cases if case not in failed) or 'nothing'}")
    print(f"failed: {', '.join(failed) or 'nothing'}")
    return 1 if failed else 0


def record(case: str, options: argparse.Namespace) -> bool:
    folder = options.out / case
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / case / "train.py", folder)
    # Ten steps keep the largest trace below 1.5 MB.
    steps = [
        ["profile", "-o", "run", "--steps", "10", "--stop-after-window", "train.py"],
        ["recommend", "run"],
        ["report", "run"],
        ["apply", "run"],
    ]
    if not options.no_verify:
        steps.append(["verify", "run", "--scheme", CASES[case], "--budget", options.budget])
    steps += [["revert", "run"], ["recommend", "run"]]
    # verify's 3 is an answer ("inconclusive"), and it is kept like the others
    fine = {"verify": (0, 3), "revert": (0, 4)}  # and nothing was applied where nothing is recommended
    return all(tracelens(folder, *words) in fine.get(words[0], (0,)) for words in steps)


def tracelens(folder: Path, *words: str) -> int:
    command = [sys.executable, "-m", "tracelens", *words]
    started = time.monotonic()
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    head = f"$ tracelens {shlex.join(words)}   [exit {result.returncode}, {time.monotonic() - started:.0f} s]"
    text = f"{head}\n{result.stdout}{result.stderr}\n"
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        log.write(text)
    print(f"== {folder.name}\n{text}", flush=True)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
