"""The largest loss in words: a headline without a line, and the first half of a verdict with it.

In: a `Loss` and the `Period` that it is taken out of. Out: text. Every report shows the headline as it is, so it stays
below 60 characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracelens import units
from tracelens.messages import Message, capital, say, say_count
from tracelens.model import ISSUING_KINDS, Owner, OwnerKind
from tracelens.schemes.loss import MOST_BUSY, OF_A_LINE, Loss, Period
from tracelens.schemes.wording import loop_place, place, places, step
from tracelens.units import LEAST_COPIES_SHARE, kernels_and_copies, known_by, step_ms

HEADLINE_LENGTH = 60
_NUMBERS = (
    say("no"), say("one"), say("two"), say("three"), say("four"),
    say("five"), say("six"), say("seven"), say("eight"), say("nine"),
)  # fmt: skip
_KINDS: Mapping[OwnerKind, str] = {
    "dataloader": say("the DataLoader"),
    "allocator": say("the allocator"),
    "backward": say("the backward pass"),
    "optimizer": say("the optimizer"),
    "communication": say("communication"),
    "launch": say("launching kernels"),
    "gpu": say("the GPU"),
}
_NEW_ITERATOR = say("a new loader iterator")
_ONE = {"wait": say("a wait"), "copy": say("a copy")}
_ALL_COPIES = say("copies that nothing hides")
_OF_TRAINING = say("the training's own work")
_LINE = say("a line of Python")
_LOOP = say("a loop")


def headline(loss: Loss, period: Period) -> str:
    """'gc.collect() takes 31.0 ms of every 58.4 ms step'; 'Two waits block Python for 8.0 of every 25.4 ms'."""
    names = _names(loss)
    named = [_takes(who, loss, period) for who in names] + [_takes_share(who, loss, period) for who in names]
    fitting = [text for text in named if len(text) <= HEADLINE_LENGTH]
    return _capital(fitting[0] if fitting else named[-1][:HEADLINE_LENGTH])


def gpu_headline(gpu_busy_share: float, copies: float = 0.0) -> str:
    """Where the GPU's own work is what takes the time. `copies`: the share of the step beside no kernel."""
    busy = f"{100 * gpu_busy_share:.0f} %"
    if copies >= LEAST_COPIES_SHARE:
        return say("GPU-bound: {works}", works=kernels_and_copies(gpu_busy_share, copies))
    if gpu_busy_share >= MOST_BUSY:
        return say("{sentence}.", sentence=say("GPU-bound: {busy} busy. Nothing to fix in the loop", busy=busy))
    return say("GPU-bound: {busy} busy", busy=busy)


def sentence(loss: Loss, period: Period) -> str:
    """`clause`, as a sentence begins."""
    return _capital(clause(loss, period))


def clause(loss: Loss, period: Period) -> str:
    """'train.py:61 (gc.collect) takes 31.0 ms of every 58.4 ms step; without it a step takes 27.4 ms (predicted)'."""
    text: str = _takes(subject(loss), loss, period)
    if not loss.sure:
        return say("{loss}; {rest}", loss=text, rest=_not_sure(loss, period))
    if not loss.returns:
        return say("{loss} ({part})", loss=text, part=_part(loss, period))
    if 0 < loss.ns < period.step_ns:
        text = say("{loss}; {rest}", loss=text, rest=_rest(loss, period.step_ns - loss.ns, period.step_ns))
    return text


def details(loss: Loss, period: Period) -> str:
    """What the headline leaves out: 'train.py:61: 53 % of the step', 'Without it a step takes 27.4 ms (predicted)'."""
    owner = loss.owner
    one_line = owner.kind != "launch" or not loss.sure
    where = place(owner.locations[0]) if owner.locations and one_line else ""
    where = loop_place(owner) if owner.loop is not None else where
    if not loss.returns:
        text = _part(loss, period)
        return say("{where}: {text}", where=where, text=text) if where else text
    text = _rest(loss, max(period.step_ns - loss.ns, 0), period.step_ns) if loss.sure else _not_sure(loss, period)
    return say("{where}: {text}", where=where, text=text) if where else capital(text)


def _part(loss: Loss, period: Period) -> str:
    """How much of the step it takes, in the unit that the sentence with the time does not have."""
    if _told_in_ms(loss, period):
        return say("{share} of the step", share=_share(loss, period))
    whole = step(period.step_ns, period.step_ns)
    return say("{owned} of {step}", owned=step(_observed_ns(loss, period), period.step_ns), step=whole)


def _not_sure(loss: Loss, period: Period) -> Message:
    """A range that begins at nothing: no gain is promised, and none is denied."""
    ends = (loss.ns, loss.owner.low_ns, loss.owner.high_ns)
    middle, low, high = (units.step_ms(ns or 0, period.step_ns) for ns in ends)
    told = {"middle": middle, "low": low, "high": high}
    return say("what a change there saves is not sure: {middle} ms ({low} to {high}, predicted)", **told)


def _rest(loss: Loss, rest_ns: int, base_ns: int) -> Message:
    known = known_by(loss.owner.evidence or "replayed")
    told = {"without": _without(loss), "rest": step(rest_ns, min(rest_ns, base_ns)), "known": known}
    low, high = loss.owner.low_ns, loss.owner.high_ns
    if low is None or high is None or loss.narrow:
        return say("{without} a step takes {rest} ({known})", **told)
    best, worst = (units.step_ms(max(base_ns - ns, 0), min(rest_ns, base_ns)) for ns in (high, low))
    return say("{without} a step takes {rest} ({best} to {worst}, {known})", **told, best=best, worst=worst)


def _told_in_ms(loss: Loss, period: Period) -> bool:
    return period.name == "step" and not loss.beside_training and period.wall_ns > 0


def _observed_ns(loss: Loss, period: Period) -> float:
    """On the one step time that is told."""
    observed_ns = loss.observed_ns if loss.blocked_ns else loss.observed_ns * period.step_ns / max(period.wall_ns, 1)
    return min(observed_ns, period.step_ns)


def _takes(who: str, loss: Loss, period: Period) -> str:
    """What was seen: the time that Python is blocked, that the GPU idles while work is issued, or that it takes."""
    if not _told_in_ms(loss, period):
        return _takes_share(who, loss, period)
    count, base_ns = _agreeing(loss), period.step_ns
    if not loss.observed_ns:
        saved = step(min(loss.ns, base_ns), base_ns)
        told = {"who": who, "saved": saved, "step": step(base_ns, base_ns)}
        return say_count(
            "{who} costs {saved} of every {step} step", "{who} cost {saved} of every {step} step", count, **told
        )
    taken_ns = _observed_ns(loss, period)
    told = {"who": who, "taken": step_ms(taken_ns, base_ns), "step": step(base_ns, base_ns)}
    if (loss.owner.kind in ISSUING_KINDS and period.has_gpu) or (loss.owner.kind in OF_A_LINE and not loss.sure):
        return say_count(
            "{who} leaves the GPU idle {taken} of every {step}",
            "{who} leave the GPU idle {taken} of every {step}",
            count,
            **told,
        )
    if loss.blocked_ns:
        return say_count(
            "{who} blocks Python for {taken} of every {step}",
            "{who} block Python for {taken} of every {step}",
            count,
            **told,
        )
    return say_count(
        "{who} takes {taken} ms of every {step} step", "{who} take {taken} ms of every {step} step", count, **told
    )


def _takes_share(who: str, loss: Loss, period: Period) -> str:
    share, count = _share(loss, period), _agreeing(loss)
    if loss.beside_training:
        return say("beside the training itself, {who} takes {share}", who=who, share=share)
    if period.name == "step":
        return say_count(
            "{who} takes {share} of the step", "{who} take {share} of the step", count, who=who, share=share
        )
    return say_count(
        "{who} takes {share} of the recording", "{who} take {share} of the recording", count, who=who, share=share
    )


def subject(loss: Loss) -> str:
    """Who it is, in a few words: the line and what it calls."""
    owner = loss.owner
    where = place(owner.locations[0]) if owner.locations and not loss.of_training else ""
    if owner.kind in ("wait", "copy"):
        return _waits(loss, places(owner.locations))
    if owner.kind == "launch" and not loss.of_training:
        return _launching(loss, where)
    if loss.of_training or owner.kind in _KINDS:
        name = (
            _OF_TRAINING
            if loss.of_training
            else _kind(owner)
            if owner.kind != "allocator" or not owner.callee
            else owner.callee
        )
        if owner.kind == "allocator" and where:
            return say("{where} ({name})", where=where, name=name)
        return say("{name} ({where})", name=name, where=where) if where else name
    if owner.loop is not None:
        return say("{where} ({name})", where=loop_place(owner), name=_LOOP)
    called = f"{where} ({owner.callee})" if where and owner.callee else where or owner.callee
    return called or say("Python between the launches")


def _kind(owner: Owner) -> str:
    return _NEW_ITERATOR if owner.makes_iterators else _KINDS[owner.kind]


def _launching(loss: Loss, where: str) -> str:
    """'1,240 kernel launches per step (most at model.py:31)'; at one line 'train.py:61 (a launch per tensor)'."""
    if not loss.sure:
        return say("{where} ({name})", where=where, name=say("a launch per tensor"))
    text = _KINDS["launch"]
    if loss.launches is not None:
        text = say("{launches} kernel launches per step", launches=f"{loss.launches:,.0f}")
    return say("{text} (most at {where})", text=text, where=where) if where else text


def _waits(loss: Loss, where: str) -> str:
    """'two waits (train.py:83, 84)'; of one wait at a line 'train.py:83 (torch.cuda.synchronize)'."""
    owner = loss.owner
    if _all_copies(loss):
        return _ALL_COPIES
    if loss.count == 1:
        at = where or _ONE[owner.kind]
        return say("{where} ({call})", where=at, call=owner.callee) if owner.callee else at
    what = _several(loss)
    return say("{what} ({where})", what=what, where=where) if where else what


def _names(loss: Loss) -> Sequence[str]:
    """For the headline, the fullest form first."""
    owner = loss.owner
    if loss.of_training or owner.loop is not None:
        return (_OF_TRAINING,) if loss.of_training else (say("a loop in the step"), _LOOP)
    if not loss.sure and loss.count == 1 and owner.kind in OF_A_LINE:
        return (_LINE,)
    if owner.kind in ("wait", "copy"):
        return (_ALL_COPIES if _all_copies(loss) else _several(loss) if loss.count > 1 else _ONE[owner.kind],)
    if owner.kind in _KINDS:
        called = (_called(owner),) if owner.kind == "allocator" and owner.callee else ()
        launches = f"{loss.launches:,.0f}" if loss.launches is not None else ""
        return (*called, say("{launches} launches", launches=launches) if launches else _kind(owner))
    return names(owner)


def names(owner: Owner) -> Sequence[str]:
    """Of a line: what it calls, else that it is one."""
    if owner.callee is None:
        at_a_line = owner.locations and owner.reason is None
        return (_LINE if at_a_line else say("Python between the launches"), say("Python"))
    called = _called(owner)
    return (called, called.rpartition(".")[2], called.partition(" (")[0], _LINE)


def _called(owner: Owner) -> str:
    """A function of Python with its parentheses; an operation or a call of the driver, as the trace has it, without."""
    name = owner.callee or ""
    is_python = name.replace(".", "").replace("_", "").isalnum() and not name.startswith(("cuda", "hip"))
    return f"{name}()" if is_python else name


def _without(loss: Loss) -> str:
    if loss.owner.instead is not None:
        return say("with {instead}", instead=loss.owner.instead)
    if loss.owner.kind == "dataloader" and not loss.owner.makes_iterators:
        return say("with enough workers")
    return say("without them") if loss.count > 1 else say("without it")


def _agreeing(loss: Loss) -> int:
    """The number that the verb agrees with."""
    several = loss.count > 1 or loss.launches is not None or _all_copies(loss)
    return max(loss.count, 2) if several else 1


def _all_copies(loss: Loss) -> bool:
    """The copies that keep the GPU from computing, which are one owner, and not a call that makes the host wait."""
    return loss.owner.kind == "copy" and loss.owner.is_gpu_work


def _several(loss: Loss) -> str:
    number = _NUMBERS[loss.count] if loss.count < len(_NUMBERS) else str(loss.count)
    return say("{number} copies", number=number) if loss.owner.kind == "copy" else say("{number} waits", number=number)


def _share(loss: Loss, period: Period) -> str:
    if period.wall_ns <= 0:
        return say("an unknown part")
    return f"{100 * _observed_ns(loss, period) / max(period.step_ns, 1):.0f} %"


def _capital(text: str) -> str:
    """With a capital letter, unless it begins with the name of a file or a function."""
    words = (
        "the ",
        "a ",
        "beside ",
        "launching",
        "communication",
        "copies",
        "garbage ",
        *(f"{number} " for number in _NUMBERS),
    )
    return capital(text) if text.startswith(words) else text
