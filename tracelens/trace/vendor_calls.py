"""Names of API calls by kind and vendor, as data: add the functions of a new vendor, or of a new version, here.

Each entry is a regular expression that is searched in the name of a call. A call is of the first kind that has one that
fits. What is in no entry is `other`; if such a name says that it waits, nothing about waits is told (`cuda_api`).

cuda     CUDA's runtime (`cuda…`) and driver (`cu…`), and what follows its names: ROCm's HIP (`hip…`), MUSA (`musa…`)
rocm     what HIP adds
xpu      Intel: Unified Runtime (`ur…`), its predecessor (`pi…`) and Level Zero (`ze…`)
ascend   Huawei's AscendCL (`aclrt…`, `aclop…`)
mtia     Meta's MTIA runtime
"""

from __future__ import annotations

from collections.abc import Mapping

CALLS: Mapping[str, Mapping[str, str]] = {
    "graph_launch": {
        "cuda": r"GraphLaunch",
        "xpu": r"^urCommandBufferEnqueue|^zeCommandQueueExecuteCommandLists",
        "ascend": r"^aclmdlExecute|^aclmdlRIExecute",
    },
    "launch": {
        "cuda": r"Launch(?:Cooperative)?Kernel|LaunchHostFunc|Launch(?:Ex)?$",
        "rocm": r"LaunchMultiKernel|LaunchByPtr|ModuleLaunch",
        "xpu": r"EnqueueKernel",
        "ascend": r"^aclrtLaunchKernel|^aclopExecute",
        "mtia": r"JobLaunch",
    },
    "copy": {
        "cuda": r"Memcpy",
        "xpu": r"EnqueueMemCopy|AppendMemoryCopy|EnqueueMemBuffer(?:Read|Write|Copy)",
    },
    "memset": {
        "cuda": r"Memset",
        "xpu": r"EnqueueMemFill|EnqueueUSMFill|AppendMemoryFill|EnqueueMemBufferFill",
    },
    "device_sync": {
        "cuda": r"DeviceSynchronize|CtxSynchronize|ThreadSynchronize",
        "ascend": r"SynchronizeDevice",
    },
    "stream_sync": {
        "cuda": r"StreamSynchronize",
        "xpu": r"QueueFinish|QueueSynchronize|CommandListHostSynchronize",
        "ascend": r"SynchronizeStream",
    },
    "event_sync": {
        "cuda": r"EventSynchronize",
        "xpu": r"HostSynchronize|^urEventWait|^piEventsWait",
        "ascend": r"SynchronizeEvent",
    },
    "event_record": {"cuda": r"EventRecord", "ascend": r"^aclrtRecordEvent"},
    "stream_wait": {
        "cuda": r"StreamWaitEvent",
        "xpu": r"EnqueueEventsWait|AppendWaitOnEvents",
    },
    "event_query": {"cuda": r"EventQuery|StreamQuery", "xpu": r"^zeEventQueryStatus", "ascend": r"^aclrtQueryEvent"},
    "other": {"cuda": r"MallocAsync|FreeAsync|MallocFromPool|MemPool|Mem(?:Get|Address|Export|Import|Retain)"},
    "alloc": {
        "cuda": r"Malloc|HostAlloc|HostRegister|MemAlloc|MemCreate|MemMap",
        "xpu": r"^(?:ur|pi)(?:ext)?USM\w*Alloc",
    },
    "free": {
        "cuda": r"Free|HostUnregister|MemRelease|MemUnmap",
    },
}
"""Kind → vendor → names. The order decides: an asynchronous allocation is `other` before it is an allocation."""
