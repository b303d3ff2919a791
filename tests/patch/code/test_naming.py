"""A new name is one that nobody has."""

from __future__ import annotations

import libcst as cst
import pytest

from tracelens.patch.code.naming import name_for, take_name, unused_name


def test_a_name_that_nobody_has_stays() -> None:
    assert unused_name("ahead", {"loss"}, {}) == "ahead"


def test_the_first_number_that_is_free_in_every_set() -> None:
    assert unused_name("ahead", {"ahead", "ahead_3"}, ["ahead_2"]) == "ahead_4"


def test_a_name_that_is_taken_is_not_given_twice() -> None:
    used: set[str] = set()
    assert [take_name("loss", {"loss"}, used), take_name("loss", {"loss"}, used)] == ["loss_2", "loss_3"]
    assert used == {"loss_2", "loss_3"}


@pytest.mark.parametrize(
    ("value", "read", "name"),
    [
        ("loss", "item", "loss_value"),
        ("images.size(0)", "", "images_size"),
        ("epoch * len(loader) + i", "", "step"),
        ("self.epoch * self.steps_per_epoch + it", "", "step"),
        ("epoch + 1", "", "epoch_number"),
        ("i + 1", "", "number"),
        ("correct / total", "", "correct_ratio"),
        ("scheduler.get_last_lr()[0]", "", "lr"),
        ("optimizer.param_groups[0]['lr']", "", "lr"),
        ("self.global_step", "", "global_step"),
        ("torch.sigmoid(logits)", "numpy", "sigmoid_array"),
        ("(ratio != clipped).float().mean()", "item", "mean_value"),
        ("output.detach().float().norm()", "item", "output_norm_value"),
    ],
)
def test_a_value_is_named_after_what_it_is(value: str, read: str, name: str) -> None:
    assert name_for(cst.parse_expression(value), read) == name
