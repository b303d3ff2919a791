"""The other process gives the same values, in order, and whoever asks it is never stuck with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracelens import helper_process

pytestmark = pytest.mark.programs

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "pageable_copies"
BEGINNING = """
import operator, os, signal, time
from tracelens import helper_process
from tracelens.helper_process import NoAnswerError
"""


def run(script: str) -> str:
    """What a fresh process prints, which has neither numpy nor threads."""
    asked = [sys.executable, "-c", BEGINNING + script]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout


def test_answers_come_in_any_order_and_are_the_values() -> None:
    script = """
with helper_process.started(lambda: None) as helper:
    sums = [helper.ask(operator.add, number, 1) for number in range(5)]
    print(sums[4].result(), [one.result() for one in sums])
"""
    assert run(script) == "5 [1, 2, 3, 4, 5]\n"


def test_much_can_be_asked_before_an_answer_is_read() -> None:
    """Far more than a pipe holds, in both directions."""
    script = """
with helper_process.started(lambda: None) as helper:
    asked = [helper.ask(operator.mul, b"x" * 1_000_000, 2) for _ in range(8)]
    print({len(one.result()) for one in asked})
"""
    assert run(script) == "{2000000}\n"


def test_what_fails_there_has_no_answer_and_the_next_question_has() -> None:
    script = """
with helper_process.started(lambda: 1 / 0) as helper:
    divided, added = helper.ask(operator.truediv, 1, 0), helper.ask(operator.add, 1, 1)
    try:
        divided.result()
    except NoAnswerError:
        print("none,", added.result())
"""
    assert run(script) == "none, 2\n"


def test_a_helper_that_was_killed_has_no_answer() -> None:
    script = """
with helper_process.started(lambda: None) as helper:
    os.kill(helper.pid, signal.SIGKILL)
    for answer in (helper.ask(operator.add, 1, 1), helper.ask(operator.mul, b"x" * 1_000_000, 2)):
        try:
            answer.result()
        except NoAnswerError:
            print("none")
try:
    os.kill(helper.pid, 0)
except ProcessLookupError:
    print("gone")
"""
    assert run(script) == "none\nnone\ngone\n"


def test_it_prints_nothing_and_runs_nothing_of_our_end() -> None:
    script = """
import atexit, sys
atexit.register(print, "our end")
sys.stdout.write("once, ")
with helper_process.started(lambda: print("from there")) as helper:
    print(helper.ask(operator.add, 1, 1).result())
"""
    assert run(script) == "once, 2\nour end\n"


@pytest.mark.parametrize(
    "before",
    ["import numpy", "import threading; threading.Thread(target=time.sleep, args=(1,)).start()"],
    ids=["numpy is loaded", "there is a thread"],
)
def test_there_is_none_where_threads_may_be(before: str) -> None:
    assert run(f"{before}\nwith helper_process.started(lambda: None) as helper: print(helper)") == "None\n"


@pytest.mark.slow
@pytest.mark.skipif(helper_process.cores() < 2, reason="needs two cores")
def test_recommend_says_and_writes_the_same_with_and_without_it(tmp_path: Path) -> None:
    def recommended(cores: set[int]) -> dict[str, bytes]:
        project = tmp_path / "project"
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(SAMPLE, project)
        asked = [sys.executable, "-m", "tracelens", "recommend", "run", "--format", "json"]
        script = f"import os; os.sched_setaffinity(0, {cores}); os.execv({asked[0]!r}, {asked})"
        done = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, check=True)
        written = {path.name: path.read_bytes() for path in (project / "run").iterdir() if path.is_file()}
        assert {"analysis.json", "report.html", "tracelens.patch"} <= set(written)
        return {**written, "stdout": done.stdout}

    every = os.sched_getaffinity(0)
    alone, helped = recommended({min(every)}), recommended(every)
    assert helped == alone
