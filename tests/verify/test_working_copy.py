"""The working copy and its write sandbox: what a script may write, and that the user's files stay as they were."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.verifying import landlock
from tracelens.errors import Refused
from tracelens.model import FilePatch, Patch
from tracelens.verify import overlay
from tracelens.verify.inside import sandbox
from tracelens.verify.policy import POLICY
from tracelens.verify.supervisor import processes, working_copy


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "home" / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "data" / "deep").mkdir(parents=True)
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "train.pyc").write_text("old")
    (root / "train.py").write_text("import pkg.model")
    (root / "pkg" / "model.py").write_text("x = 1")
    (root / "data" / "big.bin").write_bytes(b"\0" * (POLICY.copy_file_bytes + 1))
    (root / "data" / "deep" / "small.txt").write_text("kept")
    (root.parent / "beside.txt").write_text("beside")
    for number in range(POLICY.copy_entries + 1):
        (root / "data" / "deep" / f"{number}.txt").touch()
    return root


def copy_at(tmp_path, root, cwd=None):
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return working_copy.WorkingCopy(scratch, root, cwd or root)


def test_sources_are_copies_large_things_are_links_and_paths_upwards_are_found(tmp_path, project):
    copy = copy_at(tmp_path, project)
    working_copy.build(copy, None)
    mirror = copy.path_of(project)
    assert not (mirror / "train.py").is_symlink()
    assert (mirror / "pkg" / "model.py").read_text() == "x = 1"
    assert not (mirror / "pkg" / "model.py").is_symlink()
    assert (mirror / "data" / "big.bin").is_symlink()
    assert (mirror / "data" / "deep").is_symlink()
    assert (mirror / ".." / "beside.txt").read_text() == "beside"
    assert not (mirror / "__pycache__").exists()


@pytest.fixture
def images(tmp_path):
    """A script among its images: thousands beside it, and folders of them."""
    root = tmp_path / "images"
    for folder, names in {
        ".": [f"{n:04}.png" for n in range(POLICY.copy_entries + 10)],
        "class": [f"{n}.png" for n in range(POLICY.copy_data_entries + 1)],
        "few": ["0.png"],
        "source": [f"{n}.png" for n in range(POLICY.copy_data_entries + 1)] + ["model.py"],
    }.items():
        (root / folder).mkdir(exist_ok=True)
        for name in names:
            (root / folder / name).write_text("as it was")
    (root / "train.py").write_text("import source.model")
    return root


def test_of_a_data_set_beside_the_script_only_the_sources_are_copied(tmp_path, images):
    copy = copy_at(tmp_path, images)
    working_copy.build(copy, None)
    mirror = copy.path_of(images)
    links = {name: (mirror / name).is_symlink() for name in ("0000.png", "train.py", "class", "few/0.png", "source")}
    assert links == {"0000.png": True, "train.py": False, "class": True, "few/0.png": False, "source": False}
    assert not (mirror / "source" / "model.py").is_symlink()


def test_more_small_files_than_a_source_tree_has_are_linked(tmp_path, images, monkeypatch):
    monkeypatch.setattr(working_copy, "POLICY", replace(POLICY, copy_files=3))
    copy = copy_at(tmp_path, images)
    working_copy.build(copy, None)
    mirror = copy.path_of(images)
    copied = [path for path in mirror.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(copied) <= 3
    assert mirror / "train.py" in copied
    assert (mirror / "source" / "model.py").read_text() == "as it was"


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_a_file_that_cannot_be_read_or_has_just_gone_is_none_of_our_business(tmp_path, project, monkeypatch, error):
    (project / "key.pem").write_text("secret")
    plain = shutil.copy2

    def copy2(source, target):
        if str(source).endswith("key.pem"):
            raise error(source)
        return plain(source, target)

    monkeypatch.setattr(working_copy.shutil, "copy2", copy2)
    copy = copy_at(tmp_path, project)
    working_copy.build(copy, None)
    assert copy.path_of(project / "key.pem").is_symlink()
    assert not copy.path_of(project / "train.py").is_symlink()


def test_a_working_directory_inside_the_project_is_copied_like_the_rest(tmp_path, project):
    copy = copy_at(tmp_path, project, project / "pkg")
    working_copy.build(copy, None)
    assert not copy.path_of(project / "pkg" / "model.py").is_symlink()


def test_a_second_copy_knows_nothing_of_the_first(tmp_path, project):
    copy = copy_at(tmp_path, project)
    working_copy.build(copy, None)
    (copy.path_of(project) / "checkpoint.pt").touch()
    working_copy.build(copy, None)
    assert not (copy.path_of(project) / "checkpoint.pt").exists()
    assert (project / "data" / "deep" / "small.txt").read_text() == "kept"


def test_patched_files_stand_in_the_copy_only_also_inside_linked_folders(tmp_path, project):
    copy = copy_at(tmp_path, project)
    files = (
        FilePatch(project / "train.py", b"import pkg.model", b"changed"),
        FilePatch(project / "data" / "deep" / "new.py", None, b"created"),
    )
    working_copy.build(copy, Patch(project, files, (), (), ""))
    assert copy.path_of(project / "train.py").read_bytes() == b"changed"
    assert copy.path_of(project / "data" / "deep" / "new.py").read_bytes() == b"created"
    assert (project / "train.py").read_bytes() == b"import pkg.model"
    assert not (project / "data" / "deep" / "new.py").exists()


def test_a_patch_outside_the_project_is_refused(tmp_path, project):
    patch = Patch(project, (FilePatch(tmp_path / "elsewhere.py", b"", b"x"),), (), (), "")
    with pytest.raises(Refused, match="outside the project"):
        working_copy.build(copy_at(tmp_path, project), patch)


def test_links_of_the_project_lead_into_the_copy(tmp_path, project):
    (project / "latest").symlink_to(project / "pkg")
    (project / "relative").symlink_to("pkg/model.py")
    copy = copy_at(tmp_path, project)
    working_copy.build(copy, None)
    mirror = copy.path_of(project)
    assert (mirror / "latest").resolve() == (mirror / "pkg").resolve()
    assert (mirror / "relative").resolve() == (mirror / "pkg" / "model.py").resolve()


def test_a_scratch_folder_inside_the_project_is_not_copied_into_itself(project):
    copy = copy_at(project, project)
    working_copy.build(copy, None)
    assert not copy.path_of(copy.scratch / "run").exists() or copy.path_of(copy.scratch).is_symlink()


def test_arguments_into_the_project_lead_into_the_copy_and_others_stay(tmp_path, project):
    copy = copy_at(tmp_path, project)
    words = working_copy.arguments(("train.py", f"--out={project}/o", str(project / "c"), "/etc/hosts", "--lr=1"), copy)
    mirror = str(copy.path_of(project))
    assert words == ("train.py", f"--out={mirror}/o", f"{mirror}/c", "/etc/hosts", "--lr=1")


def test_environment_leads_nowhere_out_and_nowhere_online(tmp_path, project):
    copy = copy_at(tmp_path, project)
    base = {"PYTHONPATH": f"{project}/pkg:/opt/x", "PATH": "/bin", "HF_HOME": "/models/hf", "WANDB_MODE": "online"}
    out = working_copy.environment(base, copy, seed=3, deterministic=False)
    assert out["PYTHONPATH"] == f"{copy.path_of(project)}/pkg:/opt/x"
    assert out["PATH"] == "/bin"
    assert out["HF_HOME"] == str(copy.path_of("/models/hf"))
    assert (out["WANDB_MODE"], out["HF_HUB_OFFLINE"], out["PYTHONHASHSEED"]) == ("offline", "1", "3")
    for name in ("HOME", "TMPDIR", "MLFLOW_TRACKING_URI", "TRITON_CACHE_DIR"):
        assert str(copy.scratch) in out[name]
    assert "CUBLAS_WORKSPACE_CONFIG" not in out


def test_the_file_that_our_own_output_goes_to_is_nobody_elses_change(tmp_path):
    """`tracelens verify > verify.log`, in the project."""
    with (tmp_path / "verify.log").open("w") as log, (tmp_path / "other").open("w") as other:
        before = working_copy.snapshot((tmp_path,), (log.fileno(),))
        for file in (log, other):
            file.write("said")
            file.flush()
        assert [
            Path(path).name
            for path in working_copy.changed(before, working_copy.snapshot((tmp_path,), (log.fileno(),)))
        ] == ["other"]


def test_snapshot_notices_a_new_a_changed_and_a_vanished_file(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    before = working_copy.snapshot((tmp_path,))
    (tmp_path / "a").write_text("22")
    (tmp_path / "b").unlink()
    (tmp_path / "c").touch()
    assert [Path(path).name for path in working_copy.changed(before, working_copy.snapshot((tmp_path,)))] == [
        "a",
        "b",
        "c",
    ]


# ------------------------------------------------------------------------------------------------------ the sandbox

SANDBOXED = """
import os, sys
sys.path.insert(0, {package!r})
from tracelens.verify.inside import sandbox
guard = sandbox.WriteSandbox({scratch!r}, {tree!r}, {log!r})
if {kernel}:
    assert sandbox.ask_kernel(({scratch!r}, *sandbox.DEVICES))
guard.install()
os.chdir({cwd!r})
"""
PACKAGE = str(Path(sandbox.__file__).parents[3])


def sandboxed(copy, project, body, kernel=False):
    """Run `body` in the write sandbox, in the working copy; returns its output and the refused paths."""
    working_copy.build(copy, None)
    log = copy.out / "refused-1.txt"
    head = SANDBOXED.format(
        package=PACKAGE,
        scratch=str(copy.scratch),
        tree=str(copy.tree),
        log=str(log),
        cwd=str(copy.path_of(project)),
        kernel=kernel,
    )
    done = subprocess.run([sys.executable, "-c", head + body], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, log.read_text().splitlines() if log.exists() else []


@pytest.mark.programs
def test_writes_through_links_become_copies(tmp_path, project):
    body = """
open("data/big.bin", "r+b").write(b"changed")
open("data/deep/small.txt", "a").write(" and more")
os.remove("data/deep/7.txt")
os.rename("data/deep/8.txt", "data/deep/moved.txt")
os.makedirs("data/deep/new/folder", exist_ok=True)
print(open("data/deep/small.txt").read(), os.path.exists("data/deep/7.txt"), os.path.getsize("data/big.bin"))
"""
    before = working_copy.snapshot((project,))
    out, refused = sandboxed(copy_at(tmp_path, project), project, body)
    assert out.split() == ["kept", "and", "more", "False", str(POLICY.copy_file_bytes + 1)]
    assert refused == []
    assert working_copy.changed(before, working_copy.snapshot((project,))) == ()


@pytest.mark.programs
def test_writes_outside_raise_and_are_listed_once(tmp_path, project):
    body = f"""
import shutil, sqlite3
def tried(action):
    try:
        action()
    except PermissionError:
        print("refused")
victim = {str(project / "train.py")!r}
for _ in range(2):
    tried(lambda: open(victim, "w"))
tried(lambda: os.remove(victim))
tried(lambda: os.rename(victim, "here.py"))
tried(lambda: os.mkdir({str(project / "made")!r}))
tried(lambda: os.truncate(victim, 0))
tried(lambda: sqlite3.connect({str(project / "x.db")!r}))
tried(lambda: shutil.rmtree({str(project / "pkg")!r}))
os.makedirs({str(project / "pkg")!r}, exist_ok=True)
open(victim).read()
open("/dev/null", "w").write("x")
"""
    before = working_copy.snapshot((project,))
    out, refused = sandboxed(copy_at(tmp_path, project), project, body)
    assert out.split() == ["refused"] * 8
    assert str(project / "train.py") in refused
    assert str(project / "pkg" / "model.py") in refused
    assert len(refused) == len(set(refused)) == 4
    assert working_copy.changed(before, working_copy.snapshot((project,))) == ()


@pytest.mark.programs
@pytest.mark.skipif(not landlock(), reason="this kernel has no Landlock")
def test_child_programs_are_stopped_by_the_kernel(tmp_path, project):
    target = project / "from_shell.txt"
    body = f"""
import subprocess
print(subprocess.run(["sh", "-c", "echo x > {target}"], stderr=subprocess.DEVNULL).returncode != 0)
print(subprocess.run(["sh", "-c", "echo x > here.txt && mkdir d && mv here.txt d/"]).returncode)
"""
    out, _ = sandboxed(copy_at(tmp_path, project), project, body, kernel=True)
    assert out.split() == ["True", "0"]
    assert not target.exists()


@pytest.mark.programs
def test_early_bootstrap_confines_writes_from_the_first_line_and_runs_the_users_own_sitecustomize(tmp_path, project):
    copy = copy_at(tmp_path, project)
    working_copy.build(copy, None)
    early, own = copy.scratch / "run" / "early", tmp_path / "own"
    early.mkdir()
    own.mkdir()
    config = {
        "root": PACKAGE,
        "out": str(copy.out),
        "scratch": str(copy.scratch),
        "tree": str(copy.tree),
        "project": str(project),
        "seed": 5,
    }
    (early / "config.json").write_text(json.dumps(config))
    (early / "sitecustomize.py").write_text(processes.EARLY.read_text())
    (own / "sitecustomize.py").write_text("import builtins; builtins.user_was_here = True")
    (project / "editable").mkdir()
    code = f"""
import random, sys
print(user_was_here, random.random(), [p for p in sys.path if "editable" in p][0])
open({str(project / "x")!r}, "w")
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(early), str(own), str(project / "editable")]))
    run = [sys.executable, "-c", code]
    first = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    second = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert first.stdout == second.stdout
    assert first.stdout.startswith("True ")
    assert first.stdout.split()[2] == str(copy.path_of(project / "editable"))
    assert "PermissionError" in first.stderr
    assert not (project / "x").exists()


def test_mirror_of_a_path():
    assert overlay.mirrored("/a/b", "/s/tree") == "/s/tree/a/b"
    assert overlay.below("/a/b", "/a")
    assert not overlay.below("/ab", "/a")
