"""Replay kept recordings with the model as it is now: for the tuning rows, and to see what a change does.

    python tests/accuracy/replay_again.py RUNS [ROW …] [--keep]

RUNS holds one folder per row, as `measure.py` packs them. The Edits are those that were predicted and patched at the
time. With --keep the result goes into the row's JSON beside the first prediction, under `again`: never for a row that
is held out. Of those only the replay of the loop as it is is kept, under `base_now`, which promises nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path[0:0] = [str(Path(__file__).resolve().parents[level]) for level in (2, 1)]

from accuracy import predict  # noqa: E402
from tracelens import pipeline  # noqa: E402
from tracelens.model import Abstention, Edit, Estimate  # noqa: E402
from tracelens.replay import bounds, estimate  # noqa: E402

KNOWN = Path(__file__).resolve().parents[2] / "docs" / "data" / "accuracy"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--known", type=Path, default=KNOWN, help="the folder of raw rows")
    options = parser.parse_args()
    for path in sorted(options.known.glob("*.json")):
        folder = options.runs / path.stem / "run"
        if not folder.exists() or (options.rows and path.stem not in options.rows):
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
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
        if isinstance(examined.tape, Abstention):
            scheme["reason"] = examined.tape.missing
            continue
        edits = tuple(
            Edit(edit["kind"], tuple(edit["stalls"]), interval=edit["interval"], depth=edit["depth"])
            for edit in scheme["edits"]
        )
        found = estimate.of(examined.tape, edits)
        if isinstance(found, Estimate):
            scheme["estimate"] = found.document()
            scheme["bounds_us"] = {key: ns / 1e3 for key, ns in asdict(bounds.of(examined.tape, edits)).items()}
        else:
            scheme["reason"] = found.missing
    base = predict._base(examined)
    return {"model": predict.model(), "base": base, "schemes": schemes, "recommended": prediction["recommended"]}


def base_now(again: dict[str, Any]) -> dict[str, Any]:
    """How well the model as it is now replays the loop as it was recorded."""
    kept = ("recorded_us", "step_us", "error_recorded", "error_unprofiled", "abstention")
    return {"model": again["model"]} | {key: again["base"].get(key) for key in kept}


def _show(document: dict[str, Any], again: dict[str, Any]) -> None:
    from accuracy.stats import center

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
