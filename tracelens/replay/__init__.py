"""Replay: how long a step takes after a set of Edits, computed from one recorded Timeline.

    trace_builder.build       Timeline → ReplayTrace: each step's host calls, without their waits
    edits.apply               ReplayTrace + Edits → Program: the same calls, rewritten step by step
    program.compile_program   Program → CompiledProgram: runs of launches merged into one operation
    simulate.Simulator        one forward pass over a CompiledProgram: every constraint holds, the latest one decides
    steady_state.step_time    passes until the state repeats: ns per step

`estimate`, `exposed_cost`, `bounds`, `explanations`, `worker_count`, `what_if` and `step_timeline` ask questions of
these five.
"""
