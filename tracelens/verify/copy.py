"""The scratch folder of one verification: a working copy per arm, and what an arm must know to stay inside.

In: the project root, the working directory, the patch. Out: a mirror of the file system in which the project's source
files are copies, everything else is links, and the environment and arguments that lead a process there. Every arm gets
a fresh copy under the same path: no checkpoint of one is found by another, and paths a script prints agree.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracelens.errors import InputError, Refused
from tracelens.model import Patch
from tracelens.verify.inside import overlay
from tracelens.verify.policy import POLICY

LINKED_WHOLE = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "tracelens-runs", ".tox", ".nox"})
"""Folders no training script edits and that are large."""
SKIPPED = frozenset({"__pycache__"})
"""Compiled files remember the original's time of change, not what the patch wrote."""
SOURCES = frozenset({".py", ".pyi", ".pyx", ".so", ".sh", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".json"})
"""What a script imports or reads to know what to do; beside thousands of other files only these are copied."""
SNAPSHOT_FILES = 50_000
"""Files whose size and time of change are compared before and after; larger projects are data, checked in part."""
SHOWN_WRITES = 50
"""Enough to recognize what a script writes; a run with image dumps writes thousands."""
# Folders that programs take from the environment; they must not lead out of the working copy.
_HOME_VARIABLES = (
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HF_HOME", "HF_DATASETS_CACHE"),
    *("TORCH_HOME", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "KERAS_HOME"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an arm runs. `scratch` holds everything; `tree` in it mirrors the file system; `out` takes the records."""

    scratch: Path
    root: Path
    cwd: Path

    @property
    def tree(self) -> Path:
        return self.scratch / "arm" / "tree"

    @property
    def out(self) -> Path:
        return self.scratch / "arm" / "out"

    @property
    def cache(self) -> Path:
        """Shared by all arms: compiled kernels, which are the same for the same code."""
        return self.scratch / "cache"

    def copy_of(self, path: Path | str) -> Path:
        return Path(overlay.mirrored(str(path), str(self.tree)))


def fresh(place: Place, patch: Patch | None) -> None:
    """Replace the arm's folder by a new working copy, patched or not."""
    arm = place.scratch / "arm"
    if arm.exists():
        shutil.rmtree(arm)
    for folder in (place.out, arm / "tmp", place.cache):
        folder.mkdir(parents=True, exist_ok=True)
    home = Path.home()
    for folder in sorted({place.root, place.cwd, home}, key=lambda path: len(path.parts)):
        _mirror_way(folder, place)
    _copy_project(place)
    for file in patch.files if patch is not None else ():
        _write_patched(file.path, file.after, place)


def arguments(words: tuple[str, ...], place: Place) -> tuple[str, ...]:
    """The command with paths into the project leading to the working copy; `--out=PATH` forms included."""
    return tuple(_redirected(word, place) for word in words)


def environment(base: Mapping[str, str], place: Place, *, seed: int, deterministic: bool) -> dict[str, str]:
    """What an arm's process gets: everything the user's would, but nothing that leads out or online."""
    out = {name: _redirected_list(value, place) for name, value in base.items()}
    home = str(place.copy_of(Path.home()))
    for name in _HOME_VARIABLES:
        if base.get(name, "").startswith("/"):
            out[name] = str(place.copy_of(base[name]))
    scratch = {name: str(place.scratch / "arm" / "tmp") for name in ("TMPDIR", "TMP", "TEMP")}
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "CUDA_CACHE_PATH": "cuda",
        "MPLCONFIGDIR": "matplotlib",
        "NUMBA_CACHE_DIR": "numba",
    }
    out |= scratch | {name: str(place.cache / folder) for name, folder in caches.items()}
    out |= {"HOME": home, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"} | _offline(place)
    out.setdefault("PYTHONHASHSEED", str(seed % 2**32))
    if deterministic:
        out["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return out


def written(place: Place, since: float) -> tuple[str, ...]:
    """What a process started at `since` (Unix seconds) wrote in the working copy, as paths of the real file system."""
    found = []
    for folder, _, names in os.walk(place.tree):  # does not follow links: everything it sees is the copy's own
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink() and path.stat().st_mtime >= since:
                found.append(f"/{path.relative_to(place.tree)}")
    return tuple(sorted(found)[:SHOWN_WRITES])


def snapshot(folders: tuple[Path, ...], streams: tuple[int, ...] = (1, 2)) -> dict[str, tuple[int, int]]:
    """Size and time of change of the files below `folders`, to prove afterwards that none was touched; without the
    files that our own output (`streams`, by descriptor) goes to: `tracelens verify > verify.log` writes one of them."""
    found: dict[str, tuple[int, int]] = {}
    ours = set(_files_behind(streams))
    pending = deque(str(folder) for folder in folders)
    while pending and len(found) < SNAPSHOT_FILES:
        with contextlib.suppress(OSError), os.scandir(pending.popleft()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in LINKED_WHOLE | SKIPPED:
                            pending.append(entry.path)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        if (status.st_dev, status.st_ino) not in ours:
                            found[entry.path] = (status.st_size, status.st_mtime_ns)
    return found


def _files_behind(streams: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for stream in streams:
        with contextlib.suppress(OSError):  # closed
            status = os.fstat(stream)
            yield status.st_dev, status.st_ino


def changed(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """Paths that appeared, vanished or changed."""
    if len(before) >= SNAPSHOT_FILES or len(after) >= SNAPSHOT_FILES:  # cut off at different places
        return tuple(sorted(path for path in before.keys() & after.keys() if before[path] != after[path]))
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))


# ---------------------------------------------------------------------------------------------------- the mirror


def _mirror_way(folder: Path, place: Place) -> None:
    """Real folders on the way from / down to `folder`, links for everything beside it (so `../data` is found)."""
    for step in (*reversed(folder.parents), folder):
        mirror = place.copy_of(step)
        if mirror.is_symlink():
            mirror.unlink()
        mirror.mkdir(exist_ok=True, parents=True)
        _link_entries(step, mirror)


def _link_entries(source: Path, mirror: Path) -> None:
    try:
        with os.scandir(source) as entries:
            for entry in entries:
                if entry.name not in SKIPPED:
                    with contextlib.suppress(FileExistsError):
                        (mirror / entry.name).symlink_to(entry.path)
    except PermissionError:  # a folder one may pass through but not list: only the way itself is mirrored
        return


@dataclass(slots=True)
class _Budget:
    """What may still be copied."""

    left_bytes: int = POLICY.copy_total_bytes
    left_files: int = POLICY.copy_files

    def pay(self, size: int) -> bool:
        if size > min(POLICY.copy_file_bytes, self.left_bytes) or self.left_files <= 0:
            return False
        self.left_bytes, self.left_files = self.left_bytes - size, self.left_files - 1
        return True


def _copy_project(place: Place) -> None:
    """Copy the project's small files, folder by folder from the top, until the budget is used up."""
    if not place.root.is_dir():
        raise InputError(f"{place.root} is not a folder", hint="name the folder that holds the script's sources")
    budget = _Budget(POLICY.copy_total_bytes, POLICY.copy_files)
    pending = deque([place.root])
    while pending:
        folder = pending.popleft()
        try:
            entries = [entry for entry in _sorted(folder) if entry.path != str(place.scratch)]
        except (PermissionError, FileNotFoundError):
            continue
        mirror = place.copy_of(folder)
        if folder != place.root and (_is_data(entries) or budget.left_files <= 0):
            continue  # stays the link it is
        if mirror.is_symlink():
            mirror.unlink()
        mirror.mkdir(exist_ok=True)
        for entry in entries:
            if len(entries) > POLICY.copy_entries and Path(entry.name).suffix not in SOURCES:
                continue  # likewise
            _take(entry, mirror / entry.name, budget, place)
        pending += [Path(entry.path) for entry in entries if _is_own_folder(entry)]


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    """The sources first: of what has room in the copy, they come before data."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: (Path(entry.name).suffix not in SOURCES, entry.name))


def _is_data(entries: list[os.DirEntry[str]]) -> bool:
    if len(entries) > POLICY.copy_entries:
        return True
    sources = (entry for entry in entries if Path(entry.name).suffix in SOURCES or entry.is_dir())
    return len(entries) > POLICY.copy_data_entries and next(sources, None) is None


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.name not in LINKED_WHOLE | SKIPPED


def _take(entry: os.DirEntry[str], target: Path, budget: _Budget, place: Place) -> None:
    """Put one entry of the project into the copy: as a file of its own, or as a link."""
    if target.is_dir() and not target.is_symlink():
        return  # on the way to the working directory, mirrored already
    target.unlink(missing_ok=True)
    if entry.name in SKIPPED:
        return
    if entry.is_symlink():
        pointed = Path(entry.path).readlink()
        inside = pointed.is_absolute() and overlay.below(os.path.normpath(pointed), str(place.root))
        target.symlink_to(place.copy_of(pointed) if inside else pointed)
        return
    # What cannot be read, or has gone meanwhile (a training run deletes its old checkpoints), is nobody's source
    with contextlib.suppress(PermissionError, FileNotFoundError):
        if entry.is_file(follow_symlinks=False) and budget.pay(entry.stat(follow_symlinks=False).st_size):
            shutil.copy2(entry.path, target)
            return
    target.unlink(missing_ok=True)
    target.symlink_to(entry.path)


def _write_patched(path: Path, content: bytes, place: Place) -> None:
    if not path.resolve().is_relative_to(place.root):
        raise Refused(
            f"{path} lies outside the project {place.root}, only files of the project can be patched in a copy",
            hint="name the folder that holds both as the project",
        )
    target = place.copy_of(path.resolve())
    overlay.own_file(str(target), str(place.tree), keep=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


# ------------------------------------------------------------------------------------------------ what leads there


def _redirected(word: str, place: Place) -> str:
    option, equals, value = word.partition("=")
    if equals and option.startswith("-") and value.startswith("/"):
        return f"{option}={_redirected(value, place)}"
    if not word.startswith("/"):
        return word
    inside = any(overlay.below(os.path.normpath(word), str(folder)) for folder in (place.root, place.cwd))
    return str(place.copy_of(word)) if inside and not _is_environment(word) else word


def _is_environment(path: str) -> bool:
    """A virtual environment inside the project is used where it is: its python would not know itself elsewhere."""
    return any(part in LINKED_WHOLE for part in Path(path).parts)


def _redirected_list(value: str, place: Place) -> str:
    if not value.startswith("/"):
        return value
    return os.pathsep.join(_redirected(entry, place) for entry in value.split(os.pathsep))


def _offline(place: Place) -> dict[str, str]:
    """Experiment trackers write locally, and nothing is downloaded: arms must not differ by the network."""
    runs = str(place.scratch / "arm" / "trackers")
    return {
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"file:{runs}/mlruns",
        "COMET_START_ONLINE": "0",
        "COMET_OFFLINE_DIRECTORY": f"{runs}/comet",
        "NEPTUNE_MODE": "offline",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "offline",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
