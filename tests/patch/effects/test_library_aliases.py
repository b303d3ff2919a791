"""Objects that come back out of a library by another name: whoever has that name has the object."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.library_objects import CODE, object_reasons
from tests.support.moves import SURROUNDINGS, Case, asked, one_file

LISTS = {
    # ------------------------------------------------------------------------------------ what constructors hold
    "a namespace of a parser": ("ns = argparse.Namespace(hist=hist)", "ns.hist"),
    "a namespace, by a call of vars": ("ns = argparse.Namespace(hist=hist)", "vars(ns)['hist']"),
    "a namespace that a parser fills": (
        "ns = argparse.ArgumentParser().parse_args([], argparse.Namespace(hist=hist))",
        "ns.hist",
    ),
    "a default of a parser": (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--hist', default=hist)\nns = parser.parse_args([])",
        "ns.hist",
    ),
    "a replaced dataclass": ("cfg = dataclasses.replace(Config(), hist=hist)", "cfg.hist"),
    "a dataclass replaced without its list": ("cfg = dataclasses.replace(Config(hist), rate=0.2)", "cfg.hist"),
    "a class that is made of a text": (
        "Made = dataclasses.make_dataclass('Made', ['hist'])\ncfg = Made(hist)",
        "cfg.hist",
    ),
    "a partial function": ("count = functools.partial(len, hist)", "range(count())"),
    "an argument of a partial function": ("count = functools.partial(len, hist)", "count.args[0]"),
    "a keyword of a partial function": ("f = functools.partial(same, x=hist)", "f.keywords['x']"),
    "a deque of lists": ("kept = collections.deque([hist], maxlen=3)", "kept[0]"),
    "an ordered dict": ("kept = collections.OrderedDict(hist=hist)", "kept['hist']"),
    "a frame": ("frame = pd.DataFrame({'a': [1]})\nframe.attrs['hist'] = hist", "frame.attrs['hist']"),
    "a series of objects": ("kept = pd.Series([hist])", "kept[0]"),
    "an array of objects": ("kept = np.array([hist, None], dtype=object)", "kept[0]"),
    "an attribute of an optimizer": ("opt.hist = hist", "opt.hist"),
    "an attribute of settings": ("ns = argparse.ArgumentParser().parse_args([])\nns.hist = hist", "ns.hist"),
    "an attribute of settings, by its text": (
        "ns = argparse.ArgumentParser().parse_args([])\nsetattr(ns, 'hist', hist)",
        "getattr(ns, 'hist')",
    ),
    "an element of settings": ("ns = argparse.ArgumentParser().parse_args([])\nvars(ns)['hist'] = hist", "ns.hist"),
    # ------------------------------------------------------------------------------------ functions that look up
    "an item getter": ("cfg = {'hist': hist}\nget = operator.itemgetter('hist')", "get(cfg)"),
    "two items": ("cfg = {'hist': hist, 'n': 0}", "operator.itemgetter('hist', 'n')(cfg)[0]"),
    "the attributes of an object": ("cfg = Config(hist)", "vars(cfg)['hist']"),
    "the dict of an object": ("cfg = Config(hist)", "cfg.__dict__['hist']"),
    "an attribute by its text": ("cfg = Config(hist)", "getattr(cfg, 'hi' + 'st')"),
    "an attribute with a default": ("cfg = Config()", "getattr(cfg, 'none', hist)"),
    "what a dict has": ("cfg = {'hist': hist}", "cfg.get('hist')"),
    "the default of a dict": ("cfg = {}", "cfg.get('hist', hist)"),
    "what a dict is given": ("cfg = {}\nback = cfg.setdefault('hist', hist)", "back"),
    "an item of a dict": ("cfg = {'hist': hist}\nkey, back = cfg.popitem()", "back"),
    "a method of a dict": ("cfg = {'hist': hist}\nget = cfg.get", "get('hist')"),
    "the longest": ("", "max([hist, []], key=len)"),
    "the first of some that are sorted": ("", "sorted([hist], key=len)[0]"),
    "the largest of a heap": ("", "heapq.nlargest(1, [hist])[0]"),
    "one of several": ("", "random.choice([hist])"),
    "the sum of functions": ("", "functools.reduce(lambda a, b: a, [hist, []])"),
    "a copy of a dict": ("cfg = copy.copy({'hist': hist})", "cfg['hist']"),
    "a dict of a dict": ("cfg = {**dict(hist=hist)}", "cfg['hist']"),
    "a copied object": ("cfg = copy.copy(Config(hist))", "cfg.hist"),
    "the class of an object": ("class Run:\n    kept = hist\nrun = Run()", "type(run).kept"),
    "a cached function": ("@functools.lru_cache\ndef kept():\n    return hist", "kept()"),
    # ------------------------------------------------------------------------------------ iterators
    "an iterator": ("it = iter(hist)", "[*it]"),
    "an iterator that is copied": ("one, two = itertools.tee(hist)", "[*two]"),
    "a chain": ("it = itertools.chain(hist, [])", "[*it]"),
    "pairs": ("it = zip(hist, itertools.count())", "[*it]"),
    "a map": ("it = map(float, hist)", "[*it]"),
    "a map over a list of lists": ("it = map(same, [hist])", "next(it)"),
    "a filter": ("it = filter(None, hist)", "[*it]"),
    "a cycle": ("it = itertools.cycle([hist])", "next(it)"),
    "repeated": ("it = itertools.repeat(hist)", "next(it)"),
    "groups": ("it = itertools.groupby([hist], len)", "next(it)[1]"),
    "reversed": ("it = reversed([hist])", "next(it)"),
    "a slice of pairs": ("it = itertools.islice(enumerate([hist]), 1)", "next(it)[1]"),
    "elements": ("kept = collections.Counter()", "list(map(operator.itemgetter(1), [(0, hist)]))[0]"),
    # ------------------------------------------------------------------------------------ bound methods
    "a method that looks": ("size = hist.__len__", "range(size())"),
    "a method that looks, in a partial": ("get = functools.partial(hist.__getitem__, 0)", "range(int(get()))"),
    "a method in a map": ("got = map(hist.__getitem__, itertools.count())", "range(int(next(got)))"),
    "a method in a dict": ("calls = {'size': hist.__len__}", "range(calls['size']())"),
    # ------------------------------------------------------------------------------------ parts of what libraries made
    "the data of a loader": (
        "class Kept(Data):\n    def __init__(self):\n        self.hist = hist\nloader = DataLoader(Kept())",
        "loader.dataset.hist",
    ),
    "the data of a part of some data": (
        "class Kept(Data):\n    def __init__(self):\n        self.hist = hist\n"
        "part = torch.utils.data.Subset(Kept(), [0])",
        "part.dataset.hist",
    ),
    "a model that is wrapped": (
        "class Kept(Net):\n    pass\ninner = Kept()\ninner.hist = hist\nwrapped = nn.DataParallel(inner)",
        "wrapped.module.hist",
    ),
    "a part of a sequence": (
        "class Kept(Net):\n    pass\ninner = Kept()\ninner.hist = hist\nwrapped = nn.Sequential(inner)",
        "wrapped[0].hist",
    ),
    "a part of a list of modules": (
        "class Kept(Net):\n    pass\ninner = Kept()\ninner.hist = hist\nparts = nn.ModuleList([inner])",
        "parts[0].hist",
    ),
    "what a bar runs over": ("bar = tqdm(hist)", "bar.iterable"),
    "the length of a bar": ("bar = tqdm(hist)", "range(len(bar))"),
    "the function of a scheduler": (
        "class Rate:\n    def __init__(self):\n        self.hist = hist\n    def __call__(self, epoch):\n"
        "        return 1.0\n"
        "sched = torch.optim.lr_scheduler.LambdaLR(opt, Rate())",
        "sched.lr_lambdas[0].hist",
    ),
}
OBJECTS = {
    "a namespace of a parser": ("ns = argparse.Namespace(state=state)", "ns.state"),
    "a replaced dataclass": ("cfg = dataclasses.replace(Config(), state=state)", "cfg.state"),
    "an item getter": ("cfg = {'state': state}", "operator.itemgetter('state')(cfg)"),
    "an item of vars": ("cfg = Config(state=state)", "vars(cfg)['state']"),
    "an argument of a partial function": ("f = functools.partial(same, state)", "f.args[0]"),
    "what a partial function gives": ("f = functools.partial(same, state)", "f()"),
    "one of several": ("", "random.choice([state])"),
    "an element of an array": ("kept = np.array([state], dtype=object)", "kept[0]"),
    "a fallback": ("ns = argparse.Namespace()", "getattr(ns, 'state', state)"),
    "the next of an iterator": ("it = itertools.cycle([state])", "next(it)"),
    "what a map gives": ("it = map(same, itertools.repeat(state))", "next(it)"),
    "what a default is": ("cfg = {}", "cfg.setdefault('state', state)"),
    "a default of a parser": (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--state', default=state)\nns = parser.parse_args([])",
        "ns.state",
    ),
    "a column": ("kept = pd.Series([state])", "kept.iloc[0]"),
    "a cell": ("kept = pd.DataFrame({'a': [state]})", "kept.at[0, 'a']"),
    "a reader": ("kept = Config(state=state)", "operator.itemgetter('state')(vars(kept))"),
    "the smallest": ("", "min([state, State()], key=lambda one: one.last)"),
    "a part of a loader": (
        "class Kept(Data):\n    def __init__(self):\n        self.state = state\nloader = DataLoader(Kept())",
        "loader.dataset.state",
    ),
    "a part of a wrapped model": (
        "class Kept(Net):\n    pass\ninner = Kept()\ninner.state = state\nwrapped = nn.DataParallel(inner)",
        "wrapped.module.state",
    ),
}
ARRAYS = {
    name: ("", text)
    for name, text in {
        "split": "np.split(arr, 2)[0]",
        "array_split": "np.array_split(arr, 2)[0]",
        "flip": "np.flip(arr)",
        "flipud": "np.flipud(arr)",
        "expand_dims": "np.expand_dims(arr, 0)[0]",
        "atleast_2d": "np.atleast_2d(arr)[0]",
        "broadcast_to": "np.broadcast_to(arr, (2, 100))[0]",
        "moveaxis": "np.moveaxis(arr, 0, 0)",
        "swapaxes": "np.swapaxes(arr, 0, 0)",
        "diagonal": "np.diagonal(np.reshape(arr, (10, 10)))",
        "asanyarray": "np.asanyarray(arr)",
        "ascontiguousarray": "np.ascontiguousarray(arr)",
        "array without a copy": "np.array(arr, copy=False)",
        "rot90": "np.rot90(np.reshape(arr, (10, 10)))[0]",
        "real": "np.real(arr)",
        "nan_to_num": "np.nan_to_num(arr, copy=False)",
        "hsplit": "np.hsplit(arr, 2)[0]",
        "strides": "np.lib.stride_tricks.as_strided(arr)",
        "windows": "np.lib.stride_tricks.sliding_window_view(arr, 10)[0]",
        "masked": "np.ma.array(arr, copy=False)",
        "require": "np.require(arr)",
        "a transposed array": "arr.T",
        "a slice": "arr[10:]",
        "a flat iterator": "arr.flat",
        "a view": "arr.view()",
        "a series": "pd.Series(arr, copy=False)",
        "a frame": "pd.DataFrame(arr, copy=False)[0]",
        "values of a series": "pd.Series(arr, copy=False).values",
        "a tensor": "torch.from_numpy(arr)",
        "a part of a tensor": "torch.from_numpy(arr)[1:]",
        "a tensor, by another function": "torch.as_tensor(arr)",
        "an image": "PIL.Image.fromarray(arr)",
        "a module": "nn.Flatten(0)(torch.from_numpy(arr))",
        "an identity": "nn.Identity()(torch.from_numpy(arr))",
        "moved axes": "torch.moveaxis(torch.from_numpy(arr), 0, 0)",
        "broadcast tensors": "torch.broadcast_tensors(torch.from_numpy(arr))[0]",
        "dropout of nothing": "F.dropout(torch.from_numpy(arr), 0.5, False)",
    }.items()
}


def kept_early(names: dict[str, tuple[str, str]]) -> list[tuple[str, bool]]:
    """Each name as the loop uses it, and bound before the loop, where what is bound then is no copy."""
    early = [(name, True) for name, (_, seen) in names.items() if not seen.startswith(("[*", "range("))]
    return [*early, *((name, False) for name in names)]


@pytest.mark.slow
@pytest.mark.parametrize("around", ["function", "module"])
@pytest.mark.parametrize(("name", "early"), kept_early(LISTS))
def test_a_list_is_seen_by_its_other_name(name: str, early: bool, around: str) -> None:
    before, seen = LISTS[name]
    before, used = (f"{before}\nother = {seen}", "other") if early else (before, seen)
    stays = f"opt.param_groups[0]['lr'] = 0.1 / (1 + len({used}))"
    assert object_reasons(f"hist = []\n{before}", "hist.append(loss.item())", stays, around)


@pytest.mark.parametrize(("name", "early"), kept_early(OBJECTS))
def test_an_object_is_seen_by_its_other_name(name: str, early: bool) -> None:
    before, seen = OBJECTS[name]
    before, used = (f"{before}\nother = {seen}", "other") if early else (before, seen)
    stays = f"opt.param_groups[0]['lr'] = {used}.last"
    assert object_reasons(f"state = State()\n{before}", "state.last = loss.item()", stays)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_changed_by_its_other_name(name: str) -> None:
    before, seen = OBJECTS[name]
    before = f"state = State()\n{before}\nother = {seen}"
    assert object_reasons(before, "other.last = loss.item()", "opt.param_groups[0]['lr'] = state.last")


@pytest.mark.parametrize(("name", "early"), kept_early(ARRAYS))
def test_an_array_is_seen_by_its_other_name(name: str, early: bool) -> None:
    seen = ARRAYS[name][1]
    before, used = (f"other = {seen}", "other") if early else ("", seen)
    stays = f"opt.param_groups[0]['lr'] = float({used}[0])"
    assert object_reasons(f"arr = np.zeros(100)\n{before}", "arr[i] = loss.item()", stays)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_changed_by_its_other_name(name: str) -> None:
    before = f"arr = np.zeros(100)\nother = {ARRAYS[name][1]}"
    assert object_reasons(before, "other[i] = loss.item()", "opt.param_groups[0]['lr'] = float(arr[0])")


METER = """
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n
"""
PARSER = "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\n"
PARSED = PARSER + "args = parser.parse_args()"
PLAIN_LOOPS = {
    "a setting on the line": Case("STEP\nprint(i, args.lr, loss.item())  # later", before=PARSED),
    "a setting that counts": Case("STEP\nargs.step += 1\nprint(args.lr, loss.item())  # later", before=PARSED),
    "settings as a dict": Case(
        "STEP\nprint(settings['lr'], loss.item())  # later", before=PARSED + "\nsettings = vars(args)"
    ),
    "settings of a type of the project": Case(
        "STEP\nif i % args.every == 0:  # later\n    print(loss.item())",
        code="def positive(text):\n    if int(text) < 1:\n        raise ValueError(text)\n    return int(text)\n",
        before=PARSER + "parser.add_argument('--every', type=positive, default=10)\nargs = parser.parse_args()",
    ),
    "settings that are copied": Case(
        "STEP\nprint(cfg.rate, loss.item())  # later", before="cfg = dataclasses.replace(Config(), rate=0.2)"
    ),
    "settings that are written down": Case(
        "STEP\nprint(loss.item())  # later",
        before=PARSED + "\nwith open('args.json', 'w') as f:\n    json.dump(vars(args), f)",
    ),
    "settings for a tracker": Case(
        "STEP\nwandb.log({'loss': loss.item(), 'lr': args.lr})  # later",
        before=PARSED + "\nimport wandb\nwandb.init(config=vars(args))",
    ),
    "the norm of the gradients": Case(
        "opt.zero_grad()\nloss = F.cross_entropy(model(x), y)\nloss.backward()\n"
        "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nopt.step()\n"
        "print(loss.item(), norm.item())  # later",
    ),
    "labels that are filled again": Case(
        "label.fill_(1.0)\nSTEP\nerr = criterion(model(x).squeeze(), label)\nlabel.fill_(0.0)\n"
        "print(err.item())  # later",
        before="criterion = nn.BCELoss()\nlabel = torch.full((4,), 1.0)",
    ),
    "labels that are filled again, by a function": Case(
        "label.fill_(1.0)\nSTEP\nerr = F.binary_cross_entropy(model(x), label)\nlabel.fill_(0.0)\n"
        "print(err.item())  # later",
        before="label = torch.full((4,), 1.0)",
    ),
    "a module that gives a view": Case(
        "flat = nn.Flatten()(x)\nSTEP\nlosses.append(loss.item())  # later", before="losses = []"
    ),
    "a window": Case(
        "STEP\nwindow.append(loss.item())  # later\nprint(sum(window) / len(window))  # later",
        before="window = collections.deque(maxlen=20)",
    ),
    "the mean of the last": Case(
        "STEP\nlosses.append(loss.item())  # later\nif i % 10 == 0:  # later\n    print(np.mean(losses[-10:]))",
        before="losses = []",
    ),
    "a path": Case(
        "STEP\nprint(loss.item())  # later\nif i % 10 == 0:\n    torch.save(model.state_dict(), out / f'{i}.pt')",
        before="out = pathlib.Path('out')",
    ),
    "data of arrays": Case(
        "STEP\nmeter.update(loss.item(), x.size(0))  # later",
        code=METER + "class Rows(Dataset):\n    def __init__(self, rows):\n        self.rows = rows\n"
        "    def __len__(self):\n        return len(self.rows)\n"
        "    def __getitem__(self, index):\n        return torch.from_numpy(np.array(self.rows[index])), 1\n",
        before="meter = Meter()\nrows = [[1.0, 2.0, 3.0, 4.0]] * 20",
        over="DataLoader(Rows(rows))",
    ),
    "data of a frame": Case(
        "STEP\nmeter.update(loss.item(), x.size(0))  # later",
        code=METER,
        before="meter = Meter()\nframe = pd.read_csv('rows.csv')\nxs = torch.tensor(frame['x'].values)\n"
        "data = torch.utils.data.TensorDataset(xs, xs)",
        over="DataLoader(data)",
    ),
    "data in two parts": Case(
        "STEP\nlosses.append(loss.item())  # later",
        before="losses = []\narr = np.zeros((100, 4))\nfirst_part, second = np.split(arr, 2)\n"
        "data = torch.utils.data.TensorDataset(torch.from_numpy(first_part))",
        over="DataLoader(data)",
    ),
    "data that is sorted": Case(
        "STEP\nlosses.append(loss.item())  # later",
        before="losses = []\nrows = sorted([(1, 2.0), (0, 3.0)], key=operator.itemgetter(0))",
        over="DataLoader(rows)",
    ),
    "batches for ever": Case(
        "x, y = next(batches)\nSTEP\nprint(i, loss.item())  # later",
        before="batches = itertools.cycle(DataLoader(Data()))",
        over="range(100)",
        target="i, n",
    ),
    "batches of an iterator": Case(
        "x, y = next(batches)\nSTEP\nprint(i, loss.item())  # later",
        before="batches = iter(DataLoader(Data()))",
        over="range(100)",
        target="i, n",
    ),
    "two loaders": Case(
        "STEP\nprint(i, loss.item())  # later",
        over="zip(DataLoader(Data()), DataLoader(Data()))",
        target="i, ((x, y), (u, v))",
    ),
    "a choice in each batch": Case(
        "x = x * random.choice([0.5, 1.0])\nSTEP\nlosses.append(loss.item())  # later", before="losses = []"
    ),
    "an order of its own": Case(
        "perm = rng.permutation(4)\nx = x[perm]\nSTEP\nlosses.append(loss.item())  # later",
        before="losses = []\nrng = np.random.RandomState(0)",
    ),
    "a copy of the model": Case(
        "STEP\nprint(loss.item())  # later\nwith torch.no_grad():\n"
        "    for p, q in zip(model.parameters(), copied.parameters()):\n        q.mul_(0.9).add_(p, alpha=0.1)",
        before="copied = copy.deepcopy(model)",
    ),
    "a function for the rate": Case(
        "STEP\nsched.step()\nprint(loss.item(), sched.get_last_lr()[0])  # later",
        code="def warm(steps, step):\n    return min(1.0, step / steps)\n",
        before="sched = torch.optim.lr_scheduler.LambdaLR(opt, functools.partial(warm, 100))",
    ),
    "a function that puts batches together": Case(
        "STEP\nlosses.append(loss.item())  # later",
        code="def collate(pad, rows):\n    xs = [torch.tensor(row) for row, _ in rows]\n"
        "    return torch.nn.utils.rnn.pad_sequence(xs, padding_value=pad), torch.tensor([y for _, y in rows])\n",
        before="losses = []",
        over="DataLoader(Data(), collate_fn=functools.partial(collate, 0))",
    ),
    "counts of classes": Case(
        "STEP\ncounts.update(y.tolist())\nlosses.append(loss.item())  # later",
        before="losses, counts = [], collections.Counter()",
    ),
    "a scaled loss": Case(
        "opt.zero_grad()\nloss = F.cross_entropy(model(x), y)\nscaler.scale(loss).backward()\nscaler.unscale_(opt)\n"
        "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(opt)\nscaler.update()\n"
        "print(loss.item(), norm.item())  # later",
        before="scaler = torch.amp.GradScaler()",
    ),
    "a sum of several losses": Case(
        "opt.zero_grad()\nparts = {'a': F.cross_entropy(model(x), y), 'b': model(x).pow(2).mean()}\n"
        "loss = sum(parts.values())\nloss.backward()\nopt.step()\n"
        "print({k: v.item() for k, v in parts.items()})  # later",
    ),
    "a target by einsum": Case(
        "opt.zero_grad()\nloss = (torch.einsum('ij,kj->ik', model(x), weights) - 1).pow(2).mean()\nloss.backward()\n"
        "opt.step()\nprint(loss.item())  # later",
        before="weights = torch.ones(2, 2)",
    ),
}


@pytest.mark.parametrize("around", ["function", "method", "module"])
@pytest.mark.parametrize("name", PLAIN_LOOPS)
def test_an_ordinary_loop_stays_proved(name: str, around: str) -> None:
    case = PLAIN_LOOPS[name]
    used = f"{CODE}import json, pathlib\n{case.code}"
    found = asked(one_file(replace(case, code=used), SURROUNDINGS[around]))
    assert found.tier == "safe", found
