"""Tables of a Timeline from DataFrames, which are easier to write down and to change in a test."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pandas as pd

from tracelens.model import TextColumn, TraceTable
from tracelens.model.table import Text


def table(frame: pd.DataFrame) -> TraceTable:
    """The same columns: of words where a Timeline's are, with None for what is missing in columns of objects."""
    return TraceTable({str(name): _column(str(name), frame[name]) for name in frame.columns})


def words(texts: list[str]) -> TextColumn:
    """A column of text."""
    known = sorted(set(texts))
    return TextColumn.coded(np.array([known.index(text) for text in texts], dtype=np.int64), known)


def _column(name: str, values: pd.Series[Any]) -> np.ndarray[Any, Any] | TextColumn:
    if name in get_args(Text):
        if isinstance(values.dtype, pd.CategoricalDtype):
            return TextColumn.coded(values.cat.codes.to_numpy(), map(str, values.dtype.categories))
        return words([str(value) for value in values])
    if name in ("path", "line", "function", "user_call"):
        return np.array([None if pd.isna(value) else value for value in values], dtype=object)
    return values.to_numpy()
