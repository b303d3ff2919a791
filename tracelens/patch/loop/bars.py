"""A progress bar that the loop runs over: what it shows last, and in which batch that has to be known.

In: the facts of a loop and the name of its bar. Out: `Bar`; raises `Blocked`. A bar of tqdm closes within the call that
finds no further batch, and shows nothing any more: a text that is set behind the loop is never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import assigned, dotted, own_names, walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.batch_numbers import BatchNumber, new_number, own_number
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, own_nodes

_OF_TQDM = words("tqdm trange tqdm_notebook tnrange")
_LENGTHLESS = words("enumerate zip map filter iter reversed islice")
_LISTS = (cst.List, cst.ListComp, cst.Tuple)
_BY_HAND = say("set the text every N batches and in the last one, or give the bar a total")


@dataclass(frozen=True)
class Bar:
    """`name`: how the loop calls it. `made`: the call that makes it. `sure`: it has a total for certain."""

    name: str
    made: cst.Call
    sure: bool
    assumed: str
    """The total that is taken for the number of batches; empty where it is the length of what the bar runs over."""

    def is_last(self, passed: str) -> str:
        """A condition that holds in the last batch, and in each of a bar without a total."""
        total = f"{self.name}.total"
        return f"{passed} == {total}" if self.sure else f"{total} in (None, {passed})"


def bar_of(facts: LoopFacts, name: str) -> Bar | None:
    """The bar; None for one of the project, of which the proof knows what it does.

    Raises `Blocked` where nobody can tell which batch is its last.
    """
    made = [call for call in _made(facts.scope, name) if isinstance(call, cst.Call)]
    full = facts.names.qualified(made[0].func) if len(made) == 1 else ""
    if made and ("." not in full or facts.alone(made[0]).of_project):
        return None
    if full.rpartition(".")[2] not in _OF_TQDM:
        told = say("the loop runs over `{bar}`, which is no bar of tqdm: it may close before its text is set", bar=name)
        raise Blocked(facts.loop, told, _BY_HAND)
    call = made[0]
    given = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    iterated = given.get("iterable", call.args[0].value if call.args and call.args[0].keyword is None else None)
    total = given.get("total")
    inner = _inner(iterated)
    length = f"len({facts.source.code(inner)})" if inner is not None else ""
    if total is None and isinstance(iterated, cst.Call) and dotted(iterated.func).rpartition(".")[2] in _LENGTHLESS:
        told = say("the loop runs over `{bar}`, which has no total: its last batch is not known in time", bar=name)
        raise Blocked(call, told, _BY_HAND)
    text = facts.source.code(total) if total is not None else ""
    known = full.endswith("range") or length in facts.source.text or _has_length(facts, inner)
    return Bar(name, call, bool(text) or known, "" if text in ("", length) else text)


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
    """Whether a statement calls a method of a bar."""
    calls = (part.func for part in walk(node) if isinstance(part, cst.Call))
    owners = [func.value for func in calls if isinstance(func, cst.Attribute)]
    below_with = [value for owner in owners if dotted(owner) for value in _made(facts.scope, dotted(owner))]
    makers = [full for owner in owners for full in facts.names.made_by(owner)]
    makers += [facts.names.qualified(value.func) for value in below_with if isinstance(value, cst.Call)]
    return any(full.rpartition(".")[2] in _OF_TQDM for full in makers)


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
    """Whether what a bar runs over is a list or a range by the text of the file."""
    values = [iterated]
    if isinstance(iterated, cst.Name):
        own = iterated.value in own_names(facts.scope)  # a parameter may be anything
        values = list(_made(facts.scope if own else facts.source.module, iterated.value))
    ranges = (isinstance(one, cst.Call) and dotted(one.func) == "range" for one in values)
    return bool(values) and (all(isinstance(one, _LISTS) for one in values) or all(ranges))
