"""Every number that decides a verification, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VerifyPolicy:
    """Thresholds and sizes of a verification."""

    default_steps: int = 200
    """Twenty drains of the default interval."""
    least_steps: int = 20
    """Below two default intervals a deferred read may not have run at all."""
    warmup_steps: int = 10
    """Allocator growth, cuDNN selection and lazy initialization happen in the first handful of steps."""
    warmup_share: float = 0.25
    """Short runs give up at most this share of their steps to warm-up."""
    block_steps: int = 10
    """Step times are summarized in blocks of one drain interval, so that every block pays for exactly one drain."""
    least_blocks: int = 3
    """With fewer blocks the mean is taken instead of their median."""
    timed_seconds: float = 2.0
    """A shorter timed span is dominated by scheduling; more steps cost little beside the process's start."""
    most_longer: int = 10
    """... but at most so many times the steps that were asked for: a script has only so many."""
    pairs: int = 5
    """Student's t needs 2.8 standard errors with five pairs, 4.3 with three."""
    least_pairs: int = 3
    """With two pairs the interval is four times as wide as with five, too wide for a verdict."""
    most_pairs: int = 12
    """Pairs are added while the interval does not decide and the budget lasts, up to this many."""
    minimum_gain: float = 0.01
    """A ratio within 1 % of one is called no change: identical runs on a shared host differ by more."""
    decisive_half_width: float = 0.03
    """`no change` may be said when the interval is narrower than this on either side; wider ones decide nothing."""
    window_steps: int = 8
    """Recorded steps per version in the separate run that counts synchronizations; costs 2-12 MB of trace."""
    window_warmup: int = 2
    """Steps in which the profiler is on but not recording: its first start initializes the GPU's tracing library."""
    memory_steps: int = 40
    """Steps whose allocated memory is sampled for its slope: four drains of the default interval."""
    start_seconds: float = 8.0
    """Assumed start of one process (import torch, build the model) until the first run has shown it."""
    longest_wait: float = 4.0
    """A process may take so many times what the first run took before it is stopped as hanging."""
    shortest_wait_seconds: float = 120.0
    """Compilation in an early step can dwarf everything that follows; never call a process hung before this."""
    linger_seconds: float = 20.0
    """How long a script may take after its last step: `finally` blocks, threads of its own."""
    band_seeds: int = 3
    """Seeds of the original with which changed numbers are compared; two would give no usable spread."""
    copy_file_bytes: int = 2 << 20
    """Larger files are data: they are linked into the working copy, and copied only when the script writes to them."""
    copy_total_bytes: int = 200 << 20
    """Most bytes copied per process; the rest is linked."""
    copy_files: int = 4000
    """... and at most so many files: each costs a copy per process, and no source tree near a script has more."""
    copy_entries: int = 1000
    """A folder with more entries is data and is linked as a whole."""
    copy_data_entries: int = 100
    """... and one with more entries than this, if no source file is among them."""


POLICY = VerifyPolicy()
