"""Several ranks. Arguments: how (ddp, fsdp, solo, spawn), number of steps; for a failure: what, which rank, which step.

All but spawn run under torchrun; spawn starts two ranks itself. NCCL where there are GPUs, gloo elsewhere.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist


def train(kind: str, steps: int, failure: tuple[str, int, int] | None = None) -> None:
    if kind == "solo":
        solo(steps, failure)
        return
    gpu = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
    rank = int(os.environ["RANK"])
    if gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if gpu else "gloo")
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model = model.to(device)
    if kind == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=device if gpu else None)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank] if gpu else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    seen = 0.0
    for number in range(steps):
        loss = model(torch.full((4, 8), 0.1 * (rank + number % 5), device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += loss.item()
        if failure and failure[1:] == (rank, number):
            fail(failure[0])
    if rank == 0:
        print(f"{kind} {seen:.9g}", flush=True)
    dist.destroy_process_group()


def solo(steps: int, failure: tuple[str, int, int] | None) -> None:
    """A rank that speaks to no other."""
    rank, first = int(os.environ["RANK"]), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(steps):
        model(torch.ones(4, 8)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)
        if failure and first and failure[1:] == (rank, number):
            fail(failure[0])


def fail(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ValueError("on purpose")


def spawned(rank: int, port: int, steps: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    train("ddp", steps)


if __name__ == "__main__":
    how, count = sys.argv[1], int(sys.argv[2])
    if how == "spawn":
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        torch.multiprocessing.spawn(spawned, (free, count), nprocs=2)
    else:
        train(how, count, (sys.argv[3], int(sys.argv[4]), int(sys.argv[5])) if len(sys.argv) > 3 else None)
