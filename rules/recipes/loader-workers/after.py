"""Puts batches of tensors together in the training process; a set of tensors draws nothing, so this is proved."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.linspace(0, 1, 24).unsqueeze(1), torch.linspace(1, 0, 24).unsqueeze(1))
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)
    weight = torch.zeros(1, requires_grad=True)
    for epoch in range(2):
        for inputs, targets in loader:  # fires
            loss = (inputs * weight - targets).pow(2).mean()
            loss.backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
                weight.grad = None
        print(f"epoch {epoch}: {weight.item():.6f}")

    streamed = DataLoader(data, batch_size=4)  # (must stay: the loop looks into its data set, which workers would copy)
    for inputs, targets in streamed:  # fires
        loss = (inputs * weight - targets).pow(2).mean() / len(data.tensors[0])
        loss.backward()
    print(f"gradient {weight.grad.item():.6f}")


if __name__ == "__main__":
    main()
