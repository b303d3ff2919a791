"""The runtime file that a patch puts beside the training script.

In: the script's place. Out: where the file goes, and its bytes. Apart because the file is read as data here: this
package must work where torch is not installed.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tracelens.patch.loop.loops import RUNTIME

MODULE = RUNTIME
_FIRST_WORDS = b"# tracelens runtime "
FIRST_WITH_THESE_NAMES = 6
"""Scripts that were patched with an earlier version of the runtime call names that it has no longer."""


def content() -> bytes:
    return files("tracelens").joinpath("runtime.py").read_bytes()


def place(script: Path) -> Path:
    """Beside the script, where `import tracelens_runtime` finds it; above its package where it is run with -m."""
    folder = script.parent
    if _imports_its_package(script):
        while (folder / "__init__.py").is_file():
            folder = folder.parent
    return folder / f"{MODULE}.py"


def is_ours(data: bytes) -> bool:
    """Whether a file of that name was written by TraceLens, in any version."""
    return data.startswith(_FIRST_WORDS)


def version(data: bytes) -> int | None:
    """Which version of the runtime a file of ours is; None where its first line does not say."""
    number = data.removeprefix(_FIRST_WORDS).partition(b":")[0]
    return int(number) if is_ours(data) and number.isdigit() else None


def _imports_its_package(script: Path) -> bool:
    package = script.parent.name.encode()
    text = script.read_bytes() if script.is_file() else b""
    lines = (line.strip() for line in text.splitlines())
    return any(line.startswith((b"from .", b"from " + package + b".", b"import " + package + b".")) for line in lines)
