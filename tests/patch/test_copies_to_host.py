"""Copies of a batch that may go from the GPU to the CPU block: without a wait their memory is garbage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.every_place import every_place_of
from tracelens.model import Patch

IMPORTS = """\
import argparse
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from tqdm import tqdm
"""
LOOP = (
    IMPORTS
    + """

def fit(batches, device="cpu"):
    head = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(head.parameters(), 0.1)
    for i, (x, y) in enumerate({items}):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(head(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
FEED = (
    IMPORTS
    + """

class Features:
    def __init__(self, backbone, loader, device):
        self.backbone, self.loader, self.device = backbone.to(device), loader, device

    def __iter__(self):
        for x, y in self.loader:
            yield self.backbone(x.to(self.device)), y


class Kept:
    def __init__(self, pairs):
        self.pairs, self.at = pairs, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.at += 1
        return self.pairs[self.at]


class Inherits(Features):
    pass


class Own(DataLoader):
    def __iter__(self):
        for x, y in super().__iter__():
            yield x.cuda(), y


class OnGpu(torch.utils.data.Dataset):
    def __init__(self, device):
        self.x = torch.randn(9, 8).to(device)

    def __getitem__(self, i):
        return self.x[i], 0


class Host(torch.utils.data.Dataset):
    def __init__(self, transform=None):
        self.x, self.transform = torch.randn(9, 8), transform

    def __getitem__(self, i):
        return self.transform(self.x[i]), 0


class Stream(IterableDataset):
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __iter__(self):
        for line in open("text"):
            yield self.tokenizer(line), 0


class Order(torch.utils.data.Sampler):
    def __iter__(self):
        return iter(range(9))


class Log:
    def every(self, batches, step):
        for i, batch in enumerate(batches):
            yield batch
            if i % step == 0:
                print(i)


def features(loader, encoder):
    for x, y in loader:
        yield encoder(x), y


def cached(loader, device):
    return [(x.to(device), y) for x, y in loader]


def chunks(data, size):
    for start in range(0, len(data), size):
        part = data[start : start + size]
        yield torch.tensor(part), torch.zeros(len(part))


def forever(batches):
    while True:
        yield from batches


def loaders(args):
    train = DataLoader(Host(), batch_size=args.size, sampler=Order())
    return train, DataLoader(Host(), 8)
"""
)
MAIN = (
    IMPORTS
    + """\
import feed
from fit import fit

gpu = torch.device("cuda" if torch.cuda.is_available() else "cpu")
args = argparse.ArgumentParser().parse_args()
net = nn.Linear(8, 8).to(gpu)
plain = DataLoader(TensorDataset(torch.randn(9, 8), torch.zeros(9)), 8)
{call}
"""
)
TO_HOST = {
    "a class": "fit(feed.Features(net, plain, gpu))",
    "by its name": "fit(device=args.device, batches=feed.Features(net, plain, gpu))",
    "by a variable": "one = feed.Features(net, plain, gpu)\nfit(one, args.device)",
    "a class that has them": "pairs = [(net(x.to(gpu)), y) for x, y in plain]\nfit(feed.Kept(pairs))",
    "a class that inherits": "fit(feed.Inherits(net, plain, gpu))",
    "a loader of its own": "fit(feed.Own(TensorDataset(torch.ones(8, 8)), 8))",
    "a generator": "fit(feed.features(plain, net))",
    "a generator of the file": "def ahead():\n    for x, y in plain:\n        yield net(x.to(gpu)), y\nfit(ahead())",
    "a generator of another": "fit(feed.forever(feed.features(plain, net)))",
    "what is written as one": "fit((net(x.to(gpu)), y) for x, y in plain)",
    "a list": "fit(feed.cached(plain, gpu))",
    "a list in a dict": "sets = {'train': feed.cached(plain, gpu)}\nfit(sets['train'])",
    "items of a data set": "fit(DataLoader(feed.OnGpu(gpu), 8))",
    "tensors": "data = TensorDataset(torch.ones(8, 8).to(gpu), torch.ones(8))\nfit(DataLoader(data, 8))",
    "two steps": "def start(batches):\n    fit(batches)\nstart(feed.Features(net, plain, gpu))",
    "a step that nobody sees": "run = functools.partial(fit, feed.Features(net, plain, gpu))",
    "hidden": "fit(*[feed.Features(net, plain, gpu)])",
    "a device by a condition": "fit(feed.features(plain, net), gpu if args.cuda else 'cpu')",
    "a bar": "fit(tqdm(feed.Features(net, plain, gpu)))",
}
TO_GPU_OR_FROM_HOST = {
    "where there is a GPU": "fit(feed.Features(net, plain, gpu), gpu)",
    "by a name": "fit(feed.Features(net, plain, gpu), 'cuda:1')",
    "a loader": "fit(plain, args.device)",
    "no device is told": "fit(plain)",
    "data that are transformed": "fit(DataLoader(feed.Host(transform=str), 8), args.device)",
    "data that come one by one": "fit(DataLoader(feed.Stream(str), 8), args.device)",
    "loaders of a function": "train, test = feed.loaders(args)\nfit(train, args.device)",
    "a log around it": "fit(feed.Log().every(plain, 8), args.device)",
    "numbers": "fit(feed.chunks([1, 2], 8), args.device)",
    "again and again": "fit(feed.forever(plain), args.device)",
    "a choice": "fit(plain if args.size else feed.loaders(args)[1], args.device)",
}


def patched(folder: Path, call: str, loop: str = LOOP.format(items="batches")) -> Patch:
    files = {"fit.py": loop, "feed.py": FEED, "main.py": MAIN.format(call=call)}
    return every_place_of(folder, files, {"async-copy": 1, "prefetch": 1}, "fit.py")


@pytest.mark.parametrize("how", TO_HOST)
def test_items_of_the_gpu_that_go_to_the_cpu(how: str, tmp_path: Path) -> None:
    patch = patched(tmp_path, TO_HOST[how])
    assert not patch.hunks
    assert any("may be on the GPU already" in one.obstacle for one in patch.declined)


@pytest.mark.parametrize("how", TO_GPU_OR_FROM_HOST)
def test_other_copies(how: str, tmp_path: Path) -> None:
    call = TO_GPU_OR_FROM_HOST[how]
    loop = LOOP.format(items="batches").replace('device="cpu"', "device")
    assert "async-copy" in {one.edit for one in patched(tmp_path, call, loop).hunks}


def test_an_object_that_has_both(tmp_path: Path) -> None:
    loop = LOOP.format(items="self.batches").replace("def fit(batches, device", "def fit(self, device")
    loop = loop.replace(
        "\n\ndef fit", "\n\nclass Fit:\n  def __init__(self, batches):\n    self.batches = batches\n\n  def fit"
    )
    head, _, body = loop.partition("  def fit")
    loop = head + "  def fit" + body.replace("\n", "\n  ")
    main = "from fit import Fit\nFit(feed.Features(net, plain, gpu)).fit()"
    assert not patched(tmp_path / "gpu", main, loop).hunks
    assert patched(tmp_path / "host", "from fit import Fit\nFit(plain).fit()", loop).hunks


def test_the_same_in_one_file(tmp_path: Path) -> None:
    text = FEED + LOOP.format(items="batches").removeprefix(IMPORTS)
    for call, changes in (("fit(Features(net, plain, gpu))", False), ("fit(plain)", True)):
        script = text + MAIN.format(call=call).removeprefix(IMPORTS).replace("import feed\nfrom fit import fit\n", "")
        patch = every_place_of(tmp_path / str(changes), {"main.py": script}, {"async-copy": 1}, "main.py")
        assert any("non_blocking" in one.after.decode() for one in patch.files) == changes
