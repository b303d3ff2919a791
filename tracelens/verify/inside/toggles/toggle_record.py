"""What became of one toggle in one process.

In: calls of the modules beside this one. Out: an entry of the process's record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

State = Literal["unused", "applied", "already", "refused"]


class ToggleRecord:
    """unused: nothing that it acts on was met. applied: it is on. already: the script has it on by itself. refused: it
    cannot be used here, `detail` says why. One that was refused somewhere stays so: it is not on everywhere."""

    def __init__(self, toggle: Mapping[str, Any]) -> None:
        self.kind = str(toggle["kind"])
        self.name = str(toggle["name"])
        self.value = toggle["value"]
        self.state: State = "unused"
        self.detail = ""

    def applied(self, detail: str = "") -> None:
        """It is on from here."""
        if self.state != "refused":
            self.state, self.detail = "applied", detail or self.detail

    def already(self, detail: str) -> None:
        """The script has switched it on by itself, here at least."""
        if self.state == "unused":
            self.state, self.detail = "already", detail

    def refused(self, reason: str) -> None:
        """It cannot be used."""
        if self.state != "refused":
            self.state, self.detail = "refused", reason

    def document(self) -> dict[str, Any]:
        """As the record of the process has it."""
        return {"kind": self.kind, "name": self.name, "value": self.value, "state": self.state, "detail": self.detail}
