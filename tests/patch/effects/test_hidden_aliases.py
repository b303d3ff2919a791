"""Objects of libraries that keep what they are given, state of the process, and code that runs without being named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.moves import SURROUNDINGS, Case, one_file
from tests.support.patching import patch_of

_STATE = "class State:\n    last = 0.0\n    step = 0\n"
_COUNTS = "STEP\nstate['step'] = i\n"
_READS = "print(view['step'], loss.item())  # later"
_PRINTS = "STEP\nprint(loss.item())  # later"

LOOPS = {
    # ------------------------------------------------------------------------------- objects that keep their arguments
    "a weak reference": Case(
        code="import weakref\n" + _STATE,
        before="state = State()\nref = weakref.ref(state)\ndef adapt():\n    if ref().last > 0.5:\n"
        "        opt.param_groups[0]['lr'] *= 0.9",
        body="STEP\nstate.last = loss.item()  # later\nadapt()",
    ),
    "a weak reference in a logger": Case(
        code="import weakref\n" + _STATE + "class Logger:\n    def __init__(self, state):\n"
        "        self.ref = weakref.ref(state)\n    def log(self, v):\n        print(self.ref().step, v)\n",
        before="state = State()\nlogger = Logger(state)",
        body="STEP\nstate.step += 1\nlogger.log(loss.item())  # later",
    ),
    "a weak proxy": Case(
        code="import weakref\n" + _STATE,
        before="state = State()\nseen = weakref.proxy(state)",
        body="STEP\nstate.step += 1\nprint(seen.step, loss.item())  # later",
    ),
    "a namespace that is shown": Case(
        code="from types import SimpleNamespace\n",
        before="inner = SimpleNamespace(step=0)\nns = SimpleNamespace(inner=inner)",
        body="STEP\ninner.step = i\nprint(ns, loss.item())  # later",
    ),
    "a namespace in a namespace": Case(
        code="from types import SimpleNamespace\n",
        before="st = SimpleNamespace(step=0, best=9.0)\ntrainer = SimpleNamespace(state=st, name='t')",
        body="st.step += 1\nSTEP\nprint(trainer.name, trainer.state.step, loss.item())  # later",
    ),
    "a chain of dicts": Case(
        code="from collections import ChainMap\n",
        before="state, logs = {'step': 0}, {}\nview = ChainMap(logs, state)",
        body=_COUNTS + _READS,
    ),
    "a named tuple": Case(
        code="from collections import namedtuple\nContext = namedtuple('Context', 'state name')\n",
        before="state = {'step': 0}\ncontext = Context(state, 'run')",
        body=_COUNTS + "print(context.state['step'], loss.item())  # later",
    ),
    "a proxy of a dict": Case(
        code="from types import MappingProxyType\n",
        before="state = {'step': 0}\nview = MappingProxyType(state)",
        body=_COUNTS + _READS,
    ),
    "a view of a dict": Case(
        before="state = {'step': 0}\nvalues = state.values()",
        body=_COUNTS + "print(list(values), loss.item())  # later",
    ),
    "a factory that counts": Case(
        code="from collections import defaultdict\n",
        before="made = [0]\ndef factory():\n    made[0] += 1\n    return []\nhistory = defaultdict(factory)",
        body="STEP\nhistory[i // 5].append(loss.item())  # later\nprint('groups', made[0])",
    ),
    "functions by type": Case(
        code="from functools import singledispatch\nstate = {'step': 0}\n@singledispatch\n"
        "def show(v):\n    print('?', v)\n"
        "@show.register\ndef _(v: float):\n    print(state['step'], v)\n",
        body=_COUNTS + "show(loss.item())  # later",
    ),
    # ------------------------------------------------------------------------------------- methods of a library's base
    "update of a mapping": Case(
        code="from collections.abc import MutableMapping\nclass Stats(MutableMapping):\n    def __init__(self, opt):\n"
        "        self.d, self.opt = {}, opt\n    def __getitem__(self, k):\n        return self.d[k]\n"
        "    def __setitem__(self, k, v):\n        self.d[k] = v\n        if v > 0.6:\n"
        "            self.opt.param_groups[0]['lr'] *= 0.95\n    def __delitem__(self, k):\n        del self.d[k]\n"
        "    def __iter__(self):\n        return iter(self.d)\n    def __len__(self):\n        return len(self.d)\n",
        before="stats = Stats(opt)",
        body="STEP\nstats.update(loss=loss.item())  # later",
    ),
    "update of a dict that prints": Case(
        code="from collections import UserDict\nclass Stats(UserDict):\n    def __setitem__(self, k, v):\n"
        "        super().__setitem__(k, v)\n        print('set', k, v)\n",
        before="stats = Stats()",
        body="STEP\nstats.update(loss=loss.item())  # later\nprint('step', i)",
    ),
    # -------------------------------------------------------------------------------------------- state of the process
    "the folder": Case(
        code="import os\n",
        body="STEP\nos.chdir('a' if i % 2 else 'b')\nwith open('loss.txt', 'a') as f:  # later\n"
        "    f.write(f'{loss.item()}')\nos.chdir('..')",
    ),
    "the environment": Case(
        code="import os\n", body="os.environ['STEP'] = str(i)\nSTEP\nprint(os.environ['STEP'], loss.item())  # later"
    ),
    "the environment, asked by a function": Case(
        code="import os\n", body="os.environ.update(STEP=str(i))\nSTEP\nprint(os.getenv('STEP'), loss.item())  # later"
    ),
    "the environment in a formatter": Case(
        code="import os, sys, logging\nclass Fmt(logging.Formatter):\n    def format(self, record):\n"
        "        return os.environ.get('STEP', '-') + super().format(record)\n",
        before="handler = logging.StreamHandler(sys.stdout)\nhandler.setFormatter(Fmt())\n"
        "log = logging.getLogger('t')\nlog.addHandler(handler)",
        body="os.environ['STEP'] = str(i)\nSTEP\nlog.info('loss %.4f', loss.item())  # later",
    ),
    "a factory of log records": Case(
        code="import logging\n",
        before="state = {'step': 0}\nold = logging.getLogRecordFactory()\ndef factory(*a, **k):\n    r = old(*a, **k)\n"
        "    r.step = state['step']\n    return r\nlogging.setLogRecordFactory(factory)\nlog = logging.getLogger('x')",
        body=_COUNTS + "log.info('loss %.4f', loss.item())  # later",
    ),
    "how arrays are printed": Case(
        code="import numpy as np\n",
        body="np.set_printoptions(precision=2 + i % 4)\nSTEP\nprint(np.array([loss.item(), 1 / 3]))  # later",
    ),
    "how tensors are printed": Case(
        body="torch.set_printoptions(precision=2 + i % 4)\nSTEP\nprint(loss.detach(), loss.item())  # later"
    ),
    # ------------------------------------------------------------------------------------------ code that nobody names
    "a descriptor": Case(
        code="COUNT = {'n': 0}\nclass D:\n    def __get__(self, o, t=None):\n        return COUNT['n']\n"
        "class S:\n    step = D()\n",
        before="s = S()",
        body="STEP\nCOUNT['n'] += 1\nprint(s.step, loss.item())  # later",
    ),
    "a mode of torch functions": Case(
        code="from torch.overrides import TorchFunctionMode\nclass Spy(TorchFunctionMode):\n    n = 0\n"
        "    def __torch_function__(self, f, t, a=(), k=None):\n        Spy.n += 1\n"
        "        return f(*a, **(k or {}))\n",
        before="spy = Spy()\nspy.__enter__()",
        body="STEP\nprint(Spy.n, loss.item())  # later",
    ),
    "a mode of dispatched operations": Case(
        code="from torch.utils._python_dispatch import TorchDispatchMode\nclass Flop(TorchDispatchMode):\n"
        "    def __init__(self):\n        super().__init__()\n        self.n = 0\n"
        "    def __torch_dispatch__(self, f, t, a=(), k=None):\n        self.n += 1\n"
        "        return f(*a, **(k or {}))\n",
        before="fl = Flop()\nfl.__enter__()",
        body="STEP\nprint(fl.n, loss.item())  # later",
    ),
    "hooks of saved tensors": Case(
        code="def pack(t):\n    print('pack')\n    return t\n",
        before="hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)\nhooks.__enter__()",
        body=_PRINTS,
    ),
    # --------------------------------------------------------------------------------------- replaced methods of torch
    "a replaced step": Case(
        code="orig = torch.optim.SGD.step\ndef loud(self, *a, **k):\n    print('step')\n"
        "    return orig(self, *a, **k)\n"
        "setattr(torch.optim.SGD, 'step', loud)\n",
        body=_PRINTS,
    ),
    "a replaced forward": Case(
        code="def fwd(self, x):\n    print('lin')\n    return F.linear(x, self.weight, self.bias)\n"
        "nn.Linear.forward = fwd\n",
        body=_PRINTS,
    ),
    "a replaced backward": Case(
        code="b = torch.Tensor.backward\ndef backward(self, *a, **k):\n    print('bwd')\n    return b(self, *a, **k)\n"
        "torch.Tensor.backward = backward\n",
        body=_PRINTS,
    ),
    "a step replaced by a function": Case(
        code="def verbose(cls):\n    old = cls.step\n    def step(self, *a, **k):\n        print('lr')\n"
        "        return old(self, *a, **k)\n    cls.step = step\nverbose(torch.optim.SGD)\n",
        body=_PRINTS,
    ),
    "a mock": Case(
        code="from unittest import mock\n",
        before="real = opt.step\ndef side(*a, **k):\n    print('mock')\n    return real()\n"
        "mock.patch.object(opt, 'step', side_effect=side).start()",
        body=_PRINTS,
    ),
    # ------------------------------------------------------------------------------------------------------ a deadline
    "a logger that another function switches off": Case(
        code="import logging\nlog = logging.getLogger('x')\n"
        "def tick(i):\n    logging.getLogger('x').disabled = 3 < i < 6\n",
        body="STEP\nlog.info('%.4f', loss.item())  # later\ntick(i)",
    ),
    "a handler of a logger that another function sets": Case(
        code="import logging\nlog = logging.getLogger('x')\n"
        "def tick(i):\n    logging.getLogger().handlers[0].setLevel(40 if i % 3 else 10)\n",
        body="STEP\nlog.info('%.4f', loss.item())  # later\ntick(i)",
    ),
    "a formatter of a logger that another function sets": Case(
        code="import logging\nlog = logging.getLogger('x')\n"
        "def tick(i):\n    for h in logging.getLogger('x').handlers:\n"
        "        h.setFormatter(logging.Formatter(f'{i} %(message)s'))\n",
        body="STEP\nlog.info('%.4f', loss.item())  # later\ntick(i)",
    ),
    "a sampler that is put into a loader": Case(
        code="def install(ls, opt, loader):\n    class S(torch.utils.data.Sampler):\n        def __iter__(self):\n"
        "            for i in range(48):\n                opt.param_groups[0]['lr'] = 0.1 / (1 + len(ls))\n"
        "                yield i\n    loader.batch_sampler.sampler = S()\n",
        before="ls, loader = [], DataLoader(Data())\ninstall(ls, opt, loader)",
        over="loader",
        body="STEP\nls.append(loss.item())  # later",
    ),
    "an archive of the file that is written": Case(
        code="import tarfile\n",
        body="STEP\nprint(loss.item(), file=open('s.txt', 'a'))  # later\n"
        "if i % 4 == 3:\n    with tarfile.open('z.tar', 'w') as z:\n        z.add('s.txt')",
    ),
    "a size of the file that is written": Case(
        code="import os\n",
        body="STEP\nprint(loss.item(), file=open('s.txt', 'a'))  # later\n"
        "if i % 4 == 3:\n    print(sum(one.stat().st_size for one in os.scandir('.')))",
    ),
    "the numbers of the file that is written": Case(
        code="import numpy as np\n",
        body="STEP\nprint(loss.item(), file=open('s.txt', 'a'))  # later\n"
        "if i % 4 == 3:\n    opt.param_groups[0]['lr'] = len(np.fromfile('s.txt', sep=' '))",
    ),
    "a flush of the file under a writer": Case(
        code="import csv\n",
        before="f = open('m.csv', 'w')\nw = csv.writer(f)",
        body="STEP\nw.writerow([loss.item()])  # later\nif i % 5 == 0:\n    f.flush()",
    ),
    "a warning behind a method": Case(
        code="import warnings\nclass Rec:\n    def push(self, v):\n        warnings.warn(str(v), stacklevel=2)\n",
        before="r = Rec()",
        body="STEP\nr.push(loss.item())  # later",
    ),
    "a queue of the best": Case(
        code="import heapq\nclass Best:\n    def __init__(self):\n        self.kept = [0.0] * 3\n"
        "    def push(self, v):\n        heapq.heappushpop(self.kept, v)\n",
        before="best = Best()",
        body="STEP\nbest.push(loss.item())  # later\nopt.param_groups[0]['lr'] = best.kept[0]",
    ),
    "random numbers that only a pattern knows": Case(
        code="class Log:\n    def push(self, v):\n        print(v, torch.empty(1).cauchy_().item())\n",
        before="log = Log()",
        body="STEP\nlog.push(loss.item())  # later",
    ),
    "a module that draws random numbers": Case(
        code="class Log:\n    def __init__(self):\n        self.drop = nn.Dropout(0.5)\n"
        "    def push(self, v):\n        print(v, self.drop(torch.ones(2)).sum())\n",
        before="log = Log()",
        body="STEP\nlog.push(loss.item())  # later",
    ),
    "an iterator that takes from a list": Case(
        code="import itertools\n",
        before="kept = []\nrun = itertools.accumulate(iter(kept.pop, None))",
        body="STEP\nkept.append(loss.item())  # later\nprint(next(run))",
    ),
    "a map into a list": Case(
        before="kept, other = [], []\nfilled = map(kept.append, range(100))",
        body="STEP\nkept.append(loss.item())  # later\nnext(filled)",
    ),
    "an iterator that is searched": Case(
        code="class Log:\n    def __init__(self, source):\n        self.source, self.rows = source, []\n"
        "    def push(self, v):\n        self.rows.append((v, 5 in self.source))\n",
        before="source = iter(range(1000))\nlog = Log(source)",
        body="STEP\nlog.push(loss.item())  # later\nprint(next(source))",
    ),
    "a lookup that makes a key": Case(
        code="from collections import defaultdict\nclass Log:\n    def __init__(self, known):\n"
        "        self.known, self.rows = known, []\n"
        "    def push(self, v):\n        self.rows.append((v, len(self.known)))\n",
        before="known = defaultdict(list)\nlog = Log(known)",
        body="STEP\nlog.push(loss.item())  # later\nknown[i % 5]",
    ),
    "a file that is closed when its line has run": Case(
        code="import os\n",
        body="STEP\nprint(loss.item(), file=open('s.txt', 'a'))  # later\n"
        "if i % 4 == 3:\n    print(sum(one.stat().st_size for one in os.scandir('.')))",
    ),
    "a pass over a loader that shuffles": Case(
        code="class Log:\n    def __init__(self, data):\n        self.data = DataLoader(data, shuffle=True)\n"
        "    def push(self, v):\n        for x, y in self.data:\n            print(v, x.sum())\n            break\n",
        before="log = Log(Data())",
        body="STEP\nlog.push(loss.item())  # later",
    ),
    "a check of a library": Case(
        code="class Log:\n    def push(self, v):\n        torch._assert(v < 9, 'diverged')\n",
        before="log = Log()",
        body="STEP\nlog.push(loss.item())  # later",
    ),
    "the next of an iterator": Case(
        code="class Sum:\n    def __init__(self):\n        self.weights, self.total = iter([1.0] * 3), 0.0\n"
        "    def push(self, v):\n        self.total += v * next(self.weights)\n",
        before="kept = Sum()",
        body="STEP\nkept.push(loss.item())  # later",
    ),
    "an array that is a file": Case(
        code="import numpy as np\n",
        before="kept = np.memmap('kept.bin', dtype='float32', mode='w+', shape=(100,))",
        body="STEP\nkept[i] = loss.item()  # later",
    ),
    "a limit of time": Case(
        before="start, total = time.time(), 0.0",
        body="STEP\ntotal += loss.item()  # later\nif time.time() - start > 3600:\n    break",
        after="print(i, total)",
    ),
    "a deadline of another": Case(
        before="start, total, stop = time.time(), 0.0, False",
        body="STEP\ntotal += loss.item()  # later\nif time.time() - start > 3600:\n    stop = True\n"
        "if stop:\n    break",
        after="print(i, total)",
    ),
    "a deadline": Case(
        before="end, total = time.time() + 3600, 0.0",
        body="STEP\ntotal += loss.item()  # later\nif time.time() > end:\n    break",
        after="print(i, total)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("around", ["function", "module"])
@pytest.mark.parametrize("loop", LOOPS)
def test_who_sees_the_delay_is_found(loop: str, around: str, tmp_path: Path) -> None:
    text = one_file(LOOPS[loop], SURROUNDINGS[around])["main.py"].replace("# later", "# fires")
    patch = patch_of(tmp_path, text)
    kept = ("defer(log_loss, context.state['step'],", "defer(log_loss, list(values),")
    of_its_batch = any(text in patch.diff for text in kept)  # what is evaluated in its batch sees what it saw
    assert of_its_batch or all(hunk.tier != "safe" for hunk in patch.hunks)


def test_an_attribute_that_a_module_computes_is_read_in_its_function(tmp_path: Path) -> None:
    files = one_file(
        Case(code="import st\n", body="STEP\nst.tick()\nprint(st.step, loss.item())  # later"), SURROUNDINGS["function"]
    )
    (tmp_path / "st.py").write_text(
        "_s = [0]\ndef tick():\n    _s[0] += 1\ndef __getattr__(name):\n    if name == 'step':\n        return _s[0]\n"
        "    raise AttributeError(name)\n"
    )
    assert patch_of(tmp_path, files["main.py"].replace("# later", "# fires")).empty
