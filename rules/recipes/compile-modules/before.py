"""Runs its model operation by operation."""

import torch
from torch import nn

torch.compiler.set_stance("force_eager")  # so that this example runs where there is no compiler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, inputs):
        return self.layer(inputs).pow(2).mean()


def main():
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs in batches:  # fires
        optimizer.zero_grad()
        loss = model(inputs)
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")


def train(parts, batches):
    for inputs in batches:
        loss = parts.get("net")(inputs)
        loss.backward()  # fires  (must stay: which module that is cannot be told)


if __name__ == "__main__":
    main()
    train({"net": Net()}, [torch.zeros(8)])
