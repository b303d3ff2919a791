"""Columns of equal length: what the stages hand to one another, in numpy alone.

A `TraceTable` is what a DataFrame is to its readers, without what importing pandas costs (0.2 s, as much as analyzing a
small trace): columns by name, rows by a mask or by positions. The methods of a `Timeline` give DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Column = npt.NDArray[Any]
    Rows = npt.NDArray[np.bool_] | npt.NDArray[np.signedinteger[Any]] | slice
    """Which rows of a table: a mask, positions, or a slice."""

Text = Literal["api", "cause", "direction", "kind", "location_source", "memory", "name"]
"""Columns that hold words of a short list."""
_WIDTHS = ((127, "int8"), (32767, "int16"))


@dataclass(frozen=True, slots=True, eq=False)
class TextColumn:
    """A column of text that says each word once: `codes` are positions in `words`."""

    codes: Column
    words: tuple[str, ...]

    @classmethod
    def coded(cls, codes: Column, words: Iterable[str]) -> TextColumn:
        """With codes as narrow as that many words allow."""
        words = tuple(words)
        width = next((name for most, name in _WIDTHS if len(words) <= most), "int32")
        return cls(codes.astype(width, copy=False), words)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return map(self.words.__getitem__, self.codes.tolist())

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> str: ...
    @overload
    def __getitem__(self, rows: Rows) -> TextColumn: ...
    def __getitem__(self, rows: Any) -> str | TextColumn:
        """The word of one row, or some rows."""
        codes = self.codes[rows]
        return self.words[codes] if codes.ndim == 0 else TextColumn(codes, self.words)

    def tolist(self) -> list[str]:
        """The word of each row."""
        return list(self)

    def used(self) -> set[str]:
        """The words that occur."""
        return {self.words[code] for code in set(self.codes.tolist())}


@dataclass(frozen=True, slots=True, eq=False)
class TraceTable:
    """Columns of equal length. It is never changed: `with_columns` gives another one that shares the other columns."""

    columns: Mapping[str, Column | TextColumn]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @overload
    def __getitem__(self, key: Text) -> TextColumn: ...  # type: ignore[overload-overlap]  # text goes before other names
    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: Rows) -> TraceTable: ...
    def __getitem__(self, key: Any) -> Any:
        """A column by its name, or the table of some rows: a mask, positions, or a slice."""
        if isinstance(key, str):
            return self.columns[key]
        return TraceTable({name: column[key] for name, column in self.columns.items()})

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def with_columns(self, **columns: Column | TextColumn) -> TraceTable:
        """With these columns in place of, or after, its own."""
        return TraceTable({**self.columns, **columns})

    def row(self, position: int) -> dict[str, Any]:
        """One row by the names of its columns, in Python's own values."""
        return {name: column[position : position + 1].tolist()[0] for name, column in self.columns.items()}

    def frame(self) -> pd.DataFrame:
        """A DataFrame of its own: columns of words are categorical, others keep their type."""
        import pandas as pd

        return pd.DataFrame({name: _series(column) for name, column in self.columns.items()})


def _series(column: Column | TextColumn) -> Any:
    import pandas as pd

    if isinstance(column, TextColumn):
        return pd.Categorical.from_codes(column.codes, categories=pd.Index(column.words, dtype=object))
    return pd.Series(column, dtype=column.dtype, copy=True)
