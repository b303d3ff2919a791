"""Patches every training script under a folder, assuming that each place waits in each batch, and checks the result.

    TRACELENS_CORPUS=DIR make corpus

With `--unsafe` the Edits that need it are asked for too; then it is also required that, without --unsafe, asking for
them changes no byte of any patch.

Required of every file: no exception, the result parses and compiles, comments are kept, a second run changes
nothing, and `revert` gives back every byte. Prints counts by verdict, by hunk and by reason, the share of the reads
that only log which were deferred, and as its last line `N files, P patched, D declined, U unchanged, F failed`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.corpus.collect import scripts
from tests.corpus.uses import Use, uses
from tracelens.edit_kinds import SAFE_EDITS, UNSAFE_EDITS
from tracelens.model import Declined, Hunk, Patch
from tracelens.patch.code.batches import batches
from tracelens.patch.code.source import parse
from tracelens.patch.effects.project import parsed
from tracelens.patch.every_place import patch_script
from tracelens.patch.files import apply, rewrite_checks
from tracelens.patch.recipes import PatchOptions

Verdict = Literal["patched", "declined", "unchanged", "failed"]
GIVEN_UP = "the file is left as it is"
"""A rewrite that did not pass the patcher's own checks: harmless to the user, and a mistake all the same."""
INTERVAL = 10
SLOW_S = 5.0


@dataclass
class Result:
    """One file."""

    path: Path
    verdict: Verdict
    problem: str = ""
    diff: str = ""
    hunks: tuple[Hunk, ...] = ()
    declined: tuple[Declined, ...] = ()
    before: list[Use] = field(default_factory=list)
    after: list[Use] = field(default_factory=list)
    seconds: float = 0.0


def examine(path: Path, unsafe: bool = False) -> Result:
    """Patch one file in a project of its own; whatever goes wrong is a result."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tracelens-corpus-") as name:
        copy = Path(shutil.copy(path, Path(name).resolve() / path.name))
        try:
            result = _examined(path, copy, unsafe)
        except Exception:
            result = Result(path, "failed", traceback.format_exc(limit=-3))
    result.seconds = time.perf_counter() - started
    return result


def _examined(path: Path, copy: Path, unsafe: bool) -> Result:
    data = copy.read_bytes()
    patch = patched(copy, unsafe)
    if unsafe and _outcome(patched(copy, offered=True)) != _outcome(patched(copy, offered=False)):
        return Result(path, "failed", "without --unsafe, asking for unsafe changes makes another patch")
    tree = parsed(data)
    reads = uses(batches(tree)) if tree is not None else []
    changed = next((one for one in patch.files if one.path == copy), None)
    given_up = [one for one in patch.declined if GIVEN_UP in one.obstacle]
    if given_up:
        return Result(path, "failed", f"{given_up[0].location}: {given_up[0].obstacle}", declined=patch.declined)
    if changed is None:
        verdict: Verdict = "declined" if patch.declined else "unchanged"
        return Result(path, verdict, declined=patch.declined, before=reads, after=reads)
    after = parsed(changed.after)
    left = uses(batches(after)) if after is not None else []
    problem = _wrong(copy, patch, data, changed.after, unsafe)
    verdict = "failed" if problem else "patched"
    return Result(path, verdict, problem, patch.diff, patch.hunks, patch.declined, reads, left)


def _outcome(patch: Patch) -> tuple[object, ...]:
    return (patch.files, patch.hunks, patch.by_hand)


def patched(script: Path, unsafe: bool = False, offered: bool | None = None) -> Patch:
    """The patch of a script in which every place of a batch waits once per step.

    `unsafe`: with the Edits that only --unsafe makes. `offered`: a patch without --unsafe, with or without them.
    """
    kinds = (*SAFE_EDITS, *UNSAFE_EDITS) if unsafe or offered else SAFE_EDITS
    return patch_script(script, script.parent, dict.fromkeys(kinds, INTERVAL), PatchOptions(unsafe=offered is None))


def _wrong(script: Path, patch: Patch, before: bytes, after: bytes, unsafe: bool) -> str:
    """What is wrong with a patch, in words; "" if it keeps every promise."""
    mistake = rewrite_checks.rewrite_mistake(parse(script, script.name, before), after)
    if mistake is not None:
        return mistake
    backup = script.parent / "backup"
    apply.write(patch, backup)
    second = patched(script, unsafe)
    apply.revert(backup)
    if second.diff:
        return f"a second run changes it again:\n{second.diff}"
    left = sorted(path.name for path in script.parent.iterdir())
    if script.read_bytes() != before or left != [script.name]:
        return f"revert did not give the files back; there are {left}"
    return ""


# ----------------------------------------------------------------------------------------------------- report


def report(results: list[Result], folder: Path) -> str:
    verdicts = Counter(result.verdict for result in results)
    lines = [_failures(results, folder), _slow(results, folder)]
    hunks = Counter(f"{hunk.edit} ({hunk.tier})" for result in results for hunk in result.hunks)
    reasons = Counter(_reason(one) for result in results for one in result.declined)
    lines += [_table("hunks", hunks), _table("places declined, by reason", reasons), _share(results)]
    lines.append(
        f"{len(results)} files, {verdicts['patched']} patched, {verdicts['declined']} declined, "
        f"{verdicts['unchanged']} unchanged, {verdicts['failed']} failed"
    )
    return "\n".join(line for line in lines if line)


def _share(results: Iterable[Result]) -> str:
    """Reads of a batch before and after the patch; both are counted by the same rules on the source text."""
    before, after, files = Counter[str](), Counter[str](), 0
    for result in results:
        before.update(use.purpose for use in result.before)
        after.update(use.purpose for use in result.after)
        files += result.verdict == "patched" and not result.after and bool(result.before)
    out = [f"reads per batch, by what becomes of the value ({files} patched files have none left in their loops):"]
    for purpose, count in before.most_common():
        gone = count - after[purpose]
        out.append(f"{count:6} {purpose:10} {gone} deferred ({gone / count:.0%})")
    count = before["logging"]
    gone = count - after["logging"]
    return "\n".join([*out, f"logging and metrics: {gone} of {count} deferred ({gone / max(count, 1):.1%})"])


def _reason(one: Declined) -> str:
    text = re.sub(r"^\S+\.py:\d+: ", "", one.obstacle)
    text = re.sub(r"\bline \d+", "line …", re.sub(r"`[^`]*`", "`…`", text))
    return f"{one.edit}: {text}"


def _table(title: str, counts: Counter[str]) -> str:
    return "\n".join([f"{title}:", *(f"{count:6} {name}" for name, count in counts.most_common())])


def _failures(results: Iterable[Result], folder: Path) -> str:
    wrong = [result for result in results if result.verdict == "failed"]
    return "\n".join(f"FAILED {result.path.relative_to(folder)}: {result.problem}" for result in wrong)


def _slow(results: Iterable[Result], folder: Path) -> str:
    slow = [result for result in results if result.seconds > SLOW_S]
    return "\n".join(f"slow: {result.seconds:.1f} s {result.path.relative_to(folder)}" for result in slow)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TRACELENS_CORPUS") or None)
    parser.add_argument("--diffs", type=Path, help="write each patch there, to be read")
    parser.add_argument("--unsafe", action="store_true", help="with the changes that need --unsafe")
    parser.add_argument("--list", action="store_true", help="one line per file")
    chosen = parser.parse_args()
    if not chosen.folder or not Path(chosen.folder).is_dir():
        print("name a folder of training scripts: TRACELENS_CORPUS=DIR make corpus", file=sys.stderr)
        return 2
    folder = Path(chosen.folder)
    results = []
    for path in scripts(folder):
        result = examine(path, chosen.unsafe)
        results.append(result)
        if chosen.list:
            print(
                f"{result.verdict:10} {len(result.hunks):3} hunks {result.seconds:6.2f} s  {path.relative_to(folder)}"
            )
        if chosen.diffs and result.diff:
            chosen.diffs.mkdir(parents=True, exist_ok=True)
            name = "+".join(path.relative_to(folder).parts)
            notes = "".join(f"# {d.edit} {d.location}: {d.obstacle}\n" for d in result.declined)
            (chosen.diffs / f"{name}.diff").write_text(notes + _without_runtime(result.diff), errors="replace")
    print(report(results, folder))
    return int(any(result.verdict == "failed" for result in results))


def _without_runtime(diff: str) -> str:
    return "".join(
        part
        for part in re.split(r"(?=^diff --git )", diff, flags=re.M)
        if "tracelens_runtime.py" not in part.partition("\n")[0]
    )


if __name__ == "__main__":
    raise SystemExit(main())
