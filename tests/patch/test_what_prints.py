"""Lines that wait come after those of whatever else prints: what may print is not passed, by whichever name it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, patched_text, script
from tracelens.model import Patch

LOOP = (
    "import sys\n{}\nfor i, (x, y) in enumerate(loader):\n    if i % 5 == 0:\n        {}\n    STEP\n"
    "    print(loss.item())  # fires\n"
)
PRINTERS = {
    "a printer of pprint": ("import pprint\npp = pprint.PrettyPrinter(indent=2)", "pp.pprint({'step': i})"),
    "a printer's other method": (
        "from pprint import PrettyPrinter as P\npp = P()",
        "pp._format(i, sys.stdout, 0, 0, {}, 0)",
    ),
    "pp": ("import pprint", "pprint.pp(i)"),
    "a usage": ("import argparse\nparser = argparse.ArgumentParser()", "parser.print_usage()"),
    "a help": ("import argparse\nparser = argparse.ArgumentParser()", "parser.print_help()"),
    "a parser's message": ("import argparse\nparser = argparse.ArgumentParser()", "parser._print_message('x')"),
    "a parser's help by configparser": ("import configparser\nc = configparser.ConfigParser()", "c.write(sys.stdout)"),
    "a tree": ("from xml.etree import ElementTree", "ElementTree.dump(ElementTree.Element('a'))"),
    "a written tree": (
        "from xml.etree import ElementTree as E",
        "E.ElementTree(E.Element('a')).write(sys.stdout, encoding='unicode')",
    ),
    "a parser's error": ("import argparse\nparser = argparse.ArgumentParser()", "parser.error('x')"),
    "a stack": ("import traceback", "traceback.print_stack(file=sys.stdout)"),
    "a stack's summary": (
        "import traceback\nerror = traceback.TracebackException.from_exception(ValueError())",
        "error.print()",
    ),
    "a warning": ("import warnings", "warnings.showwarning('x', UserWarning, 'a', 1)"),
    "a disassembly": ("import dis", "dis.dis(len)"),
    "a profile": ("import cProfile\nprofile = cProfile.Profile()", "profile.print_stats()"),
    "what a prompt shows": ("", "sys.displayhook(i)"),
    "a prompt": ("import code", "code.interact(local={})"),
    "an interpreter": ("import code\nshell = code.InteractiveInterpreter()", "shell.runcode('1')"),
    "a month": ("import calendar", "calendar.prmonth(2024, 1)"),
    "a month of a calendar": ("import calendar\nmonths = calendar.TextCalendar()", "months.prmonth(2024, 1)"),
    "a timing": ("import timeit", "timeit.main(['pass'])"),
    "a password": ("import getpass", "getpass.getpass()"),
    "text over bytes": ("import io\nout = io.TextIOWrapper(sys.stdout.buffer)", "out.write('x')"),
    "rows": ("import csv\nrows = csv.writer(sys.stdout)", "rows.writerow([i])"),
    "rows by name": ("import csv\nrows = csv.DictWriter(sys.stdout, ['a'])", "rows.writerow({'a': i})"),
    "a dict": ("import json", "json.dump({'step': i}, sys.stdout)"),
    "a table": ("import numpy as np", "np.savetxt(sys.stdout, np.zeros(2))"),
    "a frame": ("import pandas as pd\nframe = pd.DataFrame({'a': [1]})", "frame.to_csv(sys.stdout)"),
    "what a frame is": ("import pandas as pd\nframe = pd.DataFrame({'a': [1]})", "frame.info()"),
    "what an array is": ("import numpy as np", "np.info(np.zeros(2))"),
    "how numpy was built": ("import numpy as np", "np.show_config()"),
    "the screen's file": ("out = open('/dev/stdout', 'w')", "out.write('x')"),
    "the screen's number": ("out = open(1, 'w')", "out.write('x')"),
    "the screen opened again": ("out = open(sys.stdout.fileno(), 'w')", "out.write('x')"),
    "a record": (
        "import logging\nlog = logging.getLogger('a')",
        "log.handle(logging.makeLogRecord({'msg': 'x', 'levelno': 40}))",
    ),
    "a handler's record": (
        "import logging\nhandler = logging.StreamHandler(sys.stdout)",
        "handler.emit(logging.makeLogRecord({'msg': 'x'}))",
    ),
    "trainable weights": ("import peft\nmodel = peft.get_peft_model(model, {})", "model.print_trainable_parameters()"),
    "a command line's line": ("import click", "click.echo_via_pager('x')"),
    "a command line's question": ("import click", "click.confirm('x')"),
    "a graph": ("graph = torch.fx.symbolic_trace(model)", "graph.graph.print_tabular()"),
    "what is told to speak": (
        "rates = torch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=True)",
        "rates.step()",
    ),
    "what may be told to speak": (
        "rates = torch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=len(loader) > 3)",
        "rates.step()",
    ),
    "a model in another format": ("", "torch.onnx.export(model, (x,), 'last.onnx')"),
    "a download": ("import nltk", "nltk.download('punkt')"),
    "a function of the C library": ("import ctypes\nlibc = ctypes.CDLL(None)", "libc.puts(b'x')"),
}
SILENT = {
    "how much memory it takes": ("import psutil", "size = psutil.Process().memory_info().rss"),
    "a file of a picture": ("from torchvision import io", "io.write_png(x, 'x.png')"),
    "a text in memory": ("import io\ntext = io.StringIO()", "text.truncate(0)"),
    "weights in memory": ("import io\nraw = io.BytesIO()", "torch.save(model.state_dict(), raw)"),
    "what is told to be silent": (
        "rates = torch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=False)",
        "rates.step()",
    ),
    "a text of pprint": ("import pprint", "text = pprint.pformat({'step': i})"),
    "a setting": ("import argparse\nparser = argparse.ArgumentParser()\nargs = parser.parse_args([])", "i = args"),
    "a text of json": ("import json", "text = json.dumps({'step': i})"),
    "a text of a trace": ("import traceback", "text = traceback.format_exc()"),
    "a level": ("import logging\nlog = logging.getLogger('a')", "log.isEnabledFor(10)"),
    "weights": ("", "torch.save(model.state_dict(), 'last.pt')"),
    "a pause": ("import time", "time.sleep(0)"),
    "an array": ("import numpy as np", "np.savetxt('a.txt', np.zeros(2))"),
}


@pytest.mark.parametrize("name", PRINTERS)
def test_what_prints_is_not_passed(name: str, tmp_path: Path) -> None:
    assert not passes(tmp_path, *PRINTERS[name])


@pytest.mark.parametrize("name", SILENT)
def test_what_is_silent_is_passed(name: str, tmp_path: Path) -> None:
    assert passes(tmp_path, *SILENT[name])


def passes(folder: Path, before: str, call: str) -> bool:
    """Whether a safe patch lets the line wait beyond what is called."""
    patch = patch_of(folder, script(LOOP.format(before, call)), lossy=False)
    if {hunk.tier for hunk in patch.hunks} != {"safe"}:
        return False
    loop = patched_text(patch).partition("ahead.iterate")[2]
    return call in loop and f"ahead.drain()\n        {call}" not in loop


def later(patch: Patch) -> str:
    """What runs in the function of the loop."""
    return patched_text(patch).rpartition("def ")[2].partition("\n\n")[0]


def test_who_flushes_the_screen_has_the_lines_before_it(tmp_path: Path) -> None:
    """Lines to a file are in Python's buffer: what a flush has put out is there when a signal ends the process."""
    text = script("""
    import sys
    def checkpoint(step):
        torch.save({"step": step}, "last.pt")
        sys.stdout.flush()
    for i, (x, y) in enumerate(loader):
        STEP
        print(i, loss.item())  # fires
        if i % 6 == 4:
            checkpoint(i)
    """)
    patch = patch_of(tmp_path, text, lossy=False)
    read_before = ".drain()" in patched_text(patch).partition("checkpoint(i)")[0]
    assert read_before or "checkpoint(i)" in later(patch), patch.diff
