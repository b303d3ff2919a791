"""Loops in which something sees that a statement ran later, as engineers write them: none may be called safe.

Trainer classes, callbacks, hooks, dataclass state, generators, context managers, PPO, DPO, GAN and LLM pre-training.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.moves import Case

_LAST = "STEP\nstate.last = loss.item()  # later\n"
_PRINT = "STEP\nprint(i, loss.item())  # later\n"
_STATE = """
class State:
    last = 0.0
    step = 0
    losses = None

    def __init__(self):
        self.losses = []
"""

HOSTILE: Mapping[str, Case] = {
    # ------------------------------------------------------------------------------------------ callbacks and hooks
    "an event system of decorators": Case(
        code=_STATE
        + """
class Engine:
    def __init__(self):
        self.handlers = {}

    def on(self, event):
        def register(function):
            self.handlers.setdefault(event, []).append(function)
            return function
        return register

    def fire(self, event, *args):
        for handler in self.handlers.get(event, []):
            handler(*args)
""",
        before="""
state = State()
engine = Engine()

@engine.on("step")
def look(state):
    opt.param_groups[0]["lr"] *= 0.9 if state.last > 1 else 1.0
""",
        body=_LAST + "engine.fire('step', state)",
    ),
    "a callback by keyword": Case(
        code=_STATE + "class Loop:\n    def __init__(self, on_step=None):\n        self.on_step = on_step\n",
        before="state = State()\nloop = Loop(on_step=lambda: opt.zero_grad() if state.last > 1 else None)",
        body=_LAST + "loop.on_step()",
    ),
    "a callback in a dict": Case(
        code=_STATE,
        before="state = State()\nhooks = {'step': lambda: torch.set_num_threads(int(state.last))}",
        body=_LAST + "hooks['step']()",
    ),
    "a partial of a function": Case(
        code=_STATE + "def adapt(state, opt):\n    opt.param_groups[0]['lr'] = state.last\n",
        before="import functools\nstate = State()\nstep = functools.partial(adapt, state, opt)",
        body=_LAST + "step()",
    ),
    "a bound method that was stored": Case(
        code=_STATE + "class Reader:\n    def __init__(self, state):\n        self.state = state\n"
        "    def read(self):\n        return self.state.last\n",
        before="state = State()\nread = Reader(state).read",
        body=_LAST + "opt.param_groups[0]['lr'] = read()",
    ),
    "a method that setattr replaces": Case(
        code=_STATE + "class Hooked:\n    def after(self):\n        pass\n",
        before="state = State()\nhooked = Hooked()\nsetattr(hooked, 'after', lambda: torch.set_num_threads(int(state.last)))",
        body=_LAST + "hooked.after()",
    ),
    "a method that setattr replaces by a name in a variable": Case(
        code=_STATE + "class Hooked:\n    def after(self):\n        pass\n",
        before="state = State()\nhooked = Hooked()\nfor name in ('before', 'after'):\n"
        "    setattr(hooked, name, lambda: torch.set_num_threads(int(state.last)))",
        body=_LAST + "hooked.after()",
    ),
    "a method called by getattr": Case(
        code=_STATE + "class Own(State):\n    def on_step(self):\n        torch.set_num_threads(int(self.last))\n",
        before="state = Own()\nevent = 'step'",
        body=_LAST + "getattr(state, f'on_{event}')()",
    ),
    "a class attribute that is replaced": Case(
        code=_STATE + "class Hooked:\n    def after(self, state):\n        pass\n",
        before="state = State()\ndef look(self, state):\n    torch.set_num_threads(int(state.last))\nHooked.after = look\nhooked = Hooked()",
        body=_LAST + "hooked.after(state)",
    ),
    "a forward hook": Case(
        code=_STATE,
        before="state = State()\nmodel.register_forward_hook(lambda *args: torch.set_num_threads(int(state.last)))",
        body=_LAST,
    ),
    "a forward hook that prints": Case(
        before="def hook(module, args, output):\n    print('forward')\nmodel.layer.register_forward_hook(hook)",
        body=_PRINT,
    ),
    "a gradient hook that prints": Case(
        before="model.layer.weight.register_hook(lambda grad: print('grad', grad.shape))", body=_PRINT
    ),
    "an autograd function that prints": Case(
        code="""
class Loud(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        print("backward")
        return grad
""",
        body="loss = Loud.apply(model(x)).sum()\nloss.backward()\nopt.step()\nprint(loss.item())  # later",
    ),
    "a scheduler's function looks": Case(
        code=_STATE,
        before="state = State()\nscheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: state.last)",
        body=_LAST + "scheduler.step()",
    ),
    "an optimizer of the project prints": Case(
        code="class Loud(torch.optim.SGD):\n    def step(self, closure=None):\n        print('step')\n"
        "        return super().step(closure)\n",
        before="opt = Loud(model.parameters(), lr=0.1)",
        body=_PRINT,
    ),
    # ------------------------------------------------------------------------------------------------ data and loaders
    "a data set that prints": Case(
        code="class Loud(Data):\n    def __getitem__(self, index):\n        print('item', index)\n        return torch.randn(4), 1\n",
        over="DataLoader(Loud())",
        body=_PRINT,
    ),
    "a transform that prints": Case(
        code="class Augment:\n    def __call__(self, x):\n        print('augment')\n        return x\n"
        "class Images(Dataset):\n    def __init__(self, transform):\n        self.transform = transform\n"
        "    def __getitem__(self, index):\n        return self.transform(torch.randn(4)), 1\n",
        over="DataLoader(Images(Augment()))",
        body=_PRINT,
    ),
    "a sampler that looks": Case(
        code=_STATE
        + "class Hard(torch.utils.data.Sampler):\n    def __init__(self, state):\n        self.state = state\n"
        "    def __iter__(self):\n        for index in range(100):\n            if index > self.state.last:\n"
        "                yield index\n",
        before="state = State()",
        over="DataLoader(Data(), sampler=Hard(state))",
        body=_LAST,
    ),
    "a curriculum by the last loss": Case(
        code=_STATE + "def batches(loader, state):\n    for x, y in loader:\n        yield x * state.last, y\n",
        before="state = State()",
        over="batches(DataLoader(Data()), state)",
        body=_LAST,
    ),
    "a generator that prints": Case(
        code="def batches(loader):\n    for x, y in loader:\n        print('next')\n        yield x, y\n",
        over="batches(DataLoader(Data()))",
        body=_PRINT,
    ),
    "an iterator class that prints": Case(
        code="class Batches:\n    def __init__(self, loader):\n        self.loader = iter(loader)\n"
        "    def __iter__(self):\n        return self\n    def __next__(self):\n        print('next')\n"
        "        return next(self.loader)\n",
        over="Batches(DataLoader(Data()))",
        body=_PRINT,
    ),
    "a bar whose text the loop sets": Case(
        before="bar = tqdm(DataLoader(Data()), total=100)",
        over="bar",
        body="STEP\nbar.set_description(f'{loss.item()}')  # later",
    ),
    "a bar of a subclass": Case(
        code="class Bar(tqdm):\n    pass\n",
        before="bar = Bar(DataLoader(Data()))",
        over="bar",
        body="STEP\nbar.set_postfix(loss=loss.item())  # later",
    ),
    "a bar that closes in a with": Case(
        before="bar = tqdm(DataLoader(Data()))",
        over="bar",
        body="STEP\nbar.set_postfix_str(f'{loss.item():.3f}')  # later\nbar.update(0)  # later",
    ),
    # ---------------------------------------------------------------------------------------------------- shared state
    "a dataclass of state": Case(
        code="from dataclasses import dataclass, field\n\n@dataclass\nclass TrainState:\n    last: float = 0.0\n"
        "    history: list = field(default_factory=list)\n\n    @property\n    def worse(self):\n"
        "        return bool(self.history) and self.last > self.history[-1]\n",
        before="state = TrainState()",
        body="STEP\nstate.last = loss.item()  # later\nopt.param_groups[0]['lr'] *= 0.5 if state.worse else 1.0",
    ),
    "a list that another object holds": Case(
        code="class Early:\n    def __init__(self, history):\n        self.history = history\n"
        "    def stop(self):\n        return len(self.history) > 3 and self.history[-1] > self.history[-2]\n",
        before="losses = []\nearly = Early(losses)",
        body="STEP\nlosses.append(loss.item())  # later\nif early.stop():\n    opt.zero_grad()",
    ),
    "a list under another name": Case(
        before="losses = []\nrecent = losses",
        body="STEP\nlosses.append(loss.item())  # later\nif len(recent) > 10:\n    opt.zero_grad()",
    ),
    "a list in a container": Case(
        before="losses = []\nlogs = {'loss': losses}",
        body="STEP\nlosses.append(loss.item())  # later\nopt.param_groups[0]['lr'] = len(logs['loss'])",
    ),
    "a dict that a function returned": Case(
        code="STORE = {'loss': 0.0}\ndef store():\n    return STORE\ndef last():\n    return STORE['loss']\n",
        before="stats = store()",
        body="STEP\nstats['loss'] = loss.item()  # later\nopt.param_groups[0]['lr'] = last()",
    ),
    "a closure over the sum": Case(
        before="total = 0.0\ndef lr():\n    return 1.0 / (1.0 + total)",
        body="STEP\ntotal += loss.item()  # later\nopt.param_groups[0]['lr'] = lr()",
    ),
    "a global that a function reads": Case(
        code="LAST = [0.0]\ndef adapt(opt):\n    opt.param_groups[0]['lr'] = LAST[-1]\n",
        body="STEP\nLAST.append(loss.item())  # later\nadapt(opt)",
    ),
    "a class attribute": Case(
        code="class Registry:\n    losses = []\n    @classmethod\n    def last(cls):\n        return cls.losses[-1]\n",
        body="STEP\nRegistry.losses.append(loss.item())  # later\nopt.param_groups[0]['lr'] = Registry.last()",
    ),
    "a singleton": Case(
        code="class Log:\n    one = None\n    def __new__(cls):\n        if cls.one is None:\n            cls.one = super().__new__(cls)\n"
        "            cls.one.values = []\n        return cls.one\n",
        before="first, second = Log(), Log()",
        body="STEP\nfirst.values.append(loss.item())  # later\nopt.param_groups[0]['lr'] = second.values[-1]",
    ),
    "an object behind __getattr__": Case(
        code=_STATE + "class Proxy:\n    def __init__(self, state):\n        self.__dict__['_state'] = state\n"
        "    def __getattr__(self, name):\n        return getattr(self._state, name)\n",
        before="state = State()\nproxy = Proxy(state)",
        body=_LAST + "opt.param_groups[0]['lr'] = proxy.last",
    ),
    "a property that looks": Case(
        code=_STATE + "class View:\n    def __init__(self, state):\n        self.state = state\n    @property\n"
        "    def bad(self):\n        return self.state.last > 1\n",
        before="state = State()\nview = View(state)",
        body=_LAST + "if view.bad:\n    opt.zero_grad()",
    ),
    "an attribute read by vars": Case(
        code=_STATE, before="state = State()", body=_LAST + "torch.save(vars(state), 'state.pt')"
    ),
    "a checkpoint of the losses": Case(
        before="losses = []",
        body="STEP\nlosses.append(loss.item())  # later\nif i % 10 == 0:\n    torch.save({'losses': losses}, 'a.pt')",
    ),
    "an early stop by the mean": Case(
        code="class Meter:\n    def __init__(self):\n        self.sum, self.count = 0.0, 0\n    def update(self, value):\n"
        "        self.sum += value\n        self.count += 1\n    @property\n    def avg(self):\n"
        "        return self.sum / max(1, self.count)\n",
        before="meter = Meter()",
        body="STEP\nmeter.update(loss.item())  # later\nif meter.avg < 0.1:\n    opt.zero_grad()",
    ),
    "all names looked up by text": Case(
        before="total = 0.0", body="STEP\ntotal += loss.item()  # later\nprint(eval('total'))"
    ),
    "locals in a checkpoint": Case(
        before="total = 0.0", body="STEP\ntotal += loss.item()  # later\ntorch.save(dict(locals()), 'all.pt')"
    ),
    # --------------------------------------------------------------------------------------------------- lines and files
    "a model that prints": Case(
        code="class Loud(Net):\n    def forward(self, x):\n        print('forward')\n        return super().forward(x)\n",
        before="model = Loud()",
        body=_PRINT,
    ),
    "a wrapped model that prints": Case(
        code="class Loud(Net):\n    def forward(self, x):\n        print('forward')\n        return super().forward(x)\n",
        before="model = torch.nn.DataParallel(Loud())",
        body=_PRINT,
    ),
    "a compiled model that prints": Case(
        code="class Loud(Net):\n    def forward(self, x):\n        print('forward')\n        return super().forward(x)\n",
        before="model = torch.compile(Loud())",
        body=_PRINT,
    ),
    "a layer in a sequence that prints": Case(
        code="class Loud(nn.Module):\n    def forward(self, x):\n        print('forward')\n        return x\n",
        before="model = nn.Sequential(nn.Linear(4, 2), Loud())",
        body=_PRINT,
    ),
    "a loss class that warns": Case(
        code="import warnings\nclass Loss(nn.Module):\n    def forward(self, output, y):\n        warnings.warn('strange')\n"
        "        return output.sum()\n",
        before="criterion = Loss()",
        body="loss = criterion(model(x), y)\nloss.backward()\nopt.step()\nprint(loss.item())  # later",
    ),
    "a logger's handler of the project": Case(
        code="import logging\nclass Screen(logging.Handler):\n    def emit(self, record):\n        print(record)\n",
        before="logger = logging.getLogger('a')\nlogger.addHandler(Screen())",
        body="STEP\nlogger.info('step %d', i)\nprint(loss.item())  # later",
    ),
    "a line of another meter": Case(
        code="class Timer:\n    def tick(self):\n        print('tick')\n",
        before="timer = Timer()",
        body=_PRINT + "timer.tick()",
    ),
    "a redirected screen": Case(
        before="import contextlib, io",
        body="STEP\nwith contextlib.redirect_stdout(io.StringIO()):\n    print(loss.item())  # later",
    ),
    "a file that the loop reads": Case(
        before="import os\nlog = open('log.txt', 'w')",
        body="STEP\nlog.write(str(loss.item()))  # later\nif os.path.getsize('log.txt') > 100:\n    opt.zero_grad()",
    ),
    "a file that closes in the batch": Case(
        body="STEP\nwith open('log.txt', 'a') as log:\n    log.write(str(loss.item()))  # later"
    ),
    "a program that prints": Case(before="import subprocess", body=_PRINT + "subprocess.run(['nvidia-smi'])"),
    "a screen that was replaced": Case(
        code="import sys\nclass Tee:\n    def __init__(self, state):\n        self.state = state\n    def write(self, text):\n"
        "        self.state.append(text)\n    def flush(self):\n        pass\n",
        before="lines = []\nsys.stdout = Tee(lines)",
        body=_PRINT + "if len(lines) > 100:\n    opt.zero_grad()",
    ),
    "a print that was replaced": Case(
        code="import builtins\nlines = []\nbuiltins.print = lambda *args: lines.append(args)\n",
        body=_PRINT + "if len(lines) > 100:\n    opt.zero_grad()",
    ),
    "wandb written elsewhere in the batch": Case(
        before="import wandb", body="STEP\nwandb.log({'loss': loss.item()})  # later\nwandb.log({'step': i})"
    ),
    # ------------------------------------------------------------------------------------------ moments, ranks, chance
    "a meter that reads a clock": Case(
        code="class Speed:\n    def __init__(self):\n        self.start = time.time()\n    def update(self, value):\n"
        "        self.speed = value / (time.time() - self.start)\n",
        before="speed = Speed()",
        body="STEP\nspeed.update(loss.item())  # later",
    ),
    "a meter that meets other ranks": Case(
        code="import torch.distributed as dist\nclass Synced:\n    def update(self, value):\n        t = torch.tensor(value)\n"
        "        dist.all_reduce(t)\n        self.value = t\n",
        before="meter = Synced()",
        body="STEP\nmeter.update(loss.item())  # later",
    ),
    "a log that draws random numbers": Case(
        code="import random\nclass Sampled:\n    def add(self, value):\n        if random.random() < 0.1:\n            self.value = value\n",
        before="log = Sampled()",
        body="STEP\nlog.add(loss.item())  # later",
    ),
    "a duration in a meter": Case(
        before="meters = []\nend = time.time()",
        body="STEP\nmeters.append(time.time() - end)\nend = time.time()\nprint(loss.item())  # later",
        after="print(sum(meters) / len(meters))",
    ),
    "tokens per second": Case(
        before="t0 = time.perf_counter()",
        body="STEP\nt1 = time.perf_counter()\nspeed = 4096 / (t1 - t0)\nt0 = t1\n"
        "print(f'{loss.item():.3f} {speed:.0f}')  # later",
    ),
    "a signal handler that saves": Case(
        code="import signal\n",
        before="losses = []\ndef save(signum, frame):\n    torch.save(losses, 'losses.pt')\nsignal.signal(signal.SIGTERM, save)",
        body="STEP\nlosses.append(loss.item())  # later",
    ),
    "a thread that looks": Case(
        code="import threading\n",
        before="losses = []\ndef watch():\n    while True:\n        print(len(losses))\nthreading.Thread(target=watch, daemon=True).start()",
        body="STEP\nlosses.append(loss.item())  # later",
    ),
    # ---------------------------------------------------------------------------------------- GAN, PPO, DPO, pre-training
    "a GAN that balances by the last losses": Case(
        before="ratio = 1.0\nlast = {'d': 0.0, 'g': 0.0}",
        body="STEP\nlast['d'] = loss.item()  # later\nratio = last['d'] / (last['g'] + 1)\nopt.param_groups[0]['lr'] = ratio",
    ),
    "PPO that stops by the divergence": Case(
        code="class Stats:\n    def __init__(self):\n        self.kl = []\n    def early(self, target):\n"
        "        return bool(self.kl) and self.kl[-1] > target\n",
        before="stats = Stats()",
        body="STEP\nstats.kl.append(loss.item())  # later\nif stats.early(0.01):\n    opt.zero_grad()",
    ),
    "PPO with an adaptive coefficient": Case(
        code="class Controller:\n    def __init__(self):\n        self.value = 0.2\n    def update(self, kl):\n        self.value *= 1 + kl\n",
        before="kl = Controller()",
        body="loss = model(x).sum() * kl.value\nloss.backward()\nopt.step()\nkl.update(loss.item())  # later",
    ),
    "DPO metrics that a trainer keeps": Case(
        code="from collections import defaultdict\nclass Trainer:\n    def __init__(self):\n        self._metrics = defaultdict(list)\n"
        "    def store(self, name, value):\n        self._metrics[name].append(value)\n    def flush(self):\n"
        "        print({name: sum(values) for name, values in self._metrics.items()})\n        self._metrics.clear()\n",
        before="trainer = Trainer()",
        body="STEP\ntrainer.store('reward', loss.item())  # later\nif i % 10 == 0:\n    trainer.flush()",
    ),
    "pre-training that skips by the last loss": Case(
        before="ema = None",
        body="STEP\nema = loss.item() if ema is None else 0.9 * ema + 0.1 * loss.item()  # later\n"
        "if ema is not None and ema > 10:\n    opt.zero_grad()",
    ),
    "gradient accumulation that resets the sum": Case(
        before="micro = 0.0",
        body="STEP\nmicro += loss.item()  # later\nif (i + 1) % 4 == 0:\n    opt.step()\n    micro = 0.0",
    ),
    "a trainer that hands itself to its callbacks": Case(
        code="""
class Callback:
    def on_step_end(self, trainer):
        pass

class Stop(Callback):
    def on_step_end(self, trainer):
        trainer.should_stop = trainer.last > 10

class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.last, self.should_stop = 0.0, False

    def call(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)
""",
        before="state = Trainer([Stop()])",
        body=_LAST + "state.call('on_step_end')\nif state.should_stop:\n    opt.zero_grad()",
    ),
    # ------------------------------------------------------------------------------------------------- what is not known
    "a callback of an unknown package": Case(
        code=_STATE + "import somewhere\n",
        before="state = State()\ncallback = somewhere.Callback(state)",
        body=_LAST + "callback.step()",
    ),
    "a model of an unknown package": Case(code="import somewhere\n", before="model = somewhere.Model()", body=_PRINT),
    "a function of an unknown package with the list": Case(
        code="import somewhere\n",
        before="losses = []\nsomewhere.watch(losses)",
        body="STEP\nlosses.append(loss.item())  # later\nsomewhere.step()",
    ),
    "a decorator of an unknown package": Case(
        code="import somewhere\n@somewhere.traced\ndef forward(model, x):\n    return model(x)\n",
        body="loss = forward(model, x).sum()\nloss.backward()\nopt.step()\nprint(loss.item())  # later",
    ),
    "an unknown logger": Case(
        code="import somewhere\n",
        before="log = somewhere.Logger()",
        body="STEP\nlog.scalar('loss', loss.item())  # later",
    ),
    "code run from a file": Case(
        before="total = 0.0", body="STEP\ntotal += loss.item()  # later\nexec(open('hook.py').read())"
    ),
}
