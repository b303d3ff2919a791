"""Reads of a step function whose numbers its callers get: the tensors are handed on, and read where somebody looks.

In: a RecipeRequest and what the recipe answers without this. Out: that answer with one Proposal per step function. It
changes all files between the read and the look. A look that few batches make reads there; one of each batch has to be
able to wait as any other read of its loop. `checked`: who else gets the values is followed by names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import libcst as cst

from tracelens.messages import joined, say, say_count
from tracelens.patch.code.formats import reduces
from tracelens.patch.code.names import dotted, method_of, walk
from tracelens.patch.code.source import Conflict, SourceFile, Splice, Unreadable, apply_splices, moved_lines, parse
from tracelens.patch.deferral import loop_lines
from tracelens.patch.loop.clock_spans import clock_spans
from tracelens.patch.loop.facts import facts_of
from tracelens.patch.loop.loops import (
    DECIDES,
    RETURN_TENSOR,
    Blocked,
    Loop,
    check_framework,
    function_without_loop,
    innermost_loop,
    own_nodes,
)
from tracelens.patch.loop.sites import find, read_of, tensor_names
from tracelens.patch.proposal import Found, Proposal, RecipeAnswer, RecipeRequest, Target, evidence, matched
from tracelens.patch.recipes import host_memory, wait_dependents
from tracelens.patch.recipes.carried_contents import DICT, VALUE, Look, Shape, UsedAtOnce
from tracelens.patch.recipes.carried_forms import is_item
from tracelens.patch.recipes.carried_values import Carried
from tracelens.patch.recipes.project_calls import NeverCalled, calls_of, place

Ask = Callable[[RecipeRequest], RecipeAnswer]
_CONDITIONS = (cst.If, cst.IfExp, cst.Try, cst.BooleanOperation, cst.Lambda, cst.For, cst.While)
_DEPTH = 2
"""Functions between the loop and one that looks; there are hardly ever more."""
_NUMBERS = "{name: value.item() for name, value in %s.items()}"
_NUMBERS_AMONG_OTHERS = "{name: value.item() if torch.is_tensor(value) else value for name, value in %s.items()}"


def added(request: RecipeRequest, answer: RecipeAnswer, ask: Ask) -> RecipeAnswer:
    """The answer, and what waits in other functions; `ask` tells which reads of a loop can wait."""
    proposals, declined = list(answer.proposals), list(answer.declined)
    for members in _groups(request, answer):
        carried, followed = Carried(), False
        try:
            for site, _ in members:
                carried.follow(request.source, cst.ensure_type(site.node, cst.Call))
            carried.finish()
            followed = True
            proposal = _proposal(request, carried, members, ask)
        except UsedAtOnce:
            continue  # it is declined as a place outside of loops
        except Blocked as blocked:
            why = (None if followed else _deciding(carried)) or blocked
            told = {site.line: request.decline(site.node, why) for site, _ in members}
            declined = [told.get(one.location.line or 0, one) for one in declined]
            continue
        proposals.append(proposal)
        covered = {place.line for place in proposal.covers}
        declined = [one for one in declined if one.location.line not in covered]
    return RecipeAnswer(tuple(proposals), tuple(declined))


def _deciding(carried: Carried) -> Blocked | None:
    """That each batch asks for a value, whatever else cannot be followed."""
    for look in carried.looks:
        within = next((one for one in look.source.ancestors(look.node) if isinstance(one, cst.BaseStatement)), None)
        asks = isinstance(within, (cst.If, cst.While)) and look.node in set(walk(within.test))
        if asks and _is_known_frequent(carried, look):
            told = say("{place}: the value decides what the same batch does next", place=place(look.source, look.node))
            return Blocked(None, told, DECIDES[1])
    return None


def _groups(request: RecipeRequest, answer: RecipeAnswer) -> Iterator[Found]:
    """By function, the reads outside of loops that nothing else takes."""
    left = {one.location.line for one in answer.declined}
    groups: dict[cst.FunctionDef, Found] = {}
    for site, target in matched(request, "read")[0]:
        function = function_without_loop(request.source, site.node)
        kept = request.source.kept_by_comment(site.statement)
        if function is not None and site.line in left and is_item(site.node) and not kept:
            groups.setdefault(function, []).append((site, target))
    yield from groups.values()


def _proposal(request: RecipeRequest, carried: Carried, members: Found, ask: Ask) -> Proposal:
    _check(request, carried)
    changes = _splices(carried)
    often = [look for look in carried.looks if _is_frequent(carried, look)]
    files = {look.source for look in often}
    if len(files) > 1:
        raise Blocked(None, say("several files look at the values in each batch"), RETURN_TENSOR)
    own = Proposal(
        edit="defer-read",
        tier="safe",
        location=request.place(members[0][0].node, members[0][0].function),
        reason=_reason(carried),
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        splices=tuple(changes.get(request.source, ())),
        covers=tuple(request.place(call) for call, source in carried.reads.items() if source is request.source),
    )
    waiting = _waiting(request, often, changes, ask) if often else None
    others = []
    for source, splices in changes.items():
        nested = replace(own, splices=tuple(splices), covers=())
        if waiting is not None and source in files:
            nested = replace(waiting, hoists=tuple(splices))
        if source is request.source:
            kept = ("location", "covers", "evidence")
            own = replace(nested, **{name: getattr(own, name) for name in kept}) if source in files else own
        else:
            others.append((source.path, nested))
    reason = joined("; ", [_reason(carried), *([waiting.reason] if waiting is not None else [])])
    own = replace(own, reason=reason, elsewhere=tuple(others))
    for unproved in (*_unproved(carried), *([waiting.unproved] if waiting is not None and waiting.unproved else [])):
        own = own.as_checked(unproved)
    return own


def _check(request: RecipeRequest, carried: Carried) -> None:
    """Raise `Blocked` where no loop calls the functions, where a file owns its waits, or where nothing is gained."""
    if not carried.loops:
        raise Blocked(
            None,
            say("it is not in a loop of its own function, and no loop calls it by a name that can be followed"),
            RETURN_TENSOR,
        )
    for source in dict.fromkeys([*carried.reads.values(), *carried.loops.values()]):
        check_framework(source.names, reads=True)
        for sign, meaning in wait_dependents.signs(source, "read"):
            told = say("the file {meaning}, and this read may be what keeps it safe", meaning=meaning)
            raise Blocked(sign if source is request.source else None, told, RETURN_TENSOR)
    for loop, source in carried.loops.items():
        _check_clocks(carried, loop, source)
    functions = {source.innermost(cst.FunctionDef, call): source for call, source in carried.reads.items()}
    for function, source in functions.items():
        for node in own_nodes(function) if function is not None else ():
            read = read_of(node)
            stays = read is not None and read.kind in ("item", "tolist", "numpy") and node not in carried.reads
            if stays and _is_certain(source, node):
                told = say(
                    "the wait in line {line} stays in each batch, right beside it: nothing would be gained",
                    line=source.line(node),
                )
                raise Blocked(None, told, say("take that wait out first"))


def _check_clocks(carried: Carried, loop: Loop, source: SourceFile) -> None:
    """Raise `Blocked` where a time of the loop would lack the wait that goes to where somebody looks."""
    spans, names = clock_spans(source, loop), frozenset(carried.givers)
    if not spans.reads:
        return
    inside = [part for part in walk(loop.body) if isinstance(part, cst.Call)]
    calls = (call for call in inside if dotted(call.func).rpartition(".")[2] in names)
    looks = [spans.start(look.node) if look.source is source else -1 for look in carried.looks]
    told = next((call for call in calls if spans.loses(spans.start(call), looks or [-1])), None)
    if told is not None:
        measured = say("{place} is within a time that the loop measures", place=place(source, told))
        raise Blocked(None, measured, say("read the clock behind the line that shows the value"))


def _is_certain(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether each call of the function comes by a place."""
    below = node
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef):
            return True
        asked = isinstance(ancestor, (cst.If, cst.IfExp)) and below is ancestor.test
        if isinstance(ancestor, _CONDITIONS) and not asked:
            return False
        below = ancestor
    return False


def _is_frequent(carried: Carried, look: Look) -> bool:
    """Whether a look is made in each batch; `Blocked` for one in a function that no loop is around."""
    source = look.source
    loops = [loop for loop, file in carried.loops.items() if file is source]
    around = set(source.ancestors(look.node))
    inside = [loop for loop in loops if loop in around]
    if inside:
        return not facts_of(source, inside[0]).in_rare_branch(look.node)
    function = source.innermost(cst.FunctionDef, look.node)
    if any(source.innermost(cst.FunctionDef, loop) is function for loop in loops):
        return False
    if function is not None and _is_called_rarely(source, function, _DEPTH):
        return False
    told = say("{place} looks at the value in each call", place=place(source, look.node))
    raise Blocked(None, told, RETURN_TENSOR)


def _is_known_frequent(carried: Carried, look: Look) -> bool:
    """The same, where somebody can tell who calls the function of the look."""
    try:
        return _is_frequent(carried, look)
    except Blocked:
        return False


def _is_called_rarely(source: SourceFile, function: cst.FunctionDef, depth: int) -> bool:
    """Whether all calls of a function are below a condition that few batches meet, or outside of loops."""
    try:
        calls = calls_of(source, function)
    except NeverCalled:
        return True
    for found in calls:
        file = found.source
        around = file.innermost(cst.FunctionDef, found.call)
        loop = innermost_loop(file, found.call)
        if loop is not None and file.innermost(cst.FunctionDef, loop) is around:
            if not facts_of(file, loop).in_rare_branch(found.call):
                return False
        elif around is not None and not (depth and _is_called_rarely(file, around, depth - 1)):
            return False
    return True


def _waiting(
    request: RecipeRequest, often: list[Look], changes: Mapping[SourceFile, list[Splice]], ask: Ask
) -> Proposal:
    """What waits of the file in which the looks read; `Blocked` with its place where one of them cannot."""
    source = often[0].source
    try:
        data = apply_splices(source, changes[source])
        changed = parse(source.path, source.shown, data, source.entry)
    except (Conflict, Unreadable) as error:
        raise Blocked(None, error.reason, RETURN_TENSOR) from None
    moved = moved_lines(source, changes[source])
    lines = {moved[source.line(look.node) - 1] for look in often}
    targets = tuple(Target(line) for line in sorted(line for line in lines if line is not None))
    asked = replace(request, source=changed, names=changed.names, targets=targets, changing=frozenset())
    answer = ask(asked)
    sites = find(changed)
    waiting = {sites[number].line for one in answer.proposals for number in one.sites}
    if len(answer.proposals) == 1 and lines <= waiting:
        return answer.proposals[0]
    obstacle = answer.declined[0].obstacle if answer.declined else DECIDES[0]
    told = say("{place} looks at it in each batch: {obstacle}", place=place(source, often[0].node), obstacle=obstacle)
    raise Blocked(None, told, RETURN_TENSOR)


# ------------------------------------------------------------------------------------------------------ lines


def _splices(carried: Carried) -> dict[SourceFile, list[Splice]]:
    out: dict[SourceFile, list[Splice]] = {}
    for call, source in carried.reads.items():
        out.setdefault(source, []).append(Splice(*source.outer_span(call), _kept(source, call)))
    for look in carried.looks:
        start, end = look.source.outer_span(look.node)
        text = _numbers(carried, look.source, look.source.text[start:end], look.shape)
        if look.shape == DICT and isinstance(look.source.parent(look.node), cst.FormattedStringExpression):
            text = f"({text})"  # two braces are one of the text itself
        out.setdefault(look.source, []).append(Splice(start, end, text))
    for last in carried.lasts.values():
        line = loop_lines.line_after(last.source, last.loop)
        text = (
            f"{last.source.indentation(last.loop)}{last.name} = {_numbers(carried, last.source, last.name, last.shape)}"
        )
        out.setdefault(last.source, []).append(loop_lines.whole_line(last.source, line, text))
    return out


def _kept(source: SourceFile, call: cst.Call) -> str:
    """The tensor as it is now. What a reduction gives is memory of its own."""
    tensor = cst.ensure_type(call.func, cst.Attribute).value
    if isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute) and method_of(tensor) == "detach":
        tensor = tensor.func.value
    new = method_of(tensor) in ("mean", "sum", "norm", "std", "var")
    return f"{source.code(tensor)}.detach()" if new else f"{source.code(tensor)}.detach().clone()"


def _numbers(carried: Carried, source: SourceFile, text: str, shape: Shape) -> str:
    """The expression that reads what another one holds."""
    if shape == VALUE:
        return f"{text}.item()"
    if shape == DICT:
        if not carried.others:
            return _NUMBERS % text
        if source.names.imports.get("torch") != "torch":
            raise Blocked(None, say("{path} does not import torch", path=source.shown), RETURN_TENSOR)
        return _NUMBERS_AMONG_OTHERS % text
    part = shape.part or VALUE
    name = "value" if part == VALUE else "values"
    return f"[{_numbers(carried, source, name, part)} for {name} in {text}]"


# ------------------------------------------------------------------------------------------------------ words


def _reason(carried: Carried) -> str:
    values = say_count("{count} value", "{count} values", len(carried.reads))
    names = ", ".join(f"`{name}`" for name in carried.givers)
    looks = [place(look.source, look.node) for look in carried.looks]
    looks += [say("the loop at {place}", place=place(one.source, one.loop)) for one in carried.lasts.values()]
    said = say("{values}: {names} hands on the tensor", values=values, names=names)
    where = joined(", ", dict.fromkeys(looks))
    if looks:
        said = say("{said}, which is read at or after {where}", said=said, where=where)
    return said


def _unproved(carried: Carried) -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in carried.givers)
    yield say("who calls {names}, and who else gets what it gives, is followed by names only", names=names)
    assumed = {source.code(tensor): None for tensor, source in _tensors(carried) if not _is_known(tensor, source)}
    if assumed:
        yield say("{values} are taken for tensors", values=", ".join(f"`{text}`" for text in assumed))
    if carried.others:
        others = ", ".join(f"`{text}`" for text in carried.others)
        yield say("{values} beside them are taken for numbers and texts", values=others)
    for source in dict.fromkeys(carried.reads.values()):
        doubt = host_memory.doubt_of_waits(source)
        if doubt:
            yield doubt


def _tensors(carried: Carried) -> Iterator[tuple[cst.BaseExpression, SourceFile]]:
    for call, source in carried.reads.items():
        yield cst.ensure_type(call.func, cst.Attribute).value, source


def _is_known(tensor: cst.BaseExpression, source: SourceFile) -> bool:
    return dotted(tensor) in tensor_names(source) or reduces(tensor)
