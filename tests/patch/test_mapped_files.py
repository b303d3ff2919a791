"""An array that is mapped from a file is the file: who reads the file finds what was stored in the array before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, patched_text, script

LOOP = (
    "import numpy as np\n{}\nseen = []\nfor i, (x, y) in enumerate(loader):\n    optimizer.zero_grad()\n"
    "    loss = model(x).pow(2).mean()\n    loss.backward()\n    optimizer.step()\n    {}  # fires\n"
    "    if i % 5 == 4:\n        {}\n"
)
READ = "seen.append(float(np.load('a.npy').sum()))"
STORE = "curve[i] = loss.item()"
MAPPED = {
    "loaded": ("curve = np.load('a.npy', mmap_mode='r+')", STORE, READ),
    "loaded by position": ("curve = np.load('a.npy', 'r+')", STORE, READ),
    "loaded with options": ("how = {'mmap_mode': 'r+'}\ncurve = np.load('a.npy', **how)", STORE, READ),
    "loaded in a mode that a name has": ("mode = 'r+'\ncurve = np.load('a.npy', mmap_mode=mode)", STORE, READ),
    "opened": ("curve = np.lib.format.open_memmap('a.npy', mode='w+', shape=(99,))", STORE, READ),
    "mapped": ("curve = np.memmap('a.npy', mode='w+', shape=(99,))", STORE, READ),
    "mapped by another name": (
        "from numpy import memmap as m\ncurve = m('a.npy', mode='w+', shape=(99,))",
        STORE,
        READ,
    ),
    "a part of it": ("curve = np.load('a.npy', mmap_mode='r+')[1:]", STORE, READ),
    "a row of it": ("curve = np.load('a.npy', mmap_mode='r+')", "curve[0][i] = loss.item()", READ),
    "as an array": ("curve = np.asarray(np.load('a.npy', mmap_mode='r+'))", STORE, READ),
    "as a tensor": ("curve = torch.from_numpy(np.load('a.npy', mmap_mode='r+'))", STORE, READ),
    "in an object": (
        "class Log:\n    def __init__(self):\n        self.curve = np.load('a.npy', mmap_mode='r+')\nlog = Log()",
        "log.curve[i] = loss.item()",
        READ,
    ),
    "by an object": (
        "class Log:\n    def __init__(self):\n        self.curve = np.load('a.npy', mmap_mode='r+')\n"
        "    def add(self, i, value):\n        self.curve[i] = value\nlog = Log()",
        "log.add(i, loss.item())",
        READ,
    ),
    "in place": ("curve = np.load('a.npy', mmap_mode='r+')", "curve[i] += loss.item()", READ),
    "a tensor of a file": ("curve = torch.from_file('a.npy', shared=True, size=99)", STORE, READ),
    "a storage of a file": (
        "curve = torch.tensor([]).set_(torch.FloatStorage.from_file('a.npy', True, 99))",
        STORE,
        READ,
    ),
    "a storage without type": (
        "curve = torch.tensor([]).set_(torch.UntypedStorage.from_file('a.npy', True, 396))",
        STORE,
        READ,
    ),
    "h5py": (
        "import h5py\nout = h5py.File('a.h5', 'w')\ncurve = out['curve']",
        STORE,
        "seen.append(open('a.h5').read())",
    ),
    "h5py, made": (
        "import h5py\nout = h5py.File('a.h5', 'w')\ncurve = out.create_dataset('curve', (99,))",
        STORE,
        "seen.append(h5py.File('a.h5')['curve'][0])",
    ),
    "zarr": (
        "import zarr\ncurve = zarr.open('a.zarr', mode='w', shape=(99,))",
        STORE,
        "seen.append(len(zarr.open('a.zarr')))",
    ),
    "pandas": ("import pandas as pd\ncurve = pd.HDFStore('a.h5')", STORE, "seen.append(pd.read_hdf('a.h5'))"),
    "a shelf": (
        "import shelve\ncurve = shelve.open('a')",
        "curve[str(i)] = loss.item()",
        "seen.append(open('a').read())",
    ),
    "a database": (
        "import dbm\ncurve = dbm.open('a', 'c')",
        "curve[str(i)] = loss.item()",
        "seen.append(open('a').read())",
    ),
    "bytes": (
        "import mmap\ncurve = mmap.mmap(open('a', 'r+').fileno(), 0)",
        "curve[i] = int(loss.item())",
        "seen.append(open('a').read())",
    ),
    "netcdf": (
        "from scipy.io import netcdf_file\ncurve = netcdf_file('a.nc', 'w', mmap=True).variables['x']",
        STORE,
        "seen.append(open('a.nc').read())",
    ),
}
OTHERS = {
    "loaded": ("curve = np.load('a.npy')", STORE, READ),
    "loaded, to look at": ("data = np.load('a.npy', mmap_mode='r')\ncurve = np.zeros(99)", STORE, READ),
    "a list": ("curve = [0.0] * 99", STORE, READ),
    "an array": ("curve = np.zeros(99)", STORE, READ),
    "a tensor": ("curve = torch.zeros(99)", STORE, READ),
    "a dict": ("curve = {}", STORE, READ),
    "a copy": ("curve = np.load('a.npy', mmap_mode=None)", STORE, READ),
}


def is_passed(folder: Path, before: str, store: str, read: str) -> bool:
    """Whether a safe patch lets the store wait beyond what reads the file."""
    patch = patch_of(folder, script(LOOP.format(before, store, read)), lossy=False)
    if {hunk.tier for hunk in patch.hunks} != {"safe"}:
        return False
    return f"ahead.drain()\n        {read}" not in patched_text(patch)


@pytest.mark.parametrize("name", MAPPED)
def test_who_reads_the_file_finds_what_was_stored(name: str, tmp_path: Path) -> None:
    assert not is_passed(tmp_path, *MAPPED[name])


@pytest.mark.parametrize("name", OTHERS)
def test_an_array_in_memory_is_no_file(name: str, tmp_path: Path) -> None:
    assert is_passed(tmp_path, *OTHERS[name])
