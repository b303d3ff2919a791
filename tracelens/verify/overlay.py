"""A working copy in which large things are links until they are written to.

In: the folder `tree` that mirrors the file system (`tree/home/me/project` stands for `/home/me/project`). Out: paths
in it that are safe to write. A link is replaced by what it points to only when something below it is about to change,
so a data set of a terabyte costs one link, and a checkpoint at the resume path one copy. Standard library only: this
is used by the supervisor that builds the copy and by the script's own process.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def below(path: str, folder: str) -> bool:
    """True for `folder` itself and everything under it; both absolute and normalized."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mirrored(path: str, tree: str) -> str:
    """Where `path` of the file system stands in the working copy."""
    return os.path.join(tree, os.path.abspath(path).lstrip("/"))


def own_parents(path: str, tree: str) -> None:
    """Make every folder above `path` a real one of the working copy."""
    current = tree
    for part in Path(os.path.relpath(os.path.dirname(path), tree)).parts:
        current = os.path.join(current, part)
        if Path(current).is_symlink() and _leaves(current, tree):
            _unfold(current)
        elif not os.path.lexists(current):
            return  # the write that follows fails by itself, as in the original folder


def own_file(path: str, tree: str, *, keep: bool) -> None:
    """Make the file at `path` one of the working copy; `keep` copies what it holds, else it will be truncated."""
    own_parents(path, tree)
    if not (Path(path).is_symlink() and _leaves(path, tree)):
        return
    target = os.path.realpath(path)
    if os.path.isdir(target):
        _unfold(path)
        return
    os.unlink(path)
    if keep and os.path.exists(target):
        shutil.copy2(target, path)


def _leaves(link: str, tree: str) -> bool:
    return not below(os.path.realpath(link), os.path.realpath(tree))


def _unfold(link: str) -> None:
    """Replace a link to a folder by a folder of links."""
    target = os.path.realpath(link)
    os.unlink(link)
    Path(link).mkdir()
    for entry in Path(target).iterdir():
        Path(link, entry.name).symlink_to(entry)
