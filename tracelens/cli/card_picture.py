"""The card of a report as a PNG: drawn by a Chromium that is on the machine, because nothing of ours draws text."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tracelens.errors import UsageError
from tracelens.messages import say

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
LONGEST_SECONDS = 60
SIZE = (1200, 630)


def png(svg: str) -> bytes:
    """The picture; UsageError, with what to do instead, where no browser can draw it."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name)) is not None), None)
    if browser is None:
        raise UsageError(say("no Chromium on PATH to draw a PNG with"), hint=say("write an SVG: --card card.svg"))
    with tempfile.TemporaryDirectory(prefix="tracelens-card-") as folder:
        source, target = Path(folder) / "card.svg", Path(folder) / "card.png"
        source.write_text(svg, encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile"]
        command += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={target}"]
        command += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # root has no user sandbox
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # what counts is whether the picture is there
            subprocess.run([*command, source.as_uri()], capture_output=True, timeout=LONGEST_SECONDS, check=False)
        if not target.is_file():
            raise UsageError(
                say("{name} drew no picture", name=Path(browser).name), hint=say("write an SVG: --card card.svg")
            )
        return target.read_bytes()
