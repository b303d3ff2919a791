"""Does every wait get the line that caused it? Scripts that mark their own statements, recorded as any other.

    python tests/bench/attribution_truth.py -o OUT.json [--sources DIR] [--parallel 4] [--only NAME,…]

In: the sample cases and, with DIR, the public scripts of tests/dynamic/manifest.json (DIR/<owner>+<name>/<path>). Out:
per script, of the time in which the host was blocked by the GPU: the share whose line is right, wrong, unknown.

The truth: the script's source is rewritten in memory so that each statement, each condition and each loop's iterable
runs inside `record_function("truth#line-end")`; line numbers, file name and frames stay as they were. The innermost
such mark around a wait in the trace is the statement that caused it; of a wait on another thread (autograd's), the
mark on the training thread at that time. TraceLens never looks at these marks.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
SHIM = ROOT / "tests" / "dynamic" / "shim"
sys.path.insert(0, str(ROOT))

SAMPLES: dict[str, list[str]] = {
    "sync_every_batch": ["--batch-size", "16"],  # makes its images item by item, each statement of it marked
    "gpu_bound": [],
    "pageable_copies": [],
    "host_bound": [],
    "loader_bound": [],
}
"""Name and arguments."""
PREFIX = "truth#"
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Assert, ast.Delete, ast.Raise)


def main() -> None:
    if sys.argv[1:2] == ["exec"]:
        del sys.argv[:2]
        _execute(sys.argv[0])
        return
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(_one(json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--sources", type=Path, help="folder with the public scripts")
    parser.add_argument("--only", default="")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, per script")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no script is begun")
    words = parser.parse_args()
    rows = [row for row in _rows(words.sources) if not words.only or row["name"] in words.only.split(",")]
    found: list[dict[str, Any]] = []
    end = time.monotonic() + words.budget

    def work(row: dict[str, Any]) -> None:
        if time.monotonic() > end:
            found.append({"name": row["name"], "failed": "out of budget"})
        else:
            found.append(_child(row, words.seconds))
        document = {"rows": sorted(found, key=lambda one: one["name"]), "total": _total(found)}
        words.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        shown = {key: value for key, value in found[-1].items() if key != "places"}
        print(json.dumps(shown), file=sys.stderr, flush=True)

    with ThreadPoolExecutor(words.parallel) as pool:
        list(pool.map(work, rows))
    print(json.dumps(_total(found)), file=sys.stderr)


def _rows(sources: Path | None) -> list[dict[str, Any]]:
    rows = [
        {"name": name, "script": str(ROOT / "sample_traces" / name / "train.py"), "arguments": arguments, "images": 0}
        for name, arguments in SAMPLES.items()
    ]
    if sources is not None:
        for row in json.loads((ROOT / "tests" / "dynamic" / "manifest.json").read_text(encoding="utf-8"))["rows"]:
            if "path" not in row:
                continue
            script = sources.resolve() / row["repository"].replace("/", "+") / row["path"]
            rows.append({"name": row["name"], "script": str(script), "arguments": row.get("arguments", []),
                         "images": row.get("images", 2560), "folders": row.get("folders", []),
                         "path": row["path"] if row.get("beside") else None})  # fmt: skip
    return rows


def _child(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "one", json.dumps(row)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return {"name": row["name"], "failed": f"longer than {seconds:g} s"}
    except (ValueError, IndexError):
        return {"name": row["name"], "failed": done.stderr[-500:]}


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {key: sum(row.get(key, 0) for row in rows) for key in ("waits", "waited_ms", "right_ms", "wrong_ms")}
    share = sums["right_ms"] / sums["waited_ms"] if sums["waited_ms"] else None
    return {**sums, "right_share": share, "scripts": sum("waits" in row for row in rows)}


# ------------------------------------------------------------------------------------------------------ one recording


def _one(row: dict[str, Any]) -> dict[str, Any]:
    from tracelens.capture.supervisor.recording import ProfileOptions, profile
    from tracelens.capture.window_plan import WindowPlan

    # The public scripts read made-up images: the shim's sitecustomize puts them in torchvision's place.
    os.environ["TRACELENS_SYNTHETIC_IMAGES"] = str(row["images"] or 2560)
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(SHIM), os.environ.get("PYTHONPATH", "")) if part)
    os.environ["MPLBACKEND"] = "agg"
    os.environ.setdefault("OMP_NUM_THREADS", "2")  # several scripts at once share the cores
    with tempfile.TemporaryDirectory() as work:
        place = _place(row, Path(work))
        for folder in row.get("folders", []):
            (place / folder).mkdir(parents=True, exist_ok=True)
        outcome = profile(
            ProfileOptions(
                kind="command",
                words=(sys.executable, __file__, "exec", row["script"], *row["arguments"]),
                out=Path(work) / "run",
                cwd=place,
                plan=WindowPlan(unprofiled_seconds=0.3, unprofiled_most_seconds=5.0),
                stop_after_window=True,
                monitor=False,
            )
        )
        if not outcome.ranks:
            return {"name": row["name"], "failed": outcome.reason, "status": outcome.status}
        return {"name": row["name"], "status": outcome.status, "notes": outcome.notes, **_judge(outcome.folder)}


def _place(row: dict[str, Any], work: Path) -> Path:
    """The folder to run in: one that looks like the script's own, where it imports from folders beside it."""
    if row.get("path") is None:
        return work
    source = Path(row["script"])
    repository = source.parents[len(Path(row["path"]).parts) - 1]
    shutil.copytree(repository, work / "repository")
    return (work / "repository" / row["path"]).parent


def _judge(folder: Path) -> dict[str, Any]:
    """Compare the lines of all waits of the clean steps with the marks around them."""
    from tracelens import run
    from tracelens.trace import chrome, timeline
    from tracelens.trace.tables import TraceRows

    recording = run.read(folder).recordings[0]
    built = timeline.build(chrome.load(recording.trace_path), recording)
    rows = TraceRows(built.trace)
    marks = rows.named(rows.in_categories(("user_annotation",)), lambda name: name.startswith(PREFIX))
    truths = _truths(built, rows, marks)
    waits, steps = built.syncs(), built.steps()
    clean = set(steps.index[~steps["attributed"]])
    sums = {"waits": 0, "waited_ms": 0.0, "right_ms": 0.0, "wrong_ms": 0.0, "unknown_ms": 0.0}
    places: dict[str, float] = {}
    for at, wait in enumerate(waits.itertuples()):
        if wait.step not in clean or wait.window_edge or truths[at] is None:
            continue
        first, last = truths[at]
        judged = "unknown" if wait.line is None else "right" if first <= wait.line <= last else "wrong"
        waited = wait.wait_ns / 1e6
        sums["waits"] += 1
        sums["waited_ms"] += waited
        sums[f"{judged}_ms"] += waited
        if judged != "right":
            key = f"{judged}: {wait.kind} {wait.api} at {first}, said {wait.line} by {wait.location_source}"
            places[key] = places.get(key, 0.0) + waited
    worst = dict(sorted(places.items(), key=lambda entry: -entry[1])[:12])
    uses = [use for use in recording.events if use.call in ("record", "wait")]
    return {**{key: round(value, 3) for key, value in sums.items()}, "places": worst, "event_uses": len(uses),
            "event_streams": sorted({use.stream for use in uses if use.stream is not None}),
            "streams": sorted({int(s) for s in built.ops_streams} if hasattr(built, "ops_streams") else
                              {int(s) for s in built.tables.ops["stream"]})}  # fmt: skip


def _truths(built: Any, rows: Any, marks: Any) -> list[tuple[int, int] | None]:
    import numpy as np

    from tracelens.trace.nesting import NestedSpans

    waits = built.syncs()
    middle = ((waits["start_ns"] + waits["end_ns"]) // 2).to_numpy()
    main = marks[rows.column("tid")[marks] == built.main_thread]
    starts, ends = rows.column("start_ns")[main], rows.column("end_ns")[main]
    found = NestedSpans(starts, ends).innermost(middle) if len(main) else np.full(len(waits), -1)
    truths: list[tuple[int, int] | None] = []
    for position in found:
        if position < 0:
            truths.append(None)
            continue
        name = built.trace.names[rows.column("name")[main[position]]]
        first, last = name.removeprefix(PREFIX).split("-")
        truths.append((int(first), int(last)))
    return truths


# ------------------------------------------------------------------------------------------ a script that marks itself


def _execute(script: str) -> None:
    """Run a script as Python would, with its statements marked."""
    sys.path[0] = str(Path(script).resolve().parent)
    code = _marked(Path(script).read_text(encoding="utf-8"), script)
    module = ModuleType("__main__")
    vars(module).update(__file__=script, _truth_mark=_mark, _truth_each=_EACH["each"])
    sys.modules["_truth_runner"], sys.modules["__main__"] = sys.modules["__main__"], module
    exec(code, vars(module))


def _mark(lines: str) -> Any:
    import torch

    return torch.autograd.profiler.record_function(PREFIX + lines)


_EACH: dict[str, Any] = {"_mark": _mark}
exec(  # a generator whose frame is no file: whoever looks for the user's innermost frame must not stop at it
    compile(
        "def each(lines, iterable):\n"
        "    iterator = iter(iterable)\n"
        "    while True:\n"
        "        with _mark(lines):\n"
        "            try: item = next(iterator)\n"
        "            except StopIteration: return\n"
        "        yield item\n",
        "<truth>",
        "exec",
    ),
    _EACH,
)


def _marked(source: str, path: str) -> CodeType:
    tree = _Marker().visit(ast.parse(source, path))
    return compile(ast.fix_missing_locations(tree), path, "exec")


class _Marker(ast.NodeTransformer):
    """Statements inside functions and loops get a `with _truth_mark("first-last"):` around them."""

    def __init__(self) -> None:
        self._depth = 0

    def visit(self, node: ast.AST) -> Any:
        inside = isinstance(node, (ast.FunctionDef, ast.For, ast.While))
        self._depth += inside
        try:
            if isinstance(node, SIMPLE):
                return self._wrapped(node) if self._depth and not _is_text(node) else node
            return super().visit(node)
        finally:
            self._depth -= inside

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if not self._depth:
            return node
        test = ast.copy_location(ast.Assign([ast.Name("_truth_test", ast.Store())], node.test), node.test)
        node.test = ast.copy_location(ast.Name("_truth_test", ast.Load()), node.test)
        return [self._wrapped(test), node]

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        lines = ast.Constant(f"{node.iter.lineno}-{node.iter.end_lineno}")
        each = ast.Call(ast.Name("_truth_each", ast.Load()), [lines, node.iter], [])
        node.iter = ast.copy_location(each, node.iter)
        return node

    @staticmethod
    def _wrapped(node: ast.stmt) -> ast.With:
        lines = ast.Constant(f"{node.lineno}-{node.end_lineno}")
        mark = ast.Call(ast.Name("_truth_mark", ast.Load()), [lines], [])
        return ast.copy_location(ast.With([ast.withitem(mark)], [node]), node)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


if __name__ == "__main__":
    main()
