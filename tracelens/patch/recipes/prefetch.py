"""prefetch: the loader copies the next batches to the GPU on a stream of its own while the current one is computed.

In: a RecipeRequest. Out: a Proposal for the loop's `for` line. The loop must copy every part of its batch itself, at
the same device and before any other use, so that getting it on the GPU already changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tracelens.messages import joined, say
from tracelens.model import Tier
from tracelens.patch.code.names import dotted, key, rebound, root_key, variables, walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.files.vendored import MODULE
from tracelens.patch.loop import hidden
from tracelens.patch.loop.facts import facts_of
from tracelens.patch.loop.loaders import batch_names, construction, keyword, loader_of, whole_of
from tracelens.patch.loop.loops import Blocked, check_framework, own_nodes, side_work
from tracelens.patch.loop.sites import find, is_typed_copy
from tracelens.patch.proposal import Found, Proposal, RecipeAnswer, RecipeRequest, by_loop, evidence, matched
from tracelens.patch.recipes import host_memory
from tracelens.patch.recipes.async_copy import copy_loop

_SHAPES = frozenset({"size", "shape", "dim", "ndim", "numel", "dtype"})
_WORKERS_POSITION = 5
_SAMPLING = say("a sampler of the script's own may draw random numbers when it is asked one batch earlier")
_MOVED = (
    ("sampler", _SAMPLING),
    ("batch_sampler", _SAMPLING),
    ("generator", say("its generator may be used by others as well, who would draw before it and not after")),
)
_PERSISTENT = "persistent_workers"
_ONE_MORE = say("the loop can end early, and workers that live on would have drawn random numbers for one batch more")


def propose(request: RecipeRequest) -> RecipeAnswer:
    found, declined = matched(request, "copy")
    proposals = []
    for loop, members in by_loop(request, found, declined, copy_loop):
        try:
            proposal = _proposal(request, loop, members)
        except Blocked as blocked:
            declined.append(request.decline(loop, blocked))
            continue
        if proposal is not None:
            proposals.append(proposal)
    return RecipeAnswer(tuple(proposals), tuple(declined))


def _proposal(request: RecipeRequest, loop: cst.For, members: Found) -> Proposal | None:
    source, names = request.source, request.names
    check_framework(names)
    for sign, meaning in side_work(names, source.module):
        if "threads" not in meaning:
            raise Blocked(
                sign,
                say("the file {meaning}", meaning=meaning),
                say("use the prefetcher that the training already has"),
            )
    loader = loader_of(loop, names)
    if loader is None:
        by_hand = say("wrap the DataLoader where it is made: tracelens_runtime.prefetch(loader, device)")
        raise Blocked(None, say("the loop does not run over a loader that can be wrapped here"), by_hand)
    if isinstance(loader, cst.Call) and dotted(loader.func).endswith("prefetch"):
        return None
    device = _device(request, loop)
    _check_uses(request, loop)
    tier, extra, reason = _draws(request, loop, loader)
    start, end = source.outer_span(loader)
    argument = f", {device}" if device else ""
    proposal = Proposal(
        edit="prefetch",
        tier=tier,
        location=request.place(loop, members[0][0].function),
        reason=reason,
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        splices=(
            Splice(start, start, f"{MODULE}.prefetch("),
            Splice(
                end,
                end,
                f"{argument}, depth={max(1, request.edit.depth)}{extra})",
            ),
        ),
        needs_runtime=True,
    )
    doubt = host_memory.doubt(request, loop, (site for site, _ in members))
    return proposal.as_checked(doubt) if doubt else proposal


def _draws(request: RecipeRequest, loop: cst.For, loader: cst.BaseExpression) -> tuple[Tier, str, str]:
    """Whether fetching ahead moves random draws: it does where the main process makes the items or chooses them."""
    ahead = say("the next batch is copied on a stream of its own while the current one is computed")
    checked = say("{ahead}, if the loader has workers and samples by itself (checked at run time)", ahead=ahead)
    early = ", leaves_early=True" if _leaves_early(loop) else ""
    call = construction(request.source, request.names, loader)
    if call is None:
        return "safe", early, checked
    hidden_names = hidden.names(request.source, call)
    given = {name for name in (*dict(_MOVED), _PERSISTENT) if keyword(call, name, 99)} | (hidden_names or set())
    moved = next((said for name, said in _MOVED if hidden_names is None or name in given), None)
    if moved is None and early and _PERSISTENT in given and dotted(keyword(call, _PERSISTENT, 99)) != "False":
        moved = _ONE_MORE
    workers = keyword(call, "num_workers", _WORKERS_POSITION)
    if moved is None and (workers is None or getattr(workers, "value", "") == "0") and "num_workers" not in given:
        moved = say("without workers, items are made one batch earlier, which moves their random draws: numbers change")
    if moved is None:
        return "safe", early, ahead if isinstance(workers, cst.Integer) else checked
    request.check_unsafe(moved, call)
    return "unsafe", ", move_random_draws=True", joined("; ", [ahead, moved])


def _leaves_early(loop: cst.For) -> bool:
    """Whether the loop can end before its loader does."""
    inner = {id(n) for one in walk(loop.body) if isinstance(one, (cst.For, cst.While)) for n in walk(one.body)}
    ends = (n for n in own_nodes(loop.body) if isinstance(n, (cst.Break, cst.Return)))
    return any(isinstance(node, cst.Return) or id(node) not in inner for node in ends)


def _device(request: RecipeRequest, loop: cst.For) -> str:
    """The device that all copies of the batch go to; "" for the current one."""
    facts = facts_of(request.source, loop)
    devices: dict[str, cst.Call] = {}
    for call in _batch_copies(request, loop):
        if is_typed_copy(call, request.names):
            by_hand = say("copy with `.to(device)`, or wrap the loader by hand")
            raise Blocked(call, say("the device is hidden in a type of tensor"), by_hand)
        chosen = call.args[0] if call.args else None
        if chosen is not None and chosen.keyword is not None:
            chosen = next((a for a in call.args if a.keyword is not None and a.keyword.value == "device"), None)
        if chosen is not None and any(key(v) in facts.varying for v in variables(chosen.value)):
            raise Blocked(call, say("the device changes in the loop"), say("copy to one device"))
        devices[request.source.code(chosen.value) if chosen is not None else ""] = call
    if len(devices) != 1:
        raise Blocked(loop, say("the parts of the batch go to different devices"), say("wrap the loader by hand"))
    return next(iter(devices))


def _batch_copies(request: RecipeRequest, loop: cst.For) -> Iterator[cst.Call]:
    names = batch_names(loop)
    for site in find(request.source):
        call = site.node
        inside = any(ancestor is loop for ancestor in request.source.ancestors(call))
        if site.kind != "copy" or not inside or not isinstance(call, cst.Call):
            continue
        if isinstance(call.func, cst.Attribute) and root_key(call.func.value) in names:
            yield call


def _check_uses(request: RecipeRequest, loop: cst.For) -> None:
    """Every tensor of the batch is copied by the loop before it is used for anything but its shape."""
    names = batch_names(loop)
    copies = list(_batch_copies(request, loop))
    inside = {id(variable) for call in copies for variable in variables(call.func)}
    replaced: dict[str, int] = {}
    behind: dict[str, int] = {}
    for statement in loop.body.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            here = (root_key(call.func) or "" for call in copies if any(part is call for part in walk(small)))
            copied = {whole_of(loop, name)[-1] for name in here}
            if isinstance(small, cst.Assign):
                for name in rebound(small) & copied:
                    replaced.setdefault(name, request.source.line(small))
                    behind.setdefault(name, request.source.last_line(small))
    for variable in _loads(loop):
        name = key(variable)
        line = request.source.line(variable)
        if name not in names or id(variable) in inside or line >= replaced.get(name, line + 1):
            continue
        if line > behind.get(_taken_from(request.source, variable), line):
            continue
        if not _only_shape_or_unpacking(request, variable, names):
            by_hand = say("copy it to the GPU before it is used, or leave it out of the batch")
            raise Blocked(variable, say("`{name}` is used on the CPU", name=name), by_hand)


def _loads(loop: cst.For) -> Iterator[cst.Name]:
    stored = {id(v) for n in own_nodes(loop.body) if isinstance(n, cst.Assign) for t in n.targets for v in walk(t)}
    stored |= {id(v) for n in walk(loop.body) if isinstance(n, (cst.For, cst.CompFor)) for v in walk(n.target)}
    for variable in variables(loop.body):
        if isinstance(variable, cst.Name) and id(variable) not in stored:
            yield variable


def _taken_from(source: SourceFile, variable: cst.Name) -> str:
    """`targets`, for the `t` of a comprehension over it; "" for a name of the loop itself."""
    for ancestor in source.ancestors(variable):
        if isinstance(ancestor, cst.BaseSmallStatement):
            break
        parts = (
            [part for part in walk(ancestor) if isinstance(part, cst.CompFor)]
            if isinstance(ancestor, cst.BaseComp)
            else []
        )
        for part in parts:
            if any(isinstance(v, cst.Name) and v.value == variable.value for v in walk(part.target)):
                return root_key(part.iter) or ""
    return ""


def _only_shape_or_unpacking(request: RecipeRequest, variable: cst.Name, names: frozenset[str]) -> bool:
    parent = request.source.parent(variable)
    if isinstance(parent, cst.Attribute) and parent.attr.value in (*_SHAPES, "items", "values", "keys"):
        return True
    if isinstance(parent, cst.Arg):
        call = request.source.parent(parent)
        return isinstance(call, cst.Call) and (dotted(call.func) == "len" or _asks_for_tensor(call, variable.value))
    if isinstance(parent, cst.DictComp):
        return parent.key is variable  # keys stay where they are
    if isinstance(parent, cst.IfExp):
        return parent.orelse is variable and _asks_for_tensor(parent.test, variable.value)
    if isinstance(parent, cst.Assign):
        return all(t.value in names for n in (parent,) for t in _names_of(n))
    return isinstance(parent, (cst.For, cst.CompFor))


def _asks_for_tensor(test: cst.BaseExpression, name: str) -> bool:
    """`isinstance(v, torch.Tensor)`: what fails it is no tensor, and stays as it is in both."""
    if not isinstance(test, cst.Call) or not test.args or dotted(test.args[0].value) != name:
        return False
    other = test.args[1].value if len(test.args) > 1 else None
    method = other.value.strip("\"'") if isinstance(other, cst.SimpleString) else ""
    called = dotted(test.func)
    if called == "hasattr":
        return method == "to"
    return called == "torch.is_tensor" or (called == "isinstance" and dotted(other) in ("torch.Tensor", "Tensor"))


def _names_of(node: cst.Assign) -> Iterator[cst.Name]:
    for target in node.targets:
        for part in walk(target):
            if isinstance(part, cst.Name):
                yield part
