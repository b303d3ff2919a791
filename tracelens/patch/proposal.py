"""What recipes are asked and what they answer.

In: nothing. Out: `RecipeRequest` (one file, one Edit, the places that the recording names), `Proposal` (one hunk, not
yet written) and `RecipeAnswer`. Apart so that recipes and the code that joins them share no more than these values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import libcst as cst

from tracelens.edit_kinds import EditKind, Tier, definition
from tracelens.messages import joined, parts_of, say, say_count
from tracelens.model import Declined, Edit, Location, Stall
from tracelens.patch.code import devices, formats, movers
from tracelens.patch.code.names import FileNames, walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop import unread
from tracelens.patch.loop.loops import DECIDES, RETURN_TENSOR, Blocked, Loop, is_rare, loops_around
from tracelens.patch.loop.sites import Site, SiteKind, find
from tracelens.units import ms

ON_CPU = (
    say("nothing in this script uses a GPU: on the CPU each value is there as soon as it is computed"),
    say("nothing to do; move the model and its batches to a GPU first"),
)
"""The same for every place of a script that runs on the CPU alone."""

NO_RECORD = say("no wait was recorded for it; found by its call")
COMPARE = say("apply with --unsafe, then compare with `verify`")


@dataclass(frozen=True)
class Target:
    """A place that the recording names: a line (None where it is not known), and the waits recorded there."""

    line: int | None
    stalls: tuple[Stall, ...] = ()


Found = list[tuple[Site, Target]]
L = TypeVar("L", bound=Loop)


@dataclass(frozen=True)
class RecipeRequest:
    """One Edit for one file."""

    source: SourceFile
    names: FileNames
    edit: Edit
    targets: tuple[Target, ...]
    unsafe: bool = False
    workers: int = 0
    """How many workers the patch gives to loaders; 0 where it leaves them as they are."""
    root: Path | None = None
    """The project's folder."""
    checked: bool = True
    """Whether hunks of tier `checked` go into the patch. A recipe may ignore it: `make` leaves such hunks out then.
    One that could prove a smaller change proposes that instead where this is False."""
    lossy: bool = True
    """Whether such hunks may lose values where an exception or a signal ends the loop."""
    changing: frozenset[int] = frozenset()
    """First lines of the loops in which a synchronize or a guard changes."""
    helped: frozenset[int] = frozenset()
    """Those of them in which that change calls the runtime."""
    start_method: str = "fork"
    """How the Python that runs the script starts workers, where the script does not choose."""

    @property
    def own_movers(self) -> tuple[Location, ...]:
        """Places in the project where a class has a `to` or `cuda` of its own that does not take `non_blocking`."""
        return movers.find(self.root) if self.root is not None else ()

    def place(self, node: cst.CSTNode | None, function: str | None = None) -> Location:
        return Location(self.source.shown, None if node is None else self.source.line(node), function)

    def decline(self, node: cst.CSTNode | None, blocked: Blocked) -> Declined:
        """Decline the place at `node`. The obstacle's line is named where it is another one."""
        obstacle = blocked.obstacle
        if blocked.node is not None and node is not None and blocked.node in self.source.spans:
            line = self.source.line(blocked.node)
            if line != self.source.line(node):
                obstacle = say("{path}:{line}: {obstacle}", path=self.source.shown, line=line, obstacle=obstacle)
        by_hand = definition(self.edit.kind).by_hand_in_helper if blocked.by_hand == RETURN_TENSOR else ""
        return Declined(self.edit.kind, self.place(node), obstacle, by_hand or blocked.by_hand)

    def decline_target(self, target: Target, blocked: Blocked) -> Declined:
        """Decline a place that the recording names, of which the file shows nothing that could be changed."""
        return Declined(self.edit.kind, Location(self.source.shown, target.line), blocked.obstacle, blocked.by_hand)

    def check_unsafe(self, reason: str, node: cst.CSTNode | None = None, by_hand: str = COMPARE) -> None:
        """Raise `Blocked` where nobody asked for what changes numbers in the way that `reason` tells."""
        if not self.unsafe:
            raise Blocked(node, say("needs --unsafe: {reason}", reason=reason), by_hand)

    def proposed(self, node: cst.CSTNode, reason: str, evidence: str, splices: tuple[Splice, ...]) -> Proposal:
        """The change of one place, which is safe and takes the place of what other kinds declined there."""
        place = self.place(node, self.source.function_around(node))
        covers = (self.place(node),)
        return Proposal(self.edit.kind, "safe", place, reason, evidence, splices, covers=covers)


RuntimeCall = Literal["record", "synchronize"]
"""Methods of the runtime that replace a synchronize."""


@dataclass(frozen=True)
class Proposal:
    """One hunk that could be made. Either `splices` within lines, or `sites` of a loop by their numbers in the file."""

    edit: EditKind
    tier: Tier
    location: Location
    reason: str
    evidence: str
    splices: tuple[Splice, ...] = ()
    loop_line: int = 0
    sites: tuple[int, ...] = ()
    replaced_by: RuntimeCall | None = None
    """What takes the place of the calls at `sites`; None where the statements around them run later."""
    needs_runtime: bool = False
    plain: bool = False
    """What changes at `sites` is lines of plain torch, as long as all other changes of the loop are: reads wait in
    lists, and events stand in for a synchronize."""
    guards: tuple[int, ...] = ()
    """Guards that are moved with the sites, by their numbers in the file."""
    rare: tuple[int, ...] = ()
    """Sites that the splices make rare, so that no other hunk needs to change them."""
    covers: tuple[Location, ...] = ()
    """Places that it changes although Edits of other kinds declined them."""
    hoists: tuple[Splice, ...] = ()
    """Reads that move from a step function to its calls. `sites` are then numbered as in the file after that."""
    elsewhere: tuple[tuple[Path, Proposal], ...] = ()
    """What changes in other files together with this: all of it is made, or nothing."""
    unproved: str = ""
    """Of tier `checked`: what is not known, as one sentence without a full stop. See `as_checked`."""

    def __post_init__(self) -> None:
        if (self.tier == "checked") != bool(self.unproved):
            raise ValueError(f"{self.location}: a proposal of tier `checked`, and no other, says what is not known")

    def as_checked(self, unproved: str) -> Proposal:
        """The same change, not proved because of `unproved`.

        A safe one becomes `checked`, a checked one gets one more sentence. An unsafe one keeps its tier, and the
        sentence joins its reason, which a person reads before --unsafe.
        """
        if self.tier not in ("safe", "checked"):
            return replace(self, reason=say("{reason}; not proved: {unproved}", reason=self.reason, unproved=unproved))
        known = parts_of(self.unproved)
        if unproved in known:
            return self
        return replace(self, tier="checked", unproved=joined("; ", [*known, *parts_of(unproved)]))


@dataclass(frozen=True)
class RecipeAnswer:
    proposals: tuple[Proposal, ...] = ()
    declined: tuple[Declined, ...] = ()


def matched(request: RecipeRequest, kind: SiteKind) -> tuple[Found, list[Declined]]:
    """The sites of a kind that the targets mean; what no site stands for is declined."""
    sites = [site for site in find(request.source) if site.kind == kind]
    found: Found = []
    declined: list[Declined] = []
    for target in request.targets:
        if not target.stalls and devices.only_cpu(request.source):
            declined.append(request.decline_target(target, Blocked(None, *ON_CPU)))
            continue
        if target.line is None:
            chosen, reason = _unlocated(request, sites)
        else:
            chosen, reason = _at_line(sites, target.line), None
        if not chosen:
            declined.append(_nothing_there(request, target, kind, reason))
        found += [(site, target) for site in chosen if not any(site is other for other, _ in found)]
    return found, declined


def by_loop(
    request: RecipeRequest, found: Found, declined: list[Declined], loop_of: Callable[[RecipeRequest, Site], L]
) -> list[tuple[L, Found]]:
    """The sites by the training loop around them, for recipes that change whole loops; `loop_of` gives that of a site,
    or raises `Blocked`."""
    loops: dict[int, tuple[L, Found]] = {}
    for site, target in found:
        try:
            loop = loop_of(request, site)
        except Blocked as blocked:
            declined.append(request.decline(site.node, blocked))
            continue
        loops.setdefault(id(loop), (loop, []))[1].append((site, target))
    return list(loops.values())


def by_target(
    request: RecipeRequest, propose_at: Callable[[RecipeRequest, int | None], tuple[cst.CSTNode, Proposal]]
) -> RecipeAnswer:
    """One Proposal per node that `propose_at` finds at the targets' lines; what it raises is declined."""
    proposals: dict[int, Proposal] = {}
    declined: list[Declined] = []
    for target in request.targets:
        try:
            node, proposal = propose_at(request, target.line)
        except Blocked as blocked:
            declined.append(request.decline_target(target, blocked))
            continue
        proposals[id(node)] = proposal
    return RecipeAnswer(tuple(proposals.values()), tuple(declined))


def evidence(stalls: Sequence[Stall]) -> str:
    """What the recording says about a hunk, per step."""
    distinct = {stall.id: stall for stall in stalls}.values()
    if not distinct:
        return NO_RECORD
    calls = sum(stall.calls_per_step for stall in distinct)
    wait = ms(sum(stall.wait_ns for stall in distinct))
    exposed = [stall.exposed_ns for stall in distinct if stall.exposed_ns is not None]
    known = say("what it costs is not known")
    if len(exposed) == len(distinct):
        known = say("alone it costs {time}", time=ms(sum(exposed)))
    if calls == 1:
        return say("1 call per step, {wait} per step host-blocked, {known}", wait=wait, known=known)
    return say("{calls:g} calls per step, {wait} per step host-blocked, {known}", calls=calls, wait=wait, known=known)


def _at_line(sites: Sequence[Site], line: int) -> list[Site]:
    """Sites on the line itself; else those whose statement spans it. A `float(x)` only by its own line."""
    exact = [site for site in sites if site.source.covers(site.node, line)]
    return exact or [s for s in sites if s.covers(line)]


def _unlocated(request: RecipeRequest, sites: Sequence[Site]) -> tuple[list[Site], str | None]:
    """Without a line: every site that runs in each batch of the file's only training loop."""
    source = request.source
    loops = {id(loop): loop for site in sites for loop in [_loop_with_backward(source, site.node)] if loop is not None}
    if len(loops) != 1:
        count = (
            say_count("{count} training loop", "{count} training loops", len(loops))
            if loops
            else say("no training loop")
        )
        return [], say("the recording does not say where it is, and the file has {count} with such a call", count=count)
    loop = next(iter(loops.values()))
    inside = [s for s in sites if _loop_with_backward(source, s.node) is loop and not _guarded(source, s.node, loop)]
    return [s for s in inside if not _uncertain(s)], None


def _uncertain(site: Site) -> bool:
    """A `float(x)` or `{x:.3f}` may or may not wait: only a recorded line tells."""
    if not isinstance(site.node, cst.Call) or formats.formats(site.node, formats.templates(site.source)):
        return True
    return isinstance(site.node.func, cst.Name)


def _loop_with_backward(source: SourceFile, node: cst.CSTNode) -> Loop | None:
    return next((loop for loop in loops_around(source, node) if ".backward(" in source.code(loop)), None)


def _guarded(source: SourceFile, node: cst.CSTNode, loop: Loop) -> bool:
    for ancestor in source.ancestors(node):
        if ancestor is loop:
            return False
        if isinstance(ancestor, cst.If) and is_rare(ancestor.test, frozenset()):
            return True
    return False


def _nothing_there(request: RecipeRequest, target: Target, kind: SiteKind, reason: str | None) -> Declined:
    line = target.line
    known = line is not None and line <= len(request.source.line_starts)
    text = request.source.line_text(line).strip() if known and line is not None else ""
    location = Location(request.source.shown, line)
    if "scaler.step" in text or "scaler.update" in text:
        obstacle: str = say("GradScaler checks for overflow on the host")
        by_hand: str = say(
            "use a fused optimizer (`fused=True`), which checks on the GPU, or train in bfloat16 without a scaler"
        )
    elif reason is not None:
        obstacle, by_hand = (
            reason,
            say("record again with `tracelens profile`, which notes the source line of each wait"),
        )
    elif known and kind == "read" and _is_condition(request.source, line):
        obstacle, by_hand = DECIDES
    elif kind == "read" and line is not None and (why := unread.why(request.source, line)):
        obstacle, by_hand = why
    else:
        obstacle = say("no call on this line that {kind} changes", kind=request.edit.kind)
        by_hand = say("look at what this line calls: the wait is inside")
    return Declined(request.edit.kind, location, obstacle, by_hand)


def _is_condition(source: SourceFile, line: int | None) -> bool:
    """Whether `if`, `while` or `assert` tests something on this line: a wait there is for a tensor's truth."""
    tests = [
        node.test
        for node in walk(source.module)
        if isinstance(node, cst.Assert)
        or (isinstance(node, (cst.If, cst.While)) and isinstance(node.body, cst.IndentedBlock))
    ]
    return any(source.covers(test, line) for test in tests)
