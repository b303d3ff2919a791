"""A progress bar that the loop runs over: what it shows last, and in which batch that has to be known.

In: the facts of a loop and the name of its bar. Out: `Bar`; raises `Blocked`. A bar of tqdm closes within the call that
finds no further batch, and shows nothing any more: a text that is set behind the loop is never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import assigned, dotted, meets, own_names, rebound, root_key, touched, walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.file_lines import SETS_BAR_TEXT
from tracelens.patch.effects.file_made import BARS
from tracelens.patch.effects.words import words
from tracelens.patch.loop.batch_numbers import BatchNumber, new_number, own_number
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, head, own_nodes

_LENGTHLESS = words("enumerate zip map filter iter reversed islice")
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_LISTS = (cst.List, cst.ListComp, cst.Tuple)
_BY_HAND = say("set the text every N batches and in the last one, or give the bar a total")


@dataclass(frozen=True)
class Bar:
    """`name`: how the loop calls it. `made`: the call that makes it. `sure`: it has a total for certain."""

    name: str
    made: cst.Call
    sure: bool
    assumed: str
    """What is taken for the number of batches, the total or a length; empty where the text says that it is."""

    def is_last(self, passed: str) -> str:
        """A condition that holds in the last batch, and in each of a bar without a total."""
        total = f"{self.name}.total"
        return f"{passed} == {total}" if self.sure else f"{total} in (None, {passed})"


def bar_of(facts: LoopFacts, name: str) -> Bar | None:
    """The bar; None for one of the project, of which the proof knows what it does.

    Raises `Blocked` where nobody can tell which batch is its last.
    """
    made = [call for call in _made(facts.scope, name) if isinstance(call, cst.Call)]
    own = ("." not in facts.names.qualified(call.func) or facts.alone(call).of_project for call in made)
    if made and all(own):
        return None
    if not made or not all(facts.names.qualified(call.func).rpartition(".")[2] in BARS for call in made):
        told = say("the loop runs over `{bar}`, which is no bar of tqdm: it may close before its text is set", bar=name)
        raise Blocked(facts.loop, told, _BY_HAND)
    call, full = made[0], facts.names.qualified(made[0].func)
    iterated, total = _iterated(call)
    if any(not _same(facts, (one.func, *_iterated(one)), (call.func, iterated, total)) for one in made):
        told = say("the loop runs over `{bar}`, which is made in several ways: its last batch differs", bar=name)
        raise Blocked(facts.loop, told, _BY_HAND)
    inner = _inner(iterated)
    length = f"len({facts.source.code(inner)})" if inner is not None else ""
    made_here = inner is not None and not dotted(inner)  # nobody can tell whether it has a length
    if total is None and isinstance(iterated, cst.Call) and dotted(iterated.func).rpartition(".")[2] in _LENGTHLESS:
        told = say("the loop runs over `{bar}`, which has no total: its last batch is not known in time", bar=name)
        raise Blocked(call, told, _BY_HAND)
    text = facts.source.code(total) if total is not None else ""
    exact = full.endswith("range") or _has_length(facts, inner)
    known = exact or length in facts.source.text
    assumed = text or (f"{name}.total" if made_here else length)
    return Bar(name, call, bool(text) or known, "" if exact and text in ("", length) else assumed)


def _iterated(call: cst.Call) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """What a bar goes through, and the total that it is told."""
    given = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    first = call.args[0].value if call.args and call.args[0].keyword is None else None
    return given.get("iterable", first), given.get("total")


def _same(
    facts: LoopFacts, some: tuple[cst.BaseExpression | None, ...], others: tuple[cst.BaseExpression | None, ...]
) -> bool:
    texts = ([facts.source.code(one) if one is not None else "" for one in each] for each in (some, others))
    return next(texts) == next(texts)


def number_of(facts: LoopFacts, bar: Bar) -> BatchNumber | None:
    """The number of the batch in a loop over the bar; None where the loop goes over it in another way."""
    loop = facts.loop
    if not isinstance(loop, cst.For):
        return None
    if facts.source.code(loop.iter) == bar.name:
        first = bar.made.args[0].value if bar.made.args else None
        ranges = dotted(bar.made.func).endswith("range")
        own = own_number(loop, bar.made if ranges else first) if first is not None else None
    else:
        own = own_number(loop, loop.iter)
        if own is None or dotted(cst.ensure_type(loop.iter, cst.Call).args[0].value) != bar.name:
            return None
    return own or new_number(facts.source, loop, _number_name(facts))


def _number_name(facts: LoopFacts) -> str:
    """A name that the file does not have, and another one where a loop within may get one as well."""
    nested = any(isinstance(part, cst.For) for part in own_nodes(facts.loop.body))
    return unused_name("pass_number" if nested else "step", _variables(facts.source))


def _variables(source: SourceFile) -> frozenset[str]:
    """The names of a file without those behind a dot: `step` of `optimizer.step()` is none."""
    found = (part for part in walk(source.module) if isinstance(part, cst.Name))
    return frozenset(one.value for one in found if getattr(source.parent(one), "attr", None) is not one)


def runs_over(facts: LoopFacts, name: str) -> bool:
    """Whether each batch of the loop is one of the bar: it goes over the bar itself, or over `enumerate(bar)`."""
    iterated = _inner(facts.loop.iter) if isinstance(facts.loop, cst.For) else None
    return iterated is not None and dotted(iterated) == name


def moves_bar(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether a statement calls a method of a bar, known by what makes it or by a name that only bars have."""
    calls = (part.func for part in walk(node) if isinstance(part, cst.Call))
    methods = [func for func in calls if isinstance(func, cst.Attribute)]
    makers = (full for method in methods for full in _makers(facts, method.value))
    return any(method.attr.value in SETS_BAR_TEXT for method in methods) or any(
        full.rpartition(".")[2] in BARS for full in makers
    )


def moved_by_hand(facts: LoopFacts, leaf: cst.CSTNode) -> str | None:
    """The key of a bar of tqdm that a statement moves, where all else that the loop does with it is for people to read.

    Such a bar moves where it does now: what waits is its text, or a line above it. One that is looked at, closed or
    handed on in the loop has to do all in one order.
    """
    func = _method(leaf)
    if func is None or func.attr.value != "update":
        return None
    bar, makers = _own_key(func.value), list(_makers(facts, func.value))
    if bar is None or not makers or not all(map(_is_of_tqdm, makers)):
        return None
    own = frozenset({bar})
    known = facts.aliases(own)
    if not meets(known, touched(head(facts.loop), facts.names)) and all(
        _shows_or_moves(facts, other, bar) for other in facts.leaves if facts.uses(other, known)
    ):
        return bar
    return None


def _shows_or_moves(facts: LoopFacts, leaf: cst.CSTNode, bar: str) -> bool:
    """Whether a statement sets the text of a bar, writes above it or moves it, by what it knows without it."""
    func = _method(leaf)
    if func is None or func.attr.value not in SETS_BAR_TEXT | {"update", "write"} or _own_key(func.value) != bar:
        return False
    given = cst.ensure_type(cst.ensure_type(leaf, cst.Expr).value, cst.Call).args
    return not any(meets(facts.touched(one), facts.aliases(frozenset({bar}))) for one in given)


def _method(leaf: cst.CSTNode) -> cst.Attribute | None:
    """`bar.update` of a statement that is nothing but its call."""
    call = leaf.value if isinstance(leaf, cst.Expr) else None
    return call.func if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None


def _is_of_tqdm(full: str) -> bool:
    """Whether a full name is tqdm's own, or Accelerate's for it."""
    return full.startswith(("tqdm.", "accelerate.")) and full.rpartition(".")[2] in BARS


def _own_key(owner: cst.BaseExpression) -> str | None:
    """The key of a name or of an attribute of `self`; None for what is a part of something else."""
    named = isinstance(owner, cst.Name) or (isinstance(owner, cst.Attribute) and dotted(owner).count(".") == 1)
    found = root_key(owner) if named else None
    return found if found is not None and found.rpartition(".")[2] == dotted(owner).rpartition(".")[2] else None


def _makers(facts: LoopFacts, owner: cst.BaseExpression) -> Iterator[str]:
    """The full names of what is called to make the value of a name or an attribute, also by `with … as bar`."""
    yield from facts.names.made_by(owner)
    for value in _made(facts.scope, dotted(owner)) if dotted(owner) else ():
        if isinstance(value, cst.Call):
            yield facts.names.qualified(value.func)


def _made(scope: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    """The values that a name is given in a function: by `bar = …`, and by `with … as bar`."""
    for node in own_nodes(scope):
        yield from (value for target, value in assigned(node) if dotted(target) == name)
        if isinstance(node, cst.WithItem) and node.asname is not None and dotted(node.asname.name) == name:
            yield node.item


def _inner(iterated: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """What is gone through: `loader` of `enumerate(loader)`."""
    if isinstance(iterated, cst.Call) and dotted(iterated.func) == "enumerate" and iterated.args:
        return iterated.args[0].value
    return iterated


def _has_length(facts: LoopFacts, iterated: cst.BaseExpression | None) -> bool:
    """Whether what a bar runs over has as many batches as it says, by the text of the file: a list, a range, a loader
    that draws the order of its samples. That of a data set without numbered samples may have fewer."""
    values = [iterated]
    if isinstance(iterated, cst.Name):
        own = iterated.value in own_names(facts.scope)  # a parameter may be anything
        where = facts.scope if own else facts.source.module
        values = list(_made(where, iterated.value))
        if sum(iterated.value in rebound(node) for node in own_nodes(where)) > len(values):
            return False  # it is made in another way, too: by a call that gives several things
    counted = (isinstance(one, _LISTS) or (isinstance(one, cst.Call) and _counts(facts, one)) for one in values)
    return bool(values) and all(counted)


def _counts(facts: LoopFacts, call: cst.Call) -> bool:
    """Whether a call makes a range, or a loader that shuffles: PyTorch lets no other data set be shuffled."""
    if dotted(call.func) == "range":
        return True
    given = {one.keyword.value: facts.source.code(one.value) for one in call.args if one.keyword is not None}
    return facts.names.qualified(call.func) in _LOADERS and given.get("shuffle") == "True"
