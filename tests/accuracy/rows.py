"""Which loops are measured at which sizes, and which of them the model may be tuned on; fixed before the first run.

In: nothing. Out: `ROWS`. A row is one script with one set of arguments. A third of the loops is for tuning; no
number of the replay was fitted to the others, and what was looked at when is said in docs/accuracy.md. accumulate-b128
was made smaller before it was ever run: every process of it would have made a data set of 6 GB first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LOOPS = Path(__file__).parent / "loops"
TUNING = frozenset({"mlp", "resnet18", "lstm_lm", "large_images", "slow_loader"})


@dataclass(frozen=True)
class Row:
    """One loop at one size. `small` are arguments with which it runs on a CPU in seconds, to try the harness.

    `heavy`: it moves 10 MB per batch or more through the host's memory, and disturbs others that do.
    """

    loop: str
    size: str
    arguments: str
    small: str = ""
    heavy: bool = False

    @property
    def name(self) -> str:
        return f"{self.loop}-{self.size}"

    @property
    def tuning(self) -> bool:
        return self.loop in TUNING

    @property
    def script(self) -> Path:
        return LOOPS / f"{self.loop}.py"


_MLP = "--batch-size 8 --features 16 --width 16 --depth 1"
_PICTURES = "--batch-size 4 --image 32"
ROWS = (
    Row("mlp", "w0", "--batch-size 256 --workers 0", _MLP),
    Row("mlp", "w4", "--batch-size 256 --workers 4", _MLP + " --workers 2"),
    Row("mlp", "wide", "--batch-size 2048 --width 4096 --depth 8 --workers 8 --batches 1500", _MLP),
    Row("resnet18", "b32", "--batch-size 32 --image 96", _PICTURES + " --workers 2"),
    Row(
        "resnet18",
        "b128",
        "--batch-size 128 --image 160 --workers 12 --batches 1500",
        _PICTURES + " --workers 2",
        heavy=True,
    ),
    Row("lstm_lm", "small", "--width 200 --batch-size 20", "--width 8 --tokens 50"),
    Row("lstm_lm", "large", "--width 1500 --batch-size 64", "--width 8 --tokens 50"),
    Row("large_images", "b16", "--batch-size 16", _PICTURES + " --width 4 --workers 2", heavy=True),
    Row(
        "large_images",
        "b32",
        "--batch-size 32 --image 512 --width 64",
        _PICTURES + " --width 4 --workers 2",
        heavy=True,
    ),
    Row("slow_loader", "b32", "--batch-size 32 --width 128 --depth 16 --image 96", _PICTURES + " --width 4 --depth 1"),
    Row("slow_loader", "b64", "--batch-size 64", _PICTURES + " --width 4 --depth 1"),
    # ------------------------------------------------------------------------------------------------- held out
    Row("resnet50", "b16", "--batch-size 16 --image 128", _PICTURES + " --workers 2"),
    Row("resnet50", "b64", "--batch-size 64 --image 224 --workers 12", _PICTURES + " --workers 2", heavy=True),
    Row("dcgan", "b64", "--batch-size 64", "--batch-size 4 --width 4 --workers 2"),
    Row(
        "dcgan", "b256", "--batch-size 256 --width 128 --workers 12", "--batch-size 4 --width 4 --workers 2", heavy=True
    ),
    Row("gpt", "small", "--batch-size 8 --block 128 --width 256 --layers 4", "--batch-size 2 --width 64 --layers 1"),
    Row("gpt", "large", "--batch-size 32 --block 512 --width 768 --layers 8", "--batch-size 2 --width 64 --layers 1"),
    Row("metrics", "b64", "--batch-size 64", "--batch-size 4 --width 4 --workers 2"),
    Row(
        "metrics",
        "b512",
        "--batch-size 512 --image 64 --width 128 --workers 14",
        "--batch-size 4 --width 4",
        heavy=True,
    ),
    Row("scaler", "b64", "--batch-size 64", "--batch-size 4 --width 8 --samples 640"),
    Row(
        "scaler", "b512", "--batch-size 512 --width 512 --depth 8", "--batch-size 4 --width 8 --samples 640", heavy=True
    ),
    Row("masked", "b32", "--batch-size 32", "--batch-size 4 --width 64 --layers 1 --samples 640"),
    Row("masked", "b128", "--batch-size 128 --width 512 --layers 8", "--batch-size 4 --width 64 --layers 1"),
    Row("accumulate", "b16", "--batch-size 16", "--batch-size 2 --width 64 --layers 1 --samples 1600"),
    Row(
        "accumulate",
        "b128",
        "--batch-size 128 --width 512 --samples 8192",
        "--batch-size 2 --width 64 --layers 1",
        heavy=True,
    ),
    Row("two_optimizers", "b2k", "--batch-size 2048", "--batch-size 16 --width 16 --samples 4096"),
    Row("two_optimizers", "b16k", "--batch-size 16384 --width 2048 --samples 1048576", "--batch-size 16 --width 16"),
    Row("vit", "tiny", "--batch-size 32 --image 160", _PICTURES + " --workers 2"),
    Row(
        "vit",
        "small",
        "--batch-size 64 --model vit_small_patch16_224 --workers 12",
        _PICTURES + " --workers 2",
        heavy=True,
    ),
    Row("vae", "b128", "--batch-size 128", "--batch-size 4 --width 16 --workers 2"),
    Row(
        "vae",
        "b1024",
        "--batch-size 1024 --width 4096 --workers 12",
        "--batch-size 4 --width 16 --workers 2",
        heavy=True,
    ),
)


def chosen(words: list[str]) -> tuple[Row, ...]:
    """Rows by name or loop, or all of `tuning`, `held-out`, `all`."""
    groups = {"tuning": [r for r in ROWS if r.tuning], "held-out": [r for r in ROWS if not r.tuning], "all": ROWS}
    found: list[Row] = []
    for word in words:
        rows = groups.get(word) or [row for row in ROWS if word in (row.name, row.loop)]
        if not rows:
            raise SystemExit(f"no row is called {word}; there are: {', '.join(row.name for row in ROWS)}")
        found += [row for row in rows if row not in found]
    return tuple(found)
