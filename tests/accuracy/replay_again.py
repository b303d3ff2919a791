"""Replay kept recordings with the model as it is now: for the tuning rows, and to see what a change does.

    python tests/accuracy/replay_again.py RUNS [ROW …] [--keep | --shares]

RUNS holds one folder per row, as `measure.py` packs them. The Edits are those that were predicted and patched at the
time. With --keep the result goes into the row's JSON beside the first prediction, under `again`: never for a row that
is held out. Of those only the replay of the loop as it is is kept, under `base_now`, which promises nothing. With
--shares only the part of each version's step that the host sets is computed, and kept under `host_shares`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.accuracy import predict
from tracelens import pipeline
from tracelens.model import Abstention, Edit, Estimate
from tracelens.replay import bounds, estimate, trace_builder
from tracelens.replay import edits as rewriting
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time

KNOWN = Path(__file__).resolve().parents[2] / "docs" / "data" / "accuracy"
SLOWER = 0.05
"""Small enough for the same limit to bind, large enough to stand out of the rounding."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--shares", action="store_true", help="only the host's share of each version's step")
    parser.add_argument("--known", type=Path, default=KNOWN, help="the folder of raw rows")
    options = parser.parse_args()
    for path in sorted(options.known.glob("*.json")):
        folder = options.runs / path.stem / "run"
        if not folder.exists() or (options.rows and path.stem not in options.rows):
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        if options.shares:
            document |= {"host_shares": host_shares(folder, document["prediction"])}
            path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
            continue
        again = replayed(folder, document["prediction"])
        if options.keep:
            document |= {"again": again} if document["tuning"] else {"base_now": base_now(again)}
            path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
        _show(document, again)
    return 0


def replayed(run: Path, prediction: dict[str, Any]) -> dict[str, Any]:
    """The prediction of the same Edits on the same recording."""
    examined = pipeline.examine(pipeline.open_inputs((run,)))
    schemes = {name: dict(scheme) for name, scheme in prediction["schemes"].items()}
    for scheme in schemes.values():
        if not scheme.get("version"):
            continue
        for key in ("estimate", "bounds_us", "reason"):
            scheme.pop(key, None)
        if isinstance(examined.replay_trace, Abstention):
            scheme["reason"] = examined.replay_trace.missing
            continue
        edits = _edits(scheme)
        found = estimate.predict(examined.replay_trace, edits)
        if isinstance(found, Estimate):
            scheme["estimate"] = found.document()
            scheme["bounds_us"] = {
                key: ns / 1e3 for key, ns in asdict(bounds.step_bounds(examined.replay_trace, edits)).items()
            }
        else:
            scheme["reason"] = found.missing
    base = predict._base(examined)
    return {"model": predict.model(), "base": base, "schemes": schemes, "recommended": prediction["recommended"]}


def _edits(scheme: dict[str, Any]) -> tuple[Edit, ...]:
    return tuple(
        Edit(edit["kind"], tuple(edit["stalls"]), interval=edit["interval"], depth=edit["depth"])
        for edit in scheme["edits"]
    )


def host_shares(run: Path, prediction: dict[str, Any]) -> dict[str, Any]:
    """How much of each version's step the host sets; None for the loop that cannot be replayed."""
    made = pipeline.examine(pipeline.open_inputs((run,))).replay_trace
    if isinstance(made, Abstention):
        return {"model": predict.model(), "base": None, "versions": {}}
    schemes = {scheme["version"]: scheme for scheme in prediction["schemes"].values() if scheme.get("version")}
    shares = {version: host_share(made, _edits(scheme)) for version, scheme in schemes.items()}
    return {"model": predict.model(), "base": host_share(made, ()), "versions": shares}


def host_share(made: ReplayTrace, edits: tuple[Edit, ...]) -> float:
    """What arrives in the step of a host that is slower by `SLOWER`, as a share of that."""
    slow, row_ns = trace_builder._scaled(made, 1 + SLOWER), made.overhead.row_ns
    now = step_time(compile_program(rewriting.apply(made, edits), row_ns))
    # The profiler's cost is taken out after the scaling: scaled too, the rest is slower by as much.
    then = step_time(compile_program(rewriting.apply(slow, edits), row_ns * (1 + SLOWER)))
    return round((then / now - 1) / SLOWER, 4)


def base_now(again: dict[str, Any]) -> dict[str, Any]:
    """How well the model as it is now replays the loop as it was recorded."""
    kept = ("recorded_us", "step_us", "error_recorded", "error_unprofiled", "abstention")
    return {"model": again["model"]} | {key: again["base"].get(key) for key in kept}


def _show(document: dict[str, Any], again: dict[str, Any]) -> None:
    from tests.accuracy.stats import center

    print(f"== {document['row']}: {again['base']['abstention'] or ''}")
    for name, scheme in again["schemes"].items():
        times = [arm["block_us"] for arm in document["arms"] if arm["version"] == scheme.get("version")]
        if "estimate" in scheme and times:
            measured = center([sorted(blocks)[len(blocks) // 2] for blocks in times])
            step = scheme["estimate"]["step_us"]
            print(
                f"   {name:15s} predicted {step:8.0f}  measured {measured:8.0f}  {100 * (step / measured - 1):+5.1f} %"
            )


if __name__ == "__main__":
    sys.exit(main())
