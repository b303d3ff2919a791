"""`make fuzz`: damaged traces for as long as asked. Whatever is not a `TracelensError`, or takes too long, is a bug.

    python -m tests.fuzz --seconds 600 --seed 1

Takes small real traces (where the shared ones are at hand) and built ones, plain, gzip and zstd; damages each in up to
eight places; loads it and builds its Timeline. A failing input is kept, with the number that makes it again. The
shorter run that hypothesis directs, and shrinks, is `test_damage.py`.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.mutations import KINDS, Edit, mutated
from tests.support.builders import Machine
from tests.support.places import TRACES
from tracelens.errors import TracelensError
from tracelens.trace import chrome, timeline

LARGEST = 60_000
"""Packed bytes: larger ones take so long each that fewer kinds of damage would be tried."""
SLOW_S = 20.0
MAX_BYTES = 200_000_000


def seeds() -> list[bytes]:
    """Raw text of undamaged traces."""
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.copy("h2d", "pageable", 20, nbytes=4096)
            machine.launch("gemm", 100)
            machine.item()
    document = machine.events.document()
    found = [json.dumps(document, indent=indent).encode() for indent in (None, 1)]
    pairs = [
        {**row, "ph": half, "ts": row["ts"] + (row["dur"] if half == "E" else 0)}
        for row in document["traceEvents"]
        for half in "BE"
    ]
    exact = [{**row, "ts": 1.7e15 + row["ts"] + 0.25} for row in document["traceEvents"]]
    found += [json.dumps(pairs).encode(), json.dumps({**document, "traceEvents": exact}).encode()]
    small = [path for path in sorted(TRACES.glob("*/*.json.gz")) if path.stat().st_size < LARGEST]
    return found + [gzip.decompress(path.read_bytes()) for path in small]


def packers() -> list[tuple[str, Callable[[bytes], bytes]]]:
    out: list[tuple[str, Callable[[bytes], bytes]]] = [
        (".json", bytes),
        (".json.gz", lambda raw: gzip.compress(raw, 1)),
    ]
    if importlib.util.find_spec("zstandard"):
        import zstandard

        out.append((".json.zst", zstandard.ZstdCompressor().compress))
    return out


def case(number: int, texts: list[bytes], kinds: list[tuple[str, Callable[[bytes], bytes]]]) -> tuple[str, bytes]:
    """The damaged file of a number: its ending and its bytes. Damage comes before packing as often as after."""
    chance = random.Random(number)
    raw = chance.choice(texts)
    suffix, pack = chance.choices(kinds, weights=[2, 1, 1][: len(kinds)])[0]
    edits = [
        Edit(
            kind=chance.choices(KINDS, weights=[4, 3, 3, 2, 1, 1, 2, 6])[0],
            at=chance.random(),
            size=min(int(chance.expovariate(1 / 60)), 100_000),
            other=chance.random(),
            data=chance.randbytes(chance.randrange(1, 9)),
        )
        for _ in range(chance.randrange(1, 9))
    ]
    first = chance.random() < 0.5
    return suffix, pack(mutated(raw, edits)) if first else mutated(pack(raw), edits)


def outcome(path: Path) -> str:
    """`read`, `refused`, or the traceback of a bug."""
    started = time.process_time()
    try:
        timeline.build(chrome.load(path, max_bytes=MAX_BYTES))
        word = "read"
    except TracelensError:
        word = "refused"
    except BaseException:
        return traceback.format_exc()
    took = time.process_time() - started
    return word if took < SLOW_S else f"took {took:.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first case's number")
    given = parser.parse_args()
    texts, kinds = seeds(), packers()
    counts: Counter[str] = Counter()
    folder = Path(tempfile.mkdtemp(prefix="tracelens-fuzz-"))
    until, number = time.monotonic() + given.seconds, given.seed
    while time.monotonic() < until:
        suffix, data = case(number, texts, kinds)
        path = folder / f"case-{number}{suffix}"
        path.write_bytes(data)
        result = outcome(path)
        counts[result if result in ("read", "refused") else "failed"] += 1
        if result in ("read", "refused"):
            path.unlink()
        else:
            print(f"case {number}, kept as {path}:\n{result}", flush=True)
        number += 1
    print(
        f"{number - given.seed} files from {len(texts)} traces: "
        + ", ".join(f"{n} {word}" for word, n in counts.items())
    )
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
