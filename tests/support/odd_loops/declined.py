"""Loops whose reads stay where they are, and the reason that must be given for it."""

from __future__ import annotations

STAYS: dict[str, tuple[str | dict[str, str], str]] = {
    "module eval": (
        """
total = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    total += loss.item()
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + eval("total"))
""",
        "the value goes into `eval(…)`",
    ),
    "module globals()": (
        """
total = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    total += loss.item()
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + globals()["total"])
""",
        "the value goes into `globals(…)`",
    ),
    "helper globals()": (
        """
total = 0.0
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + globals()["total"])
for i, (x, y) in enumerate(loader):
    STEP
    total += loss.item()
    lr()
""",
        "`lr()` looks at `total`",
    ),
    "sys.modules main": (
        """
import sys
total = 0.0
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + sys.modules["__main__"].total)
for i, (x, y) in enumerate(loader):
    STEP
    total += loss.item()
    lr()
""",
        "the loop looks names up by their text",
    ),
    "self dict": (
        """
class T:
    def fit(self):
        self.total = 0.0
        for x, y in loader:
            STEP
            self.total += loss.item()
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.__dict__["total"])
T().fit()
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "self subscript": (
        """
class T:
    def __getitem__(self, k): return getattr(self, k)
    def fit(self):
        self.total = 0.0
        for x, y in loader:
            STEP
            self.total += loss.item()
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + self["total"])
T().fit()
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "self in fstring": (
        """
class T:
    def __str__(self): return str(self.total)
    def fit(self):
        self.total = 0.0
        for x, y in loader:
            STEP
            self.total += loss.item()
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + float(f"{self}"))
T().fit()
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "self called": (
        """
class T:
    def __call__(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.total)
    def fit(self):
        self.total = 0.0
        for x, y in loader:
            STEP
            self.total += loss.item()
            self()
T().fit()
""",
        "`self(…)` may do more than log or accumulate",
    ),
    "self len": (
        """
class T:
    def __len__(self): return len(self.hist)
    def fit(self):
        self.hist = []
        for x, y in loader:
            STEP
            self.hist.append(loss.item())
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(self))
T().fit()
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "self alias": (
        """
class T:
    def fit(self):
        me = self
        self.hist = []
        for x, y in loader:
            STEP
            self.hist.append(loss.item())
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(me.hist))
T().fit()
""",
        "`len(me.hist)` looks at the same list or dict",
    ),
    "self named differently": (
        """
class T:
    def lr(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(self.hist))
    def fit(this):
        this.hist = []
        for x, y in loader:
            STEP
            this.hist.append(loss.item())
            this.lr()
T().fit()
""",
        "`optimizer.zero_grad()` changes `'lr'`",
    ),
    "class attribute vs self": (
        """
class T:
    hist = []
    def fit(self):
        for x, y in loader:
            STEP
            self.hist.append(loss.item())
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(T.hist))
T().fit()
""",
        "`len(T.hist)` looks at the same list or dict",
    ),
    "global instance vs self": (
        """
class T:
    def __init__(self): self.hist = []
    def fit(self):
        for x, y in loader:
            STEP
            self.hist.append(loss.item())
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(trainer.hist))
trainer = T()
trainer.fit()
""",
        "`len(trainer.hist)` looks at the same list or dict",
    ),
    "bound method handed over": (
        """
class T:
    def __init__(self): self.hist = []
    def lr(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(self.hist))
    def fit(self):
        cb = self.lr
        for x, y in loader:
            STEP
            self.hist.append(loss.item())
            cb()
T().fit()
""",
        "`cb()` looks at the same list or dict",
    ),
    "bound method list": (
        """
class T:
    def __init__(self): self.hist = []; self.cbs = [self.lr]
    def lr(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(self.hist))
    def fit(self):
        for x, y in loader:
            STEP
            self.hist.append(loss.item())
            for cb in self.cbs:
                cb()
T().fit()
""",
        "`cb()` looks at the same list or dict",
    ),
    "inherited method in another file": (
        {
            "base.py": """
class Base:
    def after(self):
        self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.total)
""",
            "train.py": """
from base import Base
class T(Base):
    def fit(self):
        self.optimizer = optimizer
        self.total = 0.0
        for x, y in loader:
            STEP
            self.total += loss.item()
            self.after()
T().fit()
""",
        },
        "`self.after()` looks at `total` of a `T`",
    ),
    "imported model prints": (
        {
            "helper.py": """
import torch.nn as nn
class Net(nn.Linear):
    def forward(self, x):
        print('fw')
        return super().forward(x)
""",
            "train.py": """
from helper import Net
model = Net(4, 3)
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
""",
        },
        "`model(x)` writes lines of its own",
    ),
    "imported dataset prints": (
        {
            "helper.py": """
class D:
    def __init__(self, l): self.l = l
    def __iter__(self):
        for i, b in enumerate(self.l):
            print('batch', i)
            yield b
""",
            "train.py": """
from helper import D
data = D(loader)
for i, (x, y) in enumerate(data):
    STEP
    print(i, loss.item())
""",
        },
        "the loop's iterator writes lines of its own",
    ),
    "logging funcName": (
        """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(funcName)s %(message)s")
for i, (x, y) in enumerate(loader):
    STEP
    logging.info("loss %f", loss.item())
""",
        "the log names the line and function that write to it",
    ),
    "getsize of log": (
        """
import os
f = open("log.txt", "w")
for i, (x, y) in enumerate(loader):
    STEP
    f.write(f"{loss.item()}\\n")
    f.flush()
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + os.path.getsize("log.txt"))
f.close()
""",
        "the value goes into `os.path.getsize(…)`",
    ),
    "wrapper of list": (
        """
class W:
    def __init__(self, t): self.t = t
    def add(self, v): self.t.append(v)
history = []
w = W(history)
for i, (x, y) in enumerate(loader):
    STEP
    w.add(loss.item())
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(history))
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "tuple alias": (
        """
h = []
a, b = h, h
for i, (x, y) in enumerate(loader):
    STEP
    a.append(loss.item())
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(b))
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "with alias": (
        """
class W:
    def __init__(self): self.n = []
    def __enter__(self): return self
    def __exit__(self, *a): return False
    def add(self, v): self.n.append(v)
writer = W()
with writer as w:
    for i, (x, y) in enumerate(loader):
        STEP
        w.add(loss.item())
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(writer.n))
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "function returns same": (
        """
h = []
def same(v): return v
a = same(h)
for i, (x, y) in enumerate(loader):
    STEP
    a.append(loss.item())
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "for-target alias": (
        """
h = []
for a in [h]:
    for i, (x, y) in enumerate(loader):
        STEP
        a.append(loss.item())
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
a = None
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "walrus alias": (
        """
h = []
print(len(a := h))
for i, (x, y) in enumerate(loader):
    STEP
    a.append(loss.item())
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "two params one object": (
        """
def train(log, out):
    for i, (x, y) in enumerate(loader):
        STEP
        log.append(loss.item())
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(out))
h = []
train(h, h)
""",
        "the value reaches `optimizer.zero_grad(…)`, which takes part in the training",
    ),
    "param and global": (
        """
h = []
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
def train(log):
    for i, (x, y) in enumerate(loader):
        STEP
        log.append(loss.item())
        lr()
train(h)
""",
        "`lr()` looks at the same list or dict",
    ),
    "ctor and global": (
        """
class T:
    def __init__(self, log): self.log = log
    def fit(self):
        for i, (x, y) in enumerate(loader):
            STEP
            self.log.append(loss.item())
            lr()
h = []
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
T(h).fit()
""",
        "`lr()` looks at the same list or dict",
    ),
    "default argument": (
        """
h = []
def lr(h=h): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
def train():
    for i, (x, y) in enumerate(loader):
        STEP
        h.append(loss.item())
        lr()
train()
""",
        "`lr()` looks at the same list or dict",
    ),
    "list appended by alias record": (
        """
record = []; history = []
for i, (x, y) in enumerate(loader):
    STEP
    record.append(i)
    history.append((record, loss.item()))
""",
        "it keeps `record` itself, which the loop changes",
    ),
    "row mutated after append": (
        """
rows = []
for i, (x, y) in enumerate(loader):
    STEP
    row = [i]
    rows.append([row, loss.item()])
    row.append("late")
""",
        "it keeps `row` itself, which the loop changes",
    ),
    "dict mutated after append": (
        """
rows = []
for i, (x, y) in enumerate(loader):
    info = {"i": i}
    STEP
    rows.append((loss.item(), info))
    info["late"] = 1
""",
        "it keeps `info` itself, which the loop changes",
    ),
    "tensor added to and stored": (
        """
counts = torch.zeros(3); rows = []
for i, (x, y) in enumerate(loader):
    counts += torch.bincount(y, minlength=3)
    STEP
    rows.append((loss.item(), counts))
print([row[1].tolist() for row in rows])
""",
        "it keeps `counts` itself, which the loop changes",
    ),
    "config dict stored": (
        """
cfg = {"lr": 0.1}; rows = []
for i, (x, y) in enumerate(loader):
    cfg["lr"] = i
    STEP
    rows.append((loss.item(), cfg))
""",
        "it keeps `cfg` itself, which the loop changes",
    ),
    "substring context": (
        """
import contextlib
@contextlib.contextmanager
def sample_context():
    print("in")
    yield
    print("out")
for i, (x, y) in enumerate(loader):
    STEP
    with sample_context():
        print(loss.item())
""",
        "the value is used by the head of a block",
    ),
    "redirect per batch": (
        """
import contextlib, io
texts = []
for i, (x, y) in enumerate(loader):
    STEP
    buf = io.StringIO()
    with contextlib.redirect_stdout(buf):
        print(loss.item())
    texts.append(buf.getvalue())
""",
        "the value is used by the head of a block",
    ),
    "redirect per batch plain print outside": (
        """
import contextlib, io
for i, (x, y) in enumerate(loader):
    STEP
    print(loss.item())
    with contextlib.redirect_stdout(io.StringIO()):
        model(x)
""",
        "the value is used by the head of a block",
    ),
    "sys.stdout swapped": (
        """
import sys, io
keep = sys.stdout
for i, (x, y) in enumerate(loader):
    STEP
    print(loss.item())
    sys.stdout = io.StringIO() if i % 2 else keep
sys.stdout = keep
""",
        "it changes a setting of a library",
    ),
    "super update": (
        """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

class B(Meter):
    def fit(self):
        for x, y in loader:
            STEP
            super().update(loss.item())
b = B()
b.fit()
""",
        "the value goes into `super(…)`",
    ),
    "f=attribute": (
        """
class T:
    def fit(self):
        for self.i, (x, y) in enumerate(loader):
            STEP
            print(f"{self.i=} {loss.item()}")
T().fit()
""",
        "`{…=}` prints the expression itself",
    ),
    "f=attribute spec": (
        """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

m = Meter()
for i, (x, y) in enumerate(loader):
    m.update(1)
    STEP
    print(f"{m.count=:5d} {loss.item():.3f} {i=}")
""",
        "`{…=}` prints the expression itself",
    ),
    "f=item": (
        """
for i, (x, y) in enumerate(loader):
    STEP
    print(f"{loss.item()=:.3f}")
""",
        "`{…=}` prints the expression itself",
    ),
    "zero division in try": (
        """
total = 0.0; n = 0
for i, (x, y) in enumerate(loader):
    STEP
    try:
        total += loss.item() / (i % 2)
    except ZeroDivisionError:
        n += 1
""",
        "an error in it is caught where it stands, and would not be later",
    ),
    "suppress": (
        """
import contextlib
total = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    with contextlib.suppress(ZeroDivisionError):
        total += loss.item() / (i % 2)
""",
        "the value is used inside a `with`",
    ),
    "walrus": (
        """
t = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    t += (v := loss.item())
    print(v)
""",
        "the expression cannot be evaluated later",
    ),
    "logging record filter state": (
        """
import logging, sys
class F(logging.Filter):
    step = 0
    def filter(self, r):
        r.msg = f"[{F.step}] {r.msg}"
        return True
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
log = logging.getLogger(__name__); log.addFilter(F())
for i, (x, y) in enumerate(loader):
    F.step = i
    STEP
    log.info("loss %f", loss.item())
""",
        "the value goes into `criterion(…)`",
    ),
    "checkpoint each batch": (
        """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

import json
m = Meter()
for i, (x, y) in enumerate(loader):
    STEP
    m.update(loss.item(), x.size(0))
    json.dump({"s": m.sum}, open("c.json", "w"))
""",
        "`json.dump(…)` may do more than log or accumulate",
    ),
    "best loss": (
        """
best = 1e9
for i, (x, y) in enumerate(loader):
    STEP
    if loss.item() < best:
        best = loss.item()
        torch.save(model.state_dict(), "best.pt")
""",
        "the value decides what the same batch does next",
    ),
    "assert": (
        """
t = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    assert loss.item() < 100, "too big"
    t += loss.item()
    assert t < 12.5, t
""",
        "`assert` depends on the value in the same batch",
    ),
    "same statement side effects": (
        """
n = 0
def bump():
    global n
    n += 1
    return n
h = []
for i, (x, y) in enumerate(loader):
    STEP
    h.append((bump(), loss.item(), n, bump()))
""",
        "the value goes into `bump(…)`",
    ),
    "slices": (
        """
h = []
for i, (x, y) in enumerate(loader):
    STEP
    h[len(h):] = [loss.item()]
    print(sum(h[-3:]))
""",
        "it stores into a slice",
    ),
    "try inside loop else": (
        """
t = 0.0
for i, (x, y) in enumerate(loader):
    try:
        STEP
        if i == 5: raise RuntimeError("oom")
    except RuntimeError:
        print("oom", i)
        continue
    else:
        t += loss.item()
    finally:
        print("fin", i)
    print(t)
""",
        "the value is used where an exception may be caught",
    ),
    "print tensor": (
        """
for i, (x, y) in enumerate(loader):
    STEP
    acc = (model(x).argmax(1) == y).float().mean()
    print(acc, acc.item(), x.shape, y)
""",
        "it prints the tensor `acc` itself, not its value",
    ),
    "kwarg meters": (
        """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

class ML:
    def __init__(self): self.d = {}
    def update(self, **k):
        for n, v in k.items():
            if isinstance(v, torch.Tensor): v = v.item()
            self.d.setdefault(n, Meter()).update(v)
ml = ML()
for i, (x, y) in enumerate(loader):
    STEP
    ml.update(loss=loss)
    ml.update(l2=loss.item(), lr=optimizer.param_groups[0]["lr"])
    optimizer.param_groups[0]["lr"] *= 0.9
""",
        "`v` is another object in each pass of the loop, and the statement changes it",
    ),
    "optimizer prints": (
        """
class Noisy(torch.optim.SGD):
    def step(self, closure=None):
        print("step")
        return super().step(closure)
optimizer = Noisy(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    STEP
    print(loss.item())
""",
        "`optimizer.step()` writes lines of its own",
    ),
    "optimizer zero_grad prints": (
        """
class Noisy(torch.optim.SGD):
    def zero_grad(self, *a, **k):
        print("zero")
        return super().zero_grad(*a, **k)
optimizer = Noisy(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    STEP
    print(loss.item())
""",
        "`optimizer.zero_grad()` writes lines of its own",
    ),
    "backward hook prints": (
        """
def hook(g): print("grad", g.sum().item())
model.weight.register_hook(hook)
for i, (x, y) in enumerate(loader):
    STEP
    print(loss.item())
""",
        "it is not in a loop of its own function",
    ),
    "forward hook reads state": (
        """
t = 0.0
def hook(m, i, o): return o * (1 + t)
model.register_forward_hook(hook)
for i, (x, y) in enumerate(loader):
    STEP
    t += loss.item() * 0.01
""",
        "a function defined here uses the results",
    ),
    "autograd function of the file": (
        """
t = 0.0
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g): return g * (1 + t)
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = criterion(Scale.apply(model(x)), y)
    loss.backward()
    optimizer.step()
    t += loss.item() * 0.1
""",
        "a function defined here uses the results",
    ),
    "lambda lr scheduler": (
        """
t = 0.0
sched = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 1 / (1 + t))
for i, (x, y) in enumerate(loader):
    STEP
    t += loss.item()
    sched.step()
""",
        "a function defined here uses the results",
    ),
    "partial": (
        """
import functools
h = []
def lr(h): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
cb = functools.partial(lr, h)
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    cb()
""",
        "`cb()` looks at the same list or dict",
    ),
    "lambda reads state": (
        """
h = []
cb = lambda: optimizer.param_groups[0].__setitem__("lr", 0.1 / (1 + len(h)))
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    cb()
""",
        "a function defined here uses the results",
    ),
    "callbacks list": (
        """
h = []
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
cbs = [lr]
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    for cb in cbs:
        cb()
""",
        "a function defined here uses the results",
    ),
    "callbacks dict": (
        """
h = []
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
cbs = {"lr": lr}
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    cbs["lr"]()
""",
        "a function defined here uses the results",
    ),
    "renamed function": (
        """
h = []
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
adjust = lr
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    adjust()
""",
        "a function defined here uses the results",
    ),
    "getattr call": (
        """
import sys
h = []
def lr(): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    globals()["lr"]()
""",
        "a function defined here uses the results",
    ),
    "operator overloading": (
        """
h = []
class A:
    def __add__(self, o):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h)); return self
a = A()
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    a + 1
""",
        "a function defined here uses the results",
    ),
    "operator overloading prints": (
        """
class A:
    def __iadd__(self, o):
        print("count"); return self
    def __enter__(self): print("enter"); return self
    def __exit__(self, *a): print("exit")
a = A()
for i, (x, y) in enumerate(loader):
    a += 1
    with a:
        STEP
    print(loss.item())
""",
        "`a += 1` writes lines of its own",
    ),
    "__getattr__ reads": (
        """
h = []
class A:
    def __getattr__(self, n): return len(h)
a = A()
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    optimizer.param_groups[0]["lr"] = 0.1 / (1 + a.anything)
""",
        "a function defined here uses the results",
    ),
    "choice computes": (
        """
for i, (x, y) in enumerate(loader):
    STEP
    v = loss.item() * 2 if i % 2 else 0
    print(v)
""",
        "only one branch reads the value, and computes with it",
    ),
    "choice rounds": (
        """
for i, (x, y) in enumerate(loader):
    STEP
    print(round(loss.item(), 3) if i % 2 else 0)
    print(f"{loss.item() if i % 2 else 0:.3f}")
""",
        "only one branch reads the value, and computes with it",
    ),
    "callbacks with trainer": (
        """
class CB:
    def __init__(self, trainer): self.trainer = trainer
    def on_batch_end(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.trainer.total)
class T:
    def __init__(self): self.callbacks = []; self.total = 0.0
    def fit(self):
        for x, y in loader:
            STEP
            self.total += loss.item()
            for cb in self.callbacks:
                cb.on_batch_end()
t = T()
t.callbacks.append(CB(t))
t.fit()
""",
        "`cb.on_batch_end()` looks at `total` of a `T`",
    ),
    "callback attribute with trainer": (
        """
class CB:
    def __init__(self, trainer): self.trainer = trainer
    def on_batch_end(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.trainer.total)
class T:
    def __init__(self): self.total = 0.0; self.cb = CB(self)
    def fit(self):
        for x, y in loader:
            STEP
            self.total += loss.item()
            self.cb.on_batch_end()
t = T()
t.fit()
""",
        "`self.cb.on_batch_end()` looks at `total` of a `T`",
    ),
    "callback set from outside": (
        """
class CB:
    def on_batch_end(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + self.trainer.total)
class T:
    def __init__(self, cb): self.total = 0.0; self.cb = cb
    def fit(self):
        for x, y in loader:
            STEP
            self.total += loss.item()
            self.cb.on_batch_end()
cb = CB()
t = T(cb)
cb.trainer = t
t.fit()
""",
        "`self.cb.on_batch_end()` looks at `total` of a `T`",
    ),
    "model holds the list": (
        """
class Net(nn.Linear):
    def __init__(self): super().__init__(4, 3); self.hist = []
    def forward(self, x): return super().forward(x) * (1 + 0.01 * len(self.hist))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    STEP
    model.hist.append(loss.item())
""",
        "the value goes into `criterion(…)`",
    ),
    "model buffer": (
        """
class Net(nn.Linear):
    def __init__(self): super().__init__(4, 3); self.last = 0.0
    def forward(self, x): return super().forward(x) * (1 + 0.01 * self.last)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    STEP
    model.last = loss.item()
""",
        "the value goes into `criterion(…)`",
    ),
    "criterion holds the value": (
        """
class Crit(nn.CrossEntropyLoss):
    scale = 1.0
    def forward(self, a, b): return super().forward(a, b) * self.scale
criterion = Crit()
for i, (x, y) in enumerate(loader):
    STEP
    criterion.scale = 1 / (1 + loss.item())
""",
        "the value goes into `criterion(…)`",
    ),
    "tqdm custom": (
        """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

class Bar:
    def __init__(self, it): self.it = it; self.n = 0; self.post = []
    def __iter__(self):
        for o in self.it:
            yield o
            self.n += 1
    def set_postfix(self, **k): self.post.append((self.n, dict(k)))
    def set_description(self, t): self.post.append((self.n, t))
    def update(self, n): self.n += n
bar = Bar(loader)
for x, y in bar:
    STEP
    bar.set_postfix(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])
""",
        "the loop's iterator changes `n` of a `Bar` between two batches",
    ),
    "pathlib log": (
        """
from pathlib import Path
p = Path("log.txt")
for i, (x, y) in enumerate(loader):
    STEP
    with p.open("a") as f:
        f.write(f"{loss.item()}\\n")
    if i % 4 == 0:
        print(p.stat().st_size)
""",
        "the value is used by the head of a block",
    ),
    "constructor prints": (
        """
class C:
    def __init__(self, i): print("made", i)
for i, (x, y) in enumerate(loader):
    c = C(i)
    STEP
    print(loss.item())
c = 0
""",
        "`C(i)` writes lines of its own",
    ),
    "constructor sees": (
        """
h = []
class C:
    def __init__(self): optimizer.param_groups[0]["lr"] = 0.1 / (1 + len(h))
def main():
    for i, (x, y) in enumerate(loader):
        STEP
        h.append(loss.item())
        C()
main()
""",
        "`C()` looks at the same list or dict",
    ),
    "object stored in list": (
        """
class O:
    def __init__(self, n): self.n = n
hist = []
for i, (x, y) in enumerate(loader):
    STEP
    o = O(i)
    hist.append((o, loss.item()))
    o.n += 1
print([h[0].n for h in hist])
""",
        "it keeps `o` itself, which the loop changes",
    ),
    "visdom like": (
        """
class Vis:
    def __init__(self): self.calls = []
    def line(self, Y, X, update=None, win=None): self.calls.append((list(Y), list(X), update)); return "w"
vis = Vis(); win = None
for i, (x, y) in enumerate(loader):
    STEP
    win = vis.line([loss.item()], [i], update=None if win is None else "append", win=win)
""",
        "the value goes into `vis.line(…)`",
    ),
    "seed from loss": (
        """
for i, (x, y) in enumerate(loader):
    x = x + torch.randn_like(x) * 0.1
    STEP
    torch.manual_seed(int(loss.item() * 1000))
""",
        "`torch.manual_seed(…)` may do more than log or accumulate",
    ),
    "imported evaluator every batch": (
        {
            "helper.py": """
class Ev:
    def __init__(self, m): self.m = m
    def run(self, i): print("eval", i, self.m.weight.sum().item())
def evaluate(m, i): print("eval", i, m.weight.sum().item())
""",
            "train.py": """
from helper import Ev
ev = Ev(model)
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    ev.run(i)
""",
        },
        "it is not in a loop of its own function",
    ),
    "imported evaluate": (
        {
            "helper.py": """
class Ev:
    def __init__(self, m): self.m = m
    def run(self, i): print("eval", i, self.m.weight.sum().item())
def evaluate(m, i): print("eval", i, m.weight.sum().item())
""",
            "train.py": """
import helper
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    helper.evaluate(model, i)
""",
        },
        "`helper.evaluate(model, i)` writes lines of its own",
    ),
    "destructor prints": (
        """
class C:
    def __del__(self): print("gone")
for i, (x, y) in enumerate(loader):
    c = C()
    STEP
    print(loss.item())
c = 0
""",
        "`C()` writes lines of its own",
    ),
}
