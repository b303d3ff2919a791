"""A loop of a few rounds within each step, which trains by itself: the critic's of a GAN."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

STEPS = """
    rounds = 3
    critic = nn.Linear(4, 3)
    optim_D = torch.optim.SGD(critic.parameters(), lr=0.1)
    optim_G = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        total = 0
        for k in range(ROUNDS):
            optim_D.zero_grad()
            x, y = loader[step]
            loss, other = criterion(critic(x), y), criterion(critic(x) * 2, y)
            loss = loss / 2
            loss.backward()
            READS
            optim_D.step()
        loss = total / rounds
        print(step, loss)
        optim_G.zero_grad()
        (-critic(model(x).repeat(1, 2)[:, :4]).mean()).backward()
        optim_G.step()
"""
SUM = "total += loss.detach().item()  # fires"
ARRAY = "values = critic(x).detach().cpu().numpy(); total += values.sum()  # fires"


def steps(reads: str = SUM, rounds: str = "rounds") -> str:
    return script(STEPS.replace("READS", reads).replace("ROUNDS", rounds))


def test_plain_lines_read_after_the_rounds(tmp_path: Path) -> None:
    """`loss` is a number behind the rounds, and a tensor where its gradients have just been computed."""
    text = steps()
    patch = patch_of(tmp_path, text)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert "tracelens_runtime" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(("rounds", "declined"), [("rounds", True), ("len(loader)", False)])
def test_no_helpers_are_made_anew_in_each_step(rounds: str, declined: bool, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, steps("total += critic(x).detach().cpu().numpy().sum()  # fires", rounds))
    assert patch.empty == declined
    told = [one.obstacle for one in patch.declined if "helpers would be made anew" in one.obstacle]
    assert bool(told) == declined


def test_a_name_that_has_another_value_since_is_not_what_went_back(tmp_path: Path) -> None:
    text = steps("loss = loss.detach().numpy()\n            total += loss.item()  # fires")
    patch = patch_of(tmp_path, text)
    assert patch.empty or assert_same(tmp_path, text, patch)
