"""Synthetic stand-ins for the data sets that public training scripts download.

In: an import of torchvision's MNIST, CIFAR, FakeData or ImageFolder classes. Out: the same classes, filled with made-up
images instead of files: indexing, transforms, `data`, `targets` and `len` are torchvision's own. Images of a class
share a pattern, so that a loss falls as it does on real data. Sizes come from the environment; the contents depend on
nothing else.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

CLASSES = 10
TRAIN_IMAGES = "TRACELENS_SYNTHETIC_IMAGES"
"""Environment variable: images of a training set. A test set has a quarter of them."""


def install() -> None:
    """Replace the contents of torchvision's data sets, now or when they are imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name, fill in _FILL.items():
        if name in sys.modules:
            fill(sys.modules[name])


def images(train: bool, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Images (bytes) and labels as tensors: a pattern per class under noise."""
    count = max(CLASSES, int(os.environ.get(TRAIN_IMAGES, "2560")) // (1 if train else 4))
    return _images(count, train, shape)


def make(count: int) -> None:
    """Make the images of a training and a test set now; processes forked afterwards share them."""
    for train in (True, False):
        for shape in ((28, 28), (32, 32, 3)):
            _images(max(CLASSES, count // (1 if train else 4)), train, shape)


@functools.cache
def _images(count: int, train: bool, shape: tuple[int, ...]) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(20 + train)
    patterns = torch.randint(0, 160, (CLASSES, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(7))
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    noise = torch.randint(0, 96, (count, *shape), dtype=torch.uint8, generator=generator)
    return patterns[labels] + noise, labels


def _fill_mnist(module: Any) -> None:
    module.MNIST.download = lambda self: None
    module.MNIST._check_legacy_exist = lambda self: False
    module.MNIST._check_exists = lambda self: True
    module.MNIST._load_data = lambda self: images(self.train, (28, 28))


def _fill_cifar(module: Any) -> None:
    def construct(
        self: Any,
        root: Any,
        train: bool = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
    ) -> None:
        super(module.CIFAR10, self).__init__(root, transform=transform, target_transform=target_transform)
        data, labels = images(train, (32, 32, 3))
        self.train, self.data, self.targets = train, data.numpy(), labels.tolist()
        self.classes = [str(number) for number in range(CLASSES)]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}

    module.CIFAR10.__init__ = construct


def _fill_fake(module: Any) -> None:
    """FakeData makes its images itself; only how many there are is ours, where the script leaves it open."""
    original = module.FakeData.__init__

    def construct(self: Any, size: int | None = None, *arguments: Any, **options: Any) -> None:
        original(self, int(os.environ.get(TRAIN_IMAGES, "1000")) if size is None else size, *arguments, **options)

    module.FakeData.__init__ = construct


def _fill_folder(module: Any) -> None:
    """A folder of images: whatever its name holds `val` is the test set."""

    def construct(
        self: Any, root: Any, transform: Any = None, target_transform: Any = None, *_: Any, **__: Any
    ) -> None:
        from PIL import Image

        super(module.DatasetFolder, self).__init__(str(root), transform=transform, target_transform=target_transform)
        data, labels = images("val" not in os.path.basename(str(root)), (32, 32, 3))
        self.classes = [str(number) for number in range(CLASSES)]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self.targets = labels.tolist()
        self.samples = self.imgs = list(enumerate(self.targets))
        self.loader = lambda index: Image.fromarray(data[index].numpy())

    module.ImageFolder.__init__ = construct


_FILL = {
    "torchvision.datasets.folder": _fill_folder,
    "torchvision.datasets.mnist": _fill_mnist,
    "torchvision.datasets.cifar": _fill_cifar,
    "torchvision.datasets.fakedata": _fill_fake,
}


class _Finder:
    """Finds nothing itself: lets the others find torchvision's modules and fills them once their own code has run."""

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> Any:
        if name not in _FILL:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, None)
            if spec is not None and spec.loader is not None:
                return _filled(spec, _FILL[name])
        return None


def _filled(spec: Any, fill: Any) -> Any:
    original = spec.loader.exec_module

    def run(module: Any) -> None:
        original(module)
        fill(module)

    spec.loader.exec_module = run
    return spec
