"""One measurement in a process of its own: `python one.py WHAT TRACE` prints one line of JSON.

WHAT is `tracelens`, `analyze`, `json` or `hta`. Time counts from after the imports, wall and CPU, with the processes
that this one starts; memory is the peak of this one, imports included.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any


def tracelens(path: Path) -> Callable[[], dict[str, Any]]:
    """Load, Timeline, and everything in `findings/`."""
    from tracelens.findings import AnalyzedRank, breakdown, detect, inventory, overlap, stalls
    from tracelens.trace import chrome, timeline

    def work() -> dict[str, Any]:
        trace = chrome.load(path)
        loaded = time.perf_counter()
        picture = timeline.build(trace)
        times, parts, _, _ = breakdown.measure(picture, None)
        detected = detect(AnalyzedRank(picture, times, parts, stalls.group(picture), overlap.measure(picture), None))
        inventory.collect(picture, None, None)
        return {
            "loaded_at": loaded,
            "events": len(trace),
            "steps": times.count,
            "findings": [one.id for one in detected.findings],
            "abstentions": [one.detector for one in detected.abstentions],
        }

    return work


def analyze(path: Path) -> Callable[[], dict[str, Any]]:
    """What `tracelens analyze` computes: the same and a replay, which tells what each wait costs."""
    from tracelens import pipeline

    def work() -> dict[str, Any]:
        diagnosis = pipeline.diagnose(pipeline.open_inputs((path,)))
        return {"findings": [one.id for one in diagnosis.findings]}

    return work


def parse(path: Path) -> Callable[[], dict[str, Any]]:
    """A tool that only parses: the standard library's reader of gzip, and of JSON."""
    import gzip

    def work() -> dict[str, Any]:
        with gzip.open(path) as handle:
            return {"events": len(json.loads(handle.read())["traceEvents"])}

    return work


def hta(path: Path) -> Callable[[], dict[str, Any]]:
    """HTA 0.5.0: parse, temporal breakdown, idle-time breakdown."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    from hta.trace_analysis import TraceAnalysis

    def work() -> dict[str, Any]:
        analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir="")
        analysis.get_temporal_breakdown(visualize=False)
        analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
        return {"events": len(analysis.t.traces[0])}

    return work


def _peak_kb() -> int:
    """The most memory this program has held. `ru_maxrss` would count the process it was forked from, too."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(row.split()[1]) for row in status.read_text().splitlines() if row.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _cpu_s() -> float:
    """Of this process and of those that it started and waited for: a large file is read by several."""
    used = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(prepare: Callable[[Path], Callable[[], dict[str, Any]]], path: Path) -> dict[str, Any]:
    work = prepare(path)
    imported_kb = _peak_kb()
    wall, cpu = time.perf_counter(), _cpu_s()
    facts = work()
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": _cpu_s() - cpu}
    if "loaded_at" in facts:
        took["load_wall_s"] = facts.pop("loaded_at") - wall
    peak_kb = _peak_kb()
    return {**took, "peak_mb": peak_kb * 1024 / 1e6, "imported_mb": imported_kb * 1024 / 1e6, **facts}


WHAT = {"tracelens": tracelens, "analyze": analyze, "json": parse, "hta": hta}

if __name__ == "__main__":
    print(json.dumps(measured(WHAT[sys.argv[1]], Path(sys.argv[2]))))
