"""Loops with objects that come back out of a library by another name, or that a library changes in place.

`CODE` stands before each loop; `object_reasons` asks what is said of objects that both sides of a move meet.
"""

from __future__ import annotations

from tests.support.moves import SURROUNDINGS, Case, asked, one_file

CODE = """
import easydict, PIL.Image
import argparse, collections, copy, dataclasses, functools, heapq, io, itertools, math, operator, random
import struct
import numpy as np
import pandas as pd
from dataclasses import dataclass


@dataclass
class Config:
    hist: list = None
    state: object = None
    rate: float = 0.1


class State:
    def __init__(self):
        self.last = 0.0


def first(x):
    return x[0]


def same(x):
    return x
"""
BODY = "STEP\n{later}  # later\n{stays}"


def object_reasons(before: str, later: str, stays: str, around: str = "function", code: str = "") -> list[str]:
    """What is said of objects that both meet; a move that is not proved for another reason does not count."""
    case = Case(BODY.format(later=later, stays=stays), CODE + code, before)
    found = asked(one_file(case, SURROUNDINGS[around]))
    return [one.text for one in found.reasons if one.kind == "object"]
