"""Lines that wait for a logger are in its file some batches later: what looks into a file meanwhile may miss them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.patch.effects import objects, vocabulary
from tracelens.patch.effects.words import words

LOOKS = {
    "a copy": "shutil.copyfile('run.log', 'copy.log')",
    "its length": "x = x * os.path.getsize('run.log')",
    "its length by a path": "x = x * Path('run.log').stat().st_size",
    "its text": "x = x * len(open('run.log').read())",
    "its lines by a path": "x = x * len(Path('run.log').open().readlines())",
    "its numbers": "x = x * float(np.loadtxt('run.log').sum())",
    "its text by a path": "x = x * len(Path('run.log').read_text())",
    "its length by a path's class": "x = x * Path.stat(Path('run.log')).st_size",
    "its length, not that of what it links to": "x = x * Path('run.log').lstat().st_size",
    "when it was changed": "x = x * os.path.getctime('run.log')",
    "another program": "os.system('wc -l run.log')",
}
NO_LOOKS = {
    "a checkpoint": "torch.save(model.state_dict(), 'last.pt')",
    "a folder": "os.makedirs('out', exist_ok=True)",
    "whether it is there": "x = x * os.path.exists('last.pt')",
}
LOOP = (
    "import logging, os, shutil\nimport numpy as np\nfrom pathlib import Path\n{}\nlog = logging.getLogger('t')\n"
    "for i, (x, y) in enumerate(loader):\n    if i % 5 == 0:\n        {}\n    STEP\n"
    "    log.info('%.4f', loss.item())  # fires\n"
)
TO_FILE, TO_SCREEN = "logging.basicConfig(filename='run.log', level=20)", "logging.basicConfig(level=20)"


def tiers(folder: Path, config: str, look: str) -> set[str]:
    return {hunk.tier for hunk in patch_of(folder, script(LOOP.format(config, look)), lossy=False).hunks}


@pytest.mark.parametrize("name", LOOKS)
def test_what_looks_into_a_file_finds_the_log_as_it_was(name: str, tmp_path: Path) -> None:
    text = script(LOOP.format(TO_FILE, LOOKS[name]))
    patch = patch_of(tmp_path, text, lossy=False)
    safe = {hunk.tier for hunk in patch.hunks} == {"safe"}
    assert not safe or "ahead.drain()\n        " + LOOKS[name] in patch.files[0].after.decode()


OF_NO_FILE = words(
    "absolute as_posix as_uri cwd expanduser full_match from_uri group home is_absolute is_relative_to is_reserved"
    " joinpath match owner relative_to with_name with_segments with_stem with_suffix"
)


@pytest.mark.parametrize("method", sorted(n for n in dir(Path) if n[0] != "_" and callable(getattr(Path, n))))
def test_what_a_path_does_to_files_is_known(method: str) -> None:
    entry = vocabulary.lookup(f"<data>.{method}")
    assert entry is not None
    of_files = {objects.DISK_READ, objects.DISK_WRITE}.intersection(entry.does)
    assert bool(of_files) != (method in OF_NO_FILE or method == "replace"), "`replace` is a text's, too: see below"


@pytest.mark.parametrize(
    "move", ["path.replace('old.log')", "Path.replace(path, 'old.log')", "path.replace(target='old.log')"]
)
def test_a_log_that_its_path_moves_has_its_lines_before(move: str, tmp_path: Path) -> None:
    text = script(
        "from pathlib import Path\npath = Path('run.log')\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
        "    with open('run.log', 'a') as f:\n        f.write(f'{loss.item()}\\n')  # fires\n"
        f"    if i == 6:\n        {move}\n"
    )
    patch = patch_of(tmp_path, text)
    if not patch.hunks:
        assert "looks at files" in patch.declined[0].obstacle
        return
    later = patched_text(patch).partition("def ")[2].partition("ahead =")[0]
    assert move in later or ".drain()" in patched_text(patch).partition(move)[0]


@pytest.mark.parametrize("name", NO_LOOKS)
def test_what_looks_into_no_file_does_not_see_the_log(name: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, TO_FILE, NO_LOOKS[name]) == {"safe"}


def test_a_log_on_the_screen_is_in_no_file(tmp_path: Path) -> None:
    assert tiers(tmp_path, TO_SCREEN, LOOKS["a copy"]) == {"safe"}


TO_FILES = {
    "a stream": "logging.basicConfig(stream=open('run.log', 'w'), level=20)",
    "a stream with a name": "out = open('run.log', 'w')\nlogging.basicConfig(stream=out, level=20)",
    "a handler's stream": "logging.getLogger().addHandler(logging.StreamHandler(open('run.log', 'w')))",
    "a handler's stream by name": "logging.getLogger().addHandler(logging.StreamHandler(stream=open('run.log', 'w')))",
    "a stream that is set": "h = logging.StreamHandler()\n"
    "h.setStream(open('run.log', 'w'))\nlogging.getLogger().addHandler(h)",
    "a stream that is stored": "h = logging.StreamHandler()\n"
    "h.stream = open('run.log', 'w')\nlogging.getLogger().addHandler(h)",
    "options": "cfg = {'file' + 'name': 'run.log'}\nlogging.basicConfig(**cfg)",
    "a list of handlers": "logging.basicConfig(handlers=[logging.StreamHandler(open('run.log', 'w'))], level=20)",
    "a list of handlers with a name": "hs = []\nhs.append(logging.StreamHandler(open('run.log', 'w')))\n"
    "logging.basicConfig(handlers=hs, level=20)",
    "a dict": "import logging.config as c\nset_up = getattr(c, 'dict' + 'Config')\nset_up({'version': 1})",
    "a class by another name": "from logging import StreamHandler as S\n"
    "logging.getLogger().addHandler(S(open('run.log', 'w')))",
    "a function's handler": "def handler(out):\n    return logging.StreamHandler(out)\n"
    "logging.getLogger().addHandler(handler(open('run.log', 'w')))",
    "the screen, replaced": "import sys\nsys.stderr = open('run.log', 'w')\nlogging.basicConfig(level=20)",
    "an unknown stream": "import somewhere\nlogging.basicConfig(stream=somewhere.out, level=20)",
    "an unknown handler": "import somewhere\nlogging.getLogger().addHandler(somewhere.Handler())",
    "an unknown set-up": "import logging.config\nlogging.config.listen(9)",
    "a sink of loguru": "from loguru import logger as sink\nadd = sink.add\nadd('run.log')",
    "a console in a file": "from rich.console import Console\nfrom rich.logging import RichHandler\n"
    "logging.basicConfig(handlers=[RichHandler(console=Console(file=open('run.log', 'w')))])",
    "a class of its own": "class H(logging.StreamHandler):\n    pass\n"
    "logging.getLogger().addHandler(H(open('run.log', 'w')))",
}
TO_SCREENS = {
    "no settings": "logging.basicConfig()",
    "the screen": "import sys\nlogging.basicConfig(stream=sys.stdout, level=20, format='%(message)s')",
    "a handler": "import sys\nh = logging.StreamHandler(sys.stdout)\nh.setFormatter(logging.Formatter('%(message)s'))\n"
    "logging.getLogger().addHandler(h)",
    "a handler of the default": "logging.getLogger().addHandler(logging.StreamHandler())",
    "a list": "import sys\nlogging.basicConfig(handlers=[logging.StreamHandler(sys.stdout)], force=True)",
    "levels": "logging.getLogger('torch').setLevel(logging.ERROR)\nlogging.getLogger().propagate = False",
}


@pytest.mark.parametrize("name", TO_FILES)
def test_what_is_not_known_to_be_the_screen_is_a_file(name: str, tmp_path: Path) -> None:
    text = script(LOOP.format(TO_FILES[name], LOOKS["a copy"]))
    patch = patch_of(tmp_path, text, lossy=False)
    safe = {hunk.tier for hunk in patch.hunks} == {"safe"}
    assert not safe or "ahead.drain()\n        " + LOOKS["a copy"] in patch.files[0].after.decode()


@pytest.mark.parametrize("name", TO_SCREENS)
def test_what_is_known_to_be_the_screen_is_none(name: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, TO_SCREENS[name], LOOKS["a copy"]) == {"safe"}


def test_files_of_a_log_that_come_and_go_are_counted_as_they_were(tmp_path: Path) -> None:
    rotating = "import logging.handlers\nlogging.getLogger().addHandler(logging.handlers.RotatingFileHandler('a', 60))"
    assert "safe" not in tiers(tmp_path, rotating, "x = x * len(os.listdir('.'))")
    assert tiers(tmp_path, TO_FILE, "x = x * len(os.listdir('.'))") == {"safe"}


def test_a_handler_that_keeps_the_lines_is_nothing_ordinary(tmp_path: Path) -> None:
    kept = "import logging.handlers\nkept = logging.handlers.MemoryHandler(99)\nlogging.getLogger().addHandler(kept)"
    assert "safe" not in tiers(tmp_path, kept, "x = x * len(kept.buffer)")


def test_lines_in_memory_are_looked_at_as_those_of_a_file_are(tmp_path: Path) -> None:
    kept = "import io\nkept = io.StringIO()\nlogging.basicConfig(stream=kept, level=20)"
    assert "safe" not in tiers(tmp_path, kept, "x = x * len(kept.getvalue())")


def test_a_handler_that_begins_new_files_is_ordinary(tmp_path: Path) -> None:
    rotating = (
        "import logging.handlers\nlogging.getLogger().addHandler(logging.handlers.RotatingFileHandler('run.log'))"
    )
    assert tiers(tmp_path, rotating, "pass") == {"safe"}


CALLERS = {
    "the file": ("format='%(filename)s %(module)s %(message)s'", "logging"),
    "by a logger": ("format='%(filename)s %(message)s'", "log"),
    "in braces": ("format='{filename} {message}', style='{'", "log"),
    "of an object": ("format='%(module)s %(message)s'", "owner.log"),
    "of a text": ("format='%(' + 'filename' + ')s %(message)s'", "log"),
}


@pytest.mark.parametrize("name", CALLERS)
def test_a_line_that_names_its_file_names_the_script(name: str, tmp_path: Path) -> None:
    setting, logger = CALLERS[name]
    text = script(
        "import logging, sys\n"
        f"logging.basicConfig(stream=sys.stdout, level='INFO', force=True, {setting})\n"
        "log = logging.getLogger(__name__)\nclass Owner:\n    def __init__(self):\n"
        "        self.log = logging.getLogger('owner')\nowner = Owner()\ndef main():\n    for x, y in loader:\n"
        f"        STEP\n        {logger}.info('loss %.4f', loss.item())  # fires\nmain()\n",
        batches=4,
    )
    patch = patch_of(tmp_path, text, checked=False)
    assert patch.files
    assert assert_same(tmp_path, text, patch).ending == ""


FUNCTIONS = {
    "in percent": ("format='%(funcName)s %(message)s'", "info('loss %.4f', loss.item())"),
    "by its level": ("format='%(funcName)s %(message)s'", "log(logging.INFO, 'loss %.4f', loss.item())"),
    "in braces": ("format='{funcName} {message}', style='{'", "info('loss %.4f', loss.item())"),
    "the line": ("format='{lineno} {message}', style='{'", "info('loss %.4f', loss.item())"),
    "in dollars": ("format='$funcName $message', style='$'", "info('loss %.4f', loss.item())"),
    "put together": ("format=' '.join(f'%({one})s' for one in ('funcName', 'message'))", "info(str(loss.item()))"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_line_that_names_its_function_is_written_by_it(name: str, tmp_path: Path) -> None:
    setting, call = FUNCTIONS[name]
    text = script(
        f"import logging, sys\nlogging.basicConfig(stream=sys.stdout, level='INFO', {setting})\n"
        f"log = logging.getLogger(__name__)\ndef main():\n    for x, y in loader:\n        STEP\n"
        f"        log.{call}  # fires\nmain()\n"
    )
    assert not patch_of(tmp_path, text).files
