"""Reads in comprehensions wait: what is gone through is gone through in its batch, what is made of it is made later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

LOOP = """
    history, total = [], 0.0
    for i, (x, y) in enumerate(loader):
        STEP
        parts = {{"a": loss, "b": 2 * loss, "c": loss.detach()}}
        {line}  # fires
        if i % 5 == 0:
            print(i, total, history)
"""
WAITS = {
    "a dict": "print(i, {k: v.item() for k, v in parts.items()})",
    "a dict that is kept": "history.append({k: v.item() for k, v in parts.items() if k != 'b'})",
    "a list": "history.append([v.item() for v in parts.values()])",
    "a list of lists": "history.extend([v.reshape(1).tolist() for v in parts.values()])",
    "numbers": "total += sum([float(v.detach()) for v in parts.values()]) + loss.item()",
    "a sum": "total += sum(v.item() for v in parts.values())",
    "a mean": "total += sum(v.item() for v in parts.values()) / len(parts)",
    "text of each": 'print(i, ", ".join(f"{k} {v.item():.3f}" for k, v in parts.items()))',
    "text of each, of one name": 'print(i, *[f"{v.item():.3f}" for v in parts.values()])',
    "two values of each": "history.append([(v.item(), (2 * v).item(), k) for k, v in parts.items()])",
    "computed with each": "total += max([round(v.item(), 3) * 2 for v in parts.values()])",
    "a value called value": "history.append([value.item() + 1 for value in parts.values()])",
    "twice the same": "history += [[v.item() for v in parts.values()], [v.item() for v in parts.values()]]",
    "nothing at all": "history.append([v.item() for v in parts.values() if not parts])",
}
STAYS = {
    "a condition on the value": ("history.append([1 for v in parts.values() if v.item() > 1])", "goes through"),
    "a generator that is kept": ("history.append(v.item() for v in parts.values())", "stop early"),
    "a generator that is asked once": ("history.append(zip(v.item() for v in parts.values()))", "stop early"),
    "two loops": ("history.append([v.item() for a in [parts] for v in a.values()])", "within another"),
    "one within another": ("history.append([[v.item() for v in (w,)] for w in parts.values()])", "within another"),
    "a number of the batch": ("history.append([v.item() * i for v in parts.values()])", "needs `i`"),
    "a function of the file": ("print([len(use(v.item())) for v in parts.values()])", "also needs"),
    "what the loop adds up": ("history.append([v.item() for v in history])", "adds up"),
}


@pytest.mark.parametrize("name", WAITS)
def test_values_of_a_comprehension_are_read_later(name: str, tmp_path: Path) -> None:
    text = script(LOOP.format(line=WAITS[name]))
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"]
    assert ".item()" not in patched_text(patch).partition("ahead.iterate")[2]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", STAYS)
def test_a_comprehension_that_does_more_stays(name: str, tmp_path: Path) -> None:
    line, words = STAYS[name]
    text = script("def use(v):\n    print(v)\n    return v\n" + LOOP.format(line=line))
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert [words in one.obstacle for one in patch.declined] == [True], patch.declined


def test_each_comprehension_is_an_object_of_its_own(tmp_path: Path) -> None:
    line = "a = [v.item() for v in parts.values()]; b = [v.item() for v in parts.values()]; history.append(a is b)"
    text = script(LOOP.format(line=line))
    patch = patch_of(tmp_path, text)
    assert_same(tmp_path, text, patch)


def test_what_is_kept_reads_as_the_comprehension_did(tmp_path: Path) -> None:
    after = patched_text(patch_of(tmp_path, script(LOOP.format(line=WAITS["text of each"]))))
    assert '", ".join(f"{k} {value:.3f}" for k, value in parts_values)' in after
    assert "[(k, ahead.item(v)) for k, v in parts.items()]" in after
