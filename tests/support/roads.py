"""Roads by which an object of the project comes out of what has it, and code of it that nobody's call names.

Each is an expression that looks at `state.total` in every batch, and the definitions that it needs; `implicit_reads`
has what they share. The names are for the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

_LOOKS = "class Looks:\n    def look(self, *given):\n        return see()\nlooks = Looks()\n"
_OUT_OF_DICTS = {
    "popitem": ("table = {'a': looks}\n", "table.popitem()[1].look()"),
    "popitem of an ordered dict": (
        "import collections\ntable = collections.OrderedDict(a=looks)\n",
        "table.popitem(last=False)[1].look()",
    ),
    "popitem into names": (
        "table = {'a': looks}\ndef go():\n    key, value = table.popitem()\n    return value.look()\n",
        "go()",
    ),
    "popitem into a star": (
        "table = {'a': looks}\ndef go():\n    *_, value = table.popitem()\n    return value.look()\n",
        "go()",
    ),
    "popitem matched": (
        "table = {'a': looks}\ndef go():\n    match table.popitem():\n        case (key, value):\n"
        "            return value.look()\n",
        "go()",
    ),
    "keys by a pass": ("table = {looks: 1}\n", "[key.look() for key in table][0]"),
    "keys by their method": ("table = {looks: 1}\n", "list(table.keys())[0].look()"),
    "keys of items": ("table = {looks: 1}\n", "[key.look() for key, n in table.items()][0]"),
    "keys that are stored": ("table = {}\ntable[looks] = 1\n", "[key.look() for key in table][0]"),
    "keys of a comprehension": ("table = {one: 1 for one in [looks]}\n", "next(iter(table)).look()"),
    "keys of a class's object": (
        "class Table(dict):\n    pass\ntable = Table()\ntable[looks] = 1\n",
        "[key.look() for key in table][0]",
    ),
    "keys of two dicts": ("table = {looks: 1} | {}\n", "[key.look() for key in table][0]"),
}
_ROW = "class Row(typing.NamedTuple):\n    n: int\n    one: object\nrow = Row(1, looks)\n"
_POINT = "class Point(collections.namedtuple('Point', 'one n')):\n    pass\npoint = Point(looks, 1)\n"
_PAIR = "@dataclasses.dataclass\nclass Pair:\n    a: object\n    b: object = None\npair = Pair(see, Pair(see))\n"
_MODE = "class Mode(enum.Enum):\n    A = 1\n    def look(self):\n        return see()\n"
_OUT_OF_RECORDS = {
    "a named tuple by index": (_ROW, "row[1].look()"),
    "a named tuple into names": (f"{_ROW}def go():\n    n, one = row\n    return one.look()\n", "go()"),
    "a pass over a named tuple": (_ROW, "[getattr(one, 'look', int)() for one in row][0]"),
    "a named tuple as a dict": (_ROW, "row._asdict()['one'].look()"),
    "a named tuple anew": (_ROW, "Row(1, 2)._replace(one=looks).one.look()"),
    "a named tuple of a list": (_ROW, "Row._make([1, looks]).one.look()"),
    "a namedtuple's attribute": (_POINT, "point.one.look()"),
    "a namedtuple by index": (_POINT, "point[0].look()"),
    "asdict": (_PAIR, "dataclasses.asdict(pair)['a']()"),
    "asdict of one within": (_PAIR, "dataclasses.asdict(pair)['b']['a']()"),
    "astuple": (_PAIR, "dataclasses.astuple(pair)[0]()"),
    "an enum by name": (_MODE, "Mode['A'].look()"),
    "a list of an enum": (_MODE, "list(Mode)[0].look()"),
}
_OUT_OF_CALLS = {
    "max without elements": ("", "max([], default=looks).look()"),
    "the value of a generator": (
        "def inner():\n    yield 1\n    return looks\n"
        "def outer():\n    one = yield from inner()\n    yield one.look()\n",
        "list(outer())[-1]",
    ),
    "the value of StopIteration": (
        "def inner():\n    yield 1\n    return looks\n"
        "def go():\n    one = inner()\n    next(one)\n    try:\n        next(one)\n"
        "    except StopIteration as error:\n        return error.value.look()\n",
        "go()",
    ),
    "map of a method's name": ("", "list(map(operator.methodcaller('look'), [looks]))[0]"),
    "a key that is a method's name": ("", "max([looks], key=operator.methodcaller('look')) and 0"),
    "map of an unknown function": ("import natsort\n", "list(map(natsort.key, [looks]))[0]"),
    "an unknown key": ("import natsort\n", "sorted([looks], key=natsort.key) and 0"),
    "reduce by attributes": (
        "class Box:\n    now = property(lambda self: see())\n",
        "functools.reduce(getattr, 'now'.split(), Box())",
    ),
    "reduce of functions": ("", "functools.reduce(lambda value, f: f(value), [see, abs], 1)"),
    "a part of a data set": (
        "class Seen(Dataset):\n    def __len__(self):\n        return 9\n    def __getitem__(self, k):\n"
        "        return see()\n"
        "first, second = torch.utils.data.random_split(Seen(), [4, 5])\nloader = DataLoader(first)\n",
        "next(iter(loader))",
    ),
}
_SEEN = (
    "class Seen(Dataset):\n    def __len__(self):\n        return 9\n    def __getitem__(self, k):\n"
    "        return see()\n"
)
_LOUD = "class Loud(nn.Module):\n    def forward(self, x):\n        return see()\n"
_OF_LIBRARIES = {
    "two data sets": (f"{_SEEN}both = Seen() + Seen()\nloader = DataLoader(both)\n", "next(iter(loader))"),
    "two parts of a data set": (
        f"{_SEEN}first, *rest = torch.utils.data.random_split(Seen(), [4, 5])\nloader = DataLoader(rest[0] + first)\n",
        "next(iter(loader))",
    ),
    "one of what is prepared": (
        f"{_LOUD}from accelerate import Accelerator\nnet, other = Accelerator().prepare(Loud(), nn.Linear(2, 2))\n",
        "net(1)",
    ),
    "one of what is prepared, by index": (
        f"{_LOUD}from accelerate import Accelerator\nnet = Accelerator().prepare(Loud(), nn.Linear(2, 2))[0]\n",
        "net(1)",
    ),
    "a chain of data sets": (
        "class Seen(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        yield see()\n"
        "loader = DataLoader(torch.utils.data.ChainDataset([Seen()]))\n",
        "next(iter(loader))",
    ),
    "a class that a library makes objects of": (
        "class Encoder(json.JSONEncoder):\n    def default(self, one):\n        return see()\n",
        "json.dumps({1}, cls=Encoder)",
    ),
    "a model of a file": (f"{_LOUD}loaded = torch.load('x.pt', weights_only=False).to('cpu')\n", "loaded(1)"),
    "a data set of a file": (
        f"{_SEEN}loaded = pickle.load(open('x', 'rb'))\nloader = DataLoader(loaded)\n",
        "next(iter(loader))",
    ),
    "a method of what was in a file": (f"{_LOOKS}loaded = pickle.loads(b'')\n", "loaded.look()"),
    "a descriptor": ("import somewhere\nclass Box:\n    now = somewhere.lazy(see)\nbox = Box()\n", "box.now"),
    "a descriptor by a base": (
        "import somewhere\nclass Lazy(somewhere.Descriptor):\n    pass\nclass Box:\n    now = Lazy(see)\nbox = Box()\n",
        "box.now",
    ),
}
_OUTSIDE = f"{_LOUD}{_LOOKS}{_SEEN}import yaml, dill, joblib, cloudpickle\nfile = open('x', 'rb')\n"
_OUT_OF_FILES = {
    "a model in a file": "torch.load('x.pt')['model'](1)",
    "a model in a file, by get": "torch.load('x.pt').get('model').to('cpu')(1)",
    "an attribute of what was in a file": "torch.load('x.pt').looks.look()",
    "an attribute of a part": "pickle.load(file)[0].a.b.look()",
    "each of what was in a file": "[one.look() for one in pickle.load(file)][0]",
    "a pass over a part": "[one for one in torch.load('x.pt')['data']][0]",
    "an index of a part": "torch.load('x.pt')['data'][3]",
    "values of a file": "[one.look() for one in pickle.load(file).values()][0]",
    "unpacked": "(lambda x, y: y.look())(*pickle.load(file))",
    "what NumPy reads": "np.load('x.npy', allow_pickle=True)[0].look()",
    "what NumPy reads, by item": "np.load('x.npy', None, True).item().look()",
    "what YAML reads with an own loader": (
        "class Own(yaml.SafeLoader):\n    pass\nOwn.add_constructor('!x', lambda loader, node: looks)\n",
        "yaml.load('!x 1', Loader=Own).look()",
    ),
    "what YAML reads with a constructor": (
        "yaml.add_constructor('!x', lambda loader, node: looks, yaml.SafeLoader)\n",
        "yaml.load('!x 1', yaml.SafeLoader).look()",
    ),
    "what a constructor reads": (
        "yaml.SafeLoader.add_constructor('!x', lambda loader, node: see())\n",
        "yaml.load('!x 1', Loader=yaml.SafeLoader)",
    ),
    "what YAML reads unsafely": "yaml.load('x', Loader=yaml.Loader).look()",
    "what YAML reads unsafely, by name": "yaml.unsafe_load('x')['a'].look()",
    "an unpickler": "pickle.Unpickler(file).load().look()",
    "an own unpickler": (
        "class Own(pickle.Unpickler):\n    def find_class(self, module, name):\n        return Looks\n",
        "Own(file).load().look()",
    ),
    "what an unpickler calls": (
        "class Own(pickle.Unpickler):\n    def persistent_load(self, pid):\n        return see()\n",
        "Own(file).load()",
    ),
    "a model of a folder": "torch.hub.load('.', 'net', source='local')(1)",
    "dill": "dill.load(file)['a'].look()",
    "joblib": "joblib.load('x').look()",
    "cloudpickle": "cloudpickle.loads(b'').look()",
    "classes that are said to be safe": (
        "torch.serialization.add_safe_globals([Loud])\n",
        "torch.load('x', weights_only=True)(1)",
    ),
    "what a file has, put together": ("looked = pickle.load(file)\nlooked.append(looks)\n", "looked[-1].look()"),
    "a function put into what a file has": ("looked = pickle.load(file)\nlooked.append(see)\n", "looked[-1]()"),
    "two lists of modules": "(nn.Sequential(Loud()) + nn.Sequential(nn.ReLU()))(1)",
    "two lists of modules, the other": "(nn.Sequential(nn.ReLU()) + nn.Sequential(Loud()))[1](1)",
    "a list of modules that grows": ("net = nn.Sequential()\nnet += nn.Sequential(Loud())\n", "net(1)"),
    "a list of modules twice": "(nn.Sequential(Loud()) * 2)(1)",
    "a list of modules and a list": "(nn.ModuleList([nn.ReLU()]) + [Loud()])[1](1)",
    "two of an own class": (
        "class Stack(nn.Sequential):\n    pass\n",
        "(Stack(Loud()) + Stack(nn.ReLU()))(1)",
    ),
}
_SHOWN = "class Looks:\n    def {}(self, *given):\n        return {}\nfound = pickle.load(open('x', 'rb'))\n"
_USED_FROM_FILES = {
    "the text of what was in a file": (_SHOWN.format("__repr__", "str(see())"), "f'{found}'"),
    "the text of a part": (_SHOWN.format("__str__", "str(see())"), "str(found['a'])"),
    "the printed text": (_SHOWN.format("__str__", "str(see())"), "print(found)"),
    "the length of what was in a file": (_SHOWN.format("__len__", "int(see())"), "len(found)"),
    "a sum with what was in a file": (_SHOWN.format("__radd__", "see()"), "1 + found"),
    "what it is equal to": (_SHOWN.format("__eq__", "bool(see())"), "found == 1"),
    "whether something is in it": (_SHOWN.format("__contains__", "bool(see())"), "1 in found"),
    "the text of a part in a log": (
        "import logging\n" + _SHOWN.format("__str__", "str(see())"),
        "logging.info('%s', found['a'])",
    ),
}
_ERROR = "class Odd(Exception):\n    def __str__(self):\n        return str(see())\n"
_CAUGHT = "def go():\n    try:\n        raise Odd()\n    except Odd as error:\n        return {}\n"
_SAID = (
    "class Said:\n    def __repr__(self):\n        return str(see())\n    def look(self):\n        return see()\n"
    "def go():\n    try:\n        assert not Said, Said()\n    except AssertionError as error:\n        return {}\n"
)
_EXCEPTIONS = {
    "the text of an error": (_ERROR + _CAUGHT.format("str(error)"), "go()"),
    "a traceback": (f"import traceback\n{_ERROR}" + _CAUGHT.format("traceback.format_exc()"), "go()"),
    "a printed traceback": (f"import traceback\n{_ERROR}" + _CAUGHT.format("traceback.print_exc()"), "go()"),
    "a logged error": (f"import logging\n{_ERROR}" + _CAUGHT.format("logging.exception('x')"), "go()"),
    "a logger's error": (
        f"import logging\nlog = logging.getLogger('x')\n{_ERROR}" + _CAUGHT.format("log.error('x', exc_info=True)"),
        "go()",
    ),
    "an error in a block": (
        f"{_ERROR}class Block:\n    def __enter__(self):\n        return self\n"
        "    def __exit__(self, kind, error, trace):\n        self.text = str(error)\n        return True\n"
        "def go():\n    with Block():\n        raise Odd()\n    return 0\n",
        "go()",
    ),
    "an error of a group": (
        f"{_ERROR}def go():\n    try:\n        raise Odd()\n    except* Odd as group:\n"
        "        return str(group.exceptions[0])\n",
        "go()",
    ),
    "the text of an assertion": (_SAID.format("str(error)"), "go()"),
    "what an assertion has": (_SAID.format("error.args[0].look()"), "go()"),
}


def roads() -> Iterator[tuple[str, str, str]]:
    """Name, definitions and expression of each."""
    code = f"import collections, typing\n{_LOOKS}"
    for group in (_OUT_OF_DICTS, _OUT_OF_RECORDS, _OUT_OF_CALLS, _OF_LIBRARIES, _EXCEPTIONS):
        yield from ((name, code + own, form) for name, (own, form) in group.items())
    for name, form in _OUT_OF_FILES.items():
        own, reader = form if isinstance(form, tuple) else ("", form)
        yield name, code + _OUTSIDE + own, reader
    yield from ((name, code + own, form) for name, (own, form) in _USED_FROM_FILES.items())
