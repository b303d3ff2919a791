"""The recipes, one module per kind of Edit, and `make`, which joins their answers into a Patch.

In: the project's files, the Edits of a scheme and the recorded Stalls. Out: a `Patch`; nothing is written.
"""

from __future__ import annotations

from tracelens.patch.recipes.build import make
from tracelens.patch.recipes.rewriting import PatchOptions

__all__ = ["PatchOptions", "make"]
