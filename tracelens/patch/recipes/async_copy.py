"""async-copy: batches are copied to the GPU from pinned memory, without blocking the host.

In: a RecipeRequest. Out: a Proposal for the copies of a loop and one for its loader (see `pinned`). Host to device
only: a copy to the host that does not block is garbage until somebody waits for it, and other devices than CUDA copy
wrongly.
"""

from __future__ import annotations

import itertools

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import FileNames, method_of, rebound, root_key, targets, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loaders import batch_names, has_hidden_arguments, whole_of
from tracelens.patch.loop.loops import BUILTINS, Blocked, check_framework, check_kept, loop_over_batches, own_nodes
from tracelens.patch.loop.sites import Site, is_built_on_gpu, is_copy_to_device
from tracelens.patch.proposal import Found, Proposal, RecipeAnswer, RecipeRequest, by_loop, evidence, matched
from tracelens.patch.recipes import copies_to_host, host_memory, pinned, wait_dependents
from tracelens.patch.recipes.arguments import with_argument
from tracelens.patch.recipes.memory_writes import text_of, views, writes_into

_VIEWS = words(
    "view reshape squeeze unsqueeze transpose permute narrow select flatten unflatten t expand chunk split unbind"
    " Variable items values keys __next__ next to cuda type get pop detach requires_grad_"
)
_STIFF = words("detectron2 pytorch3d")
"""Libraries with objects that move themselves by a `to` which takes the device only; a batch of transformers did so
before its version 4.46."""
_SMALL_INTEGERS = words("torch.uint8 torch.int8 torch.int16 torch.short")


def propose(request: RecipeRequest) -> RecipeAnswer:
    found, declined = matched(request, "copy")
    proposals: list[Proposal] = []
    for loop, members in by_loop(request, found, declined, copy_loop):
        proposals += _copies(request, loop, members)
        stalls = [stall for _, target in members for stall in target.stalls]
        try:
            proposals += pinned.propose(request, loop, stalls)
        except Blocked as blocked:
            declined.append(request.decline(blocked.node or loop, blocked))
    once = {proposal.splices: proposal for proposal in reversed(proposals)}  # two loops can share a loader
    return RecipeAnswer(tuple(reversed(once.values())), tuple(declined))


def copy_loop(request: RecipeRequest, site: Site) -> cst.For:
    """The loop whose batch a call copies to the GPU; raises `Blocked` if it is no such copy."""
    source = site.source
    check_kept(source, site.statement)
    if any(isinstance(n, cst.SimpleString) and n.value.strip("\"'") == "mps" for n in walk(source.module)):
        obstacle = say("the script can run on MPS, where such copies can return wrong values")
        raise Blocked(None, obstacle, say("copy without blocking only where device.type is cuda"))
    check_framework(request.names)
    loop = _loop_of_batch(source, site)
    call = call_of(site)
    if is_built_on_gpu(call, request.names):
        by_hand = say("make it on the GPU (other random numbers), or make it pinned, one batch ahead")
        raise Blocked(None, say("its values are made on the host in each batch"), by_hand)
    owner = cst.ensure_type(call.func, cst.Attribute).value
    if not _is_batch(owner, batch_names(loop)) or not _still_from_loader(loop, site, owner):
        by_hand = say("copy the batch as the loader gives it, and convert it on the GPU afterwards")
        raise Blocked(None, say("it does not copy the batch as the loader gives it"), by_hand)
    if _is_there_already(loop, site, owner):
        raise Blocked(None, say("it is on that device already"), say("nothing to do: nothing is copied"))
    if request.own_movers:
        obstacle = say(
            "{own_movers} defines a `to` or `cuda` that does not know `non_blocking`", own_movers=request.own_movers[0]
        )
        raise Blocked(None, obstacle, say("let it pass `non_blocking` on, where the batch can hold such an object"))
    if has_hidden_arguments(call):
        raise Blocked(None, say("its arguments are hidden in `*` or `**`"), say("add non_blocking=True to them"))
    for sign, meaning in wait_dependents.signs(source, "copy"):
        by_hand = say("wait for an event before the host uses that memory again, then copy without blocking")
        raise Blocked(
            sign, say("the file {meaning}, and this copy may be what keeps it safe", meaning=meaning), by_hand
        )
    if copies_to_host.may_be(source, loop, call):
        obstacle = say(
            "the batch may be on the GPU already, and the copy go to the CPU, where nobody would wait for it"
        )
        raise Blocked(None, obstacle, say("copy without blocking only where device.type is cuda"))
    _check_type(request, loop, call, owner)
    _check_not_written(request.names, loop, site, owner)
    return loop


def is_asynchronous(call: cst.Call) -> bool:
    named = any(a.keyword is not None and a.keyword.value == "non_blocking" for a in call.args)
    return named or sum(a.keyword is None for a in call.args) >= (2 if method_of(call) == "type" else 3)


def _loop_of_batch(source: SourceFile, site: Site) -> cst.For:
    """The training loop, also for a copy inside a comprehension over the batch."""
    node: cst.CSTNode = site.statement
    if isinstance(node, cst.BaseCompoundStatement) or not isinstance(node, cst.BaseSmallStatement):
        raise Blocked(None, say("it is not a statement of a loop"), say("copy the batch at the top of the loop"))
    return loop_over_batches(source, node)


def _is_batch(node: cst.BaseExpression, names: frozenset[str]) -> bool:
    while isinstance(node, (cst.Subscript, cst.Attribute)):
        node = node.value
    return isinstance(node, cst.Name) and node.value in names


def _still_from_loader(loop: cst.For, site: Site, owner: cst.BaseExpression) -> bool:
    """Whether what stands under the name is still the loader's memory: only views were taken of it before the copy."""
    names, here = set(whole_of(loop, root_key(owner) or "")), site.source.span(site.statement)[0]
    for node in own_nodes(loop.body):
        if not isinstance(node, cst.Assign) or site.source.span(node)[0] >= here:
            continue
        bound = {target.value for target in targets(node) if isinstance(target, cst.Name)}
        made = node.value.elements[0].value if isinstance(node.value, cst.Tuple) and node.value.elements else node.value
        if names & bound and isinstance(made, cst.Call) and not _is_view(made):
            return False
    return True


def _is_there_already(loop: cst.For, site: Site, owner: cst.BaseExpression) -> bool:
    """Whether a line above that runs in each pass has copied what stands under the name: `x[:, 1:].to(device)` below
    `x = x.to(device)`."""
    source, name, moved = site.source, root_key(owner), call_of(site)
    below: cst.CSTNode = site.statement
    for ancestor in source.ancestors(site.statement):
        if ancestor is loop:
            return False
        for statement in reversed(_above(ancestor, below)):
            if not any(name in rebound(part) for part in walk(statement)):
                continue
            value = _only_value(statement)
            if method_of(value) in ("to", "cuda") and isinstance(value, cst.Call):
                return is_copy_to_device(value) and _arguments(source, value) == _arguments(source, moved)
            if not isinstance(value, cst.Subscript) or root_key(value) != name:
                return False
        below = ancestor
    return False


def _above(block: cst.CSTNode, below: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of a block above one of them; none where a node is no block."""
    if not isinstance(block, cst.IndentedBlock):
        return []
    return list(itertools.takewhile(lambda one: one is not below, block.body))


def _only_value(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """What a line that is one assignment to one name gives it."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    single = isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name)
    return small.value if isinstance(small, cst.Assign) and single else None


def _arguments(source: SourceFile, call: cst.Call) -> tuple[str, ...]:
    """As they are written, without what makes a copy asynchronous."""
    texts = ((argument.keyword, source.code(argument.value)) for argument in call.args)
    return (method_of(call), *(text for name, text in texts if name is None or name.value != "non_blocking"))


def _is_view(call: cst.Call) -> bool:
    if isinstance(call.func, cst.Name):
        return call.func.value in ("Variable", "next", "tuple", "list")
    return method_of(call) in _VIEWS


def _check_type(request: RecipeRequest, loop: cst.For, call: cst.Call, owner: cst.BaseExpression) -> None:
    """What `to` is known to be a tensor's, and converts as the CPU does: a copy that does not block converts later."""
    known = {full.partition(".")[0] for full in request.names.imports.values()}
    stiff = sorted(known & (_STIFF | ({"transformers"} if _is_undivided(loop, owner) else set())))
    if stiff and isinstance(owner, cst.Name):
        obstacle = say(
            "`{owner}` may be an object of {stiff}, whose `to` need not know `non_blocking`",
            owner=owner.value,
            stiff=stiff[0],
        )
        raise Blocked(call, obstacle, say("add non_blocking=True where its version knows it"))
    if any(request.names.qualified(argument.value) in _SMALL_INTEGERS for argument in call.args):
        obstacle = say("it converts to a small integer, which the GPU does otherwise where a value does not fit")
        raise Blocked(call, obstacle, say("convert after the copy, if all values fit"))


def _is_undivided(loop: cst.For, owner: cst.BaseExpression) -> bool:
    """Whether a name is all of what the loader gave: `batch` of `for batch in …` or `for i, batch in enumerate(…)`."""
    target: cst.BaseExpression = loop.target
    if isinstance(target, cst.Tuple) and "enumerate(" in text_of(loop.iter):
        target = target.elements[-1].value
    return isinstance(target, cst.Name) and text_of(owner) == target.value


def _check_not_written(names: FileNames, loop: cst.For, site: Site, owner: cst.BaseExpression) -> None:
    """The host must not write into memory that is still being copied."""
    whole = whole_of(loop, root_key(owner) or "")
    own = {text_of(owner), *whole} if isinstance(owner, cst.Name) else {text_of(owner)}
    memory = views(loop.body, own)
    if host_memory.is_gone(loop, site, owner):  # but for what has got it before
        whole, start = (), site.source.span(site.statement)[0]
        above = (
            node for node in own_nodes(loop.body) if node in site.source.spans and site.source.span(node)[0] < start
        )
        memory = frozenset().union(*(views(node, own) for node in above)) - own
    layers = "inplace=True" in text_of(site.source.module)
    for node in own_nodes(loop.body):
        method = method_of(node)
        in_place = method.endswith("_") and not method.startswith("_")
        part = isinstance(node, cst.Call) and in_place and (root_key(node.func) in whole)
        handed = isinstance(node, cst.Call) and any(text_of(one.value) in memory for one in node.args)
        if part or (layers and handed and _is_made(node, names)) or writes_into(node, memory, names):
            line = site.source.code(node).strip().partition("\n")[0]
            raise Blocked(
                node, say("`{line}` may write into the batch during the copy", line=line), say("write to the copy")
            )


def _is_made(call: cst.CSTNode, names: FileNames) -> bool:
    """Whether a call is of an object by its name, as a layer is that works in place, and of no function."""
    name = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) else None
    return name is not None and name not in names.imports and name not in names.functions and name not in BUILTINS


def _copies(request: RecipeRequest, loop: cst.For, members: Found) -> list[Proposal]:
    open_calls = [(site, target) for site, target in members if not is_asynchronous(call_of(site))]
    if not open_calls:
        return []
    first = open_calls[0][0]
    proposal = Proposal(
        edit="async-copy",
        tier="safe",
        location=request.place(first.node, first.function),
        reason=say("the host does not wait for the copy; kernels that use the batch still do"),
        evidence=evidence([stall for _, target in open_calls for stall in target.stalls]),
        splices=tuple(with_argument(request.source, call_of(site), "non_blocking=True") for site, _ in open_calls),
    )
    doubt = host_memory.doubt(request, loop, (site for site, _ in members))
    return [proposal.as_checked(doubt) if doubt else proposal]


def call_of(site: Site) -> cst.Call:
    return cst.ensure_type(site.node, cst.Call)
