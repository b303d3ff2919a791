"""What `tracelens patch --every-place` does to the training scripts of whole projects, each run as a user runs it.

    python -m tests.corpus.command DIR -o RESULTS.jsonl [--processes 2]     DIR holds one folder per project
    python -m tests.corpus.command --table RESULTS.jsonl

Each script that has logging reads (`uses`) is patched with `--checked`, and without where a hunk is checked, in a
process of its own that has 60 s of CPU time. Out: one JSON line per script, with its diff, and a table of them:
logging reads by what became of them, added lines, new files, seconds of CPU time without the start of Python.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import resource
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from tests.corpus.collect import scripts
from tests.corpus.uses import uses
from tracelens import cli
from tracelens.patch.code.batches import batches
from tracelens.patch.effects.project import parsed

LIMIT_S = 60
HELPERS = "tracelens_runtime.py"


def measured(script: Path, project: Path) -> dict[str, Any]:
    """One script: what it reads, and the two answers of the command; the second one knows what the first worked out."""
    lines = _reads(script)
    out: dict[str, Any] = {"reads": len(lines), "lines": lines}
    out["checked"] = out["safe"] = _asked(script, project, ("--checked",))
    if any(tier == "checked" for _, tier in out["checked"].get("hunks", ())):
        out["safe"] = _asked(script, project, ())
    return out


def _asked(script: Path, project: Path, words: tuple[str, ...]) -> dict[str, Any]:
    command = [
        "patch",
        str(script),
        "--every-place",
        "--dry-run",
        "--project",
        str(project),
        "--format",
        "json",
        *words,
    ]
    stdout, stderr, started = io.StringIO(), io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = cli.main(command)
    seconds, text = round(time.process_time() - started, 2), stdout.getvalue()
    if code not in (0, 1) or not text.startswith("{"):
        return {"failed": f"{code} {stderr.getvalue()[-400:]}", "seconds": seconds}
    answer = json.loads(text)
    added = [len(re.findall(r"^\+(?!\+\+)", part, re.M)) for part in _parts(answer.get("diff") or "").values()]
    return {
        "seconds": seconds,
        "left": _left(script, project, answer.get("diff") or ""),
        "hunks": [(hunk["kind"], hunk["tier"]) for hunk in answer["hunks"]],
        "declined": [(item["line"], item["kind"], item["reason"]) for item in answer["declined"]],
        "left_out": [(item["line"], item["reason"]) for item in answer.get("left_out", ())],
        "added": sum(added),
        "new_files": sum(file["created"] for file in answer["files"]),
        "diff": "".join(_parts(answer.get("diff") or "").values()),
    }


def _parts(diff: str) -> Mapping[str, str]:
    """The diffs of the files, without that of the helpers."""
    parts = re.split(r"(?=^diff --git )", diff, flags=re.M)
    named = {part.partition("\n")[0]: part for part in parts if part.strip()}
    return {name: part for name, part in named.items() if HELPERS not in name}


def _left(script: Path, project: Path, diff: str) -> int | str:
    """Logging reads that are left in the loops of the patched script."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / script.relative_to(project)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(script.read_bytes())
        text = "".join(_parts(diff).values())
        if text:
            command = ["patch", "-p1", "--binary", "-s"]
            done = subprocess.run(command, input=text.encode(), cwd=name, capture_output=True, check=False)
            if done.returncode:
                return f"the diff does not apply: {done.stdout.decode(errors='replace')[-200:]}"
        return sum(use.purpose == "logging" for use in uses(batches(ast.parse(copy.read_bytes()))))


# ------------------------------------------------------------------------------------------------------ table


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """The results, as lines of Markdown tables."""
    asked = [row for row in rows if "safe" in row]
    failed = [row for row in asked if any("failed" in row[name] or _text(row[name]) for name in ("safe", "checked"))]
    known = [row for row in asked if row not in failed]
    reads = sum(row["reads"] for row in known)
    safe, both = (sum(row["reads"] - row[name]["left"] for row in known) for name in ("safe", "checked"))
    patched = [row["checked"] for row in known if row["checked"]["hunks"]]
    seconds = sorted(row[name]["seconds"] for row in asked for name in ("safe", "checked"))
    facts = {
        "training scripts": len(asked),
        "failures": len(failed),
        "logging reads": reads,
        "deferred, safe": _share(safe, reads),
        "deferred, checked": _share(both - safe, reads),
        "deferred together": _share(both, reads),
        "scripts patched (with --checked)": len(patched),
        "added lines, middle": median([one["added"] for one in patched] or [0]),
        "patched without a new file": _share(sum(not one["new_files"] for one in patched), len(patched)),
        "seconds of CPU time per call, middle and worst": f"{median(seconds or [0]):.1f}, {max(seconds or [0]):.1f}",
    }
    facts["training scripts"] = f"{len(asked)}, of {len({row['script'].partition('/')[0] for row in asked})} projects"
    out = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    out += ["| logging reads left | reason |", "|---|---|"]
    out += [f"| {count} | {reason} |" for reason, count in _reasons(known).most_common()]
    return "\n".join([*out, *(f"FAILED {row['script']}: {row['safe']} {row['checked']}"[:400] for row in failed)])


def _text(answer: Mapping[str, Any]) -> bool:
    return isinstance(answer.get("left"), str)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / max(whole, 1):.0%})"


def _reasons(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Why logging reads were declined, by line."""
    out: Counter[str] = Counter()
    for row in rows:
        told = {line: reason for line, kind, reason in row["checked"]["declined"] if kind == "defer-read"}
        out.update(_general(told[line]) for line in row["lines"] if line in told)
    return out


def _general(reason: str) -> str:
    text = re.sub(r"\(?\S+\.py:\d+\)?:? ?", "", reason.partition("; ")[0])
    return re.sub(r"\(?\bline \d+\)?", "", re.sub(r"`[^`]*`", "`…`", text)).strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--most", type=int, default=None, help="so many scripts of each project, evenly chosen")
    parser.add_argument("--table", type=Path)
    chosen = parser.parse_args()
    if chosen.table:
        print(table(map(json.loads, chosen.table.read_text().splitlines())))
        return 0
    with chosen.output.open("w") as out:
        for row in _measured_apart(_in_turns(chosen.folder, chosen.most), chosen.processes):
            out.write(json.dumps(row) + "\n")
            out.flush()
    return 0


def _measured_apart(asked: Iterable[tuple[Path, Path]], processes: int) -> Iterator[dict[str, Any]]:
    """Each script in a process of its own, which starts with all that is imported here."""
    running: dict[int, tuple[str, TextIO]] = {}
    for script, project in asked:
        if len(running) >= processes:
            yield _finished(running)
        stream = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `_finished`
        started = os.fork()
        if not started:
            _answer(script, project, stream)
        running[started] = script.relative_to(project.parent).as_posix(), stream
    while running:
        yield _finished(running)


def _answer(script: Path, project: Path, stream: TextIO) -> None:
    """The child: it leaves its answer in the stream."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        os.chdir(project)
        json.dump(measured(script, project), stream)
        stream.flush()
    finally:
        os._exit(0)


def _finished(running: dict[int, tuple[str, TextIO]]) -> dict[str, Any]:
    process, status = os.wait()
    script, stream = running.pop(process)
    with stream:
        stream.seek(0)
        text = stream.read()
    failed = {"failed": f"ended with {os.waitstatus_to_exitcode(status)}", "seconds": LIMIT_S}
    return {
        "script": script,
        **(json.loads(text) if text else {"reads": 0, "lines": [], "safe": failed, "checked": failed}),
    }


def _in_turns(folder: Path, most: int | None) -> list[tuple[Path, Path]]:
    """Scripts with logging reads, each with its project: the first of every project, then the second."""
    asked = []
    for project in sorted(one.resolve() for one in folder.iterdir()):
        found = [script for script in scripts(project) if _reads(script)]
        size = len(found) if most is None else min(most, len(found))
        asked += [(number, found[number * len(found) // size], project) for number in range(size)]
    return [(script, project) for _, script, project in sorted(asked)]


def _reads(script: Path) -> list[int]:
    """The lines of the logging reads; none of a file that cannot be parsed."""
    tree = parsed(script.read_bytes())
    found = uses(batches(tree)) if tree is not None else []
    return sorted(use.line for use in found if use.purpose == "logging")


if __name__ == "__main__":
    raise SystemExit(main())
