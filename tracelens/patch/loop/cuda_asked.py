"""Whether it matters that a line asks for a GPU: from the first such question on the process uses CUDA.

In: a call of a file, at which `torch.cuda.is_available()` would be asked, and the files that run together. Out: what is
not known, as a clause. CUDA_VISIBLE_DEVICES is not read again after the question, and a forked child cannot use CUDA.
Where the file has asked before, on every way to the call, or no file does such things, nobody notices.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import around, last_name, nodes_in, path_to
from tracelens.patch.effects.project import ProjectFile
from tracelens.patch.effects.scopes import FUNCTIONS
from tracelens.patch.effects.words import words
from tracelens.patch.loop.project_trees import full_name, own_tree

_ASKS = frozenset(
    f"torch.cuda.{name}"
    for name in words(
        "is_available init set_device current_device synchronize mem_get_info get_device_name get_device_properties"
        " get_device_capability"
    )
)
"""`device_count` is none: it asks the driver's tool where it can."""
_WORDS = re.compile(r"environ|putenv|dotenv|fork|multiprocess|ProcessPool|billiard|pathos|VISIBLE_DEVICES")
_CHOOSES = re.compile(r"\w*VISIBLE_DEVICES|(CUDA|NVIDIA|HIP|HSA)_\w+")
_READS = re.compile(r"(environ\.get|getenv)$")
_CHANGES = re.compile(r"(environ\.(update|setdefault|pop|clear|__setitem__)|putenv|unsetenv|load_dotenv)$")
_FORKS = frozenset({"os.fork", "os.forkpty", "pty.fork", "concurrent.futures.ProcessPoolExecutor"})
_PROCESSES = words("Process ForkProcess Pool ProcessPool ProcessingPool Manager BaseManager SyncManager")
_OF_PROCESSES = re.compile(r"(torch\.)?multiprocessing\b|multiprocess\b|billiard\b|pathos\b")
_FRESH = ("spawn", "forkserver")
_CALLERS = 3
"""Functions that are followed to their callers, one after the other."""


def doubt(source: SourceFile, call: cst.Call) -> str:
    """Why it is not known that nobody notices the question; "" where it is."""
    tree = own_tree(source)
    node = next((one for one in nodes_in(tree, source.place(call))), None)
    earlier = [] if node is None else _earlier(source, tree, node, _CALLERS)
    if any(_asks(tree, part) for one in earlier for part in _certain(one)):
        return ""
    done = {id(part) for one in earlier for part in _own(one)}
    started = [] if source.entry is None else [source.entry]
    for path in (source.path, *source.project.around(source.path, *started)):
        file = source.project.file(path)
        if file is None or file.tree is None or not _WORDS.search(file.text):
            continue
        for part in syntax.walk(file.tree):
            if isinstance(part, (ast.expr, ast.keyword)) and (told := _notices(file, part, done)):
                return told
    return ""


def _notices(file: ProjectFile, node: ast.expr | ast.keyword, done: set[int]) -> str:
    """What a part of a file may do that comes out otherwise behind the question."""
    assert file.tree is not None
    place = f"{file.shown}:{node.lineno}"
    if id(node) not in done and _chooses(file.tree, node):
        return say("whether {place} chooses the GPU before the loader asks for one is not known", place=place)
    if _forks(file.tree, node):
        return say(
            "whether {place} starts processes that use a GPU after the loader asks for one is not known", place=place
        )
    return ""


# ------------------------------------------------------------------------------------------------- what runs before


def _earlier(source: SourceFile, tree: ast.Module, node: ast.AST, callers: int) -> list[ast.AST]:
    """Statements, and heads of statements, that were run before a node on every way to it."""
    path = path_to(tree, node)
    out: list[ast.AST] = []
    for outer, inner in itertools.pairwise(path):
        blocks = (getattr(outer, name, None) for name in ("body", "orelse"))
        for block in (one for one in blocks if isinstance(one, list) and inner in one):
            out += [*_heads(outer), *block[: block.index(inner)]]
        out += [inner] if isinstance(inner, ast.stmt) and not hasattr(inner, "body") else []
    function = next((one for one in path if isinstance(one, (*FUNCTIONS, ast.ClassDef))), None)
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or not callers:
        return out  # a method may be called by anybody
    if not source.project.importers(source.path):
        ways = [_earlier(source, tree, call, callers - 1) for call in _calls(tree, function.name)]
        out += [one for one in ways[0] if all(one in way for way in ways)] if ways else []
    return out


def _calls(tree: ast.Module, name: str) -> list[ast.Call]:
    """The calls of a function of the file; none where it is used in another way, too."""
    used = [node for node in syntax.walk(tree) if last_name(node) == name]
    outer = [around(tree).get(node) for node in used]
    calls = [one for one, node in zip(outer, used, strict=True) if isinstance(one, ast.Call) and one.func is node]
    return calls if len(calls) == len(used) else []


def _heads(node: ast.AST) -> list[ast.AST]:
    """What a compound statement evaluates before it comes to its body."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [one.context_expr for one in node.items]
    head = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else getattr(node, "test", None)
    return [head] if isinstance(head, ast.expr) else []


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A statement with all that is in it, but for the bodies of functions."""
    yield node
    if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
        for child in syntax.children(node):
            yield from _own(child)


def _certain(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that are evaluated whenever it runs."""
    yield node
    if isinstance(node, (ast.BoolOp, ast.IfExp, ast.If, ast.While)):
        yield from _certain(node.values[0] if isinstance(node, ast.BoolOp) else node.test)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from _certain(node.iter)
    elif not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.Try, ast.ListComp, ast.SetComp, ast.DictComp)):
        for child in syntax.children(node):
            yield from _certain(child)


def _asks(tree: ast.Module, node: ast.AST) -> bool:
    """`torch.cuda.is_available()`, `model.cuda()`, `x.to("cuda")`."""
    if not isinstance(node, ast.Call):
        return False
    first = node.args[0] if node.args else None
    named = isinstance(first, ast.Constant) and str(first.value).startswith("cuda")
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return full_name(tree, node.func) in _ASKS or method == "cuda" or (method == "to" and named)


# ------------------------------------------------------------------------------------------- who would notice it


def _chooses(tree: ast.Module, node: ast.AST) -> bool:
    """Whether a part of a file may say in the environment which GPUs there are."""
    outer = around(tree).get(node)
    if isinstance(node, ast.keyword):
        return node.arg is not None and bool(_CHOOSES.fullmatch(node.arg))
    if isinstance(node, ast.Constant):
        reads = isinstance(outer, ast.Subscript) and isinstance(outer.ctx, ast.Load)
        reads = reads or (isinstance(outer, ast.Call) and bool(_READS.search(ast.unparse(outer.func))))
        known = isinstance(node.value, str) and bool(_CHOOSES.fullmatch(node.value))
        return known and not reads and not isinstance(outer, (ast.Compare, ast.Expr))
    if isinstance(node, ast.Call) and _CHANGES.search(ast.unparse(node.func)):
        return not _names_all(node)
    stored = isinstance(node, (ast.Subscript, ast.Attribute, ast.Name)) and not isinstance(node.ctx, ast.Load)
    if not stored:
        return False
    owner = node.value if isinstance(node, ast.Subscript) else node
    constant = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    return last_name(owner) == "environ" and not constant


def _names_all(call: ast.Call) -> bool:
    """Whether a call that changes the environment says which variables: `environ.update(A="1")`, `putenv("A", "1")`."""
    first = call.args[0] if call.args else None
    keys = first.keys if isinstance(first, ast.Dict) else [first] if first is not None else []
    told = all(isinstance(key, ast.Constant) for key in keys) and all(one.arg for one in call.keywords)
    return told and bool(keys or call.keywords) and last_name(call.func) != "load_dotenv"


def _forks(tree: ast.Module, node: ast.AST) -> bool:
    """Whether a part of a file may start a process that goes on with the memory of this one."""
    full = full_name(tree, node)
    if full in _FORKS or (full.rpartition(".")[2] in _PROCESSES and bool(_OF_PROCESSES.match(full))):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    given = node.args[0] if node.args and name == "get_context" else None
    given = next((one.value for one in node.keywords if one.arg in ("method", "start_method")), given)
    fresh = isinstance(given, ast.Constant) and given.value in _FRESH
    return not fresh and (name == "get_context" or (given is not None and name in ("spawn", "start_processes")))
