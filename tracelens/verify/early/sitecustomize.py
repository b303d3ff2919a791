"""Fences an arm's Python process before its first line, then makes way for the user's own sitecustomize.

In: a copy of this file in a folder of its own on PYTHONPATH, behind the launcher's bootstrap, `config.json` beside it.
Out: `tracelens.verify.agent.start` has run. Apart from the launcher's bootstrap, which waits for torch: a script may
write long before it imports torch. Where the fence cannot be built the process ends: without it the user's files would
not be safe.
"""

import json
import os
import sys


def _start() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    with open(os.path.join(folder, "config.json")) as source:
        config = json.load(source)
    sys.path.insert(0, config["root"])
    try:
        from tracelens.verify import agent
    finally:
        sys.path.remove(config["root"])
    agent.start(config)


def _chain() -> None:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start()
except Exception as error:  # noqa: BLE001 -- whatever the reason, the user's files would be unprotected
    sys.stderr.write(f"tracelens verify: the working copy cannot be fenced: {error!r}\n")
    sys.stderr.flush()
    os._exit(97)
_chain()
