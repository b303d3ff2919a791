"""What worker processes ask of a loader's data set: that it can go to them, and that they may share it.

In: a `DataLoader(…)` call and its file. Out: in words why workers can be started, or `Blocked` with what stands in the
way. Read from the source: a data set that is made elsewhere is followed through names of this file only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import (
    FileNames,
    dotted,
    key,
    method_of,
    own_names,
    rebound,
    root_key,
    targets,
    values_assigned,
    variables,
    walk,
)
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loaders import has_hidden_arguments, keyword
from tracelens.patch.loop.loops import BUILTINS, Blocked, own_nodes

Bodies = Sequence[cst.BaseSuite]
"""What runs per batch: the bodies of a loop and of its step functions."""
_OPEN_HANDLES = ("h5py.File(", "lmdb.open(", "sqlite3.connect(", "zipfile.ZipFile(")
_STREAMS = ("IterableDataset", "IterDataPipe", "webdataset", "streaming=True")
_KEEPS = words("append extend insert pop popleft remove add")
"""Methods of containers that leave them changed; a cache (`self.items[i] = …`) gives the same items in each worker."""
TENSOR_SETS = ("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
_OF_THE_USER = {"sampler", "batch_sampler", "collate_fn", "worker_init_fn", "generator", "multiprocessing_context"}
_POSITIONAL_PLAIN = 3
"""Arguments of a DataLoader by their position that are plain: the data set, the batch size, whether to shuffle."""
_POSITIONS = {"dataset": 0, "collate_fn": 6, "worker_init_fn": 10, "multiprocessing_context": 11}


def startable(source: SourceFile, call: cst.Call, bodies: Bodies, default: str) -> str:
    """How workers of this loader can be started, in words; raises `Blocked` where they could not, or would repeat.

    `bodies`: what runs per batch. `default`: how they are started where the script does not choose.
    """
    _check_dataset(source, call)
    _check_items(source, call, bodies)
    context = keyword(call, "multiprocessing_context", _POSITIONS["multiprocessing_context"])
    chosen = _chosen_method(source)
    pickles = _cannot_be_pickled(source, call)
    guarded = _guarded(source)
    if pickles is None and guarded:
        return say(
            "the script has a main guard and its data set looks picklable, so workers start by fork and by spawn"
        )
    if context is not None or chosen in ("spawn", "forkserver"):
        raise Blocked(call, pickles or say("the script has no main guard, and its workers are not forked"), _MAIN_GUARD)
    if default != "fork" and chosen != "fork":
        why = pickles or say("the script has no main guard")
        raise Blocked(
            call, say("{why}, and this Python starts workers by {default}", why=why, default=default), _MAIN_GUARD
        )
    return say(
        "{pickles}, so workers must be forked, as Linux does up to Python 3.13",
        pickles=pickles or say("the script has no main guard"),
    )


_MAIN_GUARD = say("put the script below `if __name__ == '__main__':`, and functions and classes at the top of a file")


def holds_tensors(source: SourceFile, names: FileNames, call: cst.Call) -> bool:
    """Whether the data set is a TensorDataset, made in this file, and nothing else of the loader is the user's: then no
    random number is drawn where an item is made. The order of the items is drawn before, and the same."""
    return is_data_of(source, call, lambda made: names.qualified(made.func) in TENSOR_SETS)


def is_data_of(source: SourceFile, call: cst.Call, known: Callable[[cst.Call], bool]) -> bool:
    """Whether the data set is made in this file by calls that are `known`, and nothing else of the loader is the
    user's."""
    given = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    if (
        given & _OF_THE_USER
        or has_hidden_arguments(call)
        or len([a for a in call.args if a.keyword is None]) > _POSITIONAL_PLAIN
    ):
        return False
    dataset = keyword(call, "dataset", _POSITIONS["dataset"])
    made = [dataset, *(node for node in _made(source, call) if node is not dataset)]
    calls = [node for node in made if isinstance(node, cst.Call)]
    sets = [node for node in calls if known(node)]
    name = dotted(dataset) if isinstance(dataset, (cst.Name, cst.Attribute)) else ""
    if not name:
        return isinstance(dataset, cst.Call) and dataset in sets
    values = values_assigned((name,), walk(source.module))
    return bool(values) and all(any(value is one for one in sets) for value in values)


def check_same_in_workers(call: cst.Call, bodies: Bodies) -> None:
    """Raise `Blocked` where the loop changes its data set: workers would not see that."""
    given = keyword(call, "dataset", _POSITIONS["dataset"])
    name = root_key(given) if given is not None else None
    for node in (part for body in bodies for part in walk(body)):
        if isinstance(node, cst.Attribute) and node.attr.value == "dataset":
            raise Blocked(node, say("the loop uses the data set of its loader"), say("change it between two epochs"))
        touches = isinstance(node, (cst.Name, cst.Attribute)) and name is not None
        if touches and isinstance(node, cst.Name) and node.value == name:
            raise Blocked(
                node, say("the loop uses its data set `{name}`", name=name), say("change it between two epochs")
            )


def _check_items(source: SourceFile, call: cst.Call, bodies: Bodies) -> None:
    """Raise `Blocked` where making an item leaves something behind, or looks at what the training changes."""
    imported = set(source.names.imports) | set(source.names.functions) | set(source.names.classes) | BUILTINS
    changed = {name for body in bodies for node in own_nodes(body) for name in _changed(node)} - imported
    for made in _classes(source, call):
        for part in walk(made):
            if not (isinstance(part, cst.FunctionDef) and part.name.value in ("__getitem__", "__getitems__")):
                continue
            own = own_names(part)
            used = {v.value for v in variables(part.body) if isinstance(v, cst.Name)} - own
            if used & changed:
                obstacle = say("`__getitem__` looks at `{used}`, which the loop changes", used=min(used & changed))
                raise Blocked(
                    part,
                    say("{obstacle}: workers would not see that", obstacle=obstacle),
                    say("hand it to the loop, not to the items"),
                )
            left = next((node for node in walk(part.body) if _leaves_behind(node, own)), None)
            if left is not None:
                obstacle = say(
                    "`__getitem__` counts, takes from a list or prints, which each worker would do for itself"
                )
                raise Blocked(left, obstacle, say("make an item of its number alone"))


def _changed(node: cst.CSTNode) -> set[str]:
    """The names that a statement of the loop binds, or whose objects it stores into or calls."""
    out = set(rebound(node)) if isinstance(node, cst.BaseSmallStatement) else set()
    if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
        out |= {root.partition(".")[0] for target in targets(node) if (root := root_key(target)) is not None}
    elif isinstance(node, cst.Call):
        called = node.func.value if isinstance(node.func, cst.Attribute) else node.func
        out |= {called.value} if isinstance(called, cst.Name) else set()
    return out


def _leaves_behind(node: cst.CSTNode, own: set[str]) -> bool:
    if isinstance(node, (cst.Global, cst.Nonlocal)):
        return True
    if isinstance(node, cst.AugAssign):
        return (root_key(node.target) or "").startswith("self.")
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute):
        root = root_key(node.func.value) or ""
        return node.func.attr.value in _KEEPS and root not in own and bool(root)
    return dotted(node.func) in ("next", "print")


def _check_dataset(source: SourceFile, call: cst.Call) -> None:
    text = source.project_text
    for word in _STREAMS:
        if word in text:
            obstacle = say(
                "a data set of the project may be a stream (`{word}`), which each worker would read as a whole",
                word=word,
            )
            raise Blocked(call, obstacle, say("share it out by get_worker_info(), then give it workers"))
    for word in _OPEN_HANDLES:
        if word in text:
            obstacle = say("the project keeps a file open (`{word}…)`), which forked workers would share", word=word)
            raise Blocked(call, obstacle, say("open it in each worker, then give it workers"))
    for node in _made(source, call):
        if _on_gpu(node):
            raise Blocked(
                node, say("the data set is on the GPU, which forked workers cannot use"), say("keep it on the CPU")
            )
    for given in _classes(source, call):
        for part in walk(given):
            if isinstance(part, cst.FunctionDef) and part.name.value == "__getitem__" and _on_gpu(part):
                by_hand = say("return CPU tensors from __getitem__, and copy the batch")
                raise Blocked(part, say("`__getitem__` uses the GPU, which forked workers cannot"), by_hand)


def _made(source: SourceFile, call: cst.Call) -> list[cst.CSTNode]:
    """The expressions that make what the loader is given, in this file."""
    given = [a.value for a in call.args if a.keyword is None or a.keyword.value in _POSITIONS]
    names = ({dotted(value) for value in given} | {key(v) for value in given for v in variables(value)}) - {""}
    return [*given, *values_assigned(names, walk(source.module))]


def _classes(source: SourceFile, call: cst.Call) -> list[cst.ClassDef]:
    made = _made(source, call)
    called = {dotted(part.func) for node in made for part in walk(node) if isinstance(part, cst.Call)}
    return [node for name, node in source.names.classes.items() if name in called]


def _on_gpu(node: cst.CSTNode) -> bool:
    for part in walk(node):
        if not isinstance(part, cst.Call):
            continue
        method = method_of(part)
        words = [a.value for a in part.args if a.keyword is not None and a.keyword.value == "device"]
        if method == "cuda" or (method == "to" and part.args) or words:
            return True
    return False


def _cannot_be_pickled(source: SourceFile, call: cst.Call) -> str | None:
    """Why the loader's data set or functions would not survive the way to a process that was not forked."""
    for node in _made(source, call):
        if any(isinstance(part, cst.Lambda) for part in walk(node)):
            return say("the data set or a function of the loader is a lambda")
        if any(isinstance(part, cst.GeneratorExp) for part in walk(node)) and isinstance(node, cst.GeneratorExp):
            return say("the data set is a generator")
    inside = {n.name.value for f in walk(source.module) if isinstance(f, cst.FunctionDef) for n in _inner(f)}
    used = {dotted(part.func) for node in _made(source, call) for part in walk(node) if isinstance(part, cst.Call)}
    used |= {dotted(node) for node in _made(source, call) if isinstance(node, (cst.Name, cst.Attribute))}
    local = sorted(inside & used)
    return say("`{local}` is defined inside a function", local=local[0]) if local else None


def _inner(function: cst.FunctionDef) -> list[cst.ClassDef | cst.FunctionDef]:
    return [node for node in own_nodes(function) if isinstance(node, (cst.ClassDef, cst.FunctionDef))]


def _guarded(source: SourceFile) -> bool:
    """Whether the training starts below a main guard, or in a file that others import."""
    return any(isinstance(node, cst.If) and "__name__" in source.code(node.test) for node in source.module.body)


def _chosen_method(source: SourceFile) -> str | None:
    for node in walk(source.module):
        if isinstance(node, cst.Call) and dotted(node.func).endswith("set_start_method") and node.args:
            value = node.args[0].value
            return value.raw_value if isinstance(value, cst.SimpleString) else None
    return None
