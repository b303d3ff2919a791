"""The line clock in real processes, under every Python at hand: what it owns against stamps of the very same run."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracelens.model import LineLog
from tracelens.run import line_log
from tracelens.trace.lines import LineStep, fold

pytestmark = pytest.mark.programs

SCRIPT = Path(__file__).parents[1] / "support" / "scripts" / "planted_lines.py"
SOURCE = SCRIPT.read_text().splitlines()
STAMP = "times.append(now())"
NEAR_NS = 100_000
NEAR_SHARE = 0.05


def interpreter(version: str) -> str | None:
    """A Python of this version, without torch or any other package; None where there is none."""
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, reversed(installed))):
        if candidate and not subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode:
            return candidate
    return None


@functools.cache
def recorded(version: str, folder: Path, *words: str) -> dict[str, Any]:
    python = sys.executable if version == f"{sys.version_info.major}.{sys.version_info.minor}" else interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    out = folder / f"{version}{''.join(words)}.json"
    subprocess.run([python, str(SCRIPT), str(out), *words], check=True)
    document: dict[str, Any] = json.loads(out.read_text())
    return document


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


VERSIONS = pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
MONITORED = pytest.mark.parametrize("version", ["3.12", "3.13"])


def stamps() -> list[int]:
    """Lines of the stamps in `step`."""
    return [number for number, text in enumerate(SOURCE, 1) if text.strip() == STAMP]


def tag(line: int) -> str:
    """What stands between the stamp at `line` and the next one."""
    return SOURCE[line].partition("# tag: ")[2]


def during(log: LineLog, step: LineStep, lines: range) -> int:
    """How long the step's function was at these lines, in whatever they called."""
    code = next(position for position, one in enumerate(log.codes) if one.function == "step")
    inside = (each for each in step.intervals if any(own == code and line in lines for own, line in each.path))
    return sum(each.end_ns - each.start_ns for each in inside)


@VERSIONS
def test_each_planted_statement_is_owned_by_its_line(version: str, folder: Path) -> None:
    document = recorded(version, folder)
    assert document["reason"] is None
    log = line_log.parse(document["log"], "lines.json")
    places = stamps()
    for position, step in enumerate(fold(log), 1):
        stamped = document["times"][position * len(places) : (position + 1) * len(places)]
        wrong = {}
        for number, (line, until) in enumerate(itertools.pairwise(places)):
            truth = stamped[number + 1] - stamped[number]
            owned = during(log, step, range(line + 1, until))
            if abs(owned - truth) > max(NEAR_NS, NEAR_SHARE * truth):
                wrong[tag(line)] = (owned, truth)
        assert len(wrong) <= 1, wrong  # the machine may take the processor away between a stamp and its line


@VERSIONS
def test_the_clock_looks_inside_functions_of_the_user_but_not_of_libraries(version: str, folder: Path) -> None:
    log = line_log.parse(recorded(version, folder)["log"], "lines.json")
    assert {place.path for place in log.codes} == {str(SCRIPT)}
    functions = {place.function for place in log.codes}
    assert {
        "step",
        "hot",
        "square",
        "deep",
        "batches",
        "endless",
        "around",
        "decorated",
        "managed",
        "fails",
    } <= functions
    assert "beside" not in functions  # it runs on another thread


@VERSIONS
def test_hot_loops_are_logged_fifty_times_per_step_at_most(version: str, folder: Path) -> None:
    log = line_log.parse(recorded(version, folder)["log"], "lines.json")
    ends = [*(step.first for step in log.steps[1:]), len(log.events)]
    for step, end in zip(log.steps, ends, strict=True):
        events = [log.places[event] for event in log.events[step.first : end]]
        most = max(events.count(place) for place in set(events) if place.kind != 3)
        assert most <= log.cap + 1  # the functions under way when the step begins are written down besides
    assert len(log.events) < 4000  # without the cap: 180,000


@VERSIONS
def test_everything_is_put_back(version: str, folder: Path) -> None:
    document = recorded(version, folder)
    assert document["after"] == document["before"]
    assert document["before"][0] is True


@VERSIONS
def test_a_foreign_tool_keeps_its_place_and_there_is_no_clock(version: str, folder: Path) -> None:
    document = recorded(version, folder, "foreign-tool")
    assert document["log"] is None
    assert document["reason"]
    assert document["after"] == document["before"]


@VERSIONS
def test_a_script_that_traces_itself_meanwhile_keeps_its_trace_and_the_log_is_given_up(
    version: str, folder: Path
) -> None:
    document = recorded(version, folder, "takes-over")
    assert document["after"][0] is False
    assert (document["log"] is None) == (version == "3.11")  # later Pythons have room for both


def test_a_damaged_log_is_named() -> None:
    from tracelens.errors import InputError

    with pytest.raises(InputError, match=r"lines\.json"):
        line_log.parse({"unix_ns": 1}, "lines.json")


def test_a_clock_that_fails_is_given_up_and_the_recording_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from tracelens.capture.inside.instruments import Instruments

    tools = Instruments()

    def fails(_number: int) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(tools.lines, "begin_step", fails)
    tools.clock_lines(7)
    assert tools.lines.reason == "the clock failed: RuntimeError('no room')"
    assert tools.lines.document(str) is None


def said(version: str, *words: str) -> str:
    """What this Python prints for a script or a text."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    return subprocess.run([python, *words], capture_output=True, text=True, check=True).stdout


@MONITORED
def test_code_of_libraries_is_never_changed_and_the_projects_at_most_taken_apart(version: str) -> None:
    """3.12 takes joined instructions apart in code that it monitors, and never joins them again."""
    left = json.loads(said(version, str(SCRIPT.with_name("clocked_code.py"))))
    assert left == {"reason": None, "library_meanwhile": [], "library": [], "project": [], "traced": True}


@MONITORED
def test_a_clock_that_fails_as_it_begins_leaves_nothing_behind(version: str) -> None:
    text = """
import sys
from tracelens.capture.inside.line_clock import LineClock
from tracelens.capture.inside.project_code import ProjectCode

def fails(self):
    raise RuntimeError

ProjectCode.look_again = fails
clock = LineClock()
try:
    clock.begin_step(1)
except RuntimeError:
    print([sys.monitoring.get_tool(tool) for tool in range(6)].count("tracelens"))
    clock.give_up("it failed")
print([sys.monitoring.get_tool(tool) for tool in range(6)].count("tracelens"), clock.reason, clock.document(str))
"""
    words = "-c", f"import sys; sys.path.insert(0, {str(SCRIPT.parents[3])!r})\n{text}"
    assert said(version, *words) == "1\n0 it failed None\n"


@MONITORED
@pytest.mark.parametrize("prepared", [True, False])
def test_code_that_comes_in_the_step_itself_counts_for_the_line_that_brings_it(
    version: str, prepared: bool, tmp_path: Path
) -> None:
    """A module imported before the step is seen, one imported in it is its `import`."""
    slow = "import time\ntime.sleep(0.02)\ndef work():\n    time.sleep(0.02)\n"
    for name in ("early", "late"):
        (tmp_path / f"{name}.py").write_text(slow)
    text = f"""
import json, sys
sys.path.insert(0, {str(SCRIPT.parents[3])!r})
from tracelens.capture.inside.line_clock import LineClock
clock = LineClock()
if {prepared}:
    clock.prepare()
import early

def step():
    early.work()
    import late
    late.work()

clock.begin_step(1)
step()
clock.stop()
print(json.dumps(clock.document(str)))
"""
    script = tmp_path / "train.py"
    script.write_text(text)
    log = line_log.parse(json.loads(said(version, str(script))), "lines.json")
    assert {place.function for place in log.codes} == {"<module>", "step", "work"}
    (step,) = fold(log)
    first = text.splitlines().index("    early.work()") + 1
    for line in (first, first + 1, first + 2):
        assert during(log, step, range(line, line + 1)) > 20_000_000


@VERSIONS
def test_a_second_clock_keeps_the_last_two_of_many_steps(version: str, tmp_path: Path) -> None:
    script, out = SCRIPT.with_name("clocked_twice.py"), tmp_path / "out.json"
    python = sys.executable if version == f"{sys.version_info.major}.{sys.version_info.minor}" else interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    subprocess.run([python, str(script), str(out)], check=True)
    document = json.loads(out.read_text())
    assert document["reasons"] == [None, None]
    log = line_log.parse(document["logs"][1], "slow_lines.json")
    usual, slow = fold(log)
    assert (usual.number, slow.number) == (5, 6)
    call = next(at for at, text in enumerate(script.read_text().splitlines(), 1) if text.endswith("# rare: call"))
    below = {
        step.number: sum(each.weight_ns for each in step.intervals if call in [at for _, at in each.path])
        for step in (usual, slow)
    }
    assert below[5] == 0 and below[6] > 20_000_000, "a hot loop that both call is the statement's that is under way"
