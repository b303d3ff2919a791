"""Reads the loss in every batch, only to sum it up and print it: on a GPU this can wait."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = [torch.randn(4, 8) for _ in range(25)]

    running = 0.0
    pending_losses = []
    for step, inputs in enumerate(batches):
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        pending_losses.append(loss.detach().clone())
        # one line every five batches
        if (step + 1) % 5 == 0:
            for loss_value in pending_losses:
                running += loss_value.item()  # fires
            pending_losses.clear()
            print(f"step {step + 1}: loss {running / (step + 1):.6f}")
    for loss_value in pending_losses:
        running += loss_value.item()
    print(f"mean loss {running / len(batches):.6f}")

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        if loss.item() < 1e-4:  # fires  (must stay: the value ends the training)
            break
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
