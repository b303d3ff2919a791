"""A small training script: a linear model, a DataLoader, one read of the loss per batch. Arguments: steps, ending."""

import os
import signal
import sys

if "TRACELENS_OTHER_PYTHONS" not in os.environ:  # another torch imports other things
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from lean import PRELUDE

    sys.path.pop()
    exec(PRELUDE)
import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    steps = int(sys.argv[1])
    ending = sys.argv[2] if len(sys.argv) > 2 else "fine"
    at = int(sys.argv[3]) if len(sys.argv) > 3 else steps
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(4 * steps, 8)), batch_size=4)
    for number, (batch,) in enumerate(loader, 1):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        if number == at:
            finish(ending)
    print(f"last loss {value:.6f}")


def finish(ending: str) -> None:
    if ending == "raise":
        raise ValueError("on purpose")
    if ending == "exit":
        sys.exit(3)
    if ending == "_exit":
        os._exit(7)
    if ending == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)


main()
