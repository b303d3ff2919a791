"""Computes forward pass and loss in float32."""

import torch
from torch import nn

device = torch.device("cpu")  # where there is one: "cuda"


def train(model, optimizer, batches):
    for inputs in batches:
        optimizer.zero_grad()
        outputs = model(inputs.to(device))  # fires
        loss = outputs.pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.1f}")


def train_in_one_line(model, optimizer, batches):
    for inputs in batches:
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()  # fires  (must stay: forward and backward are one expression)
        optimizer.step()


def main():
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train(model, optimizer, batches)
    train_in_one_line(model, optimizer, batches)


if __name__ == "__main__":
    main()
