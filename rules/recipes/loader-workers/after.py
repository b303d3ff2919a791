"""Makes each item in the training process while the GPU waits."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((8,), float(index)) / 24


def main(workers=0):
    torch.manual_seed(0)
    loader = DataLoader(Squares(), batch_size=4, num_workers=2)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs in loader:  # fires
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")

    chosen = DataLoader(Squares(), batch_size=4, num_workers=workers)  # (must stay: the number comes from elsewhere)
    for inputs in chosen:  # fires
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
