"""Which blocks are overwritten, and what a difference found that way is called; the race itself needs a GPU."""

from dataclasses import replace

import pytest

from tracelens.errors import Inconclusive
from tracelens.model import Patch
from tracelens.verify import request, trial_process
from tracelens.verify.inside import freed_memory_fill
from tracelens.verify.supervisor import processes, session, working_copy

MEGABYTE = 1 << 20


def segment(stream, kind, *blocks, **more):
    listed = [{"size": size, "state": state} for size, state in blocks]
    return {"device": 0, "stream": stream, "segment_type": kind, "blocks": listed, **more}


def test_free_blocks_are_those_that_a_request_of_their_size_would_get():
    segments = [
        segment(0, "small", (512, "inactive"), (1024, "active_allocated")),
        segment(7, "large", (4 * MEGABYTE, "inactive"), (MEGABYTE, "inactive"), (8 * MEGABYTE, "active_pending_free")),
        segment(9, "large", (16 * MEGABYTE, "inactive"), segment_pool_id=(0, 3)),
    ]
    assert freed_memory_fill.free_blocks(segments) == [(0, 7, 4 * MEGABYTE), (0, 0, 512)]


def test_without_a_gpu_nothing_is_swept():
    if freed_memory_fill.torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert freed_memory_fill.sweep() == 0
    assert freed_memory_fill.side_streams() is False


def record(version, digest, streams=True):
    state = {"name": "w", "dtype": "float32", "shape": [], "sha256": digest, "first": [1.0]}
    rank = {"rank": 0, "steps": 30, "losses": [], "state": [state], "side_streams": streams, "loaded": ["train.py"]}
    return trial_process.ProcessRecord(trial_process.TrialProcess(version, "numbers", 30, 0), 1.0, "", "", (rank,))


@pytest.mark.parametrize(
    ("own_race", "end", "alive"), [(False, "b", False), (False, "a", True), (True, "b", True), (False, "dies", False)]
)
def test_a_race_that_only_the_patched_version_has_is_its_own(tmp_path, monkeypatch, own_race, end, alive):
    """The patched version ends with weights `end` once freed memory is overwritten."""
    change = request.PatchedVersion(Patch(tmp_path, (), (), (), ""), "more-streams")
    asked = request.VerificationRequest(request.script_command("train.py"), tmp_path, tmp_path, change)
    found = session.Session(asked, (change,), working_copy.WorkingCopy(tmp_path, tmp_path, tmp_path))
    found.originals = [record("original", "a", streams=own_race)]
    trial = found.versions[0]
    trial.record = record("more-streams", "a")

    def start(process, _files):
        assert process.freed_memory_fill
        if process.version == "original":
            return record("original", "c")
        if end == "dies":
            raise processes.ProcessFailed("exit code 1")
        return record("more-streams", end)

    monkeypatch.setattr(found, "_start", start)
    found._compare_with_freed_memory_filled(trial)
    assert trial.alive is alive
    assert trial.freed_memory_filled is (not own_race and end != "dies")
    if end == "b" and not own_race:
        assert trial.difference.where == "w, with freed GPU memory overwritten"


def test_failures_keep_their_kind():
    assert issubclass(processes.ProcessFailed, Inconclusive)
    assert replace(trial_process.TrialProcess("x", "numbers", 30, 0), freed_memory_fill=True).freed_memory_fill
