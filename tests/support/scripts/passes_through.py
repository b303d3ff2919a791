"""Everything a launcher could get wrong, printed as JSON: names, arguments, stdin, path, pickling; then it trains."""

import json
import os
import pickle
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), float(index))


def main() -> None:
    torch.manual_seed(0)
    facts = {
        "name": __name__,
        "file": __file__,
        "spec": repr(__spec__),
        "loader": type(__loader__).__name__,
        "argv": sys.argv,
        "path": [entry for entry in sys.path if "boot" in entry],
        "stdin": sys.stdin.readline().strip(),
        "random": torch.rand(1).item(),
        "same": type(pickle.loads(pickle.dumps(Rows()))) is Rows,
        "sigint": str(__import__("signal").getsignal(2)),
        "cwd": os.getcwd(),
    }
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for batch in DataLoader(Rows(), batch_size=4, shuffle=True, num_workers=2):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss > 1e12:
            break
        torch.relu(loss).item()
        time.sleep(0.01)  # long enough for the stack sampler to get its turn, also where many programs run
    facts["weights"] = model.weight.detach().tolist()
    print(json.dumps(facts))
    sys.exit(5)


if __name__ == "__main__":
    main()
