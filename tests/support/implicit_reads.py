"""Ways to read `state.total` without any call of the reader that the text of a project names.

Each is an expression that looks at the sum in every batch, and the definitions that it needs: Python or a library calls
what does it. The names are for the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

STATE = """
import bisect, contextlib, copy, csv, dataclasses, enum, functools, heapq, itertools, json, math, operator, pickle
import statistics, string
import numpy as np


class State:
    def __init__(self):
        self.total = 0.0


state = State()
seen = []


def see(*given):
    seen.append(state.total)
    return state.total
"""

_GOES_THROUGH = {
    "any": "any({})",
    "join": "' '.join({})",
    "fsum": "math.fsum({})",
    "mean": "statistics.mean({})",
    "nlargest": "heapq.nlargest(1, {})",
    "in": "5 in {}",
    "array": "np.fromiter({}, float)",
    "tensor": "torch.tensor({})",
    "through a list": "' '.join([{}][0])",
    "clip": "nn.utils.clip_grad_norm_({}, 1.0)",
}
_SEQUENCE = (
    "class Seq:\n    def __len__(self):\n        return 2\n    def __getitem__(self, k):\n        return see()\n"
)
_ITERABLE = "class Seq:\n    def __iter__(self):\n        return iter([see()])\n"
_LAZY = {
    "map": ("", "map(see, [1, 2])"),
    "filter": ("", "filter(see, [1, 2])"),
    "a generator": ("def sees():\n    yield see()\n", "sees()"),
    "a generator that is kept": ("def sees():\n    while True:\n        yield see()\nkept = sees()\n", "kept"),
    "a chain of maps": ("", "itertools.chain(map(see, [1]), [2])"),
    "a sequence": (f"{_SEQUENCE}seq = Seq()\n", "seq"),
    "an iterable": (f"{_ITERABLE}seq = Seq()\n", "seq"),
}
_SHOWS = {
    "str": "str({})",
    "f-string": "f'{{{}}}'",
    "percent": "'%s' % ({},)",
    "percent of it": "'%s' % {}",
    "format": "'{{}}'.format({})",
    "print": "print({})",
}
_TEXTS = "class Peek:\n    def __repr__(self):\n        return str(see())\npeek = Peek()\n"
_BOX = "@dataclasses.dataclass\nclass Box:\n    inside: object\nbox = Box(peek)\n"
_SHOWN = {
    "an object": (_TEXTS, "peek"),
    "a list": (_TEXTS, "[peek]"),
    "a dict": (f"{_TEXTS}table = {{'a': [peek]}}\n", "table"),
    "a tuple": (_TEXTS, "(peek, 1)[:2]"),
    "a dataclass": (_TEXTS + _BOX, "box"),
    "a module's text": (
        "class Shown(nn.Module):\n    def extra_repr(self):\n        return str(see())\nshown = Shown()\n",
        "shown",
    ),
    "a module within one": (
        "class Shown(nn.Module):\n    def extra_repr(self):\n        return str(see())\nnet = nn.Sequential(Shown())\n",
        "net",
    ),
}
_LOADS = {
    "attribute": "peek.now",
    "getattr": "getattr(peek, 'now')",
    "hasattr": "hasattr(peek, 'now')",
    "format path": "'{p.now}'.format(p=peek)",
    "attrgetter": "operator.attrgetter('now')(peek)",
}
_PROPERTIES = {
    "decorator": "class Peek:\n    @property\n    def now(self):\n        return see()\n",
    "call": "class Peek:\n    now = property(lambda self: see())\n",
    "call of a function": "def get(self):\n    return see()\nclass Peek:\n    now = property(get)\n",
    "other name": "prop = property\nclass Peek:\n    @prop\n    def now(self):\n        return see()\n",
    "own decorator": (
        "def prop(f):\n    return property(f)\nclass Peek:\n    @prop\n    def now(self):\n        return see()\n"
    ),
    "cached, by other name": (
        "from functools import cached_property as lazy\n"
        "class Peek:\n    @lazy\n    def now(self):\n        return see()\n"
    ),
    "descriptor": (
        "class Now:\n    def __get__(self, owner, kind):\n        return see()\nclass Peek:\n    now = Now()\n"
    ),
    "hidden attribute": "class Peek:\n    def __getattr__(self, name):\n        return see()\n",
    "property of a base": (
        "class Base:\n    @property\n    def now(self):\n        return see()\nclass Peek(Base):\n    pass\n"
    ),
}
_KEYS = (
    "class Peek:\n    def keys(self):\n        see()\n        return ['a']\n"
    "    def __getitem__(self, k):\n        return 1\n"
)
_SINK = "class Sink:\n    def write(self, text):\n        see()\nsink = Sink()\n"
_SAVED = "class Peek:\n    def __getstate__(self):\n        see()\n        return {}\npeek = Peek()\n"
_HOLDER = "class Box:\n    def __init__(self, inside):\n        self.inside = inside\nbox = Box(peek)\n"
_ENUM = "class Split(enum.Enum):\n    TRAIN = 't'\n"
_NET = "class Own(nn.Module):\n    def {}:\n        see()\n        return {}\n"
_ITEM = "class Peek:\n    def __getitem__(self, k):\n        return see()\npeek = Peek()\n"
_FACTORY = "from collections import defaultdict\ntable = defaultdict(lambda: see())\n"
_OTHERS = {
    "json default": ("", "json.dumps([object()], default=see)"),
    "a format's item": (_ITEM, "'{0[a]}'.format(peek)"),
    "format_map": (_ITEM, "'{a}'.format_map(peek)"),
    "percent mapping": (_ITEM, "'%(a)s' % peek"),
    "template": (_ITEM, "string.Template('$a').substitute(peek)"),
    "itemgetter": (_ITEM, "operator.itemgetter(1)(peek)"),
    "bisect": (f"{_SEQUENCE}seq = Seq()\n", "bisect.bisect(seq, 5.0)"),
    "two stars": (f"{_KEYS}peek = Peek()\n", "dict(**peek)"),
    "two stars in a dict": (f"{_KEYS}peek = Peek()\n", "{**peek}"),
    "dict": (f"{_KEYS}peek = Peek()\n", "dict(peek)"),
    "length asked by list": (
        "class Peek:\n    def __iter__(self):\n        return iter([1])\n    def __len__(self):\n        return see()\n"
        "peek = Peek()\n",
        "list(peek)",
    ),
    "equality within a list": (
        "class Peek:\n    def __eq__(self, other):\n        return bool(see())\npeek = Peek()\n",
        "[peek] == [3]",
    ),
    "equality of what is looked for": (
        "class Peek:\n    def __eq__(self, other):\n        return bool(see())\npeek = Peek()\n",
        "peek in [3, 4]",
    ),
    "an enum's property": (f"{_ENUM}    @property\n    def tag(self):\n        return see()\n", "Split.TRAIN.tag"),
    "an enum's method": (f"{_ENUM}    def tag(self):\n        return see()\n", "Split.TRAIN.tag()"),
    "an enum's text": (f"{_ENUM}    def __str__(self):\n        return str(see())\n", "f'{Split.TRAIN}'"),
    "members of an enum": (f"{_ENUM}    def tag(self):\n        return see()\n", "[one.tag() for one in Split]"),
    "a field's factory": (
        "@dataclasses.dataclass\nclass Row:\n    at: float = dataclasses.field(default_factory=lambda: see())\n",
        "Row().at",
    ),
    "replace": (
        "@dataclasses.dataclass\nclass Row:\n    n: int\n    def __post_init__(self):\n        see()\nrow = Row(1)\n",
        "dataclasses.replace(row, n=2)",
    ),
    "extra state": (_NET.format("get_extra_state(self)", "1") + "net = Own()\n", "net.state_dict()"),
    "extra state of a part": (
        _NET.format("get_extra_state(self)", "1") + "net = nn.Sequential(Own())\n",
        "net.state_dict()",
    ),
    "a part's train": (_NET.format("train(self, mode=True)", "self") + "net = nn.Sequential(Own())\n", "net.train()"),
    "eval": (_NET.format("train(self, mode=True)", "self") + "net = Own()\n", "net.eval()"),
    "own names of parameters": (
        _NET.format("named_parameters(self, *a, **k)", "super().named_parameters(*a, **k)") + "net = Own()\n",
        "list(net.parameters())",
    ),
    "a context as decorator": (
        "@contextlib.contextmanager\ndef peeking():\n    see()\n    yield\n"
        "@peeking()\ndef show():\n    return seen[-1]\n",
        "show()",
    ),
    "a class pattern": (
        f"{_PROPERTIES['decorator']}peek = Peek()\n"
        "def show():\n    match peek:\n        case Peek(now=value):\n            return value\n",
        "show()",
    ),
    "deepcopy": (_SAVED + _HOLDER, "copy.deepcopy(box)"),
    "pickle": (_SAVED, "pickle.dumps([peek])"),
    "pickle of a holder": (_SAVED + _HOLDER, "pickle.dumps({'box': box})"),
    "csv": (_SINK, "csv.writer(sink).writerow([1])"),
    "json.dump": (_SINK, "json.dump([1], sink)"),
    "torch.save": (_SINK, "torch.save([1], sink)"),
    "a table's factory": (_FACTORY, "operator.itemgetter(i)(table)"),
    "a table's factory by a format": (_FACTORY, "'{0[a]}'.format(table)"),
    "a class that is raised": (
        "class Odd(Exception):\n    def __init__(self):\n        see()\n"
        "def show():\n    try:\n        raise Odd\n    except Odd:\n        return seen[-1]\n",
        "show()",
    ),
    "a library's part by its method": (
        "import logging\nclass Only:\n    def filter(self, record):\n        see()\n        return True\n"
        "log = logging.getLogger('x')\nlog.addFilter(Only())\n",
        "log.warning('x')",
    ),
}


def ways() -> Iterator[tuple[str, str, str]]:
    """Name, definitions and expression of each."""
    for end, (code, lazy) in _LAZY.items():
        yield from ((f"{end}: {name}", code, form.format(lazy)) for name, form in _GOES_THROUGH.items())
    for end, (code, shown) in _SHOWN.items():
        yield from ((f"{end}: {name}", code, form.format(shown)) for name, form in _SHOWS.items())
    for end, code in _PROPERTIES.items():
        yield from ((f"{end}: {name}", f"{code}peek = Peek()\n", form) for name, form in _LOADS.items())
    yield from ((name, code, form) for name, (code, form) in _OTHERS.items())
