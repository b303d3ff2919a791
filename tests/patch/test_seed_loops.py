"""The loops of the documents that the schemes come from, in Python: a synchronize per batch, events, own streams."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.patching import FIRES, assert_same, patched_text, script
from tests.support.seed_loops import FORMS, KINDS, OWN_STREAM, READS, patch_for
from tests.support.streams import assert_same_order, lost_orders, run_on_streams
from tracelens.model import Patch


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_patched_and_keeps_its_numbers_and_the_order_of_its_work(
    form: str, kinds: str, tmp_path: Path
) -> None:
    text = script(FORMS[form], batches=12)
    patch = patch_for(tmp_path, text, *KINDS[kinds])
    assert {hunk.edit for hunk in patch.hunks} >= {"event-sync" if "event" in kinds else "interval-sync"}
    assert {"defer-read"} & {hunk.edit for hunk in patch.hunks} == {"defer-read"} & set(KINDS[kinds])
    assert all("first batch" in one.obstacle or "some batches" in one.obstacle for one in patch.declined)
    assert_same_order(tmp_path, text, patch)


def test_without_the_lines_that_a_patch_adds_an_order_would_be_lost(tmp_path: Path) -> None:
    text = script(OWN_STREAM, batches=3)
    after = patched_text(patch_for(tmp_path, text, *KINDS["event and interval"]))
    _, original = run_on_streams(tmp_path / "before", text)
    _, patched = run_on_streams(tmp_path / "after", after)
    _, without = run_on_streams(tmp_path / "without", after.replace(ADDED, ""))
    assert ADDED in after
    assert lost_orders(original, patched) == []
    assert any(later.startswith("read") for _, later in lost_orders(original, without))


ADDED = "        torch.cuda.current_stream().wait_stream(compute)\n"


def body(text: str) -> str:
    """The loop of a script and what follows it."""
    return text[text.index("criterion = nn.CrossEntropyLoss()") :].partition("\n")[2]


def test_the_first_batch_is_waited_for_and_then_every_tenth(tmp_path: Path) -> None:
    text = script(FORMS["first batch and the others"])
    after = patched_text(patch_for(tmp_path, text, "interval-sync"))
    assert body(after) == (
        body(text)
        .replace("for i,", "batches_issued = 0\nfor i,")
        .replace(
            "    else:\n        torch.cuda.synchronize()  # fires\n",
            "    else:\n        batches_issued += 1\n        if batches_issued % 10 == 0:\n"
            "            torch.cuda.synchronize()  # fires\n",
        )
        + "if batches_issued % 10:\n    torch.cuda.synchronize()\n"
    )


def test_an_event_that_the_loop_records_is_waited_for_every_tenth_batch(tmp_path: Path) -> None:
    text = script(FORMS["an event that is recorded and waited for"])
    after = patched_text(patch_for(tmp_path, text, "event-sync", "interval-sync"))
    assert body(after) == (
        body(text)
        .replace("total = 0.0\n", "total = 0.0\nbatches_issued = 0\n")
        .replace(
            "    done.synchronize()  # fires\n",
            "    batches_issued += 1\n    if batches_issued % 10 == 0:\n        done.synchronize()  # fires\n",
        )
        + "if batches_issued % 10:\n    done.synchronize()\n"
    )


def test_a_stream_that_may_be_missing_is_asked_for(tmp_path: Path) -> None:
    text = script(
        """
        def main():
            compute = torch.cuda.Stream() if torch.cuda.is_available() else None
            total = 0.0
            for x, y in loader:
                with torch.cuda.stream(compute):
                    STEP
                if compute is not None:
                    compute.synchronize()  # fires
                total += loss.item()  # reads
            return total
        result = main()
        """,
        batches=12,
    )
    patch = patch_for(tmp_path, text, *KINDS["event, interval and reads"])
    waits = "        if compute is not None:\n            compute.wait_stream(torch.cuda.current_stream())\n"
    assert waits in patched_text(patch)
    assert_same_order(tmp_path, text, patch)
    assert_same(tmp_path / "cpu", text.replace("torch.cuda.is_available()", "False"), patch_for_cpu(tmp_path, text))


def test_a_method_or_a_local_name_elsewhere_is_not_the_stream(tmp_path: Path) -> None:
    others = "class Net:\n    def compute(self, compute): return compute\ndef other():\n    return (compute := 3)\n"
    text = script(others + textwrap.dedent(OWN_STREAM), batches=4)
    assert not patch_for(tmp_path, text, "interval-sync").empty


def patch_for_cpu(folder: Path, text: str) -> Patch:
    (folder / "cpu").mkdir()
    asked = text.replace("torch.cuda.is_available()", "False")
    return patch_for(folder / "cpu", asked, *KINDS["event, interval and reads"])


STAYS = {
    "a stream that is handed on": ("side = torch.cuda.Stream()\nuse = print\nuse(side is None, side)", "other code"),
    "a stream that is kept": ("side = torch.cuda.Stream()\nkept = side", "other code"),
    "a stream that a function uses": (
        "side = torch.cuda.Stream()\ndef other():\n    side.synchronize()",
        "other code",
    ),
    "streams in a list": ("sides = [torch.cuda.Stream() for _ in range(4)]", "no name tells"),
    "a stream of an object": (
        "import types\nholder = types.SimpleNamespace()\nholder.side = torch.cuda.Stream()",
        "no name tells",
    ),
    "the current stream is another one": (
        "side = torch.cuda.Stream()\ntorch.cuda.set_stream(side)",
        "changes which is the current one",
    ),
    "two streams of one name": ("side = torch.cuda.Stream()\nside = torch.cuda.Stream()", "two of them"),
    "a stream by its number": ("side = torch.cuda.ExternalStream(0)", "changes which is the current one"),
}
WAITS = {
    "event-sync": ("torch.cuda.synchronize()", FIRES),
    "interval-sync": ("torch.cuda.synchronize()", FIRES),
    "defer-read": ("total += loss.item()", READS),
}


@pytest.mark.parametrize("kind", WAITS)
@pytest.mark.parametrize("name", STAYS)
def test_a_wait_stays_where_a_stream_may_be_used_by_others(name: str, kind: str, tmp_path: Path) -> None:
    before, words = STAYS[name]
    wait, mark = WAITS[kind]
    text = script(f"{before}\ntotal = 0.0\nfor x, y in loader:\n    STEP\n    {wait}  {mark}\n")
    patch = patch_for(tmp_path, text, kind)
    assert patch.empty
    assert [words in one.obstacle for one in patch.declined] == [True]


EVENTS = {
    "it is asked": ("done = torch.cuda.Event()", "done.record()\n    over = done.query()\n    done.synchronize()"),
    "its time is asked for": (
        "start, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)",
        "start.record()\n    done.record()\n    done.synchronize()  # fires\n    print(start.elapsed_time(done) > 0)",
    ),
    "it is of another kind": ("class Event:\n    def synchronize(self): pass\ndone = Event()", "done.synchronize()"),
    "it may be of another kind": (
        "import threading\ndone = torch.cuda.Event()\nif not device:\n    done = threading.Barrier(1)",
        "done.synchronize()",
    ),
    "already every tenth batch": (
        "done = torch.cuda.Event()\ni = 0",
        "i += 1\n    done.record()\n    should_sync = i % 10 == 0\n    if should_sync or i % 10 == 0:\n"
        "        done.synchronize()",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_wait_for_an_event_stays_where_more_hangs_on_it(name: str, tmp_path: Path) -> None:
    before, inside = EVENTS[name]
    marked = inside if FIRES in inside else f"{inside}  {FIRES}"
    text = script(f"{before}\nfor x, y in loader:\n    STEP\n    {marked}\n")
    assert patch_for(tmp_path, text, "event-sync", "interval-sync").empty
