"""Verification with real processes: tiny scripts on the CPU, a few steps each."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.support.lean import PRELUDE
from tests.support.places import ROOT
from tests.support.verifying import LINE, READ, TRAIN, asked, change, one_process, script, session, whole_script
from tracelens.errors import Inconclusive, InputError, Refused
from tracelens.model import Edit, Estimate, FilePatch, Location, Patch
from tracelens.patch import recipes
from tracelens.verify import request, result, store, trial_process
from tracelens.verify.compare import window_statistics
from tracelens.verify.policy import POLICY
from tracelens.verify.request import PatchedVersion, VerificationPlan
from tracelens.verify.supervisor import processes, working_copy
from tracelens.verify.supervisor import session as run
from tracelens.verify.trial_process import TrialProcess

pytestmark = pytest.mark.programs


def test_equal_numbers_and_a_faster_version_in_one_interleaved_verification(project, monkeypatch):
    monkeypatch.setattr(run, "POLICY", replace(POLICY, most_pairs=3))
    path = script(project, TRAIN.replace("0.004", "0.02"))
    (project / "note.txt").write_text("as it was")
    same = change(path, LINE, LINE + "        # the same\n", "event-sync")
    fast = change(path, "time.sleep(0.02)", "time.sleep(0.005)", "pinned-copy")
    predicted = Estimate(5_000_000, 2_000_000, 1_500_000, 2_500_000, "host", "unprofiled", "replayed")
    before = working_copy.snapshot((project,))
    told = []
    found = session(path, same, replace(fast, predicted=predicted))
    found.request = replace(found.request, progress=told.append)
    found.compare_numbers()
    found.plan = replace(found.plan, rounds=3, steps=40)
    found.compare_times()
    first, second = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    # The machine that runs this test may be busy: the outcome "no change" of a narrow interval is tested elsewhere.
    assert first.outcome in ("no change", "inconclusive"), first.verdict
    assert first.numbers_equal is True
    assert first.ratio.value == pytest.approx(1, abs=0.2)
    assert (second.outcome, second.numbers_equal) == ("faster", True), second.verdict
    assert second.ratio.value < 0.6
    assert ("Predicted: +150 %" in second.verdict) == second.ratio.tells, "a busy machine may tell nothing"
    assert working_copy.changed(before, working_copy.snapshot((project,))) == ()
    assert any("verify takes about" in text for text in told)
    numbers = first.details["numbers"]
    compared = {"ranks": 1, "steps": 24, "losses": 24, "tensors": 9, "unreadable_tensors": 0, "lines": 24}
    compared |= {"error_lines": 0, "text_files": 0}
    assert numbers["compared"].pop("settings") >= 2, "learning rate and momentum, and whatever this PyTorch has besides"
    assert numbers["compared"] == compared
    assert numbers["masked_columns"] == 1
    assert [pair["round"] for pair in first.details["times"]["runs"]] == [1, 1, 2, 2, 3, 3]
    store.write(project.parent, [first, second])
    assert [one.outcome for one in store.read(project.parent)] == [first.outcome, "faster"]
    json.dumps(first.details, allow_nan=False)


DRAIN = """\
pending, total = [], 0.0
def drain():
    global total
    for step, value in pending:
        total += value.item()
        print(f"step {step} loss {value.item():.6f} total {total:.6f} at {time.time():.4f}")
    pending.clear()
def main():
"""


def with_drain(patch):
    """Reads deferred to every tenth step, and no drain at the end."""
    file = patch.files[0]
    return replace(patch, files=(replace(file, after=file.after.replace(b"def main():\n", DRAIN.encode())),))


def test_planted_bugs_are_caught(project):
    """A deferred read without `.clone()` and an in-place `/=` after it; a drain that is missing; a changed weight."""
    path = script(project)
    late = "        kept = loss.detach()\n        kept /= 4\n        shown = kept.item()\n"
    drain = "        pending.append((step, loss.detach().clone()))\n        if len(pending) == 10: drain()\n"
    weights = LINE + "        if step == 20:\n            for p in net.parameters(): p.grad.mul_(1 + 1e-6)\n"
    broken = LINE + "        if step == 5: raise ValueError('the patched loop fails')\n"
    found = session(
        path,
        change(path, LINE, late, "late"),
        replace(change(path, READ, drain, "drain"), patch=with_drain(change(path, READ, drain).patch)),
        change(path, LINE, weights, "weights"),
        change(path, LINE, broken, "broken"),
    )
    found.compare_numbers()
    late, drain, weights, broken = (
        result.build_verification(found.measurements(version, ())) for version in found.versions
    )
    assert (late.outcome, late.numbers_equal) == ("different numbers", False)
    assert late.details["numbers"]["first_difference"]["part"] == "output"
    assert drain.outcome == "different numbers"
    assert drain.details["numbers"]["first_difference"]["patched"] == "nothing"
    assert weights.outcome == "different numbers"
    assert weights.details["numbers"]["first_difference"]["where"] == "backward 22"
    assert (broken.outcome, broken.numbers_equal) == ("failed", None)
    assert broken.verdict.startswith("The patched version failed: the broken version ended with exit code 1")
    assert "the patched loop fails" in broken.verdict


def test_bugs_planted_into_the_patchers_own_patch_are_caught(project):
    """Without its `.clone()`, where the loss is divided in place; without its last drain. As it is, it is right.

    The last step ends a trial by an exception: the patch of a Run (`lossy=False`) has kept no line back then.
    """
    step = "        opt.step()\n"
    body = TRAIN.replace(READ, "").replace(step, f"{step}{READ}        loss.data /= 4\n")
    on_gpu = "if torch.cuda.is_available(): net.cuda()\n"  # where nothing uses one, nothing is patched
    path = script(project, body.replace("def main():", on_gpu + "def main():"))
    line = path.read_text().splitlines().index("        shown = loss.item()") + 1
    reads = Edit("defer-read", interval=10, locations=(Location("train.py", line),))
    patch = recipes.make(project, path, (reads,), (), recipes.PatchOptions(lossy=False))
    assert [file.path.name for file in patch.files] == ["train.py", "tracelens_runtime.py"]
    unproved = "what the clock is read for, a time that is written or decides, may be another (line 66)"
    assert [(hunk.tier, hunk.unproved) for hunk in patch.hunks] == [("checked", unproved)]

    def spoiled(name, old, new):
        main, helper = patch.files
        assert helper.after.count(old) == 1
        return PatchedVersion(
            replace(patch, files=(main, replace(helper, after=helper.after.replace(old, new)))), name, None, 10
        )

    finish = b"def _finish(self) -> None:\n"
    found = session(
        path,
        PatchedVersion(patch, "right", None, 10),
        spoiled("no clone", b"source.detach().clone()", b"source.detach()"),
        spoiled("no drain", finish, finish + b"        return\n"),
    )
    found.compare_numbers()
    right, clone, drain = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    assert right.numbers_equal is True and right.details["numbers"]["compared"]["lines"] == 23, right.verdict
    assert clone.outcome == drain.outcome == "different numbers"
    assert "line 1 of standard output" in clone.verdict
    assert drain.details["numbers"]["first_difference"]["patched"] == "nothing"


EPOCHS = """\
if torch.cuda.is_available(): net.cuda()
def main():
    for epoch in range(100):
        total = 0.0
        for step in range(7):
            loss = net(torch.randn(8, 16)).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * opt.param_groups[0]["lr"]
            loss.data /= 4
            if step == 4:
                print(f"epoch {epoch} step {step} total {total:.6f}")
        print(f"epoch {epoch} total {total:.6f}")
main()
"""


def test_bugs_planted_into_a_patch_of_plain_torch_that_is_not_proved_are_caught(project):
    """Its `.clone()`, the list that is emptied, what is read after the loop."""
    path = script(project, TRAIN[: TRAIN.index("def main():")] + EPOCHS)
    line = path.read_text().splitlines().index(next(one for one in EPOCHS.splitlines() if "item()" in one)) + 1
    reads = Edit("defer-read", interval=10, locations=(Location("train.py", line),))
    patch = recipes.make(project, path, (reads,), (), recipes.PatchOptions(lossy=False))
    assert [file.path.name for file in patch.files] == ["train.py"]
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    main = patch.files[0]

    def spoiled(name, old, new):
        assert old in main.after
        changed = replace(patch, files=(replace(main, after=main.after.replace(old, new)),))
        return PatchedVersion(changed, name, None, 10)

    last = main.after.rindex(b"        for loss_value")
    forgotten = main.after[:last] + main.after[main.after.index(b"        print(", last) :]
    found = session(
        path,
        PatchedVersion(patch, "right", None, 10),
        spoiled("no clone", b".detach().clone()", b".detach()"),
        spoiled("twice", b".clear()", b".copy()"),
        PatchedVersion(replace(patch, files=(replace(main, after=forgotten),)), "no drain", None, 10),
    )
    found.compare_numbers()
    right, *wrong = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    assert (right.numbers_equal, right.details["numbers"]["compared"]["lines"]) == (True, 6), right.verdict
    assert [one.outcome for one in wrong] == ["different numbers"] * 3


def test_a_script_with_a_seed_from_the_clock_is_inconclusive_about_numbers(project):
    path = script(project, TRAIN.replace("def main():", "torch.manual_seed(time.time_ns())\ndef main():"))
    found = session(path, change(path, "0.004", "0.0041"))
    found.compare_numbers()
    done = result.build_verification(found.measurements(found.versions[0], ()))
    assert (done.outcome, done.numbers_equal) == ("inconclusive", None)
    assert done.details["numbers"]["deterministic_algorithms"] is True
    assert "two runs of the original differ" in done.verdict


def test_the_whole_of_torch_runs_under_deterministic_algorithms(project):
    fused = "[getattr(torch.backends.cuda, f'{one}_sdp_enabled')() for one in ('flash', 'mem_efficient', 'cudnn')]"
    asks = f"print('deterministic', torch.are_deterministic_algorithms_enabled(), any({fused}))\ndef main():"
    record, _ = one_process(
        whole_script(project, TRAIN.replace("def main():", asks)), "numbers", 10, deterministic=True
    )
    assert (record.stdout.splitlines()[0], record.steps) == ("deterministic True False", 10)


RESUMING = TRAIN.replace(
    "def main():",
    """\
begin = 0
if os.path.exists("ckpt/last.pt"):
    begin = torch.load("ckpt/last.pt")["step"]
os.makedirs("ckpt", exist_ok=True)
print("begin", begin, os.getcwd(), os.path.expanduser("~"))
torch.save({"step": begin + 100, "net": net.state_dict()}, "ckpt/last.pt")
open(os.path.expanduser("~/marker-of-a-test"), "w").close()
def main():""",
)


def test_a_checkpoint_is_not_resumed_by_the_next_arm_and_the_users_is_left_alone(project):
    path = script(project, RESUMING)
    before = working_copy.snapshot((project,))
    first, _ = one_process(path, "numbers", 20)
    second, _ = one_process(path, "numbers", 20)
    assert first.stdout.splitlines()[0] == second.stdout.splitlines()[0]
    assert first.stdout.startswith("begin 0 ")
    assert working_copy.changed(before, working_copy.snapshot((project,))) == ()
    assert not (Path.home() / "marker-of-a-test").exists()
    assert first.refused == ()
    marker = str(Path.home() / "marker-of-a-test")
    assert set(first.written) == {str(project / "ckpt" / "last.pt"), marker}


def test_absolute_paths_out_of_the_copy_refuse_the_verification_with_their_list(project):
    target = project / "out" / "model.pt"
    target.parent.mkdir()
    path = script(project, TRAIN.replace("main()\n", "", 1) if False else TRAIN)
    path.write_text(
        path.read_text().replace("def main():", f"torch.save(net.state_dict(), {str(target)!r})\ndef main():")
    )
    with pytest.raises(Refused, match="outside the working copy") as caught:
        run.verify(asked(path, change=change(path, "0.004", "0.005")))
    assert str(target) in caught.value.message
    assert not target.exists()
    assert not list(project.parent.glob("tracelens-verify-*"))


def test_absolute_paths_on_the_command_line_lead_into_the_copy(project):
    body = TRAIN.replace("def main():", "torch.save(net.state_dict(), sys.argv[1])\ndef main():")
    path = script(project, body)
    record, copy = one_process(path, words=(str(path), str(project / "given.pt")))
    assert record.steps == 24
    assert copy.path_of(project / "given.pt").exists()
    assert not (project / "given.pt").exists()


def test_a_script_that_fails_is_named_with_its_last_words(project):
    path = script(project, "raise RuntimeError('no such data')")
    with pytest.raises(Inconclusive, match="original version ended with exit code 1") as caught:
        run.verify(asked(path, change=change(path, "no such", "not such")))
    assert "no such data" in caught.value.message


def test_a_script_without_training_says_so(project):
    with pytest.raises(Inconclusive, match="no training step"):
        one_process(script(project, "print('hello')"))


def test_a_script_that_is_gone_is_an_input_error(project):
    path = script(project)
    patched = change(path, "0.004", "0.005")
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        run.verify(asked(path, change=patched))


def test_a_hanging_arm_is_ended_with_everything_it_started(project):
    path = script(project, "import subprocess\nsubprocess.run(['sleep', '60'])")
    with pytest.raises(Inconclusive, match="did not reach step"):
        one_process(path, timeout_s=2.0)


def test_a_thread_that_outlives_the_training_is_not_waited_for(project, monkeypatch):
    """A heartbeat, a metrics server: the last step was made, what lingers is ended after a grace."""
    monkeypatch.setattr(processes, "POLICY", replace(POLICY, linger_seconds=1.0))
    body = TRAIN.replace(
        "def main():", "import threading\nthreading.Thread(target=time.sleep, args=(90,)).start()\ndef main():"
    )
    body = body.removesuffix("main()\n") + "try:\n    main()\nfinally:\n    print('drained')\n"
    record, _ = one_process(script(project, body), steps=20, timeout_s=45.0)
    assert record.stdout.splitlines()[-1] == "drained"
    assert record.seconds < 40


def test_a_script_that_turns_its_end_into_an_error_is_quoted_so(project):
    body = TRAIN.removesuffix("main()\n") + "try:\n    main()\nexcept BaseException:\n    sys.exit(7)\n"
    with pytest.raises(processes.ProcessFailed, match="exit code 7 when it was stopped after step 20"):
        one_process(script(project, body), steps=20)


def test_finally_blocks_run_and_print_when_an_arm_is_ended_at_its_last_step(project):
    body = TRAIN.removesuffix("main()\n") + "try:\n    main()\nfinally:\n    print('drained')\n"
    record, _ = one_process(script(project, body), steps=20)
    assert record.stdout.splitlines()[-1] == "drained"
    assert record.ranks[0]["stopped"] == "steps"


@pytest.mark.parametrize(
    ("left_s", "beyond_s", "recorded"),
    [(200.0, 0.0, 2), (90.0, 0.0, 0), (50.0, 0.0, 2), (185.0, 30.0, 0), (240.0, 30.0, 2)],
)
def test_where_time_is_short_it_is_kept_for_the_pairs(left_s, beyond_s, recorded, project, monkeypatch):
    """Three pairs of 12 s per process are 72 s, two windows 24 to 32 s; with 50 s there is no verdict anyway. A version
    that compiles takes `beyond_s` more each time: a ViT had two pairs of three after 276 s of 300."""
    found = session(script(project), change(script(project), LINE, LINE))
    found.originals = [SimpleNamespace(startup_seconds=10.0, seconds_per_step=0.1, seconds=12.0)]
    found.versions[0].record = SimpleNamespace(seconds=12.0 + beyond_s)
    found.plan = VerificationPlan(20, 3, None, "")
    made = []
    monkeypatch.setattr(type(found), "left_s", property(lambda _: left_s))
    monkeypatch.setattr(type(found), "_recorded_window", lambda *asked: made.append(asked[1]))
    found.record_windows()
    assert len(made) == recorded


def test_a_recorded_window_on_a_machine_without_gpu_says_what_it_cannot_tell(project):
    record, _ = one_process(whole_script(project), "window", 30)
    window = window_statistics.read(record.ranks[0])
    assert window.syncs_per_step is None
    assert "GPU" in window.reason
    assert window.steps >= 8
    assert 0 < window.cpu_busy_share < 1
    assert window.peak_memory_bytes > 10 << 20


def test_a_patch_of_a_file_that_nobody_loads_is_no_test_of_it(project):
    path = script(project)
    other = project / "other.py"
    other.write_text("x = 1")
    patch = Patch(project, (FilePatch(other, b"x = 1", b"x = 2"),), (), (), "")
    found = session(path, PatchedVersion(patch))
    found.steps = 20
    found._attempt(found.versions[0], "numbers", 20)
    assert "no process of this command loads a patched file" in found.versions[0].failure


def test_a_script_that_ends_before_the_last_step_ran_its_patched_file_all_the_same(project):
    """Python takes `__file__` out of `__main__` when the script has ended."""
    path = script(project, TRAIN.replace("100_000", "15"))
    copy = working_copy.WorkingCopy(project.parent / "scratch", project, project)
    copy.scratch.mkdir()
    patched = change(path, "total {total:.6f}", "sum {total:.6f}").patch
    record = processes.run(
        TrialProcess("patched", "timed", 30, 0, timeout_s=60.0), request.script_command(path.name), copy, patched
    )
    assert record.ranks[0]["stopped"] == "script ended"
    assert record.ranks[0]["loaded"] == [str(path)]


def test_module_launch_runs_the_patched_module(project):
    (project / "pkg").mkdir()
    (project / "pkg" / "__init__.py").touch()
    path = project / "pkg" / "train.py"
    path.write_text(PRELUDE + TRAIN)
    command = trial_process.Command("module", ("pkg.train",), sys.executable, {})
    copy = working_copy.WorkingCopy(project.parent / "scratch", project, project)
    copy.scratch.mkdir()
    patched = change(path, "total {total:.6f}", "sum {total:.6f}").patch
    record = processes.run(TrialProcess("patched", "timed", 20, 0, timeout_s=60.0), command, copy, patched)
    assert "sum" in record.stdout
    assert record.ranks[0]["loaded"] == [str(path)]
    assert record.ranks[0]["foreign"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_trial_process_and_removes_the_scratch_folder(project, number):
    path = script(project, "print('up', os.getpid(), flush=True)\ntime.sleep(600)\n")
    scratch = project.parent / "scratch"
    scratch.mkdir()
    code = (
        "import signal, sys; from pathlib import Path; from tracelens.model import FilePatch, Patch\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what a shell starts with `&` ignores it
        "from tracelens.verify import request\n"
        "from tracelens.verify.supervisor import session\n"
        "path, scratch = map(Path, sys.argv[1:])\n"
        "patch = Patch(path.parent, (FilePatch(path, path.read_bytes(), b'pass'),), (), (), '')\n"
        "command, change = request.script_command(str(path)), request.PatchedVersion(patch)\n"
        "session.verify(request.VerificationRequest(command, path.parent, path.parent, change,\n"
        "                                           budget_s=1000.0, scratch_parent=scratch))\n"
    )
    words = [sys.executable, "-c", code, str(path), str(scratch)]
    with subprocess.Popen(words, cwd=ROOT) as verifying:
        process = _started(scratch)
        verifying.send_signal(number)
        by_itself = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: -signal.SIGINT}
        assert verifying.wait(timeout=120) == by_itself.get(number, 128 + number)
    for _ in range(2400):  # after a SIGKILL the guardian clears up, which nobody waits for
        if not list(scratch.iterdir()) and not psutil.pid_exists(process):
            return
        time.sleep(0.05)
    raise AssertionError(f"left: {list(scratch.iterdir())}, process {psutil.pid_exists(process)}")


def _started(scratch):
    """The process of the first trial process, once it runs."""
    for _ in range(2400):
        for out in scratch.glob("*/run/out/stdout"):
            if found := re.search(r"up (\d+)\n", out.read_text()):
                return int(found[1])
        time.sleep(0.05)
    raise AssertionError("the process did not start")


STEPS = """\
if torch.cuda.is_available(): net.cuda()
def train(step):
    loss = net(torch.randn(8, 16)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.6f}")
    loss.data /= 4
ctx = contextlib.nullcontext()
for step in range(1000):
    with ctx:
        train(step)
"""


def test_a_step_function_that_prints_later_is_right_and_a_drain_that_is_missing_is_found(project):
    """The hunk says that nobody looked at the rest of the project: the run did, and finds the lines that are lost."""
    path = script(project, "import contextlib\n" + TRAIN[: TRAIN.index("def main():")] + STEPS)
    line = path.read_text().splitlines().index(next(one for one in STEPS.splitlines() if "item()" in one)) + 1
    reads = Edit("defer-read", interval=10, locations=(Location("train.py", line),))
    patch = recipes.make(project, path, (reads,), (), recipes.PatchOptions(lossy=False))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined
    assert "what the rest of the project does in a batch is not looked at" in patch.hunks[0].unproved
    main, helper = patch.files
    finish = b"def _finish(self) -> None:\n"
    lost = replace(helper, after=helper.after.replace(finish, finish + b"        return\n"))
    spoiled = PatchedVersion(replace(patch, files=(main, lost)), "no drain", None, 10)
    found = session(path, PatchedVersion(patch, "right", None, 10), spoiled)
    found.compare_numbers()
    right, drain = (result.build_verification(found.measurements(version, ())) for version in found.versions)
    assert right.numbers_equal is True and right.details["numbers"]["compared"]["lines"] > 0, right.verdict
    assert drain.outcome == "different numbers"
