"""The command line of a script that times kinds of one loop by turns: `-o OUT.json [--steps 200] [--rounds 3]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch


def main(about: str | None, kinds: Sequence[str], measure: Callable[[str, int], dict[str, float]]) -> int:
    """Write what `measure` gives for each kind, round by round."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    turns = [[kind, measure(kind, options.steps)] for _ in range(options.rounds) for kind in kinds]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    options.out.write_text(json.dumps({"device": device, "turns": turns}, indent=1) + "\n")
    return 0
