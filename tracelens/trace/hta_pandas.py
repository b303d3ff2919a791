"""HTA 0.5's critical path analysis under pandas 3, which refuses seven of its statements and ignores five.

In: HTA's module as it is installed. Out: its analysis as a class that does what it did under pandas 2. HTA itself is
left alone. Apart from the bridge because it must go when HTA supports pandas 3.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from types import ModuleType
from typing import Any

import pandas as pd

MODULE = "hta.analyzers.critical_path_analysis"
_REWRITES = (
    # drop(axis=1, columns=…) says one thing twice; pandas 3 raises "Cannot specify both 'axis' and 'index'/'columns'".
    (re.compile(r"\baxis=1,\s*columns="), "columns="),
    # frame.column.fillna(x, inplace=True) fills a copy since pandas 3, and says nothing.
    (re.compile(r"(\w+)\.(\w+)\.fillna\(([^()]+), inplace=True\)"), r'\1["\2"] = \1["\2"].fillna(\3)'),
)


@cache
def critical_path() -> Any:
    """HTA's `CriticalPathAnalysis`."""
    original = importlib.import_module(MODULE)
    spec = importlib.util.find_spec(MODULE)
    source = spec.loader.get_source(MODULE) if spec and spec.loader and hasattr(spec.loader, "get_source") else None
    if int(pd.__version__.split(".")[0]) < 3 or source is None:
        return original.CriticalPathAnalysis
    for pattern, replacement in _REWRITES:
        source = pattern.sub(replacement, source)
    mended = ModuleType(MODULE)
    mended.__dict__.update(__file__=original.__file__, __spec__=spec, __package__=original.__package__)
    exec(compile(source, str(original.__file__), "exec"), mended.__dict__)
    return mended.CriticalPathAnalysis
