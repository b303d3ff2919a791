"""Everything about recording that needs a GPU machine, in one go, with a budget of its own.

    python tests/bench/capture_device.py OUT [--sources DIR] [--seconds 220]

In: one or two CUDA devices. Out: OUT/price.json, machine*.json, questions.json, truth.json, gpu.xml, matrix.xml and
matrix2.xml, each written as it grows. What is timed comes first: the price on one device, the machine's constants on
the last one, each on cores of its own. The rest runs side by side.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
GPU_TESTS = ("tests/runtime/test_runtime.py", "tests/runtime/test_gpu.py", "tests/patch/test_timing.py",
             "tests/replay/test_calibration.py")  # fmt: skip

Part = tuple[str, list[str], int | None, str]
"""Name, Python's arguments, the device (None: all of them), which half of the cores."""
Started = tuple[str, subprocess.Popen[bytes]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--price", type=float, default=60.0)
    parser.add_argument("--questions", default="events,hung")
    parser.add_argument("--skip", default="", help="parts that are left out")
    words = parser.parse_args()
    words.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + words.seconds
    out = words.out.resolve()
    skipped = set(words.skip.split(","))
    last = _devices() - 1
    for group in (_timed(out, words, last), _beside(out, words, last), _together(out, last)):
        _wait([_start(*part) for part in group if part[0] not in skipped], end)


def _timed(out: Path, words: argparse.Namespace, last: int) -> list[Part]:
    price = [str(HERE / "capture_price.py"), "-o", str(out / "price.json"), "--seconds", str(words.price)]
    parts: list[Part] = [("price", price, 0, "first")]
    return [*parts, *_constants(out, words, last)] if last > 0 else parts


def _constants(out: Path, words: argparse.Namespace, last: int) -> list[Part]:
    """On a machine of one device beside other work: then they are no measurement, but it is known that they work."""
    keep = f"TRACELENS_CACHE={out} {sys.executable} -m tracelens doctor --calibrate --format json > {out}/doctor.json; "
    ask = f"{sys.executable} {HERE}/capture_gpu.py -o {out}/questions.json --parallel 1 --only {words.questions}"
    code = f"import subprocess; subprocess.run({keep + ask!r}, shell=True)"
    return [("constants", ["-c", code], max(0, last), "second")]


def _beside(out: Path, words: argparse.Namespace, last: int) -> list[Part]:
    sources = ["--sources", str(words.sources.resolve())] if words.sources else []
    truth = [str(HERE / "attribution_truth.py"), "-o", str(out / "truth.json"), "--parallel", "8", "--seconds", "75",
             "--budget", "75", *sources]  # fmt: skip
    matrix = _pytest(out / "matrix.xml", "6", "tests/matrix")
    parts: list[Part] = [("truth", truth, last, "all"), ("matrix", matrix, 0, "all")]
    return parts if last > 0 else [*_constants(out, words, last), *parts]


def _together(out: Path, last: int) -> list[Part]:
    tests = _pytest(out / "gpu.xml", "2", *(test for test in GPU_TESTS if (ROOT / test).is_file()))
    parts: list[Part] = [("gpu", tests, None, "all")]
    return [*parts, ("matrix2", _pytest(out / "matrix2.xml", "4", "tests/matrix"), None, "all")] if last > 0 else parts


def _pytest(results: Path, workers: str, *tests: str) -> list[str]:
    return ["-m", "pytest", "-q", *tests, "-m", "gpu", "-n", workers, "--junitxml", str(results),
            "-W", "default", "-p", "no:cacheprovider", "--tb=short", "-rfEs"]  # fmt: skip


def _devices() -> int:
    code = "import torch; print(torch.cuda.device_count())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def _start(name: str, words: list[str], device: int | None, cores: str) -> Started:
    environment = {**os.environ, "TRACELENS_MATRIX": "only2" if name == "matrix2" else "1"}
    if device is not None and device >= 0:
        environment["CUDA_VISIBLE_DEVICES"] = str(device)
    print(f"[{time.strftime('%H:%M:%S')}] {name}", flush=True)
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, start_new_session=True)
    here = sorted(os.sched_getaffinity(0))
    half = len(here) // 2
    os.sched_setaffinity(process.pid, {"first": here[:half], "second": here[half:], "all": here}[cores] or here)
    return name, process


def _wait(started: list[Started], end: float) -> None:
    for name, process in started:
        try:
            status = process.wait(timeout=max(1.0, end - time.monotonic()))
            print(f"[{time.strftime('%H:%M:%S')}] {name} ended: {status}", flush=True)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            print(f"[{time.strftime('%H:%M:%S')}] {name} ran out of time", flush=True)


if __name__ == "__main__":
    main()
