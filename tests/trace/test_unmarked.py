"""Traces of programs that name nothing: no Python frames, no step marks, no operators. They still get an answer."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import AUTOGRAD, Machine
from tests.support.places import ROOT

pytestmark = pytest.mark.programs

SAMPLE = ROOT / "sample_traces" / "sync_every_batch" / "run" / "rank0"
GPU_AND_CALLS = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "overhead")


def recommended(path: Path) -> dict[str, Any]:
    """What `tracelens recommend` prints as JSON."""
    command = [sys.executable, "-m", "tracelens", "recommend", str(path), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def cpp_step(machine: Machine, host_us: float) -> None:
    """A libtorch loop: a batch on its own stream, forward, a worker thread's backward, a stream synchronize per step.
    The GPU works 900 us in a row; the host issues that in 135 us and then prepares the next batch."""
    machine.copy("h2d", "pinned", 20, nbytes=1 << 20, stream=13)
    machine.stream_synchronize(13)
    for _ in range(10):
        machine.launch("sgemm", 30)
    for _ in range(10):
        machine.launch("sgemm_backward", 50, thread=AUTOGRAD)
    machine.launch("sgd_update", 100)
    machine.stream_synchronize()
    machine.host(host_us)


@pytest.mark.parametrize("host_us", [800, 0])
def test_a_program_without_marks_gets_its_waits_and_no_promise(tmp_path: Path, host_us: float) -> None:
    """With 800 us of host work behind each synchronize a step takes about 1,750 us. The trace does not say whether a
    DataLoader is silent there, which no scheme would make faster: nothing is promised, and the reason is given."""
    machine = Machine(sync_rows=False)
    for _ in range(24):
        cpp_step(machine, host_us)
    found = recommended(machine.events.write(tmp_path / "program.json.gz"))
    assert (found["steps"]["source"], found["steps"]["count"]) == ("cycle", 23)
    assert not {"steps", "python_stacks", "sync_events", "optimizer"} & set(found["traces"][0]["signals"])
    kinds = {row["kind"]: row for row in found["syncs"]}
    assert set(kinds) == {"h2d", "stream"} and kinds["stream"]["calls_per_step"] == 1
    answer = found["recommendation"]
    assert answer["scheme"] is None and "saves" not in answer["verdict"]
    missing = [item["missing"] for item in found["abstentions"] if item["detector"] == "replay"]
    if host_us:
        assert found["steps"]["median_us"] == pytest.approx(1750, abs=60)
        assert missing == [
            "the host makes no call for 0.80 ms of a step: the trace does not show whether a DataLoader does"
        ]
    else:
        assert missing == []


def test_a_real_trace_stripped_bare_keeps_its_steps_and_promises_nothing(tmp_path: Path) -> None:
    """The sample loop, a third of which is its DataLoader: without annotations that time has no name."""
    (recorded,) = SAMPLE.glob("*.pt.trace.json.gz")
    document = json.loads(gzip.decompress(recorded.read_bytes()))
    annotated = tmp_path / "annotated.json.gz"
    annotated.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    document["traceEvents"] = [row for row in document["traceEvents"] if row.get("cat") in GPU_AND_CALLS]
    bare = tmp_path / "bare.json.gz"
    bare.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    whole, stripped = recommended(annotated), recommended(bare)
    assert (whole["steps"]["source"], stripped["steps"]["source"]) == ("profiler_step", "cycle")
    assert stripped["steps"]["median_us"] == pytest.approx(whole["steps"]["median_us"], rel=0.1)
    assert whole["recommendation"]["scheme"] is not None and stripped["recommendation"]["scheme"] is None
    (missing,) = [item["missing"] for item in stripped["abstentions"] if item["detector"] == "replay"]
    assert missing.endswith("the trace does not show whether a DataLoader does")
