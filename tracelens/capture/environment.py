"""Describes the machine, the variables and the git revision of a recording, in a process without torch.

In: a folder. Out: dictionaries for run.json, with None for what is unknown. Facts about torch come from the ranks
(`process_facts.process`) and are added by `with_process`.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIXES = ("CUDA_", "NCCL_", "TORCH", "PYTORCH_", "OMP_", "MKL_", "KINETO_", "CUBLAS_", "HIP_", "ROCR_", "SLURM_JOB")
"""Variables that change how a training job runs. No others are written: they may hold secrets."""
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
GIT_SECONDS = 5.0
_OF_PROCESS = (
    *("python", "torch", "cuda", "hip", "cudnn", "cudnn_benchmark", "deterministic", "anomaly_detection"),
    *("anomaly_places", "tf32", "threads", "allocator"),
)


def describe(gpus: Mapping[str, Any]) -> dict[str, Any]:
    """The machine and its variables; `gpus` comes from `hardware_monitor.describe_gpus`."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "torch": None,
        "cuda": None,
        **gpus,
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(PREFIXES) and not any(word in name for word in SECRETS)
        },
    }


def with_process(environment: Mapping[str, Any], process: Mapping[str, Any]) -> dict[str, Any]:
    """`environment` with the facts about Python and torch that a rank has reported as `process`."""
    return {**environment, **{key: process[key] for key in _OF_PROCESS if key in process}}


def git(folder: Path) -> dict[str, Any] | None:
    """Revision of the git working copy around `folder`, and whether it has changes; None outside of one."""
    revision = _git(folder, "rev-parse", "HEAD")
    if not revision:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"revision": revision, "dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    # Without optional locks, `git status` writes nothing into the working copy.
    command = ("git", "--no-optional-locks", "-C", str(folder), *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
