"""Which moments end a training step, from letters: b a backward, n a batch wanted, capitals an optimizer's exit."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys

import pytest

from tests.support import lean
from tests.support.places import ROOT, SCRIPTS
from tracelens.launch.inside.steps import StepRule


def ends(moments: str) -> tuple[StepRule, list[int]]:
    rule, found = StepRule(), []
    for position, moment in enumerate(moments):
        if moment == "b":
            ended = rule.backward_ended(stepped_inside=False)
        elif moment == "i":
            ended = rule.backward_ended(stepped_inside=True)
        elif moment == "n":
            ended = rule.batch_wanted()
        else:
            ended = rule.optimizer_ended(moment)
        if ended:
            found.append(position)
    return rule, found


@pytest.mark.parametrize(
    ("iteration", "source"),
    [
        ("nbA", "optimizer"),
        ("nbnbnbnbA", "optimizer"),  # gradient accumulation
        ("nbDbG", "optimizer"),  # a GAN
        ("nbDbDbDbDbDbG", "optimizer"),  # with five critic steps
        ("nbAB", "optimizer"),  # two optimizers after one backward
        ("nbAAAA", "optimizer"),  # one call per parameter group
        ("A", "optimizer"),  # gradients made by hand
        ("ni", "optimizer"),  # the optimizer steps inside backward
        ("n", "dataloader"),  # evaluation
        ("nb", "dataloader"),  # an update written by hand
        ("b", "backward"),
    ],
)
def test_each_iteration_is_one_step(iteration: str, source: str) -> None:
    rule, found = ends(iteration * 200)
    assert rule.source == source
    last = found[-100:]
    assert {after - before for before, after in itertools.pairwise(last)} == {len(iteration)}


def test_the_generator_is_the_anchor_however_it_is_ordered() -> None:
    assert ends("bDbDbG" * 20)[0].anchor == "G"
    assert ends("bGbDbD" * 20)[0].anchor == "G"
    assert ends("bDbDbG" * 20)[0].per_step() == {"D": pytest.approx(2, abs=0.1), "G": 1.0}


def test_a_new_phase_with_another_optimizer_goes_on_counting() -> None:
    _, found = ends("bA" * 30 + "bB" * 30)
    assert len(found) >= 58  # one step may be lost where the phases meet


def test_a_rare_second_optimizer_is_no_anchor() -> None:
    rule, found = ends(("bA" * 40 + "bT") * 5)
    assert rule.anchor == "A"
    assert len(found) >= 195


def test_a_change_of_the_rule_is_said() -> None:
    rule = StepRule()
    assert rule.optimizer_ended("D")
    assert rule.restarted
    assert rule.optimizer_ended("D")
    assert not rule.restarted
    assert rule.optimizer_ended("G")
    assert rule.restarted


class Thorough(StepRule):
    """The rule without its short cut for a single optimizer."""

    def optimizer_ended(self, key: object) -> bool:
        self._only = None
        ended = super().optimizer_ended(key)
        self._only = None
        return ended


def test_the_short_cut_for_one_optimizer_changes_nothing() -> None:
    chance = random.Random(7)
    for _ in range(300):
        quick, thorough = StepRule(), Thorough()
        letters = "AAAAAAAAAAbbbnni" + chance.choice(("", "B", "BC"))
        for moment in chance.choices(letters, k=chance.randrange(1, 200)):
            answers = []
            for rule in (quick, thorough):
                if moment in "bi":
                    answers.append(rule.backward_ended(stepped_inside=moment == "i"))
                else:
                    answers.append(rule.batch_wanted() if moment == "n" else rule.optimizer_ended(moment))
            assert answers[0] == answers[1]
            assert (quick.count, quick.source, quick.anchor) == (thorough.count, thorough.source, thorough.anchor)
            assert quick.per_step() == thorough.per_step()


@pytest.mark.programs
def test_steps_that_pass_unseen_count_as_those_that_are_seen() -> None:
    """In a process of its own, because the hooks stay."""
    pytest.importorskip("torch")
    done = subprocess.run(
        (sys.executable, SCRIPTS / "fast_path.py", "1", "20"),
        env={**os.environ, "PYTHONPATH": f"{lean.SITE}:{ROOT}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "saved True\n", done.stdout[-2000:] + done.stderr[-2000:]
