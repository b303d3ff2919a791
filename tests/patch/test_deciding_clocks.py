"""A clock that decides what a loop does would decide at another batch if the host ran ahead: its reads stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, script

HEAD = "import time\nstart, limit, total = time.time(), 3600.0, 0.0\n"
LOOP = HEAD + "for i, (x, y) in enumerate(loader):\n    STEP\n    total += loss.item()  # fires\n{body}\nprint(total)\n"
DECIDES = {
    "the end": "    if time.time() - start > limit:\n        break",
    "the end, by a moment": "    now = time.monotonic()\n    if now > limit:\n        print('deadline')\n        break",
    "an error": "    if time.time() > start + limit:\n        raise TimeoutError(i)",
    "a checkpoint": "    if time.time() - start > 600:\n        torch.save(model, 'm.pt')\n        start = time.time()",
    "a line": "    if time.perf_counter() - start > 0.1:\n        print(i, total)\n        start = time.perf_counter()",
    "a rate": "    share = min(1.0, (time.time() - start) / limit)\n    for group in optimizer.param_groups:\n"
    "        group['lr'] = 0.1 * (1 - share)",
    "one of two values": "    print(i, 'slow' if time.time() - start > limit else 'fast')",
}


@pytest.mark.parametrize("what", DECIDES)
def test_where_the_clock_decides_nothing_waits(what: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(LOOP.format(body=DECIDES[what])))
    assert patch.empty
    assert "the clock decides in line" in patch.declined[0].obstacle


def test_a_function_of_the_file_that_asks_the_clock_decides_as_well(tmp_path: Path) -> None:
    text = "import time\ndef is_over():\n    return time.time() > 1e12\n" + LOOP.removeprefix("import time\n")
    patch = patch_of(tmp_path, script(text.format(body="    if is_over():\n        break")))
    assert patch.empty and "the clock decides" in patch.declined[0].obstacle


def test_what_decides_in_another_function_is_not_proved(tmp_path: Path) -> None:
    """A checkpoint every ten minutes, behind a call."""
    helper = "last = [0.0]\ndef maybe_save():\n    if time.time() - last[0] > 600:\n        last[0] = time.time()\n"
    text = HEAD + helper + LOOP.removeprefix(HEAD).format(body="    maybe_save()")
    patch = patch_of(tmp_path, script(text))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "what the clock is read for, a time that is written or decides, may be another" in patch.hunks[0].unproved


def test_a_time_that_is_written_beside_the_value_is_not_proved(tmp_path: Path) -> None:
    text = HEAD + "for i, (x, y) in enumerate(loader):\n    STEP\n    print(i, time.time(), loss.item())  # fires\n"
    assert [hunk.tier for hunk in patch_of(tmp_path, script(text)).hunks] == ["checked"]


def test_a_span_that_is_shown_every_few_batches_decides_nothing(tmp_path: Path) -> None:
    body = "    if i % 10 == 9:\n        print(i, total, time.time() - start)\n        start = time.time()"
    assert [hunk.edit for hunk in patch_of(tmp_path, script(LOOP.format(body=body))).hunks] == ["defer-read"]
