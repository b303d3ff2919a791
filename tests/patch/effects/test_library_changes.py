"""Further ways by which one object has two names, and libraries that change what they are given in place."""

from __future__ import annotations

import pytest

from tests.support.library_objects import object_reasons

LOG = """
import PIL.ImageDraw
import cv2
import torchvision


class Log:
    def __init__(self, kept):
        self.kept = kept

    def push(self, v):
        print({seen}, v)
"""
LISTS = {
    "fromkeys": ("cfg = dict.fromkeys(['a'], hist)", "cfg['a']"),
    "defaultdict": ("cfg = collections.defaultdict(lambda: hist)", "cfg['a']"),
    "dict of zip": ("cfg = dict(zip(['a'], [hist]))", "cfg['a']"),
    "times": ("cfg = [hist] * 2", "cfg[0]"),
    "plus": ("cfg = [hist] + []", "cfg[0]"),
    "sum": ("cfg = sum([[hist]], [])", "cfg[0]"),
    "or": ("cfg = hist or []", "cfg"),
    "star": ("first_one, *rest = [hist, hist]", "rest[0]"),
    "for": ("for h in [hist]:\n    pass", "h"),
    "with": ("import contextlib\nwith contextlib.nullcontext(hist) as h:\n    pass", "h"),
    "exception": (
        "class Stop(Exception):\n    pass\ntry:\n    raise Stop(hist)\nexcept Stop as e:\n    h = e.args[0]",
        "h",
    ),
    "exception attr": (
        (
            "class Stop(Exception):\n"
            "    def __init__(self, h):\n"
            "        self.h = h\n"
            "try:\n"
            "    raise Stop(hist)\n"
            "except Stop as e:\n"
            "    h = e.h"
        ),
        "h",
    ),
    "builtin exception": ("try:\n    raise ValueError(hist)\nexcept ValueError as e:\n    h = e.args[0]", "h"),
    "generator": ("def gen():\n    yield hist\nh = next(gen())", "h"),
    "chainmap": ("cfg = collections.ChainMap({'a': hist})", "cfg['a']"),
    "match": ("match {'a': hist}:\n    case {'a': h}:\n        pass", "h"),
    "iter with sentinel": ("it = iter(lambda: hist, None)", "next(it)"),
    "list of items": ("h = list({'a': hist}.items())[0][1]", "h"),
    "enumerate": ("for n, h in enumerate([hist]):\n    pass", "h"),
    "namedtuple": ("T = collections.namedtuple('T', 'a')\nt = T(hist)._replace(a=hist)", "t.a"),
    "dataclass fields": ("c = Config(hist)\nh = [getattr(c, f.name) for f in dataclasses.fields(c)][0]", "h"),
    "vars loop": ("c = Config(hist)\nfor k, h in vars(c).items():\n    pass", "h"),
    "partial keywords": ("p = functools.partial(print, end=hist)", "p.keywords['end']"),
    "reduce": ("h = functools.reduce(lambda a, b: b, [1, hist])", "h"),
    "starmap": ("h = next(itertools.starmap(lambda a, b: b, [(1, hist)]))", "h"),
    "product": ("h = next(itertools.product([hist], [1]))[0]", "h"),
    "zip_longest": ("h = next(itertools.zip_longest([hist], []))[0]", "h"),
    "heappush": ("q = []\nheapq.heappush(q, (1, hist))", "q[0][1]"),
    "heappop": ("q = []\nheapq.heappush(q, (1, hist))\nh = heapq.heappop(q)[1]", "h"),
    "type default": (
        (
            "parser = argparse.ArgumentParser()\n"
            "parser.add_argument('--a', type=lambda s: hist)\n"
            "args = parser.parse_args()"
        ),
        "args.a",
    ),
    "known args": (
        (
            "parser = argparse.ArgumentParser()\n"
            "parser.add_argument('--a', default=hist)\n"
            "args, rest = parser.parse_known_args()"
        ),
        "args.a",
    ),
    "group": (
        (
            "parser = argparse.ArgumentParser()\n"
            "g = parser.add_argument_group('x')\n"
            "g.add_argument('--a', default=hist)\n"
            "args = parser.parse_args()"
        ),
        "args.a",
    ),
    "argparse action": (
        (
            "class A(argparse.Action):\n"
            "    def __call__(self, parser, ns, v, o=None):\n"
            "        ns.a = hist\n"
            "parser = argparse.ArgumentParser()\n"
            "parser.add_argument('--a', action=A)\n"
            "args = parser.parse_args()"
        ),
        "args.a",
    ),
    "star args": ("def f(*a, **k):\n    return a[0]\nh = f(*[hist])", "h"),
    "kwargs": ("def f(**k):\n    return k\nh = f(**{'a': hist})['a']", "h"),
    "sorted by key": ("h = sorted({'a': hist}.values())[0]", "h"),
    "operator.add": ("h = operator.add([hist], [])[0]", "h"),
    "bisect": ("import bisect\nq = []\nbisect.insort(q, hist)", "q[0]"),
    "copy of obj": ("c = copy.copy(Config(hist))", "vars(c)['hist']"),
    "set": ("s = {(1, 2): hist}\nh = s.pop((1, 2))", "h"),
    "property": ("class P:\n    @property\n    def h(self):\n        return hist\np = P()", "p.h"),
    "subparsers": (
        (
            "parser = argparse.ArgumentParser()\n"
            "sub = parser.add_subparsers().add_parser('a')\n"
            "sub.add_argument('--a', default=hist)\n"
            "args = parser.parse_args()"
        ),
        "args.a",
    ),
    "random.sample": ("h = random.sample([hist], 1)[0]", "h"),
    "np.random.choice": ("h = np.random.choice([hist, hist])", "h"),
    "queue list": ("q = collections.deque()\nq.appendleft(hist)\nh = q.pop()", "h"),
    "enum": ("h = {**{'a': hist}, 'b': 1}.get('a')", "h"),
    "zip star": ("a, b = zip(*[(hist, 1)])", "a[0]"),
    "dict |": ("d = {'a': hist} | {}", "d['a']"),
    "update": ("d = {}\nd.update(a=hist)", "d['a']"),
    "update 2": ("d = {}\nd.update({'a': hist})", "d['a']"),
    "setdefault": ("d = {}\nd.setdefault('a', []).append(hist)", "d['a'][0]"),
    "global": ("def g():\n    return hist\nh = g()", "h"),
    "operator call": ("h = operator.attrgetter('hist')(Config(hist))", "h"),
    "typing.cast": ("import typing\nh = typing.cast(list, hist)", "h"),
    "module attr": ("math.hist = hist", "math.hist"),
    "class attr": ("State.hist = hist", "State().hist"),
    "func attr": ("same.hist = hist", "same.hist"),
    "model attr": ("model.hist = hist", "model.hist"),
    "module buffer dict": ("d = nn.ModuleDict()\nd.hist = hist", "d.hist"),
    "dataset": ("ds = Data()\nds.hist = hist\ndl = DataLoader(ds)", "dl.dataset.hist"),
    "tensordict": ("s = opt.state_dict()\ns['hist'] = hist", "s['hist']"),
    "opt defaults": ("opt.param_groups[0]['hist'] = hist", "opt.param_groups[0]['hist']"),
    "ckpt": ("ck = {'h': hist}\nback = torch.load('x') or ck", "back['h']"),
}
TENSORS = {
    "register_buffer": ("model.register_buffer('h', arr)", "model.h[0]"),
    "parameter": ("p = nn.Parameter(arr)", "p[0]"),
    "data=": ("u = torch.zeros(100)\nu.data = arr", "u[0]"),
    "set_": ("u = torch.zeros(100)\nu.set_(arr)", "u[0]"),
    "tensordataset": ("ds = torch.utils.data.TensorDataset(arr)", "ds[0][0]"),
    "tensordataset loader": ("ds = DataLoader(arr)", "ds.dataset[0]"),
    "param group": ("opt.add_param_group({'params': [arr]})", "opt.param_groups[1]['params'][0][0]"),
    "list of": ("ts = [arr]", "torch.stack(ts)[0][0]"),
    "cat of": ("ts = [arr]\nu = torch.meshgrid(ts)", "u[0][0]"),
    "state": ("opt.state['a'] = arr", "opt.state['a'][0]"),
    "state dict": ("sd = model.state_dict()\nsd['a'] = arr", "sd['a'][0]"),
    "T": ("u = arr.T", "u[0]"),
    "mT": ("u = arr.unsqueeze(0).mT", "u[0]"),
    "expand": ("u = arr.expand(2, 100)", "u[0][0]"),
    "unbind": ("u = arr.unbind()[0]", "u"),
    "chunk": ("u, v = arr.chunk(2)", "u[0]"),
    "iter": ("u = next(iter(arr))", "u"),
    "zip": ("u, v = next(zip(arr, arr))", "u"),
    "list()": ("u = list(arr)", "u[0]"),
    "star": ("u = [*arr]", "u[0]"),
    "numpy": ("u = arr.numpy()", "u[0]"),
    "cpu": ("u = arr.cpu()", "u[0]"),
    "detach": ("u = arr.detach()", "u[0]"),
    "to": ("u = arr.to('cpu')", "u[0]"),
    "contiguous": ("u = arr.contiguous()", "u[0]"),
    "float": ("u = arr.float()", "u[0]"),
    "type_as": ("u = arr.type_as(arr)", "u[0]"),
    "storage": ("u = arr.untyped_storage()", "u[0]"),
    "as_tensor": ("u = torch.as_tensor(arr)", "u[0]"),
    "nan_to_num": ("u = np.nan_to_num(arr, copy=False)", "u[0]"),
    "np": ("u = np.asarray(arr)", "u[0]"),
    "closure": ("f = lambda: arr", "f()[0]"),
    "relu inplace": ("u = F.relu(arr, inplace=True)", "u[0]"),
    "seq": ("u = nn.Sequential(nn.Identity())(arr)", "u[0]"),
    "broadcast": ("u = torch.broadcast_to(arr, (2, 100))", "u[0][0]"),
    "einsum": ("u = torch.einsum('i->i', arr)", "u[0]"),
    "np.array": ("u = np.array(arr, copy=False)", "u[0]"),
    "embedding": ("u = nn.Embedding.from_pretrained(arr)", "u.weight[0]"),
    "dict": ("u = dict(a=arr)", "u['a'][0]"),
    "share": ("u = arr.share_memory_()", "u[0]"),
    "squeeze_": ("u = arr.squeeze_()", "u[0]"),
    "pin": ("u = arr.pin_memory()", "u[0]"),
    "view_as": ("u = arr.view_as(torch.ones(100))", "u[0]"),
    "atleast": ("u = torch.atleast_3d(arr)", "u[0]"),
    "conj": ("u = torch.conj(arr)", "u[0]"),
    "positive": ("u = +arr", "u[0]"),
    "x if": ("u = arr if i0 else None", "u[0]"),
}
"""What makes another name of `arr`, and how the loop looks at it."""
CHANGED = {
    "hook append": (
        "hist = []\nmodel.layer.register_forward_hook(lambda m, a, o: hist.append(1))",
        "hist",
        "len(self.kept)",
        "pass",
    ),
    "hook bound": ("hist = []\nmodel.layer.weight.register_hook(hist.append)", "hist", "len(self.kept)", "pass"),
    "stringio": ("buf = io.StringIO()", "buf", "len(self.kept.getvalue())", "print(i, file=buf)"),
    "stringio write": ("buf = io.StringIO()", "buf", "len(self.kept.getvalue())", "buf.write('x')"),
    "bytearray": ("buf = bytearray(8)", "buf", "self.kept[0]", "buf[0] = i"),
    "bytearray pack": ("buf = bytearray(8)", "buf", "self.kept[0]", "struct.pack_into('d', buf, 0, float(i))"),
    "ns plain": ("ns = argparse.Namespace(step=0)", "ns", "self.kept.step", "ns.step = i"),
    "parser plain": ("ns = argparse.ArgumentParser().parse_args()", "ns", "self.kept.step", "ns.step = i"),
    "easy": ("import easydict\nns = easydict.EasyDict(step=0)", "ns", "self.kept.step", "ns.step = i"),
    "ns vars": ("ns = argparse.Namespace(step=0)", "ns", "self.kept.step", "vars(ns)['step'] = i"),
    "parser vars": ("ns = argparse.ArgumentParser().parse_args()", "ns", "self.kept.step", "vars(ns)['step'] = i"),
    "parser vars kept": (
        "ns = argparse.ArgumentParser().parse_args()\nd = vars(ns)",
        "ns",
        "self.kept.step",
        "d['step'] = i",
    ),
    "parser vars update": (
        "ns = argparse.ArgumentParser().parse_args()\nd = vars(ns)",
        "ns",
        "self.kept.step",
        "d.update(step=i)",
    ),
    "parser vars log": (
        "ns = argparse.ArgumentParser().parse_args()\nd = vars(ns)",
        "d",
        "self.kept['step']",
        "ns.step = i",
    ),
    "show ns": ("ns = argparse.ArgumentParser().parse_args()", "ns", "self.kept", "ns.step = i"),
    "show vars": ("ns = argparse.ArgumentParser().parse_args()", "ns", "vars(self.kept)", "ns.step = i"),
    "getattr ns": (
        "ns = argparse.ArgumentParser().parse_args()",
        "ns",
        "getattr(self.kept, 'st' + 'ep')",
        "ns.step = i",
    ),
    "nested": ("ns = argparse.ArgumentParser().parse_args()", "ns", "self.kept.opt.step", "ns.opt.step = i"),
    "nested show": ("ns = argparse.ArgumentParser().parse_args()", "ns", "self.kept.opt", "ns.opt.step = i"),
    "cfg part": ("ns = argparse.ArgumentParser().parse_args()", "ns.opt", "self.kept.step", "ns.opt.step = i"),
    "bound reader": ("hist = []\npush = hist.append", "hist", "len(self.kept)", "push(i)"),
    "bound get": ("hist = {}", "hist.get", "self.kept('a')", "hist['a'] = i"),
    "np.add.at": ("arr = np.zeros(10)", "arr", "self.kept[0]", "np.add.at(arr, [0], 1)"),
    "np.put": ("arr = np.zeros(10)\nv = np.flip(arr)", "arr", "self.kept[0]", "np.put(v, 0, i)"),
    "shuffle": ("arr = [1, 2]", "arr", "self.kept[0]", "random.shuffle(arr)"),
    "cv2": ("import cv2\narr = np.zeros(10)", "arr", "self.kept[0]", "cv2.circle(arr, (0, 0), 1, 1)"),
    "draw": (
        "import PIL.ImageDraw\nimg = PIL.Image.new('L', (2, 2))\nd = PIL.ImageDraw.Draw(img)",
        "img",
        "self.kept",
        "d.text((0, 0), str(i))",
    ),
    "df": ("df = pd.DataFrame({'a': [0]})", "df", "self.kept['a'][0]", "df.loc[0, 'a'] = i"),
    "df at": ("df = pd.DataFrame({'a': [0]})", "df", "len(self.kept)", "df.loc[len(df)] = i"),
    "series view": ("arr = np.zeros(10)\ns = pd.Series(arr)", "arr", "self.kept[0]", "s[0] = i"),
    "series inplace": ("arr = np.zeros(10)\ns = pd.Series(arr)", "arr", "self.kept[0]", "s.clip(0, 1, inplace=True)"),
    "df inplace": ("df = pd.DataFrame({'a': [0]})", "df", "self.kept", "df.drop(0, inplace=True)"),
    "counter": ("c = collections.Counter()", "c", "self.kept['a']", "c.subtract(['a'])"),
    "counter +": ("c = collections.Counter()", "c", "self.kept['a']", "c += collections.Counter('a')"),
    "tee": ("a, b = itertools.tee(itertools.count())", "a", "next(self.kept)", "x = x + next(a)"),
    "np rng": ("g = np.random.default_rng(0)", "g", "self.kept.bit_generator.state", "x = x + g.random()"),
    "deque rotate": ("q = collections.deque([1, 2])", "q", "self.kept[0]", "q.rotate(1)"),
    "dict pop": ("q = {'a': 1}", "q", "len(self.kept)", "q.pop('a', None)"),
    "list sort": ("q = [1]", "q", "self.kept[0]", "q.sort()"),
    "del": ("q = [1]", "q", "self.kept[0]", "del q[:1]"),
    "slice": ("q = [1]", "q", "self.kept[0]", "q[:] = [i]"),
    "heapq": ("q = [1]", "q", "self.kept[0]", "heapq.heappush(q, i)"),
    "map": ("q = []", "q", "len(self.kept)", "list(map(q.append, [i]))"),
    "sorted key": ("q = []", "q", "len(self.kept)", "sorted([i], key=q.append)"),
    "filter": ("q = []", "q", "len(self.kept)", "list(filter(q.append, [i]))"),
    "min key": ("q = []", "q", "len(self.kept)", "min([i, 2], key=q.append)"),
    "reduce": ("q = []", "q", "len(self.kept)", "functools.reduce(lambda a, b: q.append(b), [i, 2])"),
    "comprehension": ("q = []", "q", "len(self.kept)", "[q.append(n) for n in range(2)]"),
    "apply": ("q = []", "q", "len(self.kept)", "pd.Series([1]).apply(q.append)"),
    "vectorize": ("q = []", "q", "len(self.kept)", "np.apply_along_axis(q.append, 0, np.zeros(2))"),
    "collate": (
        (
            "q = []\n"
            "class D(Data):\n"
            "    def __getitem__(self, n):\n"
            "        q.append(n)\n"
            "        return n\n"
            "dl = DataLoader(D())"
        ),
        "q",
        "len(self.kept)",
        "z = next(iter(dl))",
    ),
    "sched lambda": (
        "q = []\nsched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: q.append(e) or 1.0)",
        "q",
        "len(self.kept)",
        "sched.step()",
    ),
    "sched bound": (
        "q = {}\nsched = torch.optim.lr_scheduler.LambdaLR(opt, q.setdefault)",
        "q",
        "len(self.kept)",
        "sched.step()",
    ),
    "transform": ("q = []\ntf = torchvision.transforms.Lambda(q.append)", "q", "len(self.kept)", "tf(x)"),
    "transform fn": (
        "q = []\ntf = torchvision.transforms.Lambda(lambda v: q.append(v))",
        "q",
        "len(self.kept)",
        "tf(x)",
    ),
    "apply model": ("q = []", "q", "len(self.kept)", "model.apply(q.append)"),
    "compile": ("q = []\nf = torch.compile(lambda v: q.append(1))", "q", "len(self.kept)", "f(x)"),
    "checkpoint": (
        "q = []\nimport torch.utils.checkpoint as cp",
        "q",
        "len(self.kept)",
        "cp.checkpoint(lambda v: q.append(v), x)",
    ),
    "copy state": ("q = {'a': 0}\nz = copy.copy(q)", "q", "self.kept['a']", "q['a'] = i"),
    "csv": (
        "import csv\nrow = {'step': 0}\nw = csv.DictWriter(open('a.csv', 'w'), ['step'])",
        "row",
        "self.kept['step']",
        "row['step'] = i",
    ),
    "logging extra": (
        "import logging\nextra = {'step': 0}\nlg = logging.getLogger('a')",
        "extra",
        "self.kept['step']",
        "extra['step'] = i",
    ),
    "torch out": ("t = torch.zeros(1)", "t", "self.kept[0]", "torch.add(t, 1, out=t)"),
    "torch foreach": ("t = torch.zeros(1)", "t", "self.kept[0]", "torch._foreach_add_([t], 1)"),
    "torch fill": ("t = torch.zeros(1)", "t", "self.kept[0]", "t.fill_(i)"),
    "torch method": ("t = torch.zeros(1)\nf = t.add_", "t", "self.kept[0]", "f(1)"),
    "nn.init": ("t = torch.zeros(1)", "t", "self.kept[0]", "nn.init.constant_(t, 1.0)"),
    "relu inplace": ("t = torch.zeros(1)", "t", "self.kept[0]", "F.relu(t, inplace=True)"),
    "relu module inplace": ("t = torch.zeros(1)\nact = nn.ReLU(inplace=True)", "t", "self.kept[0]", "act(t)"),
    "relu_": ("t = torch.zeros(1)", "t", "self.kept[0]", "F.relu_(t)"),
    "copyto": ("t = np.zeros(1)", "t", "self.kept[0]", "np.copyto(t, 1.0)"),
    "ufunc out": ("t = np.zeros(1)", "t", "self.kept[0]", "np.add(t, 1, out=t)"),
    "ufunc positional out": ("t = np.zeros(1)", "t", "self.kept[0]", "np.add(t, 1, t)"),
    "np sort": ("t = np.zeros(1)", "t", "self.kept[0]", "t.sort()"),
    "np partition": ("t = np.zeros(1)", "t", "self.kept[0]", "t.partition(0)"),
    "np byteswap": ("t = np.zeros(1)", "t", "self.kept[0]", "t.byteswap(True)"),
    "np setflags": ("t = np.zeros(1)", "t", "self.kept[0]", "t.itemset(0, 1)"),
    "np resize": ("t = np.zeros(1)", "t", "self.kept.shape", "t.resize(3)"),
    "np random shuffle": ("t = np.zeros(3)", "t", "self.kept[0]", "np.random.shuffle(t)"),
    "rng shuffle": ("t = np.zeros(3)\ng = np.random.default_rng(0)", "t", "self.kept[0]", "g.shuffle(t)"),
    "random shuffle obj": ("t = [1, 2]\ng = random.Random(0)", "t", "self.kept[0]", "g.shuffle(t)"),
    "all_reduce": ("t = torch.zeros(1)", "t", "self.kept[0]", "torch.distributed.all_reduce(t)"),
}
"""What stands before the loop, what the log has, how it looks at that, and what stays in the loop."""


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_seen_by_its_other_name(name: str) -> None:
    before, seen = LISTS[name]
    stays = f"opt.param_groups[0]['lr'] = 0.1 / (1 + len({seen}))"
    assert object_reasons(f"hist = []\n{before}", "hist.append(loss.item())", stays)


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_seen_by_its_other_name(name: str) -> None:
    before, seen = TENSORS[name]
    stays = f"opt.param_groups[0]['lr'] = float({seen})"
    assert object_reasons(f"i0 = 1\narr = torch.zeros(100)\n{before}", "arr[i] = loss.item()", stays)


@pytest.mark.parametrize("name", CHANGED)
def test_what_stays_is_known_to_change_what_a_log_looks_at(name: str) -> None:
    before, given, seen, stays = CHANGED[name]
    before = f"{before}\nlog = Log({given})"
    assert object_reasons(before, "log.push(loss.item())", stays, code=LOG.replace("{seen}", seen))
