"""Loops that are patched, and whose lines, files, results and weights must stay what they were, to the bit."""

from __future__ import annotations

HELD: dict[str, str | dict[str, str]] = {
    "merge impure next": """
import itertools
w = itertools.count()
for i, (x, y) in enumerate(loader):
    STEP
    print(next(w), next(w), loss.item())
""",
    "merge impure random": """
import random
random.seed(0)
for i, (x, y) in enumerate(loader):
    STEP
    print(random.random(), random.random(), loss.item())
""",
    "merge impure pop": """
w = list(range(1000))
for i, (x, y) in enumerate(loader):
    STEP
    print(w.pop(), w.pop(), loss.item())
""",
    "merge impure read": """
for i, (x, y) in enumerate(loader):
    STEP
    print(torch.rand(3).sum().item(), torch.rand(3).sum().item(), loss.item())
""",
    "merge dropout read in two statements": """
drop = nn.Dropout(0.5)
for i, (x, y) in enumerate(loader):
    STEP
    print(drop(x).sum().item())
    print(drop(x).sum().item())
""",
    "np random in text": """
import numpy as np
np.random.seed(0)
for i, (x, y) in enumerate(loader):
    x = x + float(np.random.rand())
    STEP
    print(np.random.rand(), loss.item())
""",
    "np random alias": """
from numpy import random as npr
npr.seed(0)
for i, (x, y) in enumerate(loader):
    x = x + float(npr.rand())
    STEP
    print(npr.rand(), loss.item())
""",
    "imported helper prints": {
        "helper.py": """
def report(i):
    print('report', i)
""",
        "train.py": """
from helper import report
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    if i % 4 == 0:
        report(i)
""",
    },
    "imported helper prints each batch": {
        "helper.py": """
def report(i):
    print('report', i)
""",
        "train.py": """
import helper
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    helper.report(i)
""",
    },
    "imported object prints": {
        "helper.py": """
class V:
    def run(self, i):
        self.say(i)
    def say(self, i): print('v', i)
""",
        "train.py": """
from helper import V
v = V()
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    if i % 4 == 0:
        v.run(i)
""",
    },
    "imported package relative": {
        "pkg/__init__.py": """
""",
        "pkg/h.py": """
from .g import say
def report(i): say(i)
""",
        "pkg/g.py": """
import sys
def say(i): sys.stdout.write(f'say {i}\\n')
""",
        "train.py": """
from pkg.h import report as rep
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    if i % 4 == 0:
        rep(i)
""",
    },
    "imported settings changed": {
        "helper.py": """
def warm(args):
    args.step += 1
""",
        "train.py": """
import argparse
from helper import warm
args = argparse.Namespace(step=0)
for i, (x, y) in enumerate(loader):
    warm(args)
    STEP
    print(args.step, loss.item())
""",
    },
    "logger by another name": """
import logging, sys
lg = logging.getLogger("x")
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
for i, (x, y) in enumerate(loader):
    lg.info("start %d", i)
    STEP
    logging.info("loss %f", loss.item())
""",
    "rich console": """
class Console:
    pass
import sys
con = Console()
con.print = lambda *a: sys.stdout.write(str(a) + "\\n")
for i, (x, y) in enumerate(loader):
    con.print("start", i)
    STEP
    print(i, loss.item())
""",
    "pbar.write": """
from tqdm import tqdm
pbar = tqdm(loader, disable=True)
for i, (x, y) in enumerate(pbar):
    STEP
    print(i, loss.item())
    if i % 4 == 0:
        pbar.write("hello")
""",
    "file printed into": """
f = open("log.txt", "w")
for i, (x, y) in enumerate(loader):
    f.write(f"start {i}\\n")
    STEP
    print(i, loss.item(), file=f)
f.close()
""",
    "read the log": """
f = open("log.txt", "a")
for i, (x, y) in enumerate(loader):
    STEP
    f.write(f"{loss.item()}\\n")
    f.flush()
    if i % 4 == 0:
        with open("log.txt") as g:
            print(len(g.read().splitlines()))
f.close()
""",
    "copy the log": """
import shutil
for i, (x, y) in enumerate(loader):
    STEP
    with open("log.txt", "a") as f:
        f.write(f"{loss.item()}\\n")
    if i % 4 == 0:
        shutil.copy("log.txt", f"log{i}.txt")
""",
    "csv writer and file": """
import csv
f = open("log.csv", "w")
w = csv.writer(f)
for i, (x, y) in enumerate(loader):
    f.write(f"# {i}\\n")
    STEP
    w.writerow([i, loss.item()])
f.close()
""",
    "numbers added to and stored": """
rows, n, seen = [], 0, 0
for i, (x, y) in enumerate(loader):
    STEP
    n += 1
    seen += y.size(0)
    rows.append((loss.item(), n, seen))
print(rows)
""",
    "numpy view of weights": """
rows = []
for i, (x, y) in enumerate(loader):
    STEP
    rows.append(model.weight.data.cpu().numpy())
""",
    "private name": """
class B:
    def fit(self):
        self.__total = 0.0
        for x, y in loader:
            STEP
            self.__total += loss.item()
        print(self.__total)
B().fit()
""",
    "annotated in function": """
def main():
    for x, y in loader:
        STEP
        v: float = loss.item()
        print(v)
    return v
r = main()
""",
    "annotated at module": """
for x, y in loader:
    STEP
    v: float = loss.item()
    print(v)
""",
    "iter shadowed in while": """
iter = 0
total = 0.0
while iter < 20:
    x, y = loader[iter]
    STEP
    total += loss.item()
    print(iter, loss.item())
    iter += 1
""",
    "bool shadowed in while": """
def main():
    bool = 3
    n = 0
    while n < 20:
        x, y = loader[n]
        STEP
        print(n, loss.item(), bool)
        n += 1
main()
""",
    "nested train loops gan": """
optD = torch.optim.SGD(model.parameters(), lr=0.01)
for i, (x, y) in enumerate(loader):
    for k in range(3):
        optD.zero_grad()
        d = criterion(model(x), y)
        d.backward()
        optD.step()
        print("d", d.item())
    STEP
    print("g", loss.item())
""",
    "nested train loops shared sum": """
optD = torch.optim.SGD(model.parameters(), lr=0.01)
total = 0.0
def main():
    global total
    for i, (x, y) in enumerate(loader):
        for k in range(3):
            optD.zero_grad()
            d = criterion(model(x), y)
            d.backward()
            optD.step()
            total += d.item()
        STEP
        total = total * 0.5 + loss.item()
main()
""",
    "eval loop inside": """
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    if i % 5 == 0:
        v = 0.0
        with torch.no_grad():
            for vx, vy in loader[:3]:
                v += criterion(model(vx), vy).item()
                print("eval", criterion(model(vx), vy).item())
        print("val", v)
""",
    "eval loop inside every batch": """
best = 0
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    correct = 0
    for vx, vy in loader[:3]:
        correct += (model(vx).argmax(1) == vy).sum().item()
        print("c", correct)
    print("correct", correct)
""",
    "loss rebound": """
total = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    loss = loss.item()
    total += loss
    print(f"{loss:.4f}")
""",
    "view of buffer": """
buf = torch.zeros(3); h = []
for i, (x, y) in enumerate(loader):
    STEP
    buf[i % 3] = loss.detach()
    v = buf[i % 3]
    h.append(v.item())
    h.append(buf[0].item())
    buf.zero_()
""",
    "checkpoint stores meter pickled": """
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
    if i and not i % 5:
        with open(f"c{i}.json", "w") as f:
            json.dump(vars(m), f)
""",
    "gan": """
D = nn.Linear(4, 1); G = nn.Linear(2, 4)
oD = torch.optim.SGD(D.parameters(), lr=0.1); oG = torch.optim.SGD(G.parameters(), lr=0.1)
for i, (x, y) in enumerate(loader):
    oD.zero_grad()
    z = torch.randn(5, 2)
    fake = G(z)
    real = D(x).mean(); D_x = real.item()
    fk = D(fake.detach()).mean(); D_G_z1 = fk.item()
    errD = fk - real
    errD.backward()
    oD.step()
    if i % 2 == 0:
        oG.zero_grad()
        errG = -D(fake).mean()
        errG.backward()
        D_G_z2 = errG.item()
        oG.step()
    print("[%d] D %.4f G %.4f %.4f/%.4f %.4f" % (i, errD.item(), errG.item(), D_x, D_G_z1, D_G_z2))
""",
    "rl": """
import random
random.seed(0)
eps_r = []
state = torch.zeros(4)
for step in range(40):
    p = torch.softmax(model(state), 0)
    a = torch.distributions.Categorical(p).sample()
    loss = -torch.log(p[a])
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    act = a.item()
    state = state + act * 0.1
    eps_r.append(act)
    if step % 10 == 9:
        print(sum(eps_r), loss.item())
""",
    "preallocated": """
import numpy as np
h = np.zeros(23, dtype=np.float32)
for i, (x, y) in enumerate(loader):
    STEP
    h[i] = loss.item()
""",
    "one line for": """
import torch.nn.functional as F
t = 0.0
def step(x, y):
    STEP
    return loss
for x, y in loader: loss = step(x, y); t += loss.item(); print(t)
""",
    "exception text carries state": """
t = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    t += loss.item()
    if i == 9: raise ValueError(f"{t}")
""",
    "numpy float32": """
import numpy as np
t = np.float32(0)
for i, (x, y) in enumerate(loader):
    STEP
    t += loss.detach().cpu().numpy()
    print(t, np.float32(loss.item()), np.mean([loss.item(), 1.0]))
""",
    "dtypes": """
h = []
for i, (x, y) in enumerate(loader):
    STEP
    for d in (torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.bool, torch.complex64):
        h.append(loss.detach().to(d).item())
""",
    "tensor percent": """
for i, (x, y) in enumerate(loader):
    STEP
    acc = (model(x).argmax(1) == y).float().mean()
    print("%.3f %.3f" % (acc, loss.item()))
    print("{:.3f} {}".format(acc, loss.item()))
""",
    "setattr property prints": """
class A:
    @property
    def v(self): return 1
    @v.setter
    def v(self, x): print("set", x)
a = A()
for i, (x, y) in enumerate(loader):
    a.v = i
    STEP
    print(loss.item())
""",
    "choice in call": """
h = []
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item() if i % 2 else float("nan"))
    h.append((loss if i % 2 else x.sum()).item())
""",
    "order in run names": """
n = 0
def bump():
    global n
    n += 1
    return n
for i, (x, y) in enumerate(loader):
    STEP
    print(n, loss.item())
    print(bump(), n)
""",
    "order in run containers": """
w = list(range(100))
for i, (x, y) in enumerate(loader):
    STEP
    print(len(w), w[-1], loss.item())
    print(w.pop(), len(w), w[-1])
    print(w)
""",
    "dataclass state": """
import dataclasses
@dataclasses.dataclass
class State:
    step: int = 0
    loss: float = 0.0
    hist: list = dataclasses.field(default_factory=list)
s = State()
for i, (x, y) in enumerate(loader):
    STEP
    s.step += 1
    s.loss += loss.item()
    s.hist.append((s.step, loss.item()))
    if s.step % 5 == 0: print(s)
""",
    "dictwriter": """
import csv
with open("log.csv", "w", newline="") as f:
    w = csv.DictWriter(f, fieldnames=["i", "loss", "lr"])
    w.writeheader()
    for i, (x, y) in enumerate(loader):
        STEP
        w.writerow({"i": i, "loss": loss.item(), "lr": optimizer.param_groups[0]["lr"]})
        if i % 5 == 0: f.flush()
""",
    "jsonl": """
import json
f = open("log.jsonl", "w")
for i, (x, y) in enumerate(loader):
    STEP
    f.write(json.dumps({"i": i, "loss": loss.item()}) + "\\n")
    print(json.dumps({"i": i, "loss": round(loss.item(), 4)}), file=f, flush=True)
f.close()
""",
    "savetxt each k": """
import numpy as np
h = []
for i, (x, y) in enumerate(loader):
    STEP
    h.append(loss.item())
    if i % 6 == 5:
        np.savetxt("h.txt", np.array(h))
        np.save(f"h{i}.npy", h)
""",
    "history reset": """
t, n = 0.0, 0
for i, (x, y) in enumerate(loader):
    STEP
    t += loss.item(); n += 1
    if (i + 1) % 5 == 0:
        print(f"[{i + 1}] {t / n:.3f}")
        t, n = 0.0, 0
""",
    "epoch loop inside function with returns": """
def run(limit):
    step = 0
    for epoch in range(3):
        tot = 0.0
        for x, y in loader:
            STEP
            tot += loss.item()
            step += 1
            print(epoch, step, f"{loss.item():.4f}")
            if step >= limit:
                return tot, step
        print("epoch", epoch, tot)
    return tot, step
r = run(31)
""",
    "nested function loop": """
def outer():
    hist = []
    def inner(k):
        nonlocal hist
        for i, (x, y) in enumerate(loader):
            STEP
            hist.append(loss.item() * k)
            if i > 5: break
        return len(hist)
    a = inner(1)
    b = inner(2)
    return a, b, hist
r = outer()
""",
    "recursion": """
def train(depth):
    t = 0.0
    for i, (x, y) in enumerate(loader):
        STEP
        t += loss.item()
        print(depth, loss.item())
        if i == 3 and depth < 2:
            t += train(depth + 1)
    return t
r = train(0)
""",
    "comp var shadows": """
for i, (x, y) in enumerate(loader):
    STEP
    print([i for i in range(2)], i, loss.item(), {i: 1 for i in "ab"})
""",
    "format dict": """
fmt = "{epoch} {loss:.3f}"
for i, (x, y) in enumerate(loader):
    STEP
    s = {"epoch": i}
    s["loss"] = loss.item()
    print(fmt.format(**s))
""",
    "while with continue": """
i = -1; t = 0.0
while i < 20:
    i += 1
    if i % 3 == 0: continue
    x, y = loader[i]
    STEP
    t += loss.item()
    print(i, t)
else:
    print("else", t)
""",
    "while flag": """
done = False; i = 0; t = 0.0
while not done:
    for x, y in loader:
        STEP
        t += loss.item()
        i += 1
        if i >= 30:
            done = True
            break
    print(i, t)
""",
    "while len": """
q = list(loader)
while len(q) > 3:
    x, y = q.pop()
    STEP
    print(len(q), loss.item())
""",
    "sync point reading global": """
best = {"loss": 1e9}
def report():
    print("best so far", best["loss"])
def main():
    for i, (x, y) in enumerate(loader):
        STEP
        best["loss"] = min(best["loss"], loss.item())
        if i % 6 == 0:
            report()
main()
""",
    "sys.exit in the middle": """
import sys
t = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    t += loss.item()
    print(i, t)
    if i == 11:
        sys.exit(f"stop {t:.3f}")
""",
    "unicode names": """
größe = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    größe += loss.item()
    print(f"größe={größe:.3f} – ✓")
""",
    "swap": """
prev = cur = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    prev, cur = cur, loss.item()
    print(cur - prev)
""",
    "print with objects": """
class O:
    def __init__(self): self.n = 0
    def __repr__(self): return f"O({self.n})"
o = O()
for i, (x, y) in enumerate(loader):
    o.n += 1
    STEP
    print(o, [o], {"o": o}, loss.item())
""",
    "scheduler get_last_lr": """
sched = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
for i, (x, y) in enumerate(loader):
    STEP
    print(sched.get_last_lr()[0], loss.item())
    sched.step()
    print(sched.get_last_lr(), optimizer.param_groups[0]["lr"], sched.last_epoch)
""",
    "read twice around in place": """
for i, (x, y) in enumerate(loader):
    STEP
    s = x.sum()
    print(s.item())
    s += 1
    print(s.item(), s.item())
    s.zero_(); print(s.item())
""",
    "loss divided after read": """
t = 0.0
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    v = loss.item()
    loss /= 2
    loss.backward()
    optimizer.step()
    t += v + loss.item()
    print(v)
""",
    "logger class of the file": """
class Logger:
    def __init__(self, path): self.f = open(path, "w"); self.rows = 0
    def log(self, **k):
        self.rows += 1
        self.f.write(str(sorted(k.items())) + "\\n")
        if self.rows % 4 == 0: print("rows", self.rows)
logger = Logger("l.txt")
for i, (x, y) in enumerate(loader):
    STEP
    logger.log(loss=loss.item(), i=i)
    if i % 5 == 0: print("i", i)
logger.f.close()
""",
    "random in print": """
import random
random.seed(1)
for i, (x, y) in enumerate(loader):
    if random.random() < 0.3: continue
    STEP
    print(random.choice(["a", "b"]), loss.item(), random.sample(range(5), 2))
""",
    "imported evaluator holds the model": {
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
    if i % 4 == 0:
        ev.run(i)
""",
    },
    "imported evaluate name": {
        "helper.py": """
class Ev:
    def __init__(self, m): self.m = m
    def run(self, i): print("eval", i, self.m.weight.sum().item())
def evaluate(m, i): print("eval", i, m.weight.sum().item())
""",
        "train.py": """
from helper import evaluate
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    if i % 4 == 0: evaluate(model, i)
""",
    },
    "module state behind": {
        "helper.py": """
model = None
def run(i): print('eval', i, model.weight.sum().item())
""",
        "train.py": """
import helper
helper.model = model
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())
    if i % 4 == 0: helper.run(i)
""",
    },
    "imported progress meter": {
        "helper.py": """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

class Progress:
    def __init__(self, n, meters, prefix=""): self.meters = meters; self.n = n
    def display(self, i): print(i, self.n, [m.avg for m in self.meters])
""",
        "train.py": """
from helper import Meter, Progress
a, b = Meter(), Meter()
progress = Progress(len(loader), [a, b], prefix="x")
for i, (x, y) in enumerate(loader):
    STEP
    a.update(loss.item(), x.size(0)); b.update(x.sum().item())
    if i % 4 == 0: progress.display(i)
""",
    },
    "a line into a file opened in each batch": """
for i, (x, y) in enumerate(loader):
    STEP
    with open("log.txt", "a") as f:
        print(i, loss.item(), file=f)
    if i % 5 == 0:
        with open("log.txt") as g:
            print(len(g.read()))
""",
    "log every generator": """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

class ML:
    def __init__(self): self.m = Meter()
    def update(self, **k):
        for v in k.values(): self.m.update(v)
    def log_every(self, it, n):
        for i, o in enumerate(it):
            yield o
            if i % n == 0: print(i, self.m.avg)
ml = ML()
for x, y in ml.log_every(loader, 4):
    STEP
    ml.update(loss=loss.item())
""",
    "dict of losses comp": """
hist = []
for i, (x, y) in enumerate(loader):
    STEP
    losses = {"a": loss, "b": loss * 2}
    hist.append({k: v.item() for k, v in losses.items()})
    losses.clear()
""",
    "a class that logs by a method of its own": """
class Meter:
    def __init__(self): self.sum = 0.0; self.count = 0
    def update(self, v, n=1): self.sum += v * n; self.count += n
    @property
    def avg(self): return self.sum / max(1, self.count)

class Trainer:
    def __init__(self): self.meters = {"loss": Meter(), "acc": Meter()}; self.step = 0
    def log(self, k, v): self.meters[k].update(v)
    def epoch(self):
        for x, y in loader:
            STEP
            self.log("loss", loss.item())
            self.meters["acc"].update(loss.item())
            self.step += 1
            if self.step % 5 == 0:
                print(self.step, {k: m.avg for k, m in self.meters.items()})
t = Trainer()
t.epoch(); t.epoch()
""",
    "a method called in the loop uses the sum": """
class Trainer:
    def __init__(self):
        self.total = 0.0
    def fit(self):
        for x, y in loader:
            STEP
            self.total += loss.item()
            self.report()
    def report(self):
        print(self.total)
Trainer().fit()
""",
    "a method looks at the sum by way of another": """
class Trainer:
    total = 0.0
    def fit(self):
        for x, y in loader:
            STEP
            self.total += loss.item()
            self.report()
    def report(self):
        self.show()
    def show(self):
        print(self.total)
Trainer().fit()
""",
}
