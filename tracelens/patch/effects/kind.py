"""What a value certainly is, and what torch makes of such values: a tensor, without dimensions, of one type.

In: kinds of operands, owners and arguments. Out: a `Kind`, in which nothing is said that is not certain. A stack of
several types has the widest of them: no number with a fraction changes then, but 3 becomes 3.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tracelens.patch.effects.words import words

TENSOR, TENSORS, NUMBER, ARRAY, DEVICE, DTYPE = "tensor", "tensors", "number", "array", "device", "dtype"
AT_TIMES = {ARRAY: "array?", NUMBER: "number?"}
"""What is known of a value that is not always the same: no use of it makes a tensor of it."""
FRACTION, WHOLE, TRUTH = "fraction", "whole", "truth"


class Kind(NamedTuple):
    """`what` it is, "" where that is not known; a number is a number or a text of Python, which nobody can change.

    `single`: it has no dimensions. `type`: one and the same each time, or always one of those with a fraction.
    `own`: memory of its own, which nothing else changes.
    """

    what: str = ""
    single: bool = False
    type: str = ""
    own: bool = False


UNKNOWN = Kind()
PYTHON = Kind(NUMBER, True, "", True)
ON_HOST = Kind(ARRAY)
FULL = Kind(TENSOR)
LOSS = Kind(TENSOR, True, FRACTION, True)


_SAME = words("detach requires_grad_ cpu cuda contiguous to type_as alias")
"""They give the tensor again, or one like it."""
_LIKE = words("clone abs neg clamp clamp_min clamp_max nan_to_num relu round floor ceil trunc")
"""They give as many of the same type, of truths as well, which most of them refuse."""
_OTHER_SHAPE = words(
    "view reshape squeeze unsqueeze permute transpose t flatten expand expand_as view_as gather index_select"
    " masked_select masked_fill repeat flip roll tril triu diagonal narrow select take"
)
_FRACTIONS = words("exp log log2 log10 log1p expm1 sqrt rsqrt sigmoid tanh sin cos softmax log_softmax erf")
_TO_TYPE = {
    **dict.fromkeys(("float", "double", "half", "bfloat16"), FRACTION),
    **dict.fromkeys(("long", "int", "short"), WHOLE),
    "bool": TRUTH,
}
_REDUCES = {
    **dict.fromkeys(("mean", "nanmean", "std", "var", "norm"), FRACTION),
    **dict.fromkeys(("argmax", "argmin", "count_nonzero"), WHOLE),
}
"""By method, the type of what it gives; without arguments it has no dimensions."""
_SUMS, _EXTREMES, _QUANTIFIERS = words("sum nansum prod cumsum"), words("max min amax amin median"), words("any all")
_TRUTHS = words(
    "eq ne gt ge lt le isnan isfinite isinf isclose logical_and logical_or logical_not logical_xor greater less"
)
_PARTS = words("split chunk unbind tensor_split hsplit vsplit sort topk kthvalue mode cummax cummin aminmax")
"""They give several tensors."""
_OTHERS = words(
    "logsumexp dot mm bmm mv matmul outer inner cross kron addmm baddbmm addmv lerp pow float_power fmod remainder"
    " maximum minimum fmax fmin sign sgn reciprocal tan asin acos atan atan2 sinh cosh erfc erfinv lgamma digamma frac"
    " logit logaddexp cumprod logcumsumexp diff trace det logdet dist renorm quantile nanquantile scatter scatter_add"
    " scatter_reduce index_add index_copy index_fill masked_scatter where swapaxes movedim unfold fliplr flipud rot90"
    " tile repeat_interleave broadcast_to reshape_as diag diag_embed bincount histc argsort bernoulli multinomial"
    " addcmul addcdiv negative square absolute new_zeros new_ones new_full new_tensor new_empty clip ravel zero_ fill_"
    " copy_ normal_ uniform_ masked_fill_ scatter_ index_fill_"
)
"""They give a tensor of which no more is said here."""
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "multiply": "*", "subtract": "-", "divide": "/"}
ARITHMETIC |= {"pow": "**"}
NO_TENSOR = words(
    "item tolist numpy size numel nelement dim ndimension stride element_size data_ptr get_device equal allclose"
    " storage_offset is_contiguous is_floating_point is_complex is_pinned is_shared untyped_storage backward __len__"
)
"""Methods of a tensor that return something else."""
_DTYPES = {
    **dict.fromkeys(["float", "float16", "float32", "float64", "half", "double", "bfloat16"], FRACTION),
    **dict.fromkeys(["long", "int", "short", "int8", "int16", "int32", "int64", "uint8"], WHOLE),
    "bool": TRUTH,
}
OF_TENSORS = (_PARTS | _OTHERS | _SAME | _LIKE | _OTHER_SHAPE | _FRACTIONS | _TRUTHS | _SUMS | _EXTREMES).union(
    _QUANTIFIERS, _TO_TYPE, _REDUCES
)
"""Methods of which it is known what they give."""
_IN_PLACE = _LIKE | _FRACTIONS | ARITHMETIC.keys()
"""Of these there is a form that changes the tensor: `clamp_`."""
RESHAPE = words(
    "unsqueeze_ squeeze_ resize_ resize_as_ resize_as_sparse_ sparse_resize_ sparse_resize_and_clear_ set_ t_"
    " transpose_ swapaxes_ swapdims_ as_strided_"
)
"""Methods after which the tensor itself may have another shape; the others in place keep its shape and type."""


def meet(kinds: Iterable[Kind]) -> Kind:
    """What several values have in common."""
    every = list(kinds)
    whats = {one.what for one in every}
    if len(whats) > 1:
        for what, at_times in AT_TIMES.items():
            if whats & {what, at_times}:
                return Kind(at_times)
    if len(whats) != 1 or not every[0].what:
        return UNKNOWN
    kept = every[0].type if all(one.type == every[0].type for one in every) else ""
    return Kind(every[0].what, all(one.single for one in every), kept, all(one.own for one in every))


def dtype(full: str) -> Kind:
    """`torch.float32`"""
    name = full.removeprefix("torch.")
    return Kind(DTYPE, type=_DTYPES[name]) if full.startswith("torch.") and name in _DTYPES else UNKNOWN


def computed(left: Kind, operator: str, right: Kind) -> Kind:
    """`left + right`"""
    sides = (left, right)
    if any(one.what not in (TENSOR, NUMBER) for one in sides):
        return ON_HOST if all(one.what in (ARRAY, NUMBER) for one in sides) else UNKNOWN
    if operator == "%" and left.what == NUMBER and not left.type:
        return UNKNOWN  # `"%.4f" % loss` is a text
    what = TENSOR if TENSOR in (left.what, right.what) else NUMBER
    if operator == "@":
        return Kind(what, own=True)
    return Kind(what, left.single and right.single, _computed_type(left, operator, right), True)


def _computed_type(left: Kind, operator: str, right: Kind) -> str:
    tensors = [one for one in (left, right) if one.what == TENSOR]
    if operator in ("&", "|", "^"):
        return left.type if left.type == right.type != FRACTION else ""
    if any(not one.type for one in tensors):
        return ""
    if any(one.type == FRACTION for one in tensors) or operator == "/":
        return FRACTION if tensors or left.type else ""
    types = {left.type, right.type}
    return FRACTION if FRACTION in types else WHOLE if types == {WHOLE} and operator != "**" else ""


def signed(operand: Kind, sign: str) -> Kind:
    """`-operand`, `abs(operand)`; `+tensor` is the tensor."""
    if operand.what == TENSOR:
        return operand._replace(own=sign != "+" or operand.own)
    if operand.what != NUMBER:
        return UNKNOWN
    return operand._replace(type=WHOLE if operand.type == TRUTH else operand.type)


def compared(sides: Sequence[Kind]) -> Kind:
    """`left == right`, where one side at least is a tensor, or both are numbers; with an array it may be a truth."""
    if any(one.what == TENSOR for one in sides) and all(one.what in ("", TENSOR, NUMBER) for one in sides):
        return Kind(TENSOR, all(one.single for one in sides), TRUTH, True)
    return Kind(NUMBER, True, TRUTH, True) if all(one.what == NUMBER for one in sides) else UNKNOWN


def of_method(owner: Kind, method: str, given: Sequence[Kind], named: Collection[str]) -> Kind:
    """What a method of a tensor gives. `named`: the arguments that are handed over by name."""
    named = {*named, "dtype"} if "**" in named else named
    bare = not given and not named
    if method in NO_TENSOR:
        sizes = method not in ("tolist", "numpy", "size", "stride", "untyped_storage", "backward") or bool(given)
        return ON_HOST if method in ("tolist", "numpy") else PYTHON if sizes else UNKNOWN
    if method in _SAME:
        return Kind(TENSOR, owner.single, _moved_type(owner, method, given, named))
    if method in _LIKE:
        kept = owner.type if bare or owner.type == FRACTION else ""
        single = owner.single and not named and all(one.single for one in given)  # `clamp(min=floor)` has floor's shape
        return Kind(TENSOR, single, kept, method != "contiguous")
    if method in _OTHER_SHAPE:
        single = owner.single and bare and method == "squeeze"
        by_bits = "dtype" in named or (method == "view" and len(given) == 1 and given[0].what != NUMBER)
        return Kind(TENSOR, single, "" if by_bits else owner.type)
    if method in ARITHMETIC and len(given) == 1 and not named:
        return computed(owner, ARITHMETIC[method], given[0])
    return _of_numbers(owner, method, given, named)


def _of_numbers(owner: Kind, method: str, given: Sequence[Kind], named: Collection[str]) -> Kind:
    if method == "square":
        return computed(owner, "**", PYTHON._replace(type=WHOLE))  # whole numbers of truths, too
    if method in _FRACTIONS:
        return Kind(TENSOR, owner.single, FRACTION if owner.type and "dtype" not in named else "", True)
    if method in _TO_TYPE:
        return Kind(TENSOR, owner.single, _TO_TYPE[method], owner.own)
    if method in _TRUTHS:
        return Kind(TENSOR, owner.single and not named and all(one.single for one in given), TRUTH, True)
    found = _reduced(owner, method, given, named)
    return found if "dtype" not in named or found.what != TENSOR else Kind(TENSOR, own=True)


def _reduced(owner: Kind, method: str, given: Sequence[Kind], named: Collection[str]) -> Kind:
    bare = not given and not named
    if method in _REDUCES:
        return Kind(TENSOR, bare, _REDUCES[method], True)
    if method in _QUANTIFIERS:
        return Kind(TENSOR, bare, TRUTH if owner.type in (TRUTH, FRACTION) else "", True)  # of bytes: bytes
    if method in _SUMS:
        return Kind(TENSOR, bare, WHOLE if owner.type in (WHOLE, TRUTH) else owner.type, True)
    if method in _EXTREMES and (bare or method in ("amax", "amin")):
        return Kind(TENSOR, bare, owner.type, True)
    if method in _PARTS or (method in _EXTREMES and (named or given[0].what == NUMBER)):
        return Kind(TENSORS)
    pairs = method in ("max", "min") and given[0].what == TENSOR
    return FULL if pairs or method in OF_TENSORS - _EXTREMES or method.rstrip("_") in _IN_PLACE else UNKNOWN


def _moved_type(owner: Kind, method: str, given: Sequence[Kind], named: Collection[str]) -> str:
    if method == "type_as" or "dtype" in named or "other" in named:
        return ""
    if method != "to":
        return owner.type
    told = [one for one in given if one.what not in (DEVICE, NUMBER) or one.type == FRACTION]
    if not told:
        return owner.type
    return told[0].type if len(told) == 1 and told[0].what == DTYPE else ""
