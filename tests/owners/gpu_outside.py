"""Training loops with one planted owner each, by somebody who had built nothing of the tool and read nothing of it.

    python gpu_outside.py PLANT - plain|mended|both STEPS

As `gpu_untuned.py`, whose clock they use: models and habits of public training scripts, each with the twin that a
careful engineer would write, which computes the same. `EXPECTED` was written before any of them had run on a GPU.
Without a GPU everything is small: the loops can be tried there, not measured.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from tests.owners import gpu_untuned as loops
from tests.owners.gpu_untuned import AMPLE, DEVICE, ON_GPU, Clock, encoder

EXPECTED = {
    "crops": 0.20,
    "checkpoint": 0.15,
    "reshuffle": 0.50,
    "edges": 0.15,
    "ranking": 0.45,
    "finite": 0.06,
    "mining": 0.60,
    "rollout": 0.55,
}
"""The share of a step that was thought to be lost to each plant; of `checkpoint`, of the mean step."""


def plain() -> bool:
    """Whether this turn is that of the loop as it is, and not of its twin."""
    return loops.PLAIN


def uploaded(values: list[tuple[int, ...]]) -> torch.Tensor:
    """The values on the GPU, from pinned memory: nothing waits."""
    tensor = torch.tensor(values)
    return tensor.pin_memory().to(DEVICE, non_blocking=True) if ON_GPU else tensor


def stepped(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


# ------------------------------------------------------------------------------------------------ images


class Vision(nn.Module):
    """A vision transformer."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.places = nn.Parameter(torch.zeros(1, 64, width))
        self.body, self.head = encoder(width, depth), nn.Linear(width, 100)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.body(tokens).mean(1))


def windows(images: torch.Tensor, places: list[tuple[int, ...]]) -> torch.Tensor:
    """All crops at once: rows and columns of each image by index, the columns backwards where it is turned."""
    top, left, turned = uploaded(places).unbind(1)
    across = torch.arange(128, device=DEVICE)
    rows = top[:, None] + across
    columns = left[:, None] + torch.where(turned[:, None] == 1, 127 - across, across)
    which = torch.arange(len(images), device=DEVICE)[:, None, None, None]
    channel = torch.arange(3, device=DEVICE)[None, :, None, None]
    return images[which, channel, rows[:, None, :, None], columns[:, None, None, :]]


def crops(clock: Clock) -> None:
    """A vision transformer whose images are cropped and flipped one by one, on the GPU."""
    model = Vision(192, 6 if ON_GPU else 1).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    count, draw = (128 if ON_GPU else 4), random.Random(0)
    images = torch.rand(count, 3, 144, 144, device=DEVICE)
    labels = torch.randint(100, (count,), device=DEVICE)
    for _ in range(AMPLE):
        places = [(draw.randrange(17), draw.randrange(17), draw.randrange(2)) for _ in range(count)]
        if plain():
            parts = []
            for image, (top, left, turned) in zip(images, places, strict=True):  # plant: crops
                part = image[:, top : top + 128, left : left + 128]  # plant: crops
                parts.append(torch.flip(part, [2]) if turned else part)  # plant: crops
            batch = torch.stack(parts)  # plant: crops
        else:
            batch = windows(images, places)
        stepped(optimizer, functional.cross_entropy(model(batch), labels))
        clock.tick()


class Double(nn.Sequential):
    """Two convolutions with their norms."""

    def __init__(self, before: int, after: int) -> None:
        parts: list[nn.Module] = []
        for width in (before, after):
            parts += [nn.Conv2d(width, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        super().__init__(*parts)


class UNet(nn.Module):
    """Down three times and up again, with what was seen on the way down."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(Double(before, after) for before, after in itertools.pairwise([3, *widths]))
        self.wider = nn.ModuleList(nn.ConvTranspose2d(2 * one, one, 2, stride=2) for one in widths[2::-1])
        self.up = nn.ModuleList(Double(2 * one, one) for one in widths[2::-1])
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = []
        for number, block in enumerate(self.down):
            images = block(functional.max_pool2d(images, 2) if number else images)
            seen.append(images)
        for wider, block, skip in zip(self.wider, self.up, seen[2::-1], strict=True):
            images = block(torch.cat((skip, wider(images)), 1))
        return self.head(images)


def checkpoint(clock: Clock) -> None:
    """A U-Net that is saved with its optimizer every tenth step, where every five-hundredth would do."""
    model = UNet(24 if ON_GPU else 4).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    side = 128 if ON_GPU else 32
    images, masks = torch.rand(16, 3, side, side, device=DEVICE), torch.randint(2, (16, side, side), device=DEVICE)
    every = 10 if plain() else 500
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, AMPLE):
            stepped(optimizer, functional.cross_entropy(model(images), masks))
            if step % every == 0:
                state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, f"{folder}/last.pt")  # plant: checkpoint
            clock.tick()


def mining(clock: Clock) -> None:
    """A detection head whose hardest negatives are sought in Python, as SSD has three for each object."""
    model = nn.Sequential(
        *(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU()),
        *(nn.Conv2d(128, 256, 3, 2, 1), nn.ReLU(), nn.Conv2d(256, 4 * 21, 3, padding=1)),
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images = torch.rand(16 if ON_GPU else 2, 3, 128, 128, device=DEVICE)
    anchors = len(images) * 16 * 16 * 4
    truth = torch.where(torch.rand(anchors) < 0.02, torch.randint(1, 21, (anchors,)), 0).to(DEVICE)
    positive, wanted = truth > 0, 3 * int((truth > 0).sum())
    for _ in range(AMPLE):
        logits = model(images).unflatten(1, (4, 21)).movedim(2, 4).flatten(0, 3)
        costs = functional.cross_entropy(logits, truth, reduction="none")
        negatives = costs.detach().masked_fill(positive, -1.0)
        if plain():
            values = negatives.tolist()  # plant: mining
            order = sorted(range(len(values)), key=values.__getitem__, reverse=True)  # plant: mining
            hard = torch.tensor(order[:wanted], device=DEVICE)  # plant: mining
        else:
            hard = negatives.topk(wanted).indices
        stepped(optimizer, ((costs * positive).sum() + costs[hard].sum()) / wanted)
        clock.tick()


# ------------------------------------------------------------------------------------------------ sequences


class Reader(nn.Module):
    """A recurrent classifier of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5000, 128)
        self.cell = nn.LSTM(128, 256, 2, batch_first=True)
        self.head = nn.Linear(256, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.embed(tokens))[0][:, -1])


def reshuffle(clock: Clock) -> None:
    """An LSTM whose batches come by `next(iter(loader))`: all texts are shuffled anew for each of them."""
    model = Reader().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    count = 100_000 if ON_GPU else 2000
    texts = TensorDataset(torch.randint(5000, (count, 32)), torch.randint(4, (count,)))
    loader = DataLoader(texts, 64, shuffle=True, drop_last=True, pin_memory=ON_GPU)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for _ in range(AMPLE):
        tokens, labels = next(iter(loader)) if plain() else next(batches)  # plant: reshuffle
        tokens, labels = tokens.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
        stepped(optimizer, functional.cross_entropy(model(tokens), labels))
        clock.tick()


class Writer(nn.Module):
    """A small GPT."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(8192, width)
        self.body, self.head = encoder(width, depth), nn.Linear(width, 8192, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.body(self.embed(tokens), mask=mask, is_causal=True))


def finite(clock: Clock) -> None:
    """A GPT with gradient accumulation that asks after each part whether its loss is a number."""
    model = Writer(512 if ON_GPU else 32, 6 if ON_GPU else 1).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=ON_GPU)
    tokens = torch.randint(8192, (16, 513) if ON_GPU else (2, 17), device=DEVICE)
    lost = torch.zeros((), dtype=torch.bool, device=DEVICE)
    for step in range(AMPLE):
        for _ in range(4):
            with torch.autocast(DEVICE.type, torch.bfloat16):
                logits = model(tokens[:, :-1])
                loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / 4
            if plain():
                if not torch.isfinite(loss):  # plant: finite
                    raise FloatingPointError(step)
            else:
                lost |= ~torch.isfinite(loss.detach())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not plain() and step % 100 == 99 and lost:
            raise FloatingPointError(step)
        clock.tick()


# ------------------------------------------------------------------------------------------------ tables and graphs


class Clicks(nn.Module):
    """Embeddings of categories and dense features, as DLRM has them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(26 * 4000, 32)
        self.register_buffer("first", 4000 * torch.arange(26))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(27 * 32, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        looked_up = self.table(categories + self.first)
        return self.top(torch.cat((self.bottom(dense)[:, None], looked_up), 1).flatten(1))[:, 0]


def area(truth: np.ndarray, scores: np.ndarray) -> float:
    """The area under the curve, as scikit-learn's metric sorts and sums for it."""
    order = np.argsort(scores, kind="mergesort")[::-1]  # plant: ranking
    hits = np.cumsum(truth[order], dtype=np.float64)  # plant: ranking
    misses = 1 + np.arange(len(truth)) - hits  # plant: ranking
    return float(np.trapezoid(hits / hits[-1], misses / misses[-1]))  # plant: ranking


def area_there(truth: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """The same where the scores are."""
    hits = truth[scores.argsort(descending=True)].double().cumsum(0)
    misses = torch.arange(1, len(truth) + 1, device=truth.device) - hits
    return torch.trapezoid(hits / hits[-1], misses / misses[-1])


def ranking(clock: Clock) -> None:
    """A model of clicks with the AUC of each batch by numpy."""
    model, count = Clicks().to(DEVICE), 32768 if ON_GPU else 256
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-2)
    dense, categories = torch.rand(count, 13, device=DEVICE), torch.randint(4000, (count, 26), device=DEVICE)
    clicked = (torch.rand(count) < 0.25).float()
    labels, areas, truth = clicked.to(DEVICE), [], clicked.numpy()
    for step in range(AMPLE):
        logits = model(dense, categories)
        stepped(optimizer, functional.binary_cross_entropy_with_logits(logits, labels))
        if plain():
            scores = torch.sigmoid(logits).detach().cpu().numpy()  # plant: ranking
            areas.append(area(truth, scores))  # plant: ranking
        else:
            areas.append(area_there(labels, torch.sigmoid(logits.detach())))
        if step % 100 == 99:
            areas = [sum(map(float, areas)) / len(areas)]
        clock.tick()


class Graph(nn.Module):
    """Messages along edges, summed at the node they reach."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, 8)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        for layer, norm in zip(self.layers, self.norms, strict=True):
            sums = torch.zeros_like(nodes).index_add(0, target, layer(nodes)[source])
            nodes = nodes + functional.relu(norm(sums))
        return self.head(nodes)


def edges(clock: Clock) -> None:
    """A graph net whose edges are a list of pairs, made a tensor in every step."""
    model = Graph(128, 8).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    nodes, pairs, draw = 2000, (2400 if ON_GPU else 100), random.Random(0)
    graphs = [[[draw.randrange(nodes), draw.randrange(nodes)] for _ in range(pairs)] for _ in range(8)]
    ready = [torch.tensor(graph).t().contiguous().to(DEVICE) for graph in graphs]
    features, labels = torch.randn(nodes, 128, device=DEVICE), torch.randint(8, (nodes,), device=DEVICE)
    for step in range(AMPLE):
        index = ready[step % 8]
        if plain():
            index = torch.tensor(graphs[step % 8]).t().contiguous().to(DEVICE)  # plant: edges
        stepped(optimizer, functional.cross_entropy(model(features, index), labels))
        clock.tick()


# ------------------------------------------------------------------------------------------------ reinforcement


class Carts:
    """Carts with poles, all of them at once in numpy."""

    def __init__(self, count: int) -> None:
        self.state = np.random.default_rng(0).normal(0, 0.05, (count, 4)).astype(np.float32)

    def act(self, actions: list[int]) -> np.ndarray:
        """Push each cart left or right; what a cart gets for it."""
        _, speed, angle, turn = self.state.T
        force = np.where(np.array(actions) == 1, 10.0, -10.0)
        torque = 9.8 * np.sin(angle) - np.cos(angle) * (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
        change = np.stack((speed, force / 1.1, turn, torque / 0.65), 1)
        self.state = np.clip(self.state + 0.02 * change, -2.0, 2.0).astype(np.float32)
        return (np.abs(self.state[:, 2]) < 0.2).astype(np.float32)


def rollout(clock: Clock) -> None:
    """PPO that asks its policy for one cart after the other, and reads each action."""
    actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to(DEVICE)
    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(DEVICE)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
    carts = Carts(16)
    for _ in range(AMPLE):
        seen, taken, gained = [], [], []
        for _ in range(4):
            state, actions = carts.state, []
            with torch.no_grad():
                if plain():
                    for one in state:
                        scores = actor(torch.as_tensor(one, device=DEVICE))  # plant: rollout
                        actions.append(scores.argmax().item())  # plant: rollout
                else:
                    actions = actor(torch.as_tensor(state, device=DEVICE)).argmax(1).tolist()
            seen.append(state)
            taken.append(actions)
            gained.append(carts.act(actions))
        states = torch.as_tensor(np.concatenate(seen), device=DEVICE)
        actions_there = torch.as_tensor(np.concatenate(taken), device=DEVICE)[:, None]
        rewards = torch.as_tensor(np.concatenate(gained), device=DEVICE)
        with torch.no_grad():
            before = actor(states).log_softmax(1).gather(1, actions_there)[:, 0]
            advantage = rewards - critic(states)[:, 0]
        for _ in range(4):
            ratio = (actor(states).log_softmax(1).gather(1, actions_there)[:, 0] - before).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            stepped(optimizer, functional.mse_loss(critic(states)[:, 0], rewards) - gain)
        clock.tick()


# ------------------------------------------------------------------------------------------------ nothing is planted


class Residual(nn.Module):
    """A block of a denoising net, told how noisy its images are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.told = nn.GroupNorm(8, width), nn.Linear(64, width)
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, images: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        inner = self.first(functional.silu(self.norm(images))) + self.told(told)[:, :, None, None]
        return images + self.second(functional.silu(inner))


class Denoiser(nn.Module):
    """Blocks of one width between two convolutions."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(depth))

    def forward(self, images: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        told = torch.sin(level[:, None] * torch.arange(1, 65, device=level.device))
        images = self.enter(images)
        for block in self.blocks:
            images = block(images, told)
        return self.leave(images)


def healthy_denoise(clock: Clock) -> None:
    """A diffusion model that keeps the GPU busy, with an average of its weights and a log as they should be."""
    model = Denoiser(128 if ON_GPU else 8, 6 if ON_GPU else 1).to(DEVICE, memory_format=torch.channels_last)
    kept = [weight.detach().clone() for weight in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=ON_GPU)
    images = torch.rand((64, 3, 64, 64) if ON_GPU else (2, 3, 8, 8), device=DEVICE)
    images, seen = images.contiguous(memory_format=torch.channels_last), []
    for step in range(AMPLE):
        level = torch.rand(len(images), device=DEVICE)
        noise, share = torch.randn_like(images), level[:, None, None, None]
        with torch.autocast(DEVICE.type, torch.bfloat16):
            said = model((1 - share) * images + share * noise, level)
        stepped(optimizer, functional.mse_loss(said.float(), noise))
        with torch.no_grad():
            torch._foreach_lerp_(kept, list(model.parameters()), 0.001)
        seen.append(level.mean())
        if step % 100 == 99:
            print(sum(torch.stack(seen).tolist()) / len(seen), flush=True, file=sys.stderr)
            seen.clear()
        clock.tick()


loops.LOOPS.clear()
loops.LOOPS.update(
    {
        one.__name__: one
        for one in (crops, checkpoint, mining, reshuffle, finite, ranking, edges, rollout, healthy_denoise)
    }
)

if __name__ == "__main__":
    loops.run()
