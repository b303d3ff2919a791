"""Batches copied ahead on a stream of their own; `--record-stream` does it right, `--read` hides the mistake.

In: flags. Out: a loss per step. Without `--record-stream` a batch's memory is free for the next copy as soon as the
host has dropped it, while the GPU may not have read it yet; a read of the loss in every step waits long enough to
hide that. `--plain` copies without a stream: the right numbers.
"""

import sys

import torch

STEPS, ROWS, WIDTH = 60, 1024, 2048


def ahead(batches, stream, record):
    def fetch():
        batch = next(batches, None)
        if batch is None:
            return None
        with torch.cuda.stream(stream):
            return batch.to("cuda", non_blocking=True)

    upcoming = fetch()
    while upcoming is not None:
        torch.cuda.current_stream().wait_stream(stream)
        batch = upcoming
        if record:
            batch.record_stream(torch.cuda.current_stream())
        upcoming = fetch()
        yield batch


def main(flags):
    generator = torch.Generator().manual_seed(5)
    source = [torch.randn(ROWS, WIDTH, generator=generator).pin_memory() for _ in range(6)]
    batches = (source[step % len(source)] for step in range(STEPS))
    torch.manual_seed(5)
    net = torch.nn.Linear(WIDTH, WIDTH, device="cuda")
    slow = torch.randn(4096, 4096, device="cuda") / 64
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    stream = torch.cuda.Stream()
    plain = (batch.to("cuda") for batch in batches)
    losses = []
    for x in plain if "--plain" in flags else ahead(batches, stream, "--record-stream" in flags):
        for _ in range(2):  # the batch is read late in the step
            slow = slow @ slow / 64
        loss = net(x + 0 * slow[0, 0]).pow(2).mean()
        del x
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() if "--read" in flags else loss.detach())
    for step, loss in enumerate(losses):
        print(f"step {step} loss {float(loss):.9g}")


main(sys.argv[1:])
