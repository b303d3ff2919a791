"""The shape of the package: who may import what, who may print, how long things may be."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.sources import MODULES, PACKAGE, TEST_MODULES, TESTS, name_of, nodes_of, tree_of

WHOLE = {
    "runtime.py": "it is copied beside the user's script, which wants one file",
}
"""Modules that may be longer, each with its reason."""
LONGEST_MODULE, LONGEST_FUNCTION, SHORT_FUNCTION = 400, 50, 30
INSIDE = "inside"
"""Folders of this name hold what runs in the user's process, where torch is at hand. All other modules run where it may
be missing: in the parent of a training, or on a laptop that only reads Run folders."""
TORCH_ELSEWHERE = {
    "runtime.py": "patched scripts import it",
    "capture/calibration_child/micro_benchmarks.py": "it runs in a child process of its own",
}
ENTRANCES = {
    "__init__.py": "`tracelens.profile()` is called in the user's process",
    "notebook.py": "`%%tracelens` records the notebook's own process",
}
"""Modules outside that import modules inside, each with its reason."""
INJECTED = ("launch/bootstrap/",)
"""Copied into a folder on PYTHONPATH and run by Python's own start, never imported."""
BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked by the test")
sys.meta_path.insert(0, Block())
from tracelens.cli import main
for words in {commands!r}:
    if status := main(words):
        sys.exit(f"{{words[0]}} ended with {{status}}")
"""


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and called(node).endswith(("import_module", "__import__")):
            yield from (value.value for value in node.args[:1] if isinstance(value, ast.Constant))


def called(node: ast.Call) -> str:
    """`name` or `owner.name` of what is called; empty where neither is written out."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return f"{function.value.id}.{function.attr}" if isinstance(function.value, ast.Name) else f".{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def full_names(node: ast.AST) -> Iterator[str]:
    """The modules, and names of modules, that an import statement may bring in."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.programs
def test_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


FACES = ("cli/", "__main__", "notebook", "capture/inside/profile_api", "capture/calibration_child/")
"""What people meet: the command line, a notebook's magic, the block in a script; and a child whose answer is a line."""


def test_only_the_command_line_prints_or_exits() -> None:
    offenders = []
    for path in MODULES:
        for node in nodes_of(path):
            name = called(node) if isinstance(node, ast.Call) else ""
            if name in ("print", "sys.exit", "exit", "quit") and not name_of(path).startswith(FACES):
                offenders.append(f"{name_of(path)}:{node.lineno} {name}")  # type: ignore[attr-defined]
    assert offenders == []


def inside(name: str) -> bool:
    """Whether a module, by path or by dotted name, runs in the user's process."""
    return INSIDE in name.replace(".", "/").split("/")


def crossings(name: str, tree: ast.AST) -> set[str]:
    """Imports of torch, or of a module in an `inside` folder, by a module that runs outside the user's process."""
    if inside(name):
        return set()
    torch = {one for one in imported(tree) if one.partition(".")[0] == "torch" and name not in TORCH_ELSEWHERE}
    return torch | {
        one for one in imported(tree) if one.startswith("tracelens.") and inside(one) and name not in ENTRANCES
    }


def test_outside_the_users_process_nothing_imports_torch_or_what_runs_inside() -> None:
    assert {name_of(path): found for path in MODULES if (found := crossings(name_of(path), tree_of(path)))} == {}
    assert [name for name in (*TORCH_ELSEWHERE, *ENTRANCES) if not (PACKAGE / name).exists()] == []


@pytest.mark.parametrize(
    "line",
    [
        "import torch",
        "def late():\n    from torch.utils.data import DataLoader",
        "import_module('torch.jit')",
        "from tracelens.capture import inside",
        "from tracelens.capture.inside import agent",
        "import tracelens.launch.inside.hooks",
    ],
)
@pytest.mark.parametrize("package", ["capture", "launch", "verify"])
def test_a_module_of_the_parent_that_reaches_inside_is_named(package: str, line: str) -> None:
    assert crossings(f"{package}/supervisor/example.py", ast.parse(line))
    assert not crossings(f"{package}/{INSIDE}/example.py", ast.parse(line))


@pytest.mark.programs
def test_everything_outside_the_users_process_loads_without_torch() -> None:
    """The same by running it: what a third party's package imports on the way counts as well."""
    outside = [
        f"tracelens.{name.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")
        for name in map(name_of, MODULES)
        if not inside(name) and name not in TORCH_ELSEWHERE and not name.startswith((*INJECTED, "__main__"))
    ]
    code = f"""
import importlib, sys
sys.modules["torch"] = None
for name in {outside!r}:
    importlib.import_module(name)
print(*sorted(name for name in sys.modules if name.startswith("tracelens.") and "{INSIDE}" in name.split(".")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == []


def test_the_map_of_what_records_names_every_module() -> None:
    """So many modules in one folder need a map, which is its docstring."""
    folder = PACKAGE / "capture" / INSIDE
    named = ast.get_docstring(tree_of(folder / "__init__.py")) or ""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", named)) == modules


def test_only_the_patcher_reads_source_as_a_tree() -> None:
    offenders = [
        name_of(path)
        for path in MODULES
        if not name_of(path).startswith("patch/")
        and any(name.partition(".")[0] == "libcst" for name in imported(tree_of(path)))
    ]
    assert offenders == []


@pytest.mark.programs
def test_help_answers_at_once() -> None:
    """By the processor's time of the quickest of three: another program beside it is no matter of ours."""
    best = min(_seconds([sys.executable, "-m", "tracelens", "--help"]) for _ in range(3))
    assert best < 0.3


def _seconds(command: list[str]) -> float:
    """How long a command keeps a processor busy."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


@pytest.mark.programs
def test_help_imports_nothing_heavy() -> None:
    code = "import sys, tracelens.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    heavy = {"pandas", "numpy", "torch", "libcst", "jinja2", "rich", "yaml", "hta"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.programs
def test_analysis_works_without_torch_and_hta(tmp_path: Path) -> None:
    from tests.support.builders import Machine

    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.launch("gemm", kernel_us=300)
            machine.synchronize()
    trace = machine.events.write(tmp_path / "t.json")
    commands = [[command, str(trace), "--format", "json"] for command in ("analyze", "recommend")]
    code = BLOCKED.format(blocked={"torch", "hta"}, commands=commands)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.programs
def test_what_people_wait_for_imports_neither_pandas_nor_torch(tmp_path: Path) -> None:
    """Importing pandas takes as long as analyzing a small recording; it is for those who ask for DataFrames.

    One process for all: what is blocked stays so, whatever was imported before.
    """
    run = str(shutil.copytree(ROOT / "sample_traces" / "sync_every_batch", tmp_path / "sample") / "run")
    commands = [["recommend", run], ["report", run], ["check", run, "--max-exposed-ms", "1000"], ["analyze", run]]
    code = BLOCKED.format(blocked={"torch", "pandas"}, commands=commands)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "blocked" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = tree_of(path)
    assert text.count("\n") <= LONGEST_MODULE or name_of(path) in WHOLE
    assert ast.get_docstring(tree) or not text.strip(), "no module docstring"
    assert [(name, size) for name, size in functions(tree) if size > LONGEST_FUNCTION] == []


def test_nine_functions_of_ten_are_short() -> None:
    sizes = sorted(size for path in MODULES for _, size in functions(tree_of(path)))
    assert sizes[int(len(sizes) * 0.9)] <= SHORT_FUNCTION


def test_no_test_module_imports_another() -> None:
    """What two of them need is in `tests/support`, so that each can be moved, split and run by itself."""
    imports = {path: [name for node in nodes_of(path) for name in full_names(node)] for path in TEST_MODULES}
    tests = {
        path.relative_to(TESTS).as_posix(): named
        for path, names in imports.items()
        if (named := [name for name in names if name.rpartition(".")[2].startswith("test_") or ".test_" in name])
    }
    assert tests == {}


def test_no_file_names_a_machine() -> None:
    leaks = tuple(f"{folder}/" for folder in (ROOT, Path.home()) if folder != Path("/"))
    offenders = [
        f"{path.relative_to(ROOT)}"
        for pattern in ("tracelens/**/*", "rules/**/*", "docs/*", "tests/**/*")
        for path in ROOT.glob(pattern)
        if path.is_file() and path.suffix in {".py", ".md", ".yaml", ".html", ".css", ".js", ".json"}
        and any(leak in path.read_text(encoding="utf-8") for leak in leaks)
    ]  # fmt: skip
    assert offenders == []
