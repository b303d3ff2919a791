"""Marks calls that may wait for the GPU, with the line of the user's code that made them.

In: the installed torch. Out: marks (start, end, thread, call, place) between `install` and `remove`; afterwards torch
is exactly as before. Used in one or two steps after the clean window, whose timings are never reported. Methods of
torch's classes are replaced, so that implicit reads (`if loss > 1:`, `f"{loss}"`) are marked as well and compiled code
stays compiled.

Code that inspects a method instead of calling it (TorchScript, `__torch_function__` of tensors and modes) gets torch's
own. Warnings and errors look as they would without the wrappers.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import has_torch_function

from tracelens.capture.inside.sync_debug_mode import SyncDebugMode
from tracelens.capture.inside.user_frames import Place, innermost
from tracelens.capture.inside.warning_redirect import WarningRedirect
from tracelens.launch.inside import torch_registries
from tracelens.launch.inside.tracebacks import hide_our_frames

MOST_MARKS = 50_000
"""Marks kept. A step makes tens, rarely thousands of such calls; more is a loop over a tensor's elements."""

READS = (
    "item", "__bool__", "__float__", "__int__", "__index__", "__complex__", "__format__", "__repr__", "__array__",
    "tolist", "cpu", "numpy", "is_nonzero", "nonzero", "argwhere", "unique", "masked_select", "equal", "allclose",
    "repeat_interleave", "__getitem__", "__setitem__", "__contains__",
)  # fmt: skip
MOVES = ("to", "cuda", "type", "copy_", "pin_memory")
FUNCTIONS = (
    "nonzero",
    "unique",
    "masked_select",
    "equal",
    "allclose",
    "repeat_interleave",
    "where",
    "tensor",
    "as_tensor",
)
REPORT_NS = 200_000
"""How long the mark of a reported call is: torch reports it after it has returned, so its start is unknown."""
REPORTED = "an operator that synchronizes"
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Mark:
    """One call that may have waited."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    call: str
    place: Place


@dataclass
class _Patch:
    """One replaced attribute. `bare`: number of running calls for which torch's own is back in its place."""

    owner: Any
    name: str
    previous: Any
    original: Callable[..., Any]
    replacement: Any = None
    bare: int = 0

    def put_on(self) -> None:
        setattr(self.owner, self.name, self.replacement)

    def take_off(self) -> None:
        """Restore the attribute, unless the script has replaced it meanwhile."""
        if vars(self.owner).get(self.name, _MISSING) is not self.replacement:
            return
        if self.previous is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.previous)


@dataclass
class Attribution:
    """Wraps the calls between `install` and `remove`, both called at step boundaries."""

    marks: list[Mark] = field(default_factory=list)
    _patched: list[_Patch] = field(default_factory=list)
    _local: threading.local = field(default_factory=threading.local)
    _active: bool = False
    _debug_mode: SyncDebugMode | None = None
    _warning_redirect: WarningRedirect = field(default_factory=lambda: WarningRedirect(__name__, __file__))
    _patch_lock: threading.Lock = field(default_factory=threading.Lock)
    _empty_caches: list[Any] = field(default_factory=list)

    def install(self) -> None:
        """Replace the methods; on any failure all are restored and the error is raised."""
        try:
            self._empty_caches = torch_registries.empty_caches()
            self._warning_redirect.install()
            self._install_tensor()
            self._install_cuda()
            self._debug_mode = SyncDebugMode(self._reported)
            self._debug_mode.install()
        except BaseException:
            self.remove()
            raise
        self._active = True

    def remove(self) -> None:
        """Restore everything, in reverse order."""
        self._active = False
        if self._debug_mode is not None:
            self._debug_mode.remove()
        with self._patch_lock:
            while self._patched:
                patch = self._patched.pop()
                torch_registries.unregister(patch.replacement)
                patch.take_off()
        self._warning_redirect.remove()
        torch_registries.clear_caches(self._empty_caches)
        self._empty_caches = []

    def _install_tensor(self) -> None:
        for name in READS:
            self._patch(torch.Tensor, name, f"Tensor.{name}", _is_local)
        for name in MOVES:
            self._patch(torch.Tensor, name, f"Tensor.{name}", None)
        for name in FUNCTIONS:
            self._patch(torch, name, f"torch.{name}", None if name in ("tensor", "as_tensor") else _is_local)

    def _install_cuda(self) -> None:
        # `torch.cuda.synchronize` calls the C function, also where the script has imported it by name.
        self._patch(torch._C, "_cuda_synchronize", "torch.cuda.synchronize", None)
        self._patch(torch.cuda, "synchronize", "torch.cuda.synchronize", None)
        self._patch(torch.cuda, "empty_cache", "torch.cuda.empty_cache", None)
        self._patch(torch.cuda.Stream, "synchronize", "Stream.synchronize", None)
        self._patch(torch.cuda.Event, "synchronize", "Event.synchronize", None)
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None:
            self._patch(accelerator, "synchronize", "torch.accelerator.synchronize", None)

    def _patch(self, owner: Any, name: str, call: str, skip: Callable[[tuple[Any, ...]], bool] | None) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        patch = _Patch(owner, name, vars(owner).get(name, _MISSING), original)
        patch.replacement = self._marked(patch, call, skip)
        torch_registries.register_replacement(original, patch.replacement)
        self._patched.append(patch)
        patch.put_on()

    def _bare(self, patch: _Patch, *args: Any, **kwargs: Any) -> Any:
        """Call torch's own method while it is back in its place: `__torch_function__` overrides compare it."""
        with self._patch_lock:
            patch.bare += 1
            patch.take_off()
        try:
            return patch.original(*args, **kwargs)
        finally:
            with self._patch_lock:
                patch.bare -= 1
                if not patch.bare and any(other is patch for other in self._patched):
                    patch.put_on()

    def _marked(self, patch: _Patch, call: str, skip: Callable[[tuple[Any, ...]], bool] | None) -> Callable[..., Any]:
        local, clock, native_id = self._local, time.time_ns, threading.get_native_id
        original, bare = patch.original, functools.partial(self._bare, patch)

        @functools.wraps(original)
        def marked(*args: Any, **kwargs: Any) -> Any:
            overridden = has_torch_function((*args, *kwargs.values()))
            function = bare if overridden else original
            if not self._active or getattr(local, "inside", False) or (skip and not overridden and skip(args)):
                return function(*args, **kwargs)
            local.inside = True  # of nested calls only the outermost is marked: the user wrote that one
            start = clock()
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                hide_our_frames(error)
                raise
            finally:
                end = clock()
                local.inside = False
                if len(self.marks) < MOST_MARKS:
                    place = innermost(sys._getframe(1))
                    if place is not None:
                        self.marks.append(Mark(start, end, native_id(), call, place))

        return _unseen_by_dynamo(marked)

    def _reported(self) -> None:
        """torch reports that the call that has just returned synchronized; none of our wrappers was around it."""
        if not self._active or getattr(self._local, "inside", False) or len(self.marks) >= MOST_MARKS:
            return
        place = innermost(sys._getframe(1))
        if place is not None:
            now = time.time_ns()
            before = self.marks[-1].end_unix_ns if self.marks else 0  # marks must not overlap
            self.marks.append(Mark(max(now - REPORT_NS, before), now, threading.get_native_id(), REPORTED, place))


def _is_local(args: tuple[Any, ...]) -> bool:
    """Whether the first argument is a tensor in host memory, which nothing waits for; False in a job without CUDA."""
    return bool(args) and isinstance(args[0], torch.Tensor) and not args[0].is_cuda and torch.cuda.is_initialized()


def _unseen_by_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep torch.compile from tracing into the wrapper, without importing `torch._dynamo` where it is not in use."""
    if "torch._dynamo" in sys.modules:
        disabled: Callable[..., Any] = torch.compiler.disable(function)
        return disabled
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # what the decorator would have set
    return function
