"""Where the modules that a training loop calls are at home: the place for a line that is about them once.

In: a parsed file. Out: `Home`s, each with the statement that the line goes above or below, and the name that the module
has there. A module that a function is given is followed to the calls of that function, through the project's files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tracelens.messages import say
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.loop.forward_pass import ForwardPass, Unclear, forward_pass_of
from tracelens.patch.loop.module_calls import KEEP_IT, MOST_CALLS, ModuleCalls, module_calls
from tracelens.patch.loop.project_trees import above, dotted, full_name
from tracelens.patch.loop.training_loops import FunctionNode, function_around, outermost_loop

BY_HAND = say("do it where the model is made")
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, eq=False)
class Home:
    """A module where its name is bound: the line goes above the loop, or below the statement that binds it."""

    path: Path
    name: str
    statement: ast.stmt
    above: bool
    made: str
    """The full name of what makes it; "" where that is not told."""
    bound: tuple[ast.AST, ...]
    """What is known to make it: statements that bind it, or what a class is given."""
    calls: tuple[ast.Call, ...]
    """The calls of it in forward passes, as far as they are calls by this very name's object."""


@dataclass(frozen=True, eq=False)
class _Use:
    """A name of a module at a node of a file."""

    path: Path
    node: ast.AST
    name: str


@lru_cache(maxsize=PARSED_FILES)
def homes(source: SourceFile) -> tuple[Home | Unclear, ...]:
    """Of each module that a forward pass of the project calls, once; with what is not clear of its forward passes."""
    modules = module_calls(source)
    found: dict[tuple[Path, int, str], Home] = {}
    unclear: list[Unclear] = []
    for path, tree in source.trees.items():
        for one in forward_pass_of(tree, modules):
            if isinstance(one, Unclear):
                unclear.append(one.at(path))
                continue
            for use, call in _uses(modules, path, one):
                try:
                    for home in _homes(modules, use, call, 0):
                        _add(found, home)
                except Unclear as why:
                    unclear.append(why.at(use.path))
    return (*found.values(), *unclear)


def _add(found: dict[tuple[Path, int, str], Home], home: Home) -> None:
    """A module that two loops call has one home: above the first of them."""
    key = home.path, id(home.bound[0]), home.name
    known = found.get(key)
    first = home if known is None or home.statement.lineno < known.statement.lineno else known
    found[key] = replace(first, calls=(*(known.calls if known is not None else ()), *home.calls))


def _uses(modules: ModuleCalls, path: Path, forward: ForwardPass) -> Iterator[tuple[_Use, ast.Call]]:
    """The modules that the statements call, themselves or in the project's functions that they call."""
    seen: set[str] = set()
    waiting: list[tuple[Path, ast.AST]] = [(path, statement) for statement in forward.statements]
    while waiting:
        where, part = waiting.pop(0)
        for call in (node for node in syntax.walk(part) if isinstance(node, ast.Call)):
            module, name = modules.called(call), last_name(call.func)
            if module is not None:
                yield _Use(where, call, dotted(module)), call
            elif name not in seen:
                seen.add(name)
                waiting += [(modules.files[id(function)], function) for function in modules.functions.get(name, ())]


def _homes(modules: ModuleCalls, use: _Use, call: ast.Call, depth: int) -> Iterator[Home]:
    """Raises `Unclear` where a name leads nowhere."""
    tree = modules.trees[use.path]
    if use.name.startswith("self."):
        yield _home_of_object(modules, use, call)
        return
    if not use.name or "." in use.name:
        raise Unclear(use.node, say("the module is called by `{name}`", name=ast.unparse(call.func)), BY_HAND)
    for function in (*(one for one in above(tree, use.node) if isinstance(one, FunctionNode)), None):
        body = function.body if function is not None else tree.body
        nested = function is not function_around(tree, use.node)
        known = _bindings(body, use.name)
        statements = [one for one in known if _is_before(one, use.node) or (nested and _makes(modules, tree, one))]
        if statements:
            yield _home(modules, use, call, statements)
            return
        if function is not None and use.name in [one.arg for one in function.args.args]:
            yield from _homes_of_callers(modules, function, use, call, depth)
            return
    raise Unclear(use.node, say("where `{name}` is made cannot be told", name=use.name), BY_HAND)


def _is_before(statement: ast.stmt, node: ast.AST) -> bool:
    """Whether a statement ends above a node: `model = train(model)` binds what has been trained by then."""
    return (statement.end_lineno or statement.lineno) < getattr(node, "lineno", 0)


def _makes(modules: ModuleCalls, tree: ast.Module, statement: ast.stmt) -> bool:
    """Whether a statement makes a module or moves it: a function may stand above the lines that make its globals."""
    value = getattr(statement, "value", None)
    moved = isinstance(value, ast.Call) and last_name(value.func) in KEEP_IT
    return moved or bool(_made(modules, tree, statement))


def _home(modules: ModuleCalls, use: _Use, call: ast.Call, statements: list[ast.stmt]) -> Home:
    """Above the loop around the use, where these statements stand above it in its own function; else below them."""
    tree, last = modules.trees[use.path], statements[-1]
    made = next((made for one in statements if (made := _made(modules, tree, one))), "")
    same = function_around(tree, use.node) is function_around(tree, last)
    loop = outermost_loop(tree, use.node) if same else None
    if loop is not None and loop.lineno > (last.end_lineno or last.lineno):
        return Home(use.path, use.name, loop, True, made, tuple(statements), (call,))
    return Home(use.path, use.name, last, False, made, tuple(statements), (call,))


def _homes_of_callers(
    modules: ModuleCalls, function: FunctionNode, use: _Use, call: ast.Call, depth: int
) -> Iterator[Home]:
    """The homes of what a function is given, at each of its calls."""
    place = [one.arg for one in function.args.args].index(use.name)
    method = isinstance(next(above(modules.trees[use.path], function), None), ast.ClassDef)
    calls = list(_calls_of(modules, function.name, method))
    if not calls or depth >= MOST_CALLS:
        raise Unclear(function, say("who calls `{name}` cannot be told", name=function.name), BY_HAND)
    for path, node in calls:
        named = next((one.value for one in node.keywords if one.arg == use.name), None)
        at = place - 1 if method else place
        given = named if named is not None else node.args[at] if at < len(node.args) else None
        if given is None or any(isinstance(one, ast.Starred) for one in node.args):
            raise Unclear(node, say("what `{name}` is given cannot be told", name=function.name), BY_HAND)
        yield from _homes(modules, _Use(path, node, dotted(given)), call, depth + 1)


def _calls_of(modules: ModuleCalls, name: str, method: bool) -> Iterator[tuple[Path, ast.Call]]:
    """The calls of a function or method; `net.train()` is none of a function `train`."""
    for path, tree in modules.trees.items():
        for node in syntax.walk(tree):
            if isinstance(node, ast.Call) and last_name(node.func) == name:
                owner = node.func.value if isinstance(node.func, ast.Attribute) else None
                imported = full_name(tree, owner) != dotted(owner)
                own = last_name(owner) not in modules.names if method else owner is None or imported
                if own:
                    yield path, node


def _home_of_object(modules: ModuleCalls, use: _Use, call: ast.Call) -> Home:
    """Below the statement of the class that stores it."""
    tree = modules.trees[use.path]
    owner = next((one for one in above(tree, use.node) if isinstance(one, ast.ClassDef)), None)
    methods = [one for one in owner.body if isinstance(one, ast.FunctionDef)] if owner is not None else []
    for method in methods:
        statements = _bindings(method.body, use.name)
        if statements and owner is not None:
            bound = (*statements, *_given(modules, owner, method, statements))
            made = next((made for one in bound if (made := _made(modules, tree, one))), "")
            return Home(use.path, use.name, statements[-1], False, made, bound, (call,))
    raise Unclear(use.node, say("where `{name}` is made cannot be told", name=use.name), BY_HAND)


def _given(
    modules: ModuleCalls, owner: ast.ClassDef, method: ast.FunctionDef, statements: list[ast.stmt]
) -> Iterator[ast.AST]:
    """What the objects of a class are given for the names that these statements of its `__init__` read."""
    read = {node.id for one in statements for node in syntax.walk(one) if isinstance(node, ast.Name)}
    names = [one.arg for one in method.args.args[1:]]
    if method.name != "__init__":
        return
    for path, call in _calls_of(modules, owner.name, method=False):
        named = {one.arg: one.value for one in call.keywords}
        for place, name in enumerate(names):
            value = named.get(name) or (call.args[place] if place < len(call.args) else None)
            if name in read and value is not None:
                yield value
                scope = function_around(modules.trees[path], call)
                if isinstance(value, ast.Name):
                    yield from _bindings(scope.body if scope is not None else modules.trees[path].body, value.id)


def _bindings(body: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements that bind a name, in the innermost block that holds all of them: what binds it below a condition
    is the condition, and in a script whose work stands below `if __name__ == "__main__":` it is the line there."""
    found = [one for one in body if not isinstance(one, _APART) and _binds(one, name)]
    while len(found) == 1 and isinstance(found[0], ast.If | ast.With | ast.Try):
        inner = [[one for one in block if _binds(one, name)] for block in _blocks(found[0])]
        holding = [block for block in inner if block]
        if len(holding) != 1:
            break
        found = holding[0]
    return found


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body


def _binds(statement: ast.stmt, name: str) -> bool:
    nodes = (node for node in syntax.walk(statement) if isinstance(node, ast.Name | ast.Attribute))
    return any(isinstance(node.ctx, ast.Store) and dotted(node) == name for node in nodes)


def _made(modules: ModuleCalls, tree: ast.Module, node: ast.AST) -> str:
    values = [part.value for part in syntax.walk(node) if isinstance(part, ast.Assign)]
    values += [node] if isinstance(node, ast.expr) else []
    return next((made for value in values if (made := modules.made(tree, value))), "")
