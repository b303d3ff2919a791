"""A patch that was made without a recording, as text and as JSON.

In: a Patch of every place. Out: one string, or the document of docs/patch.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from tracelens.messages import say
from tracelens.model import Hunk, Patch
from tracelens.report import diff, terminal
from tracelens.report.terminal import TerminalStyle


def text(change: Patch, style: TerminalStyle, next_command: str, summary: str) -> str:
    """A patch without a recording: the diff, each hunk, and every place that was declined."""
    return terminal.draw(_text(change, next_command, summary), style)


def document(change: Patch) -> dict[str, Any]:
    """A patch without a recording as the JSON of `patch` has it (docs/patch.schema.json)."""
    return {
        "diff": change.diff,
        "files": [{"path": diffed.path, "created": diffed.created} for diffed in diff.parse(change.diff)],
        "hunks": [_place_document(hunk, hunk.explanation) for hunk in change.hunks],
        "left_out": [_place_document(hunk, hunk.explanation) for hunk in change.left_out],
        "declined": [
            {
                "path": item.location.path,
                "line": item.location.line,
                "kind": item.edit,
                "reason": item.obstacle,
                "by_hand": item.by_hand,
            }
            for item in change.left_alone
        ],
    }


def _place_document(hunk: Hunk, reason: str) -> dict[str, Any]:
    place = hunk.location
    return {"path": place.path, "line": place.line, "kind": hunk.edit, "tier": hunk.tier, "reason": reason}


def _text(change: Patch, next_command: str, summary: str) -> Iterator[RenderableType]:
    if change.diff:
        yield terminal.diff(diff.parse(change.diff))
    for title, hunks in (
        (say("Changes"), change.hunks),
        (say("Left out: not proved, --checked writes it"), change.left_out),
    ):
        if hunks:
            yield terminal.heading(title)
            rows = [(str(hunk.location), hunk.edit, hunk.tier, hunk.explanation) for hunk in hunks]
            yield terminal.table((say("where"), say("edit"), say("tier"), say("what")), rows, frozenset())
    if change.left_alone:
        yield terminal.heading(say("Declined"))
        declined = [(str(item.location), item.edit, item.obstacle, item.by_hand) for item in change.left_alone]
        yield terminal.table(
            (say("where"), say("edit"), say("what stands in the way"), say("by hand")), declined, frozenset()
        )
    yield terminal.paragraph(summary)
    yield terminal.next_command(next_command)
