"""This machine's constants for the replay: measured on request, kept per GPU and torch, put into each new Run.

In: a child process of `machine`, and the user's cache folder. Out: a flat mapping, or None where nothing was measured.
Works without torch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelens import jsonfile, run
from tracelens.errors import InputError, UsageError

SECONDS = 180
"""It takes some 20 s, of which the import of torch is a part; a cold network disk takes a minute for that alone."""
CACHE_VARIABLE = "TRACELENS_CACHE"
ABOUT = ("gpu", "torch", "cuda", "skipped", "measured_unix_ns")
"""Keys that describe a measurement; all others are constants."""


def measure(python: str = sys.executable) -> dict[str, Any]:
    """Measure this machine in a child process. Raises `UsageError` with what the child said."""
    hint = "see tracelens doctor: torch and a GPU that works are needed"
    command = (python, "-m", "tracelens.capture.calibration_child.micro_benchmarks")
    environment = {**os.environ, "PYTHONPATH": _with_ours(os.environ.get("PYTHONPATH"))}
    try:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"the machine could not be measured: {error}", hint=hint) from error
    said, complaints = _heard(child)
    lines = [text for text in said.splitlines() if text.startswith("{") and text.endswith("}")]
    if not lines:
        why = (complaints.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise UsageError(f"the machine could not be measured: {why}", hint=hint)
    found: dict[str, Any] = json.loads(lines[-1])
    if not found.get("gpu"):
        raise UsageError("torch sees no GPU here, so there is nothing to measure", hint=hint)
    if not values(found):
        why = "; ".join(f"{piece}: {text}" for piece, text in found["skipped"].items())
        raise UsageError(f"the machine could not be measured: {why}", hint=hint)
    return {**found, "measured_unix_ns": time.time_ns()}


def _heard(child: subprocess.Popen[str]) -> tuple[str, str]:
    """What the child writes until it ends or its time is over; then it goes, and its loader's workers with it."""
    try:
        try:
            return child.communicate(timeout=SECONDS)
        finally:  # Ctrl-C reaches only us
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    except subprocess.TimeoutExpired:
        return child.communicate()


def keep(found: Mapping[str, Any]) -> Path:
    """Write a measurement where later recordings find it; raises `UsageError` if that place cannot be written."""
    folder = _folder()
    if folder is None:
        raise UsageError("there is no home folder to keep the measurement in", hint=f"set {CACHE_VARIABLE} to a folder")
    path = folder / _name(str(found["gpu"]), str(found["torch"]))
    try:
        run.write_json(path, found)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint=f"set {CACHE_VARIABLE} to a folder that can be written"
        ) from error
    return path


def kept(gpu: str | None, torch: str | None) -> dict[str, Any] | None:
    """What was measured for this kind of GPU under this torch; None where nothing was, or the file is not ours."""
    folder = _folder()
    if folder is None or not gpu or not torch:
        return None
    path = folder / _name(gpu, torch)
    try:
        if not path.is_file():
            return None
        found = jsonfile.read(path, missing="", damaged="")
    except (OSError, InputError):  # a damaged cache is no reason to lose a recording
        return None
    return found if (found.get("gpu"), found.get("torch")) == (gpu, torch) else None


def values(found: Mapping[str, Any]) -> dict[str, float]:
    """The constants alone."""
    return {key: value for key, value in found.items() if key not in ABOUT}


def _folder() -> Path | None:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return Path(base) / "tracelens"


def _name(gpu: str, torch: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", f"machine-{gpu}-torch-{torch}")[:200] + ".json"


def _with_ours(path: str | None) -> str:
    root = str(Path(run.__file__).parent.parent)
    return root if not path else os.pathsep.join((root, path))
