"""Runs at the start of each Python process that has this folder on its path: torch is then that of `lean.PRELUDE`."""

import gc
import sys
from importlib.machinery import PathFinder
from pathlib import Path

lean = {"__name__": "lean", "__file__": str(Path(__file__).parent.with_name("lean.py"))}
exec(Path(lean["__file__"]).read_text(encoding="utf-8"), lean)
space = {"__name__": "lean"}
exec(lean["BEFORE"], space)


class TorchFinder:
    """Finds torch as Python does, and does the rest right after its own code has run."""

    def find_spec(self, name, path=None, _target=None):
        spec = PathFinder.find_spec(name, path) if name == "torch" else None
        if spec is not None:
            original = spec.loader.exec_module
            spec.loader.exec_module = lambda module: self.run(original, module)
        return spec

    def run(self, original, module):
        gc.disable()
        original(module)
        sys.meta_path.remove(self)
        exec(lean["AFTER"], space | {"torch": module})


sys.meta_path.insert(sys.meta_path.index(PathFinder), TorchFinder())  # a recording's own comes before it
