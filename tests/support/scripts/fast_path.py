"""Loops of random happenings, each once with every step observed and once with steps let pass: prints what differs."""

import random
import sys
from collections.abc import Iterator

import torch

from tracelens.launch.inside import hooks

hooks.install()
MODEL = torch.nn.Linear(2, 1)
A, B = torch.optim.SGD(MODEL.parameters(), lr=0.0), torch.optim.Adam(MODEL.parameters(), lr=0.0)
SCALER = torch.amp.GradScaler("cpu")
ROWS = torch.utils.data.TensorDataset(torch.zeros(4, 2))


def batches() -> Iterator[object]:
    while True:
        yield from torch.utils.data.DataLoader(ROWS)


def play(moments: str, room: int) -> tuple[object, ...]:
    """What was counted, by which rule, and how often the observer was called."""
    hooks.restart()
    loader, ended, calls = batches(), [], []

    def observer(step: hooks.Step) -> None:
        ended.extend(hooks.unobserved_ends())
        calls.append((step.number, step.source))
        ended.append(step.number)
        if step.number > 3:
            hooks.allow_unobserved(room)

    remove = hooks.on_step(observer)
    for moment in moments:
        if moment == "b":
            MODEL(torch.ones(1, 2)).sum().backward()
        elif moment == "n":
            next(loader)
        elif moment == "s":
            SCALER.scale(torch.zeros(()))
            SCALER.step(A)
            SCALER.update()
        else:
            (A if moment == "A" else B).step()
    ended.extend(hooks.unobserved_ends())
    remove()
    rule = hooks.rule()
    return (len(ended), rule.count, rule.source, rule.anchor), len(calls)


def main() -> None:
    chance = random.Random(int(sys.argv[1]))
    saved = 0
    for _ in range(int(sys.argv[2])):
        kinds = ["nbA"] * 12 + ["nbs", "nbAA", "nbnbA", "nbAB", "n" * chance.randrange(80), "b" * chance.randrange(70)]
        moments = "".join(chance.choices(kinds, k=60))
        expected, all_calls = play(moments, 0)
        found, calls = play(moments, chance.randrange(1, 30))
        saved += all_calls - calls
        if found != expected:
            print(moments, expected, found)
    print("saved", saved > 0)


main()
