"""What the proof does not follow leaves a move unproved, wherever in the project it stands."""

from __future__ import annotations

import ast

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file
from tracelens.patch.effects.ordinary import unusual

ORDINARY = """
from __future__ import annotations
import argparse, json, logging, os, random, sys, warnings
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from functools import partial
import matplotlib, numpy as np, torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
import config

torch.backends.cudnn.benchmark = True
matplotlib.rcParams = {}
config.step = 3
os.environ['WORLD_SIZE'] = '1'
sys.stdout.flush()
x, y = (part.to(device) for part in batch)
labels[torch.rand(8) < 0.3] = -100
state.step = state.step + 1
self.step = lambda: 1
n = sum(p.numel() for p in model.parameters())
opt = torch.optim.SGD((p for p in model.parameters()), lr=0.1)
lines.extend(', '.join(str(x) for x in row) for row in rows)
for i, one in enumerate(f(x) for x in rows):
    pass
setattr(args, 'lr', 0.1)
print(model.__class__.__name__, args.__dict__)
logging.getLogger(__name__).addHandler(logging.StreamHandler())
with warnings.catch_warnings():
    warnings.simplefilter('ignore')

@dataclass
class Config:
    lr: float = 0.1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return x

class Trouble(ValueError):
    pass
"""
UNUSUAL = {
    "import weakref": "`weakref`",
    "from weakref import proxy": "`weakref.proxy`",
    "import collections\ncollections.ChainMap()": "`collections.ChainMap`",
    "import sys as system\nsystem.settrace(f)": "`system.settrace`",
    "import sys\nsys.stdout = Tee()": "an assignment to `sys.stdout`",
    "import torch\ntorch.Tensor.item = f": "an assignment to `torch.Tensor.item`",
    "from torch import Tensor\nTensor.item = f": "an assignment to `Tensor.item`",
    "import torch\nsetattr(torch, 'save', f)": "`setattr(torch, 'save', f)`",
    "import torch\nclass T(torch.Tensor): pass": "a class made of `torch.Tensor`",
    "from torch.overrides import TorchFunctionMode": "`torch.overrides.TorchFunctionMode`",
    "class A(dict): pass": "a class made of `dict`",
    "class A(metaclass=M): pass": "`metaclass=` of a class",
    "class A:\n    def __get__(self, o, t): pass": "`__get__`",
    "class A:\n    def __getattr__(self, name): pass": "`__getattr__`",
    "a.__class__ = B": "an assignment to `a.__class__`",
    "async def f(): pass": "`async`",
    "exec(text)": "`exec`",
    "parser.set_defaults(history=history)": "`set_defaults`",
    "import torch\nprint(torch.cuda.max_memory_allocated())": "`torch.cuda.max_memory_allocated`",
    "for event in prof.key_averages(): print(event.count)": "`key_averages`",
    "print(prof.total_average().count)": "`total_average`",
    "print(len(prof.function_events))": "`function_events`",
    "print(len(prof.events()))": "`events`",
    "it = (len(h) for _ in range(9))": "a generator expression with a name",
    "it: object = (len(h) for _ in range(9))": "a generator expression with a name",
    "it = zip(x, map(f, (len(h) for _ in x)))": "a generator expression with a name",
    "def g():\n    return (len(h) for _ in range(9))": "a generator expression that is handed on",
    "class K: pass\nK(len(h) for _ in range(9))": "a generator expression that is handed on",
    "from config import K\nk = K(a=enumerate(len(h) for _ in x))": "a generator expression that is handed on",
    "keeper.take(len(h) for _ in range(9))": "a generator expression that is handed on",
    "f([(len(h) for _ in range(9))])": "a generator expression that is kept",
    "import traceback\ntraceback.TracebackException(t, e, b, capture_locals=True)": "`traceback.TracebackException`",
    "model.forward, model.keep = (lambda x: x), 1": "an assignment to `model.forward`",
    "import torch.nn.functional as F\nvars(F)['relu'] = f": "`vars(F)`",
    "class A:\n    def item(self): pass": "`item` of a class",
    "def g(): pass\nmodel.step = g": "an assignment to `model.step`",
    "model.step = lambda: 1": "an assignment to `model.step`",
    "from config import g\nmodel.step = g": "an assignment to `model.step`",
    "model.forward = other.forward": "an assignment to `model.forward`",
    "setattr(opt, 'zero' + '_grad', f)": "`setattr(opt, 'zero' + '_grad', f)`",
    "object.__setattr__(model, 'forward', f)": "`__setattr__`",
    "import torch.nn.utils.parametrize as p": "`torch.nn.utils.parametrize`",
    "frame.f_locals": "`f_locals`",
    "globals()['a'] = 1": "`globals`",
    "import logging.handlers\nlogging.handlers.MemoryHandler(9)": "`logging.handlers.MemoryHandler`",
    "import warnings\nwarnings.catch_warnings(record=True)": "`catch_warnings` that keeps the warnings",
    "K = type('K', (), {'h': h})": "`type` with three arguments",
    "self.__dict__.update(kw)": "`__dict__.update`",
    "import os\nos._exit(1)": "`os._exit`",
    "from os import abort": "`os.abort`",
    "import rich.traceback as r\nr.install(show_locals=True)": "`rich.traceback`",
}


def _is_own(full: str) -> bool:
    return full.partition(".")[0] == "config"


def test_what_training_scripts_are_written_in_hides_nothing() -> None:
    assert unusual(ast.parse(ORDINARY), _is_own) is None


@pytest.mark.parametrize("code", UNUSUAL)
def test_anything_else_is_told_with_its_line(code: str) -> None:
    found = unusual(ast.parse("x = 1\n" + code), _is_own)
    assert found is not None
    line, what = found
    assert line > 1
    assert what.replace("`sys.settrace`", "`system.settrace`") == UNUSUAL[code]


@pytest.mark.parametrize("where", ["main.py", "helpers.py"])
def test_a_loop_beside_it_is_not_proved_and_says_why(where: str) -> None:
    files = one_file(Case(code="import helpers\n", body="STEP\nprint(loss.item())  # later"), SURROUNDINGS["function"])
    files["helpers.py"] = "x = 1\n"
    assert asked(files).tier == "safe"
    answer = asked({**files, where: "import weakref\n" + files[where]})
    assert answer.tier == "checked"
    assert [(one.text, one.path, one.line) for one in answer.reasons] == [
        ("what `weakref` hides is not known", where, 1)
    ]


OTHER_NAMES = {
    "a star": ("from helpers import *\n", "logging.setLogRecordFactory(print)"),
    "a part of a module": ("import helpers\n", "helpers.logging.setLogRecordFactory(print)"),
    "a name of a module": ("from helpers import log\n", "log.setLogRecordFactory(print)"),
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_module_hides_the_same_under_another_name(name: str) -> None:
    line, call = OTHER_NAMES[name]
    case = Case("STEP\nprint(loss.item())  # later\nn = i\n", line, f"{call}\n")
    files = {"helpers.py": "import logging\nlog = logging\n", **one_file(case, SURROUNDINGS["function"])}
    answer = asked(files)
    assert answer.tier == "checked", answer
    assert any("setLogRecordFactory` hides" in reason.text for reason in answer.reasons), answer
