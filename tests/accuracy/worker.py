"""One worker: bound to one GPU and its share of the cores, takes rows until none is left or the time is up.

In: see `--help`. Out: per row a JSON file in OUT/rows, and its recording in OUT/runs. A worker imports torch once and
forks every process from there; it never touches the GPU itself.

Per row: record → predict and patch (beside the first run of the base) → base and versions, interleaved, each in fresh
processes, three times, five where the interval is wide.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[0:0] = [str(Path(__file__).resolve().parents[level]) for level in (2, 1)]

from accuracy import arm as arms  # noqa: E402
from accuracy import rows as listed  # noqa: E402
from accuracy.stats import half_width, median  # noqa: E402

REPEATS, MOST_REPEATS = 3, 5
WIDE = 0.03
WARMUP_SECONDS, MEASURED_SECONDS = 0.5, 1.4
LEAST_WARMUP, LEAST_BLOCKS, MOST_BLOCKS = 20, 6, 150
ARM_SECONDS = 60.0
RECORD_SECONDS = 90.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--known", type=Path, required=True, help="rows that are there already are left out")
    parser.add_argument("--cores", default="")
    parser.add_argument("--until", type=float, required=True, help="Unix time after which no row is begun")
    parser.add_argument("--stop", type=float, default=math.inf, help="Unix time after which no process is started")
    parser.add_argument("--quick", action="store_true", help="shorter stretches, three rounds and no more")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the harness without a GPU")
    parser.add_argument("--check", choices=("first", "other"), help="see `disturbance`")
    parser.add_argument(
        "--benchmark", choices=("pinning", "streams", "pinmain"), help="run this micro-benchmark after the rows"
    )
    parser.add_argument("--oracle", action="store_true", help="record each patched version as well")
    options = parser.parse_args()
    if options.cores:
        first, last = map(int, options.cores.split("-"))
        os.sched_setaffinity(0, range(first, last + 1))
    _import_everything()
    work = options.out / "work" / f"worker-{os.getpid()}"
    work.mkdir(parents=True)
    if options.check:
        disturbance(options, work)
    for row in listed.chosen(options.rows):
        if (options.known / f"{row.name}.json").exists() or time.time() > options.until or not _claim(options.out, row):
            continue
        started = time.monotonic()
        try:
            document = _Row(row, work / row.name, options).measured()
        except Exception as error:  # one loop that fails must not cost the others
            document = {"row": row.name, "failed": repr(error)}
        folder = options.out / ("rows" if "failed" not in document else "failed")
        folder.mkdir(exist_ok=True)
        (folder / f"{row.name}.json").write_text(json.dumps(document), encoding="utf-8")
        print(f"{row.name}: {time.monotonic() - started:.0f} s {document.get('failed', '')}", flush=True)
    if options.benchmark:
        out, log = options.out / f"{options.benchmark}.json", options.out / f"{options.benchmark}.log"
        if not arms.forked(lambda: _benchmark(options.benchmark, out), 2 * ARM_SECONDS, log):
            print(f"{options.benchmark} failed: {_tail(log)}", flush=True)
    return 0


def _benchmark(name: str, out: Path) -> None:
    from importlib import import_module

    found = import_module(f"accuracy.{name}").measured()
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _import_everything() -> None:
    """All that the forked processes need, without touching CUDA."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    import timm  # noqa: F401
    import torch.utils.data
    import torchvision.models  # noqa: F401

    import tracelens.capture.agent
    import tracelens.patch.recipes
    import tracelens.pipeline  # noqa: F401

    assert not torch.cuda.is_initialized()


def _claim(out: Path, row: listed.Row) -> bool:
    folder = out / "claims"
    folder.mkdir(exist_ok=True)
    try:
        os.close(os.open(folder / row.name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class _Row:
    """One row on its way through recording, prediction and measurement."""

    def __init__(self, row: listed.Row, folder: Path, options: argparse.Namespace) -> None:
        self.row, self.options = row, options
        self.folder, self.versions = folder, folder / "versions"
        self.arguments = tuple((row.small if options.small else row.arguments).split())
        self.arms: list[dict[str, Any]] = []
        self.step_us = 0.0
        folder.mkdir()
        shutil.copy(row.script, folder / "train.py")
        shutil.copy(listed.LOOPS / "images.py", folder)

    def measured(self) -> dict[str, Any]:
        meta = self._record()
        self.step_us = meta["ranks"][0]["clock"]["unprofiled_mean_ns"] / 1e3
        out = self.folder / "prediction.json"
        predictor = _beside(lambda: _predict(self.folder / "run", out, self.versions), self.folder / "predict.log")
        self._arm("base", self.folder, 0)
        predictor()
        prediction = json.loads(out.read_text(encoding="utf-8"))
        self._keep_recording()
        versions = every = sorted(
            {scheme["version"] for scheme in prediction["schemes"].values() if scheme.get("version")}
        )
        for rep in range(MOST_REPEATS):
            if rep == REPEATS:
                versions = self._wide(versions)
            if rep >= REPEATS and (self.options.quick or not versions):
                break
            for version in ("base", *versions):
                if (version, rep) != ("base", 0) and time.time() < self.options.stop:
                    self._arm(version, self.folder if version == "base" else self.versions / version, rep)
        if self.options.oracle:
            self._record_versions(every)
        return self._document(meta, prediction, every)

    def _document(self, meta: dict[str, Any], prediction: dict[str, Any], versions: list[str]) -> dict[str, Any]:
        environment = meta.get("environment", {})
        return {
            "schema": 1,
            "row": self.row.name,
            "loop": self.row.loop,
            "size": self.row.size,
            "arguments": " ".join(self.arguments),
            "tuning": self.row.tuning,
            "environment": {key: environment.get(key) for key in ("python", "torch", "cuda", "driver", "gpus")},
            "prediction": prediction,
            "versions": versions,
            "block": arms.BLOCK,
            "arms": self.arms,
        }

    def _record(self) -> dict[str, Any]:
        record(self.folder, self.folder / "run", self.arguments)
        meta: dict[str, Any] = json.loads((self.folder / "run" / "run.json").read_text(encoding="utf-8"))
        if not meta["complete"]:
            raise RuntimeError(f"not recorded: {meta['reason']}: {_tail(self.folder / 'record.log')}")
        return meta

    def _keep_recording(self) -> None:
        kept = self.options.out / "runs" / self.row.name
        shutil.copytree(self.folder / "run", kept / "run")
        for file in self.folder.glob("*.py"):
            shutil.copy(file, kept)
        shutil.copytree(self.versions, kept / "versions", dirs_exist_ok=True) if self.versions.exists() else None

    def _record_versions(self, versions: list[str]) -> None:
        """The patched versions' own traces: what the replay should have said, read off the real thing."""
        for version in versions:
            record(self.versions / version, self.versions / version / "run", self.arguments, short=True)
            target = self.options.out / "runs" / self.row.name / "oracle" / version
            shutil.copytree(self.versions / version / "run", target)

    def _arm(self, version: str, folder: Path, rep: int) -> None:
        out = self.folder / f"arm-{version}-{rep}.json"
        share = 0.4 if self.options.quick else 1.0
        warmup = max(LEAST_WARMUP, math.ceil(share * WARMUP_SECONDS * 1e6 / self.step_us / arms.BLOCK) * arms.BLOCK)
        blocks = math.ceil(share * MEASURED_SECONDS * 1e6 / self.step_us / arms.BLOCK)
        wanted = arms.Arm(str(folder), self.arguments, warmup, min(MOST_BLOCKS, max(LEAST_BLOCKS, blocks)), str(out))
        if self.options.small:
            wanted = arms.Arm(str(folder), self.arguments, 20, 6, str(out))
        log = self.folder / f"arm-{version}.log"
        if not arms.forked(lambda: arms.measure(wanted), ARM_SECONDS, log):
            raise RuntimeError(f"{version} failed: {_tail(log)}")
        self.arms.append({"version": version, "rep": rep} | json.loads(out.read_text(encoding="utf-8")))

    def _wide(self, versions: list[str]) -> list[str]:
        """The versions that need more repeats; all of them where the base does, since it is what they are held to."""
        wide = [version for version in versions if half_width(self._medians(version)) > WIDE]
        return wide or (versions[:1] if half_width(self._medians("base")) > WIDE else [])

    def _medians(self, version: str) -> list[float]:
        return [median(arm["block_us"]) for arm in self.arms if arm["version"] == version]


def record(folder: Path, run: Path, arguments: tuple[str, ...], *, short: bool = False) -> None:
    """`tracelens profile`, with the child forked instead of started: what the product records, without its imports."""
    from tracelens.capture import session
    from tracelens.capture.plan import Plan
    from tracelens.launch import supervise

    def started(launch: Any, boot: Path, on_poll: Any, on_start: Any = None) -> int:
        config = json.loads((boot / "config.json").read_text(encoding="utf-8"))
        good = arms.forked(lambda: _recorded(config, folder, arguments), RECORD_SECONDS, folder / "record.log")
        return 0 if good else 1

    supervise.run = started
    plan = Plan(unprofiled_steps=10, unprofiled_seconds=0.2, clean=8, attributed=1) if short else Plan()
    session.profile(
        session.ProfileOptions(
            kind="script",
            words=("train.py", *arguments),
            out=run,
            plan=plan,
            stop_after_window=True,
            monitor=False,
            cwd=folder,
        )
    )


def _recorded(config: dict[str, Any], folder: Path, arguments: tuple[str, ...]) -> None:
    import torch

    from tracelens.capture import agent

    torch.manual_seed(0)
    agent.arm(config)
    arms.script(str(folder), arguments)


def _predict(run: Path, out: Path, versions: Path) -> None:
    from accuracy import predict

    predict.write(run, out, versions)


def _beside(work: Callable[[], None], log: Path) -> Callable[[], None]:
    """Start `work` in a forked process; what is returned waits for it."""
    pid = os.fork()
    if pid == 0:
        arms._child(work, log)

    def wait() -> None:
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"no prediction: {_tail(log)}")

    return wait


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-1500:] if log.exists() else "no output"


# ------------------------------------------------------------------------------------------- do workers disturb?


def disturbance(options: argparse.Namespace, work: Path) -> None:
    """Time two loops alone on the machine, then on all workers at once; kept in disturbance-*.json."""
    gate = options.out / "alone-done"
    found: dict[str, Any] = {}
    if options.check == "first":
        found["alone"] = _timed(work / "alone", options)
        gate.touch()
    while not gate.exists():
        time.sleep(0.05)
    found["together"] = _timed(work / "together", options)
    (options.out / f"disturbance-{os.getpid()}.json").write_text(json.dumps(found), encoding="utf-8")
    print(f"disturbance: {found}", flush=True)


def _timed(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    found = {}
    for name, step_us in (("mlp-w0", 2500), ("large_images-b16", 12000)):
        row = next(row for row in listed.ROWS if row.name == name)
        folder.parent.mkdir(exist_ok=True)
        one = _Row(row, folder.with_name(f"{folder.name}-{name}"), options)
        one.step_us = step_us
        one._arm("base", one.folder, 0)
        found[name] = median(one.arms[0]["block_us"])
    return found


if __name__ == "__main__":
    sys.exit(main())
