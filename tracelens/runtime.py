# tracelens runtime 9: copied beside the training script by `tracelens apply`; needs torch and nothing else.
"""What patched training scripts use: reads that wait, batches copied ahead, and named streams.

In: the tensors, loaders and statements of a training loop. Out: the same values in the same order, later. On a
machine without CUDA everything here gives the same results and simply overlaps nothing. The file is copied beside
the script as `tracelens_runtime.py`, so it imports torch only and nothing of TraceLens.

    DeferredReads    the host runs ahead of the GPU; statements that need values from it run later, in order
    prefetch    the next batches are copied to the GPU while the current one is computed
    Streams     named streams, and events
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import gc
import operator
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

MAX_DELAY_S = 1.0
"""Statements wait about this long at most, so that a slow loop still shows its lines while it runs."""
MAX_WAITING_BATCHES = 64
"""With `every=None`, from here on the oldest batch is waited for: memory stays bounded on a slow GPU."""
MAX_KEPT_ELEMENTS = 1 << 20
"""A larger tensor is read at once: keeping several batches of it could cost the memory that training needs."""
MAX_PACKED_ELEMENTS = 1 << 16
"""Larger tensors are read one by one: to join them would take longer than a read takes to start."""
MAX_BATCHES_IN_FLIGHT = 4
"""Batches on the GPU that the loop has issued and the GPU has not finished, before `prefetch` copies one more."""

MAX_FLUSH_S = 3.0
"""Event files are waited for so long before a signal ends the process; what sent it kills after some more seconds."""

_EVENT_THREADS = ("_AsyncWriterThread", "_EventLoggerThread")
"""Of tensorboard's writer, and of tensorboardX's."""
_IMMUTABLE = (int, float, complex, str, bytes, range, type(None), torch.Size, torch.dtype, torch.device)


class _Terminable:
    """Runs what waits before a signal ends the process, then does what would have been done without it.

    Slurm and Kubernetes send SIGTERM some seconds before they kill, Slurm SIGUSR1 or SIGUSR2 where it is asked to, and
    a terminal that is closed SIGHUP. The script's own handler, or one that a launcher has set, runs afterwards; without
    one the process dies of the signal, with the same status as before. Python's KeyboardInterrupt comes at the end of
    what is being run, so that no line is left out; a second one comes at once. So does any of them where what is being
    run does not go on, as where nobody reads the screen.
    """

    _calls: Sized = ()
    """What waits."""

    def __init__(self) -> None:
        self._process = 0
        self._handlers_before: dict[int, Any] = {}
        self._busy = 0
        self._frame: Any = None
        self._asked = 0
        self._stuck = False
        self._ending = False
        self._listens = False

    def drain(self) -> bool:
        raise NotImplementedError

    def _watch(self) -> None:
        """From here on; only in the main thread, where alone Python lets a handler be set."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._process, in_c = os.getpid(), _handled_in_c()
        for number in _ENDINGS:
            before = signal.getsignal(number)
            if _loop_of(before) is not self and number not in in_c and _may_end(number, before):
                self._handlers_before[number] = before
        if self._handlers_before:
            _watch_forks()
            self._listens = _hear_signals()
        for number in self._handlers_before:
            signal.signal(number, self._on_signal)

    def _unwatch(self) -> None:
        """Put the handlers back that were there before, unless the loop has set one of its own."""
        if threading.current_thread() is not threading.main_thread():
            return
        while self._handlers_before:
            number, before = self._handlers_before.popitem()
            if _loop_of(signal.getsignal(number)) is self:
                signal.signal(number, before)
        if self._listens:
            self._listens = False
            _hear_no_signals()

    @contextlib.contextmanager
    def _put_off(self) -> Iterator[None]:
        """A signal that arrives in this block is handled at its end: what waits is being changed in it."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            number = 0 if self._busy else self._asked
            if number:
                self._asked = 0
                self._deliver(number)

    def _on_signal(self, number: int, frame: Any) -> None:
        while self._ending:  # `_end` writes what waits, and then ends the process
            time.sleep(MAX_FLUSH_S)
        self._frame = frame
        at_once = self._stuck or (number == signal.SIGINT and self._asked)
        if not self._busy or at_once or os.getpid() != self._process:
            self._asked, self._stuck = 0, False
            self._deliver(number)
            return
        self._asked = number

    def _see_to(self, number: int) -> None:
        """In a thread, of a signal that has come: Python handles it where the main thread is back from a call in C, and
        this class where what is being run is done. Neither need happen: a collective that hangs, a screen that nobody
        reads. Without the loop the signal would have ended the process, or interrupted the line."""
        ends, before = self._ends(number), None
        while True:
            time.sleep(MAX_FLUSH_S / 2)
            now = (self._asked, len(self._calls))
            if not ends and not self._asked:
                return
            if now == before:
                break
            before = now
        if ends:
            self._end(number)
        else:
            self._stuck = True
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _outer(self, number: int) -> _Terminable | None:
        """The loop around this one."""
        return _loop_of(self._handlers_before.get(number))

    def _ends(self, number: int) -> bool:
        """Whether nobody handled the signal before."""
        outer = self._outer(number)
        return outer._ends(number) if outer else self._handlers_before.get(number) is signal.SIG_DFL

    def _end(self, number: int) -> None:
        """What waits, unless that is what hangs, and the end of the process."""
        loops: list[_Terminable] = [self]
        while outer := loops[-1]._outer(number):
            loops.append(outer)
        if not any(loop._busy for loop in loops):
            for loop in loops:
                loop._ending = True
            for write in (*(loop.drain for loop in loops), _flush_streams):
                writing = threading.Thread(target=write, daemon=True)
                writing.start()
                writing.join(MAX_FLUSH_S)
        ctypes.CDLL(None).signal(number, 0)  # `signal.signal` is for the main thread alone
        os.kill(os.getpid(), number)

    def _deliver(self, number: int) -> None:
        """What was to be done without the loop. KeyboardInterrupt leaves the loop, which then runs what waits."""
        interrupts = number == signal.SIGINT
        before = self._handlers_before.get(number, signal.default_int_handler if interrupts else signal.SIG_DFL)
        try:
            mine = not self._busy and os.getpid() == self._process  # a forked child has none of this to finish
            if mine and not interrupts:
                self.drain()
                _flush_event_files()
                _flush_streams()
        finally:
            frame, self._frame = self._frame, None
            if callable(before):
                before(number, frame)
            else:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)


def _loop_of(handler: Any) -> _Terminable | None:
    """The loop whose handler it is; None for anybody else's."""
    loop = getattr(handler, "__self__", None)
    return loop if isinstance(loop, _Terminable) else None


def _numbers(*names: str) -> tuple[int, ...]:
    """Of the signals that this system has."""
    return tuple(number for name in names if (number := getattr(signal, name, None)) is not None)


_RARE_ENDINGS = _numbers("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGABRT", "SIGIO", "SIGPWR")
"""Whoever handles one of these has a clock or a file in mind, and no end."""
_ENDINGS = (
    *_numbers("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGQUIT", "SIGINT"),
    *_RARE_ENDINGS,
)
"""What ends a process where nobody handles it, but for SIGKILL, which nobody can, and for signs of a fault."""


_ears: dict[int, int] = {}
"""Per process where Python writes the number of each signal as soon as it comes, for a thread that reads it."""


def _listen(heard: int) -> None:
    while numbers := os.read(heard, 64):
        for number in numbers:
            loop = _loop_of(signal.getsignal(number))
            if loop is not None:
                loop._see_to(number)


def _hear_signals() -> bool:
    """Whether it is this loop that hears of signals now: a loop around it, or somebody else, may do so already."""
    if not hasattr(signal, "pthread_kill"):
        return False
    if os.getpid() not in _ears:
        heard, _ears[os.getpid()] = os.pipe()
        os.set_blocking(_ears[os.getpid()], False)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)  # the thread takes none that the script blocks
        _thread.start_new_thread(_listen, (heard,))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    before = signal.set_wakeup_fd(_ears[os.getpid()], warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
    return before == -1


def _hear_no_signals() -> None:
    before = signal.set_wakeup_fd(-1)
    if before not in (-1, *_ears.values()):
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)


def _handled_in_c() -> frozenset[int]:
    """Signals with a handler that Python does not know of, as `faulthandler.register` sets one: it cannot be called."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            caught = next((int(line.split()[1], 16) for line in status if line.startswith("SigCgt:")), 0)
    except OSError:
        return frozenset()
    return frozenset(n for n in _ENDINGS if caught >> n - 1 & 1 and signal.getsignal(n) is signal.SIG_DFL)


def _may_end(number: int, handler: Any) -> bool:
    """Whether the signal may end the process: SIGINT by Python's own handler, or by that of a loop around this one."""
    if _loop_of(handler) is not None:
        return True
    if number == signal.SIGINT:
        return handler is signal.default_int_handler
    return handler is signal.SIG_DFL or (number not in _RARE_ENDINGS and handler not in (None, signal.SIG_IGN))


@functools.cache
def _watch_forks() -> None:
    """A child is without our handlers from its first moment: Python drops what arrives before, and it would live on.

    Signals are held back while the process forks, and arrive when the handlers of before are there again.
    """
    masks: list[Any] = []

    def hold() -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS))

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    def release_child() -> None:
        for number in _ENDINGS:
            while (ours := _loop_of(signal.getsignal(number))) is not None:
                signal.signal(number, ours._handlers_before.get(number, signal.SIG_DFL))
        _hear_no_signals()  # what ends the child is not to be heard by its parent
        release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_child)


def _flush_event_files() -> None:
    """Wait for what event writers were told: a thread of theirs writes it, and ends with the process."""
    until = time.monotonic() + MAX_FLUSH_S
    for writing in [one for one in threading.enumerate() if type(one).__name__ in _EVENT_THREADS]:
        while _is_told(getattr(writing, "_queue", None)) and time.monotonic() < until:
            time.sleep(0.001)
        flush = getattr(getattr(writing, "_record_writer", None), "flush", None)
        if flush is not None:  # in a thread, as a signal may have come while the loop itself had a lock of the file
            flushing = threading.Thread(target=flush, daemon=True)
            flushing.start()
            flushing.join(max(0.0, until - time.monotonic()))


def _flush_streams() -> None:
    """Put out what the script has printed: it may have flushed its lines meanwhile, as a bar or a new process does."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError, RuntimeError):
            stream.flush()


def _is_told(waiting: Any) -> bool:
    """Whether anything is in a queue of `queue`, or of `multiprocessing`."""
    if hasattr(waiting, "unfinished_tasks"):
        return bool(waiting.unfinished_tasks)
    return bool(getattr(waiting, "_buffer", ())) or (hasattr(waiting, "empty") and not waiting.empty())


class DeferredReads(_Terminable):
    """Lets the host run ahead of the GPU by up to `every` batches.

    `every` None stands for "as soon as the GPU is done with it": then nothing waits before the end of the loop.
    Statements handed to `defer` run in the order in which they were handed over: every `every` batches, at `drain`,
    after the last batch, and when the loop is left by break, return or an exception.
    """

    def __init__(self, every: int | None = 10) -> None:
        super().__init__()
        self._every = every
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._sealed: deque[_Sealed] = deque()
        self._unsealed_calls = 0
        self._ahead = 0
        self._drained_at = time.monotonic()
        self._events: dict[Any, Any] = {}
        self._unsynchronized: dict[Any, None] = {}
        self._error: BaseException | None = None
        self._left = False

    def iterate(self, iterable: Iterable[Any], shows: Callable[[int], Any] | None = None) -> Iterator[Any]:
        """The items of `iterable`, each of which is one batch of the loop.

        `shows` tells after which batches, counted from 0, `iterable` itself shows results before it gives the next
        one: all that waits runs before.
        """
        iterator = iter(iterable)
        batch = 0
        self._watch()
        try:
            while not self._left:
                try:
                    yield next(iterator)  # kept in no variable here: the loop decides how long a batch lives
                except StopIteration:
                    break
                if shows is not None and shows(batch):
                    self.drain()
                else:
                    self._end_batch()
                batch += 1
            self._finish()
        except GeneratorExit:  # break, return, or an exception in the loop's body
            self._finish_on_the_way_out()
            raise
        except BaseException:  # the loader failed, or an interrupt arrived in it
            self._finish_on_the_way_out()
            raise
        finally:
            self._unwatch()

    def iterate_while(self, condition: Callable[[], Any]) -> Iterator[Any]:
        """In place of `while condition():`, where each pass is one batch of the loop."""
        return self.iterate(iter(lambda: bool(condition()), False))

    def defer(self, statements: Callable[..., object], *values: Any) -> None:
        """Run `statements(*values)` later, with each pending read replaced by its value."""
        if self._left:
            return  # the loop as first written had ended before
        with self._put_off():
            kept = tuple(_snapshot(value) for value in values)
            if any(value is _LIVE for value in kept):  # it may change until then, so the statements run now
                self.drain()
                _read(values)
                statements(*(_settled(value) for value in values))
            else:
                self._calls.append((statements, kept))
                self._unsealed_calls += 1

    def item(self, value: Any) -> Any:
        """`value.item()`, later."""
        return _Pending(value, "item") if _plain(value) and value.numel() == 1 else value.item()

    def number(self, value: Any) -> Any:
        """The number in a tensor of one element, later; anything else as it is: a complex one is none."""
        waits = _plain(value) and value.numel() == 1 and not value.is_complex()
        return _Pending(value, "item") if waits else value

    def formatted(self, value: Any) -> Any:
        """What a format specification sees: the number in a tensor without dimensions; anything else as it is."""
        ordinary = type(value) is torch.Tensor and _plain(value)  # a parameter's own format is another
        return _Pending(value, "item") if ordinary and value.dim() == 0 else value

    def tolist(self, value: Any) -> Any:
        """`value.tolist()`, later."""
        return _Pending(value, "tolist") if _plain(value) and _small(value) else value.tolist()

    def numpy(self, value: Any) -> Any:
        """`value.detach().cpu().numpy()`, later; at once on the host, where the array shares the tensor's memory."""
        waits = _plain(value) and _small(value) and value.device.type != "cpu"
        return _Pending(value, "numpy") if waits else value.detach().cpu().numpy()

    def host(self, value: Any) -> Any:
        """`value.cpu()`, later, for what is computed of it there; at once where that would be a part of a graph."""
        if not (_plain(value) and _small(value)) or value.requires_grad:
            return _AtOnce(value.cpu())
        pending = _Pending(value, "host")
        same_order = value.device.type != "cpu" or pending.tensor.stride() == value.stride()
        return pending if same_order else _AtOnce(value)  # in another order a sum can have other last digits

    def values(self, value: Any) -> Any:
        """`value.cpu()`, later, where only a number is taken of what is computed there."""
        return self.host(value.detach()) if isinstance(value, torch.Tensor) else value.cpu()

    def record(self, where: Any = None) -> None:
        """In place of `torch.cuda.synchronize()`: mark the batch; wait every `every` batches and after the loop.

        `where`: a device, a stream, or an event that marks the batch already.
        """
        if not torch.cuda.is_available():
            return
        if hasattr(where, "elapsed_time"):
            self._unsynchronized[where] = None
            if self._due():
                self._synchronize()
            elif len(self._unsynchronized) > MAX_WAITING_BATCHES:
                oldest = next(iter(self._unsynchronized))
                del self._unsynchronized[oldest]
                oldest.synchronize()
            return
        given = hasattr(where, "record_event")
        stream = where if given else torch.cuda.current_stream(where)
        place = where if given else stream.device
        if place not in self._events:  # an event belongs to the device that it was first recorded on
            _protect_workers()
            self._events[place] = torch.cuda.Event()
        self._events[place].record(stream)
        if self._due():
            self._events[place].synchronize()

    def synchronize(self, where: Any = None) -> None:
        """`torch.cuda.synchronize()`, but only every `every` batches and after the loop.

        `where`: a device, a stream or an event.
        """
        if torch.cuda.is_available():
            self._unsynchronized[where] = None
        if self._due():
            self._synchronize()

    def _synchronize(self) -> None:
        for where in self._unsynchronized:
            if hasattr(where, "synchronize"):
                where.synchronize()
            else:
                torch.cuda.synchronize(where)
        self._unsynchronized.clear()

    def tick(self, clock: Callable[[], float]) -> _Tick:
        """In place of `clock()` where a time is measured: this moment on the GPU, and on the clock."""
        if not torch.cuda.is_available():
            return _Tick(clock(), None)
        _protect_workers()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return _Tick(clock(), event)

    def elapsed(self, start: Any, stop: Any) -> Any:
        """`stop - start` in seconds, later: between two ticks as the GPU went through them, else by the clock."""
        first, last = getattr(start, "event", None), getattr(stop, "event", None)
        if first is not None and last is not None:
            return _Pending((first, last), "elapsed")
        return _seconds(stop) - _seconds(start)

    def leave(self) -> None:
        """In place of `break` in statements that run later: the loop ends with the present batch, nothing else runs."""
        self._left = True
        self._calls.clear()
        self._sealed.clear()

    def drain(self) -> bool:
        """Run all that waits, in order. Afterwards every result is what the loop as first written would have.

        True if one of the statements left the loop.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        with self._put_off():
            self._ahead = 0
            self._drained_at = time.monotonic()
            for batch in self._sealed:
                batch.open()
            self._sealed.clear()
            _read(value for _, values in self._calls for value in values)
            self._unsealed_calls = 0
            self._run(len(self._calls))
        return self._left

    def _run(self, count: int) -> None:
        for _ in range(count):
            if self._left:
                return
            statements, values = self._calls.popleft()
            try:
                statements(*(_settled(value) for value in values))
            except BaseException:  # the loop as first written would not have reached the batches after this one
                self._calls.clear()
                self._sealed.clear()
                raise

    def _due(self) -> bool:
        return self._every is not None and self._ahead + 1 >= self._every

    def read_due(self) -> None:
        """Run what waits already here if the batch would end with that: the wait belongs before the clock read next."""
        if self._due() or self._overdue():
            self.drain()
            self._ahead = -1  # of the batches that follow none has ended when this one does

    def _overdue(self) -> bool:
        late = time.monotonic() - self._drained_at > MAX_DELAY_S
        return self._every is not None and bool(self._calls) and late

    def _end_batch(self) -> None:
        if self._every is None:
            with self._put_off():
                self._run_what_is_ready()
        elif self._due() or self._overdue():
            self.drain()
        else:
            self._ahead += 1

    def _run_what_is_ready(self) -> None:
        """Start this batch's copies to the host, then run the statements of the batches whose copies are done."""
        if self._unsealed_calls:
            recent = list(self._calls)[-self._unsealed_calls :]
            self._sealed.append(_Sealed(self._unsealed_calls, recent))
            self._unsealed_calls = 0
        while self._sealed and (self._sealed[0].ready() or len(self._sealed) > MAX_WAITING_BATCHES):
            batch = self._sealed.popleft()
            batch.open()
            self._run(batch.count)

    def _finish(self) -> None:
        self.drain()
        for event in self._events.values():
            event.synchronize()
        self._synchronize()

    def _finish_on_the_way_out(self) -> None:
        try:
            self._finish()
            _flush_event_files()
        except BaseException as error:  # noqa: BLE001 - Python drops exceptions here; `drain` after the loop raises it
            self._error = error

    def __del__(self) -> None:
        if self._error is not None:
            raise self._error  # never raised by `drain`: Python prints it as an exception that was ignored


@functools.cache
def _protect_workers() -> None:
    """Keep forked workers from collecting what is garbage in this process: to free an event there aborts them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=gc.freeze)


class _Tick:
    """A moment in the loop."""

    __slots__ = ("event", "seconds")

    def __init__(self, seconds: float, event: Any) -> None:
        self.seconds = seconds
        self.event = event


def _seconds(moment: Any) -> Any:
    return moment.seconds if isinstance(moment, _Tick) else moment


class _Pending:
    """A tensor as it was at the point where the loop read it, and how to turn it into a host value."""

    __slots__ = ("host", "kind", "known", "tensor", "value")

    def __init__(self, source: Any, kind: str) -> None:
        """`source` is a tensor, or for `elapsed` a pair of events."""
        self.tensor: Any = source if kind == "elapsed" else source.detach().clone()  # it may be changed in place
        self.kind = kind
        self.host: Any = None
        self.known = False
        self.value: Any = None

    def settle(self, value: Any) -> None:
        self.value, self.known, self.tensor, self.host = value, True, None, None


class _Sealed:
    """The calls of one batch whose values are on their way to the host; an event tells when they have arrived."""

    def __init__(self, count: int, calls: list[tuple[Callable[..., object], tuple[Any, ...]]]) -> None:
        self.count = count
        waiting = _unread(value for _, values in calls for value in values)
        self._spans = [pending for pending in waiting if pending.kind == "elapsed"]
        self._copies = [(group, _start_copy(_packed(group))) for group in _groups(waiting)]
        self._event: Any = None
        if self._spans or any(pending.tensor.is_cuda for pending in waiting):
            _protect_workers()
            self._event = torch.cuda.Event()
            self._event.record()

    def ready(self) -> bool:
        return self._event is None or bool(self._event.query())

    def open(self) -> None:
        if self._event is not None:
            self._event.synchronize()
        for group, host in self._copies:
            _unpack(group, host)
        for pending in self._spans:
            pending.settle(_measured(pending))


class _AtOnce:
    """A value whose statements run at once."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Live:
    """Marks a value that could change before it is used."""


_LIVE = _Live()


def _snapshot(value: Any) -> Any:
    """The value as it is now, whatever happens to it later; `_LIVE` where that cannot be had."""
    if isinstance(value, (_Pending, *_IMMUTABLE)) or _scalar_of_a_library(value):
        return value
    if type(value) is torch.Tensor and _plain(value) and _small(value) and not value.requires_grad:
        return value.clone()  # stays on its device, unread
    if type(value) in (list, tuple):
        items = [_snapshot(item) for item in value]
        return _LIVE if any(item is _LIVE for item in items) else _Copy(value, items)
    if type(value) is dict:
        items = [_snapshot(item) for item in value.values()]
        return _LIVE if any(item is _LIVE for item in items) else _Copy(value, items)
    return _LIVE


def _scalar_of_a_library(value: Any) -> bool:
    """A number or a moment; numpy has views beside them: `memmap`, `matrix`, a record of an array."""
    kinds = [(kind.__module__, kind.__name__) for kind in type(value).__mro__]
    return kinds[0][0] == "datetime" or (("numpy", "generic") in kinds and ("numpy", "void") not in kinds)


def _plain(value: Any) -> bool:
    """An ordinary tensor: subclasses and sparse or meta tensors are read where they stand."""
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout is torch.strided
        and value.device.type != "meta"
    )


def _small(value: torch.Tensor) -> bool:
    return bool(value.numel() <= MAX_KEPT_ELEMENTS)


class _Copy:
    """A list, tuple or dict as it was. The object itself is handed over where it is still the same by then: statements
    may keep it, and what changes it after the loop is seen by all who have it."""

    __slots__ = ("items", "keys", "own")

    def __init__(self, own: Any, items: list[Any]) -> None:
        self.own, self.items = own, items
        self.keys = list(own) if type(own) is dict else None

    def settled(self) -> Any:
        items = [_settled(item) for item in self.items]
        keys, now = (list(self.own), list(self.own.values())) if self.keys is not None else (None, list(self.own))
        same = keys == self.keys and len(now) == len(items) and all(map(operator.is_, now, items))
        if same:
            return self.own
        return dict(zip(self.keys, items, strict=True)) if self.keys is not None else type(self.own)(items)


def _settled(value: Any) -> Any:
    """The value, with what was pending in it, also in a list or dict of values; the object itself where nothing was."""
    if isinstance(value, _Copy):
        return value.settled()
    if isinstance(value, (_Pending, _AtOnce)):
        return value.value
    if type(value) not in (list, tuple, dict) or not any(
        isinstance(one, (_Pending, _AtOnce)) for one in _parts([value])
    ):
        return value
    if type(value) is dict:
        return {key: _settled(item) for key, item in value.items()}
    return type(value)(_settled(item) for item in value)


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and those in lists and dicts of them."""
    for value in values:
        if type(value) in (list, tuple):
            yield from _parts(value)
        elif type(value) is dict:
            yield from _parts(value.values())
        elif isinstance(value, _Copy):
            yield from _parts(value.items)
        else:
            yield value


def _groups(waiting: list[_Pending]) -> list[list[_Pending]]:
    """By device and type: one read serves each group, and no number changes its type. Large tensors are alone."""
    groups: dict[tuple[Any, ...], list[_Pending]] = {}
    for pending in waiting:
        if pending.kind != "elapsed":
            tensor = pending.tensor
            alone = () if pending.kind == "item" or _packs(tensor) else (id(pending),)
            groups.setdefault((tensor.device, tensor.dtype, *alone), []).append(pending)
    return list(groups.values())


def _packs(tensor: torch.Tensor) -> bool:
    """Whether a tensor may travel with others: its elements lie side by side, and to join them costs little."""
    odd = tensor.is_complex() or tensor.is_neg() or tensor.is_quantized
    return not odd and tensor.numel() <= MAX_PACKED_ELEMENTS and _dense(tensor)


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without a gap, in whatever order."""
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(tensor.numel() == span and tensor.numel() == tensor.untyped_storage().nbytes() // tensor.element_size())


def _measured(pending: _Pending) -> float:
    start, stop = pending.tensor
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1e3


def _packed(group: list[_Pending]) -> torch.Tensor:
    """The elements of a group in one row, each tensor's in the order of its memory; one tensor alone as it is."""
    if len(group) == 1:
        only: torch.Tensor = group[0].tensor
        return only
    return torch.cat([_row(one.tensor) for one in group])


def _row(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(1) if tensor.numel() == 1 else tensor.as_strided((tensor.numel(),), (1,))


def _unpack(group: list[_Pending], host: torch.Tensor) -> None:
    """Give each of a group what `.item()`, `.tolist()` or `.cpu().numpy()` of its own tensor would give."""
    if all(one.kind == "item" for one in group):
        for one, value in zip(group, host.reshape(-1).tolist(), strict=True):
            one.settle(value)
    elif len(group) == 1:
        group[0].settle(_host_value(host, group[0].kind))
    else:
        start = 0
        for one in group:
            count = one.tensor.numel()
            own = host[start : start + count].clone()  # an array that is kept must not keep all the others
            one.settle(_host_value(own.as_strided(one.tensor.shape, one.tensor.stride()), one.kind))
            start += count


def _unread(values: Iterable[Any]) -> list[_Pending]:
    """What among the values is still to be read, each once."""
    return list({id(one): one for one in _parts(values) if isinstance(one, _Pending) and not one.known}.values())


def _read(values: Iterable[Any]) -> None:
    waiting = _unread(values)
    for group in _groups(waiting):
        _unpack(group, _packed(group).cpu())
    for one in waiting:
        if one.kind == "elapsed":
            one.settle(_measured(one))


def _host_value(host: torch.Tensor, kind: str) -> Any:
    if kind == "item":
        return host.item()
    if kind == "host":
        return host
    return host.tolist() if kind == "tolist" else host.numpy()


def _start_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor that will hold the values once an event recorded after this call has completed."""
    if not tensor.is_cuda:
        return tensor.cpu()
    host = torch.empty_like(tensor, device="cpu", pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


# ---------------------------------------------------------------------------------------------------- prefetch


def prefetch(
    loader: Any, device: Any = None, depth: int = 1, move_random_draws: bool = False, leaves_early: bool = False
) -> Any:
    """`loader`, with `depth` batches copied to the GPU ahead of their use.

    The batches are the same and come in the same order. Where asking for one earlier would show, as in the random
    draws of a loader without worker processes, the loader is left as it is unless `move_random_draws`.
    `leaves_early`: the loop may end before the loader does, which must not have made a batch too many by then.
    """
    target = torch.device("cuda") if device is None else torch.device(device)
    if target.type != "cuda" or not torch.cuda.is_available():
        return loader
    if not (move_random_draws or _can_be_asked_ahead(loader, leaves_early)):
        return loader
    if target.index is None:
        target = torch.device("cuda", torch.cuda.current_device())
    _protect_workers()
    return _Prefetched(loader, target, max(1, depth))


def _can_be_asked_ahead(loader: Any, leaves_early: bool) -> bool:
    """Whether nothing but time passes in the main process when this loader is asked for a batch.

    Not so where items are made or sampled by the script's own code, where a generator is shared with other
    code, where the class hands out batches in its own way (it may go on from there in the next epoch, or give the same
    memory again), and where workers that live on would have drawn for one batch more.
    """
    if not isinstance(loader, DataLoader) or type(loader).__iter__ is not DataLoader.__iter__:
        return False
    if not loader.num_workers or loader.generator is not None or (leaves_early and loader.persistent_workers):
        return False
    batches = loader.batch_sampler
    samplers = [loader.sampler, getattr(batches, "sampler", None)]
    plain = batches is None or type(batches) is BatchSampler
    return plain and all(sampler is None or _samples_by_itself(sampler) for sampler in samplers)


def _samples_by_itself(sampler: Any) -> bool:
    """One of torch's own, which draws nothing between two batches from a generator that others use."""
    return type(sampler).__module__.startswith("torch.utils.data.") and getattr(sampler, "generator", None) is None


class _Prefetched:
    """Takes the place of the loader: its length, sampler, dataset and all else are the loader's own."""

    def __init__(self, loader: Any, device: torch.device, depth: int) -> None:
        self._loader = loader
        self._device = device
        self._depth = depth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        iterator = iter(self._loader)
        fetched: deque[_Fetched | Exception] = deque()
        in_flight: deque[Any] = deque()
        ended = False
        while True:
            while not ended and len(fetched) <= self._depth:
                upcoming = _fetch(iterator, self._device)
                ended = not isinstance(upcoming, _Fetched)
                if upcoming is not None:
                    fetched.append(upcoming)
                del upcoming  # only the loop decides how long a batch lives
            if not fetched:
                return
            yield _taken(fetched.popleft())
            in_flight.append(torch.cuda.Event())
            in_flight[-1].record(torch.cuda.current_stream(self._device))
            if len(in_flight) > MAX_BATCHES_IN_FLIGHT:
                in_flight.popleft().synchronize()


class _Fetched:
    """One batch on its way to the GPU."""

    def __init__(self, batch: Any, device: torch.device) -> None:
        self._device = device
        self._moved: list[torch.Tensor] = []
        with torch.cuda.stream(_copy_stream(device)):
            self._batch = _to_device(batch, device, self._moved)
            self._copied = torch.cuda.Event()
            self._copied.record()

    def take(self) -> Any:
        """The batch, safe to use on the current stream, and its memory kept until that stream is done with it."""
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._copied)
        for tensor in self._moved:
            tensor.record_stream(stream)
        return self._batch


def _fetch(iterator: Iterator[Any], device: torch.device) -> _Fetched | Exception | None:
    """The next batch, the error that the loader raised in its place, or None at the end."""
    try:
        batch = next(iterator)
    except StopIteration:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the user's dataset raises is raised when its batch is due
        return error
    return _Fetched(batch, device)


def _taken(fetched: _Fetched | Exception) -> Any:
    if isinstance(fetched, Exception):
        raise fetched  # only now: the batches before it were fine
    return fetched.take()


_COPY_STREAMS: dict[torch.device, Any] = {}


def _copy_stream(device: torch.device) -> Any:
    """One stream per device for the whole run: each further stream would keep memory of its own."""
    if device not in _COPY_STREAMS:
        _COPY_STREAMS[device] = torch.cuda.Stream(device)
    return _COPY_STREAMS[device]


def _copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.to(device, non_blocking=True)


def _has_memory_of_its_own(tensor: torch.Tensor) -> bool:
    """Sparse, nested and quantized tensors, and those made of others, have none that `record_stream` could keep."""
    ordinary = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
    return ordinary and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _to_device(value: Any, device: torch.device, moved: list[torch.Tensor]) -> Any:
    """Tensors in nested lists, tuples and dicts, copied; all else as it is. Copies are added to `moved`."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or not _has_memory_of_its_own(value):
            return value
        moved.append(_copied(value, device))
        return moved[-1]
    if type(value) is dict:
        return {key: _to_device(item, device, moved) for key, item in value.items()}
    packed = isinstance(value, torch.nn.utils.rnn.PackedSequence)  # part of it must stay on the CPU
    if isinstance(value, tuple) and hasattr(value, "_fields") and not packed:
        return type(value)(*(_to_device(item, device, moved) for item in value))
    if type(value) in (list, tuple):
        return type(value)(_to_device(item, device, moved) for item in value)
    return value


# ----------------------------------------------------------------------------------------------------- streams


class Streams:
    """Named streams of one device, and events between them. Without CUDA there is one queue: all calls do nothing."""

    def __init__(self, names: Iterable[str] = ("transfer", "forward", "backward", "spare"), device: Any = None) -> None:
        self._device = torch.device("cuda" if device is None else device)
        self._works = self._device.type == "cuda" and torch.cuda.is_available()
        self._streams: Mapping[str, Any] = {
            name: torch.cuda.Stream(self._device) if self._works else None for name in names
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._streams)

    def stream(self, name: str) -> Any:
        """The torch stream of that name; None without CUDA."""
        return self._streams[name]

    def on(self, name: str) -> Any:
        """A context in which work is issued to the named stream."""
        return torch.cuda.stream(self._streams[name])

    def set_current(self, name: str) -> None:
        """Issue all work from here on to the named stream; `on` does it for a block, which is harder to get wrong."""
        stream = self._streams[name]
        if stream is not None:
            torch.cuda.set_stream(stream)

    def create_event(self, timed: bool = False) -> Any:
        """An event to record; `timed` ones can tell the time between them with `elapsed_time`."""
        return torch.cuda.Event(enable_timing=timed) if self._works else None

    def record_event(self, event: Any, name: str) -> None:
        """Mark the work issued to the named stream so far."""
        stream = self._streams[name]
        if event is not None:
            event.record(stream)

    def query_event(self, event: Any) -> bool:
        """Whether the marked work is done; asks and does not wait."""
        return event is None or bool(event.query())

    def wait(self, name: str, event: Any) -> None:
        """Make the named stream, and not the host, wait for the marked work."""
        stream = self._streams[name]
        if event is not None:
            stream.wait_event(event)

    def keep(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """The tensor, its memory kept until the named stream is done with what it has been given so far."""
        stream = self._streams[name]
        if stream is not None and tensor.is_cuda:
            tensor.record_stream(stream)
        return tensor

    def synchronize(self, name: str | None = None) -> None:
        """Make the host wait until the named stream, or without a name every one of them, is done."""
        for stream in self._streams.values() if name is None else (self._streams[name],):
            if stream is not None:
                stream.synchronize()
