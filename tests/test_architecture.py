"""The shape of the package: who may import what, who may print, how long things may be."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tracelens"
MODULES = sorted(PACKAGE.rglob("*.py"))
WHOLE = {
    "runtime.py": "it is copied beside the user's script, which wants one file",
}
"""Modules that may be longer, each with its reason."""
LONGEST_MODULE, LONGEST_FUNCTION, SHORT_FUNCTION = 400, 50, 30
INSIDE_THE_JOB = ("launch", "capture", "verify", "runtime.py")
"""Code that runs in the user's process; there torch is at hand, elsewhere it may be missing."""
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked by the test")
sys.meta_path.insert(0, Block())
from tracelens.cli import main
sys.exit(main({argv!r}))
"""


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


FACES = ("cli/", "__main__", "notebook", "capture/inside", "capture/machine")
"""What people meet: the command line, a notebook's magic, the block in a script; and a child whose answer is a line."""


def test_only_the_command_line_prints_or_exits() -> None:
    offenders = []
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "sys.exit", "exit", "quit") and not name_of(path).startswith(FACES):
                offenders.append(f"{name_of(path)}:{node.lineno} {called}")  # type: ignore[attr-defined]
    assert offenders == []


def test_torch_is_imported_only_inside_the_users_process() -> None:
    offenders = [
        name_of(path)
        for path in MODULES
        if not name_of(path).startswith(INSIDE_THE_JOB)
        and any(name.partition(".")[0] == "torch" for name in imported(tree_of(path)))
    ]
    assert offenders == []


def test_only_the_patcher_reads_source_as_a_tree() -> None:
    offenders = [
        name_of(path)
        for path in MODULES
        if not name_of(path).startswith("patch/")
        and any(name.partition(".")[0] == "libcst" for name in imported(tree_of(path)))
    ]
    assert offenders == []


def test_help_answers_at_once() -> None:
    best = min(_seconds([sys.executable, "-m", "tracelens", "--help"]) for _ in range(3))
    assert best < 0.3


def _seconds(command: list[str]) -> float:
    """How long a command takes where the kernel tells it: without the time it stood in line for a processor."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.perf_counter() - started
        waited = Path(f"/proc/{process.pid}/schedstat")
        if waited.exists():
            seconds -= int(waited.read_text().split()[1]) / 1e9
    assert process.returncode == 0
    return seconds


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, tracelens.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    heavy = {"pandas", "numpy", "torch", "libcst", "jinja2", "rich", "yaml", "hta"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.parametrize("command", ["analyze", "recommend"])
def test_analysis_works_without_torch_and_hta(command: str, tmp_path: Path) -> None:
    from builders import Machine

    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.launch("gemm", kernel_us=300)
            machine.synchronize()
    trace = machine.events.write(tmp_path / "t.json")
    code = BLOCKED.format(blocked={"torch", "hta"}, argv=[command, str(trace), "--format", "json"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert text.count("\n") <= LONGEST_MODULE or name_of(path) in WHOLE
    assert ast.get_docstring(tree) or not text.strip(), "no module docstring"
    assert [(name, size) for name, size in functions(tree) if size > LONGEST_FUNCTION] == []


def test_nine_functions_of_ten_are_short() -> None:
    sizes = sorted(size for path in MODULES for _, size in functions(tree_of(path)))
    assert sizes[int(len(sizes) * 0.9)] <= SHORT_FUNCTION


def test_no_file_names_a_machine() -> None:
    leaks = tuple(f"{folder}/" for folder in (ROOT, Path.home()) if folder != Path("/"))
    offenders = [
        f"{path.relative_to(ROOT)}"
        for pattern in ("tracelens/**/*", "rules/**/*", "docs/*", "tests/*.py")
        for path in ROOT.glob(pattern)
        if path.is_file() and path.suffix in {".py", ".md", ".yaml", ".html", ".css", ".js", ".json"}
        and any(leak in path.read_text(encoding="utf-8") for leak in leaks)
    ]  # fmt: skip
    assert offenders == []
