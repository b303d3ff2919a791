"""The processor's instructions of a step behind the line clock, counted by valgrind: exact, on however busy a machine.

    python tests/owners/clocked_instructions.py [-o OUT.json] PYTHON…

Each PYTHON, which needs no package, runs a step of plain Python, with and without a clock before it, 100 and 300 steps
long; what 200 steps cost, and nothing else, is the difference. `not mended` is the clock without
`tracelens.capture.inside.superinstructions`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT, LONG = 100, 300
STEP = """
import json, sys
sys.path.insert(0, {root!r})
from tracelens.capture.inside import superinstructions
from tracelens.capture.inside.line_clock import LineClock

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

def work(count):
    total = 0
    for number in range(count):
        squared = number * number
        total += squared
    return total

def step(layers):
    values = list(range(20))
    for layer in layers:
        values = layer(values)
    return json.dumps(dict(values=values, total=work(200)), indent=1)

layers = [Layer(weight) for weight in (1, 2, 3)]
for _ in range(50):
    step(layers)
kind = {kind!r}
if kind == "not mended":
    superinstructions.NEEDED = False
    superinstructions.restore = lambda codes: None
clock = LineClock()
for number in range(2):
    if kind != "no clock":
        clock.begin_step(number)
    step(layers)
clock.stop()
assert clock.reason is None, clock.reason
for _ in range({steps}):
    step(layers)
"""
KINDS = ("no clock", "clock", "not mended")


def counted(python: str, kind: str, steps: int) -> int:
    """Instructions of the whole process."""
    text = STEP.format(root=str(ROOT), kind=kind, steps=steps)
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", python, "-c", text]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return int(re.findall(r"Collected : (\d+)", done.stderr)[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("pythons", nargs="+")
    options = parser.parse_args()
    rows = []
    for python in options.pythons:
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        cost = {kind: (counted(python, kind, LONG) - counted(python, kind, SHORT)) / (LONG - SHORT) for kind in KINDS}
        ratio = {kind: cost[kind] / cost["no clock"] for kind in KINDS[1:]}
        rows.append({"python": version, "instructions_per_step": cost, "ratio": ratio})
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
