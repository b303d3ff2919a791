"""Step times of versions of a training script, by turns.

    python by_turns.py STEPS TURNS NAME=FOLDER… -- SCRIPT [ARGUMENT…]

Each version is a fresh process. All get ready side by side; then one trains while the others stand still behind an
optimizer step, their GPU work done and their loaders full. A line per turn: version, then ms and CPU ms per step.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

WARM, WARM_AGAIN = 20, 5


def main(words: list[str]) -> int:
    at = words.index("--")
    steps, turns, *versions = words[:at]
    children = {}
    for version in versions:
        name, _, folder = version.partition("=")
        children[name] = _Child([steps, *words[at + 1 :]], Path(folder))
    try:
        for child in children.values():
            child.answer()
        for turn in range(int(turns)):
            for name in sorted(children, reverse=turn % 2 == 1):
                print(name, "TIMED", children[name].turn(), flush=True)
    finally:
        for child in children.values():
            child.process.kill()
    return 0


class _Child:
    """One version, which stands still until it is told to train."""

    def __init__(self, words: list[str], folder: Path) -> None:
        go, self._go = os.pipe()
        self._done, done = os.pipe()
        with (folder / "by_turns.txt").open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), "child", str(go), str(done), *words],
                cwd=folder,
                pass_fds=(go, done),
                stdout=said,
                stderr=said,
            )
        os.close(go)
        os.close(done)

    def answer(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._done, 1)
            if not part:
                raise SystemExit(f"ended before it was timed: {self.process.args}")
            line += part
        return line.decode().strip()

    def turn(self) -> str:
        os.write(self._go, b"g")
        return self.answer()


def train(go: int, done: int, steps: int) -> None:
    """Runs the script of `sys.argv`; stands still after the warm-up and after each turn until a byte comes."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def now() -> tuple[float, float]:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter(), time.process_time()

    def life() -> Iterator[int]:
        """Gives how many steps come before it is asked again."""
        yield WARM
        now()
        os.write(done, b"ready\n")
        while os.read(go, 1):
            yield WARM_AGAIN
            begun = now()
            yield steps
            ms, cpu_ms = (1e3 * (end - start) / steps for end, start in zip(now(), begun, strict=True))
            os.write(done, json.dumps({"ms": round(ms, 3), "cpu_ms": round(cpu_ms, 3)}).encode() + b"\n")
        os._exit(0)

    lives = life()
    state = {"left": next(lives)}

    def after(optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
        if state.setdefault("first", id(optimizer)) != id(optimizer):
            return
        state["left"] -= 1
        if not state["left"]:
            state["left"] = next(lives)

    register_optimizer_step_post_hook(after)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "child":
        places = [int(word) for word in sys.argv[2:5]]
        sys.argv = sys.argv[5:]
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)  # not this file's: stand-ins of other scripts lie there
        train(*places)
    else:
        raise SystemExit(main(sys.argv[1:]))
