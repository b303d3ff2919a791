"""Training loops whose steps are not one optimizer call per batch. Argument: which one. 48 iterations each."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lean import PRELUDE

sys.path.pop()
exec(PRELUDE)
import torch  # noqa: E402


def accumulate(model: torch.nn.Module, number: int) -> None:
    optimizer = OPTIMIZERS[0]
    for _ in range(4):
        model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def gan(model: torch.nn.Module, number: int) -> None:
    discriminator, generator = OPTIMIZERS
    for _ in range(3):
        model(torch.ones(2, 4)).mean().backward()
        discriminator.step()
        discriminator.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    generator.step()
    generator.zero_grad()


def scaler(model: torch.nn.Module, number: int) -> None:
    loss = model(torch.ones(2, 4)).mean() * (float("inf") if number % 5 == 0 else 1.0)
    SCALER.scale(loss).backward()
    SCALER.step(OPTIMIZERS[0])
    SCALER.update()
    OPTIMIZERS[0].zero_grad()


def closure(model: torch.nn.Module, number: int) -> None:
    def evaluate() -> torch.Tensor:
        LBFGS.zero_grad()
        loss = model(torch.ones(2, 4)).pow(2).mean()
        loss.backward()
        return loss

    LBFGS.step(evaluate)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    OPTIMIZERS = [torch.optim.Adam(net.parameters()), torch.optim.SGD(net.parameters(), lr=0.01)]
    SCALER = torch.amp.GradScaler("cpu")
    LBFGS = torch.optim.LBFGS(net.parameters(), max_iter=3)
    for iteration in range(48):
        globals()[sys.argv[1]](net, iteration)
    print(sum(float(parameter.detach().sum()) for parameter in net.parameters()))
