"""The largest loss in words: a headline without a line, and the first half of a verdict with it.

In: a `Loss` and the `Period` that it is taken out of. Out: text. Every report shows the headline as it is, so it stays
below 60 characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelens.model import Owner, OwnerKind
from tracelens.schemes.loss import MOST_BUSY, Loss, Period
from tracelens.schemes.wording import ms, place, places
from tracelens.units import known_by

HEADLINE_LENGTH = 60
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_KINDS: Mapping[OwnerKind, str] = {
    "dataloader": "the DataLoader",
    "allocator": "the allocator",
    "backward": "the backward pass",
    "optimizer": "the optimizer",
    "communication": "communication",
    "launch": "launching kernels",
    "gpu": "the GPU",
}


def headline(loss: Loss, period: Period) -> str:
    """'gc.collect() costs 31.0 ms of every 58.4 ms step'; 'The DataLoader takes 33 % of the step'."""
    if loss.returns:
        end = f"{_verb('cost', loss)} {ms(min(loss.ns, period.step_ns))} of every {ms(period.step_ns)} step"
    else:
        end = f"{_verb('take', loss)} {_share(loss, period)} of the {period.name}"
    named = [f"{who} {end}" for who in _names(loss)]
    fitting = [text for text in named if len(text) <= HEADLINE_LENGTH]
    return _capital(fitting[0] if fitting else named[-1][:HEADLINE_LENGTH])


def gpu_headline(gpu_busy_share: float) -> str:
    """Where the GPU's own work is what takes the time."""
    text = f"GPU-bound: {100 * gpu_busy_share:.0f} % busy."
    return f"{text} Nothing to fix in the loop." if gpu_busy_share >= MOST_BUSY else text.rstrip(".")


def sentence(loss: Loss, period: Period) -> str:
    """'train.py:61 (gc.collect) costs 31.0 ms of every 58.4 ms step; without it a step takes 27.4 ms (replayed)'."""
    who = subject(loss)
    if not loss.returns:
        owned_ns = loss.ns * period.step_ns / max(period.wall_ns, 1)  # a share of the one step time that is told
        owned = f"{ms(owned_ns)} of {ms(period.step_ns)}"
        return _capital(f"{who} {_verb('take', loss)} {_share(loss, period)} of the {period.name} ({owned})")
    text = f"{who} {_verb('cost', loss)} {ms(min(loss.ns, period.step_ns))} of every {ms(period.step_ns)} step"
    if 0 < loss.ns < period.step_ns:
        known = known_by(loss.owner.evidence or "replayed")
        text += f"; {_without(loss)} a step takes {ms(period.step_ns - loss.ns)} ({known})"
    return _capital(text)


def details(loss: Loss, period: Period) -> str:
    """What the headline leaves out: 'train.py:61, 0.95 ms of 3.9 ms', 'Without it a step takes 27.4 ms (predicted)'."""
    owner = loss.owner
    where = place(owner.locations[0]) if owner.locations and owner.kind != "launch" else ""
    if not loss.returns:
        said = f"{ms(loss.ns * period.step_ns / max(period.wall_ns, 1))} of {ms(period.step_ns)}"
        return f"{where}: {said}" if where else said
    known = known_by(owner.evidence or "replayed")
    text = f"{_without(loss)} a step takes {ms(max(period.step_ns - loss.ns, 0))} ({known})"
    return f"{where}: {text}" if where else f"{text[0].upper()}{text[1:]}"


def subject(loss: Loss) -> str:
    """Who it is, in a few words: the line and what it calls."""
    owner = loss.owner
    where = place(owner.locations[0]) if owner.locations else ""
    if owner.kind in ("wait", "copy"):
        return _waits(loss, places(owner.locations))
    if loss.launches is not None:
        return f"{loss.launches:,.0f} kernel launches per step{f' (most at {where})' if where else ''}"
    if owner.kind in _KINDS:
        name = _KINDS[owner.kind] if owner.kind != "allocator" or not owner.callee else owner.callee
        if owner.kind == "allocator" and where:
            return f"{where} ({name})"
        most = "most at " if owner.kind == "launch" else ""
        return f"{name} ({most}{where})" if where else name
    called = f"{where} ({owner.callee})" if where and owner.callee else where or owner.callee
    return called or "Python between the launches"


def _waits(loss: Loss, where: str) -> str:
    """'two waits (train.py:83, 84)'; of one wait at a line 'train.py:83 (torch.cuda.synchronize)'."""
    owner = loss.owner
    if _all_copies(loss):
        return "copies that nothing hides"
    if loss.count == 1:
        called = f" ({owner.callee})" if owner.callee else ""
        return f"{where or f'a {owner.kind}'}{called}"
    what = f"{_number(loss.count)} {'copies' if owner.kind == 'copy' else 'waits'}"
    return f"{what} ({where})" if where else what


def _names(loss: Loss) -> Sequence[str]:
    """For the headline, the fullest form first."""
    owner = loss.owner
    if _all_copies(loss):
        return ("copies that nothing hides",)
    if owner.kind in ("wait", "copy"):
        plural = "copies" if owner.kind == "copy" else "waits"
        return (f"{_number(loss.count)} {plural}" if loss.count > 1 else f"a {owner.kind}",)
    if owner.kind in _KINDS:
        called = (_called(owner),) if owner.kind == "allocator" and owner.callee else ()
        return (*called, _KINDS[owner.kind] if loss.launches is None else f"{loss.launches:,.0f} kernel launches")
    if owner.callee is None:
        return (
            "a line of Python" if owner.locations and owner.reason is None else "Python between the launches",
            "Python",
        )
    return (_called(owner), _called(owner).rpartition(".")[2], "a line of Python")


def _called(owner: Owner) -> str:
    """A function of Python with its parentheses; an operation or a call of the driver, as the trace has it, without."""
    name = owner.callee or ""
    is_python = name.replace(".", "").replace("_", "").isalnum() and not name.startswith(("cuda", "hip"))
    return f"{name}()" if is_python else name


def _without(loss: Loss) -> str:
    if loss.owner.instead is not None:
        return f"with {loss.owner.instead}"
    if loss.owner.kind == "dataloader":
        return "with enough workers"
    return "without them" if loss.count > 1 else "without it"


def _verb(verb: str, loss: Loss) -> str:
    several = loss.count > 1 or loss.launches is not None or _all_copies(loss)
    return verb if several else f"{verb}s"


def _all_copies(loss: Loss) -> bool:
    """The copies that keep the GPU from computing, which are one owner, and not a call that makes the host wait."""
    return loss.owner.kind == "copy" and not loss.owner.locations and loss.owner.callee is None


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _share(loss: Loss, period: Period) -> str:
    return f"{100 * loss.ns / period.wall_ns:.0f} %" if period.wall_ns > 0 else "an unknown part"


def _capital(text: str) -> str:
    """With a capital letter, unless it begins with the name of a file or a function."""
    words = ("the ", "a ", "launching", "communication", "copies", *(f"{number} " for number in _NUMBERS))
    return text[0].upper() + text[1:] if text.startswith(words) else text
