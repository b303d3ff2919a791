"""What a trial process writes beside its standard output: standard error, text files and checkpoints.

In: the working copy of a process that has ended. Out: texts by name; of a checkpoint its digest. Many scripts log to
standard error or into a file, and a line that a patch loses may be lost only there. Left out is what two correct
versions write differently: progress bars, which redraw by the clock, Python's warnings, which quote line numbers of the
source, and copies of the source itself.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import STANDARD_ERROR

MOST_BYTES = 1 << 20
"""Of one text. A training's log of some hundred steps has less; what is larger is data."""
MOST_FILES = 20
MOST_SAVED_BYTES = 1 << 28
"""Of a file whose digest is taken."""
_SAVED = frozenset({".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npy", ".npz", ".pkl"})
"""Two runs of the same code write these to the byte, or else their digests differ already between the originals."""
_SOURCES = frozenset({".py", ".pyi", ".ipynb", ".patch", ".diff"})
"""A script that keeps a copy of itself beside its results keeps the patched one, rightly."""
_WARNING = re.compile(r"^\S.*:\d+: \w*Warning\b")


def read(copy: WorkingCopy, errors: bytes, written: tuple[str, ...]) -> dict[str, str]:
    """Texts by name: standard error, and each text file of the project among those that the process wrote."""
    texts = {STANDARD_ERROR: _without_redrawn_lines(errors, copy)}
    for name in written:
        path = Path(name)
        if path.is_relative_to(copy.root) or path.is_relative_to(copy.cwd):
            text = _text(copy.path_of(path))
            if text is not None and len(texts) <= MOST_FILES:
                texts[str(path.relative_to(copy.root)) if path.is_relative_to(copy.root) else name] = text
    return texts


def _without_redrawn_lines(errors: bytes, copy: WorkingCopy) -> str:
    """Standard error without progress bars, and without warnings and the source lines that they quote."""
    if len(errors) > MOST_BYTES:
        return ""
    kept: list[str] = []
    after_warning = False
    for line in errors.decode(errors="replace").replace(str(copy.tree), "").split("\n"):
        is_warning = _WARNING.match(line) is not None
        if not (is_warning or (after_warning and line.startswith("  ")) or "\r" in line):
            kept.append(line)
        after_warning = is_warning
    return "\n".join(kept)


def _text(path: Path) -> str | None:
    """A file's text, or a checkpoint's digest; None for anything but a plain file of moderate size."""
    most = MOST_SAVED_BYTES if path.suffix in _SAVED else MOST_BYTES
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= most else b"\0"
        if path.suffix in _SAVED and path.is_file() and data != b"\0":
            return f"sha256 {hashlib.sha256(data).hexdigest()}"
        if path.suffix in _SOURCES:
            return None
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
