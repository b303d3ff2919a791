"""A row of measurements made by hand, for tests of the judging."""

from __future__ import annotations

from typing import Any


def document(**changes: Any) -> dict[str, Any]:
    """One row: base 1,000, one version that was predicted 900 and takes about 880."""
    base = {
        "step_us": 1000.0,
        "recorded_us": 1200.0,
        "error_recorded": 0.001,
        "error_unprofiled": 0.01,
        "idle_share": 0.3,
        "abstention": None,
        "stalls": [{"wait_us": 50.0}, {"wait_us": 200.0}],
    }
    estimate = {"base_us": 1000.0, "step_us": 900.0, "low_us": 860.0, "high_us": 940.0}
    scheme = {
        "version": "v1",
        "edits": [{"kind": "defer-read", "stalls": ["s2"], "interval": 10, "depth": 0}],
        "estimate": estimate,
        "bounds_us": {"host_ns": 700.0, "stream_ns": 850.0, "copy_ns": 0.0, "loader_ns": 0.0},
    }
    return {
        "row": "loop-size",
        "loop": "loop",
        "tuning": False,
        "prediction": {"base": base, "schemes": {"interval-sync": scheme, "event-interval": scheme}},
        "versions": ["v1"],
        "arms": [
            {"version": version, "rep": rep, "block_us": [step, step, 5 * step]}
            for rep in range(3)
            for version, step in (("base", 1000.0 + rep), ("v1", 880.0 + rep))
        ],
    } | changes
