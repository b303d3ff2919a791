"""Starts an agent of TraceLens in every Python process that imports torch below a supervised command.

In: a copy of this file in a folder of its own on PYTHONPATH, `config.json` beside it. Out: in processes that import
torch, the agent named there is armed and a handshake file says so; in all others, nothing but one import hook.
Apart from the package because it is copied, runs in any Python the user's command may start (3.6 and newer), and must
cost next to nothing: no import before torch is imported, no error of ours ever reaches the user's program.
"""

# ruff: noqa: BLE001, SIM105, PTH121, UP031 -- this file must run on Python 3.6 and must never raise
import sys


class _TorchFinder:
    """Finds nothing itself: lets the others find torch and runs `_arm` right after torch's own code has run."""

    def __init__(self, folder, keep):
        self.folder = folder
        self.keep = keep  # another sitecustomize may take our place in sys.modules

    def find_spec(self, name, path=None, _target=None):
        if name != "torch":
            return None
        spec = _spec_from_others(self, name, path)
        try:
            _run_after(spec.loader, self)
        except Exception:  # an unusual loader (or no torch at all): the import goes on without us
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
        del loader.exec_module  # an attribute of this one instance; the class's own method shows again
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
    except Exception:  # the folder may be gone: a process that outlived its run
        return None


def _arm(folder, config):
    if config is None:
        return
    try:
        _package(config["root"])
        __import__(config["agent"])
        sys.modules[config["agent"]].arm(config)
        outcome = "armed"
    except Exception as error:  # whatever is wrong with us, the user's program goes on
        outcome = "%s: %s" % (type(error).__name__, error)
    try:
        _shake_hands(folder, outcome)
    except Exception:  # a full disk or a folder that is gone is no reason to disturb the program
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
    """Put the hook in place and take our folder off sys.path (PYTHONPATH keeps it, for child processes)."""
    slash = max(__file__.rfind("/"), __file__.rfind("\\"))
    folder = __file__[:slash]
    sys.meta_path.insert(0, _TorchFinder(folder, sys.modules.get(__name__)))
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    os = sys.modules["os"]  # `site` has imported it
    os.close(os.open(folder + "/reached", os.O_CREAT | os.O_WRONLY, 0o666))


def _chain():
    """Run the sitecustomize that Python would have run without us; its errors are its own."""
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
    """The same code, in no file: what lists the files that ran (coverage) finds ours gone when it reads them."""
    inner = tuple(_unlisted(one) if isinstance(one, type(code)) else one for one in code.co_consts)
    return code.replace(co_filename="<tracelens>", co_consts=inner)


def _unlist():
    for place in (globals(), vars(_TorchFinder)):
        for one in list(place.values()):
            if isinstance(one, type(_unlist)) and one.__module__ == __name__:
                one.__code__ = _unlisted(one.__code__)


try:
    _install()
    _unlist()
except Exception:  # never disturb the start of a Python process
    pass
_chain()
