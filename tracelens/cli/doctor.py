"""`tracelens doctor`: is this machine able to record what we need?

Torch is asked in a process of its own: this one must work where torch does not.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from tracelens.cli import options, output

TORCH_SECONDS = 120
"""A first import of torch from a cold network disk takes a minute."""
LEAST_FREE_BYTES = 2 << 30
"""A window of a large model is some 100 MB of trace; a verification copies sources and caches."""
ADMIN_ONLY = Path("/proc/driver/nvidia/params")
PROBE = """
import json, torch
cuda = torch.cuda.is_available()
facts = {"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "available": cuda,
         "device": torch.cuda.get_device_name(0) if cuda else None, "kernels": None}
if cuda:
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        torch.ones(1024, device="cuda").sum().item()
    facts["kernels"] = sum(1 for e in recorded.events() if "CUDA" in str(e.device_type))
print(json.dumps(facts))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """`good` is None where nothing is wrong but something is missing that we could use."""

    name: str
    good: bool | None
    found: str
    cure: str = ""


@click.command(short_help="Is this machine able to record what we need?")
@click.option("--calibrate", is_flag=True, help="Measure this machine's launch and copy costs for the replay.")
@options.text_or_json
def doctor(calibrate: bool, form: str) -> int:
    """Check Python, PyTorch, driver, profiler permissions and package traps; each with its cure."""
    torch = _torch()
    checks = [check for question in CHECKS for check in question(torch)]
    if calibrate:
        checks.append(NO_CALIBRATION)
    if form == "json":
        output.document({"schema_version": 1, "checks": [asdict(check) for check in checks]})
    else:
        output.result("\n".join(_line(check) for check in checks))
        output.result("\nnext: tracelens profile train.py")
    return 1 if any(check.good is False for check in checks) else 0


def _line(check: Check) -> str:
    mark = {True: "ok  ", False: "BAD ", None: "note"}[check.good]
    return f"{mark} {check.name}: {check.found}" + (f"\n     {check.cure}" if check.cure else "")


def _torch() -> dict[str, Any] | str:
    """What torch says of itself, or why it could not be asked."""
    try:
        done = subprocess.run(
            (sys.executable, "-c", PROBE), capture_output=True, text=True, timeout=TORCH_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    facts: dict[str, Any] = json.loads(lines[-1])
    return facts


def _python(_: dict[str, Any] | str) -> Iterator[Check]:
    yield Check("python", sys.version_info >= (3, 11), platform.python_version())


def _torch_checks(torch: dict[str, Any] | str) -> Iterator[Check]:
    if isinstance(torch, str):
        yield Check("torch", False, torch, "install PyTorch 2.0 or newer; analyze, recommend and report work without")
        return
    recent = int(torch["version"].split(".")[0]) >= 2
    yield Check("torch", recent, torch["version"], "" if recent else "install PyTorch 2.0 or newer")
    if not torch["available"]:
        built = torch["cuda"] or torch["hip"]
        cure = "this build of PyTorch has no GPU support" if not built else "check the driver: nvidia-smi"
        yield Check("GPU", None, "torch sees no GPU; recordings tell nothing about one", cure)
        return
    yield Check("GPU", True, f"{torch['device']}, CUDA {torch['cuda'] or torch['hip']}")
    yield Check(
        "GPU events",
        bool(torch["kernels"]),
        f"{torch['kernels']} recorded by the profiler",
        "" if torch["kernels"] else "the profiler gets no kernels: stop other profilers, or see the permission below",
    )


def _permission(_: dict[str, Any] | str) -> Iterator[Check]:
    if ADMIN_ONLY.is_file() and "RmProfilingAdminOnly: 1" in ADMIN_ONLY.read_text(encoding="utf-8", errors="replace"):
        yield Check(
            "GPU counters", None, "reserved for root by the driver", "timelines need none; counters would need root"
        )


def _nvml(_: dict[str, Any] | str) -> Iterator[Check]:
    from tracelens.capture.monitor import describe_gpus

    gpus = describe_gpus()
    if gpus["gpus"]:
        yield Check("NVML", True, f"driver {gpus['driver']}, {', '.join(str(name) for name in gpus['gpus'])}")
    else:
        yield Check("NVML", None, "not available", "utilization will be missing from reports; install nvidia-ml-py")


def _packages(_: dict[str, Any] | str) -> Iterator[Check]:
    if _version("pynvml"):
        yield Check(
            "package pynvml",
            None,
            "the deprecated distribution is installed; it only redirects, and may shadow nvidia-ml-py",
            "pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py",
        )
    foreign = _version("tracelens")
    if foreign:
        yield Check(
            "package tracelens",
            False,
            f"another project's distribution `tracelens` {foreign} is installed; ours is tracelens-torch",
            "pip uninstall tracelens && pip install --force-reinstall tracelens-torch",
        )


def _disk(_: dict[str, Any] | str) -> Iterator[Check]:
    free = shutil.disk_usage(Path.cwd()).free
    enough = free >= LEAST_FREE_BYTES
    yield Check("disk", enough, f"{free / 2**30:.1f} GiB free here", "" if enough else "recordings need some 2 GiB")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


CHECKS: tuple[Callable[[dict[str, Any] | str], Iterator[Check]], ...] = (
    _python,
    _torch_checks,
    _permission,
    _nvml,
    _packages,
    _disk,
)

NO_CALIBRATION = Check(
    "calibration",
    None,
    "not available: nothing was measured",
    "the replay takes a machine's constants from each recording itself, and ranges for what it does not show",
)
