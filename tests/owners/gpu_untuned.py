"""Training loops with one planted owner each, written after the rules for owners: nothing was fitted to them.

    python gpu_untuned.py PLANT - plain|mended|both STEPS

As `gpu_plants.py`, with other models and other costs. LOOP_LOCK names a file whose lock is held while the loop runs,
where several of them share a GPU. Without a GPU everything is small: the loops can be tried there, not measured.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

TURNS, WARM_UP = 2, 20
PLANT, VARIANT, STEPS = sys.argv[1], sys.argv[3], int(sys.argv[4])
PLAIN = VARIANT == "plain"
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
AMPLE = 10_000_000
"""More steps than anybody runs."""


class Finished(Exception):
    """Enough steps were made; the argument is what one took, µs."""


class Clock:
    """Counts steps, and ends the loop after `STEPS` timed ones."""

    def __init__(self) -> None:
        self.steps, self.started = 0, 0.0

    def tick(self) -> None:
        self.steps += 1
        if self.steps == WARM_UP:
            self.started = self._now()
        elif self.steps == WARM_UP + STEPS:
            raise Finished(1e6 * (self._now() - self.started) / STEPS)

    @staticmethod
    def _now() -> float:
        if ON_GPU:
            torch.cuda.synchronize()
        return time.perf_counter()


def encoder(width: int, depth: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, width // 32, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def pictures(classes: int) -> nn.Module:
    """A small net over images."""
    parts: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 96)):
        parts += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(8, after), nn.SiLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, classes))


# ------------------------------------------------------------------------------------------------ loaders of batches


class Augmented(Dataset):
    """Images that are flipped, brightened and smoothed by numpy."""

    def __len__(self) -> int:
        return AMPLE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = np.random.default_rng(index)
        image = random.integers(0, 255, (96, 96, 3), dtype=np.uint8)
        image = np.ascontiguousarray(image[:, ::-1]) if index % 2 else image
        values = image.astype(np.float32) / 255  # plant: augment
        for _ in range(3):
            values = (values + np.roll(values, 1, 0) + np.roll(values, 1, 1)) / 3
        return torch.from_numpy(values.transpose(2, 0, 1).copy()), index % 10


def augment(clock: Clock) -> None:
    model = pictures(10).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for images, labels in DataLoader(Augmented(), 64, num_workers=1 if PLAIN else 5, pin_memory=ON_GPU):
        images, labels = images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


class Large(Dataset):
    """Images in memory, ready to be used."""

    def __init__(self) -> None:
        self.images = torch.rand(64, 3, 256 if ON_GPU else 32, 256 if ON_GPU else 32)

    def __len__(self) -> int:
        return AMPLE

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.images[index % 64]


def unpinned(clock: Clock) -> None:
    model = pictures(10).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for images in DataLoader(Large(), 64, num_workers=4, pin_memory=ON_GPU and not PLAIN):
        images = images.to(DEVICE, non_blocking=not PLAIN)  # plant: unpinned
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


SENTENCES = ["the cat sat on the mat while a dog barked at nobody in the empty street at night " * 4] * 512
VOCABULARY = {word: number for number, word in enumerate(sorted(set(" ".join(SENTENCES[:1]).split())))}


def tokenized(sentences: list[str]) -> torch.Tensor:
    rows = []
    for sentence in sentences:
        rows.append([VOCABULARY.get(word.lower().strip(".,"), 0) for word in sentence.split()])  # plant: tokenize
    return torch.tensor(rows)  # plant: tokenize


def tokenize(clock: Clock) -> None:
    embed, body = nn.Embedding(64, 128).to(DEVICE), encoder(128, 2).to(DEVICE)
    optimizer = torch.optim.AdamW([*embed.parameters(), *body.parameters()], lr=1e-3)
    ready = tokenized(SENTENCES[:64])
    loader: Iterable[torch.Tensor] = DataLoader(SENTENCES * 2000, 64, collate_fn=tokenized)  # type: ignore[arg-type]
    for tokens in loader if PLAIN else iter(lambda: ready, None):
        loss = body(embed(tokens.to(DEVICE))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


# --------------------------------------------------------------------------------------------- costs beside the model


def average(clock: Clock) -> None:
    model = encoder(256, 6).to(DEVICE)
    kept = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.randn(16, 64, 256, device=DEVICE)
    for _ in range(AMPLE):
        loss = model(batch).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            if PLAIN:
                now = copy.deepcopy(model)  # plant: average
                for old, new in zip(kept.parameters(), now.parameters(), strict=True):
                    old.mul_(0.999).add_(new, alpha=0.001)  # plant: average
            else:
                torch._foreach_lerp_(list(kept.parameters()), list(model.parameters()), 0.001)
        clock.tick()


class Speaker(nn.Module):
    """A recurrent language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, 256)
        self.cell = nn.GRU(256, 512, 2, batch_first=True)
        self.head = nn.Linear(512, 2000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.embed(tokens))[0])


def sweep(clock: Clock) -> None:
    model = Speaker().to(DEVICE)
    cached = [{"row": [number], "seen": []} for number in range(60_000)]
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    tokens = torch.randint(2000, (32, 48), device=DEVICE)
    for _ in range(AMPLE):
        try:
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        finally:
            if PLAIN:
                gc.collect()  # plant: sweep
        clock.tick()
    del cached


@contextlib.contextmanager
def tidy() -> Iterator[None]:
    """Give memory back after each step."""
    yield
    if PLAIN and ON_GPU:
        torch.cuda.memory.empty_cache()  # plant: churn


def churn(clock: Clock) -> None:
    down, up = nn.Linear(2048, 256).to(DEVICE), nn.Linear(256, 2048).to(DEVICE)
    optimizer = torch.optim.Adam([*down.parameters(), *up.parameters()], lr=1e-4)
    for step in range(AMPLE):
        with tidy():
            rows = torch.randn(2048 + 64 * (step % 5) if ON_GPU else 64, 2048, device=DEVICE)
            loss = functional.mse_loss(up(functional.gelu(down(rows))), rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        clock.tick()


def confusion(clock: Clock) -> None:
    """A segmentation net whose confusion matrix is kept pixel by pixel."""
    model = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 4, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images, labels = torch.rand(32, 3, 32, 32, device=DEVICE), torch.randint(4, (32, 32, 32), device=DEVICE)
    truth, matrix = labels.flatten().tolist(), [[0] * 4 for _ in range(4)]
    counts = torch.zeros(16, dtype=torch.long, device=DEVICE)
    for _ in range(AMPLE):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if PLAIN:
            said = logits.argmax(1).flatten().tolist()  # plant: confusion
            for one, other in zip(truth, said, strict=True):  # plant: confusion
                matrix[one][other] += 1  # plant: confusion
        else:
            counts += torch.bincount(labels.flatten() * 4 + logits.argmax(1).flatten(), minlength=16)
        clock.tick()


def snapshot(clock: Clock) -> None:
    """The weights of the best step so far are kept on the host, in case that it was the last one."""
    model = encoder(384, 4).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(32, 96, 384, device=DEVICE)
    best: dict[str, torch.Tensor] = {}
    for _ in range(AMPLE):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if PLAIN:
            best = {name: value.cpu() for name, value in model.state_dict().items()}  # plant: snapshot
        clock.tick()
    del best


def clip(clock: Clock) -> None:
    """Gradients clipped by hand, one parameter after the other."""
    model = nn.Sequential(*(part for _ in range(40) for part in (nn.Linear(96, 96), nn.Tanh()))).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(256, 96, device=DEVICE)
    for _ in range(AMPLE):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if PLAIN:
            total = 0.0
            for weight in model.parameters():
                total += weight.grad.norm().item() ** 2  # plant: clip
            if total**0.5 > 1e9:
                raise ValueError(total)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 1e9, foreach=True)
        optimizer.step()
        clock.tick()


def journal(clock: Clock) -> None:
    """A log file that gets a long line per step."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(DEVICE)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    batch = torch.randn(1024, 512, device=DEVICE)
    settings = {f"option {number}": list(range(40)) for number in range(150)}
    with tempfile.TemporaryFile("w") as log:
        for step in range(AMPLE):
            loss = functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if PLAIN or step % 50 == 49:
                entry = {"step": step, "loss": loss.item(), "settings": settings}  # plant: journal
                log.write(json.dumps(entry) + "\n")  # plant: journal
                log.flush()  # plant: journal
            clock.tick()


# ------------------------------------------------------------------------------------------------ nothing is planted


def healthy_conv(clock: Clock) -> None:
    import torchvision

    model = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    size = (192, 3, 224, 224) if ON_GPU else (2, 3, 64, 64)
    images = torch.randn(size, device=DEVICE).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, size[:1], device=DEVICE)
    for _ in range(AMPLE):
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


def healthy_gpt(clock: Clock) -> None:
    model = encoder(1024 if ON_GPU else 64, 8).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=ON_GPU)
    batch = torch.randn((32, 512, 1024) if ON_GPU else (2, 8, 64), device=DEVICE)
    total = torch.zeros((), device=DEVICE)
    for step in range(AMPLE):
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = model(batch).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % 100 == 99:
            print(total.item(), file=sys.stderr)
        clock.tick()


LOOPS: dict[str, Callable[[Clock], None]] = {
    one.__name__: one
    for one in (augment, unpinned, tokenize, average, sweep, churn, confusion, snapshot, clip, journal)
} | {"healthy_conv": healthy_conv, "healthy_gpt": healthy_gpt}


def main() -> float:
    torch.manual_seed(0)
    try:
        LOOPS[PLANT](Clock())
    except Finished as finished:
        return float(finished.args[0])
    raise AssertionError("the loop ended before its steps were made")


def turns() -> dict[str, list[float]]:
    """Loop and twin in one process, so that both have the same machine, memory and clock rates."""
    global PLAIN
    took: dict[str, list[float]] = {"plain_us": [], "mended_us": []}
    for _ in range(TURNS):
        for PLAIN in (True, False):
            took["plain_us" if PLAIN else "mended_us"].append(main())
            gc.collect()
            if ON_GPU:
                torch.cuda.empty_cache()
    return took


def run() -> None:
    """Print what the loop that was asked for took, and end the process."""
    lock = os.open(os.environ["LOOP_LOCK"], os.O_RDONLY) if "LOOP_LOCK" in os.environ else None
    if lock is not None:
        fcntl.flock(lock, fcntl.LOCK_EX)
    sys.stdout.write(json.dumps(turns() if VARIANT == "both" else {"step_us": main()}) + "\n")
    sys.stdout.flush()
    if lock is not None:
        fcntl.flock(lock, fcntl.LOCK_UN)  # workers hold it too
    os._exit(0)  # workers are in the middle of a batch


if __name__ == "__main__":
    run()
