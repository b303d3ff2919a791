"""Questions about recording that only a GPU answers. Each is a small experiment in a process of its own.

    python tests/bench/capture_gpu.py -o OUT.json [--parallel 4]

In: a machine with a CUDA device. Out: one JSON document with the answers, quoted in docs/capture.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--only", default=",".join(QUESTIONS), help="names, separated by commas")
    words = parser.parse_args()
    if words.out is None:
        print(json.dumps(QUESTIONS[words.only]()))
        return
    answers: dict[str, Any] = json.loads(words.out.read_text(encoding="utf-8")) if words.out.exists() else {}

    def ask(name: str) -> None:
        answers[name] = _child(name)
        words.out.write_text(json.dumps(dict(sorted(answers.items())), indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {json.dumps(answers[name])[:600]}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(words.parallel) as pool:
        list(pool.map(ask, words.only.split(",")))


def _child(name: str) -> Any:
    command = [sys.executable, __file__, "--only", name]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=75)
    except subprocess.TimeoutExpired:
        return {"failed": "timeout"}
    try:
        return {**json.loads(done.stdout.splitlines()[-1]), "seconds": round(time.perf_counter() - begin, 1)}
    except (ValueError, IndexError):
        return {"failed": done.returncode, "stderr": done.stderr[-1500:]}


# --------------------------------------------------------------------------------------------------- events and streams


def events() -> dict[str, Any]:
    """Record/wait pairs of a copy stream: what the trace says, what the event log adds, what it costs."""
    import torch

    from tracelens.capture.inside.cuda_event_log import CudaEventLog
    from tracelens.capture.inside.profiler_session import ProfilerSession

    loop = _CopyLoop(torch)
    loop.run(20)
    with tempfile.TemporaryDirectory() as folder:
        recorder, log = ProfilerSession(), CudaEventLog()
        recorder.prepare()
        loop.run(2)
        log.install()
        recorder.start()
        for number in range(4):
            recorder.mark_step(number)
            loop.run(1)
        recorder.stop()
        log.remove()
        path = Path(folder) / "trace.json"
        recorder.export(path)
        document = json.loads(path.read_text(encoding="utf-8"))
    found = _joined(document, log.uses())
    return {**found, "cost": _cost_of_log(loop), "stream_numbers": _numbers(torch, loop.side)}


class _CopyLoop:
    """Four small layers, the next batch copied on a stream of its own: two records and two waits per step."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.side = torch.cuda.Stream()
        self.host = torch.randn(256, 512).pin_memory()
        self.copied = torch.cuda.Event()

    def run(self, steps: int) -> float:
        torch = self._torch
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            main = torch.cuda.current_stream()
            self.side.wait_stream(main)
            with torch.cuda.stream(self.side):
                rows = self.host.to("cuda", non_blocking=True)
                self.copied.record()
            main.wait_event(self.copied)
            rows.record_stream(main)
            loss = self.model(rows).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps


def _joined(document: dict[str, Any], uses: list[Any]) -> dict[str, Any]:
    base = int(document.get("baseTimeNanoseconds", 0))
    calls = [event for event in document["traceEvents"] if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    wanted = {"record": "EventRecord", "wait": "StreamWaitEvent"}
    shares = {}
    for call, word in wanted.items():
        mine = [event for event in calls if word in event["name"]]
        hit = 0
        for event in mine:
            at = base + round(event["ts"] * 1000)
            hit += any(use.call == call and use.start_unix_ns - 5000 <= at <= use.end_unix_ns + 5000 for use in uses)
        shares[call] = {"calls": len(mine), "resolved": hit}
    syncs = [
        event["args"] | {"name": event["name"]} for event in document["traceEvents"] if event.get("cat") == "cuda_sync"
    ]
    kernels = {}
    for event in document["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy"):
            kernels.setdefault(str(event["args"].get("stream")), set()).add(event["name"][:30])
    return {
        "shares": shares,
        "uses_of_a_step": [[use.call, use.event, use.stream] for use in uses[:5]],
        "sync_rows": syncs[:6],
        "work_by_stream": {stream: sorted(names)[:3] for stream, names in kernels.items()},
        "runtime_names": sorted({event["name"] for event in calls}),
    }


def _cost_of_log(loop: _CopyLoop) -> dict[str, Any]:
    from tests.bench.capture_price import _interleaved, _ratio
    from tracelens.capture.inside.cuda_event_log import CudaEventLog

    def with_log() -> float:
        log = CudaEventLog()
        log.install()
        try:
            return loop.run(40)
        finally:
            log.remove()

    pairs = _interleaved(with_log, lambda: loop.run(40), 12.0)
    return {**_ratio(pairs), "step_us": round(1e6 * sorted(bare for _, bare in pairs)[len(pairs) // 2], 1)}


def _numbers(torch: Any, side: Any) -> dict[str, Any]:
    """How the libraries number the default stream and another."""
    import ctypes

    from tracelens.capture.inside.cuda_event_log import _cupti_stream_id, _loaded

    ask = _cupti_stream_id()
    found: dict[str, Any] = {"cupti": None if ask is None else [ask(0), ask(side.cuda_stream)]}
    for library, function in (("libcudart", "cudaStreamGetId"), ("libcuda.so", "cuStreamGetId")):
        loaded = _loaded(library)
        if loaded is not None and hasattr(loaded, function):
            answers = []
            for pointer in (0, side.cuda_stream):
                number = ctypes.c_uint64(0)
                failed = getattr(loaded, function)(ctypes.c_void_p(pointer), ctypes.byref(number))
                answers.append(None if failed else number.value)
            found[function] = answers
    return found


# -------------------------------------------------------------------------------------------------- torn-down CUPTI


def teardown_with_graphs() -> dict[str, Any]:
    """A CUDA graph captured before the window, replayed while recording and after CUPTI was torn down."""
    import torch

    from tracelens.capture.inside.profiler_session import ProfilerSession

    rows = torch.ones(64, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    for _ in range(3):
        (rows @ rows).sum()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        result = (rows @ rows).sum()
    values, times = [], {}
    for teardown in ("0", "1", "1"):
        os.environ["TEARDOWN_CUPTI"] = teardown
        recorder = ProfilerSession()
        recorder.prepare()
        recorder.start()
        graph.replay()
        recorder.stop()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(500):
            graph.replay()
        torch.cuda.synchronize()
        times.setdefault(teardown, []).append(round((time.perf_counter() - begin) / 500 * 1e6, 2))
        values.append(float(result))
    return {"values": values, "replay_us": times}


def torn_down() -> dict[str, Any]:
    """Whether CUPTI can be detached after the window: what else a process may do, one process for each. Those that
    hang are ended after a while."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(24) as pool:
        runs = [(name, code, turn) for name, code in _TORN.items() for turn in range(_TURNS.get(name, 1))]

        def run(one: tuple[str, str, int]) -> tuple[str, Any]:
            name, code, _ = one
            path = Path(folder) / f"{len(name)}-{abs(hash(one))}.py"
            path.write_text(_TORN_HEAD.format(root=str(ROOT)) + code, encoding="utf-8")
            try:
                done = subprocess.run(
                    [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=60
                )
            except subprocess.TimeoutExpired as late:
                return name, {"status": "hangs", "said": str(late.stdout)[-200:]}
            said = done.stdout.strip().splitlines()[-3:]
            why = [] if done.returncode == 0 else done.stderr.strip().splitlines()[-1:]
            return name, {"status": done.returncode, "said": said, "why": why}

        found: dict[str, list[Any]] = {}
        for name, outcome in pool.map(run, runs):
            found.setdefault(name, []).append(outcome)
    return found


_TURNS = {"threads": 2, "pinned": 2, "graph_replayed_in_the_window": 2}
_TORN_HEAD = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
import torch
from tracelens.capture.inside.profiler_session import ProfilerSession

torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
rows = torch.randn(32, 64, device="cuda")

def steps(count):
    for _ in range(count):
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    return float(loss)

def record(how="late", between=lambda: None):
    recorder = ProfilerSession()
    recorder.prepare()
    steps(2)
    recorder.start()
    steps(4)
    between()
    os.environ["TEARDOWN_CUPTI"] = "1"
    recorder.stop()
    if how == "late":
        time.sleep(0.2)
        for _ in range(20):
            torch.cuda.current_stream().query()
            time.sleep(0.001)
    if how != "kept":
        del os.environ["TEARDOWN_CUPTI"]

def kernels(work=lambda: steps(3)):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
        work()
    return sum(1 for e in session.profiler.kineto_results.events() if e.device_type() == torch.autograd.DeviceType.CUDA)

def graph(times=200):
    one = torch.cuda.CUDAGraph()
    with torch.cuda.graph(one):
        made = (rows @ rows.T).sum()
    for _ in range(times):
        one.replay()
    torch.cuda.synchronize()
    return one, float(made)

steps(5)
"""
_TORN: dict[str, str] = {
    "profiled_later_early": "record('early'); steps(300); print(kernels()); steps(100); print(kernels()); steps(100)",
    "profiled_later_kept": "record('kept'); steps(300); print(kernels()); steps(100); print(kernels()); steps(100)",
    "profiled_later": "record(); steps(300); print(kernels()); steps(100); print(kernels()); steps(100)",
    "profiled_at_once": "record(); print(kernels()); steps(100); print(kernels())",
    "profiled_at_once_kept": "record('kept'); print(kernels()); steps(100); print(kernels())",
    "never_torn_for_comparison": "print(kernels()); steps(100); print(kernels())",
    "graph_after": "record(); steps(50); g, v = graph(); print(v); record(); steps(50); g.replay(); print(kernels())",
    "graph_after_in_step": "record(); g, v = graph(); print(v); steps(50)",
    "graph_before": "g, v = graph(); record(); steps(50); [g.replay() for _ in range(200)]; steps(1); print(v)",
    "graph_replayed_in_the_window": "g, v = graph(); record(between=lambda: [g.replay() for _ in range(5)])\n"
    "steps(50); [g.replay() for _ in range(200)]; steps(1); print(v); record(); steps(9); g.replay(); steps(9)",
    "graph_before_deleted": "g, v = graph(); del g; record(); steps(50); g, v = graph(); print(v)",
    "graph_in_the_window": "record(between=lambda: graph(5)); steps(50); g, v = graph(); print(v)",
    "reduce_overhead_after": "record(); f = torch.compile(model, mode='reduce-overhead')\n"
    "for _ in range(20): f(rows).sum().backward()\ntorch.cuda.synchronize(); print('done')",
    "threads": """
stop = []
def other():
    with torch.cuda.stream(torch.cuda.Stream()):
        mine = torch.randn(64, 64, device="cuda")
        while not stop: (mine @ mine).sum()
many = [threading.Thread(target=other) for _ in range(3)]
for one in many: one.start()
record(); print(steps(300)); stop.append(1)
for one in many: one.join()
""",
    "pinned": """
data = torch.utils.data.TensorDataset(torch.randn(4096, 64))
if __name__ == "__main__":
    for turn in range(3):
        loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2, pin_memory=True)
        for number, (batch,) in enumerate(loader):
            model(batch.cuda(non_blocking=True)).sum().backward()
            if turn == 1 and number == 20: record()
    torch.cuda.synchronize(); print("done")
""",
    "nccl": """
import torch.distributed as dist
def rank(number):
    torch.cuda.set_device(number % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29777", rank=number, world_size=2)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
    def work(count):
        for _ in range(count): net(torch.randn(8, 64, device="cuda")).sum().backward()
    work(5)
    recorder = ProfilerSession(); recorder.prepare(); work(2); recorder.start(); work(4)
    os.environ["TEARDOWN_CUPTI"] = "1"; recorder.stop(); del os.environ["TEARDOWN_CUPTI"]
    work(300); torch.cuda.synchronize(); dist.destroy_process_group(); print("rank done", flush=True)
if torch.cuda.device_count() > 1 and __name__ == "__main__":
    import multiprocessing
    both = [multiprocessing.get_context("spawn").Process(target=rank, args=(n,)) for n in (0, 1)]
    for one in both: one.start()
    for one in both: one.join()
    print([one.exitcode for one in both])
""",
}


# ------------------------------------------------------------------------------------------------------- what is lost


def orphans() -> dict[str, Any]:
    """GPU work whose launch lies before the window, with a backlog, without and with a synchronize first."""
    import torch

    from tracelens.capture.inside.profiler_session import ProfilerSession
    from tracelens.trace import chrome, timeline

    rows = torch.randn(2048, 2048, device="cuda")
    found = {}
    for synchronize in (False, True):
        recorder = ProfilerSession()
        recorder.prepare()
        for _ in range(200):
            torch.mm(rows, rows)
        if synchronize:
            torch.cuda.synchronize()
        recorder.start()
        recorder.mark_step(1)
        for _ in range(50):
            torch.mm(rows, rows)
        recorder.stop()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            recorder.export(path)
            ops = timeline.build(chrome.load(path)).tables.ops
            found["synchronized" if synchronize else "backlog"] = {
                "ops": len(ops), "without_launch": int((ops["call"] < 0).sum())
            }  # fmt: skip
    return found


def sampler() -> dict[str, Any]:
    """Does the sampler see the line while `.item()`, a blocking copy or a synchronize waits for the GPU?"""
    import torch

    from tracelens.capture.inside.stack_sampler import StackSampler

    rows = torch.randn(4096, 4096, device="cuda")
    found = {}

    def busy() -> Any:
        value = rows
        for _ in range(20):
            value = torch.mm(rows, rows)
        return value

    def item(value: Any) -> None:
        value[0, 0].item()

    def copy(value: Any) -> None:
        value[:64].cpu()

    def synchronize(_value: Any) -> None:
        torch.cuda.synchronize()

    for function in (item, copy, synchronize):
        for _ in range(2):
            value = busy()
            torch.cuda.synchronize()
            value = busy()
            watch = StackSampler(threading.get_ident())
            watch.start()
            begin = time.perf_counter()
            function(value)
            waited = time.perf_counter() - begin
            watch.stop()
            inside = [place for _, place in watch.samples if place[2] == function.__name__]
        per_ms = round(len(inside) / (1e3 * waited), 2)
        found[function.__name__] = {"waited_ms": round(1e3 * waited, 2), "samples": len(inside), "per_ms": per_ms}
    return found


def attribution() -> dict[str, Any]:
    """Cost of the patches of W2 on a step that reads twice, and what torch's own reports add."""
    import warnings

    import torch

    from tests.bench.capture_price import _interleaved, _ratio
    from tracelens.capture.inside.attribution import REPORTED, Attribution

    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    rows = torch.randn(256, 512, device="cuda")

    def run(steps: int) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            loss = model(rows).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            if loss > 1e9:
                raise ValueError
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps

    run(20)
    found: dict[str, Any] = {}

    def attributed() -> float:
        one = Attribution()
        one.install()
        try:
            return run(20)
        finally:
            one.remove()
            found["marks_per_step"] = len(one.marks) / 20

    found["cost"] = _ratio(_interleaved(attributed, lambda: run(20), 5.0))
    seen = []
    shown, warnings.showwarning = warnings.showwarning, lambda message, *_: seen.append(str(message))
    filters = list(warnings.filters)
    one = Attribution()
    one.install()
    torch.bincount(torch.ones(4, dtype=torch.int64, device="cuda"))
    torch.linalg.inv(torch.eye(3, device="cuda"))
    one.remove()
    warnings.showwarning = shown
    found["reported"] = sum(mark.call == REPORTED for mark in one.marks)
    found["warnings_that_reached_the_user"] = seen
    found["state_as_before"] = warnings.filters == filters and torch.cuda.get_sync_debug_mode() == 0
    return found


# -------------------------------------------------------------------------------------------------------- two profilers


def two_profilers() -> dict[str, Any]:
    """The crash table of capture.md with CUDA: without our guards, a second session inside the first."""
    outcomes = {}
    for name, code in _CRASHES.items():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        outcomes[name] = {"status": done.returncode, "last": done.stderr.strip().splitlines()[-1:] or None}
    return outcomes


_CRASH_HEAD = """
import torch, threading
from torch.profiler import profile, ProfilerActivity
acts = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
x = torch.ones(64, 64, device="cuda", requires_grad=True)
def work():
    (x @ x).sum().backward()
work()
"""
_CRASHES = {
    "theirs inside ours": _CRASH_HEAD
    + """
ours = profile(activities=acts); ours.prepare_trace(); ours.start_trace(); work()
with profile(activities=acts): work()
ours.stop_trace(); ours.export_chrome_trace("/tmp/ours.json"); work(); torch.cuda.synchronize()
""",
    "theirs while ours warms up": _CRASH_HEAD
    + """
ours = profile(activities=acts); ours.prepare_trace()
with profile(activities=acts): work()
ours.start_trace(); work(); ours.stop_trace(); ours.export_chrome_trace("/tmp/ours2.json"); torch.cuda.synchronize()
""",
    "started inside backward": _CRASH_HEAD
    + """
ours = profile(activities=acts)
x.register_hook(lambda g: (ours.prepare_trace(), ours.start_trace(), None)[-1])
work(); ours.stop_trace(); ours.export_chrome_trace("/tmp/ours3.json"); torch.cuda.synchronize()
""",
}


def hung() -> dict[str, Any]:
    """SIGTERM while the main thread hangs in a CUDA call inside the window: does the process end, and how soon?"""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(_HANGS, encoding="utf-8")
        driver = (
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "from tracelens.capture.supervisor.recording import *;"
            "from tracelens.capture.window_plan import WindowPlan;"
            "o = profile(ProfileOptions('script', ('train.py',), plan=WindowPlan(unprofiled_steps=4,"
            "unprofiled_seconds=0, unprofiled_most_steps=4, clean=5), monitor=False)); print(o.status, o.reason)"
        )
        command = [sys.executable, "-c", driver, str(ROOT)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        return {"out": done.stdout.splitlines()[-2:], "err": done.stderr[-300:]}


_HANGS = """
import os, signal, threading, time, torch
model = torch.nn.Linear(8, 1).cuda(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(60):
    model(torch.ones(4, 8, device="cuda")).sum().backward(); optimizer.step(); optimizer.zero_grad()
    if number == 14:
        begin = time.monotonic()
        threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        torch.cuda._sleep(int(20 * 1.9e9))
        torch.cuda.synchronize()
        print("returned after", time.monotonic() - begin, flush=True)
"""

QUESTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    function.__name__: function
    for function in (events, teardown_with_graphs, torn_down, orphans, sampler, attribution, two_profilers, hung)
}

if __name__ == "__main__":
    main()
