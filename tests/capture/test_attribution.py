"""Calls of torch are attributed to the script's lines, and torch and the script are left as they were."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import pytest

from tests.support.recording import OWN, attributed, left
from tracelens.capture.inside.stack_sampler import StackSampler
from tracelens.capture.inside.user_frames import innermost, is_users, stored_path
from tracelens.capture.window_plan import WindowPlan

torch = pytest.importorskip("torch")


# ------------------------------------------------------------------------------------------------ attribution


def snapshot() -> dict[str, dict[str, Any]]:
    return {
        "Tensor": dict(vars(torch.Tensor)),
        "torch": dict(vars(torch)),
        "cuda": dict(vars(torch.cuda)),
        "Event": dict(vars(torch.cuda.Event)),
        "Stream": dict(vars(torch.cuda.Stream)),
    }


def test_patches_note_the_line_and_leave_torch_as_it_was() -> None:
    from tracelens.capture.inside.attribution import Attribution

    before = snapshot()
    attribution = Attribution()
    attribution.install()
    try:
        value = torch.ones(1)
        here = sys._getframe().f_lineno
        assert value
        assert float(value) == 1.0
        text = f"{value.sum()}"
        number = torch.ones(3)[value.long()].tolist()
    finally:
        attribution.remove()
    value.item()
    assert snapshot() == before
    assert text.startswith("1")
    assert number == [1.0]
    calls = {(mark.call, mark.place[1] - here) for mark in attribution.marks}
    assert {("Tensor.__bool__", 1), ("Tensor.__float__", 2), ("Tensor.__format__", 3), ("Tensor.tolist", 4)} <= calls
    assert {mark.place[0] for mark in attribution.marks} == {__file__}
    assert {mark.place[2] for mark in attribution.marks} == {
        test_patches_note_the_line_and_leave_torch_as_it_was.__name__
    }
    assert all(mark.thread == threading.get_native_id() for mark in attribution.marks)
    assert all(0 <= time.time_ns() - mark.end_unix_ns < 60e9 for mark in attribution.marks)


def test_an_error_inside_a_marked_call_is_the_users_own() -> None:
    from tracelens.capture.inside.attribution import Attribution

    attribution = Attribution()
    attribution.install()
    try:
        with pytest.raises(RuntimeError, match="Tensor with 2 elements"):
            torch.ones(2).item()
        assert torch.ones(1).item() == 1.0
    finally:
        attribution.remove()
    assert [mark.call for mark in attribution.marks] == ["Tensor.item", "Tensor.item"]


# ------------------------------------------------------------------------------------------- frames and samples


def test_library_code_is_not_the_users() -> None:
    assert is_users(left.__code__)
    assert not is_users(json.dumps.__code__)
    assert not is_users(torch.nn.Linear.forward.__code__)
    assert not is_users(WindowPlan.fitted.__code__)
    place = innermost(sys._getframe())
    assert place is not None
    assert place[0] == __file__
    assert stored_path("/a/b/c.py", "/a") == os.path.join("b", "c.py")
    assert stored_path("/ab/c.py", "/a") == "/ab/c.py"


def test_the_sampler_sees_the_line_that_waits() -> None:
    sampler = StackSampler(threading.get_ident())
    sampler.start()
    deadline = time.monotonic() + 20
    here = sys._getframe().f_lineno
    while len(sampler.samples) <= 40 and time.monotonic() < deadline:  # a busy machine may not let it look as often
        time.sleep(0.2)
    sampler.stop()
    waiting = [place for _, place in sampler.samples if place[1] == here + 2]
    assert len(waiting) > 0.8 * len(sampler.samples) > 30


# ------------------------------------------------------------------------------------- functions that are looked at


def picks(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, torch.nonzero(x).sum().to(x.dtype)) + torch.unique(x).sum()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")
def test_torchscript_compiles_within_attributed_steps_and_afterwards() -> None:
    from torch.jit._builtins import _get_builtin_table

    before = dict(_get_builtin_table())
    with attributed():
        within = torch.jit.script(picks)(torch.tensor([-1.0, 2.0]))
    assert within.tolist() == torch.jit.script(picks)(torch.tensor([-1.0, 2.0])).tolist() == picks_plainly()
    assert dict(_get_builtin_table()) == before


def picks_plainly() -> list[float]:
    return [float(one) for one in picks(torch.tensor([-1.0, 2.0]))]


class Tabled(torch.Tensor):
    """A tensor that knows what it can do by a table, as torch's guide to extending it shows."""

    @classmethod
    def __torch_function__(cls, func: Any, _types: Any, _args: Any = (), _kwargs: Any = None) -> Any:
        known = {torch_own: number for number, torch_own in enumerate(OWN)}
        return known.get(func, NotImplemented)


def test_a_tensor_class_with_a_table_of_functions_finds_torchs_own() -> None:
    value = torch.ones(3).as_subclass(Tabled)
    with attributed() as attribution:
        assert (value.item(), value.to("cpu"), value[0], torch.where(value)) == (0, 1, 2, 3)
        with pytest.raises(TypeError, match="NotImplemented"):
            value.cpu()
        assert torch.ones(1).item() == 1.0
    assert [mark.call for mark in attribution.marks][:4] == [
        "Tensor.item",
        "Tensor.to",
        "Tensor.__getitem__",
        "torch.where",
    ]


def test_a_mode_sees_torchs_own_functions_and_no_question_of_ours() -> None:
    from torch.overrides import TorchFunctionMode

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    value = torch.ones(1)
    both = []
    for within in (False, True):
        seen: list[Any] = []
        with Watching():
            if within:
                with attributed():
                    seen.clear()
                    value.item()
                    value.to("cpu")
            else:
                value.item()
                value.to("cpu")
        both.append([one for one in seen if "__get__" not in str(one)][:2])
    assert both[0] == both[1]
    assert all(first is second for first, second in zip(*both, strict=True))


def test_what_torch_learns_once_it_does_not_learn_of_us() -> None:
    from torch.overrides import _get_overridable_functions, get_ignored_functions, get_testing_overrides
    from torch.utils import _device

    lists = (_get_overridable_functions, get_ignored_functions, get_testing_overrides)
    for one in (*lists, _device._device_constructors):
        one.cache_clear()
    with attributed():
        with torch.device("meta"):
            assert torch.tensor([1.0]).device.type == "meta"
        for one in lists:
            one()
    with torch.device("meta"):
        assert torch.tensor([1.0]).device.type == "meta"
    assert torch.Tensor.item in get_testing_overrides()
    assert torch.Tensor.item in _get_overridable_functions()[0][torch.Tensor]


def test_what_the_script_puts_in_the_place_of_a_method_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracelens.capture.inside.attribution import Attribution

    own = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", own)  # put back in the end
    attribution = Attribution()
    attribution.install()

    def mine(value: torch.Tensor) -> Any:
        return own(value)

    torch.Tensor.tolist = mine  # type: ignore[method-assign]
    attribution.remove()
    assert torch.Tensor.tolist is mine
