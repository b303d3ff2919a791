"""Puts back what CPython 3.12 loses for good when a code object is monitored: its superinstructions.

In: code objects that are monitored no more. Out: the same objects, as fast as before. 3.12 joins neighbouring
instructions (`LOAD_FAST__LOAD_FAST`) when it makes a code object, takes them apart when any event of `sys.monitoring`,
`settrace` or `setprofile` is switched on, and never joins them again: a hot loop is 3 to 8 % slower ever after. 3.11
keeps them; from 3.13 on they are the compiler's.

Which instructions are joined is read off a fresh copy, which the interpreter itself has just made. Only the first
byte of a pair is written, under the interpreter's lock; before and after, the pair does the same.
"""

from __future__ import annotations

import ctypes
import opcode
import sys
from collections.abc import Iterable, Iterator
from types import CodeType

NEEDED = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 12)


def restore(codes: Iterable[CodeType]) -> None:
    """Nothing is touched where another tool watches the interpreter, or memory is not laid out as 3.12 has it."""
    if not NEEDED or _watched():
        return
    for code in codes:
        now: bytes = code._co_code_adaptive  # type: ignore[attr-defined]
        memory = (ctypes.c_ubyte * len(now)).from_address(id(code) + CodeType.__basicsize__)
        if bytes(memory) != now:
            continue
        for place, joined in _joined(code, now):
            memory[place] = joined


def _joined(code: CodeType, now: bytes) -> Iterator[tuple[int, int]]:
    """Places of instructions that are joined with their neighbour in a new code object and are not now, and what
    stands there. An instruction that is still monitored is no longer the plain one."""
    plain, fresh = code.co_code, code.replace()._co_code_adaptive  # type: ignore[attr-defined]
    caches = opcode._inline_cache_entries  # type: ignore[attr-defined]
    place = 0
    while place + 2 < len(plain):
        if fresh[place] != plain[place] and now[place] == plain[place] and now[place + 2] == plain[place + 2]:
            yield place, fresh[place]
        place += 2 * (1 + caches[plain[place]])


def _watched() -> bool:
    """Whether another tool is to see each instruction."""
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tools = any(monitoring.get_tool(tool) is not None for tool in range(6))
    return tools or sys.gettrace() is not None or sys.getprofile() is not None
