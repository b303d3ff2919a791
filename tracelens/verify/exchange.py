"""What the supervisor tells the agent in a trial process, and what both sides must agree on.

In: nothing. Standard library only: the supervisor never imports torch, the agent runs before the script has.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

AGENT = "tracelens.verify.inside.agent"
"""The module that the launcher's bootstrap loads in each Python process of a trial."""
OBSERVER_FAILED = 98
"""Exit code of a process whose observer failed: an error in TraceLens, not in the script."""
RECORD = "record-{rank}-{pid}.json"
"""One file per process that trained, in the folder `out`."""
REFUSED_WRITES = "refused-{pid}.txt"
"""One file per process that wanted to write outside the working copy: a path per line."""

Mode = Literal["numbers", "timed", "window"]


class ToggleConfig(TypedDict):
    """A `tracelens.model.Toggle`."""

    kind: str
    name: str
    value: str | int | bool | None


class AgentConfig(TypedDict):
    """The agent's configuration, as the supervisor writes it to `config.json`."""

    mode: Mode
    out: str
    """Folder for the records."""
    scratch: str
    """The only folder that the process may write to."""
    tree: str
    """The mirror of the file system inside `scratch`."""
    project: str
    """Root of the user's sources; import paths into it lead to the working copy instead."""
    patched: list[str]
    """Real paths of the files that differ in this version."""
    steps: int
    """The process ends after this many training steps."""
    least_steps: int
    """`deadline_s` does not end a process before this many steps."""
    warmup: int
    """Steps that are not timed."""
    block: int
    """Steps per timed block."""
    seed: int
    seed_shift: int
    """Added to each seed that the script sets itself."""
    freed_memory_fill: bool
    """Overwrite freed GPU memory at every backward and every step."""
    deterministic: bool
    deadline_s: float | None
    """Age in seconds at which the process ends early; None: never."""
    linger_s: float
    """Seconds that the process may live on after its last step."""
    window_first: int
    window_warmup: int
    window_steps: int
    toggles: list[ToggleConfig]
    """Levers that are switched on in the process."""
    landlock: NotRequired[bool]
    """False leaves the kernel's write protection off (tests of the Python layer)."""
