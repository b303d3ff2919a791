"""Whether two versions of TraceLens say and write the same: a check for changes that must not change behaviour.

    python tests/equivalence.py record OUT [--traces DIR] [--corpus DIR]    in the root of each version
    python tests/equivalence.py compare BEFORE AFTER [--renamed OLD=NEW …] [--lines N]

`record` writes one file per answer below OUT: the JSON of analyze and recommend for every trace under DIR and every
sample Run, the patch of every scheme of the samples, and the patch of every training script of a corpus (what
`make corpus` writes with --diffs). `compare` prints what differs and ends with 1 if anything does. `--renamed` names
what was renamed on purpose, such as `.later(=.defer(` for a helper that patched scripts call; `--added` a new key of
the JSON.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "traces"
SCHEMES = ("event-sync", "interval-sync", "event-interval", "more-streams", "full-pipeline", "pinned-copy")
RUNTIME_FILE = "tracelens_runtime.py"
CHANGED_ANYWAY = re.compile(r'^\s*"(created|written_at|version)":|^index [0-9a-f]+\.\.[0-9a-f]+')
"""Lines that say when or by which version something was written."""

ADDED_FUNCTION = re.compile(r"^\+\s*def (\w+)\(", re.MULTILINE)
"""Functions that a patch writes: their names are the patcher's to choose."""


@dataclass(frozen=True)
class Announced:
    """Differences that are meant: names that patches use, and keys that the JSON has got."""

    renamed: dict[str, str]
    added: tuple[str, ...]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record_options = commands.add_parser("record")
    record_options.add_argument("out", type=Path)
    record_options.add_argument("--traces", type=Path, default=SHARED)
    record_options.add_argument("--corpus", type=Path)
    compare_options = commands.add_parser("compare")
    compare_options.add_argument("before", type=Path)
    compare_options.add_argument("after", type=Path)
    compare_options.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    compare_options.add_argument("--added", action="append", default=[], metavar="KEY", help="a new key of the JSON")
    compare_options.add_argument("--lines", type=int, default=12, help="differing lines shown per answer")
    chosen = parser.parse_args(arguments)
    if chosen.command == "record":
        record(chosen.out.resolve(), chosen.traces.resolve(), chosen.corpus)
        return 0
    renamed = dict(pair.split("=", 1) for pair in chosen.renamed)
    return compare(chosen.before, chosen.after, Announced(renamed, tuple(chosen.added)), chosen.lines)


def record(out: Path, traces: Path, corpus: Path | None) -> None:
    """Every answer of the version in the current folder, one file each."""
    for path in sorted(traces.rglob("*.json.gz")):
        name = "+".join(path.relative_to(traces).parts)
        for command in ("analyze", "recommend"):
            _keep(out / "traces" / f"{command}-{name}.txt", [command, str(path), "--format", "json"], cwd=traces)
    for run in sorted(Path("sample_traces").glob("*/run")):
        name = run.parent.name
        for command in ("analyze", "recommend"):
            _keep(out / "samples" / f"{command}-{name}.txt", [command, str(run), "--format", "json"])
        for scheme in SCHEMES:
            arguments = ["apply", str(run), "--scheme", scheme, "--dry-run", "--format", "json"]
            _keep(out / "samples" / f"patch-{name}-{scheme}.txt", arguments)
            _keep(out / "samples" / f"unsafe-{name}-{scheme}.txt", [*arguments, "--unsafe"])
    if corpus is not None:
        command = [sys.executable, "-m", "corpus.static", str(corpus), "--diffs", str(out / "corpus" / corpus.name)]
        subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": "tests"})


def _keep(path: Path, arguments: list[str], cwd: Path | None = None) -> None:
    """What one command prints, with its exit code, without the names of folders that differ between two checkouts."""
    done = subprocess.run(
        [sys.executable, "-m", "tracelens", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = done.stdout.replace(str(Path.cwd()), "CHECKOUT")
    path.write_text(f"exit {done.returncode}\n{text}", encoding="utf-8", errors="surrogateescape")


def compare(before: Path, after: Path, announced: Announced, shown: int) -> int:
    """Print the differences of two recorded folders; 1 if there are any, 2 if there was nothing to compare."""
    names = sorted({path.relative_to(root) for root in (before, after) for path in root.rglob("*.*") if path.is_file()})
    wrong = 0
    for name in names:
        lines = list(_difference(before / name, after / name, announced))
        if lines:
            wrong += 1
            print(f"{name}: {len(lines)} lines differ", *lines[:shown], sep="\n    ")
    print(f"{len(names)} answers compared, {wrong} differ")
    return 2 if not names else int(wrong > 0)


def _difference(before: Path, after: Path, announced: Announced) -> Iterator[str]:
    if not before.exists() or not after.exists():
        yield f"only {'after' if after.exists() else 'before'}"
        return
    old, new = (_comparable(path, announced.added) for path in (before, after))
    for name, other in announced.renamed.items():
        old = old.replace(name, other)
    if _without_layout(old) == _without_layout(new):
        return
    rows = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
    yield from (row for row in rows if row[:3] not in ("---", "+++") and not row.startswith("@@"))


def _comparable(path: Path, added: tuple[str, ...]) -> str:
    """The text without the vendored helper file, which has tests of its own, and without dates and versions."""
    text = _unfolded(path.read_text(encoding="utf-8", errors="surrogateescape"), added)
    parts = re.split(r"(?=^diff --git )", text, flags=re.MULTILINE)
    kept = "".join(part for part in parts if RUNTIME_FILE not in part.partition("\n")[0])
    for helper in sorted(set(ADDED_FUNCTION.findall(kept)), key=len, reverse=True):
        kept = re.sub(rf"\b{helper}\b", "HELPER", kept)
    return "\n".join(line for line in kept.splitlines() if not CHANGED_ANYWAY.match(line))


def _without_layout(text: str) -> str:
    """The text without blanks: a call is wrapped over several lines, or not, by the length of the names in it."""
    lines = (line.removeprefix("+") for line in text.splitlines() if not line.startswith("@@"))
    return re.sub(r"\s+", "", "".join(lines)).replace(",)", ")")


def _unfolded(text: str, added: tuple[str, ...]) -> str:
    """An answer in JSON with one key per line, and the diff of a patch as lines of its own."""
    status, _, body = text.partition("\n")
    try:
        document = json.loads(body)
    except ValueError:
        return text
    for key in added:
        document.pop(key, None)
    diff = (document.get("patch") or document).pop("diff", "")
    return f"{status}\n{json.dumps(document, indent=1, sort_keys=True)}\n{diff}"


if __name__ == "__main__":
    raise SystemExit(main())
