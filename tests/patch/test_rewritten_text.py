"""The text of a patched file: bytes outside of the hunks, encodings, comments, imports, names, and a stable result."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest import mock

import pytest

from tests.support.patching import HELPED, SUM, assert_same, defer, patch_of, patched_again, patched_text, script
from tracelens.errors import UsageError
from tracelens.model import Edit
from tracelens.patch.code.source import apply_splices, parse
from tracelens.patch.files import rewrite_checks
from tracelens.patch.recipes import PatchOptions, make

# ------------------------------------------------------------------------------------------------ formatting


VARIANTS = {
    "as it is": lambda text: text,
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "two spaces": lambda text: text.replace("    ", "  "),
    "tabs": lambda text: text.replace("    ", "\t"),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "no newline after the loop": lambda text: text[: text.index("    return total")].rstrip("\n"),
    "an empty line and a blank at the end": lambda text: text + "\n ",
    "byte order mark": lambda text: "\ufeff" + text,
    "non-ASCII": lambda text: text.replace("every fourth line", "jede vierte Zeile: größer"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_lines_outside_of_the_hunks_keep_their_bytes(name: str, tmp_path: Path) -> None:
    text = VARIANTS[name](script(SUM))
    patch = patch_of(tmp_path, text, defer(text.replace("\r\n", "\n").lstrip("\ufeff")))
    before, after = text.encode(), patched_text(patch).encode()
    assert patch.declined == ()
    if "\r\n" in text:
        assert after.count(b"\n") == after.count(b"\r\n")
    touched = [line for line in before.splitlines(keepends=True) if line not in after.splitlines(keepends=True)]
    assert all(b"for step" in line or b"total" in line or b"step % 4" in line for line in touched)
    assert before.endswith((b"\n", b"\r\n")) == after.endswith((b"\n", b"\r\n"))
    assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    assert rewrite_checks.rewrite_mistake(parse(tmp_path / "train.py", "train.py", before), after) is None


@pytest.mark.parametrize("name", VARIANTS)
def test_git_accepts_the_diff_and_makes_the_same_bytes(name: str, tmp_path: Path) -> None:
    text = VARIANTS[name](script(SUM))
    folder = tmp_path / "a project"
    folder.mkdir()
    patch = patch_of(folder, text, defer(text.replace("\r\n", "\n").lstrip("\ufeff")))
    (tmp_path / "patch").write_bytes(patch.diff.encode("utf-8", errors="surrogateescape"))
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", str(tmp_path / "patch")]
    subprocess.run(
        command, cwd=folder, check=True, env={"GIT_CEILING_DIRECTORIES": str(tmp_path), "PATH": "/usr/bin:/bin"}
    )
    for one in patch.files:
        assert one.path.read_bytes() == one.after


@pytest.mark.parametrize("end", ["\n ", "\n\n  \n\t", "\r\n\r\n  ", "\n\n\f", " ", ""])
def test_a_file_that_ends_in_blanks_comes_back_to_the_byte(end: str, tmp_path: Path) -> None:
    data = f"def one():\n    return 1\n{end}".encode()
    assert apply_splices(parse(tmp_path / "a.py", "a.py", data), ()) == data


def test_comments_move_with_their_statements(tmp_path: Path) -> None:
    text = script(SUM)
    after = patched_text(patch_of(tmp_path, text))
    for comment in ("# fires", "# every fourth line", "# so far"):
        assert after.count(comment) == 1


def test_latin_1_stays_latin_1(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n" + script(SUM).replace("so far", "größer")
    path = tmp_path / "train.py"
    path.write_bytes(text.encode("latin-1"))
    patch = make(tmp_path, path, defer(text), (), PatchOptions())
    after = next(one.after for one in patch.files if one.path == path)
    assert "größer".encode("latin-1") in after


# -------------------------------------------------------------------------------------------------- stability


@pytest.mark.parametrize("body", [SUM, HELPED])
def test_a_second_run_over_the_patched_file_changes_nothing(body: str, tmp_path: Path) -> None:
    text = script(body)
    first = patch_of(tmp_path, text, (Edit("defer-read", interval=10),))
    assert not first.empty
    second = patched_again(tmp_path, first, (Edit("defer-read", interval=10),))
    assert second.empty
    assert second.diff == ""


def test_an_unstable_rewrite_is_given_up(tmp_path: Path) -> None:
    text = script(SUM)
    with mock.patch(
        "tracelens.patch.files.rewrite_checks.rewrite_mistake", return_value="the patched file does not compile: line 3"
    ):
        patch = patch_of(tmp_path, text)
    assert patch.empty
    assert patch.hunks == ()
    assert "left as it is: the patched file does not compile" in patch.declined[0].obstacle


def test_a_lost_comment_or_a_syntax_error_is_noticed(tmp_path: Path) -> None:
    source = parse(tmp_path / "a.py", "a.py", b"x = 1  # keep me\n")
    assert rewrite_checks.rewrite_mistake(source, b"x = 1  # keep me\n") is None
    assert "comment" in (rewrite_checks.rewrite_mistake(source, b"x = 1\n") or "")
    assert "parse" in (rewrite_checks.rewrite_mistake(source, b"x = = 1  # keep me\n") or "")
    assert "compile" in (rewrite_checks.rewrite_mistake(source, b"return  # keep me\n") or "")


# ---------------------------------------------------------------------------------------- the vendored runtime


def test_the_runtime_is_vendored_once_and_renewed_when_it_is_old(tmp_path: Path) -> None:
    text = script(HELPED)
    runtime = tmp_path / "tracelens_runtime.py"
    made = {one.path.name: one for one in patch_of(tmp_path, text).files}["tracelens_runtime.py"]
    assert made.before is None
    runtime.write_bytes(made.after)
    assert [one.path.name for one in patch_of(tmp_path, text).files] == ["train.py"]
    runtime.write_bytes(b"# tracelens runtime 6: an earlier build\n")
    renewed = {one.path.name: one for one in patch_of(tmp_path, text).files}["tracelens_runtime.py"]
    assert (renewed.before, renewed.after) == (b"# tracelens runtime 6: an earlier build\n", made.after)
    runtime.write_bytes(b"print('mine')\n")
    with pytest.raises(UsageError, match="not a file of TraceLens"):
        patch_of(tmp_path, text)


def test_a_package_of_the_helpers_name_is_nobody_elses(tmp_path: Path) -> None:
    """Python would find it before the file."""
    (tmp_path / "tracelens_runtime").mkdir()
    (tmp_path / "tracelens_runtime/__init__.py").write_text("")
    with pytest.raises(UsageError, match="not a file of TraceLens"):
        patch_of(tmp_path, script(HELPED))


def test_imports_go_below_the_docstring_and_future_imports(tmp_path: Path) -> None:
    text = '#!/usr/bin/env python\n"""Train."""\nfrom __future__ import annotations\n\n' + script(HELPED)
    after = patched_text(patch_of(tmp_path, text))
    assert after.index("import tracelens_runtime") > after.index("from torch import nn")
    text = '#!/usr/bin/env python\n"""Train."""\nfrom __future__ import annotations\nimport os\nx = 1\n' + script(
        HELPED
    )
    after = patched_text(patch_of(tmp_path, text))
    assert after.splitlines()[7] == "import tracelens_runtime"  # below the script's own import of torch


ABOVE_TORCH = {
    "a variable of the environment": "import os\nos.environ['OMP_NUM_THREADS'] = '1'\n",
    "in a try": "import os\nos.environ['A'] = ''\ntry:\n    import torch\nexcept ImportError:\n    raise\nx = 1\n",
}


@pytest.mark.parametrize("name", ABOVE_TORCH)
def test_the_runtime_is_not_imported_before_torch(name: str, tmp_path: Path) -> None:
    text = ABOVE_TORCH[name] + script(HELPED)
    lines = patched_text(patch_of(tmp_path, text)).splitlines()
    above = lines[: lines.index("import tracelens_runtime")]
    assert any(line.strip() == "import torch" for line in above)
    assert_same(tmp_path, text, patch_of(tmp_path, text))


def test_new_names_avoid_the_names_of_the_file(tmp_path: Path) -> None:
    names = "ahead = log_loss = loss_value = record_loss = pending_losses = 7\n"
    for body in (SUM, HELPED):
        text = names + script(body) + "print(ahead, log_loss, loss_value, record_loss, pending_losses)\n"
        assert_same(tmp_path, text, patch_of(tmp_path, text))


METHODS = {
    "of a list": (
        "seen.append(out.detach().cpu().numpy())  # fires",
        "ahead.defer(seen.append, ahead.numpy(out))  # fires",
    ),
    "with constants": (
        "meter.add('out', out.detach().cpu().numpy(), 2)  # fires",
        "ahead.defer(meter.add, 'out', ahead.numpy(out), 2)  # fires",
    ),
}
_METER = """
class Meter:
    def __init__(self):
        self.rows = []
    def add(self, name, value, times):
        self.rows.append((name, float(value.sum()) * times))
meter, seen = Meter(), []
"""


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_called_waits_by_itself(name: str, tmp_path: Path) -> None:
    line, wanted = METHODS[name]
    text = script(f"{_METER}for x, y in loader:\n    STEP\n    out = model(x)\n    {line}\nprint(seen, meter.rows)\n")
    patch = patch_of(tmp_path, text)
    assert wanted in patched_text(patch)
    assert patched_text(patch).count("def ") == text.count("def ")
    assert_same(tmp_path, text, patch)


def test_a_method_of_an_object_that_the_loop_makes_anew_waits_in_a_function(tmp_path: Path) -> None:
    line = "seen.append(loss.detach().cpu().numpy())  # fires"
    again = "if i % 5 == 4:\n        print(len(seen))\n        seen = []"
    text = script(f"seen = []\nfor i, (x, y) in enumerate(loader):\n    STEP\n    {line}\n    {again}\nprint(seen)\n")
    patch = patch_of(tmp_path, text)
    assert "defer(seen.append" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("print(i, loss.item())  # fires", "log_loss"),
        ("total += loss.item()  # fires", "record_loss"),
        ("print('{} of {}: {}'.format(i, len(loader), loss.item()))  # fires", "log_loss"),
        ("seen.append(2 * loss.detach().cpu().numpy())  # fires", "record_loss"),
        ("total += (loss * 2).item()  # fires", "record_loss"),
    ],
)
def test_a_deferred_function_is_named_after_what_it_does_and_with_what(line: str, name: str, tmp_path: Path) -> None:
    text = script(
        f"total, seen = 0.0, []\nfor i, (x, y) in enumerate(loader):\n    STEP\n    {line}\nprint(total, seen)\n"
    )
    patch = patch_of(tmp_path, text, defer(text, interval=1))
    assert f"def {name}(" in patched_text(patch)


@pytest.mark.parametrize("first_line", [b"# tracelens runtime 5: copied beside\n", b"# tracelens runtime of old\n"])
def test_the_runtime_of_an_earlier_version_is_not_replaced_under_an_earlier_patch(
    first_line: bytes, tmp_path: Path
) -> None:
    (tmp_path / "tracelens_runtime.py").write_bytes(first_line)
    with pytest.raises(UsageError, match="belongs to a patch of an earlier TraceLens"):
        patch_of(tmp_path, script(HELPED))


@pytest.mark.parametrize("method", ["over", "iterate"])
def test_a_loop_that_any_version_has_patched_is_left_alone(method: str, tmp_path: Path) -> None:
    text = script(SUM).replace("in enumerate(loader)", f"in ahead.{method}(enumerate(loader))")
    patch = patch_of(tmp_path, "import tracelens_runtime\n" + text)
    assert [one.obstacle for one in patch.declined] == ["train.py:14: the loop is patched already"]
