"""The checks of `tracelens doctor`, each with what was found and what to do about it.

In: `MachineFacts`: what torch said, the environment, where to look for files. Out: `Check` values. A check whose `good`
is None found nothing wrong, only something missing that we could use. Every bad or missing one says what to do.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracelens.cli.machine_facts import Check, MachineFacts, read
from tracelens.messages import say

LEAST_FREE_BYTES = 2 << 30
"""A window of a large model is some 100 MB of trace; a verification copies sources and caches."""
LEAST_SHARED_BYTES = 256 << 20
"""Containers start with 64 MB, and DataLoader workers hand every batch over through it."""
LEAST_GPU_SHARE = 0.5
"""Of the GPU's memory. With less free, another process uses the GPU, and times vary."""
LEAST_DRIVER = {13: 580, 12: 525, 11: 450}
"""Least major version of the Linux driver that runs programs built for each CUDA major version."""
PROFILER_VARIABLES = {
    "NSYS_PROFILING_SESSION_ID": say("Nsight Systems is attached"),
    "NVTX_INJECTION64_PATH": say("another tool injects itself into the CUDA libraries"),
    "CUDA_INJECTION64_PATH": say("another tool injects itself into the CUDA libraries"),
    "KINETO_USE_DAEMON": say("a dynolog daemon may start the profiler at any time"),
    "KINETO_DAEMON_INIT_DELAY_S": say("a dynolog daemon may start the profiler at any time"),
    "TEARDOWN_CUPTI": say("the profiler is told when to let go of CUPTI"),
}
"""Variables under which a second profiler holds, or may take, the one place that CUPTI has."""
OLDEST = (2, 0)


def checks(machine: MachineFacts) -> tuple[Check, ...]:
    """Every check: Python and PyTorch first, then what we record with, then memory, disk and data."""
    return tuple(check for question in QUESTIONS for check in question(machine))


# ------------------------------------------------------------------------------------------------- Python and PyTorch


def _python(_: MachineFacts) -> Iterator[Check]:
    good = sys.version_info >= (3, 11)
    yield Check("python", good, platform.python_version(), "" if good else say("use Python 3.11 or newer"))


def _torch(machine: MachineFacts) -> Iterator[Check]:
    torch = machine.torch
    if isinstance(torch, str):
        yield Check("torch", False, torch, _import_cure(torch))
        return
    recent = _version(torch["version"]) >= OLDEST
    yield Check(
        "torch", recent, torch["version"], "" if recent else say("install PyTorch 2.0 or newer: pip install -U torch")
    )
    if not torch["available"]:
        yield _no_gpu(machine)
        return
    yield Check("GPU", True, f"{torch['device'] or 'unnamed'}, {_platform(torch)}")


def _import_cure(said: str) -> str:
    """What to do about a torch that cannot be imported, by what it said."""
    if "libcud" in said or "libnv" in said or "cannot open shared object" in said:
        return say("a CUDA library is missing or of another version: reinstall torch, and check LD_LIBRARY_PATH")
    if "numpy" in said.lower():
        return say("torch and numpy do not fit together: pip install -U torch numpy")
    return say("install PyTorch 2.0 or newer; analyze, recommend and report work without")


def _no_gpu(machine: MachineFacts) -> Check:
    facts = machine.facts
    symptom = say("torch sees no GPU; recordings tell nothing about one")
    if not (facts.get("cuda") or facts.get("hip")):
        present = say("; there is one, with driver {driver}", driver=machine.driver) if machine.driver else ""
        return Check(
            "GPU",
            None,
            symptom,
            say("this build of PyTorch has no GPU support{present}: install a CUDA build", present=present),
        )
    hidden = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return Check(
            "GPU",
            None,
            symptom,
            say("CUDA_VISIBLE_DEVICES={hidden!r} hides it: unset CUDA_VISIBLE_DEVICES", hidden=hidden),
        )
    if machine.driver is None:
        return Check(
            "GPU", None, symptom, say("there is no NVIDIA driver here (in a container: start it with --gpus all)")
        )
    return Check("GPU", None, symptom, say("check the driver: nvidia-smi"))


def _platform(facts: Mapping[str, Any]) -> str:
    return say("ROCm {hip}", hip=facts["hip"]) if facts.get("hip") else say("CUDA {facts}", facts=facts.get("cuda"))


def _driver(machine: MachineFacts) -> Iterator[Check]:
    """A driver older than the CUDA that torch was built for is the commonest reason for `is_available() == False`."""
    cuda, driver = machine.facts.get("cuda"), machine.driver
    if not cuda or not driver:
        return
    least = LEAST_DRIVER.get(_version(cuda)[0])
    if least is None:
        return
    good = _version(driver)[0] >= least
    cure = say("update the driver to {least} or newer, or install a PyTorch built for an older CUDA", least=least)
    yield Check(
        "driver",
        good,
        say("{driver}, PyTorch is built for CUDA {cuda}", driver=driver, cuda=cuda),
        "" if good else cure,
    )


def _build(machine: MachineFacts) -> Iterator[Check]:
    """Whether this build of torch has kernels for this GPU, and a profiler that can see it."""
    facts = machine.facts
    if facts.get("arch_ok") is False:
        yield Check(
            say("torch build"),
            False,
            say("it has no kernels for {facts}", facts=facts.get("device")),
            say("install a PyTorch built for this GPU: newer GPUs need newer builds"),
        )
    activities = facts.get("activities")
    if facts.get("available") and activities is not None and "CUDA" not in activities:
        yield Check(
            say("torch build"),
            False,
            say("its profiler knows no GPU activities (built without Kineto or CUPTI)"),
            say("install PyTorch from pip or conda-forge instead of this build"),
        )
    if facts.get("error"):
        yield Check(say("torch build"), False, str(facts["error"]), _failure_cure(str(facts["error"])))


def _failure_cure(said: str) -> str:
    if "out of memory" in said.lower():
        return say("another process holds the GPU's memory: nvidia-smi names it")
    if "no kernel image" in said or "not compatible" in said:
        return say("install a PyTorch built for this GPU")
    if "CUPTI" in said or "profiler" in said:
        return say("stop other profilers (nsys, ncu, dynolog), then try again")
    return say("run the line in Python to see where it fails: torch.ones(1, device='cuda').sum().item()")


# ------------------------------------------------------------------------------------------------- what we record with


def _events(machine: MachineFacts) -> Iterator[Check]:
    facts = machine.facts
    if not facts.get("available") or facts.get("error"):
        return
    kernels = facts.get("kernels")
    cure = say("the profiler gets no kernels: stop other profilers, or see the permission below")
    yield Check(
        say("GPU events"),
        bool(kernels),
        say("{kernels} recorded by the profiler", kernels=kernels),
        "" if kernels else cure,
    )


def _profiler(machine: MachineFacts) -> Iterator[Check]:
    profilers = {name: text for name, text in PROFILER_VARIABLES.items() if machine.environment.get(name)}
    if machine.environment.get("KINETO_USE_DAEMON") == "0":
        profilers.pop("KINETO_USE_DAEMON", None)
    if machine.facts.get("profiler_active"):
        profilers["torch.profiler"] = say("something starts it on import of torch (a sitecustomize, a plugin)")
    if not profilers:
        yield Check(say("other profilers"), True, say("none that we know of"))
        return
    text = "; ".join(f"{name}: {meaning}" for name, meaning in profilers.items())
    names = " ".join(name for name in profilers if name.isupper())
    cure = say("one process has room for one profiler: stop the other one") + (
        say(", or unset {names}", names=names) if names else ""
    )
    yield Check(say("other profilers"), False, text, cure)


def _permission(machine: MachineFacts) -> Iterator[Check]:
    """Timelines need no permission; counters do. Said because errors of other tools mention it."""
    if "RmProfilingAdminOnly: 1" not in read(machine.admin_only):
        return
    kernels = machine.facts.get("kernels")
    if machine.facts.get("available") and kernels == 0:
        yield Check(
            say("CUPTI permission"),
            False,
            say("the driver reserves profiling for root, and the profiler got no kernels"),
            say("as root: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot"),
        )
    else:
        yield Check(
            say("CUPTI permission"),
            None,
            say("GPU counters are reserved for root"),
            say("nothing to do: timelines need none"),
        )


def _nvml(machine: MachineFacts) -> Iterator[Check]:
    if machine.gpus.get("gpus"):
        names = ", ".join(str(name) for name in machine.gpus["gpus"])
        yield Check("NVML", True, say("driver {driver}, {names}", driver=machine.gpus["driver"], names=names))
        return
    installed = machine.version("nvidia-ml-py")
    cure = (
        say("pip install nvidia-ml-py")
        if installed is None
        else say("no driver answers; without a GPU that is as it should be")
    )
    yield Check("NVML", None, say("not available: utilization will be missing from reports"), cure)


def _packages(machine: MachineFacts) -> Iterator[Check]:
    if machine.version("pynvml"):
        yield Check(
            say("package pynvml"),
            None,
            say("the deprecated distribution is installed; it only redirects, and may shadow nvidia-ml-py"),
            say("pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py"),
        )
    foreign = machine.version("tracelens")
    if foreign:
        yield Check(
            say("package tracelens"),
            False,
            say(
                "another project's distribution `tracelens` {foreign} is installed; ours is tracelens-torch",
                foreign=foreign,
            ),
            say("pip uninstall tracelens && pip install --force-reinstall tracelens-torch"),
        )
    twin = _case_twin()
    if twin is not None:
        yield Check(
            "package TraceLens",
            None,
            say("another package of nearly our name lies in {twin}; on some file systems the two are one", twin=twin),
            say("keep the two in environments of their own"),
        )


def _case_twin() -> Path | None:
    """A package `TraceLens` (AMD's) beside ours."""
    spec = importlib.util.find_spec("TraceLens")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


# --------------------------------------------------------------------------------------------- room: memory, disk, data


def _disk(machine: MachineFacts) -> Iterator[Check]:
    try:
        free = shutil.disk_usage(machine.folder).free
    except OSError as error:
        yield Check("disk", False, f"{error.strerror or error}", say("go to a folder that can be written to"))
        return
    enough = free >= LEAST_FREE_BYTES
    yield Check(
        "disk",
        enough,
        say("{free:.1f} GiB free here", free=free / 2**30),
        "" if enough else say("recordings need some 2 GiB"),
    )
    if not os.access(machine.folder, os.W_OK):
        yield Check(
            say("run folder"),
            False,
            say("this folder cannot be written to"),
            say("go to another folder, or name one: tracelens profile -o RUN train.py"),
        )


def _memory(machine: MachineFacts) -> Iterator[Check]:
    free, total = machine.facts.get("free_bytes"), machine.facts.get("total_bytes")
    if isinstance(free, int) and isinstance(total, int) and total:
        roomy = free >= LEAST_GPU_SHARE * total
        text = say("{free:.1f} of {total:.1f} GiB free", free=free / 2**30, total=total / 2**30)
        cure = say("another process uses this GPU: its times vary, and a script that just fits runs out of memory")
        yield Check(
            say("GPU memory"),
            True if roomy else None,
            text,
            "" if roomy else say("{cure}; nvidia-smi names it", cure=cure),
        )
    allocator = machine.environment.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if machine.environment.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        yield Check(
            "allocator",
            False,
            say("PYTORCH_NO_CUDA_MEMORY_CACHING makes every tensor a cudaMalloc, which waits for the GPU"),
            "unset PYTORCH_NO_CUDA_MEMORY_CACHING",
        )
    if machine.environment.get("CUDA_LAUNCH_BLOCKING") not in (None, "", "0"):
        yield Check(
            "CUDA_LAUNCH_BLOCKING",
            False,
            say("every launch waits for its kernel: no recording made so says anything about the loop"),
            "unset CUDA_LAUNCH_BLOCKING",
        )
    if "backend:cudaMallocAsync" in allocator:
        yield Check(
            "allocator",
            None,
            say("cudaMallocAsync is chosen"),
            say("memory numbers of a run are the pool's, not torch's"),
        )


def _data(machine: MachineFacts) -> Iterator[Check]:
    """What feeds the loop: shared memory for workers, cores, paths that variables promise."""
    try:
        shared = shutil.disk_usage(machine.shared_memory).total
    except OSError:
        shared = None
    if shared is not None and shared < LEAST_SHARED_BYTES:
        yield Check(
            say("shared memory"),
            None,
            say(
                "{shared} MiB in {shared_memory}: DataLoader workers die of a bus error with large batches",
                shared=shared >> 20,
                shared_memory=machine.shared_memory,
            ),
            say("start the container with --shm-size=8g or --ipc=host"),
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        yield Check(
            "cores", None, say("one CPU core: loader, loop and profiler take turns"), say("give the job more cores")
        )
    for name in ("TORCH_HOME", "HF_HOME", "HF_DATASETS_CACHE", "TMPDIR"):
        place = machine.environment.get(name)
        if place and not Path(place).is_dir():
            yield Check(
                name,
                None,
                say("{place} is not a folder", place=place),
                say("create it, or unset {name}: scripts that rely on it fail", name=name),
            )


def _version(text: str) -> tuple[int, ...]:
    """`2.11.0+cu130` → (2, 11, 0): what is not a number ends it."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)


QUESTIONS: tuple[Callable[[MachineFacts], Iterator[Check]], ...] = (
    _python,
    _torch,
    _driver,
    _build,
    _events,
    _profiler,
    _permission,
    _nvml,
    _packages,
    _memory,
    _data,
    _disk,
)
