"""TraceLens: what a PyTorch training loop's GPU waits for, what each remedy buys, and a patch that keeps the numbers.

Importing this package imports nothing heavy; `load` is resolved on first use, so that `tracelens --help` stays fast
and everything that only reads traces works without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens.trace.chrome import load
    from tracelens.trace.hta_bridge import analysis as hta

__version__ = "0.1.0"
__all__ = ["__version__", "hta", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from tracelens.trace.chrome import load

        return load
    if name == "hta":
        from tracelens.trace.hta_bridge import analysis

        return analysis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
