"""async-copy: batches are copied to the GPU from pinned memory, without blocking the host.

In: a Request. Out: a Proposal for the copies of a loop and one for its loader. Host to device only: a copy to the
host that does not block is garbage until somebody waits for it, and other devices than CUDA copy wrongly.
"""

from __future__ import annotations

import libcst as cst

from tracelens.model import Declined
from tracelens.patch.code.names import FileNames, root_key, targets, walk
from tracelens.patch.code.outside import words
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop import hidden
from tracelens.patch.loop.loaders import batch_names, construction, has_hidden_arguments, keyword, loader_of, whole_of
from tracelens.patch.loop.loops import Blocked, check_framework, loop_over_batches, own_nodes
from tracelens.patch.loop.sites import Site, is_built_on_gpu
from tracelens.patch.proposal import Answer, Proposal, Request, Target, evidence, matched

Found = list[tuple[Site, Target]]

_VIEWS = words(
    "view reshape squeeze unsqueeze transpose permute narrow select flatten unflatten t expand chunk split unbind"
    " Variable items values keys __next__ next to cuda type get pop detach requires_grad_"
)
PIN = "pin_memory"
_PIN_POSITION, _WORKERS_POSITION = 7, 5


def propose(request: Request) -> Answer:
    found, declined = matched(request, "copy")
    loops: dict[int, tuple[cst.For, Found]] = {}
    for site, target in found:
        try:
            loop = copy_loop(request, site)
        except Blocked as blocked:
            declined.append(request.decline(site.node, blocked))
            continue
        loops.setdefault(id(loop), (loop, []))[1].append((site, target))
    proposals: list[Proposal] = []
    for loop, members in loops.values():
        proposals += _copies(request, members)
        proposals += _pinned(request, loop, members, declined)
    once = {proposal.splices: proposal for proposal in reversed(proposals)}  # two loops can share a loader
    return Answer(tuple(reversed(once.values())), tuple(declined))


def copy_loop(request: Request, site: Site) -> cst.For:
    """The loop whose batch a call copies to the GPU; raises `Blocked` if it is no such copy."""
    source = site.source
    if source.kept_by_comment(site.statement):
        raise Blocked(None, "it is marked `# tracelens: keep`", "remove the comment to have it patched")
    if any(isinstance(n, cst.SimpleString) and n.value.strip("\"'") == "mps" for n in walk(source.module)):
        obstacle = "the script can run on MPS, where such copies can return wrong values"
        raise Blocked(None, obstacle, "copy without blocking only where device.type is cuda")
    check_framework(request.names)
    loop = _loop_of_batch(source, site)
    call = call_of(site)
    if is_built_on_gpu(call, request.names):
        by_hand = "make it on the GPU (other random numbers), or make it pinned, one batch ahead"
        raise Blocked(None, "its values are made on the host in each batch", by_hand)
    owner = cst.ensure_type(call.func, cst.Attribute).value
    if not _is_batch(owner, batch_names(loop)) or not _still_from_loader(loop, site, owner):
        by_hand = "copy the batch as the loader gives it, and convert it on the GPU afterwards"
        raise Blocked(None, "it does not copy the batch as the loader gives it", by_hand)
    if request.own_movers:
        obstacle = f"{request.own_movers[0]} defines a `to` or `cuda` that does not know `non_blocking`"
        raise Blocked(None, obstacle, "let it pass `non_blocking` on, where the batch can hold such an object")
    if has_hidden_arguments(call):
        raise Blocked(None, "its arguments are hidden in `*` or `**`", "add non_blocking=True to them")
    _check_not_written(loop, site, owner)
    return loop


def is_asynchronous(call: cst.Call) -> bool:
    named = any(a.keyword is not None and a.keyword.value == "non_blocking" for a in call.args)
    typed = isinstance(call.func, cst.Attribute) and call.func.attr.value == "type"
    return named or sum(a.keyword is None for a in call.args) >= (2 if typed else 3)


def _loop_of_batch(source: SourceFile, site: Site) -> cst.For:
    """The training loop, also for a copy inside a comprehension over the batch."""
    node: cst.CSTNode = site.statement
    if isinstance(node, cst.BaseCompoundStatement) or not isinstance(node, cst.BaseSmallStatement):
        raise Blocked(None, "it is not a statement of a loop", "copy the batch at the top of the loop")
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


def _is_view(call: cst.Call) -> bool:
    if isinstance(call.func, cst.Name):
        return call.func.value in ("Variable", "next", "tuple", "list")
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _VIEWS


def _check_not_written(loop: cst.For, site: Site, owner: cst.BaseExpression) -> None:
    """The host must not write into memory that is still being copied."""
    names = whole_of(loop, root_key(owner) or "")
    if isinstance(site.statement, cst.Assign) and names[-1] in {
        t.value for t in targets(site.statement) if isinstance(t, cst.Name)
    }:
        return  # the host's tensor is gone
    for node in own_nodes(loop.body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            name, method = root_key(node.func.value), node.func.attr.value
            if name in names and method.endswith("_") and not method.startswith("_"):
                obstacle = f"`{name}.{method}(…)` may write into the batch during the copy"
                raise Blocked(node, obstacle, "write to the copy")


def _copies(request: Request, members: Found) -> list[Proposal]:
    open_calls = [(site, target) for site, target in members if not is_asynchronous(call_of(site))]
    if not open_calls:
        return []
    first = open_calls[0][0]
    return [
        Proposal(
            edit="async-copy",
            tier="safe",
            location=request.place(first.node, first.function),
            reason="the host does not wait for the copy; kernels that use the batch still do",
            evidence=evidence([stall for _, target in open_calls for stall in target.stalls]),
            splices=tuple(with_argument(request.source, call_of(site), "non_blocking=True") for site, _ in open_calls),
        )
    ]


def _pinned(request: Request, loop: cst.For, members: Found, declined: list[Declined]) -> list[Proposal]:
    source, names = request.source, request.names
    loader = loader_of(loop, names)
    call = construction(source, names, loader) if loader is not None else None
    if call is None:
        by_hand = "give its DataLoader pin_memory=torch.cuda.is_available()"
        blocked = Blocked(None, "the loader is made elsewhere", by_hand)
        declined.append(request.decline(loop, blocked))
        return []
    hidden_names = hidden.names(source, call) or frozenset()
    if keyword(call, PIN, _PIN_POSITION) is not None or PIN in hidden_names:
        return []
    obstacle = _pin_obstacle(source, names, call)
    if obstacle is not None:
        declined.append(request.decline(call, Blocked(None, obstacle, "pass pin_memory=torch.cuda.is_available()")))
        return []
    workers = keyword(call, "num_workers", _WORKERS_POSITION)
    none = workers is None and "num_workers" not in hidden_names
    alone = none or (isinstance(workers, cst.Integer) and workers.evaluated_value == 0)
    reason = "copies from pinned memory are faster and need not block"
    if alone:
        reason += "; without workers the pinning itself runs in the main process and can cost more than it saves"
    return [
        Proposal(
            edit="async-copy",
            tier="safe",
            location=request.place(call),
            reason=reason,
            evidence=evidence([stall for _, target in members for stall in target.stalls]),
            splices=(with_argument(source, call, f"pin_memory={_torch(names)}.cuda.is_available()"),),
        )
    ]


def _pin_obstacle(source: SourceFile, names: FileNames, call: cst.Call) -> str | None:
    if hidden.names(source, call) is None:
        return "the loader's arguments are hidden in `*` or `**`, and pin_memory may be among them"
    if source.kept_by_comment(call):
        return "it is marked `# tracelens: keep`"
    return None if _torch(names) else "the file does not import torch by name"


def _torch(names: FileNames) -> str:
    return next((name for name, full in names.imports.items() if full == "torch"), "")


def call_of(site: Site) -> cst.Call:
    return cst.ensure_type(site.node, cst.Call)


def with_argument(source: SourceFile, call: cst.Call, text: str) -> Splice:
    """One more argument at the end of a call, in its own layout: on a line of its own if the others are."""
    if not call.args:
        _, end = source.span(call)
        return Splice(end - 1, end - 1, text)
    last = call.args[-1]
    _, end = source.outer_span(last.value)
    line = source.line(last)
    own_line = source.line_text(line)[: source.positions[last].start.column].strip() == ""
    if own_line and isinstance(last.comma, cst.Comma) and source.last_line(last.value) == line:
        indent = source.line_text(line)[: source.positions[last].start.column]
        return Splice(end, end, f",\n{indent}{text}")
    return Splice(end, end, f", {text}")
