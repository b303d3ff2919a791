"""How often does a pin thread hand over a batch? The bundled pageable_copies loop with its loader pinned.

    python tests/accuracy/pinthread.py OUT.json [--workers 12 4]

In: nothing; needs a GPU, about 10 s per number of workers. Out: per number of workers, the pin thread's time between
two batches and in the copy of one, wall and CPU, in ms, over the second half of the loop: the first batches were ready
before it began.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "sample_traces" / "pageable_copies" / "train.py"
CHANGES = {
    "num_workers=args.workers,": "num_workers=args.workers, pin_memory=True,",
    "clips.to(device)": "clips.to(device, non_blocking=True)",
    "labels.to(device)": "labels.to(device, non_blocking=True)",
}
COLUMNS = ("between_wall_ms", "between_cpu_ms", "copy_wall_ms", "copy_cpu_ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--workers", nargs="*", default=["12", "4"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        options.out.write_text(json.dumps(_timed(options.one)), encoding="utf-8")
        return
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in options.workers:
            part = Path(folder) / workers
            command = [sys.executable, __file__, str(part), "--one", workers]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            found[workers] = json.loads(part.read_text(encoding="utf-8"))
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _timed(workers: str) -> dict[str, Any]:
    from torch.utils.data._utils import pin_memory

    rows: list[tuple[float, ...]] = []
    pin_memory.pin_memory = _watched(pin_memory.pin_memory, rows)
    text = SCRIPT.read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        assert old in text, f"{SCRIPT} has changed: no {old}"
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(text, encoding="utf-8")
        sys.argv = [str(script), "--workers", workers]
        runpy.run_path(str(script), run_name="__main__")
    late = rows[len(rows) // 2 :]
    return {"batches": len(rows)} | {
        name: round(1e3 * statistics.mean(row[column] for row in late), 2) for column, name in enumerate(COLUMNS)
    }


def _watched(original: Any, rows: list[tuple[float, ...]]) -> Any:
    """`pin_memory` calls itself for each part of a batch; only the outermost call is a batch."""
    local = threading.local()

    def pin(data: Any, device: Any = None) -> Any:
        if getattr(local, "inside", False):
            return original(data, device)
        local.inside, began = True, (time.perf_counter(), time.thread_time())
        last = getattr(local, "last", began)
        pinned = original(data, device)
        local.inside, local.last = False, (time.perf_counter(), time.thread_time())
        rows.append((began[0] - last[0], began[1] - last[1], local.last[0] - began[0], local.last[1] - began[1]))
        return pinned

    return pin


if __name__ == "__main__":
    main()
