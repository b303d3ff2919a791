"""Whether what torch made is still as it was made: nobody writes what decides what its calls give.

In: an analysis, and a module that torch made. Out: yes and no. It is not asked who has the module, since lists, hooks
and `apply` hand it on in many ways, but what is written anywhere: such an attribute of anything that may be a module.
"""

from __future__ import annotations

from functools import cached_property

from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.holders import HELD, is_settings, named_by
from tracelens.patch.effects.memory import CLASS, HOOKS
from tracelens.patch.effects.objects import WRITES, Name, Object, Thing
from tracelens.patch.effects.words import words

_REDUCTION = words("* reduction")
_OUTPUT = words(
    "* forward __class__ __call__ _call_impl _wrapped_call_impl _slow_forward _compiled_call_impl"
    " _forward_hooks _forward_pre_hooks"
)
"""What a call of a module looks at beside what its own class does; `*` is an attribute of any name."""


class KeptAsMade:
    """Asks one analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self.memory = analysis.memory

    def gives_as_torch(self, made: Thing) -> bool:
        """Whether a call of the module gives what torch's own class makes it give."""
        return not self.memory.has(HOOKS, HELD) and not self.memory.is_shared(made) and self._keeps(made, _OUTPUT)

    def reduces_as_told(self, made: Thing) -> bool:
        """Whether a loss reduces as it was told where it was made."""
        return self._keeps(made, _REDUCTION)

    def _keeps(self, made: Thing, names: frozenset[str]) -> bool:
        own = ("*" if one.startswith("[") else one for one in self.memory.fields.get(made, ()))  # `vars(module)[key]`
        return names.isdisjoint(self._written) and names.isdisjoint(one for one in own if one != CLASS)

    @cached_property
    def _written(self) -> frozenset[str]:
        """The attributes that are written to anything that may be a module of torch."""
        effects = (effect for summary in self.memory.summaries.values() for _, effect in summary.effects)
        return frozenset(one.field for one in effects if one.kind == WRITES and one.target and _may_be(one.target))


def _may_be(target: Object) -> bool:
    """Whether what is written to may be a module of torch that unknown code does not have."""
    owner = named_by(target) or target
    return isinstance(owner, (Name, Thing)) and not is_settings(owner)
