"""What functions of Python give: a number or a text of their own, or what they compute of what they are handed.

In: the full name of a function, and the kinds of its arguments. Out: a `Kind`. That a function keeps nothing of what it
is given does not say that it gives a number: `abs(tensor)` is a tensor, `dir()` a list, `divmod` gives a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelens.patch.effects.kind import (
    ARRAY,
    FRACTION,
    NUMBER,
    ON_HOST,
    PYTHON,
    TENSOR,
    TRUTH,
    UNKNOWN,
    WHOLE,
    Kind,
    computed,
    meet,
    signed,
)
from tracelens.patch.effects.words import words

_FRACTIONS = words(
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh"
    " atanh hypot dist fabs fmod fsum copysign degrees radians erf erfc gamma lgamma ldexp nextafter remainder ulp"
)
"""Functions of `math` that make a float of whatever they are given. Not among them: `floor`, `ceil` and `trunc`, for
which a class may have a method that gives anything, `prod` and `sumprod`, which multiply what they are given."""
_TYPES: Mapping[str, str] = {
    **dict.fromkeys((f"builtins.{name}" for name in ("len", "int", "ord", "hash", "id")), WHOLE),
    **dict.fromkeys((f"builtins.{name}" for name in ("str", "repr", "ascii", "format")), ""),
    **dict.fromkeys((f"builtins.{name}" for name in ("chr", "bin", "hex", "oct")), ""),
    **dict.fromkeys((f"builtins.{name}" for name in ("bool", "all", "any", "callable")), TRUTH),
    **dict.fromkeys((f"builtins.{name}" for name in ("isinstance", "issubclass", "hasattr")), TRUTH),
    **dict.fromkeys((f"math.{name}" for name in _FRACTIONS), FRACTION),
    **dict.fromkeys((f"math.{name}" for name in ("isnan", "isinf", "isfinite", "isclose")), TRUTH),
    **dict.fromkeys((f"math.{name}" for name in ("gcd", "lcm", "factorial", "comb", "perm", "isqrt")), WHOLE),
    **dict.fromkeys((f"time.{name}" for name in ("time", "perf_counter", "monotonic", "process_time")), FRACTION),
    **dict.fromkeys((f"time.{name}" for name in ("time_ns", "perf_counter_ns", "monotonic_ns")), WHOLE),
    **dict.fromkeys(("builtins.float", "time.thread_time", "timeit.default_timer"), FRACTION),
}
"""Python itself demands these types, also of the methods that a class has for them (`__len__`, `__float__`)."""


def by_function(full: str, given: Sequence[Kind], more: bool) -> Kind:
    """What a call gives. `more`: arguments are handed over by name as well."""
    if full in _TYPES:
        return PYTHON._replace(type=_TYPES[full])
    match full, len(given):
        case "builtins.abs", 1:
            return ON_HOST if given[0].what == ARRAY else signed(given[0], "abs")
        case "builtins.pow", 2 if not more:
            return computed(given[0], "**", given[1])
        case "builtins.round", 1 | 2:
            return _rounded(given, more)
        case (("builtins.max" | "builtins.min"), size) if size > 1:  # one of its arguments
            return meet(given)._replace(own=False)
    return UNKNOWN


def _rounded(given: Sequence[Kind], more: bool) -> Kind:
    """`round(x)` is a whole number, and so may `round(x, None)` be."""
    if given[0].what == TENSOR:
        return given[0]._replace(own=False)
    if given[0].what != NUMBER:
        return UNKNOWN
    if len(given) == 1 and not more:
        return PYTHON._replace(type=WHOLE)
    to_places = len(given) == 2 and given[1].type == WHOLE
    return signed(given[0], "round") if to_places else PYTHON
