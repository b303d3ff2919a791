"""What can be changed in a training: the levers of `rules/levers/`, and what is known of each on one Run.

Below the stages: the plan lists levers, `verify` measures them, reports show them. TextColumn used here:

lever      one thing that can be changed (`bf16`, `workers=4`, `line=train.py:61`), or a scheme
rule       the file that describes a lever: when it applies, how it is toggled, what to write
toggle     how a trial process switches it on without a change of the user's files
value      what follows `=` where a lever takes one

    definition   the rule of one lever, and the values that it takes
    rules        reads `rules/levers/*.yaml`
    chosen       a lever as the user names it: its rule and its value, or which one was meant
    states       which levers there are on one Run, and what is known of each
"""
