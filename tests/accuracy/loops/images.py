"""Synthetic images for the loops here: a small pool of random pictures, cropped and flipped anew for every item."""

import torch
from torch.utils.data import Dataset


class RandomImages(Dataset):
    """`length` images of `size` x `size`, made from a pool of 64 with a random crop and flip."""

    def __init__(self, length: int, size: int, classes: int = 1000) -> None:
        generator = torch.Generator().manual_seed(0)
        self.length, self.size, self.classes = length, size, classes
        self.pool = torch.randint(0, 256, (64, 3, size + 8, size + 8), dtype=torch.uint8, generator=generator)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        top, left = torch.randint(0, 8, (2,)).tolist()
        image = self.pool[index % 64, :, top : top + self.size, left : left + self.size]
        if index % 2:
            image = image.flip(-1)
        return image.float().div_(255.0).sub_(0.5), index % self.classes
