"""defer-read: each loop is patched, run, and equal to the original to the bit, lines and weights included."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, script

PATCHED = {
    "sum at module level": """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
        print(f"mean {total / len(loader):.6f}")
    """,
    "sum in a function, lines that depend on it, epochs": """
        def main():
            history = []
            for epoch in range(2):
                running = 0.0
                for step, (x, y) in enumerate(loader):
                    STEP
                    running += loss.item()  # fires
                    if (step + 1) % 4 == 0:
                        print(f"epoch {epoch} step {step + 1} loss {running / (step + 1):.8f}")
                history.append(running)
            return history
        history = main()
    """,
    "window sum with reset": """
        running = 0.0
        for i, (x, y) in enumerate(loader, 0):
            STEP
            running += loss.item()  # fires
            if i % 5 == 4:  # every 5 batches
                print("[%d] loss: %.6f" % (i + 1, running / 5))
                running = 0.0
    """,
    "sum in a dict": """
        stats = {"loss": 0.0, "count": 0}
        for x, y in loader:
            STEP
            stats["loss"] += loss.item() * x.size(0)  # fires
            stats["count"] += x.size(0)
        print(stats)
    """,
    "meters behind a progress display": """
        import time

        class Meter:
            def __init__(self):
                self.sum = self.count = 0
            def update(self, value, n=1):
                self.sum += value * n
                self.count += n
            @property
            def avg(self):
                return self.sum / self.count

        class Progress:
            def __init__(self, meters):
                self.meters = meters
            def display(self, batch):
                print(batch, [m.avg for m in self.meters])

        losses, sizes = Meter(), Meter()
        progress = Progress([losses, sizes])
        for i, (x, y) in enumerate(loader):
            sizes.update(len(x))
            STEP
            losses.update(loss.item(), x.size(0))  # fires
            if i % 3 == 0:
                progress.display(i)
    """,
    "print in each batch": """
        for step, (x, y) in enumerate(loader):
            STEP
            print("step", step, "loss", loss.item(), f"{loss.item():.3f}", optimizer.param_groups[0]["lr"])  # fires
    """,
    "exponential mean with its first value": """
        ema = None
        for x, y in loader:
            STEP
            value = loss.item()  # fires
            if ema is None:
                ema = value
            else:
                ema = 0.9 * ema + 0.1 * value
            print(round(ema, 9))
    """,
    "running mean with the number of the batch": """
        tloss = 0
        for i, (x, y) in enumerate(loader):
            STEP
            tloss = (tloss * i + loss.item()) / (i + 1)  # fires
        print(tloss)
    """,
    "list": """
        losses = []
        for x, y in loader:
            STEP
            losses.append(loss.item())  # fires
        print(sum(losses))
    """,
    "progress bar": """
        class Bar:
            def __init__(self, items):
                self.items, self.text = items, ""
            def __iter__(self):
                return iter(self.items)
            def set_postfix(self, **values):
                self.text = str(values)
        bar = Bar(loader)
        for x, y in bar:
            STEP
            bar.set_postfix(loss=f"{loss.item():.4f}")  # fires
        print(bar.text)
    """,
    "log of a dict": """
        class Writer:
            rows = []
            def log(self, row, step):
                self.rows.append((step, row))
        writer = Writer()
        for step, (x, y) in enumerate(loader):
            STEP
            row = {"loss": loss.item(), "epoch": 0}  # fires
            row["step"] = step
            writer.log(row, step=step)
        rows = Writer.rows
    """,
    "row of a table": """
        import csv, io
        out = io.StringIO()
        table = csv.writer(out)
        for step, (x, y) in enumerate(loader):
            STEP
            table.writerow([step, loss.item()])  # fires
        print(out.getvalue())
    """,
    "two losses, and a number of correct ones": """
        total, correct, seen = 0.0, 0, 0
        for x, y in loader:
            STEP
            total += loss.item()  # fires
            seen += y.size(0)
            correct += (model(x).argmax(dim=1) == y).sum().item()  # fires
            print(f"{100.0 * correct / seen:.2f} {total:.4f}")
    """,
    "a loss that is not there in each batch": """
        a = b = 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            a += loss.item()  # fires
            if i % 3 == 0:
                extra = (model(x) ** 2).mean()
                b += extra.item()  # fires
            print(i, a, b)
    """,
    "assigned, then used in two places with training between": """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            loss_value = loss.item()  # fires
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / (step + 1)
            total += loss_value
            print(step, loss_value, total)
    """,
    "in a function, assigned and used in two places": """
        def main():
            total = 0.0
            for step, (x, y) in enumerate(loader):
                STEP
                loss_value = loss.item()  # fires
                optimizer.param_groups[0]["lr"] *= 0.9
                total += loss_value
            return total, loss_value
        result = main()
    """,
    "in place after the read": """
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            total += loss.item()  # fires
            loss = loss / 4
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                loss /= 3
            total += loss.item()  # fires
        print(total)
    """,
    "gradient accumulation": """
        data = iter(loader)
        total = 0.0
        for step in range(5):
            optimizer.zero_grad()
            for micro in range(4):
                x, y = next(data)
                loss = criterion(model(x), y) / 4
                loss.backward()
                total += loss.item()  # fires
            optimizer.step()
            print(step, total)
    """,
    "break": """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            if step == 16:
                break
        print(total)
    """,
    "return of the result from within the loop": """
        def train(limit):
            total = 0.0
            for step, (x, y) in enumerate(loader):
                STEP
                total += loss.item()  # fires
                if step >= limit:
                    return total / (step + 1)
        result = train(13)
    """,
    "continue": """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            if step % 5 == 2:
                continue
            STEP
            total += loss.item()  # fires
        else:
            print("all done", total)
    """,
    "checkpoint that holds the sum": """
        saved = []
        def save(**state):
            saved.append(state)
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            if step % 7 == 6:
                save(step=step, total=total)
    """,
    "evaluation that prints": """
        def evaluate():
            with torch.no_grad():
                print("eval", sum(criterion(model(x), y).item() for x, y in loader[:2]))
        for step, (x, y) in enumerate(loader):
            STEP
            print(step, loss.item())  # fires
            if (step + 1) % 8 == 0:
                evaluate()
    """,
    "same name in the training and the evaluation loop": """
        def main():
            for epoch in range(2):
                total = 0.0
                for x, y in loader:
                    STEP
                    total += loss.item()  # fires
                print("train", total)
                total = 0.0
                for x, y in loader:
                    loss = criterion(model(x), y)
                    total += loss.item()  # fires
                print("test", total)
        main()
    """,
    "method that keeps its sum in an attribute": """
        class Trainer:
            def __init__(self):
                self.total = 0.0
                self.model = model
            def train(self):
                for step, (x, y) in enumerate(loader):
                    STEP
                    self.total += loss.item()  # fires
                    if step % 6 == 0:
                        print(step, self.total)
                return self.total
        result = Trainer().train()
    """,
    "float(), numpy, tolist and formats": """
        values, rows = [], []
        for x, y in loader:
            STEP
            values.append(float(loss.detach()))  # fires
            rows.append(loss.detach().cpu().numpy() * 2)  # fires
            rows.append(y.tolist())  # fires
            print("{:.5f}".format(loss), f"{loss:.2f}", "%.3f" % loss.item())  # fires
        rows = [str(row) for row in rows]
    """,
    "value or a constant": """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            penalty = (model.weight ** 2).sum() if step > 3 else None
            total += loss.item() + (penalty.item() if penalty is not None else 0.0)  # fires
        print(total)
    """,
    "several statements on a line, and a suite on its line": """
        total = 0.0; count = 0
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad(); loss = criterion(model(x), y)
            loss.backward(); optimizer.step()
            if step >= 0: total += loss.item()  # fires
            count += 1
        print(total, count)
    """,
    "function of the script that formats": """
        def show(step, value):
            print("step {} loss {:.6f}".format(step, value))
        for step, (x, y) in enumerate(loader):
            STEP
            show(step, loss.item())  # fires
    """,
    "global accumulator in a function": """
        total = 0.0
        def train():
            global total
            for x, y in loader:
                STEP
                total += loss.item()  # fires
        train()
        print(total)
    """,
    "tensor printed every few batches beside the sum": """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            if step % 9 == 0:
                print(loss, total)
    """,
    "meter that keeps tensors": """
        top1 = []
        class Meter:
            value = total = 0
            def update(self, value, n):
                self.value = value
                self.total += value * n
        losses, accuracy = Meter(), Meter()
        _both = [losses, accuracy]
        for i, (x, y) in enumerate(loader):
            STEP
            right = (model(x).argmax(1) == y).float().mean(0, keepdim=True)
            losses.update(loss.item(), x.size(0))  # fires
            accuracy.update(right[0], x.size(0))
            if i % 4 == 0:
                print([f"{m.value:.3f} {m.total:.3f}" for m in _both])
    """,
    "tensor that a rare branch uses under the name of a result": """
        total = value = 0.0
        for i, (x, y) in enumerate(loader):
            STEP
            value = loss * 2
            total += value.item()  # fires
            if i % 7 == 6:
                value = total / 7
                print(i, value)
                total = 0.0
    """,
    "settings shown by vars": """
        import argparse
        args = argparse.Namespace(rate=0.1)
        def main():
            total = 0.0
            print(vars(args))
            for x, y in loader:
                STEP
                total += loss.item()  # fires
            return total
        result = main()
    """,
    "logger": """
        import logging, sys
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s", force=True)
        logger = logging.getLogger("train")
        for step, (x, y) in enumerate(loader):
            STEP
            logger.info("step %d loss %.6f", step, loss.item())  # fires
        logging.basicConfig(stream=sys.stderr, force=True)
    """,
}


AS_SOON_AS_POSSIBLE = 1
ROWS = [(name, 10) for name in PATCHED] + [(name, AS_SOON_AS_POSSIBLE) for name in list(PATCHED)[::4]]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "interval"), ROWS)
def test_a_patched_loop_leaves_the_same_lines_results_and_weights(name: str, interval: int, tmp_path: Path) -> None:
    text = script(PATCHED[name])
    patch = patch_of(tmp_path, text, defer(text, interval))
    assert patch.declined == ()
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"] * len(patch.hunks) != []
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("batches", [0, 1, 9, 10, 11, 20])
def test_any_number_of_batches(batches: int, tmp_path: Path) -> None:
    text = script(PATCHED["sum in a function, lines that depend on it, epochs"], batches)
    assert_same(tmp_path, text, patch_of(tmp_path, text))
