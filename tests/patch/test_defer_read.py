"""defer-read: each row of the matrix is patched, run, and compared with the original to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script

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


@pytest.mark.parametrize(("name", "interval"), ROWS)
def test_a_patched_loop_leaves_the_same_lines_results_and_weights(name: str, interval: int, tmp_path: Path) -> None:
    text = script(PATCHED[name])
    patch = patch_of(tmp_path, text, defer(text, interval))
    assert patch.declined == ()
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"] * len(patch.hunks) != []
    assert_same(tmp_path, text, patch)


DECLINED = {
    "not-a-number guard": (
        """
        import math, sys
        for x, y in loader:
            STEP
            loss_value = loss.item()  # fires
            if not math.isfinite(loss_value):
                sys.exit(1)
        """,
        "decides",
    ),
    "the loop ends when the loss is small": (
        """
        for x, y in loader:
            STEP
            if loss.item() < 1e-3:  # fires
                break
        """,
        "decides",
    ),
    "a tensor that is a condition": (
        """
        for x, y in loader:
            STEP
            if loss < 1e-3:  # fires
                break
        """,
        "decides",
    ),
    "an assertion about a tensor, over two lines": (
        """
        for x, y in loader:
            STEP
            assert (loss >= 0
                    and loss < 100)  # fires
        """,
        "decides",
    ),
    "what a condition on the same line lets happen": (
        """
        for i, (x, y) in enumerate(loader):
            STEP
            if i >= 0: print(loss)  # fires
        """,
        "the text of the tensor `loss` itself",
    ),
    "a size that depends on values": (
        """
        for i, (x, y) in enumerate(loader):
            STEP
            seen = model(x)[y > 0]  # fires
        """,
        "the shape of `model(x)[y > 0]` depends on values",
    ),
    "early stopping by a counter": (
        """
        best, patience = 1e9, 0
        for x, y in loader:
            STEP
            value = loss.item()  # fires
            if value < best:
                best, patience = value, 0
            else:
                patience += 1
            if patience > 20:
                break
        """,
        "decides",
    ),
    "the value weighs the next loss (BEGAN's k)": (
        """
        k = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y) - k * model.weight.mean()
            loss.backward()
            optimizer.step()
            k = k + 0.001 * loss.item()  # fires
        """,
        "",
    ),
    "loss-aware sampler": (
        """
        class Sampler:
            def update(self, value):
                pass
        sampler = Sampler()
        for x, y in loader:
            STEP
            sampler.update(loss.item())  # fires
        """,
        "takes part in the training",
    ),
    "scheduler stepped by the loss of each batch": (
        """
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        for x, y in loader:
            STEP
            scheduler.step(loss.item())  # fires
        """,
        "takes part in the training",
    ),
    "the tensor itself is printed": (
        """
        for x, y in loader:
            STEP
            print(loss, loss.item())  # fires
        """,
        "tensor `loss` itself",
    ),
    "locals()": (
        """
        def main():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()  # fires
            print(sorted(locals()))
        main()
        """,
        "locals",
    ),
    "closure of an optimizer": (
        """
        optimizer = torch.optim.LBFGS(model.parameters())
        for x, y in loader[:2]:
            def closure():
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                print(loss.item())  # fires
                return loss
            optimizer.step(closure)
        """,
        "not in a loop of its own function",
    ),
    "returned by a step function": (
        """
        def step(x, y):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.item()  # fires
        total = sum(step(x, y) for x, y in loader)
        """,
        "not in a loop",
    ),
    "an inner function reads the sum": (
        """
        def main():
            total = 0.0
            def report():
                print("total", total)
            for x, y in loader:
                STEP
                total += loss.item()  # fires
                report()
        main()
        """,
        "function defined here",
    ),
    "a callback receives self": (
        """
        class Trainer:
            loss = 0.0
            def fit(self):
                for x, y in loader:
                    STEP
                    self.loss = loss.item()  # fires
                    self.callback(self)
            def callback(self, trainer):
                print(trainer.loss)
        Trainer().fit()
        """,
        "self",
    ),
    "a method called in the loop uses the sum": (
        """
        class Trainer:
            def __init__(self):
                self.total = 0.0
            def fit(self):
                for x, y in loader:
                    STEP
                    self.total += loss.item()  # fires
                    self.report()
            def report(self):
                print(self.total)
        Trainer().fit()
        """,
        "uses the results",
    ),
    "generator": (
        """
        def train():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()  # fires
                yield total
        result = list(train())
        """,
        "generator",
    ),
    "side streams in the file": (
        """
        total = 0.0
        def copies():
            with torch.cuda.stream(torch.cuda.Stream()):
                pass
        for x, y in loader:
            STEP
            total += loss.item()  # fires
        """,
        "side streams",
    ),
    "kept by a comment on its line": (
        """
        total = 0.0
        for x, y in loader:
            STEP
            total += loss.item()  # tracelens: keep  # fires
        """,
        "keep",
    ),
    "kept by a comment above": (
        """
        total = 0.0
        for x, y in loader:
            STEP
            # tracelens: keep
            total += loss.item()  # fires
        """,
        "keep",
    ),
    "read only every few batches already": (
        """
        for step, (x, y) in enumerate(loader):
            STEP
            if step % 5 == 0:
                scheduled = loss.item()  # fires
                optimizer.param_groups[0]["lr"] = 0.1 + 0.0 * scheduled
        """,
        "few batches",
    ),
    "the name of the tensor is bound to its value": (
        """
        total = 0.0
        for x, y in loader:
            STEP
            loss = loss.item()  # fires
            total += loss
        """,
        "",
    ),
    "where an exception may be caught": (
        """
        total = 0.0
        for x, y in loader:
            STEP
            try:
                total += loss.item()  # fires
            except ValueError:
                total = 0.0
        """,
        "exception",
    ),
    "learning rate from the loss": (
        """
        for x, y in loader:
            STEP
            value = loss.item()  # fires
            optimizer.param_groups[0]["lr"] = 0.1 if value > 1 else 0.05
        """,
        "",
    ),
    "assertion": (
        """
        for x, y in loader:
            STEP
            value = loss.item()  # fires
            assert value == value
        """,
        "assert",
    ),
    "handed to a function of another file": (
        """
        from json import loads as observe
        for x, y in loader:
            STEP
            observe(str(loss.item()))  # fires
        """,
        "observe",
    ),
    "Lightning": (
        """
        total = 0.0
        if total:
            import lightning
        for x, y in loader:
            STEP
            total += loss.item()  # fires
        """,
        "Lightning",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_a_loop_that_needs_the_value_stays_as_it_is_and_says_why(name: str, tmp_path: Path) -> None:
    body, words = DECLINED[name]
    patch = patch_of(tmp_path, script(body))
    assert patch.empty
    assert patch.hunks == ()
    assert patch.diff == ""
    (declined,) = patch.declined
    assert words in declined.obstacle
    assert declined.by_hand
    assert declined.location.line is not None


def test_what_can_be_deferred_is_deferred_beside_what_cannot(tmp_path: Path) -> None:
    text = script(
        """
        total, k = 0.0, 0.0
        for x, y in loader:
            STEP
            total += loss.item()  # fires
            k = loss.item()  # fires
            if k > 100:
                break
        print(total)
        """
    )
    patch = patch_of(tmp_path, text)
    assert [hunk.location.line for hunk in patch.hunks] == [17]
    assert [declined.location.line for declined in patch.declined] == [18]
    assert_same(tmp_path, text, patch)


ENDINGS = [
    "raise ValueError('full')",
    "raise SystemExit(3)",
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
]


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_finished_batch_is_lost_when_the_loop_is_left_by_an_exception(ending: str, tmp_path: Path) -> None:
    text = script(
        f"""
        total = 0.0
        try:
            for step, (x, y) in enumerate(loader):
                STEP
                total += loss.item()  # fires
                print(step, total)
                if step == 13:
                    {ending}
        except BaseException as error:
            print(type(error).__name__, total)
            raise
        """
    )
    patch = patch_of(tmp_path, text)
    left = assert_same(tmp_path, text, patch)
    assert "13 " in left.output


def test_an_error_of_the_loader_comes_after_the_lines_of_the_batches_before_it(tmp_path: Path) -> None:
    text = script(
        """
        def batches():
            yield from loader[:13]
            raise OSError("disk")
        total = 0.0
        for step, (x, y) in enumerate(batches()):
            STEP
            total += loss.item()  # fires
            print(step, total)
        """
    )
    left = assert_same(tmp_path, text, patch_of(tmp_path, text))
    assert left.ending == "OSError: disk"


@pytest.mark.parametrize("batches", [0, 1, 9, 10, 11, 20])
def test_any_number_of_batches(batches: int, tmp_path: Path) -> None:
    text = script(PATCHED["sum in a function, lines that depend on it, epochs"], batches)
    assert_same(tmp_path, text, patch_of(tmp_path, text))


def test_an_error_in_a_deferred_statement_stops_the_loop_and_the_lines_after_it(tmp_path: Path) -> None:
    text = script(
        """
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            print(step, 1 / (3 - int(total > 2.5) * 3))
            if step > 11:
                break
        """
    )
    patch = patch_of(tmp_path, text)
    assert_same_until_error(tmp_path, text, patch)


def assert_same_until_error(folder: Path, text: str, patch) -> None:
    from tests.support.patching import run

    (folder / "after").mkdir()
    runtime = next(one for one in patch.files if one.path.name == "tracelens_runtime.py")
    (folder / "after" / runtime.path.name).write_bytes(runtime.after)
    before, after = run(folder / "before", text), run(folder / "after", patched_text(patch))
    assert (after.output, after.ending) == (before.output, before.ending)
    assert before.ending.startswith("ZeroDivisionError")
