"""Confines the writes of a trial's Python process before its first line, then runs the user's own sitecustomize.

In: a copy of this file in a folder of its own on PYTHONPATH, after the launcher's bootstrap, with `config.json` beside
it. Out: `tracelens.verify.inside.agent.start` has run. It is apart from the launcher's bootstrap, which waits for
torch: a script may write long before it imports torch. Where the sandbox cannot be set up the process ends, because the
user's files would not be protected.
"""

import json
import os
import sys

SANDBOX_FAILED = 97
"""Exit code; `exchange` is not imported yet where the failure is an import error."""


def _start() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    with open(os.path.join(folder, "config.json")) as source:
        config = json.load(source)
    sys.path.insert(0, config["root"])
    try:
        from tracelens.verify.inside import agent
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
    sys.stderr.write(f"tracelens verify: writes cannot be confined to the working copy: {error!r}\n")
    sys.stderr.flush()
    os._exit(SANDBOX_FAILED)
_chain()
