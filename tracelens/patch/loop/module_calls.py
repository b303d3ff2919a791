"""Which calls of a project are calls of its modules: the model's, not those of a loss or of a function of torch.

In: the trees of a project's files. Out: `ModuleCalls`. A name counts as a module's wherever in the project it is if
somebody asks it for its parameters, switches it between training and evaluation, or makes it of a class of modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.words import words
from tracelens.patch.loop.project_trees import full_name

MOST_CALLS = 4
"""Functions that call one another before a module is called; deeper ones are not followed."""
_ONLY_OF_MODULES = frozenset({"parameters", "named_parameters", "train", "eval", "modules", "named_modules"})
_OF_STATE = _ONLY_OF_MODULES | words(
    "to cuda cpu half float double bfloat16 state_dict load_state_dict zero_grad children named_children apply buffers"
    " requires_grad_ compile no_sync register_forward_hook register_full_backward_hook share_memory fuse backward step"
    " save_pretrained gradient_checkpointing_enable"
)
"""Methods of modules and engines that compute nothing of a forward pass."""
CHANGE_WEIGHTS = frozenset({"backward", "step", "zero_grad"})
KEEP_IT = frozenset({"to", "cuda", "cpu", "train", "eval", "float", "double", "requires_grad_", "apply"})
"""Methods that give back the module that they are called of."""
_MAKERS = ("create_model", "from_pretrained", "DistributedDataParallel", "DataParallel", "DDP", "from_config")
_LIBRARIES = ("torch.nn.", "torchvision.models.", "timm.", "segmentation_models_pytorch.")
_NO_FORWARD = frozenset({"len", "print", "isinstance", "deepcopy", "copy", "getattr", "hasattr", "type", "id", "save"})


@dataclass(frozen=True, eq=False)
class ModuleCalls:
    """The modules of a project by the names that they go by."""

    trees: Mapping[Path, ast.Module]
    known: dict[str, bool] = field(default_factory=dict)
    """Of functions that were asked about, whether they lead to a module."""

    @cached_property
    def classes(self) -> Mapping[str, ast.ClassDef]:
        """The project's own classes of modules, by name."""
        known: dict[str, ast.ClassDef] = {}
        every = [
            (tree, node) for tree in self.trees.values() for node in syntax.walk(tree) if isinstance(node, ast.ClassDef)
        ]
        grown = True
        while grown:
            grown = False
            for tree, node in every:
                bases = (full_name(tree, base) for base in node.bases)
                if node.name not in known and any(_is_module_class(base, known) for base in bases):
                    known[node.name] = node
                    grown = True
        return known

    @cached_property
    def functions(self) -> Mapping[str, tuple[ast.FunctionDef, ...]]:
        """Functions and methods of the project, by name."""
        out: dict[str, tuple[ast.FunctionDef, ...]] = {}
        for tree in self.trees.values():
            for node in syntax.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    out[node.name] = (*out.get(node.name, ()), node)
        return out

    @cached_property
    def names(self) -> frozenset[str]:
        """The last names of modules: `net` of `self.net` and of `net`."""
        out: set[str] = set()
        for tree in self.trees.values():
            for node in syntax.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    if node.func.attr in _ONLY_OF_MODULES and len(node.args) <= 1:
                        out.add(last_name(node.func.value))
                elif isinstance(node, ast.Assign) and self.made(tree, node.value):
                    out |= {last_name(target) for target in node.targets}
        return frozenset(out) - {"", "self", "nn", "torch"}

    def made(self, tree: ast.Module, value: ast.AST | None, depth: int = 0) -> str:
        """The full name of the class, or of the library's function, that makes a module; "" for anything else."""
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in KEEP_IT:
            value = value.func.value
        if not isinstance(value, ast.Call):
            return ""
        full, name = full_name(tree, value.func), last_name(value.func)
        if name.endswith("Loss") or (full.startswith("torch.nn.") and not name[:1].isupper()):
            return ""  # a part of the loss, or a function
        if name in self.classes or name in _MAKERS or full.startswith(_LIBRARIES):
            return full
        makers = self.functions.get(name, ()) if depth < MOST_CALLS else ()
        return next((found for one in makers for found in self._returned(one, depth) if found), "")

    def _returned(self, function: ast.FunctionDef, depth: int) -> Iterator[str]:
        """What makes the modules that a function gives back."""
        tree = self.trees[self.files[id(function)]]
        given = [node.value for node in syntax.walk(function) if isinstance(node, ast.Return)]
        names = {last_name(value) for value in given if isinstance(value, ast.Name)}
        stored = (
            node.value
            for node in syntax.walk(function)
            if isinstance(node, ast.Assign) and any(last_name(target) in names for target in node.targets)
        )
        return (self.made(tree, value, depth + 1) for value in (*given, *stored))

    def computes(self, node: ast.AST) -> bool:
        """Whether something in a node is a forward pass, or a part of one, of a module of the project."""
        return any(isinstance(part, ast.Call) and self._is_forward(part) for part in syntax.walk(node))

    def _is_forward(self, call: ast.Call) -> bool:
        return self.called(call) is not None or self._leads_to_one(last_name(call.func))

    def _leads_to_one(self, name: str) -> bool:
        """Whether a function of the project calls a module, itself or through others, and does not go backward."""
        if name not in self.known:
            self.known[name] = False  # while it is looked at: one that calls itself
            bodies = self.functions.get(name, ())
            calls = [part for body in bodies for part in syntax.walk(body) if isinstance(part, ast.Call)]
            back = any(last_name(part.func) == "backward" for part in calls)
            self.known[name] = not back and any(self._is_forward(part) for part in calls)
        return self.known[name]

    def changes_weights(self, node: ast.AST) -> bool:
        """Whether something in a node goes backward, makes a step or clears gradients, in functions it calls too."""
        seen: set[str] = set()
        waiting = [node]
        while waiting:
            for part in syntax.walk(waiting.pop()):
                name = last_name(part.func) if isinstance(part, ast.Call) else ""
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and name in CHANGE_WEIGHTS:
                    return True
                if name and name not in seen:
                    seen.add(name)
                    waiting += self.functions.get(name, ())
        return False

    @cached_property
    def files(self) -> Mapping[int, Path]:
        """The file of each function and method, by the function's identity."""
        return {
            id(node): path
            for path, tree in self.trees.items()
            for node in syntax.walk(tree)
            if isinstance(node, ast.FunctionDef)
        }

    def called(self, call: ast.Call) -> ast.expr | None:
        """The module that a call is of, or that is handed to a function that is to call it; None for other calls."""
        name = last_name(call.func)
        if name in self.names and not isinstance(getattr(call.func, "value", None), ast.Call):
            return call.func
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) in self.names:
            return None if name in _OF_STATE else call.func.value
        if name in _OF_STATE or name in _NO_FORWARD or name in _MAKERS or name in self.classes or name.istitle():
            return None
        return next((one for one in call.args if last_name(one) in self.names), None)


@lru_cache(maxsize=PARSED_FILES)
def module_calls(source: SourceFile) -> ModuleCalls:
    """The modules of the project around a file."""
    return ModuleCalls(source.trees)


def _is_module_class(base: str, known: Mapping[str, ast.ClassDef]) -> bool:
    return base.startswith("torch.nn.") or base.rpartition(".")[2] in known or base.rpartition(".")[2] == "Module"
