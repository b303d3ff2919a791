"""Torch without its compiler, for scripts that tests start in processes of their own.

In: `PRELUDE`, put before a script's text; or `python tests/support/lean.py SCRIPT WORDS…`, with the script as it is; or
`SITE` on PYTHONPATH, for all processes below a command: one that never imports torch notices nothing.
Out: the same numbers, in less than half of the time: torch 2.13 imports its compiler when the first optimizer is made,
when a profiler starts and when algorithms are to be deterministic, and the shapes of its operators and `torch.export`
at once; 4.3 s of a processor's time where 1.2 do. Tests in which a script is only the vehicle have no use for them;
those of what torch does with its compiler import all of it. So does a script that imports torch before the prelude,
which then leaves out what is still to come.

What is left out of torch is looked for once, when torch is imported: there it is a class without instances, for type
hints, bases and decorators. Later a call of it is an error that says so, so no number can come from it.

What the import makes lives as long as the process, so no garbage collection looks at it, neither meanwhile nor at the
end of the process: a fifth of what such a process costs.
"""

from pathlib import Path

SITE = str(Path(__file__).with_name("lean_site"))

BEFORE = """\
import gc, sys, types
from importlib.machinery import ModuleSpec
class Nothing(type):
    ready = False
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})
    def __call__(cls, *given, **named):
        if cls.ready:
            raise RuntimeError("tests/support/lean.py leaves " + cls.__name__ + " out of torch")
        return given[0] if given and callable(given[0]) else cls
    def __or__(cls, other):
        return object
    __ror__ = __or__
    def __iter__(cls):
        return iter(())
class LeftOut(types.ModuleType):
    __path__ = ()
    __getattr__ = Nothing.__getattr__
class Finder:
    names = "fx", "_functorch", "_higher_order_ops", "_subclasses", "ao", "distributions", "masked", "nested", "package"
    prefixes = tuple("torch." + name + "." for name in (*names, "testing", "utils.data.datapipes")) + ("torchgen.",)
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if (name + ".").startswith(self.prefixes) else None
    def create_module(self, spec):
        return LeftOut(spec.name)
    def exec_module(self, module):
        pass
whole = "torch" in sys.modules
if not whole:
    sys.meta_path.insert(0, Finder())
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
"""
AFTER = """\
torch._dynamo, torch._inductor = stub, inductor
Nothing.ready = True
if not whole and hasattr(torch._C, "_set_generator_metaclass"):
    torch._C._set_generator_metaclass(type)
gc.freeze()
gc.enable()
"""
PRELUDE = f"{BEFORE}gc.disable()\nimport os, time\nimport torch\n{AFTER}"

if __name__ == "__main__":
    import runpy
    import sys

    exec(PRELUDE, {})
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
