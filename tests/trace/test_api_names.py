"""What names of calls, copies, kernels and Python frames say."""

from __future__ import annotations

import re

import pytest

from tracelens.trace import cuda_api
from tracelens.trace.python_frames import user_frame
from tracelens.trace.vendor_calls import CALLS


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", "launch"),
        ("cudaLaunchKernelExC", "launch"),
        ("cuLaunchKernelEx", "launch"),
        ("cudaLaunchCooperativeKernel", "launch"),
        ("hipExtModuleLaunchKernel", "launch"),
        ("hipLaunchKernel", "launch"),
        ("cudaGraphLaunch", "graph_launch"),
        ("hipGraphLaunch", "graph_launch"),
        ("cudaMemcpyAsync", "copy"),
        ("hipMemcpyWithStream", "copy"),
        ("cudaMemsetAsync", "memset"),
        ("cudaDeviceSynchronize", "device_sync"),
        ("cuCtxSynchronize", "device_sync"),
        ("hipStreamSynchronize", "stream_sync"),
        ("cudaEventSynchronize", "event_sync"),
        ("cudaEventRecordWithFlags", "event_record"),
        ("cudaStreamWaitEvent", "stream_wait"),
        ("cudaEventQuery", "event_query"),
        ("cudaMalloc", "alloc"),
        ("cudaHostAlloc", "alloc"),
        ("cudaFree", "free"),
        ("hipFree", "free"),
        ("cudaMallocAsync", "other"),
        ("hipExtLaunchMultiKernelMultiDevice", "launch"),
        ("urEnqueueKernelLaunch", "launch"),
        ("zeCommandListAppendLaunchKernel", "launch"),
        ("urEnqueueUSMMemcpy", "copy"),
        ("zeCommandListAppendMemoryCopy", "copy"),
        ("urEnqueueUSMFill", "memset"),
        ("urQueueFinish", "stream_sync"),
        ("zeCommandListHostSynchronize", "stream_sync"),
        ("urEventWait", "event_sync"),
        ("zeEventHostSynchronize", "event_sync"),
        ("urUSMDeviceAlloc", "alloc"),
        ("zeMemFree", "free"),
        ("cudaFreeAsync", "other"),
        ("cudaMemGetInfo", "other"),
        ("cudaStreamIsCapturing", "other"),
        ("cudaFuncGetAttributes", "other"),
        ("INVALID", "other"),
        ("piEnqueueKernelLaunch", "launch"),
        ("urEnqueueMemBufferRead", "copy"),
        ("zeCommandQueueSynchronize", "stream_sync"),
        ("zeFenceHostSynchronize", "event_sync"),
        ("urEnqueueEventsWaitWithBarrier", "stream_wait"),
        ("zeEventQueryStatus", "event_query"),
        ("aclrtLaunchKernel", "launch"),
        ("aclopExecuteV2", "launch"),
        ("aclrtMemcpyAsync", "copy"),
        ("aclrtMemsetAsync", "memset"),
        ("aclrtSynchronizeDevice", "device_sync"),
        ("aclrtSynchronizeStreamWithTimeout", "stream_sync"),
        ("aclrtSynchronizeEvent", "event_sync"),
        ("aclrtRecordEvent", "event_record"),
        ("aclrtStreamWaitEvent", "stream_wait"),
        ("aclrtQueryEventStatus", "event_query"),
        ("aclrtMallocHost", "alloc"),
        ("aclrtFree", "free"),
        ("mtiaJobLaunch", "launch"),
    ],
)
def test_kinds_of_calls(name: str, kind: str) -> None:
    assert cuda_api.kind(name) == kind


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "h2d", "pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "h2d", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "d2h", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "d2d", ""),
        ("Memcpy HtoD (Host -> Device)", "h2d", "unknown"),
        ("CopyDeviceToHost", "d2h", "unknown"),
        ("CopyHostToDevice", "h2d", "unknown"),
        ("Memcpy PtoP (Device -> Device)", "p2p", ""),
        ("Memset (Device)", "", ""),
        ("zeCommandListAppendMemoryCopy(M2D)[1572864]", "h2d", "unknown"),
        ("zeCommandListAppendMemoryCopy(D2H)", "d2h", "pinned"),
        ("zeCommandListAppendMemoryCopy(D2D)", "d2d", ""),
    ],
)
def test_directions_of_copies(name: str, direction: str, memory: str) -> None:
    assert (cuda_api.direction(name), cuda_api.memory(name)) == (direction, memory)


def test_the_table_has_every_kind_and_only_patterns() -> None:
    assert set(CALLS) <= set(cuda_api.KINDS) and {"launch", "copy", "stream_sync"} <= set(CALLS)
    for names in CALLS.values():
        assert set(names) <= {"cuda", "rocm", "xpu", "ascend", "mtia"}
        assert all(re.compile(pattern) and not pattern.startswith("|") for pattern in names.values())


def test_copies_that_block_by_name() -> None:
    blocking = ("cudaMemcpy", "aclrtMemcpy", "hipMemcpyWithStream", "cudaMemcpy2D", "cuMemcpyHtoD_v2", "hipMemcpyDtoH")
    assert all(cuda_api.copies_synchronously(name) for name in (*blocking, "hipMemcpyToSymbol"))
    others = ("cudaMemcpyAsync", "aclrtMemcpyAsync", "cudaMemcpy2DAsync", "hipMemcpyDtoHAsync", "urEnqueueUSMMemcpy")
    assert not any(cuda_api.copies_synchronously(name) for name in others)


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", True),
        ("void mscclKernel_Sum_half_LL(ncclDevComm*)", True),
        ("multimem_all_reduce_kernel", True),
        ("void at::native::reduce_kernel<512, 1>(float)", False),
        ("sm90_xmma_gemm_f32", False),
    ],
)
def test_what_is_communication(name: str, collective: bool) -> None:
    assert cuda_api.is_collective(name) == collective


# ---------------------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("train.py(33): main", ("train.py", 33, "main")),
        ("/home/u/work (copy)/train.py(7): <module>", ("/home/u/work (copy)/train.py", 7, "<module>")),
        ("src/models/net.py(120): forward", ("src/models/net.py", 120, "forward")),
        ("torch/nn/modules/module.py(1553): _call_impl", None),
        ("/opt/venv/lib/python3.12/site-packages/tqdm/std.py(1181): __iter__", None),
        ("/usr/lib/python3.11/threading.py(995): run", None),
        ("threading.py(995): run", None),
        ("contextlib.py(81): inner", None),
        ("<built-in method item of Tensor object at 0x7f>", None),
        ("<frozen runpy>(198): _run_module_as_main", None),
        ("nn.Module: Linear_0", None),
    ],
)
def test_frames_of_the_user(name: str, place: tuple[str, int, str] | None) -> None:
    found = user_frame(name)
    assert (found and (found.path, found.line, found.function)) == place
