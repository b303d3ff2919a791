"""Where the lines of loggers go: to the screen, to a file that anybody may look at, or to files that come and go.

In: the calls that set loggers up. Out: whether they open a file, which whatever is not known to be the screen may be;
and by which effects the loop would notice that lines come into the files later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tracelens.patch.effects import screens
from tracelens.patch.effects.deeds import Deed
from tracelens.patch.effects.library_calls import LibraryCall
from tracelens.patch.effects.memory import NONE, Memory, Objects
from tracelens.patch.effects.names import module_of
from tracelens.patch.effects.objects import (
    DISK_LOOK,
    DISK_READ,
    LOG_FILE,
    LOG_FILES,
    OUTPUT,
    TRACKED,
    WRITES,
    Activation,
    Module,
    Name,
    Object,
    Plain,
    Thing,
)
from tracelens.patch.effects.vocabulary import Entry
from tracelens.patch.effects.words import words

_TEXTS = re.compile(r"FileHandler|\bfilename\s*=|\b(?:dict|file)Config\b|\b(?:logger|log)\.add\(|\bhydra\.main\b")
"""What a project whose loggers write to files has in its text, also where nobody knows who calls that."""
_QUIET = words(
    "getLogger get_logger getChild getLevelName getLoggerClass getEffectiveLevel setLevel setFormatter setLoggerClass"
    " isEnabledFor hasHandlers addFilter removeFilter removeHandler addLevelName captureWarnings disable enable level"
    " Formatter Filter Handler NullHandler LoggerAdapter PercentStyle LogRecord makeLogRecord makeRecord bind remove"
    " clear set_verbosity set_verbosity_info set_verbosity_error set_verbosity_warning set_verbosity_debug"
    " get_verbosity __call__ format disable_progress_bar enable_progress_bar disable_default_handler"
    " enable_default_handler"
)
"""They open no file. Of what is not known a logger may do anything with files."""
_SETTINGS = words("level format datefmt style force encoding errors stream handlers name")
_STREAMS = words("StreamHandler setStream addHandler RichHandler add basicConfig")
"""They are handed where the lines go."""


def opened_by(call: LibraryCall, entry: Entry) -> str:
    """Which kind of files a call opens for loggers; empty where it opens none."""
    last = call.name.full.rpartition(".")[2]
    if (entry.gives != "<logger>" and entry.changes != "logging") or OUTPUT in entry.does or last in _QUIET:
        return ""
    if last == "FileHandler" or (last == "basicConfig" and "filename" in call.given.named):
        return LOG_FILE
    given = call.given
    if last not in _STREAMS or given.rest or (last != "add" and not given.named.keys() <= _SETTINGS | {"hdlr"}):
        return LOG_FILES
    return "" if all(_is_known(one, last == "add", call) for one in _streams(call)) else LOG_FILES


def _streams(call: LibraryCall) -> Objects:
    """What a call hands over as the place where lines go: files, handlers, lists of those."""
    named = (call.given.named.get(name, NONE) for name in ("stream", "hdlr", "sink"))
    handlers = call.given.named.get("handlers", NONE)
    return NONE.union(*call.given.positional[:1], *named, call.dispatch.passes(handlers, call.here))


def _is_known(one: Object, may_be_path: bool, call: LibraryCall) -> bool:
    """Whether lines that go there go to the screen, or to what a call made that was asked itself."""
    if isinstance(one, Plain):
        return not may_be_path
    if isinstance(one, Thing) and one.kind == "logger":
        return True
    return screens.is_screen(one, call.memory, call.here.unit) and not _has_file(one, call.memory)


def _has_file(one: Object, memory: Memory) -> bool:
    """Whether a console was made with a file."""
    return any(isinstance(held, Thing) and held.kind != "screen" for held in memory.reach([one]))


def looks_at_logs(memory: Memory, moved: Iterable[Deed]) -> frozenset[str]:
    """By which effects somebody may see that lines of loggers come into their files later; none of the screen.

    An event file, or that of a tracker, is a log, too.
    """
    moved = tuple(moved)
    events = {DISK_LOOK} if any(deed.effect.kind == TRACKED for deed in moved) else set()
    if not any(deed.effect.kind == WRITES and _is_logging(deed.effect.target) for deed in moved):
        return frozenset(events)
    opened = set(_opened(memory))
    return frozenset(events.union((DISK_LOOK, DISK_READ) if LOG_FILES in opened else (DISK_LOOK,) if opened else ()))


def _opened(memory: Memory) -> Iterator[str]:
    """The kinds of files that the project opens for loggers."""
    for summary in memory.summaries.values():
        for _, effect in summary.effects:
            if effect.kind in (LOG_FILE, LOG_FILES):
                yield effect.kind
            elif effect.kind == WRITES and _is_stream(effect.target, effect.field):
                yield LOG_FILES
    files = {module_of(unit).file for unit in memory.summaries if isinstance(unit, (Module, Activation))}
    yield from (LOG_FILE for file in files if _TEXTS.search(file.text))


def _is_stream(target: Object | None, name: str) -> bool:
    """Whether an attribute is where lines go: `handler.stream`, `sys.stderr`."""
    if isinstance(target, Name):
        return (target.full, name) in (("sys", "stdout"), ("sys", "stderr"), ("logging", "lastResort"))
    return isinstance(target, Thing) and target.kind == "logger" and name in ("stream", "baseFilename")


def _is_logging(target: Object | None) -> bool:
    return isinstance(target, Name) and target.full == "<logging>"
