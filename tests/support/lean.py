"""Torch without its compiler, for scripts that tests start in processes of their own.

In: `PRELUDE`, put before a script's text; or `python tests/support/lean.py SCRIPT WORDS…`, with the script as it is.
Out: the same numbers, in less than half of the time: torch 2.13 imports its compiler when the first optimizer is made,
when a profiler starts and when algorithms are to be deterministic, and the shapes of its operators and `torch.export`
at once; 4.3 s of a processor's time where 1.8 do. Tests in which a script is only the vehicle have no use for them;
those of what torch does with its compiler import all of it. `torch.Generator`, and so a DataLoader with workers, needs
the operators' shapes: such a script imports torch before the prelude, which then leaves out what is still to come.
"""

PRELUDE = """\
import sys, types
stub = types.ModuleType("torch._dynamo")
stub.disable = lambda function=None, *_, **__: function
stub.graph_break = lambda: None
stub.trace_rules = types.SimpleNamespace(clear_lru_cache=lambda: None)
inductor = types.ModuleType("torch._inductor")
inductor.config = types.ModuleType("torch._inductor.config")
inductor.config.triton = types.SimpleNamespace(cudagraphs=False)
left_out = [types.ModuleType(name) for name in ("torch._meta_registrations", "torch.export")]
for one in (stub, inductor, inductor.config, *left_out):
    sys.modules.setdefault(one.__name__, one)  # what is there already stays
import os, time
import torch
torch._dynamo, torch._inductor = stub, inductor
"""

if __name__ == "__main__":
    import runpy
    import sys
    from pathlib import Path

    exec(PRELUDE, {})
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
