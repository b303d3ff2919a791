"""Signals that end a process: what waits runs first, then what would have been done without the helpers."""

from __future__ import annotations

import faulthandler
import itertools
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from tracelens.runtime import DeferredReads

HEAD = """
import os, signal, sys, time
import torch
from tracelens.runtime import DeferredReads

def show(step, value):
    print(step, value, flush=True)
"""
LOOP = """
ahead = DeferredReads(every={every})
for step in ahead.iterate(range(10)):
    ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
    if step == 3:
        os.kill(os.getpid(), signal.SIGTERM)
print("end", flush=True)
"""
FOUR_LINES = "0 0.0\n1 1.0\n2 2.0\n3 3.0\n"


def ended(body: str, every: int | None = 10) -> tuple[int, str]:
    """The status and the output of a script whose loop gets a SIGTERM in its fourth pass."""
    text = HEAD + textwrap.dedent(body).replace("LOOP", LOOP.format(every=every).strip())
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_lines_in_the_buffer_of_the_screen_are_out_before_the_process_dies_of_the_signal() -> None:
    """A bar that is made, or a process that is started, would have put them out without the loop."""
    assert ended("show = print\nLOOP") == (-signal.SIGTERM, FOUR_LINES)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("every", [10, None])
def test_lines_that_wait_are_written_before_the_process_dies_of_the_signal(every: int | None) -> None:
    assert ended("LOOP", every) == (-signal.SIGTERM, FOUR_LINES)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize(
    "name",
    ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGABRT", "SIGIO"],
)
def test_the_other_signals_that_end_a_process_lose_no_line_either(name: str) -> None:
    body = LOOP.format(every=10).replace("SIGTERM", name)
    assert ended(body) == (-getattr(signal, name), FOUR_LINES)


INTERRUPTED = """
def show(step, value):
    if step in AT:
        signal.raise_signal(signal.SIGINT)
    print(step, value, flush=True)
ahead = DeferredReads(every=4)
try:
    for step in ahead.iterate(range(10)):
        ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
"""


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize(("at", "lines"), [("(1,)", FOUR_LINES), ("(1, 2)", "0 0.0\n1 1.0\n")])
def test_an_interrupt_comes_behind_what_is_being_run_and_a_second_one_at_once(at: str, lines: str) -> None:
    assert ended(INTERRUPTED.replace("AT", at)) == (0, f"{lines}interrupted True\n")


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_of_an_interrupt_between_batches_every_finished_one_is_shown() -> None:
    body = f"""
try:
{textwrap.indent(LOOP.format(every=10).replace("SIGTERM", "SIGINT").strip(), "    ")}
except KeyboardInterrupt:
    print("interrupted")
"""
    assert ended(body) == (0, FOUR_LINES + "interrupted\n")


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize(
    ("handler", "status", "rest"),
    [
        ("lambda *_: sys.exit(7)", 7, "handler\n"),
        ("lambda *_: None", 0, "handler\n" + "".join(f"{step} {float(step)}\n" for step in range(4, 10)) + "end\n"),
        ("signal.SIG_IGN", 0, "".join(f"{step} {float(step)}\n" for step in range(4, 10)) + "end\n"),
    ],
)
def test_the_handler_of_the_script_runs_afterwards(handler: str, status: int, rest: str) -> None:
    body = f"""
before = {handler}
def handle(*given):
    print("handler", flush=True)
    before(*given)
signal.signal(signal.SIGTERM, handle if callable(before) and before is not signal.SIG_IGN else before)
LOOP
"""
    assert ended(body) == (status, FOUR_LINES + rest)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_signal_while_lines_are_written_waits_until_they_are() -> None:
    body = """
def show(step, value):
    if step == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    print(step, value, flush=True)
ahead = DeferredReads(every=4)
for step in ahead.iterate(range(10)):
    ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
"""
    assert ended(body) == (-signal.SIGTERM, FOUR_LINES)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_process_though_nobody_reads_its_lines(number: signal.Signals) -> None:
    """As with `| less`, or Ctrl-S: a line that is being written never ends."""
    body = """
    import tracelens.runtime
    tracelens.runtime.MAX_FLUSH_S = 0.3
    print("ready", flush=True)
    ahead = DeferredReads(every=2)
    for step in ahead.iterate(range(10)):
        ahead.defer(print, "x" * 1_000_000, ahead.item(torch.tensor(1.0)))
    """
    text = HEAD + textwrap.dedent(body)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None and run.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        run.send_signal(number)
        try:
            if number == signal.SIGINT:  # the traceback follows what Python writes at its end: it must be read
                time.sleep(2)
                run.stdout.read()
            assert run.wait(timeout=60) == -number
        finally:
            run.kill()


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_signal_ends_a_call_that_does_not_return_with_all_lines_before_it() -> None:
    """As in a collective that hangs: Python runs no handler before the call is back."""
    body = """
    import hashlib, threading
    import tracelens.runtime
    tracelens.runtime.MAX_FLUSH_S = 0.3
    ahead = DeferredReads(every=10)
    for step in ahead.iterate(range(10)):
        ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
        if step == 3:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
            hashlib.pbkdf2_hmac("sha256", b"a", b"b", 100_000_000)  # a minute in C, without the interpreter's lock
    """
    before = time.monotonic()
    assert ended(body) == (-signal.SIGTERM, "0 0.0\n1 1.0\n2 2.0\n3 3.0\n")
    assert time.monotonic() - before < 40


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_process_lives_on_whose_child_is_ended_and_whose_own_handler_returns() -> None:
    body = """
    import tracelens.runtime
    tracelens.runtime.MAX_FLUSH_S = 0.1
    signal.signal(signal.SIGUSR1, lambda *_: print("asked", flush=True))
    ahead = DeferredReads(every=10)
    for step in ahead.iterate(range(2)):
        ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
        child = os.fork()
        if not child:
            time.sleep(30)
        os.kill(child, signal.SIGTERM)
        print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.5)
    print("end", signal.set_wakeup_fd(-1), flush=True)
    """
    assert ended(body) == (0, "15\n0 0.0\nasked\n15\n1 1.0\nasked\nend -1\n")


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_signal_that_the_script_blocks_for_a_step_comes_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # any other thread would take it
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    body = """
    torch.set_num_threads(1)
    ahead = DeferredReads(every=10)
    for step in ahead.iterate(range(10)):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
        ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    """
    assert ended(body) == (-signal.SIGTERM, FOUR_LINES)


def test_who_hears_of_signals_already_goes_on_to() -> None:
    own, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told)
    try:
        for _ in DeferredReads(10).iterate([1]):
            assert signal.set_wakeup_fd(told) == told
        assert signal.set_wakeup_fd(told) == told
    finally:
        signal.set_wakeup_fd(before)
        os.close(own)
        os.close(told)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_forked_child_dies_without_running_what_its_parent_waits_for() -> None:
    body = """
ahead = DeferredReads(every=10)
for step in ahead.iterate(range(3)):
    ahead.defer(show, step, ahead.item(torch.tensor(float(step))))
    if step == 1:
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    assert ended(body) == (0, f"child {-signal.SIGTERM}\n0 0.0\n1 1.0\n2 2.0\n")


def test_after_the_loop_the_handler_is_the_one_from_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    ahead = DeferredReads(10)
    for value in ahead.iterate([torch.tensor(1.0)]):
        assert signal.getsignal(signal.SIGTERM) != before
        ahead.defer(lambda _: None, ahead.item(value))
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_handler_in_c_stays_in_and_after_the_loop() -> None:
    """Python calls it `SIG_DFL`: a signal that dumps the stack would end the process."""
    faulthandler.register(signal.SIGUSR1, file=sys.__stderr__)
    try:
        ahead, dumped = DeferredReads(10), 0
        for value in ahead.iterate([torch.tensor(1.0)]):
            ahead.defer(lambda _: None, ahead.item(value))
            os.kill(os.getpid(), signal.SIGUSR1)
            dumped += 1
        os.kill(os.getpid(), signal.SIGUSR1)
        assert dumped == 1
    finally:
        faulthandler.unregister(signal.SIGUSR1)


def test_a_handler_that_the_loop_sets_stays() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def own(number: int, frame: object) -> None: ...

    try:
        for _ in DeferredReads(10).iterate([1]):
            signal.signal(signal.SIGTERM, own)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_loop_in_another_thread_sets_no_handler() -> None:
    seen: list[bool] = []
    before = signal.getsignal(signal.SIGTERM)

    def loop() -> None:
        seen.extend(signal.getsignal(signal.SIGTERM) == before for _ in DeferredReads(10).iterate(range(2)))

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()
    assert seen == [True, True]


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_what_an_event_writer_was_told_is_in_its_file_before_the_process_dies_of_the_signal() -> None:
    """A thread takes what it was told some time after the call, and writes it later still, as in tensorboard."""
    body = """
import gc, queue, threading
class _AsyncWriterThread(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self._queue, self._record_writer, self.taken = queue.Queue(), self, []
    def add_scalar(self, step, value):
        self._queue.put((step, value))
    def run(self):
        while True:
            self.taken.append(self._queue.get())
            time.sleep(0.01)
            self._queue.task_done()
    def flush(self):
        for one in self.taken:
            print(*one, flush=True)
        self.taken.clear()
writer = _AsyncWriterThread()
writer.start()
show = writer.add_scalar
gc.freeze()
LOOP
"""
    assert ended(body) == (-signal.SIGTERM, FOUR_LINES)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_child_that_is_ended_as_soon_as_it_has_begun_dies_of_it() -> None:
    """Python forgets a signal that comes while the child begins, once it has a handler for it."""
    body = """
    from multiprocessing import get_context
    def sleep():
        time.sleep(20)
    ahead = DeferredReads(every=10)
    for _ in ahead.iterate(range(5)):
        child = get_context("fork").Process(target=sleep)
        child.start()
        child.terminate()
        child.join()
        print(child.exitcode, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    """
    assert ended(body) == (-signal.SIGTERM, "-15\n" * 5)


def test_what_event_writers_are_told_last_is_taken_before_the_loop_is_left() -> None:
    """Their threads end with the process, and a loop that is left by an error may end it at once."""
    taken: list[object] = []
    waiting: queue.Queue[object] = queue.Queue()

    class _AsyncWriterThread(threading.Thread):
        _queue = waiting

        def run(self) -> None:
            while (one := waiting.get()) is not None:
                time.sleep(0.01)
                taken.append(one)
                waiting.task_done()

    writer = _AsyncWriterThread(daemon=True)
    writer.start()
    ahead = DeferredReads(10)
    with pytest.raises(ValueError, match="out of data"):
        for step in ahead.iterate(itertools.chain(range(4), failing())):
            ahead.defer(waiting.put, step)
    assert taken == [0, 1, 2, 3]
    waiting.put(None)
    writer.join()


def failing() -> Iterator[int]:
    raise ValueError("out of data")
    yield 0
