"""TraceLens: what a PyTorch training loop's GPU waits for, what each remedy buys, and a patch that keeps the numbers.

Importing this package imports nothing heavy; `load` is resolved on first use, so that `tracelens --help` stays fast
and everything that only reads traces works without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracelens.messages import say

if TYPE_CHECKING:
    from pathlib import Path

    from tracelens.capture.inside.profile_api import on_trace_ready, profile
    from tracelens.model import Timeline, Trace
    from tracelens.trace.chrome import load
    from tracelens.trace.hta_bridge import analysis as hta

__version__ = "0.1.0"
__all__ = ["__version__", "hta", "load", "on_trace_ready", "profile", "timeline"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from tracelens.trace.chrome import load

        return load
    if name == "hta":
        from tracelens.trace.hta_bridge import analysis

        return analysis
    if name in ("profile", "on_trace_ready"):
        from tracelens.capture.inside import profile_api

        return getattr(profile_api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def timeline(source: Trace | Path | str, *, rank: int | None = None) -> Timeline:
    """Steps, waits, copies, idle gaps and streams of a loaded trace, a trace file or a Run folder, as DataFrames.

    A Run folder adds source lines to the waits and leaves attributed steps out of the statistics. If it holds several
    ranks, `rank` says which one; raises `UsageError` if it must and does not, `InputError` if there is no trace.
    """
    from pathlib import Path

    from tracelens.model import Trace
    from tracelens.trace.timeline import build

    if isinstance(source, Trace):
        return build(source)
    from tracelens.errors import UsageError
    from tracelens.pipeline import open_inputs

    inputs = open_inputs((Path(source),))
    pairs = list(zip(inputs.traces, inputs.recordings, strict=True))
    chosen = [pair for pair in pairs if rank is None or pair[0].rank == rank]
    if len(chosen) != 1:
        ranks = ", ".join(str(trace.rank) for trace, _ in pairs)
        raise UsageError(
            say("{source} holds the ranks {ranks}", source=source, ranks=ranks),
            hint=say("say which one: tracelens.timeline(path, rank=…)"),
        )
    return build(*chosen[0])


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tracelens` in a notebook: gives it the cell magic `%%tracelens`."""
    from tracelens.notebook import register

    register(shell)
