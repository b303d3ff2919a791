"""The processor's instructions of a step behind the line clock, counted by valgrind: exact, on however busy a machine.

    python tests/owners/clocked_instructions.py [-o OUT.json] [--only tokens,…] PYTHON…

Each PYTHON, which needs no package, runs steps of plain Python, with and without a clock before them, 100 and 300 steps
long; what 200 steps cost, and nothing else, is the difference. `clock` in the answer is what two clocked steps cost
more than two others, with all that the clock does before and behind them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT, LONG = 100, 300
PROJECT = '''
class Layer:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, values):
        return self.forward(values)

    def forward(self, values):
        out = []
        for value in values:
            scaled = value * self.weight
            out.append(scaled if scaled < 1000 else scaled - 1000)
        return out


def loop(count):
    total = 0
    for number in range(count):
        squared = number * number
        total += squared
    return total


def layers(stack):
    values = list(range(20))
    for layer in stack:
        values = layer(values)
    return json.dumps(dict(values=values, total=loop(200)), indent=1)


def pairs_of(symbols):
    found = {}
    previous = symbols[0]
    for symbol in symbols[1:]:
        pair = (previous, symbol)
        found[pair] = found.get(pair, 0) + 1
        previous = symbol
    return found


def merged(symbols, pair, new):
    out = []
    position = 0
    while position < len(symbols):
        here = symbols[position]
        if here == pair[0] and position + 1 < len(symbols) and symbols[position + 1] == pair[1]:
            out.append(new)
            position += 2
        else:
            out.append(here)
            position += 1
    return out


def encoded(text, ranks):
    """Byte pairs, the way a tokenizer in plain Python joins them."""
    symbols = list(text.encode())
    while len(symbols) > 1:
        found = pairs_of(symbols)
        best = min(found, key=lambda pair: ranks.get(pair, 1 << 30))
        rank = ranks.get(best)
        if rank is None:
            break
        symbols = merged(symbols, best, 256 + rank)
    return symbols
'''
STEP = """
import gc, json, sys
gc.disable()  # whether a collection falls into the first 100 steps or the others is worth 2 %
sys.path.insert(0, {root!r})
from tracelens.capture.inside.line_clock import LineClock
{project}

RANKS = {{pair: rank for rank, pair in enumerate([(116, 104), (256, 101), (105, 110), (258, 103), (32, 257)])}}
WORDS = "the string in the thing that is nothing but the other thing".split()
STACK = [Layer(weight) for weight in (1, 2, 3)]
ROWS = [dict(number=number, words=WORDS) for number in range(3)]

STEPS = dict(
    library=lambda: json.dumps(ROWS, indent=1),
    layers=lambda: layers(STACK),
    loop=lambda: loop(2000),
    tokens=lambda: [encoded(word, RANKS) for word in WORDS],
)
step = STEPS[{name!r}]
for _ in range(50):
    step()
clock = LineClock()
for number in range(2):
    if {clocked!r}:
        clock.begin_step(number)
    step()
clock.stop()
assert clock.reason is None, clock.reason
for _ in range({steps}):
    step()
"""
LOOPS = ("library", "layers", "loop", "tokens")


def counted(python: str, name: str, clocked: bool, steps: int) -> int:
    """Instructions of the whole process."""
    text = STEP.format(root=str(ROOT), project=PROJECT, name=name, clocked=clocked, steps=steps)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"  # a file of the project; `-c` would be code of nobody's
        script.write_text(text)
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", python, str(script)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return int(re.findall(r"Collected : (\d+)", done.stderr)[-1])


def measure(python: str, name: str) -> dict[str, float]:
    """Instructions per step without and with a clock before, their ratio, and what the clock itself took."""
    plain, clocked = ([counted(python, name, kind, steps) for steps in (SHORT, LONG)] for kind in (False, True))
    before, behind = ((long - short) / (LONG - SHORT) for short, long in (plain, clocked))
    clock = clocked[0] - plain[0] - SHORT * (behind - before)
    return {"without": before, "behind": behind, "ratio": behind / before, "clock": clock}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--only", default=",".join(LOOPS))
    parser.add_argument("pythons", nargs="+")
    options = parser.parse_args()
    rows = []
    for python in options.pythons:
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        for name in options.only.split(","):
            rows.append({"python": version, "loop": name, **measure(python, name)})
            print(json.dumps(rows[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
