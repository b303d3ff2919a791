"""Functions in other files of the project that a script imports: whether they write lines, draw, change settings.

In: a script and the project's root. Out: by a function's last name, what it does that a loop calling it could
notice. Read with Python's own parser and only as far as imports lead, because a project may be large. What is not a
file of the project is a library, and keeps to itself.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tracelens.patch.code.outside import FILES, OUTPUT, STREAMS, looked_at, words

MAX_FILES = 200
MAX_BYTES = 1 << 20
"""What is followed of a project's imports; a training script has fewer and shorter modules of its own."""
REMEMBERED = 2 * MAX_FILES
OF_A_LIBRARY = words(
    "step backward zero_grad to cuda cpu item detach append extend get items keys values size view reshape float long"
    " sum mean max min abs add mul div clone train eval parameters format join split numpy tolist"
)
"""Methods of tensors, optimizers and containers: a function of that name in the project is seldom what is called."""
STEPPERS = re.compile(r"optim|Optimizer$|Scheduler$", re.IGNORECASE)
STEPS = words("step zero_grad backward")
OWN_STEP = "step()"
"""Among the functions: `step` of the optimizers and schedulers that the project makes itself."""
LOGGING = words("debug info warning error critical exception")
_WRITES = words("write writelines writerow writerows")
_CHANCE = ("random.", "numpy.random.", "torch.rand", "torch.bernoulli", "torch.multinomial", "torch.normal")


@dataclass(frozen=True)
class Foreign:
    """One function: what it looks at (attributes of others than self as `*.x`), and what `settings` it stores into."""

    looks: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    draws: bool = False
    calls: frozenset[str] = frozenset()
    """Last names of what it calls in turn."""
    surely: frozenset[str] = frozenset()
    """Those among them that it calls on self or without an object: no other method can be meant."""
    uses: frozenset[str] = frozenset()
    """Names of its module that it looks at; a script may have imported one, and change what it stands for."""


Functions = Mapping[str, tuple[Foreign, ...]]


@dataclass(frozen=True)
class _Module:
    functions: Functions
    wanted: tuple[tuple[str, int], ...]
    """Modules that it imports, with the dots before their names."""


def functions(path: Path, root: Path, entry: Path | None = None) -> Functions:
    """All functions and methods of the project's other modules that can be behind a call in the file `path`.

    Also, without anything behind them, what their classes store on self: `self.model` of a base class is no method.
    """
    out: dict[str, tuple[Foreign, ...]] = {}
    for module in _followed(path, root, entry).values():
        for name, found in module.functions.items():
            out[name] = (*out.get(name, ()), *found)
    return out


def files(path: Path, root: Path, entry: Path | None = None) -> tuple[Path, ...]:
    """The project's modules that a file imports, directly or through others; not the file itself.

    `entry`: the script that was started, whose objects the file may be handed; with it come its own imports.
    """
    return tuple(_followed(path, root, entry))


def reached(names: Iterable[str], known: Functions, *, surely: bool = False) -> Foreign:
    """What the functions of these last names do, themselves or through one another.

    `surely`: not through `out.update(…)`, which can be a dict's. Of an object that is called (`model(x)`) nobody knows
    which of all `forward` it has, and through all methods of such names each of them would reach a `print`.
    """
    waiting, seen = list(names), set[str]()
    looks, settings, uses, draws = set[str](), set[str](), set[str](), False
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for one in known.get(name, ()):
            looks |= one.looks
            settings |= one.settings
            uses |= one.uses
            draws = draws or one.draws
            waiting += one.surely if surely else one.calls
    return Foreign(frozenset(looks), frozenset(settings), draws, uses=frozenset(uses))


def _followed(path: Path, root: Path, entry: Path | None = None) -> dict[Path, _Module]:
    out: dict[Path, _Module] = {}
    waiting = [path] if entry is None or entry == path else [path, entry]
    seen = set(waiting)
    while waiting and len(seen) <= MAX_FILES:
        current = waiting.pop(0)
        module = _read(current)
        if current != path:
            out[current] = module
        for name, dots in module.wanted:
            for found in _resolved(name, dots, current, root):
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
    return out


def _resolved(name: str, dots: int, importer: Path, root: Path) -> Iterator[Path]:
    """The file of a module, if the project has it; for `from a import b` both `a` and `a.b` are asked for."""
    parts = [part for part in name.split(".") if part]
    if dots:
        above = importer.parents
        bases = [above[dots - 1]] if dots <= len(above) else []
    else:
        bases = list(dict.fromkeys([importer.parent, *(p for p in importer.parents if p.is_relative_to(root)), root]))
    for base in bases:
        for candidate in (base.joinpath(*parts).with_suffix(".py"), base.joinpath(*parts, "__init__.py")):
            if parts and base.is_relative_to(root) and candidate.is_file():
                yield candidate
                return


def _read(path: Path) -> _Module:
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return _Module({}, ())
    return _parsed(data)


def parsed(data: bytes) -> ast.Module | None:
    """A file's tree by Python's own parser, without its warnings: they are about the user's code, and not for them
    here. None where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=REMEMBERED)
def _parsed(data: bytes) -> _Module:
    tree = parsed(data)
    if tree is None:
        return _Module({}, ())
    imports = dict(imported(tree))
    found: dict[str, tuple[Foreign, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = (*found.get(node.name, ()), _foreign(node, imports))
        elif isinstance(node, ast.ClassDef):
            made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
            found[node.name] = (*found.get(node.name, ()), *(_foreign(one, imports) for one in made))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.setdefault(f"self.{node.attr}", ())
        if isinstance(node, ast.ClassDef) and any(STEPPERS.search(ast.unparse(base)) for base in node.bases):
            steps = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "step"]
            found[OWN_STEP] = (*found.get(OWN_STEP, ()), *(_foreign(one, imports) for one in steps))
    return _Module(found, tuple(_wanted(tree)))


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a file imports, with their full ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"


def _wanted(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base, node.level
            yield from ((f"{base}.{alias.name}", node.level) for alias in node.names)


def _foreign(function: ast.FunctionDef | ast.AsyncFunctionDef, imports: Mapping[str, str]) -> Foreign:
    looks, settings, calls, surely, draws = set[str](), set[str](), set[str](), set[str](), False
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            full, method = full_name(node.func, imports), node.func.attr if isinstance(node.func, ast.Attribute) else ""
            found = looked_at(full, method, bool(node.args))
            looks |= found
            if full == "print" or method in LOGGING | _WRITES:
                looks.add(OUTPUT)
            if full == "open" or method in _WRITES:
                looks.add(FILES)
            draws = draws or full.startswith(_CHANCE)
            calls.add(_followed_name(node.func, full, imports))
            if isinstance(node.func, ast.Name) or full.startswith(("self.", "cls.")):
                surely.add(_followed_name(node.func, full, imports))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                looks.add(f"self.{node.attr}")
            else:
                looks.add(f"*.{node.attr}")
            if full_name(node, imports) in STREAMS:
                looks.add(OUTPUT)
            if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                settings.add(node.value.id)
    named = (frozenset(calls - {""}), frozenset(surely - {""}))
    return Foreign(frozenset(looks), frozenset(settings), draws, *named, _uses(function))


def _uses(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    found = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    own = {node.id for node in found if isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    return frozenset(node.id for node in found) - own


def _followed_name(called: ast.expr, full: str, imports: Mapping[str, str]) -> str:
    """The last name of what is called, "" for a method that tensors, containers and optimizers have."""
    if isinstance(called, ast.Attribute):
        root = called.value.id if isinstance(called.value, ast.Name) else ""
        return "" if called.attr in OF_A_LIBRARY and root not in ("self", "cls", *imports) else called.attr
    return full.rpartition(".")[2]


def assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment with their values: of `a, b = x, y` both pairs, as far as no star hides which."""
    for target in node.targets:
        if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
            yield target, node.value
            continue
        for pair in zip(target.elts, node.value.elts, strict=False):
            if any(isinstance(part, ast.Starred) for part in pair):
                break
            yield pair


def full_name(node: ast.expr, imports: Mapping[str, str]) -> str:
    """`torch.cuda.Event` for `cuda.Event` after `from torch import cuda`; "" for no plain name."""
    if isinstance(node, ast.Name):
        return imports.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        base = full_name(node.value, imports)
        return f"{base}.{node.attr}" if base else ""
    return ""
