"""Reads the loss of every batch from the GPU, to stop at the first that is not a number."""

import math
import sys

import torch
from torch import nn
import tracelens_runtime


def main():
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = [torch.randn(4, 8) for _ in range(25)]

    total = 0.0

    loss_value: object  # bound by a function below

    def check_loss(loss_value_2, step):
        nonlocal loss_value
        loss_value = loss_value_2  # fires
        if not math.isfinite(loss_value):
            print(f"loss is {loss_value} at step {step}, stopping")
            sys.exit(1)

    def record_results():
        nonlocal total
        total += loss_value

    ahead = tracelens_runtime.DeferredReads(every=10)
    for step, inputs in ahead.iterate(enumerate(batches)):
        loss = model(inputs).pow(2).mean()
        ahead.defer(check_loss, ahead.item(loss), step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ahead.defer(record_results)
        if step == 20:
            ahead.drain()
            state = model.state_dict()
    print(f"mean loss {total / len(batches):.6f}, {len(state)} tensors kept")

    for inputs in batches:
        loss = model(inputs).pow(2).mean()
        optimizer.zero_grad()
        if torch.isnan(loss):  # fires  (must stay: the batch is skipped)
            continue
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
