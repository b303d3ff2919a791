"""Arrays and tensors over memory that something else has too: what is written into one is seen in the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, script

HEAD = "import numpy as np\n"
IMPORTS = {
    "shared_memory.S": "from multiprocessing import shared_memory\n",
    "mp.": "import multiprocessing as mp\n",
    "array.array": "import array\n",
    "ctypes.c": "import ctypes\n",
    "mmap.": "import mmap\n",
}
LOOP = """
for step, (x, y) in enumerate(loader):
    STEP
    curve[step] = loss.item()  # fires
    if step % 8 == 7:
        print(seen[: step + 1].sum())
"""
BUFFERS = {
    "shared memory": "shm = shared_memory.SharedMemory(create=True, size=256)\nshm.unlink()\nbuf = shm.buf\n",
    "shared memory under its module": "import multiprocessing.shared_memory\n"
    "shm = mp.shared_memory.SharedMemory(create=True, size=256)\nshm.unlink()\nbuf = shm.buf\n",
    "bytes": "buf = bytearray(256)\n",
    "a view of bytes": "buf = memoryview(bytearray(256))\n",
    "an array of Python": "buf = array.array('d', [0.0] * 32)\n",
    "a map": "buf = mmap.mmap(-1, 256)\n",
    "an array of C": "buf = (ctypes.c_double * 32)()\n",
    "an array of processes": "buf = mp.RawArray('d', 32)\n",
    "an array with a lock": "buf = mp.Array('d', 32).get_obj()\n",
    "an array of NumPy": "buf = np.zeros(32)\n",
}
MAKERS = {
    "ndarray": "np.ndarray((32,), dtype=np.float64, buffer=buf)",
    "ndarray in order": "np.ndarray((32,), np.float64, buf)",
    "frombuffer": "np.frombuffer(buf, dtype=np.float64)",
    "torch": "torch.frombuffer(buf, dtype=torch.float64)",
    "recarray": "np.recarray((32,), dtype=np.float64, buf=buf)",
}
BASE = "base = np.zeros(32)\n"
VIEWS = {
    "strides": "np.lib.stride_tricks.as_strided(base, (32,), (8,))",
    "windows": "np.lib.stride_tricks.sliding_window_view(base, 32, writeable=True)[0]",
    "require": "np.require(base)",
    "asanyarray": "np.asanyarray(base)",
    "contiguous": "np.ascontiguousarray(base)",
    "in Fortran's order": "np.asfortranarray(base)",
    "no copy": "np.array(base, copy=False)",
    "masked": "np.ma.array(base).data",
    "a part": "np.split(base, 1)[0]",
    "one dimension": "np.atleast_1d(base)",
    "dlpack": "torch.from_dlpack(base)",
    "dlpack of NumPy": "np.from_dlpack(base)",
    "dlpack of torch": "torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.from_numpy(base)))",
    "torch": "torch.asarray(base)",
    "torch by strides": "torch.as_strided(torch.from_numpy(base), (32,), (1,))",
    "set": "torch.empty(0, dtype=torch.float64).set_(torch.from_numpy(base))",
    "a storage": "torch.tensor([], dtype=torch.float64).set_(torch.from_numpy(base).untyped_storage())",
    "of ctypes": "np.ctypeslib.as_array(np.ctypeslib.as_ctypes(base))",
    "the memory of it": "np.asarray(memoryview(base))",
    "its data": "np.ndarray((32,), buffer=base.data)",
    "backwards": "np.flip(np.flip(base))",
}


def is_right(folder: Path, text: str) -> None:
    """Whether a patch that is called safe leaves what the script does."""
    patch = patch_of(folder, text, defer(text, 10), lossy=False)
    if any(one.tier == "safe" for one in patch.hunks):
        assert_same(folder, text, patch)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", BUFFERS)
def test_two_arrays_over_one_buffer(name: str, maker: str, tmp_path: Path) -> None:
    made = f"curve = {MAKERS[maker]}\nseen = {MAKERS[maker]}\n"
    imports = "".join(line for word, line in IMPORTS.items() if word in BUFFERS[name])
    is_right(tmp_path, script(HEAD + imports + BUFFERS[name] + made + LOOP))


@pytest.mark.parametrize("name", VIEWS)
def test_an_array_and_a_view_of_it(name: str, tmp_path: Path) -> None:
    is_right(tmp_path, script(f"{HEAD}{BASE}curve = {VIEWS[name]}\nseen = base\n{LOOP}"))
    folder = tmp_path / "other"
    folder.mkdir()
    is_right(folder, script(f"{HEAD}{BASE}curve = base\nseen = {VIEWS[name]}\n{LOOP}"))


def test_an_array_of_its_own_waits(tmp_path: Path) -> None:
    text = script(f"{HEAD}curve, seen = np.ndarray((32,)), np.zeros(32)\ncurve[:] = 0\n{LOOP}print(curve)\n")
    patch = patch_of(tmp_path, text, defer(text, 10), lossy=False)
    assert [one.tier for one in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)
