"""Training loops of every kind, one per function. Arguments: kind, number of steps. On a GPU where there is one.

Each prints one line at its end that depends on every step, so that a recording that disturbed a number would show.
"""

import os
import sys

if "MATRIX_LEAN" in os.environ:  # the text of tests/support/lean.py's prelude: `make test` leaves torch's compiler out
    exec(os.environ["MATRIX_LEAN"])

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Rows(Dataset):
    """Like a TensorDataset, but of the main module: a spawned worker must be able to find it."""

    def __init__(self, count: int) -> None:
        self.values = torch.arange(count * 8, dtype=torch.float32).view(count, 8) / (count * 8)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.values[index]


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(DEVICE)


def batch(number: int) -> torch.Tensor:
    return torch.full((4, 8), 0.1 * (number % 7), device=DEVICE)


def total(model: torch.nn.Module) -> float:
    return sum(float(parameter.detach().double().sum()) for parameter in model.parameters())


def plain(steps: int) -> float:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = 0.0
    for number in range(steps):
        loss = model(batch(number)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += loss.item()
    return seen


def epochs(steps: int, **loading: object) -> float:
    """Four batches per epoch, so that workers start anew inside every window."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Rows(16), batch_size=4, shuffle=True, **loading)  # type: ignore[arg-type]
    done = 0
    while done < steps:
        for rows in loader:
            loss = model(rows.to(DEVICE)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
    return total(model)


def fork_loader(steps: int) -> float:
    return epochs(steps, num_workers=2, multiprocessing_context="fork")


def spawn_loader(steps: int) -> float:
    return epochs(steps, num_workers=1, multiprocessing_context="spawn")


def compiled(steps: int) -> float:
    """Whatever we do must cost no further compilation."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    backend = os.environ.get("MATRIX_BACKEND", "inductor" if DEVICE == "cuda" else "aot_eager")
    forward = torch.compile(model, backend=backend)
    for number in range(steps):
        loss = forward(batch(number)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("compilations", torch._dynamo.utils.counters["stats"]["unique_graphs"])
    return total(model)


def compiled_step(steps: int) -> float:
    """The whole step is compiled and its graph breaks inside: torch.compile then looks at every frame that runs."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend="eager")
    def step(rows: torch.Tensor) -> None:
        model(rows).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for number in range(steps):
        step(batch(number))
    counters = torch._dynamo.utils.counters
    print("graphs", counters["stats"]["unique_graphs"], "breaks", sum(counters["graph_break"].values()))
    return total(model)


def cuda_graph(steps: int) -> float:
    """The step is captured once and replayed: optimizer and backward run in no later iteration."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = batch(1)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(rows).pow(2).mean().backward()
        optimizer.step()

    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    loader = DataLoader(TensorDataset(torch.rand(steps * 4, 8)), batch_size=4)
    for (fresh,) in loader:
        rows.copy_(fresh)
        graph.replay()
    torch.cuda.synchronize()
    return total(model)


def in_backward(steps: int) -> float:
    """One optimizer per parameter, each stepped by a hook inside backward."""
    model = net()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()  # type: ignore[index]
        optimizers[parameter].zero_grad()  # type: ignore[index]

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for number in range(steps):
        model(batch(number)).pow(2).mean().backward()
    return total(model)


def evaluation(steps: int) -> float:
    model, seen = net(), 0.0
    with torch.no_grad():
        for rows in DataLoader(Rows(steps * 4), batch_size=4):
            seen += model(rows.to(DEVICE)).sum().item()
    return seen


def by_hand(steps: int) -> float:
    """No optimizer: the update is written out."""
    model = net()
    for rows in DataLoader(Rows(steps * 4), batch_size=4):
        model(rows.to(DEVICE)).pow(2).mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
    return total(model)


def gan(steps: int) -> float:
    generator, critic = net(), net()
    both = [torch.optim.Adam(generator.parameters()), torch.optim.AdamW(critic.parameters())]
    for number in range(steps):
        for _ in range(3):
            critic(batch(number)).mean().backward()
            both[1].step()
            both[1].zero_grad()
        (generator(batch(number)).mean() * critic(batch(number)).mean()).backward()
        both[0].step()
        both[0].zero_grad()
    return total(generator) + total(critic)


def accumulation(steps: int) -> float:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(steps):
        for micro in range(4):
            (model(batch(number + micro)).pow(2).mean() / 4).backward()
        optimizer.step()
        optimizer.zero_grad()
    return total(model)


def scaler(steps: int) -> float:
    """Every fifth loss overflows, and its step is skipped."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaling = torch.amp.GradScaler(DEVICE)
    for number in range(steps):
        loss = model(batch(number)).pow(2).mean() * (float("inf") if number % 5 == 4 else 1.0)
        optimizer.zero_grad()
        scaling.scale(loss).backward()
        scaling.step(optimizer)
        scaling.update()
    return total(model)


def lbfgs(steps: int) -> float:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for number in range(steps):

        def closure(number: int = number) -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(batch(number)) - 1).pow(2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    return total(model)


def own_profiler(steps: int) -> float:
    """A torch.profiler with a schedule, over the whole loop."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    schedule = torch.profiler.schedule(wait=14, warmup=2, active=4, repeat=1)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=lambda one: kept.append(len(one.events()))) as own:
        for number in range(steps):
            model(batch(number)).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            own.step()
    print("own profile", bool(kept and kept[0]))
    return total(model)


def out_of_memory(steps: int) -> float:
    """The sixteenth step asks for more than there is, inside the window."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(steps):
        model(batch(number)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == 16:
            torch.empty(1 << 46, dtype=torch.uint8, device=DEVICE)
    return total(model)


def no_steps(steps: int) -> float:
    """Neither optimizer nor loader nor backward: matrix products for `steps` tenths of a second."""
    import time

    value, end = torch.eye(64, device=DEVICE) * 0.5, time.monotonic() + steps / 10
    while time.monotonic() < end:
        value = value @ value + torch.eye(64, device=DEVICE)
        value = value / value.norm()
    return float(value.isfinite().all())


if __name__ == "__main__":
    print(f"{sys.argv[1]} {globals()[sys.argv[1]](int(sys.argv[2])):.12g}")
