"""Training loops of the documents that the schemes come from, in Python, and their patches."""

from __future__ import annotations

from pathlib import Path

from tests.support.patching import FIRES, fired, patch_of
from tracelens.model import Edit, Patch

READS = "# reads"
OWN_STREAM = """
    def main():
        compute = torch.cuda.Stream()
        total = 0.0
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            compute.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(compute):
                STEP
            compute.synchronize()  # fires
            total += loss.item()  # reads
            if i % 4 == 0:
                print(i, total)
        return total
    result = main()
"""
FORMS = {
    "first batch and the others": """
        total = 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            if i == 0:
                torch.cuda.synchronize()  # fires
            else:
                torch.cuda.synchronize()  # fires
            total += loss.item()  # reads
            print(i, total)
    """,
    "all batches but the first": """
        total = 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            if i > 0:
                torch.cuda.synchronize()  # fires
            total += loss.item()  # reads
            print(i, total)
    """,
    "read in both branches": """
        def main():
            total = 0.0
            for i, (x, y) in enumerate(loader):
                STEP
                if i == 0:
                    torch.cuda.synchronize()  # fires
                    total += loss.item()  # reads
                else:
                    torch.cuda.synchronize()  # fires
                    total += loss.item()  # reads
                print(i, total)
            return total
        result = main()
    """,
    "an event that is recorded and waited for": """
        done = torch.cuda.Event()
        total = 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            done.record()
            done.synchronize()  # fires
            total += loss.item()  # reads
            print(i, total)
    """,
    "an event of each batch": """
        losses = []
        for i, (x, y) in enumerate(loader):
            STEP
            done = torch.cuda.Event()
            done.record()
            done.synchronize()  # fires
            losses.append(loss.item())  # reads
        print(losses)
    """,
    "own stream": OWN_STREAM,
    "own stream, the read on it": OWN_STREAM.replace(
        "            compute.synchronize()  # fires\n            total += loss.item()  # reads\n",
        "                total += loss.item()  # reads\n            compute.synchronize()  # fires\n",
    ),
    "transfer and compute": """
        def main():
            transfer, compute = torch.cuda.Stream(), torch.cuda.Stream()
            total = 0.0
            for i, (x, y) in enumerate(loader):
                with torch.cuda.stream(transfer):
                    x, y = x.to(device) * 1, y.to(device)
                compute.wait_stream(transfer)
                with torch.cuda.stream(compute):
                    STEP
                if i == 0:
                    torch.cuda.synchronize()  # fires
                else:
                    compute.synchronize()  # fires
                total += loss.item()  # reads
                print(i, total)
            return total
        result = main()
    """,
    "four streams and events": """
        def main():
            transfer = torch.cuda.Stream()
            forward = torch.cuda.Stream()
            backward = torch.cuda.Stream()
            spare = torch.cuda.Stream()
            transferred, went_forward, went_back = torch.cuda.Event(), torch.cuda.Event(), torch.cuda.Event()
            total = 0.0
            for i, (x, y) in enumerate(loader):
                with torch.cuda.stream(transfer):
                    x, y = x.to(device) * 1, y.to(device)
                    transferred.record(transfer)
                transferred.wait(forward)
                with torch.cuda.stream(forward):
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    went_forward.record(forward)
                backward.wait_event(went_forward)
                with torch.cuda.stream(backward):
                    loss.backward()
                    optimizer.step()
                    went_back.record(backward)
                went_back.synchronize()  # fires
                total += loss.item()  # reads
                print(i, total)
            return total
        result = main()
    """,
}
KINDS = {
    "event": ("event-sync",),
    "interval": ("interval-sync",),
    "event and interval": ("event-sync", "interval-sync"),
    "event, interval and reads": ("event-sync", "interval-sync", "defer-read"),
}


def patch_for(folder: Path, text: str, *kinds: str) -> Patch:
    marks = {"defer-read": READS}
    edits = [Edit(kind, locations=fired(text, marks.get(kind, FIRES)), interval=10) for kind in kinds]
    return patch_of(folder, text, tuple(edits))
