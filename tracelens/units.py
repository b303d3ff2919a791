"""How a time is written for people: one rule, so that no two sentences about one wait say it differently."""

from __future__ import annotations


def ms(ns: float) -> str:
    """`ns` in ms; in µs what would round to nothing there, because 0.00 ms is a zero that nobody measured."""
    value = ns / 1e6
    if value == 0:
        return "0 ms"
    if abs(value) < 0.01:
        return f"{1000 * value:.2g} µs"
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 100 else 0
    return f"{value:.{digits}f} ms"
