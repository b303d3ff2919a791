"""Training loops with one planted owner each, by a second outsider, who had built nothing of the tool either.

    python gpu_others.py PLANT - plain|mended|both STEPS

As `gpu_outside.py`, with other models and other habits. `EXPECTED` was written before any of them had run on a GPU.
Without a GPU everything is small: the loops can be tried there, not measured.
"""

from __future__ import annotations

import itertools
import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

from tests.owners import gpu_untuned as loops
from tests.owners.gpu_untuned import AMPLE, DEVICE, ON_GPU, Clock, encoder

EXPECTED = {
    "tabular": 0.60,
    "sinusoid": 0.40,
    "replay": 0.55,
    "hooked": 0.07,
    "maxnorm": 0.28,
    "grids": 0.18,
    "pairs": 0.70,
    "packing": 0.18,
}
"""The share of a step that was thought to be lost to each plant; of `grids`, of the mean step."""


def plain() -> bool:
    """Whether this turn is that of the loop as it is, and not of its twin."""
    return loops.PLAIN


def uploaded(values: torch.Tensor) -> torch.Tensor:
    """The values on the GPU, from pinned memory: nothing waits."""
    return values.pin_memory().to(DEVICE, non_blocking=True) if ON_GPU else values


def stepped(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


# ------------------------------------------------------------------------------------------------ tables


class Features(nn.Module):
    """A transformer whose tokens are the columns of a table."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.scale, self.shift = (nn.Parameter(torch.randn(columns, width)) for _ in range(2))
        self.body, self.head = encoder(width, 3), nn.Linear(width, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(rows[:, :, None] * self.scale + self.shift).mean(1))


def tabular(clock: Clock) -> None:
    """A transformer over a table in memory, whose rows are fetched one by one and put together again."""
    model = Features(24, 64).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    count, size = (262_144, 1024) if ON_GPU else (1024, 64)
    rows = TensorDataset(torch.randn(count, 24), torch.randint(2, (count,)))
    if plain():
        loader = DataLoader(rows, size, shuffle=True, pin_memory=ON_GPU)  # plant: tabular
    else:
        loader = DataLoader(rows, None, sampler=BatchSampler(RandomSampler(rows), size, False), pin_memory=ON_GPU)
    for _ in range(AMPLE):
        for values, labels in loader:  # plant: tabular
            values, labels = values.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
            stepped(optimizer, functional.cross_entropy(model(values), labels))
            clock.tick()


# ------------------------------------------------------------------------------------------------ texts


def sinusoids(length: int, width: int) -> torch.Tensor:
    """How each place in a text is told, number by number."""
    rows = []
    for place in range(length):  # plant: sinusoid
        rows.append([place / 10000 ** (2 * (part // 2) / width) for part in range(width)])  # plant: sinusoid
    values = np.array(rows)  # plant: sinusoid
    values[:, 0::2] = np.sin(values[:, 0::2])  # plant: sinusoid
    values[:, 1::2] = np.cos(values[:, 1::2])  # plant: sinusoid
    return torch.tensor(values, dtype=torch.float32)  # plant: sinusoid


class Texts(nn.Module):
    """A classifier of texts that are told the places of their words."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(4000, width), encoder(width, 4), nn.Linear(width, 8)
        self.register_buffer("places", sinusoids(length, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded, places = self.embed(tokens), self.places
        if plain():
            places = sinusoids(*embedded.shape[1:]).to(tokens.device)  # plant: sinusoid
        return self.head(self.body(embedded + places).mean(1))


def sinusoid(clock: Clock) -> None:
    """A classifier of texts that works out in each step where a word is."""
    length, width = (96, 256) if ON_GPU else (12, 32)
    model = Texts(length, width).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    tokens = torch.randint(4000, (32, length), device=DEVICE)
    labels = torch.randint(8, (32,), device=DEVICE)
    for _ in range(AMPLE):
        stepped(optimizer, functional.cross_entropy(model(tokens), labels))
        clock.tick()


class Block(nn.Module):
    """Attention where the mask lets it, and a layer for each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 32
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        asked = self.asked(self.before(tokens)).unflatten(2, (3, self.heads, 32)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*asked.unbind(0), attn_mask=mask[:, None])
        tokens = tokens + self.mixed(seen.transpose(1, 2).flatten(2))
        return tokens + self.inner(self.between(tokens))


class Packed(nn.Module):
    """A GPT over rows that hold several documents each."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(4000, width), nn.Linear(width, 4000)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        seen = self.embed(tokens)
        for block in self.blocks:
            seen = block(seen, mask)
        return self.head(seen)


def documents(draw: random.Random, length: int) -> list[int]:
    """The lengths of documents that fill a row."""
    ends = sorted({*draw.sample(range(1, length), 4), length})
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def packing(clock: Clock) -> None:
    """A GPT whose documents must not see each other: the mask is filled block by block on the host."""
    count, length = (16, 256) if ON_GPU else (2, 24)
    model = Packed(256 if ON_GPU else 32, 4).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    draw = random.Random(0)
    batches = [[documents(draw, length) for _ in range(count)] for _ in range(8)]
    tokens = torch.randint(4000, (count, length + 1), device=DEVICE)
    earlier = torch.ones(length, length, dtype=torch.bool, device=DEVICE).tril()
    for step in range(AMPLE):
        rows = batches[step % 8]
        if plain():
            mask = torch.zeros(count, length, length, dtype=torch.bool)  # plant: packing
            for row, lengths in enumerate(rows):  # plant: packing
                begin = 0  # plant: packing
                for size in lengths:  # plant: packing
                    block = torch.ones(size, size, dtype=torch.bool).tril()  # plant: packing
                    mask[row, begin : begin + size, begin : begin + size] = block  # plant: packing
                    begin += size  # plant: packing
            mask = mask.to(DEVICE)  # plant: packing
        else:
            flat = torch.tensor([size for lengths in rows for size in lengths])
            which = uploaded(torch.repeat_interleave(flat).view(count, length))
            mask = (which[:, :, None] == which[:, None]) & earlier
        logits = model(tokens[:, :-1], mask)
        stepped(optimizer, functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
        clock.tick()


# ------------------------------------------------------------------------------------------------ reinforcement


def values_of(width: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 4),
    ).to(DEVICE)


def replay(clock: Clock) -> None:
    """Q-learning from a large memory, of which numpy draws by priority."""
    online, target = values_of(256), values_of(256)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    count, size, draw = (250_000 if ON_GPU else 3000), 256, np.random.default_rng(0)
    states, later = torch.randn(2, count, 8, device=DEVICE).unbind(0)
    actions, rewards = torch.randint(4, (count, 1), device=DEVICE), torch.rand(count, device=DEVICE)
    priorities = np.ones(count)
    there = torch.ones(count, dtype=torch.float64, device=DEVICE)
    for _ in range(AMPLE):
        if plain():
            chances = priorities / priorities.sum()  # plant: replay
            chosen = draw.choice(count, size, p=chances)  # plant: replay
            rare = (count * chances[chosen]) ** -0.4  # plant: replay
            index = torch.as_tensor(chosen).to(DEVICE)  # plant: replay
            weights = torch.as_tensor(rare / rare.max(), dtype=torch.float32).to(DEVICE)  # plant: replay
        else:
            sums = there.cumsum(0)
            index = torch.searchsorted(sums, uploaded(torch.from_numpy(draw.random(size))) * sums[-1], right=True)
            rare = (count * there[index] / sums[-1]) ** -0.4
            weights = (rare / rare.max()).float()
        with torch.no_grad():
            wanted = rewards[index] + 0.99 * target(later[index]).max(1).values
        off = online(states[index]).gather(1, actions[index])[:, 0] - wanted
        stepped(optimizer, (weights * off.square()).mean())
        if plain():
            priorities[chosen] = off.detach().abs().cpu().numpy() + 1e-3  # plant: replay
        else:
            there[index] = off.detach().abs().double() + 1e-3
        torch._foreach_lerp_(list(map(torch.detach, target.parameters())), list(online.parameters()), 0.005)
        clock.tick()


# ------------------------------------------------------------------------------------------------ images


class Stage(nn.Sequential):
    """Two convolutions of one width with their norms."""

    def __init__(self, width: int) -> None:
        parts = ((nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()) for _ in "12")
        super().__init__(*(part for both in parts for part in both))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + super().forward(images)


def hooked(clock: Clock) -> None:
    """A convolutional net that keeps the GPU busy; a hook takes some features to the host for their statistics."""
    width, history = (128 if ON_GPU else 8), []

    def watch(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if plain():
            seen = output[:4].detach().cpu()  # plant: hooked
            history.append((seen.mean().item(), seen.std().item(), (seen < 0.1).float().mean().item()))  # plant: hooked
        else:
            seen = output[:4].detach()
            history.append(torch.stack((seen.mean(), seen.std(), (seen < 0.1).float().mean())))
        del history[:-100]

    enter = nn.Conv2d(3, width, 4, 4)
    stages = [Stage(width) for _ in range(6 if ON_GPU else 2)]
    model = nn.Sequential(enter, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100)).to(DEVICE)
    stages[-1].register_forward_hook(watch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    side, count = (128, 96) if ON_GPU else (32, 8)
    images, labels = torch.rand(count, 3, side, side, device=DEVICE), torch.randint(100, (count,), device=DEVICE)
    for _ in range(AMPLE):
        stepped(optimizer, functional.cross_entropy(model(images), labels))
        clock.tick()


def maxnorm(clock: Clock) -> None:
    """A critic of a GAN whose weights are kept short, one layer after the other."""
    width, depth = (256, 24) if ON_GPU else (16, 4)
    layers = [nn.Linear(width, width) for _ in range(depth)]
    critic = nn.Sequential(*(part for layer in layers for part in (layer, nn.LeakyReLU(0.2))), nn.Linear(width, 1))
    critic = critic.to(DEVICE)
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
    true, false = torch.randn(2, 512 if ON_GPU else 8, width, device=DEVICE).unbind(0)
    for _ in range(AMPLE):
        stepped(optimizer, critic(false).mean() - critic(true).mean())
        with torch.no_grad():
            if plain():
                for layer in layers:  # plant: maxnorm
                    norms = layer.weight.norm(2, 1, keepdim=True)  # plant: maxnorm
                    layer.weight.mul_(norms.clamp(max=0.5) / (norms + 1e-7))  # plant: maxnorm
            else:
                together = torch.stack([layer.weight for layer in layers])
                norms = together.norm(2, 2, keepdim=True)
                together.mul_(norms.clamp(max=0.5) / (norms + 1e-7))
                torch._foreach_copy_([layer.weight for layer in layers], list(together.unbind()))
        clock.tick()


class Autoencoder(nn.Module):
    """Down to few numbers and up again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = (3, width, 2 * width, 4 * width)
        down = [nn.Conv2d(*pair, 4, 2, 1) for pair in itertools.pairwise(widths)]
        up = [nn.ConvTranspose2d(after, before, 4, 2, 1) for before, after in itertools.pairwise(widths)]
        self.down = nn.Sequential(*(part for one in down for part in (one, nn.SiLU())))
        self.up = nn.Sequential(*(part for one in up[::-1] for part in (nn.SiLU(), one)))
        self.inner = nn.Conv2d(4 * width, 8 * width, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.inner(self.down(images)).chunk(2, 1)
        kept = mean + spread.exp() * 0.5
        return torch.sigmoid(self.up(kept)), (mean.square() + spread.exp() - spread).mean()


def save_grid(images: torch.Tensor, path: Path) -> None:
    """The images side by side, eight in a row, as a PNG."""
    values = images.detach().mul(255).byte().cpu()  # plant: grids
    grid = values.unflatten(0, (-1, 8)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)  # plant: grids
    lines = functional.pad(grid.flatten(1), (1, 0)).numpy().tobytes()  # plant: grids
    head = struct.pack(">IIBBBBB", grid.shape[1], grid.shape[0], 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))  # plant: grids
    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for name, part in parts:
            file.write(struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part)))


def grids(clock: Clock) -> None:
    """An autoencoder that shows its images every twentieth step, where every five-hundredth would do."""
    model = Autoencoder(64 if ON_GPU else 4).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    images = torch.rand(128 if ON_GPU else 16, 3, 64, 64, device=DEVICE)
    half, every = (32 if ON_GPU else 8), (20 if plain() else 500)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, AMPLE):
            again, far = model(images)
            stepped(optimizer, functional.mse_loss(again, images) + 0.01 * far)
            if step % every == 0:
                save_grid(torch.cat((images[:half], again[:half])), Path(folder) / "last.png")  # plant: grids
            clock.tick()


def pair_costs(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How far each anchor is from those of its class, anchor by anchor."""
    costs, places = [], torch.arange(len(labels), device=labels.device)
    for anchor in range(len(labels)):  # plant: pairs
        others = places != anchor  # plant: pairs
        alike = others & (labels == labels[anchor])  # plant: pairs
        if alike.sum() == 0:  # plant: pairs
            continue
        row = scores[anchor]  # plant: pairs
        costs.append(row[others].logsumexp(0) - row[alike].mean())  # plant: pairs
    return torch.stack(costs).mean()


def pair_costs_together(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The same of all anchors at once."""
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    alike = (labels[:, None] == labels) & ~itself
    count = alike.sum(1)
    costs = scores.masked_fill(itself, -torch.inf).logsumexp(1) - (scores * alike).sum(1) / count.clamp(min=1)
    return (costs * (count > 0)).sum() / (count > 0).sum()


def pairs(clock: Clock) -> None:
    """A net whose features of one class are drawn together, as supervised contrastive learning does it."""
    width, count = (64, 48) if ON_GPU else (8, 12)
    enter = nn.Conv2d(3, width, 4, 4)
    model = nn.Sequential(enter, *(Stage(width) for _ in range(6)), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    images = torch.rand(count, 3, 64, 64, device=DEVICE)
    labels = torch.arange(count, device=DEVICE) // 4
    for _ in range(AMPLE):
        features = functional.normalize(model(images))
        scores = features @ features.t() / 0.1
        stepped(optimizer, (pair_costs if plain() else pair_costs_together)(scores, labels))  # plant: pairs
        clock.tick()


# ------------------------------------------------------------------------------------------------ nothing is planted


class Speech(Dataset):
    """Batches of spectra, each made whole."""

    def __init__(self) -> None:
        self.spectra = torch.rand((64, 264, 80) if ON_GPU else (2, 24, 80))

    def __len__(self) -> int:
        return AMPLE

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.spectra[:, index % 8 : self.spectra.shape[1] - 8 + index % 8].contiguous()


def healthy_speech(clock: Clock) -> None:
    """A masked model of speech that keeps the GPU busy, with a loader, a schedule and a log as they should be."""
    width = 1024 if ON_GPU else 64
    enter, body, leave = (nn.Linear(80, width), encoder(width, 8 if ON_GPU else 1), nn.Linear(width, 80))
    model = nn.Sequential(enter, body, leave).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=ON_GPU)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-4, total_steps=AMPLE)
    total = torch.zeros((), device=DEVICE)
    for step, spectra in enumerate(DataLoader(Speech(), None, num_workers=4, pin_memory=ON_GPU)):
        spectra = spectra.to(DEVICE, non_blocking=True)
        hidden = (torch.rand(spectra.shape[:2], device=DEVICE) < 0.3)[:, :, None]
        with torch.autocast(DEVICE.type, torch.bfloat16):
            said = model(spectra * ~hidden)
        loss = ((said.float() - spectra).square() * hidden).mean()
        stepped(optimizer, loss)
        schedule.step()
        total += loss.detach()
        if step % 100 == 99:
            print(f"{step} {total.item() / 100:.4f}", file=sys.stderr)
            total.zero_()
        clock.tick()


loops.LOOPS.clear()
loops.LOOPS.update(
    {one.__name__: one for one in (tabular, sinusoid, replay, hooked, maxnorm, grids, pairs, packing, healthy_speech)}
)

if __name__ == "__main__":
    loops.run()
