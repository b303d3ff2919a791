"""Replay: what each remedy would buy on this run, from one recorded Timeline.

tape.build → Tape      the host's program with its waits taken out, and the GPU work it launches
edits.apply → Program  the same program after a set of Edits, step by step
simulate.step_time     one forward pass over that program: every constraint kept, the maximum taken
exposed, bounds, estimate, sentences, lanes: the questions asked of it
"""
