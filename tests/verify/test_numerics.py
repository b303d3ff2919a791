"""Changes that alter numbers on purpose, with real processes: judged against the seeds of the original."""

from dataclasses import replace

import pytest

from tests.support.verifying import LINE, TRAIN, change, script, session
from tracelens.model import Hunk, Location
from tracelens.verify import result

pytestmark = pytest.mark.programs

STEPS = 60
SEEDED = (
    TRAIN.replace("        time.sleep(0.004)\n", "")
    .replace("lr=0.1", "lr=0.02")
    .replace("net = ", "torch.manual_seed(17)\nnet = ", 1)
)
"""It sets its own seed, so that another one of ours would change nothing."""


def unsafe(made):
    """The change, as one that was asked for with --unsafe."""
    hunk = Hunk("u1", "prefetch", "unsafe", Location("train.py", 9), "it moves random draws", "")
    return replace(made, patch=replace(made.patch, hunks=(hunk,)))


def test_unsafe_changes_are_held_against_the_seeds_of_the_original(project):
    path = script(project, SEEDED)
    draw = change(path, LINE, LINE + "        torch.randn(3)\n", "moved")
    stuck = change(path, LINE, LINE + "        for p in net.parameters(): p.grad.zero_()\n", "stuck")
    thinned = change(path, "        print(", "        if step % 10 == 0: print(", "thinned")
    found = session(path, unsafe(draw), unsafe(stuck), unsafe(thinned))
    found.request, found.steps = replace(found.request, steps=STEPS), STEPS
    found.compare_numbers()
    assert [version.alive for version in found.versions] == [True, False, True], "whose times are worth measuring"
    assert len(found.seeded) == 2, "two changes share the seeds of the original"
    moved, stuck, thinned = (result.build_verification(found.measurements(version, ())) for version in found.versions)

    assert moved.details["seed_noise"]["verdict"] == "within seed noise", moved.verdict
    assert (moved.numbers_equal, moved.outcome) == (False, "inconclusive"), "its speed was not measured"
    assert (moved.details["seed_noise"]["seeds"], moved.details["unsafe"]) == (3, ["it moves random draws"])
    assert "stay within seed noise" in moved.verdict

    assert (stuck.outcome, stuck.details["seed_noise"]["verdict"]) == ("different numbers", "diverges"), stuck.verdict
    assert "diverges" in stuck.verdict

    assert (thinned.numbers_equal, thinned.details["seed_noise"]) == (True, None), thinned.verdict
    assert "the output differs, as an unsafe change may make it" in thinned.verdict
