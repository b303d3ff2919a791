"""What PyTorch says of itself, asked in a process of its own: this one must work where torch does not.

In: nothing. Out: the facts as a dict, or why it could not be asked, in one line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tracelens.messages import say

TORCH_SECONDS = 120
"""A first import of torch from a cold network disk takes a minute."""
PROBE = """
import json, os, torch
cuda = torch.cuda.is_available()
facts = {"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "available": cuda,
         "device": None, "kernels": None, "error": None, "free_bytes": None, "total_bytes": None, "arch_ok": None,
         "activities": None, "profiler_active": None, "path": os.path.dirname(torch.__file__)}
try:
    import torch.profiler
    facts["activities"] = sorted(a.name for a in torch.profiler.supported_activities())
    facts["profiler_active"] = bool(getattr(torch.autograd, "_profiler_enabled", lambda: False)())
except Exception as error:
    facts["error"] = f"torch.profiler: {error}"
if cuda:
    try:
        facts["device"] = torch.cuda.get_device_name(0)
        facts["free_bytes"], facts["total_bytes"] = torch.cuda.mem_get_info(0)
        major, minor = torch.cuda.get_device_capability(0)
        names = [a.split("_")[-1].rstrip("a") for a in torch.cuda.get_arch_list()]
        numbers = [int(n) for n in names if n.isdigit()]
        facts["arch_ok"] = any(n // 10 == major and n % 10 <= minor for n in numbers) or not numbers
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            torch.ones(1024, device="cuda").sum().item()
        facts["kernels"] = sum(1 for e in recorded.events() if "CUDA" in str(e.device_type))
    except Exception as error:
        facts["error"] = " ".join(str(error).split())
print(json.dumps(facts))
"""


def ask() -> dict[str, Any] | str:
    """The facts, or the last line of what went wrong."""
    try:
        done = subprocess.run(
            (sys.executable, "-c", PROBE), capture_output=True, text=True, timeout=TORCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return say("importing torch took longer than {torch_seconds} s", torch_seconds=TORCH_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return _facts(done)


def _facts(done: subprocess.CompletedProcess[str]) -> dict[str, Any] | str:
    if done.returncode < 0:
        return say("the process that imported torch was ended by signal {returncode}", returncode=-done.returncode)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return (done.stderr.strip().splitlines() or [say("exit code {returncode}", returncode=done.returncode)])[-1]
    try:
        facts = json.loads(lines[-1])
    except ValueError:
        facts = None
    return (
        facts if isinstance(facts, dict) else say("it printed something else than facts: {lines}", lines=lines[-1][:80])
    )
