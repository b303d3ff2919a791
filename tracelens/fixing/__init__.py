"""The whole loop of `tracelens fix` on one Run: choose what to change, measure it, judge it.

Above the stages that it calls: `lever_trials` tries, `trials` verifies, `patch/files` writes.

    choice       which levers can be written without another result, and what is said where there is none
    judgement    from what was measured of a change to what becomes of it
    stages       in which order, within which time
"""
