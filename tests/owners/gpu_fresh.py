"""More training loops with one planted owner each, written after everything that the others had mended.

    python gpu_fresh.py PLANT small|large plain|mended|both STEPS

As `gpu_untuned.py`, whose clock and models they use: habits of today's training scripts, each with the twin that
somebody would write. They were written before any of them had been recorded. Without a GPU they can be tried, slowly.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from tests.owners import gpu_untuned as loops
from tests.owners.gpu_untuned import AMPLE, DEVICE, ON_GPU, Clock, encoder, pictures

LARGE = sys.argv[2] == "large"


def plain() -> bool:
    """Whether this turn is that of the loop as it is, and not of its twin."""
    return loops.PLAIN


def memory(clock: Clock) -> None:
    """The state of the allocator in every step, for a log that is read when memory runs out."""
    model = encoder(256, 4).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch, notes = torch.randn(16, 64, 256, device=DEVICE), {}
    for step in range(AMPLE):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if ON_GPU and (plain() or step % 100 == 99):
            notes[step % 10] = torch.cuda.memory_summary(abbreviated=not LARGE)  # plant: memory
        clock.tick()


def shadow(clock: Clock) -> None:
    """An average of the weights by way of the state dict, copied first so that nothing is changed."""
    model = encoder(512 if LARGE else 128, 8 if LARGE else 2).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batch = torch.randn(8, 32, 512 if LARGE else 128, device=DEVICE)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(AMPLE):
        loss = model(batch).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if plain():
            state = copy.deepcopy(model.state_dict())  # plant: shadow
            for name, value in state.items():  # plant: shadow
                kept[name] = 0.995 * kept[name] + 0.005 * value  # plant: shadow
        else:
            torch._foreach_lerp_(list(kept.values()), [value.detach() for value in model.state_dict().values()], 0.005)
        clock.tick()


class Noisy(Dataset):
    """Images that are cropped, turned and made noisy by numpy when they are asked for."""

    def __init__(self) -> None:
        self.images = np.random.default_rng(0).integers(0, 255, (256, 80, 80, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return AMPLE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = np.random.default_rng(index)  # plant: numpy_images
        top, left = generator.integers(0, 16, 2)  # plant: numpy_images
        image = self.images[index % 256, top : top + 64, left : left + 64]  # plant: numpy_images
        image = np.rot90(image, index % 4).astype(np.float32) / 255  # plant: numpy_images
        image += generator.normal(0, 0.05, image.shape).astype(np.float32)  # plant: numpy_images
        image = np.clip(image, 0, 1).transpose(2, 0, 1)  # plant: numpy_images
        return torch.from_numpy(np.ascontiguousarray(image)), index % 10  # plant: numpy_images


def numpy_images(clock: Clock) -> None:
    model = pictures(10).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers = 0 if plain() else 8
    for images, labels in DataLoader(Noisy(), 96 if LARGE else 24, num_workers=workers):  # plant: numpy_images
        loss = functional.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


def classes(clock: Clock) -> None:
    """How often each class was seen, class by class."""
    count = 40 if LARGE else 10
    model = pictures(count).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.rand(128, 3, 64, 64, device=DEVICE)
    labels = torch.randint(count, (128,), device=DEVICE)
    seen, counts = [0] * count, torch.zeros(count, dtype=torch.long, device=DEVICE)
    for _ in range(AMPLE):
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if plain():
            for label in torch.unique(labels).tolist():  # plant: classes
                seen[label] += len((labels == label).nonzero())  # plant: classes
        else:
            counts += torch.bincount(labels, minlength=count)
        clock.tick()


def gradients(clock: Clock) -> None:
    """The norm of each layer's gradient, for a plot."""
    model = encoder(192, 12 if LARGE else 3).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch, log = torch.randn(16, 48, 192, device=DEVICE), []
    for step in range(AMPLE):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if plain():
            norms = {name: weight.grad.norm().item() for name, weight in model.named_parameters()}  # plant: gradients
            log.append(norms)
        else:
            log.append(torch.stack(torch._foreach_norm([weight.grad for weight in model.parameters()])))
        if step % 50 == 49:
            log = [] if plain() else torch.stack(log).tolist()[:0]
        optimizer.step()
        clock.tick()


def records(clock: Clock) -> None:
    """Metrics of every step as a line of JSON, flushed for who follows the file."""
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch, matrix = torch.randn(512, 256, device=DEVICE), np.arange((150 if LARGE else 50) ** 2)
    with tempfile.TemporaryFile("w") as file:
        for step in range(AMPLE):
            loss = functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if plain() or step % 50 == 49:
                metrics = {"step": step, "loss": loss.item(), "matrix": matrix.tolist()}  # plant: records
                file.write(json.dumps(metrics) + "\n")  # plant: records
                file.flush()  # plant: records
            clock.tick()


def accuracy(clock: Clock) -> None:
    """Right answers of each batch, counted on the host."""
    model = pictures(100).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images = torch.rand(512 if LARGE else 64, 3, 96, 96, device=DEVICE)
    truth = torch.randint(100, images.shape[:1])
    labels, right, seen = truth.to(DEVICE), 0, torch.zeros((), dtype=torch.long, device=DEVICE)
    for _ in range(AMPLE):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        if plain():
            said = logits.detach().cpu().argmax(1)  # plant: accuracy
            right += int((said == truth).sum())  # plant: accuracy
        else:
            seen += (logits.detach().argmax(1) == labels).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


def boxes(clock: Clock) -> None:
    """A mask of the objects of each image, box by box."""
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images = torch.rand(8, 3, 64, 64, device=DEVICE)
    corners = torch.randint(0, 32, (8, 12 if LARGE else 3, 2))
    found = torch.cat((corners, corners + torch.randint(1, 32, corners.shape)), 2).to(DEVICE)
    across = torch.arange(64, device=DEVICE)
    for _ in range(AMPLE):
        if plain():
            mask = torch.zeros(8, 64, 64, device=DEVICE)
            for number, of_image in enumerate(found):  # plant: boxes
                for box in of_image:  # plant: boxes
                    left, top, right, bottom = box.tolist()  # plant: boxes
                    mask[number, top:bottom, left:right] = 1  # plant: boxes
        else:
            left, top, right, bottom = (edge[..., None] for edge in found.unbind(2))
            wide, high = (across >= left) & (across < right), (across >= top) & (across < bottom)
            mask = (high[..., :, None] & wide[..., None, :]).any(1).float()
        loss = functional.binary_cross_entropy_with_logits(model(images)[:, 0], mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.tick()


loops.LOOPS.clear()
loops.LOOPS.update(
    {one.__name__: one for one in (memory, shadow, numpy_images, classes, gradients, records, accuracy, boxes)}
)

if __name__ == "__main__":
    loops.run()
