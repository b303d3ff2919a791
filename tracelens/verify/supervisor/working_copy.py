"""The working copy of a project, made anew for each trial process, and what leads a process into it.

In: the project root, the working directory, the patch. Out: a mirror of the file system in which the project's source
files are copies and everything else is links, with the environment and the arguments that belong to it. Each copy has
the same path: no process finds the checkpoint of another, and printed paths agree.
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
from tracelens.messages import say
from tracelens.model import Patch
from tracelens.verify import overlay
from tracelens.verify.policy import POLICY

LINKED_WHOLE = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "tracelens-runs", ".tox", ".nox"})
"""Large folders that no training script edits; each stays one link."""
SKIPPED = frozenset({"__pycache__"})
"""Compiled files remember the original's time of change, not what the patch wrote."""
SOURCES = frozenset({".py", ".pyi", ".pyx", ".so", ".sh", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".json"})
"""Suffixes of code and configuration; in a folder with thousands of files only these are copied."""
SNAPSHOT_FILES = 50_000
"""Most files whose size and time of change are compared before and after; larger projects are checked in part."""
SHOWN_WRITES = 50
"""Paths of written files that are kept; a run that saves images writes thousands."""
# Folders that programs take from the environment; they must not lead out of the working copy.
_HOME_VARIABLES = (
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HF_HOME", "HF_DATASETS_CACHE"),
    *("TORCH_HOME", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "KERAS_HOME"),
)


@dataclass(frozen=True, slots=True)
class WorkingCopy:
    """Where a trial process runs: the project's `root` and the working directory `cwd`, mirrored below `scratch`."""

    scratch: Path
    root: Path
    cwd: Path

    @property
    def folder(self) -> Path:
        """Everything that belongs to one process; removed before the next."""
        return self.scratch / "run"

    @property
    def tree(self) -> Path:
        """The mirror of the file system."""
        return self.folder / "tree"

    @property
    def out(self) -> Path:
        """Streams and records of the process."""
        return self.folder / "out"

    @property
    def cache(self) -> Path:
        """Compiled kernels, shared by all processes: they are the same for the same code."""
        return self.scratch / "cache"

    def path_of(self, path: Path | str) -> Path:
        """Where `path` of the file system stands in the mirror."""
        return Path(overlay.mirrored(str(path), str(self.tree)))


def build(copy: WorkingCopy, patch: Patch | None) -> None:
    """Replace what the last process left by a new working copy, patched or not.

    Raises `InputError` where the project is no folder, `Refused` for a patch of files outside the project.
    """
    if copy.folder.exists():
        shutil.rmtree(copy.folder)
    for folder in (copy.out, copy.folder / "tmp", copy.cache):
        folder.mkdir(parents=True, exist_ok=True)
    home = Path.home()
    for folder in sorted({copy.root, copy.cwd, home}, key=lambda path: len(path.parts)):
        _mirror_path_to(folder, copy)
    _copy_project(copy)
    for file in patch.files if patch is not None else ():
        _write_patched(file.path, file.after, copy)


def arguments(words: tuple[str, ...], copy: WorkingCopy) -> tuple[str, ...]:
    """The command with paths into the project leading to the working copy; `--out=PATH` forms included."""
    return tuple(_redirected(word, copy) for word in words)


def environment(base: Mapping[str, str], copy: WorkingCopy, *, seed: int, deterministic: bool) -> dict[str, str]:
    """The user's variables, without what leads out of the working copy or to the network."""
    out = {name: _redirected_list(value, copy) for name, value in base.items()}
    home = str(copy.path_of(Path.home()))
    for name in _HOME_VARIABLES:
        if base.get(name, "").startswith("/"):
            out[name] = str(copy.path_of(base[name]))
    scratch = {name: str(copy.folder / "tmp") for name in ("TMPDIR", "TMP", "TEMP")}
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "CUDA_CACHE_PATH": "cuda",
        "MPLCONFIGDIR": "matplotlib",
        "NUMBA_CACHE_DIR": "numba",
    }
    out |= scratch | {name: str(copy.cache / folder) for name, folder in caches.items()}
    out |= {"HOME": home, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"} | _offline(copy)
    out.setdefault("PYTHONHASHSEED", str(seed % 2**32))
    if deterministic:
        out["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return out


def written(copy: WorkingCopy, since: float) -> tuple[str, ...]:
    """What a process started at `since` (Unix seconds) wrote in the working copy, as paths of the real file system."""
    paths = []
    for folder, _, names in os.walk(copy.tree):  # does not follow links: everything it sees is the copy's own
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink() and path.stat().st_mtime >= since:
                paths.append(f"/{path.relative_to(copy.tree)}")
    return tuple(sorted(paths)[:SHOWN_WRITES])


def snapshot(folders: tuple[Path, ...], streams: tuple[int, ...] = (1, 2)) -> dict[str, tuple[int, int]]:
    """Size and time of change (ns) of the files below `folders`, to check afterwards that none was touched.

    The files that our own output goes to (`streams`, by descriptor) are left out: `tracelens verify > verify.log`
    writes one of them.
    """
    files: dict[str, tuple[int, int]] = {}
    ours = set(_files_behind(streams))
    pending = deque(str(folder) for folder in folders)
    while pending and len(files) < SNAPSHOT_FILES:
        with contextlib.suppress(OSError), os.scandir(pending.popleft()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in LINKED_WHOLE | SKIPPED:
                            pending.append(entry.path)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        if (status.st_dev, status.st_ino) not in ours:
                            files[entry.path] = (status.st_size, status.st_mtime_ns)
    return files


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


def _mirror_path_to(folder: Path, copy: WorkingCopy) -> None:
    """Real folders on the way from / down to `folder`, links for everything beside it (so `../data` is found)."""
    for step in (*reversed(folder.parents), folder):
        mirror = copy.path_of(step)
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
    """Bytes and files that may still be copied."""

    left_bytes: int = POLICY.copy_total_bytes
    left_files: int = POLICY.copy_files

    def pay(self, size: int) -> bool:
        if size > min(POLICY.copy_file_bytes, self.left_bytes) or self.left_files <= 0:
            return False
        self.left_bytes, self.left_files = self.left_bytes - size, self.left_files - 1
        return True


def _copy_project(copy: WorkingCopy) -> None:
    """Copy the project's small files, folder by folder from the top, until the budget is used up."""
    if not copy.root.is_dir():
        raise InputError(
            say("{root} is not a folder", root=copy.root), hint=say("name the folder that holds the script's sources")
        )
    budget = _Budget(POLICY.copy_total_bytes, POLICY.copy_files)
    pending = deque([copy.root])
    while pending:
        folder = pending.popleft()
        try:
            entries = [entry for entry in _sorted(folder) if entry.path != str(copy.scratch)]
        except (PermissionError, FileNotFoundError):
            continue
        mirror = copy.path_of(folder)
        if folder != copy.root and (_is_data(entries) or budget.left_files <= 0):
            continue  # stays the link it is
        if mirror.is_symlink():
            mirror.unlink()
        mirror.mkdir(exist_ok=True)
        for entry in entries:
            if len(entries) > POLICY.copy_entries and Path(entry.name).suffix not in SOURCES:
                continue  # likewise
            _take(entry, mirror / entry.name, budget, copy)
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


def _take(entry: os.DirEntry[str], target: Path, budget: _Budget, copy: WorkingCopy) -> None:
    """Put one entry of the project into the copy: as a file of its own, or as a link."""
    if target.is_dir() and not target.is_symlink():
        return  # on the way to the working directory, mirrored already
    target.unlink(missing_ok=True)
    if entry.name in SKIPPED:
        return
    if entry.is_symlink():
        pointed = Path(entry.path).readlink()
        inside = pointed.is_absolute() and overlay.below(os.path.normpath(pointed), str(copy.root))
        target.symlink_to(copy.path_of(pointed) if inside else pointed)
        return
    # What cannot be read, or has gone meanwhile (a training run deletes its old checkpoints), is no source
    with contextlib.suppress(PermissionError, FileNotFoundError):
        if entry.is_file(follow_symlinks=False) and budget.pay(entry.stat(follow_symlinks=False).st_size):
            shutil.copy2(entry.path, target)
            return
    target.unlink(missing_ok=True)
    target.symlink_to(entry.path)


def _write_patched(path: Path, content: bytes, copy: WorkingCopy) -> None:
    if not path.resolve().is_relative_to(copy.root):
        raise Refused(
            say(
                "{path} lies outside the project {root}, only files of the project can be patched in a copy",
                path=path,
                root=copy.root,
            ),
            hint=say("name the folder that holds both as the project"),
        )
    target = copy.path_of(path.resolve())
    overlay.own_file(str(target), str(copy.tree), keep=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


# ------------------------------------------------------------------------------------- arguments and environment


def _redirected(word: str, copy: WorkingCopy) -> str:
    option, equals, value = word.partition("=")
    if equals and option.startswith("-") and value.startswith("/"):
        return f"{option}={_redirected(value, copy)}"
    if not word.startswith("/"):
        return word
    inside = any(overlay.below(os.path.normpath(word), str(folder)) for folder in (copy.root, copy.cwd))
    return str(copy.path_of(word)) if inside and not _is_environment(word) else word


def _is_environment(path: str) -> bool:
    """A virtual environment inside the project is used where it is: its python would not know itself elsewhere."""
    return any(part in LINKED_WHOLE for part in Path(path).parts)


def _redirected_list(value: str, copy: WorkingCopy) -> str:
    if not value.startswith("/"):
        return value
    return os.pathsep.join(_redirected(entry, copy) for entry in value.split(os.pathsep))


def _offline(copy: WorkingCopy) -> dict[str, str]:
    """Experiment trackers write locally, and nothing is downloaded: processes must not differ by the network."""
    runs = str(copy.folder / "trackers")
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
