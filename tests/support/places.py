"""Folders that tests read: the project, its samples, and the traces and documents beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_traces"
SAMPLE = SAMPLES / "sync_every_batch" / "run"
SCRIPTS = Path(__file__).parent / "scripts"
"""Training scripts that tests start."""
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces"
"""Recorded traces, too large for the repository; tests of them are skipped where they are not at hand."""
PUBLIC_TRACES = Path(os.environ.get("TRACELENS_TRACES", TRACES))
"""Public traces that are not among these, by the folder and name that the test of their headlines gives."""
SEEDS = SHARED / "seeds"
"""The documents that the schemes come from; tests of them are skipped likewise."""
