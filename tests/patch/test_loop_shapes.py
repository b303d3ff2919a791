"""The rest of the matrix of places: loops of every shape, and what must not be moved because somebody looks at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script

PATCHED = {
    "while and next": """
        data, step, total = iter(loader), 0, 0.0
        while step < 20:
            x, y = next(data)
            STEP
            total += loss.item()  # fires
            step += 1
        print(step, total)
    """,
    "while in a function, for ever, with break": """
        def main(limit):
            data, step, total = iter(loader), 0, 0.0
            # one pass per batch
            while True:
                x, y = next(data)
                STEP
                total += loss.item()  # fires
                step += 1
                if step % 5 == 0:
                    continue
                print(step, total)
                if step > limit:
                    break
            else:
                print("never")
            return total
        result = main(13)
    """,
    "while with an else and a condition in parentheses over two lines": """
        data, step, total = iter(loader), 0, 0.0
        while (step < 20 and
               not step > 21):  # in two lines
            x, y = next(data)
            STEP
            print(loss.item())  # fires
            step += 1
        else:
            print("done", step)
    """,
    "while until the data ends, with an exception": """
        data, losses = iter(loader), []
        try:
            while True:
                x, y = next(data)
                STEP
                losses.append(loss.item())  # fires
        except StopIteration:
            print(len(losses), sum(losses))
    """,
    "loader inside a progress bar and enumerate": """
        def tqdm(items, desc=""):
            return items
        total = 0.0
        for i, (x, y) in tqdm(enumerate(loader), desc="train"):
            STEP
            total += loss.item()  # fires
        print(i, total)
    """,
    "try and finally around the loop": """
        total = 0.0
        try:
            for x, y in loader:
                STEP
                total += loss.item()  # fires
        finally:
            print("at the end", total)
    """,
    "loop in a main guard": """
        def step_lr(epoch):
            return 0.1 / (epoch + 1)
        if __name__ == "__main__":
            for epoch in range(2):
                running = 0.0
                for x, y in loader:
                    STEP
                    running += loss.item() * len(x)  # fires
                print(epoch, running / len(loader))
    """,
    "decorated function, nested loops, else": """
        import functools
        def logged(function):
            @functools.wraps(function)
            def inner(*arguments):
                return function(*arguments)
            return inner
        @logged
        def train():
            seen = []
            for epoch in range(2):
                for x, y in loader:
                    for _ in range(2):
                        STEP
                        seen.append(loss.item())  # fires
                else:
                    print("epoch", epoch, len(seen))
            return seen
        seen = train()
    """,
    ".data.item() and .detach().cpu().item()": """
        total, other = 0.0, 0.0
        for x, y in loader:
            STEP
            total += loss.data.item()  # fires
            other += loss.detach().cpu().item()  # fires
        print(total, other)
    """,
    "walrus before the read": """
        total = 0.0
        for i, (x, y) in enumerate(loader):
            if (count := i + 1) > 0:
                STEP
                total += loss.item() * count  # fires
        print(total)
    """,
    "a mean with a first value and another branch that reads too": """
        ema = None
        for i, (x, y) in enumerate(loader):
            STEP
            ema = loss.item() if ema is None else 0.95 * ema + 0.05 * loss.item()  # fires
            print(i, round(ema, 6))
    """,
    "mean whose first value is a read of its own, then a progress bar": """
        class Bar:
            text = ""
            def __iter__(self):
                return iter(loader)
            def set_description(self, text):
                Bar.text += text
        bar = Bar()
        ema = None
        for x, y in bar:
            STEP
            if ema is None:
                ema = loss.item()  # fires
            else:
                ema = 0.95 * ema + 0.05 * loss.item()  # fires
            bar.set_description(f"loss: {ema:.4f}")
        print(Bar.text)
    """,
    "keyword constants stay what they are": """
        def show(*words, force=False):
            print(*words, force)
        def hand(value):
            return value
        total = 0.0
        for x, y in loader:
            STEP
            hand(True)
            print("loss", loss.item(), flush=True)  # fires
    """,
    "types handed to a method": """
        for x, y in loader:
            STEP
            right = (model(x).argmax(1) == y).cpu().numpy()  # fires
            print(float(right.astype(int).sum()), loss.item())  # fires
    """,
    "a sum that a rare block turns into a tensor": """
        running, steps = 0.0, 0
        for i, (x, y) in enumerate(loader):
            STEP
            running += loss.item()  # fires
            steps += 1
            if (i + 1) % 7 == 0:
                mean = torch.tensor(running / steps)
                mean = mean.item() / 1
                print(f"{i} {mean:.6f}")
                running, steps = 0.0, 0
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("interval", [10, 1])
@pytest.mark.parametrize("name", PATCHED)
def test_loops_of_every_shape_leave_the_same_lines_and_results(name: str, interval: int, tmp_path: Path) -> None:
    text = script(PATCHED[name])
    patch = patch_of(tmp_path, text, defer(text, interval))
    assert patch.declined == ()
    assert patch.hunks
    left = assert_same(tmp_path, text, patch)
    assert left.ending == ""


PATCHED |= {
    "lines of a log file that is opened for each": """
        import os, pathlib, tempfile
        log_file = os.path.join(tempfile.mkdtemp(), "log.txt")
        for i, (x, y) in enumerate(loader):
            if i % 8 == 0:
                with open(log_file, "a") as f:
                    f.write(f"{i} eval\\n")
            STEP
            with open(log_file, "a") as f:  # one line per batch
                f.write(f"{i} train {loss.item():.6f}\\n")  # fires
        f = None
        print(pathlib.Path(log_file).read_text())
        log_file = None
    """,
    "a row of a table for each batch": """
        import csv, pathlib, tempfile
        log_file = pathlib.Path(tempfile.mkdtemp()) / "log.tsv"
        for i, (x, y) in enumerate(loader):
            STEP
            with open(log_file, "a") as table:
                writer = csv.writer(table, delimiter="\t")
                writer.writerow([i, loss.item(), loss.item() if i > 2 else 0])  # fires
        print(log_file.read_text())
        log_file = writer = table = None
    """,
    "two kinds of lines of an imported logger": """
        import sys, types
        lines = []
        sys.modules["dllogger"] = types.SimpleNamespace(log=lambda step, data: lines.append((step, data)))
        import dllogger
        for step, (x, y) in enumerate(loader):
            STEP
            dllogger.log(step=step, data={"loss": loss.item()})  # fires
            dllogger.log(step=step, data={"rate": optimizer.param_groups[0]["lr"]})
        print(lines)
    """,
    "a picture keeps the order of its strokes": """
        import sys, types
        strokes = []
        draw = {name: lambda *words, name=name: strokes.append((name, *map(str, words))) for name in ("cla", "plot")}
        sys.modules["pictures"] = types.SimpleNamespace(**draw)
        import pictures as plt
        for x, y in loader:
            STEP
            plt.cla()
            plt.plot(loss.detach().cpu().numpy())  # fires
        print(strokes)
        draw = None
    """,
    "the iterator prints the meters between the batches": """
    class MetricLogger:
        def __init__(self):
            self.sums = {}
        def update(self, **values):
            for name, value in values.items():
                self.sums[name] = self.sums.get(name, 0) + value
        def log_every(self, items, every):
            for i, item in enumerate(items):
                yield item
                if i % every == 0:
                    print(i, self.sums)
    metric_logger = MetricLogger()
    for x, y in metric_logger.log_every(loader, 10):
        STEP
        metric_logger.update(loss=loss.item())  # fires
    """,
    "Accelerate: the values are the script's own": """
        class Accelerator:
            sync_gradients = True
            lines = []
            def accumulate(self, model):
                return torch.enable_grad()
            def gather(self, loss):
                return loss.repeat(1)
            def log(self, values, step):
                self.lines.append((step, values))
        if False:
            from accelerate import Accelerator
        accelerator = Accelerator()
        train_loss = 0.0
        for step, (x, y) in enumerate(loader):
            with accelerator.accumulate(model):
                STEP
                avg_loss = accelerator.gather(loss).mean()
                train_loss += avg_loss.item() / 2  # fires
            if accelerator.sync_gradients:
                accelerator.log({"train_loss": train_loss}, step=step)
                train_loss = 0.0
        print(accelerator.lines)
    """,
}


DECLINED = {
    "each pass of the loop fills another list": (
        """
        histories = [[], [], []]
        for history, (x, y) in zip(histories, loader):
            STEP
            history.append(loss.item())  # fires
        """,
        "another object in each pass",
    ),
    "a controller of another name gets the value": (
        """
        class Strength:
            value = 0.0
            def adapt(self, loss):
                self.value = loss
        augment = Strength()
        for x, y in loader:
            x = x + augment.value
            STEP
            value = loss.item()  # fires
            augment.adapt(value)
        """,
        "augment.adapt",
    ),
    "callbacks at the end of a batch": (
        """
        class Callbacks:
            stop = False
            def on_batch_end(self, logs):
                self.stop = logs["loss"] < 0
        callbacks = Callbacks()
        for i, (x, y) in enumerate(loader):
            STEP
            logs = {"loss": loss.item()}  # fires
            callbacks.on_batch_end(logs)
        """,
        "callbacks.on_batch_end",
    ),
    "the loop goes on as long as the loss is large": (
        """
        value, step = 1e9, 0
        data = iter(loader)
        while value > 0.1 and step < 20:
            x, y = next(data)
            STEP
            value = loss.item()  # fires
            step += 1
        """,
        "whether the loop goes on",
    ),
    "the condition of the loop binds the batch": (
        """
        data, total = iter(loader), 0.0
        while (batch := next(data, None)) is not None:
            x, y = batch
            STEP
            total += loss.item()  # fires
        """,
        "binds a name",
    ),
    "the condition of the loop can run out of items": (
        """
        data, total = iter(loader), 0.0
        try:
            while len(next(data)) > 0:
                x, y = loader[0]
                STEP
                total += loss.item()  # fires
        except StopIteration:
            print("the end")
        """,
        "calls `next(…)`",
    ),
    "a function of the file looks at a global sum": (
        """
        total = 0.0
        def report():
            show()
        def show():
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + total)
        def train():
            global total
            for x, y in loader:
                STEP
                total += loss.item()  # fires
                report()
        train()
        """,
        "`report()` looks at `total`",
    ),
    "another copy to the host that only this read makes safe": (
        """
        total, seen = 0.0, 0
        host = torch.empty(3)
        for x, y in loader:
            STEP
            host.copy_(model.bias.detach(), non_blocking=True)
            total += loss.item()  # fires
            seen += host.argmax()
        """,
        "copies to the host without blocking",
    ),
    "side streams behind the start of several processes": (
        """
        import torch.distributed as dist
        total = 0.0
        def prepare():
            dist.init_process_group("nccl")
            with torch.cuda.stream(torch.cuda.Stream()):
                pass
        for x, y in loader:
            STEP
            total += loss.item()  # fires
        """,
        "side streams",
    ),
    "the trainer of transformers": (
        """
        if loader is None:
            from transformers import Trainer
        total = 0.0
        for x, y in loader:
            STEP
            total += loss.item()  # fires
        """,
        "transformers.Trainer",
    ),
    "a walrus around the read": (
        """
        for x, y in loader:
            STEP
            print(value := loss.item(), value)  # fires
        """,
        "cannot be evaluated later",
    ),
    "f-string that spells its expression": (
        """
        for x, y in loader:
            STEP
            print(f"{loss.item()=}")  # fires
        """,
        "prints the expression itself",
    ),
    "an imported meter that the batch looks at": (
        """
        import sys, types
        sys.modules["meters"] = types.SimpleNamespace(losses=[])
        from meters import losses
        for x, y in loader:
            STEP
            losses.append(loss.item())  # fires
            if losses[-1] > 100:
                break
        """,
        "decides",
    ),
    "nested function of the optimizer": (
        """
        total = 0.0
        for x, y in loader:
            def closure():
                global total
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                total += loss.item()  # fires
                return loss
            optimizer.step(closure)
        """,
        "not in a loop",
    ),
    "async for": (
        """
        async def train(batches):
            total = 0.0
            async for x, y in batches:
                STEP
                total += loss.item()  # fires
            return total
        """,
        "async",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_would_be_seen_too_late_stays_and_says_why(name: str, tmp_path: Path) -> None:
    body, words = DECLINED[name]
    patch = patch_of(tmp_path, script(body))
    assert patch.empty
    assert [words in one.obstacle for one in patch.declined] == [True]
    assert all(one.by_hand and one.location.line for one in patch.declined)


def test_of_reads_that_exclude_each_other_the_first_are_deferred(tmp_path: Path) -> None:
    text = script(
        """
        total, value = 0.0, 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            if i % 9 == 0:
                value = loss.item()  # fires
                optimizer.param_groups[0]["lr"] = 0.1 if value > 1 else 0.05
        print(total, value)
        """
    )
    patch = patch_of(tmp_path, text)
    assert "total += loss_value" in patched_text(patch)
    assert [one.location.line for one in patch.declined] == [19]
    assert_same(tmp_path, text, patch)
