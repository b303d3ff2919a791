"""Moves that once were called safe and changed a training or its output, each in five surroundings and in two files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.known_mistakes import CALLBACK_BEHIND_A_METHOD, KNOWN_MISTAKES
from tests.support.moves import SURROUNDINGS, Case, asked, asked_once, one_file, two_files

TIMED = Case(
    before="start = time.time()",
    body="""
    STEP
    stop = time.time()
    speed = 32 / (stop - start)
    start = stop
    print(loss.item(), f"{speed:.1f} samples/s")  # later
    """,
)


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("mistake", KNOWN_MISTAKES)
def test_is_refused(mistake: str, around: str, files: Callable[..., dict[str, str]]) -> None:
    answer = asked_once(files(KNOWN_MISTAKES[mistake], SURROUNDINGS[around]))
    assert answer.tier == "refused", answer


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_duration_on_the_screen_that_the_wait_is_part_of_is_never_proved(
    around: str, files: Callable[..., dict[str, str]]
) -> None:
    answer = asked(files(TIMED, SURROUNDINGS[around]))
    assert answer.tier == "checked", answer
    assert {r.text for r in answer.reasons} == {
        "a duration that is shown or decides is measured in the loop, and the wait is a part of it"
    }


_METER = """
class Meter:
    last = 0.0
    def update(self, value):
        self.last = value
    def __str__(self):
        return f"{self.last:.3f}"
class Display:
    def __init__(self, meters):
        self.meters = meters
    def show(self):
        print("  ".join(str(meter) for meter in self.meters))
"""
SHOWN = {
    "by a meter": Case(
        code=_METER,
        before="start = time.time()\nmeter = Meter()",
        body="STEP\nmeter.update(time.time() - start)\nstart = time.time()\nprint(loss.item(), meter)  # later",
    ),
    "by a display of meters after the loop": Case(
        code=_METER,
        before="start = time.time()\nmeter, losses = Meter(), []\ndisplay = Display([meter])",
        body="STEP\nmeter.update(time.time() - start)\nstart = time.time()\nlosses.append(loss.item())  # later",
        after="display.show()",
    ),
    "by a text that looks into a meter": Case(
        code=_METER,
        before="start = time.time()\nmeter = Meter()",
        body="STEP\nmeter.update(time.time() - start)\nstart = time.time()\n"
        "print(loss.item(), '{meter.last:.3f}'.format(meter=meter))  # later",
    ),
    "by a tracker": Case(
        before="import wandb\nstart = time.perf_counter()",
        body="STEP\nnow = time.perf_counter()\nwandb.log({'loss': loss.item(), 'ms': 1e3 * (now - start)})  # later",
    ),
    "as the difference of two dates": Case(
        before="from datetime import datetime\nstart = datetime.now()",
        body="STEP\ntook = (datetime.now() - start).total_seconds()\nprint('%d %s' % (i, took), loss.item())  # later",
    ),
}
DECIDES = Case(
    before="start = time.time()\nlosses = []",
    body="STEP\nlosses.append(loss.item())  # later\nif time.time() - start > 600:\n"
    "    torch.save(model.state_dict(), 'model.pt')\n    start = time.time()",
)
NOT_SHOWN = {
    "the whole is shown at the end": Case(
        before="start = time.time()\nlosses = []",
        body="STEP\nlosses.append(loss.item())  # later",
        after="print('took', time.time() - start)",
    ),
    "the GPU is waited for before": replace(
        TIMED, body=TIMED.body.replace("stop = time", "torch.cuda.synchronize()\n    stop = time")
    ),
}


@pytest.mark.parametrize("how", SHOWN)
def test_a_duration_is_followed_to_where_it_is_shown(how: str) -> None:
    answer = asked(one_file(SHOWN[how], SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("checked", {"time"}), answer


def test_a_clock_that_decides_may_decide_at_another_batch() -> None:
    """A checkpoint every ten minutes, or a rate by the time that has passed: no number of the training may move."""
    answer = asked(one_file(DECIDES, SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("checked", {"time"}), answer


@pytest.mark.parametrize("how", NOT_SHOWN)
def test_a_duration_that_is_not_shown_or_has_no_wait_in_it_changes_nothing(how: str) -> None:
    answer = asked(one_file(NOT_SHOWN[how], SURROUNDINGS["function"]))
    assert answer.tier == "safe", answer


UNKNOWN = {
    "an unknown function that may write lines": Case(
        before="import nobody", body="STEP\nnobody.step(model)\nprint(loss.item())  # later"
    ),
    "an unknown function that was handed a function that looks": Case(
        before="import nobody\nlosses = []\nnobody.register(lambda: torch.set_num_threads(len(losses)))",
        body="STEP\nnobody.step(model)\nlosses.append(loss.item())  # later",
    ),
    "a helper that warns now and then": Case(
        code="def check(x):\n    if x.size(0) > 64:\n        print('a large batch')",
        body="STEP\ncheck(x)\nprint(loss.item())  # later",
    ),
}


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("what", UNKNOWN)
def test_what_only_unknown_code_or_a_rare_case_can_see_is_left_to_a_check(
    what: str, files: Callable[..., dict[str, str]]
) -> None:
    answer = asked(files(UNKNOWN[what], SURROUNDINGS["function"]))
    assert answer.tier == "checked", answer


def test_code_that_runs_beside_the_loop_sees_what_it_was_handed() -> None:
    case = Case(
        before="from concurrent.futures import ThreadPoolExecutor\nlosses = []\n"
        "def look(values):\n    torch.set_num_threads(len(values))\nThreadPoolExecutor(1).submit(look, losses)",
        body="STEP\nlosses.append(loss.item())  # later",
    )
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert answer.tier == "refused", answer


def test_a_method_that_python_never_asks_for_is_no_obstacle() -> None:
    """While the object is made, its `meters` are not known yet, and `__getattr__` seems to be asked for them."""
    case = Case(
        code="class Log:\n    def __init__(self):\n        self.meters = {}\n"
        "    def __getattr__(self, name):\n        raise AttributeError(name)\n",
        before="log = Log()",
        body="STEP\nlog.meters['loss'] = loss.item()  # later",
    )
    answer = asked(one_file(case, SURROUNDINGS["function"]))
    assert [one.text for one in answer.reasons] == ["what `__getattr__` hides is not known"], answer


def test_the_reason_names_the_line_that_sees_it() -> None:
    files = two_files(CALLBACK_BEHIND_A_METHOD, SURROUNDINGS["function"])
    line = files["helpers.py"].splitlines().index("    if events.last > 3:") + 1
    reason = asked(files).reasons[0]
    assert (reason.path, reason.line) == ("helpers.py", line)
    assert reason.text == "`events.trigger()` looks at `last` of a `Events`"


_CLOCKS = ["time.clock_gettime(1)", "os.times().elapsed", "np.datetime64('now')", "asyncio.get_event_loop().time()"]
_MEASURED = {
    "by an addition": "start = -time.time()\nSTEP\nstart += time.time()\nprint(loss.item(), start)  # later",
    "by a function": "start = time.time()\nSTEP\nspan = operator.sub(time.time(), start)\n"
    "print(loss.item(), span)  # later",
    "of a list": "times.append(time.time())\nSTEP\ntimes.append(time.time())\n"
    "print(loss.item(), np.diff(times)[-1])  # later",
    "behind a flag": "start = now()\nSTEP\nspan = now() - start\nprint(loss.item(), span)  # later",
    "behind an object of another name": "start = now()\nSTEP\ncuda.synchronize()\nspan = time.time() - start\n"
    "print(loss.item(), span)  # later",
    "in the first batch alone": "start = time.time()\nSTEP\nif i == 0:\n    torch.cuda.synchronize()\n"
    "span = time.time() - start\nprint(loss.item(), span)  # later",
}
_OTHER_CLOCKS = """
import asyncio
import operator
import os
import numpy as np

WAITS = False
times = []

class cuda:
    @staticmethod
    def synchronize():
        pass

def now():
    if WAITS:
        torch.cuda.synchronize()
    return time.time()
"""


@pytest.mark.parametrize("clock", _CLOCKS)
def test_every_clock_is_known(clock: str) -> None:
    body = TIMED.body.replace("time.time()", clock).replace("32 / (stop - start)", "stop - start").replace(":.1f", "")
    answer = asked(one_file(Case(code=_OTHER_CLOCKS, before=f"start = {clock}", body=body), SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("checked", {"time"}), answer


@pytest.mark.parametrize("how", _MEASURED)
def test_a_duration_is_known_however_it_is_computed(how: str) -> None:
    answer = asked(one_file(Case(code=_OTHER_CLOCKS, body=_MEASURED[how]), SURROUNDINGS["function"]))
    assert (answer.tier, {reason.kind for reason in answer.reasons}) == ("checked", {"time"}), answer


@pytest.mark.parametrize("test", ["torch.cuda.is_available()", "model.device.type == 'cuda'"])
def test_a_wait_wherever_there_is_a_gpu_is_a_wait(test: str) -> None:
    waits = f"if {test}:\n        torch.cuda.synchronize()\n    stop = time"
    case = replace(TIMED, body=TIMED.body.replace("stop = time", waits))
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "safe"
