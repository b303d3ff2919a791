"""Eight training loops, each plain and as somebody who knows it writes it by hand: `python gpu_loops.py NAME`.

With LOOP_BY_HAND=1 in the environment the loop is the hand-made one; with LOOP_COMPILE=0 besides, it is not compiled.
Both do the same work per step, on the same data.
LOOP_LOCK names a file: from its fifth step on a loop has the GPU for itself, where all that share it name that file.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

BY_HAND = os.environ.get("LOOP_BY_HAND") == "1"
COMPILE = os.environ.get("LOOP_COMPILE") != "0"
TURN = os.open(os.environ["LOOP_LOCK"], os.O_RDONLY) if "LOOP_LOCK" in os.environ else None
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS = 20_000
WIDTH = 1024 if DEVICE.type == "cuda" else 16
"""Of the GAN, which a processor can run too: the harness is tested with it."""

if BY_HAND:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True


def steps() -> Iterator[int]:
    """Numbers of steps; what is built, loaded and compiled before the fifth may run beside another loop."""
    for step in range(STEPS):
        if step == 4 and TURN is not None:
            fcntl.flock(TURN, fcntl.LOCK_EX)
        yield step


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [3, 64, 128, 256, 512]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            layers += [nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images).mean((2, 3)))


class Transformer(nn.Module):
    """A GPT over tokens, or a ViT over patches."""

    def __init__(self, width: int, depth: int, vocabulary: int | None) -> None:
        super().__init__()
        self.causal = vocabulary is not None
        self.embed = nn.Embedding(vocabulary, width) if vocabulary else nn.Linear(3 * 16 * 16, width)
        block = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary or 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.causal:
            return self.head(self.blocks(self.embed(inputs)).mean(1))
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=inputs.device)
        return self.head(self.blocks(self.embed(inputs), mask, is_causal=True))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5000, 512)
        self.lstm = nn.LSTM(512, 1024, 2, batch_first=True)
        self.head = nn.Linear(1024, 5000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(tokens))[0])


def autocast() -> contextlib.AbstractContextManager[object]:
    return torch.autocast(DEVICE.type, torch.bfloat16) if BY_HAND else contextlib.nullcontext()


def prepared(model: nn.Module, *, images: bool = False, compiled: bool = True) -> nn.Module:
    model = model.to(DEVICE)
    if BY_HAND and images:
        model = model.to(memory_format=torch.channels_last)
    if BY_HAND and COMPILE and compiled:
        return torch.compile(model)  # model.compile() makes no graph of a Sequential
    return model


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-4, **({"fused": True} if BY_HAND else {}))


def classify(model: nn.Module, batches: Iterator[tuple[torch.Tensor, torch.Tensor]], after: Callable[[], None]) -> None:
    optimizer = adam(model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        with autocast():
            logits = model(inputs)
            loss = functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        after()


def fixed(shape: tuple[int, ...], classes: int, *, tokens: bool = False) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The same four batches on the device, over and over."""
    made = torch.Generator(DEVICE).manual_seed(1)
    pool = []
    for _ in range(4):
        if tokens:
            inputs = torch.randint(classes, shape, device=DEVICE, generator=made)
            pool.append((inputs, inputs.roll(-1, 1)))
        else:
            targets = torch.randint(classes, shape[:1], device=DEVICE, generator=made)
            images = torch.randn(shape, device=DEVICE, generator=made)
            if BY_HAND and images.dim() == 4:
                images = images.contiguous(memory_format=torch.channels_last)
            pool.append((images, targets))
    for step in steps():
        yield pool[step % 4]


def nothing() -> None:
    """No line of the host after the step."""


def conv() -> None:
    classify(prepared(Conv(), images=True), fixed((128, 3, 64, 64), 10), nothing)


def vit() -> None:
    classify(prepared(Transformer(512, 8, None)), fixed((64, 196, 768), 10), nothing)


def gpt() -> None:
    classify(prepared(Transformer(512, 8, 8000)), fixed((16, 256), 8000, tokens=True), nothing)


def lstm() -> None:
    classify(prepared(Recurrent(), compiled=False), fixed((64, 64), 5000, tokens=True), nothing)


def gan() -> None:
    maker = prepared(
        nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())))
    )
    critic = prepared(
        nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(WIDTH, WIDTH), nn.LeakyReLU(0.2))), nn.Linear(WIDTH, 1))
    )
    makes, criticizes = adam(maker), adam(critic)
    real = torch.randn(512, WIDTH, device=DEVICE)
    for _ in steps():
        noise = torch.randn(512, WIDTH, device=DEVICE)
        criticizes.zero_grad()
        with autocast():
            fake = maker(noise)
            loss = functional.softplus(critic(fake.detach())).mean() + functional.softplus(-critic(real)).mean()
        loss.backward()
        criticizes.step()
        makes.zero_grad()
        with autocast():
            loss = functional.softplus(-critic(fake)).mean()
        loss.backward()
        makes.step()


class Decoded(Dataset[tuple[torch.Tensor, int]]):
    """Each sample takes about a millisecond of a processor."""

    def __len__(self) -> int:
        return 64 * STEPS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        made = torch.Generator().manual_seed(index)
        image = torch.randn(3, 96, 96, generator=made)
        for _ in range(4):
            image = functional.avg_pool2d(image, 3, 1, 1) + 0.1 * image.sin()
        return image, index % 10


def loader() -> None:
    options = {"num_workers": 12, "pin_memory": True, "persistent_workers": True} if BY_HAND else {}
    batches = DataLoader(Decoded(), 64, **options)  # type: ignore[arg-type]
    turns = zip(steps(), batches, strict=False)
    moved = ((x.to(DEVICE, non_blocking=BY_HAND), y.to(DEVICE, non_blocking=BY_HAND)) for _, (x, y) in turns)
    torch.set_num_threads(1)
    classify(prepared(Conv(), images=True, compiled=False), moved, nothing)


def host_line() -> None:
    def collect() -> None:
        if not BY_HAND:
            gc.collect()

    classify(prepared(Transformer(256, 4, None)), fixed((32, 64, 768), 10), collect)


def fine() -> None:
    """Large products in bfloat16, compiled, with a fused optimizer: nothing is left to gain."""
    model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(4))).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=DEVICE.type == "cuda")
    batch = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    for _ in steps():
        optimizer.zero_grad()
        model(batch).float().pow(2).mean().backward()
        optimizer.step()


LOOPS = {one.__name__: one for one in (conv, vit, gpt, lstm, gan, loader, host_line, fine)}

if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        LOOPS[sys.argv[1]]()
    finally:
        if TURN is not None:
            fcntl.flock(TURN, fcntl.LOCK_UN)  # also for workers, which have it too
