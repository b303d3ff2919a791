"""Values of several elements that wait on the GPU: read together, and each what it would have been by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tracelens import runtime
from tracelens.runtime import MAX_PACKED_ELEMENTS, DeferredReads

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)


def kinds_of(dtype: torch.dtype, device: str = "cpu") -> list[torch.Tensor]:
    """Tensors of every kind of shape and of every order of their elements."""
    whole = torch.arange(1, 121, device=device)
    whole = (whole % 2 == 0) if dtype is torch.bool else whole.to(dtype)
    cube = whole.reshape(4, 5, 6)
    return [
        cube,
        cube.permute(2, 0, 1),
        cube[1].t(),
        cube[:, 1:3],
        cube[..., ::2],
        cube[0, 0, :1],
        cube[0, 0, 0],
        cube[0, 0, 0].expand(3, 2),
        cube[:0],
        whole[:1].reshape(1, 1, 1),
        cube[:1].transpose(0, 2),
        whole.reshape(1, 2, 60).to(memory_format=torch.contiguous_format)[:, :, 7:9],
        whole[:96].reshape(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    ]


def described(value: Any) -> tuple[Any, ...]:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides, value.flags.writeable, value.tobytes(), value.flags.owndata
    return type(value), value


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_lists_and_numbers_that_are_read_together_are_what_each_would_be(dtype: torch.dtype) -> None:
    tensors = kinds_of(dtype)
    for kind in ("numpy", "tolist"):
        pending = [runtime._Pending(tensor, kind) for tensor in tensors]
        pending += [runtime._Pending(tensors[6], "item")]
        runtime._read(pending)
        alone = [tensor.detach().clone().cpu() for tensor in tensors]
        expected = [one.numpy() if kind == "numpy" else one.tolist() for one in alone] + [tensors[6].item()]
        assert [repr(described(one.value)) for one in pending] == [repr(described(value)) for value in expected]


def test_arrays_share_no_memory_and_keep_nothing_of_one_another() -> None:
    pending = [runtime._Pending(torch.full((2, 2), float(i)), "numpy") for i in range(5)]
    runtime._read(pending)
    arrays = [one.value for one in pending]
    arrays[0] += 100
    assert [float(array[0, 0]) for array in arrays] == [100.0, 1.0, 2.0, 3.0, 4.0]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    assert {torch.from_numpy(array).untyped_storage().nbytes() for array in arrays} == {16}


def test_one_value_that_two_statements_use_is_read_once() -> None:
    one = runtime._Pending(torch.ones(2), "numpy")
    sealed = runtime._Sealed(2, [(print, (one, one)), (print, (one, runtime._Pending(torch.ones(3), "tolist")))])
    sealed.open()
    assert one.value.tolist() == [1.0, 1.0]


def reads(monkeypatch: pytest.MonkeyPatch, tensors: list[torch.Tensor], kind: str = "numpy") -> int:
    count = []
    original = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: count.append(self.shape) or original(self))
    runtime._read([runtime._Pending(tensor, kind) for tensor in tensors])
    return len(count)


def test_each_type_takes_one_read_and_a_large_tensor_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [torch.ones(3, 2), torch.zeros(5), torch.ones(())] * 4
    assert reads(monkeypatch, small) == 1
    assert reads(monkeypatch, [*small, *(one.long() for one in small)], "tolist") == 2
    assert reads(monkeypatch, [*small, torch.ones(MAX_PACKED_ELEMENTS + 1), torch.ones(1, 3)]) == 2


def test_numbers_too_odd_for_the_row_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    conjugated = torch.tensor([1 + 2j, 3j]).conj()
    pending = [runtime._Pending(conjugated, "tolist"), runtime._Pending(conjugated.imag, "tolist")]
    runtime._read(pending)
    assert [one.value for one in pending] == [conjugated.tolist(), conjugated.imag.tolist()]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("every", [None, 10])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_of_the_gpu_are_what_each_would_be(dtype: torch.dtype, every: int | None) -> None:
    tensors, seen = kinds_of(dtype, "cuda"), []
    ahead = DeferredReads(every)
    for tensor in ahead.iterate(tensors):
        ahead.defer(lambda *values: seen.extend(values), ahead.numpy(tensor), ahead.tolist(tensor))
    expected = [value for tensor in tensors for value in (tensor.cpu().numpy(), tensor.tolist())]
    assert [repr(described(one)) for one in seen] == [repr(described(one)) for one in expected]


@pytest.mark.parametrize("kind", ["record", "memmap"])
def test_a_view_of_numpy_is_written_as_it_is_at_its_batch(kind: str, tmp_path: Path) -> None:
    counts = np.zeros(1, dtype=[("step", "i8")])
    value: Any = counts[0] if kind == "record" else np.memmap(tmp_path / "kept", dtype="f8", mode="w+", shape=(1,))
    key: Any = "step" if kind == "record" else 0
    seen: list[int] = []
    ahead = runtime.DeferredReads(every=10)
    for i in ahead.iterate(range(3)):
        value[key] = i
        ahead.defer(lambda one, loss: seen.append(int(one[key])), value, ahead.item(torch.tensor(1.0)))
    assert seen == [0, 1, 2]
