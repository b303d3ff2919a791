"""A new name is one that nobody has."""

from __future__ import annotations

from tracelens.patch.code.naming import take_name, unused_name


def test_a_name_that_nobody_has_stays() -> None:
    assert unused_name("ahead", {"loss"}, {}) == "ahead"


def test_the_first_number_that_is_free_in_every_set() -> None:
    assert unused_name("ahead", {"ahead", "ahead_3"}, ["ahead_2"]) == "ahead_4"


def test_a_name_that_is_taken_is_not_given_twice() -> None:
    used: set[str] = set()
    assert [take_name("loss", {"loss"}, used), take_name("loss", {"loss"}, used)] == ["loss_2", "loss_3"]
    assert used == {"loss_2", "loss_3"}
