"""Whether a script can use a GPU at all, as far as the text of its project tells.

In: a parsed file. Out: True only where nothing leads to a GPU: none is named, devices are literally the CPU, no tensors
are loaded that could be on one, and nothing but torch, numpy and Python's own library comes from outside. A word in a
comment counts as well: what is not certain may use one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.project import python_files

_LEADS_TO_GPU = re.compile(
    r"cuda|gpu|xpu|mps\b|hpu|npu\b|hip\b|rocm|nccl|accelerat|torch\.load|jit\.load|hub\.load", re.IGNORECASE
)
_NAMED = re.compile(r"(?P<name>[\w.]*device\w*)(?P<given>\s*\(?\s*=?\s*[^\n,)]*)", re.IGNORECASE)
_CPU = re.compile(r"""\s*(\(\s*["']cpu["']|=\s*(torch\.device\()?\s*["']cpu["']|=\s*device\b)""")
_MOVED = re.compile(r"""\.to\(\s*(?!["']cpu["']\s*[,)]|device\s*[,)]|torch\.\w+\s*[,)])""")
_PARAMETER = re.compile(r"(def|lambda)[^\n]*\bdevice\b")
_IMPORTED = re.compile(r"^[ \t]*(?P<word>import|from)[ \t]+(?P<what>[^\n#]+)", re.MULTILINE)
_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
_KEEPS_TO_CPU = sys.stdlib_module_names | {"torch", "numpy", ""}


@lru_cache(maxsize=PARSED_FILES)
def only_cpu(source: SourceFile) -> bool:
    """Whether the script certainly runs on the CPU alone."""
    if not _TORCH.search(source.text) or not _stays(source.text):
        return False  # what does not import torch is handed its tensors by somebody else
    files = list(python_files(source.root))
    own = {path.stem for path in files} | {path.parent.name for path in files}
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
    imported = {name for text in (source.text, *texts) for name in _imports(text)}
    return imported <= _KEEPS_TO_CPU | own and all(_stays(text) for text in texts)


def _imports(text: str) -> Iterator[str]:
    """The first parts of the names of modules that a file imports."""
    for found in _IMPORTED.finditer(text):
        several = found["what"].split(",") if found["word"] == "import" else [found["what"]]
        yield from (re.split(r"[.\s]", name.strip())[0] for name in several)


def _stays(text: str) -> bool:
    """Whether one file names no GPU, and no device but the CPU."""
    if _LEADS_TO_GPU.search(text) or _MOVED.search(text) or _PARAMETER.search(text):
        return False
    return all(_is_cpu(found) for found in _NAMED.finditer(text))


def _is_cpu(found: re.Match[str]) -> bool:
    if found["name"] == "torch.device":
        return _CPU.match(found["given"]) is not None
    assigned = found["given"].lstrip().startswith("=") and not found["given"].lstrip().startswith("==")
    return found["name"] == "device" and (not assigned or _CPU.match(found["given"]) is not None)
