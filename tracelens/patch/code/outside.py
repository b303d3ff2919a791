"""Calls that look at more than their arguments: at the screen, at the disk, or at every name of the program.

In: the full name of a call. Out: the keys that it looks at beside what its text names. None of these calls is
deferred; lines that wait have to be out before one of them runs.
"""

from __future__ import annotations

from tracelens.patch.effects.reached import EVERYTHING_KEY, FILES_KEY, OUTPUT_KEY
from tracelens.patch.effects.words import words

OUTPUT = OUTPUT_KEY
"""Lines that people or files get."""
FILES = FILES_KEY
"""What is on the disk."""
EVERYTHING = EVERYTHING_KEY
"""Every name there is: a call that looks names up by their text, or after which nothing runs any more."""
BESIDES = frozenset({OUTPUT, FILES, EVERYTHING})

STREAMS = words("sys.stdout sys.stderr sys.__stdout__ sys.__stderr__")
MODULES = "sys.modules"

LIBRARIES = words(
    "torch torchvision torchaudio numpy math os sys time datetime random gc json re collections itertools functools"
    " copy shutil subprocess pathlib warnings logging wandb mlflow neptune comet_ml clearml loguru absl tqdm pprint"
)
"""A plotting library is none of them, nor is a logger that the project imports: their calls must keep their order."""

_PROGRAMS = words("os.system os.popen os.spawnv os.posix_spawn")
_SCREEN = words(
    "os.write os.dup2 input traceback.print_exc traceback.print_exception"
    " traceback.print_stack traceback.print_tb faulthandler.dump_traceback contextlib.redirect_stdout"
    " contextlib.redirect_stderr click.echo click.secho typer.echo typer.secho rich.print pprint.pp warnings.warn"
    " warnings.warn_explicit"
)
_DISK = words(
    "os.path.exists os.path.isfile os.path.isdir os.path.getsize os.path.getmtime"
    " os.stat os.listdir os.scandir os.walk os.remove os.unlink os.rename os.replace"
    " shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move shutil.rmtree shutil.make_archive"
    " glob.glob glob.iglob numpy.loadtxt numpy.genfromtxt pandas.read_csv pandas.read_json json.load"
)
_ENDS = words("os._exit os.abort os.kill os.killpg os.fork os.forkpty signal.raise_signal")
_EVERY_NAME = words(
    "eval exec globals locals breakpoint sys._getframe inspect.stack inspect.currentframe inspect.trace"
    " inspect.getframeinfo gc.get_objects gc.get_referrers code.interact dill.dump_session pdb.set_trace"
    " IPython.embed"
)
SEES_NAMES = words("globals locals vars eval exec")
"""Builtins that look names up by their text, or run text that does."""
_READS_FILE = words("read_text read_bytes exists is_file is_dir unlink iterdir rglob")
"""Methods of a path."""


def looked_at(full: str, method: str, has_arguments: bool) -> frozenset[str]:
    """The keys for a call of that full name and method; none for an ordinary one."""
    if full in _ENDS or full in _EVERY_NAME or full.startswith("os.exec") or (full == "vars" and not has_arguments):
        return frozenset({EVERYTHING})
    if full in _PROGRAMS or full.startswith("subprocess."):
        return frozenset({OUTPUT, FILES})
    if full in _SCREEN:
        return frozenset({OUTPUT})
    return frozenset({FILES}) if full in _DISK or method in _READS_FILE else frozenset()
