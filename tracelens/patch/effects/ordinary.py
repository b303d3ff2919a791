"""Which Python the proof follows: what training code is usually written in. Anything else leaves a move unproved.

In: a parsed file. Out: the first place that uses something else, or None. There is no end to what code can do behind a
reader's back (descriptors, weak references, replaced functions, threads …), so the proof rests on what is known to hide
nothing, not on a list of what hides: the modules, special methods, bases and stores below, which training scripts use.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tracelens.messages import say
from tracelens.patch.effects import syntax
from tracelens.patch.effects.kept_builtins import ALL_BUILTINS, kept
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import imported
from tracelens.patch.effects.words import words

_WHOLE = words(
    "__future__ abc argparse ast base64 bisect copy csv datetime distutils enum errno fcntl fnmatch fractions getpass "
    "glob gzip hashlib heapq html itertools json math numbers os pathlib platform pprint random re shutil statistics "
    "string subprocess tarfile tempfile textwrap time typing unicodedata uuid zipfile"
)
"""Modules of the standard library that hide nothing."""
_PARTS: Mapping[str, frozenset[str]] = {
    "collections": words("Counter OrderedDict abc defaultdict deque namedtuple"),
    "contextlib": words("contextmanager nullcontext suppress"),
    "decimal": words("Decimal ROUND_HALF_EVEN ROUND_HALF_UP"),
    "dataclasses": words("asdict astuple dataclass field fields is_dataclass replace"),
    "functools": words("cache cached_property lru_cache partial reduce wraps"),
    "gc": words("collect disable enable freeze isenabled"),
    "inspect": words("getfile getfullargspec getmembers getsource isclass isfunction signature"),
    "io": words("BytesIO StringIO open"),
    "logging": words(
        "CRITICAL DEBUG ERROR FileHandler Formatter INFO Logger StreamHandler WARNING basicConfig critical debug "
        "disable error exception getLogger handlers info log warn warning"
    ),
    "logging.handlers": words("RotatingFileHandler SysLogHandler WatchedFileHandler"),
    "multiprocessing": words("cpu_count freeze_support set_start_method"),
    "operator": words("add itemgetter mul sub truediv"),
    "pdb": words("set_trace"),
    "pickle": words("HIGHEST_PROTOCOL UnpicklingError dump dumps load loads"),
    "socket": words("gethostname"),
    "struct": words("calcsize pack unpack unpack_from"),
    "sys": words(
        "argv byteorder executable exit float_info getsizeof maxsize path platform stderr stdin stdout version "
        "version_info"
    ),
    "timeit": words("default_timer"),
    "traceback": words("format_exc format_exception format_tb print_exc print_exception print_tb"),
    "urllib": words("error parse request"),
    "urllib.request": words("urlretrieve"),
    "warnings": words("catch_warnings filterwarnings simplefilter warn"),
}
"""What hides nothing in those that could."""
_LAST_WORDS = ("os._exit", "os.abort", "os.exec", "os.kill", "rich.traceback")
"""What ends the process before anybody can run what waits, or shows the values of variables when an error ends it."""
_METHODS = words(
    "__init__ __call__ __len__ __getitem__ __iter__ __next__ __enter__ __exit__ __repr__ __str__ __post_init__ "
    "__setstate__ __getstate__"
)
"""Special methods that run where the text shows it: at a call, an index, a loop, a `with`, a line that is written."""
_CALLS = words("__import__ compile delattr eval exec globals memoryview")
_BY_WORD = _CALLS | words("breakpoint dir locals setattr vars") | words(ALL_BUILTINS)
"""Builtins that are looked for by their own name where they are called."""
_FILLS = words("clear pop setdefault update")
_LAZY = words("chain enumerate filter islice iter map reversed tqdm zip")
"""What goes through its arguments when it is gone through itself."""
_GONE_THROUGH = words("difference extend from_iterable intersection join union update writelines writerows")
"""Methods that go through their arguments at once."""
_FRAMES = words("cr_frame f_back f_globals f_locals gi_frame set_defaults tb_frame")
"""Ways to variables of other code; a parser's defaults turn up as attributes of what it parses."""
_COUNTED = words("function_events key_averages total_average")
"""How a profiler shows the operations that ran: a read that waits is another one, and a copy of its tensor comes before
it."""
_READS = words("detach item tolist")
"""Methods that a patch puts in one another's place, which is right for tensors."""
_SHOWN = words("__class__ __dict__ __doc__ __file__ __module__ __name__ __qualname__ __version__")
_REPLACED = words("backward forward item param_groups parameters state_dict to tolist zero_grad")
"""Names of torch's methods that no object has for its data."""
_BASES = words("bool bytearray bytes complex dict float frozenset int list property set str super tuple type")
_TENSORS = words("Tensor TorchFunctionMode TorchDispatchMode")
_LIBRARIES = (
    *("torch.library", "torch.nn.utils.parametrize", "torch.overrides", "torch.utils._", "torch.utils.dlpack"),
    *("torch.from_dlpack", "torch.cuda.memory", "torch.cuda.max_memory", "torch.cuda.mem_get_info", "numpy.seterr"),
)
"""Other libraries' parts: what waits is a part of the memory that some count, and is computed as others say later."""
_OF_FRAMES = words("builtins gc inspect sys")
"""Modules that a library's own modules have, too: `torch.builtins.locals`."""
_SETTINGS = ("matplotlib.", "torch.backends.", "torch._dynamo.config.", "torch._inductor.config.")


@dataclass(frozen=True)
class _File:
    """What the names of a file mean: those that it imports from libraries, in full, and those that are functions."""

    imported: Mapping[str, str]
    functions: frozenset[str]


def unusual(tree: ast.Module, is_own: Callable[[str], bool]) -> tuple[int, str] | None:
    """The line of the first thing outside of it, and what that is. `is_own`: whether a module is the project's."""
    nodes = tuple(syntax.walk(tree))
    names = dict(pair for node in nodes for pair in imported(node) if not pair[1].startswith("."))
    own = {name for name, full in names.items() if is_own(full)}
    defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    file = _File({name: full for name, full in names.items() if name not in own}, frozenset(own | defined))
    taken = ((one.lineno, say("`{name}` as a value", name=one.id)) for one in kept(tree, _BY_WORD))
    return min((*taken, *(place for node in nodes for place in _unusual(node, file))), default=None)


def hides(full: str) -> bool:
    """Whether a part of a library, by its full name, is outside of it: under whatever name a file has it."""
    return not _is_known(full)


def _unusual(node: ast.AST, file: _File) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names, level=0):
            libraries = (file.imported.get(one.asname or one.name.partition(".")[0], "") for one in names)
            yield from ((node.lineno, f"`{one}`") for one in libraries if not _is_known(one))
        case ast.Attribute():
            yield from _unusual_attribute(node, file)
        case ast.Assign(value=value, targets=targets) if _goes_on(value) and all(map(_takes_apart, targets)):
            return  # `x, y = (part.to(device) for part in batch)` goes through it at once
        case ast.Assign(value=value) | ast.NamedExpr(value=value) | ast.AnnAssign(value=value) if _goes_on(value):
            yield node.lineno, say("a generator expression with a name")
        case ast.Return(value=value) | ast.Yield(value=value) if _goes_on(value):
            yield node.lineno, say("a generator expression that is handed on")
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts) if any(map(_goes_on, parts)):
            yield node.lineno, say("a generator expression that is kept")
        case ast.Assign(value=value, targets=targets):
            for target in (part for one in targets for part in _stored_in(one)):
                if isinstance(target, ast.Attribute) and _hides(target, value, file):
                    yield node.lineno, say("an assignment to `{target}`", target=ast.unparse(target))
        case ast.AsyncFunctionDef() | ast.FunctionDef():
            yield from _unusual_function(node)
        case ast.ClassDef():
            yield from _unusual_class(node, file.imported)
        case ast.Call():
            yield from _unusual_call(node, file)


def _unusual_call(node: ast.Call, file: _File) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield node.lineno, f"`{name}`"
        case ast.Call(func=ast.Attribute(attr="events"), args=[], keywords=[]):
            yield node.lineno, "`events`"
        case ast.Call(func=ast.Attribute(attr="catch_warnings"), keywords=[_, *_]):
            yield node.lineno, say("`catch_warnings` that keeps the warnings")
        case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
            yield node.lineno, say("`type` with three arguments")
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="__dict__"), attr=method)) if method in _FILLS:
            yield node.lineno, f"`__dict__.{method}`"
        case ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id=name)]) if name in file.imported:
            yield node.lineno, f"`vars({name})`"
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, name, value]):
            attribute = ast.Attribute(owner, str(name.value) if isinstance(name, ast.Constant) else "", ast.Store())
            if _hides(attribute, value, file) or not (isinstance(name, ast.Constant) or _is_self(owner)):
                yield node.lineno, f"`{ast.unparse(node)}`"
        case ast.Call(args=values, keywords=words) if _is_kept_by(node, file):
            if any(map(_goes_on, (*values, *(word.value for word in words)))):
                yield node.lineno, say("a generator expression that is handed on")


def _goes_on(value: ast.expr | None) -> bool:
    """Whether a value is a generator expression, or goes through one later: it runs where nobody can read it."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.GeneratorExp)
    return last_name(value.func) in _LAZY and any(map(_goes_on, value.args))


def _is_kept_by(call: ast.Call, file: _File) -> bool:
    """Whether a call may keep a generator expression that it is handed."""
    if isinstance(call.func, ast.Name):
        return call.func.id in file.functions
    return isinstance(call.func, ast.Attribute) and not (
        call.func.attr in _GONE_THROUGH or call.func.attr in _LAZY or _full(call.func, file.imported)
    )


def _unusual_attribute(node: ast.Attribute, file: _File) -> Iterator[tuple[int, str]]:
    full = _full(node, file.imported)
    dunder = node.attr.startswith("__") and node.attr.endswith("__")
    if node.attr in _FRAMES | _COUNTED or (dunder and node.attr not in _METHODS | _SHOWN):
        yield node.lineno, f"`{node.attr}`"
    elif isinstance(node.ctx, ast.Store) and dunder:
        yield node.lineno, say("an assignment to `{name}`", name=ast.unparse(node))
    elif isinstance(node.ctx, ast.Load) and full is not None and not _is_known(full):
        yield node.lineno, f"`{full}`"


def _takes_apart(target: ast.expr) -> bool:
    """Whether an assignment gives the parts of a value to names."""
    return isinstance(target, (ast.Tuple, ast.List)) and all(isinstance(one, ast.Name) for one in target.elts)


def _stored_in(target: ast.expr) -> Iterator[ast.expr]:
    """A target and what it is a part of; an index only says which part: `labels[torch.rand(8) < 0.3] = -100`."""
    yield target
    for inner in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [getattr(target, "value", None)]:
        if inner is not None:
            yield from _stored_in(inner)


def _hides(target: ast.Attribute, value: ast.expr, file: _File) -> bool:
    """Whether something else stands in the place of a library's part, or of a method, from then on."""
    if isinstance(value, ast.Constant):
        return False
    full = _full(target, file.imported)
    if full is not None:
        return not full.startswith(_SETTINGS)
    values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    is_function = any(
        isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in file.functions) for one in values
    )
    return not _is_self(target.value) and (is_function or target.attr in _REPLACED)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _unusual_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.AsyncFunctionDef):
        yield node.lineno, "`async`"
    elif node.name.startswith("__") and node.name.endswith("__") and node.name not in _METHODS:
        yield node.lineno, f"`{node.name}`"


def _unusual_class(node: ast.ClassDef, imported: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    for word in node.keywords:
        yield node.lineno, say("`{name}=` of a class", name=word.arg or "**")
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in _READS:
            yield part.lineno, say("`{name}` of a class", name=part.name)
    for base in node.bases:
        full = _full(base, imported) or (base.id if isinstance(base, ast.Name) else "")
        if full in _BASES or full.rpartition(".")[2] in _TENSORS:
            yield node.lineno, say("a class made of `{full}`", full=full)


def _full(node: ast.expr, imported: Mapping[str, str]) -> str | None:
    """The full name of a part of a library's module; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in imported:
        return None
    return ".".join((imported[node.id], *reversed(parts)))


def _is_known(full: str) -> bool:
    """Whether a name hides nothing. What other libraries do is the vocabulary's matter."""
    module, _, rest = full.partition(".")
    if full.startswith(_LAST_WORDS):
        return False
    if module not in sys.stdlib_module_names:
        return not full.startswith(_LIBRARIES) and _OF_FRAMES.isdisjoint(rest.split("."))
    inner, _, part = rest.partition(".")
    if part and f"{module}.{inner}" in _PARTS:
        return part.partition(".")[0] in _PARTS[f"{module}.{inner}"]
    if module in _PARTS:
        return not inner or inner in _PARTS[module]
    return module in _WHOLE
