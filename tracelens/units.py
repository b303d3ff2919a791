"""How times and gains are written for people: one rule each, so that no two sentences say one thing differently."""

from __future__ import annotations

from tracelens.messages import say


def minus(number: str) -> str:
    """The number with a real minus sign, which is as wide as a plus sign and no hyphen."""
    return number.replace("-", "−")


def ms(ns: float) -> str:
    """`ns` in ms; in µs what would round to nothing there, because 0.00 ms is a zero that nobody measured."""
    value = ns / 1e6
    if value == 0:
        return "0 ms"
    if abs(value) < 0.01:
        return minus(f"{1000 * value:.2g} µs")
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 100 else 0
    return minus(f"{value:.{digits}f} ms")


LEAST_MS = 0.01
"""In a sentence; a shorter time is no cost that anybody acts on."""


def said_ms(ns: float) -> str:
    """`ns` in a sentence, as people compare step times: one decimal, two below 1 ms, none from 100 ms on."""
    value = ns / 1e6
    size = abs(value)
    if 0 < size < LEAST_MS:
        return f"<{LEAST_MS} ms"
    return minus(f"{value:.{0 if size >= 100 else 1 if size >= 1 else 2}f} ms")


NO_DECIMALS_NS = 100_000_000


def step_digits(base_ns: float) -> int:
    """Decimals of step times in ms, of which the present one is `base_ns`: three digits are known of it, so that the
    times that are shown have the ratio that is shown, to a percent."""
    value = abs(base_ns) / 1e6
    return 1 if value >= 10 else 2 if value >= 1 else 3


def step_ms(ns: float, base_ns: float) -> str:
    """A step time beside the step time `base_ns`, or a part of it, in ms without the unit; `<0.1` for less than what
    would be written, 0 for a measured zero. From 100 ms on without decimals."""
    digits = step_digits(base_ns) if abs(ns) < NO_DECIMALS_NS else 0
    least = 10.0**-digits
    if 0 < ns / 1e6 < least / 2:
        return f"<{least:.{digits}f}"
    return "0" if ns == 0 else minus(f"{ns / 1e6:.{digits}f}")


def told_ns(ns: float, base_ns: float) -> float:
    """The time that `step_ms` shows: what a reader subtracts and divides."""
    digits = step_digits(base_ns) if abs(ns) < NO_DECIMALS_NS else 0
    return 1e6 * round(ns / 1e6, digits)


def saved_ns(base_ns: float, step_ns: float) -> float:
    """What the step is shorter by, of the two times as they are shown."""
    return told_ns(base_ns, base_ns) - told_ns(step_ns, base_ns)


def told_speedup(base_ns: float, step_ns: float) -> float:
    """The step times that are shown, one by the other, so that the gain beside them is theirs to half a percent; of a
    step that is shown with one or two digits, which say too little for that, the times as they are."""
    shown_ns = told_ns(step_ns, base_ns)
    if shown_ns < 100 * 1e6 * 10.0 ** -step_digits(base_ns):
        return base_ns / step_ns if step_ns > 0 else 1.0
    return told_ns(base_ns, base_ns) / shown_ns


def signed_percent(value: float) -> str:
    """`+45 %`, `−3 %`, `+0 %`: whole percents, which is as much as two runs agree on, with a real minus sign."""
    whole = round(value)
    return f"{'−' if whole < 0 else '+'}{abs(whole)} %"


def percent_range(low: float, high: float) -> str:
    """`−4 to +5 %`."""
    return say("{low} to {high}", low=signed_percent(low).removesuffix(" %"), high=signed_percent(high))


LEAST_COPIES_SHARE = 0.05
"""Of the step: from here on a GPU that copies and does nothing else is not called busy, as if it computed."""


def gpu_works(busy: float, copies: float) -> str:
    """'GPU busy 63 %', 'GPU kernels 64 %, copies 30 %'; of shares of the step. `copies`: beside no kernel."""
    if copies < LEAST_COPIES_SHARE:
        return say("GPU busy {share}", share=f"{100 * busy:.0f} %")
    return say("GPU {parts}", parts=kernels_and_copies(busy, copies))


def kernels_and_copies(busy: float, copies: float) -> str:
    """'kernels 64 %, copies 30 %', of shares of the step that the GPU is busy, and that it only copies."""
    kernels = f"{100 * max(busy - copies, 0.0):.0f} %"
    return say("kernels {kernels}, copies {copies}", kernels=kernels, copies=f"{100 * copies:.0f} %")


_KNOWN = {"replayed": say("predicted"), "measured": say("measured"), "patch": say("patch")}


def known_by(evidence: str) -> str:
    """How a number is known, in the reader's words: what was computed from the recorded steps is predicted."""
    return _KNOWN.get(evidence, evidence)
