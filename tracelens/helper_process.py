"""A second process that works out values while this one does something else.

In: functions with their arguments. Out: their results, in the order in which they were asked for. It is forked from
this process before numpy is loaded, which starts threads: without threads a fork is safe and costs milliseconds. Where
it cannot be started, or does not answer, the one who asks works the value out itself: so it must be the same in both.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import IO, Any, Generic, NoReturn, TypeVar

Result = TypeVar("Result")

_LENGTH = struct.Struct("<Q")
"""Before each question: how many bytes it has."""


class NoAnswerError(Exception):
    """The other process ended, or failed at the question."""


@dataclass
class AwaitedAnswer(Generic[Result]):
    """What the other process was asked for."""

    _place: int
    _helper: HelperProcess

    def result(self) -> Result:
        """Waits for it. Raises `NoAnswerError`."""
        result: Result = self._helper.answered(self._place)
        return result


@dataclass
class HelperProcess:
    """The other process, as seen from this one."""

    pid: int
    _questions: IO[bytes]
    _answers: IO[bytes]
    _asked: int = 0
    _read: list[tuple[bool, Any]] = field(default_factory=list)

    def ask(self, work: Callable[..., Result], *arguments: object) -> AwaitedAnswer[Result]:
        """Have `work(*arguments)` done after everything that was asked for before. Both must be fit for `pickle`."""
        with contextlib.suppress(OSError, ValueError):  # it ended, or was ended: then there is no answer
            question = pickle.dumps((work, arguments), protocol=5)
            self._questions.write(_LENGTH.pack(len(question)) + question)
            self._questions.flush()
        self._asked += 1
        return AwaitedAnswer(self._asked - 1, self)

    def answered(self, place: int) -> Any:
        """The answer to the question asked as number `place`, counted from 0."""
        try:
            while len(self._read) <= place:
                self._read.append(pickle.load(self._answers))
        except (OSError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise NoAnswerError from error
        done, result = self._read[place]
        if not done:
            raise NoAnswerError
        return result

    def end(self) -> None:
        """It finishes what it is at, and ends."""
        for pipe in (self._questions, self._answers):
            with contextlib.suppress(OSError):  # it ended before it read everything
                pipe.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


@contextlib.contextmanager
def started(prepare: Callable[[], object]) -> Iterator[HelperProcess | None]:
    """A helper that has called `prepare` before the first question; None where there cannot be one."""
    helper = _forked(prepare) if _can_fork() else None
    try:
        yield helper
    finally:
        if helper is not None:
            helper.end()


def cores() -> int:
    """Those that this process may use; 1 where the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _can_fork() -> bool:
    """With a core to spare, and before this process has threads."""
    return cores() > 1 and hasattr(os, "fork") and threading.active_count() == 1 and "numpy" not in sys.modules


def _forked(prepare: Callable[[], object]) -> HelperProcess | None:
    asked, answered = os.pipe(), os.pipe()
    try:
        pid = os.fork()
    except OSError:  # too many processes, too little memory
        for end in (*asked, *answered):
            os.close(end)
        return None
    if pid == 0:
        os.close(asked[1])
        os.close(answered[0])
        _serve(os.fdopen(asked[0], "rb"), os.fdopen(answered[1], "wb"), prepare)
    os.close(asked[0])
    os.close(answered[1])
    return HelperProcess(pid, os.fdopen(asked[1], "wb"), os.fdopen(answered[0], "rb"))


def _serve(questions: IO[bytes], answers: IO[bytes], prepare: Callable[[], object]) -> NoReturn:
    """The life of the other process. It prints nothing, and runs nothing of what this process runs at its end."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        waiting: SimpleQueue[bytes] = SimpleQueue()
        # Read at once: whoever asks must not wait for it while it waits for somebody to read its answers.
        threading.Thread(target=_read_questions, args=(questions, waiting), daemon=True).start()
        with contextlib.suppress(Exception):  # the question itself will fail, too, and be answered elsewhere
            prepare()
        while question := waiting.get():
            answers.write(_answer(question))
            answers.flush()
    finally:
        os._exit(0)


def _read_questions(questions: IO[bytes], waiting: SimpleQueue[bytes]) -> None:
    """All of them, as bytes: they name functions, whose modules are better imported by one thread only."""
    while length := questions.read(_LENGTH.size):
        waiting.put(questions.read(*_LENGTH.unpack(length)))
    waiting.put(b"")


def _answer(question: bytes) -> bytes:
    try:
        work, arguments = pickle.loads(question)
        return pickle.dumps((True, work(*arguments)), protocol=5)
    except Exception:  # noqa: BLE001 - whoever asked does the work again, and meets the same error where it is explained
        return pickle.dumps((False, None))
