"""Where a proof is not possible, and the text itself shows what breaks the result: such a place is declined.

A file that is copied under the name under which the log was opened, a logger that is switched off in every so many
batches, a block that says how numbers are shown, a method of the project that is named as one of a tensor's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.average_meters import SUM_WITH_ITEM
from tests.support.patching import patch_of, script
from tracelens.model import Patch

SAME_FILE = """
from helpers import snapshot
def train():
    log = open(OPENED, "w", buffering=1)
    for step, (x, y) in enumerate(loader):
        STEP
        log.write("%.6f\\n" % loss.item())  # fires
        snapshot(step)
train()
"""
SNAPSHOT = """
import shutil
PATH = "log.txt"
def snapshot(step):
    if step % 7 == 6:
        shutil.copy(COPIED, f"copy_{step}.txt")
"""
TOGGLED = """
import logging
from helpers import toggle
logging.basicConfig(level=logging.INFO, format="%(message)s")
logger = logging.getLogger("t")
for step, (x, y) in enumerate(loader):
    STEP
    logger.info("%d %.5f", step, loss.item())  # fires
    toggle(step)
"""
TOGGLE = """
import logging
def toggle(step):
    TOGGLE
"""
SHOWN_WITHIN = """
import contextlib
import io
import numpy as np
for x, y in loader:
    STEP
    with BLOCK:
        print(np.array([loss.item(), 1 / 3]))  # fires
"""
OWN_ITEM = (
    SUM_WITH_ITEM
    + """
def train():
    total, values = Sum(), []
    for x, y in loader:
        STEP
        total.add(loss.detach())
        values.append(READ.item())  # fires
    return values
values = train()
"""
)
ENDS = """
import os
import sys
def check(step):
    CHECK
for step, (x, y) in enumerate(loader):
    STEP
    print("%d %.5f" % (step, loss.item()))  # fires
    check(step)
"""
DEFAULTS = """
def record(value, store=[]):
    store.append(value)
def count(step):
    return len(record.__defaults__[0])
for step, (x, y) in enumerate(loader):
    STEP
    record(loss.item())  # fires
    if step % 9 == 8:
        print(LOOK)
"""
DECLINED = {
    "a copy of the log": (SAME_FILE.replace("OPENED", '"log.txt"'), SNAPSHOT.replace("COPIED", '"log.txt"')),
    "a copy of the log in a folder": (
        SAME_FILE.replace("OPENED", 'f"{str()}./log.txt"'),
        SNAPSHOT.replace("COPIED", '"./log.txt"'),
    ),
    "a copy by the name of a variable": (SAME_FILE.replace("OPENED", '"log.txt"'), SNAPSHOT.replace("COPIED", "PATH")),
    "a logger that is switched off by the step": (
        TOGGLED,
        TOGGLE.replace("TOGGLE", 'logging.getLogger("t").disabled = step % 12 >= 6'),
    ),
    "a logger whose level goes by the step": (
        TOGGLED,
        TOGGLE.replace("TOGGLE", 'logging.getLogger("t").setLevel(logging.INFO if step % 2 else logging.ERROR)'),
    ),
    "a logger that is switched off in some batches": (
        TOGGLED,
        TOGGLE.replace("TOGGLE", 'if step % 12 == 6:\n        logging.getLogger("t").disabled = True'),
    ),
    "how arrays are shown": (SHOWN_WITHIN.replace("BLOCK", "np.printoptions(precision=3)"), ""),
    "where lines go": (SHOWN_WITHIN.replace("BLOCK", "contextlib.redirect_stdout(io.StringIO())"), ""),
    "a project's own item": (OWN_ITEM.replace("READ", "total"), ""),
    "an end without more ado": (ENDS.replace("CHECK", "if step == 14:\n        os._exit(3)"), ""),
    "a look into a function": (DEFAULTS.replace("LOOK", "len(record.__defaults__[0])"), ""),
    "a look into a function by another": (DEFAULTS.replace("LOOK", "count(step)"), ""),
}
STILL_CHECKED = {
    "a copy of another file": (SAME_FILE.replace("OPENED", '"log.txt"'), SNAPSHOT.replace("COPIED", '"model.txt"')),
    "a logger that is told something else": (TOGGLED, TOGGLE.replace("TOGGLE", 'logging.getLogger("t").step = step')),
    "an own item that nobody asks for": (OWN_ITEM.replace("READ", "loss"), ""),
    "an end with which the value is gone anyway": (
        ENDS.replace('print("%d %.5f" % (step, loss.item()))', "total += loss.item()")
        .replace("for step", "total = 0.0\nfor step")
        .replace("CHECK", "if step == 14:\n        os._exit(3)"),
        "",
    ),
    "an end where an error came": (
        ENDS.replace("CHECK", "try:\n        float(step)\n    except ValueError:\n        os._exit(3)"),
        "",
    ),
}


def patched(folder: Path, text: str, helpers: str) -> Patch:
    if helpers:
        (folder / "helpers.py").write_text(helpers)
    return patch_of(folder, script(text))


@pytest.mark.parametrize("name", DECLINED)
def test_what_the_text_shows_declines_it(name: str, tmp_path: Path) -> None:
    patch = patched(tmp_path, *DECLINED[name])
    assert patch.empty, patch.diff
    assert patch.declined


@pytest.mark.parametrize("name", STILL_CHECKED)
def test_what_is_not_that_thing_stays_checked(name: str, tmp_path: Path) -> None:
    patch = patched(tmp_path, *STILL_CHECKED[name])
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined
