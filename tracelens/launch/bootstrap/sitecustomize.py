"""Arms an agent of TraceLens in every Python process below a supervised command that imports torch.

In: a copy of this file in a folder on PYTHONPATH, with `config.json` beside it. Out: in processes that import torch,
the agent that config.json names is armed and a handshake file is written; in all others there is one import hook more.
The file is copied and runs in any Python that the user's command starts (3.6 and newer). It must cost almost nothing:
it imports no module before torch is imported, and no error of ours reaches the user's program.
"""

# ruff: noqa: BLE001, SIM105, PTH121, UP031 -- this file must run on Python 3.6 and must never raise
import sys


class _TorchFinder:
    """Lets the other finders find torch, and runs `_arm` right after torch's own code has run."""

    def __init__(self, folder, keep):
        self.folder = folder
        self.keep = keep  # another sitecustomize may replace ours in sys.modules

    def find_spec(self, name, path=None, _target=None):
        if name != "torch":
            return None
        spec = _spec_from_others(self, name, path)
        try:
            _run_after(spec.loader, self)
        except Exception:  # an unusual loader, or no torch at all: import torch without us
            pass
        return spec


def _spec_from_others(own, name, path):
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if find is not None and finder is not own:
            spec = find(name, path)
            if spec is not None:
                return spec
    return None


def _run_after(loader, finder):
    original = loader.exec_module

    def exec_module(module):
        del loader.exec_module  # the instance's attribute, which hides the class's method
        config = _config(finder.folder)
        original(module)
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
            _arm(finder.folder, config)

    loader.exec_module = exec_module


def _config(folder):
    try:
        import json
        import os

        with open(os.path.join(folder, "config.json")) as source:
            config = json.load(source)
        for name, value in config.get("environment", {}).items():
            os.environ.setdefault(name, value)
        return config
    except Exception:  # the folder may be gone: the process outlived the supervised command
        return None


def _arm(folder, config):
    if config is None:
        return
    try:
        _package(config["root"])
        __import__(config["agent"])
        sys.modules[config["agent"]].arm(config)
        outcome = "armed"
    except Exception as error:  # no error of ours may reach the user's program
        outcome = "%s: %s" % (type(error).__name__, error)
    try:
        _shake_hands(folder, outcome)
    except Exception:  # a full disk, or the folder is gone
        pass


def _package(root):
    """Make `tracelens` importable from `root` without putting `root` on the user's sys.path."""
    import importlib.machinery
    import importlib.util
    import os

    home = os.path.join(root, "tracelens")
    present = sys.modules.get("tracelens")
    if present is not None:
        if not any(os.path.samefile(place, home) for place in present.__path__):
            raise ImportError("another package named tracelens is loaded: %r" % (present,))
        return
    spec = importlib.machinery.PathFinder.find_spec("tracelens", [root])
    if spec is None:
        raise ImportError("no package tracelens in %s" % root)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tracelens"] = module
    spec.loader.exec_module(module)


def _shake_hands(folder, outcome):
    import json
    import os
    import platform

    target = os.path.join(folder, "process-%s-%d.json" % (platform.node(), os.getpid()))
    with open(target + ".part", "w") as out:
        json.dump({"pid": os.getpid(), "python": sys.version.split()[0], "argv": sys.argv[:1], "agent": outcome}, out)
    os.replace(target + ".part", target)


def _install():
    """Install the import hook and remove our folder from sys.path; PYTHONPATH keeps it for child processes."""
    slash = max(__file__.rfind("/"), __file__.rfind("\\"))
    folder = __file__[:slash]
    sys.meta_path.insert(0, _TorchFinder(folder, sys.modules.get(__name__)))
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    os = sys.modules["os"]  # `site` has imported it
    os.close(os.open(folder + "/reached", os.O_CREAT | os.O_WRONLY, 0o666))


def _run_other_sitecustomize():
    """Run the sitecustomize that Python would have run without us; its errors pass through."""
    spec = _spec_from_others(None, "sitecustomize", list(sys.path))
    if spec is None or spec.loader is None or getattr(spec, "origin", None) == __file__:
        return
    module = type(sys)("sitecustomize")
    module.__spec__ = spec
    module.__file__ = spec.origin
    module.__loader__ = spec.loader
    module.__package__ = ""
    own = sys.modules.get("sitecustomize")
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = own  # Python looks the name up again after a failed import
        raise


def _unlisted(code):
    """The same code without a file name: a coverage tool would list our file, which is gone when it reads it."""
    inner = tuple(_unlisted(const) if isinstance(const, type(code)) else const for const in code.co_consts)
    return code.replace(co_filename="<tracelens>", co_consts=inner)


def _unlist():
    for place in (globals(), vars(_TorchFinder)):
        for value in list(place.values()):
            if isinstance(value, type(_unlist)) and value.__module__ == __name__:
                value.__code__ = _unlisted(value.__code__)


try:
    _install()
    _unlist()
except Exception:  # the Python process must start in any case
    pass
_run_other_sitecustomize()
