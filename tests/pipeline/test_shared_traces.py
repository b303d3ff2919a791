"""What is said of each shared trace, none of which this project recorded: the headline, and who owns most of a step.

Three more are public and too large to be copied: `TRACELENS_TRACES=DIR`, with the names below.

    kineto/resnet50_num_workers_0, _4    pytorch/kineto, tb_plugin/samples (commits be239c04, c6e5fe20)
    amd/mi300_ddp_resnet18_no_pool       AMD-AGI/TraceLens, tests/traces/mi300/ddp_resnet18_no_pool (commit 13730e84)
"""

from __future__ import annotations

import re

import pytest

from tests.support.places import PUBLIC_TRACES, TRACES
from tracelens import pipeline
from tracelens.cli import main

HEADLINES = {
    "amd/h100_bert_small_launch_bound": ("60 launches leave the GPU idle 3.36 of every 4.43 ms", "launch"),
    "amd/h100_owlv2_stacks": ("The DataLoader takes 619 ms of every 1211 ms step", "dataloader"),
    "amd/mi210_gpu_only": ("GPU-bound: 89 % busy", "gpu"),
    "amd/mi300_ddp_resnet18_no_pool": ("hipFree costs 628 ms of every 1041 ms step", "allocator"),
    "amd/mi300_graph_decode": ("GPU-bound: 99 % busy. Nothing to fix in the loop.", "gpu"),
    "amd/mi300_resnet_training_stacks": ("Communication takes 10.5 ms of every 16.0 ms step", "communication"),
    "amd/mi300_vit_stacks": ("155 launches leave the GPU idle 5.21 of every 7.45 ms", "launch"),
    "amd/torch_compile_triton": ("GPU-bound: 99 % busy. Nothing to fix in the loop.", "gpu"),
    "h200/conv_base_ns": ("Two copies block Python for 5.0 of every 15.9 ms", "gpu"),
    "h200/libtorch_small_base": ("360 launches leave the GPU idle 4.15 of every 5.37 ms", "launch"),
    "h200/mlp_base_ns": ("The DataLoader takes 0.95 ms of every 3.92 ms step", "dataloader"),
    "h200/mlp_v23_ns": ("The DataLoader takes 1.14 ms of every 4.72 ms step", "backward"),
    "h200/tf_base_ns": ("Four waits block Python for 14.2 of every 29.1 ms", "gpu"),
    "h200/tf_v23_ns": ("GPU-bound: 94 % busy. Nothing to fix in the loop.", "gpu"),
    "hta/a100_alexnet_cuda_sync": ("cudaFree takes 50 % of the recording", "allocator"),
    "hta/a100_world16_rank_d2h_stalls": ("A wait blocks Python for 146 of every 216 ms", "wait"),
    "hta/a100_world2_nccl": ("900 launches leave the GPU idle 138 of every 223 ms", "launch"),
    "hta/cpu_only": ("Not judged: no GPU work was recorded", "host_line"),
    "hta/cupti_counters": ("Not judged: too much of the recording is missing", "unknown"),
    "hta/event_sync_multi_stream_small": ("Python between the launches takes 95 % of the recording", "host_line"),
    "hta/event_sync_small": ("aten::ones takes 2.79 ms of every 3.15 ms step", "host_line"),
    "hta/mi250_rocm": ("The backward pass leaves the GPU idle 7.35 of every 9.33 ms", "backward"),
    "hta/old_format_async_gpu": ("cudaLaunchKernel takes 92 % of the recording", "host_line"),
    "hta/rank_unavailable": ("Not judged: no GPU work was recorded", "host_line"),
    "hta/triton": ("Python takes 13336 ms of every 13336 ms step", "host_line"),
    "hta/v100_healthy_5steps": ("GPU-bound: 97 % busy. Nothing to fix in the loop.", "gpu"),
    "hta/v100_world2_multistream_5steps": ("3,874 launches leave the GPU idle 141 of every 346 ms", "gpu"),
    "hta/world128_sampled_rank0": ("Communication takes 168 ms of every 615 ms step", "unknown"),
    "hta/world128_sampled_rank1": ("Communication takes 152 ms of every 619 ms step", "unknown"),
    "kineto/resnet50_num_workers_0": ("The DataLoader takes 59.2 ms of every 176 ms step", "gpu"),
    "kineto/resnet50_num_workers_4": ("A copy blocks Python for 8.5 of every 127 ms", "gpu"),
}
"""Headline, and the kind of the owner of most of a step."""
NUMBER = re.compile(r"[\d.]*\d")


def test_memory_that_comes_from_the_driver_in_each_step_breaks_the_budget_on_waits() -> None:
    path = PUBLIC_TRACES / "amd/mi300_ddp_resnet18_no_pool.json.gz"
    if not path.is_file():
        pytest.skip("the trace of a loop without a memory pool is not in TRACELENS_TRACES")
    assert main(["check", str(path), "--max-exposed-ms", "1"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADLINES)
def test_a_trace_gets_its_headline(name: str) -> None:
    path = next((path for folder in (TRACES, PUBLIC_TRACES) for path in folder.glob(f"{name}.*")), None)
    if path is None:
        pytest.skip(f"{name} is neither among the shared traces beside this checkout nor in TRACELENS_TRACES")
    planned = pipeline.plan(pipeline.examine(pipeline.open_inputs((path,))))
    headline, kind = HEADLINES[name]
    assert NUMBER.sub("N", planned.headline) == NUMBER.sub("N", headline), planned.recommendation.verdict
    said, expected = (list(map(float, NUMBER.findall(text))) for text in (planned.headline, headline))
    assert said == pytest.approx(expected, rel=0.1)
    assert planned.owners.owners[0].kind == kind
    assert "train.py" not in planned.recommendation.verdict


def test_no_shared_trace_is_left_out() -> None:
    if not TRACES.is_dir():
        pytest.skip("the shared traces are not beside this checkout")
    here = {f"{path.parent.name}/{path.name.split('.')[0]}" for path in TRACES.glob("*/*.json.gz")}
    assert here <= set(HEADLINES)
