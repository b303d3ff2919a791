"""What the loop does already, from the recorded steps, the recording's notes and the script's text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.builders import Events, Machine
from tracelens.findings import inventory
from tracelens.findings.script_facts import read_script_facts
from tracelens.model import InventoryItem, RankRecording, Run, Timeline
from tracelens.trace import timeline

SCRIPT = """
import argparse, torch
LOG_EVERY = 20
parser = argparse.ArgumentParser()
parser.add_argument("-w", "--num-workers", type=int, default=4)
args = parser.parse_args()
torch.backends.cudnn.benchmark = True
loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=args.num_workers, pin_memory=True)
for step, (x, y) in enumerate(loader):
    x = x.to("cuda", non_blocking=True)
    with torch.autocast("cuda"):
        loss = model(x)
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
    if step % LOG_EVERY == 0:
        print(loss.item())
"""


def looped(body: Callable[[Machine, int], None], steps: int = 8) -> Timeline:
    machine = Machine()
    for number in range(steps):
        with machine.step(number):
            body(machine, number)
    return timeline.build(machine.trace())


def plain(machine: Machine, _: int) -> None:
    machine.launch("gemm", 300)
    machine.host(400)


def taken(picture: Timeline, run: Run | None = None, source: str | None = None) -> dict[str, InventoryItem]:
    items = inventory.collect(picture, run, source)
    assert len({item.id for item in items}) == len(items)
    return {item.id: item for item in items}


def run_with(**loader) -> Run:
    recording = RankRecording(0, None, meta={"loaders": [{"batches": 3, "num_workers": 9}, {"batches": 100, **loader}]})
    return Run(Path(), (), None, Path(), True, (recording,))


# --------------------------------------------------------------------------------------------------- from the steps


def test_a_read_in_each_step_is_no_deferred_read():
    def body(machine: Machine, _: int) -> None:
        plain(machine, 0)
        machine.item()

    item = taken(looped(body), source=SCRIPT)["reads_every_k"]
    assert (item.present, item.value) == (False, 1)


def test_reads_every_third_step_are_seen():
    def body(machine: Machine, number: int) -> None:
        plain(machine, number)
        if number % 3 == 2:
            machine.item()
            machine.host(50)

    item = taken(looped(body, 12))["reads_every_k"]
    assert (item.present, item.value) == (True, 3)


def test_an_interval_longer_than_the_window_comes_from_the_script():
    assert taken(looped(plain))["reads_every_k"].present is None
    item = taken(looped(plain), source=SCRIPT)["reads_every_k"]
    assert (item.present, item.value) == (True, 20)
    assert "% 20" in item.evidence


def copying(memory: str, stream: int = 7) -> Callable[[Machine, int], None]:
    def body(machine: Machine, number: int) -> None:
        machine.copy("h2d", memory, 100, nbytes=1 << 20, stream=stream)
        plain(machine, number)

    return body


@pytest.mark.parametrize(
    ("memory", "stream", "pinned", "unblocked", "aside"),
    [("pageable", 7, False, False, False), ("pinned", 7, True, True, False), ("pinned", 20, True, True, True)],
)
def test_copies(memory, stream, pinned, unblocked, aside):
    items = taken(looped(copying(memory, stream)))
    assert (items["host_copies"].present, items["host_copies"].value) == (True, 1 << 20)
    assert items["pinned_memory"].present is pinned
    assert items["non_blocking_copies"].present is unblocked
    assert items["copy_stream"].present is aside


def test_a_pinned_copy_that_is_waited_for_at_once_blocks():
    def body(machine: Machine, number: int) -> None:
        machine.copy("h2d", "pinned", 100, nbytes=1 << 20)
        machine.stream_synchronize()
        plain(machine, number)

    assert taken(looped(body))["non_blocking_copies"].present is False


def test_no_copies_at_all():
    items = taken(looped(plain))
    assert items["host_copies"].present is False
    assert items["pinned_memory"].present is None and items["non_blocking_copies"].present is None


def test_events_and_streams():
    def body(machine: Machine, number: int) -> None:
        machine.launch("gemm", 300)
        machine.launch("other", 50, stream=8)
        machine.event_synchronize(machine.record_event())

    items = taken(looped(body))
    assert items["events"].present is True
    assert (items["compute_streams"].present, items["compute_streams"].value) == (True, 2)
    assert taken(looped(plain))["events"].present is False


def test_streams_of_two_gpus_are_not_two_streams_of_one():
    """One process drives two GPUs, each on one stream; the numbers are the driver's and differ."""
    events = Events()
    for number in range(8):
        start = 1000 * number
        events.step(number, start, 1000)
        for device, stream in ((0, 7), (1, 20)):
            at = start + 100 * device
            copy = events.call("cudaMemcpyAsync", at + 10, 5)
            events.copied(
                copy, "Memcpy HtoD (Pinned -> Device)", at + 20, 10, nbytes=4096, device=device, stream=stream
            )
            kernel = events.call("cudaLaunchKernel", at + 50, 5)
            events.kernel(kernel, "gemm", at + 60, 300 - device, stream=stream, device=device)
    items = taken(timeline.build(events.trace()))
    assert (items["compute_streams"].present, items["compute_streams"].value) == (False, 1)
    assert items["copy_stream"].present is False


def test_kernels_and_names_tell_how_it_computes():
    def body(machine: Machine, number: int) -> None:
        machine.launch("ampere_bf16_s16816gemm_bf16_128x128", 300)
        machine.launch("triton_poi_fused_add_0", 30)
        machine.host(300)

    items = taken(looped(body))
    assert items["amp"].present is True and "bf16" in items["amp"].evidence
    assert items["compile"].present is True
    without = taken(looped(plain))
    assert without["amp"].present is False and without["compile"].present is False
    assert without["cuda_graphs"].present is False and without["distributed"].present is False


def test_a_trace_without_a_gpu_claims_nothing_about_one():
    events = Events()
    events.step(0, 0, 100)
    events.add("cpu_op", "aten::mm", 10, 50)
    items = taken(timeline.build(events.trace()))
    unknown = ("reads_every_k", "host_copies", "pinned_memory", "copy_stream", "compute_streams", "events", "amp")
    assert {name: items[name].present for name in unknown} == dict.fromkeys(unknown)
    every_batch = SCRIPT + "\nfor batch in loader:\n    total += loss.item()\n"
    said = taken(timeline.build(events.trace()), source=every_batch)["reads_every_k"]
    assert said.present is None and "no GPU work" in said.evidence  # `% 20` stands in it, and so does a read per batch


# -------------------------------------------------------------------------------------- from the recording, the text


def test_the_recording_counts_for_more_than_the_script():
    run = run_with(num_workers=0, pin_memory=False, persistent_workers=False)
    items = taken(looped(plain), run, SCRIPT)
    assert (items["loader_workers"].present, items["loader_workers"].value) == (False, 0)
    assert items["pinned_memory"].present is False and "recorded" in items["pinned_memory"].evidence


def test_the_script_speaks_where_nothing_was_recorded():
    items = taken(looped(plain), None, SCRIPT)
    assert (items["loader_workers"].present, items["loader_workers"].value) == (True, 4)
    assert items["pinned_memory"].present is True
    assert items["persistent_workers"].present is False
    assert items["non_blocking_copies"].present is True
    assert (items["gradient_accumulation"].present, items["gradient_accumulation"].value) == (True, 4)
    assert items["cudnn_benchmark"].present is True
    assert items["tf32"].present is None  # a module that the script imports may set it


def test_an_autocast_in_a_branch_that_was_not_taken_is_no_mixed_precision():
    item = taken(looped(plain), None, SCRIPT)["amp"]
    assert item.present is False
    assert item.evidence == "the script calls autocast, but no kernel of 16 bits was recorded"


def test_kernels_of_bfloat16_are_known_by_the_type_that_torch_writes_out():
    name = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<c10::BFloat16> >(int)"
    items = taken(looped(lambda machine, _: (machine.launch(name, 300), machine.host(400))))
    assert items["amp"].present is True


@pytest.mark.parametrize("value", [False, True])
def test_a_setting_that_was_recorded_counts_for_more_than_the_script(value):
    run = replace(run_with(), meta={"environment": {"tf32": value, "cudnn_benchmark": value}})
    items = taken(looped(plain), run, SCRIPT + "torch.backends.cuda.matmul.allow_tf32 = True\n")
    assert (items["tf32"].present, items["cudnn_benchmark"].present) == (value, value)
    assert items["tf32"].evidence == f"allow_tf32 was {value}, recorded"


def test_without_script_and_recording_the_loader_is_unknown():
    items = taken(looped(plain))
    assert items["loader_workers"].present is None and items["persistent_workers"].present is None


@pytest.mark.parametrize("source", ["def f(:\n", "\x00", "(" * 5000, ""])
def test_text_that_is_no_script_is_no_evidence(source):
    assert taken(looped(plain), None, source)["loader_workers"].present is None


@pytest.mark.parametrize("notes", [None, "x", [None, 3], [{"num_workers": "many"}]])
def test_odd_notes_about_loaders_are_ignored(notes):
    run = Run(Path(), (), None, Path(), True, (RankRecording(0, None, meta={"loaders": notes}),))
    assert taken(looped(plain), run)["loader_workers"].value is None


def test_what_the_syntax_tree_says():
    facts = read_script_facts(SCRIPT)
    assert facts.reads_every == 20 and facts.steps_every == 4
    assert facts.loader == {"batch_size": 8, "num_workers": 4, "pin_memory": True}
    assert facts.non_blocking and "benchmark" in facts.flags and "autocast" in facts.calls
    assert read_script_facts("for i in x:\n    if i % 1 == 0: l.item()\n").reads_every is None


@pytest.mark.parametrize(
    ("operations", "present"),
    [
        (("aten::convolution", "aten::relu"), True),
        (("aten::conv2d",), True),
        (("aten::mm", "aten::relu"), False),
        (("aten::mm", "Torch-Compiled Region: 0/0"), None),
        ((), None),
    ],
)
def test_convolutions_are_known_where_operations_were_recorded(operations: tuple[str, ...], present: bool | None):
    def body(machine: Machine, number: int) -> None:
        for name in operations:
            with machine.operation(name):
                machine.host(1)
        plain(machine, number)

    assert taken(looped(body))["convolutions"].present is present


@pytest.mark.parametrize(
    ("operation", "present"),
    [("aten::_foreach_addcdiv_", True), ("aten::_foreach_add_", True), ("aten::_foreach_norm", False)],
)
def test_an_optimizer_that_takes_many_tensors_at_once(operation: str, present: bool):
    def body(machine: Machine, number: int) -> None:
        with machine.operation(operation):
            machine.host(1)
        plain(machine, number)

    assert taken(looped(body))["foreach_optimizer"].present is present
