"""Scripts that write where they should not: the user's files stay as they were, and it is said what was refused."""

import subprocess
import sys

import pytest

from tests.support.lean import PRELUDE
from tests.support.verifying import TRAIN, asked, change, landlock, one_process, script
from tracelens.errors import Refused
from tracelens.verify import result
from tracelens.verify.policy import POLICY
from tracelens.verify.supervisor import session, working_copy

pytestmark = pytest.mark.programs

TRACKER = '''
"""A tracker in the manner of the real ones: a folder beside the script, one in the home, a service that writes too."""
import os, subprocess, sys

class Run:
    def __init__(self, home):
        self.folder = os.path.join(os.environ.get("WANDB_DIR", os.getcwd()), "wandb", "run-1")
        os.makedirs(self.folder, exist_ok=True)
        os.makedirs(os.path.expanduser("~/.config/tracker-of-a-test"), exist_ok=True)
        service = "import sys; open(sys.argv[1], 'w').write('up'); open(sys.argv[2], 'w').write('log')"
        here = os.path.join(self.folder, "service.log")
        there = os.path.join(home, "service.pid")
        subprocess.run([sys.executable, "-c", service, here, there], stderr=subprocess.DEVNULL)
        self.events = open(os.path.join(self.folder, "events.out.tfevents"), "ab", buffering=0)

    def log(self, **values):
        self.events.write(repr(values).encode())
'''
USES = TRAIN.replace("def main():", "import tracker\nwatch = tracker.Run({home!r})\ndef main():").replace(
    "        opt.step()", "        watch.log(loss=shown)\n        opt.step()"
)


@pytest.fixture
def tracked(project):
    """A project with a tracker in it, and a place outside of it that the tracker's service wants to write to."""
    outside = project.parent / "outside"
    outside.mkdir()
    (project / "tracker.py").write_text(TRACKER)
    (project / "wandb" / "run-1").mkdir(parents=True)
    (project / "wandb" / "run-1" / "events.out.tfevents").write_text("of an earlier run")
    return script(project, USES.replace("{home!r}", repr(str(outside)))), outside


def test_a_tracker_writes_into_the_copy_and_its_service_is_held_back_too(tracked):
    path, outside = tracked
    before = working_copy.snapshot((path.parent, outside))
    record, copy = one_process(path)
    assert working_copy.changed(before, working_copy.snapshot((path.parent, outside))) == ()
    written = copy.path_of(path.parent) / "wandb" / "run-1"
    assert (written / "service.log").read_text() == "up"
    assert (written / "events.out.tfevents").read_text().startswith("of an earlier run{'loss'")
    assert str(outside / "service.pid") in record.refused, "a child's write, refused and listed"
    assert record.steps == 24, "the script went on without it"


def test_what_a_child_program_does_to_a_link_is_reported_with_its_name(project):
    """No kernel fence covers the mode of a file; it is seen afterwards."""
    large = project / "large.bin"
    large.write_bytes(bytes(POLICY.copy_file_bytes + 1))
    path = script(
        project, TRAIN.replace("def main():", 'os.system("chmod 600 large.bin; touch large.bin")\ndef main():')
    )
    before = working_copy.snapshot((project,))
    record, _ = one_process(path)
    touched = working_copy.changed(before, working_copy.snapshot((project,)))
    assert touched == (str(large),)
    assert large.read_bytes() == bytes(POLICY.copy_file_bytes + 1)
    assert record.steps == 24
    assert f"({large})" in result._meanwhile((str(large),))
    assert result._meanwhile(("a", "b", "c", "d")).count(",") >= 3


@pytest.mark.skipif(not landlock(), reason="this kernel has no Landlock")
def test_a_shell_command_cannot_reach_the_users_files_either(project):
    target = project / "history.txt"
    target.write_text("mine")
    body = TRAIN.replace("def main():", f'os.system("echo gone > {target} 2>/dev/null; rm -f {target}")\ndef main():')
    record, _ = one_process(script(project, body))
    assert target.read_text() == "mine"
    assert record.steps == 24


def test_a_checkpoint_at_an_absolute_path_ends_the_verification_with_its_name(project):
    target = project / "resume" / "last.pt"
    target.parent.mkdir()
    target.write_bytes(b"three days of training")
    path = script(project, TRAIN.replace("def main():", f"torch.save(net.state_dict(), {str(target)!r})\ndef main():"))
    with pytest.raises(Refused, match=r"resume/last\.pt"):
        session.verify(asked(path, change=change(path, "0.004", "0.005"), scratch_parent=project.parent))
    assert target.read_bytes() == b"three days of training"
    assert not list(project.parent.glob("tracelens-verify-*"))


def test_two_versions_made_by_hand_from_the_command_line(tmp_path):
    """`tracelens verify BEFORE.py AFTER.py`: a change that alters the numbers is caught, and exit code 1 says so."""
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    text = PRELUDE + TRAIN.replace("100_000", "30")
    before.write_text(text)
    after.write_text(text.replace("lr=0.1", "lr=0.11"))
    words = [sys.executable, "-m", "tracelens", "verify", str(before), str(after), "--steps", "20", "--budget", "60s"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Different results: backward 2" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.py", "before.py"]
