"""Overwrite freed GPU memory, so that code which still reads it computes something else.

In: a process that trains, at points where the host has queued work. Out: nothing; afterwards each free block of the
allocator holds bytes that are NaN in every floating type. A tensor that is used on another stream than its own, without
`record_stream`, is freed while that stream may not have read it yet. Usually nothing takes the block at once, and the
numbers are right by luck. Taking it at once, on its own stream, makes the race visible. Memory whose use on another
stream was recorded is not free before that stream is done, so correct code computes the same.
"""

from __future__ import annotations

from typing import Any

import torch

BYTE = 0xFF
"""As float, half and bfloat16 alike: NaN. As an index: out of range, or -1."""
SMALL_POOL_BYTES = 1 << 20
"""Requests up to this size are served from segments of their own, whatever lies free in the large ones."""
MOST_BLOCKS = 128
"""Per sweep; a loop with more free blocks than this is swept in part, the largest first."""


def sweep() -> int:
    """Overwrite the free blocks of all streams, each in the order of its own stream; returns how many."""
    if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return 0
    taken = []
    for device, stream, size in free_blocks(torch.cuda.memory_snapshot())[:MOST_BLOCKS]:
        with torch.cuda.stream(_stream(device, stream)):
            taken.append(torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", device)).fill_(BYTE))
    return len(taken)


def free_blocks(segments: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """(device, stream, bytes) of each block that a request of its size on its stream would get, largest first."""
    blocks = []
    for segment in segments:
        if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0):
            continue  # a CUDA graph's own memory, which the allocator does not hand out
        for block in segment["blocks"]:
            small = block["size"] <= SMALL_POOL_BYTES
            if block["state"] == "inactive" and small == (segment["segment_type"] == "small"):
                blocks.append((int(segment["device"]), int(segment["stream"]), int(block["size"])))
    return sorted(blocks, key=lambda block: -block[2])


def side_streams() -> bool:
    """Whether this process has taken memory on a stream other than the default one."""
    return torch.cuda.is_initialized() and any(segment["stream"] for segment in torch.cuda.memory_snapshot())


def _stream(device: int, stream: int) -> Any:
    return torch.cuda.ExternalStream(stream, device=device) if stream else torch.cuda.default_stream(device)
