"""defer-read: loops that need a value in its batch stay as they are, and the reason is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

DECLINED = {
    "a loss that is written back into the dict of which the loop goes backward": (
        """
        for x, y in loader:
            losses = {"loss": criterion(model(x), y)}
            optimizer.zero_grad()
            losses["loss"].backward()
            optimizer.step()
            losses["loss"] = losses["loss"].item()  # fires
            print(losses)
        """,
        'the value reaches `losses["loss"].backward(…)`',
    ),
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
