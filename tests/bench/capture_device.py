"""Everything about recording that needs a GPU machine, in one go, with a budget of its own.

    python tests/bench/capture_device.py OUT [--sources DIR] [--seconds 200]

In: one or two CUDA devices. Out: OUT/price.json, questions.json, truth.json and matrix.xml, each written as it grows.
The price is measured first and alone; the rest runs side by side.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--price", type=float, default=35.0)
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + words.seconds
    out = words.out.resolve()
    last = _devices() - 1
    price = _start("price", [str(HERE / "capture_price.py"), "-o", str(out / "price.json"), "--seconds",
                             str(words.price)], 0)  # fmt: skip
    _wait([price], end)
    sources = ["--sources", str(words.sources.resolve())] if words.sources else []
    beside = [
        _start("truth", [str(HERE / "attribution_truth.py"), "-o", str(out / "truth.json"), "--parallel", "7",
                         "--seconds", "60", "--budget", "70", *sources], last),
        _start("questions", [str(HERE / "capture_gpu.py"), "-o", str(out / "questions.json"), "--parallel", "4"], 0),
        _start("matrix", _matrix(out / "matrix.xml", "gpu", "6"), 0),
    ]  # fmt: skip
    _wait(beside, end)
    if last > 0:
        _wait([_start("matrix2", _matrix(out / "matrix2.xml", "gpu", "4"), None)], end)


def _matrix(results: Path, marker: str, workers: str) -> list[str]:
    return ["-m", "pytest", "-q", "tests/matrix", "-m", marker, "-n", workers, "--junitxml", str(results),
            "-W", "default", "-p", "no:cacheprovider", "--tb=short"]  # fmt: skip


def _devices() -> int:
    code = "import torch; print(torch.cuda.device_count())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def _start(name: str, words: list[str], device: int | None) -> tuple[str, subprocess.Popen[bytes]]:
    environment = {**os.environ, "TRACELENS_MATRIX": "only2" if name == "matrix2" else "1"}
    if device is not None and device >= 0:
        environment["CUDA_VISIBLE_DEVICES"] = str(device)
    print(f"[{time.strftime('%H:%M:%S')}] {name}", flush=True)
    return name, subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment)


def _wait(started: list[tuple[str, subprocess.Popen[bytes]]], end: float) -> None:
    for name, process in started:
        try:
            status = process.wait(timeout=max(1.0, end - time.monotonic()))
            print(f"[{time.strftime('%H:%M:%S')}] {name} ended: {status}", flush=True)
        except subprocess.TimeoutExpired:
            process.kill()
            print(f"[{time.strftime('%H:%M:%S')}] {name} ran out of time", flush=True)


if __name__ == "__main__":
    main()
