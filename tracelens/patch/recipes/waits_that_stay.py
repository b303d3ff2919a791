"""Waits that stay in each batch right beside a read: with them nothing is gained when the read waits.

In: a loop, the reads that would be deferred, and those that cannot be. Out: the wait that stays, or None. Two waits are
beside one another where nothing between them gives the GPU more than a few short kernels: whichever comes first waits
for all of it. Beside a wait that is made many times in each batch one more is no matter, wherever it stands.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import last_name, of_kinds, rebound, root_key, targets, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.loop.device_values import DeviceValues
from tracelens.patch.loop.facts import LoopFacts, head_parts, leaves_of
from tracelens.patch.loop.loops import Blocked, own_nodes, trains
from tracelens.patch.loop.sites import Site, find, read_of
from tracelens.patch.proposal import Found, RecipeRequest, Target
from tracelens.patch.recipes import called_functions, numbers_already
from tracelens.patch.recipes.called_functions import is_certain

BY_HAND = say("take that wait out first")
OFTEN = 0.25
"""Calls per step from which a read below `if step % k == 0` costs enough to wait; k is 1 by default or not known."""


@dataclass(frozen=True)
class Moving:
    """What a patch would let wait: the reads, and all statements that run later with them."""

    reads: Found
    statements: Sequence[cst.CSTNode]


def nothing_gained(request: RecipeRequest, facts: LoopFacts, found: Found, moving: Moving) -> Blocked | None:
    """A wait beside all of the reads, or many in each batch, that nothing in this patch takes out of the loop."""
    if request.source.line(facts.loop) in request.changing:
        return None
    kept = [site for site, _ in moving.reads]
    inside = set(walk(facts.loop.body))
    others = [(site, target) for site, target in found if site not in kept and target.stalls]
    stays = [site for site, target in others if site.node in inside and not seldom(facts, site, target)]
    if any(target.stalls for _, target in found) and not _recorded(found):
        moved = {part for node in moving.statements for part in walk(node)}
        stays = [*(site for site in stays if _is_a_wait(facts, site)), *_in_text(facts, moved)]
    if not _recorded(found) and all(numbers_already.waits_for_nothing(facts, site) for site in kept):
        return Blocked(None, say("what it shows is a number already: nothing waits here"), say("nothing to do"))
    often = [site for site, target in moving.reads if not seldom(facts, site, target)]
    if (wait := _beside(facts, often, stays)) is not None:
        said = say(
            "the wait in line {line} stays in each batch, right beside it: nothing would be gained", line=wait.line
        )
        return Blocked(None, said, BY_HAND)
    called = [site for site, _ in others] if _recorded(found) else [*stays, *_in_functions(facts)]
    if (wait := _repeated(facts, called)) is not None:
        said = say(
            "the wait in line {line} stays, several times in each batch: hardly anything would be gained",
            line=wait.line,
        )
        return Blocked(None, said, BY_HAND)
    return None


def seldom(facts: LoopFacts, site: Site, target: Target) -> bool:
    """Whether a read is made in few batches only."""
    often = sum(stall.calls_per_step for stall in target.stalls) >= OFTEN
    return not often and facts.in_rare_branch(site.node)


def _recorded(found: Found) -> bool:
    """Whether the waits were measured: without a recording each place of a batch is taken for one."""
    return any(stall.wait_ns for _, target in found for stall in target.stalls)


def _is_a_wait(facts: LoopFacts, site: Site) -> bool:
    """Whether a place that was not recorded waits by its form: `int(x)` may be of a number, the batch of the host."""
    read = read_of(site.node)
    if read is None or read.kind in ("number", "formatted"):
        return False
    fresh = {name for one in targets(facts.loop) if isinstance(one, cst.Name) and (name := one.value)}
    copied = {name for leaf in facts.leaves for name in rebound(leaf)}
    return root_key(read.tensor) not in fresh - copied or not fresh & copied


def _beside(facts: LoopFacts, kept: Sequence[Site], stays: Sequence[Site]) -> Site | None:
    """The wait that stays beside every one of the reads, the first of them where there are several."""
    staying = [*stays, *_synchronizes(facts)]
    found = [next((other for other in staying if _together(facts, read, other)), None) for read in kept]
    return found[0] if found and all(other is not None for other in found) else None


def _repeated(facts: LoopFacts, stays: Sequence[Site]) -> Site | None:
    """The wait that stays in each round of a loop within the batch, in this loop or in a function that it calls."""
    return next((site for site in stays if _in_rounds(facts, site)), None)


def _in_text(facts: LoopFacts, moved: Collection[cst.CSTNode]) -> Iterator[Site]:
    """The places of the loop that wait for a tensor on the GPU in each batch, those of `moved` statements left out."""
    inside = {leaf for leaf in facts.leaves if leaf not in moved and not facts.in_rare_branch(leaf)}
    called = (node.func for node in of_kinds(facts.loop.body, (cst.Call,)) if isinstance(node, cst.Call))
    trained = (one.value for one in called if isinstance(one, cst.Attribute) and one.attr.value == "backward")
    values = DeviceValues(facts.source, frozenset(one.value for one in trained if isinstance(one, cst.Name)))
    body = facts.scope.body.body if isinstance(facts.scope, cst.FunctionDef) else facts.scope.body
    for leaf, waiting in values.follow(leaf for one in body for leaf in leaves_of(one)):
        if leaf in inside:
            calls = (part for head in head_parts(leaf) for part in walk(head) if isinstance(part, cst.Call))
            called = (one for one in calls if called_functions.waits(facts.source, one, values))
            yield from (Site("read", facts.source, node, leaf) for node in (*waiting, *called))


def _in_functions(facts: LoopFacts) -> Iterator[Site]:
    """Tensors that other functions of the file read, each by itself."""
    inside = set(own_nodes(facts.scope))
    for site in find(facts.source):
        read = read_of(site.node)
        if site.kind == "read" and site.node not in inside and read is not None and read.kind in ("item", "tolist"):
            yield site


def _in_rounds(facts: LoopFacts, site: Site) -> bool:
    function, rounds = _way_up(facts, site.node)
    if function is None:
        return rounds
    name = function.name.value
    named = [one for one in of_kinds(facts.source.module, (cst.FunctionDef,)) if _name(one) == name]
    calls = (call for call in own_nodes(facts.loop.body) if isinstance(call, cst.Call) and last_name(call.func) == name)
    inside = is_certain(facts.source, site.node, function)
    certain = (call for call in calls if inside and is_certain(facts.source, call, facts.loop))
    return len(named) == 1 and any(rounds or _way_up(facts, call)[1] for call in certain)


def _way_up(facts: LoopFacts, node: cst.CSTNode) -> tuple[cst.FunctionDef | None, bool]:
    """The function around a place where that is not the loop's, and whether the place is in a loop within the batch."""
    below, rounds = node, False
    for ancestor in facts.source.ancestors(node):
        if ancestor is facts.loop:
            return None, rounds and is_certain(facts.source, node, ancestor)
        if isinstance(ancestor, cst.FunctionDef):
            return ancestor, rounds and is_certain(facts.source, node, ancestor)
        if isinstance(ancestor, (cst.For, cst.While)) and below is ancestor.body:
            rounds = rounds or isinstance(ancestor, cst.While) or isinstance(ancestor.iter, cst.Call)
        below = ancestor
    return None, False


def _synchronizes(facts: LoopFacts) -> Iterator[Site]:
    inside = set(own_nodes(facts.loop.body))
    for site in find(facts.source):
        if site.kind == "sync" and site.node in inside and not facts.in_rare_branch(site.node):
            yield site


def _together(facts: LoopFacts, read: Site, other: Site) -> bool:
    """Whether whoever comes by the read comes by the other too, and little work for the GPU is given in between."""
    source, rounds = facts.source, _rounds(facts, read.node)
    at = rounds if rounds is not None and other.node not in set(walk(rounds.body)) else read.node
    met = at if at is rounds and other.node in set(walk(rounds.iter)) else other.node
    blocks = {id(block) for block in _blocks(facts, at)}
    block = next((one for one in _blocks(facts, met) if id(one) in blocks), None)
    if block is None or not is_certain(source, met, block):
        return False
    (_, begin), (_, end) = sorted((source.span(at), source.span(other.node)), key=lambda span: span[1])
    between = (call for call in walk(block) if isinstance(call, cst.Call) and begin < source.span(call)[1] <= end)
    again = (call for call in walk(at.body) if isinstance(call, cst.Call)) if at is rounds else ()
    calls = (call for call in (*between, *again) if call is not read.node and call is not other.node)
    return all(facts.in_rare_branch(call) or called_functions.gives_little_work(source, call) for call in calls)


def _rounds(facts: LoopFacts, node: cst.CSTNode) -> cst.For | None:
    """The outermost `for` loop within the batch around a place: its rounds wait once, for what is given before."""
    inside = itertools.takewhile(lambda one: one is not facts.loop, facts.source.ancestors(node))
    found = [one for one in inside if isinstance(one, (cst.For, cst.While))]
    return found[-1] if found and isinstance(found[-1], cst.For) else None


def _blocks(facts: LoopFacts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The blocks around a place in which it is reached once: up to the body of the innermost loop."""
    for ancestor in facts.source.ancestors(node):
        if isinstance(ancestor, (cst.For, cst.While)):
            return
        if isinstance(ancestor, cst.IndentedBlock):
            yield ancestor


def _name(node: cst.CSTNode) -> str:
    return node.name.value if isinstance(node, cst.FunctionDef) else ""


def is_of_kept_values(facts: LoopFacts, site: Site) -> bool:
    """Whether a read is one of many of a list that a loop has filled: only the first of them waits.

    Either behind that loop, or in it where the list is emptied then.
    """
    read = read_of(site.node)
    loop = next((one for one in facts.source.ancestors(site.node) if isinstance(one, cst.For)), None)
    if read is None or loop is None or not isinstance(loop.iter, cst.Name) or trains(loop):
        return False
    name, block = loop.iter.value, facts.source.parent(loop)
    own = isinstance(read.tensor, cst.Name) and read.tensor.value in rebound(loop)
    behind = block.body[block.body.index(loop) + 1 :] if isinstance(block, cst.IndentedBlock) else ()
    emptied = any(facts.source.code(one).strip() == f"{name}.clear()" for one in behind[:1])
    filled = list(value_types.values_of(name, facts))
    lists = bool(filled) and all(isinstance(one, (cst.List, cst.ListComp)) for one in filled)
    return own and lists and (loop is facts.loop or emptied)
