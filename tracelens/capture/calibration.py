"""This machine's constants for the replay: measured on request, cached per GPU and torch, copied into each new Run.

In: the output of the child process that measures (`calibration_child`), and the user's cache folder. Out: a flat
mapping, or None where nothing was measured. Works without torch.
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
from tracelens.messages import say

TIMEOUT_SECONDS = 180
"""The child takes some 20 s; importing torch from a cold network disk takes a minute alone."""
CACHE_VARIABLE = "TRACELENS_CACHE"
DESCRIPTION_KEYS = ("gpu", "torch", "cuda", "skipped", "measured_unix_ns")
"""Keys that describe a measurement; all other keys are constants."""


def measure(python: str = sys.executable) -> dict[str, Any]:
    """Measure this machine in a child process. Raises `UsageError` with the child's last error line."""
    hint = say("see tracelens doctor: torch and a GPU that works are needed")
    command = (python, "-m", "tracelens.capture.calibration_child.micro_benchmarks")
    environment = {**os.environ, "PYTHONPATH": _with_our_package(os.environ.get("PYTHONPATH"))}
    try:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
    except OSError as error:
        raise UsageError(say("the machine could not be measured: {error}", error=error), hint=hint) from error
    stdout, stderr = _output(child)
    lines = [text for text in stdout.splitlines() if text.startswith("{") and text.endswith("}")]
    if not lines:
        why = (stderr.strip().splitlines() or [say("exit code {returncode}", returncode=child.returncode)])[-1]
        raise UsageError(say("the machine could not be measured: {why}", why=why), hint=hint)
    measured: dict[str, Any] = json.loads(lines[-1])
    if not measured.get("gpu"):
        raise UsageError(say("torch sees no GPU here, so there is nothing to measure"), hint=hint)
    if not values(measured):
        why = "; ".join(f"{piece}: {text}" for piece, text in measured["skipped"].items())
        raise UsageError(say("the machine could not be measured: {why}", why=why), hint=hint)
    return {**measured, "measured_unix_ns": time.time_ns()}


def _output(child: subprocess.Popen[str]) -> tuple[str, str]:
    """The child's output until it ends, or is killed with its DataLoader workers after `TIMEOUT_SECONDS`."""
    try:
        try:
            return child.communicate(timeout=TIMEOUT_SECONDS)
        finally:  # Ctrl-C reaches only this process
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    except subprocess.TimeoutExpired:
        return child.communicate()


def write_cache(measured: Mapping[str, Any]) -> Path:
    """Write a measurement to the cache, where later recordings find it; raises `UsageError` if it cannot be written."""
    folder = _cache_folder()
    if folder is None:
        raise UsageError(
            say("there is no home folder to keep the measurement in"),
            hint=say("set {cache_variable} to a folder", cache_variable=CACHE_VARIABLE),
        )
    path = folder / _file_name(str(measured["gpu"]), str(measured["torch"]))
    try:
        run.write_json(path, measured)
    except OSError as error:
        raise UsageError(
            say("{path} cannot be written: {strerror}", path=path, strerror=error.strerror),
            hint=say("set {cache_variable} to a folder that can be written", cache_variable=CACHE_VARIABLE),
        ) from error
    return path


def read_cache(gpu: str | None, torch: str | None) -> dict[str, Any] | None:
    """The measurement for this GPU model and this torch; None where there is none, or its file is damaged."""
    folder = _cache_folder()
    if folder is None or not gpu or not torch:
        return None
    path = folder / _file_name(gpu, torch)
    try:
        if not path.is_file():
            return None
        measured = jsonfile.read(path, missing="", damaged="")
    except (OSError, InputError):  # a damaged cache must not lose a recording
        return None
    return measured if (measured.get("gpu"), measured.get("torch")) == (gpu, torch) else None


def values(measured: Mapping[str, Any]) -> dict[str, float]:
    """The constants of a measurement, without its description."""
    return {key: value for key, value in measured.items() if key not in DESCRIPTION_KEYS}


def _cache_folder() -> Path | None:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return None
    return Path(base) / "tracelens"


def _file_name(gpu: str, torch: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", f"machine-{gpu}-torch-{torch}")[:200] + ".json"


def _with_our_package(path: str | None) -> str:
    root = str(Path(run.__file__).parent.parent)
    return root if not path else os.pathsep.join((root, path))
