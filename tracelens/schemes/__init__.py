"""Remedies: read them from `rules/`, fit them to a loop, score them, recommend one.

In: rule files (data), what was found, what was estimated, patched and measured. Out: `Scheme`s and one
`Recommendation`. Nothing here replays or rewrites: estimates and patches come in as values.

    catalog   what a rule says, as frozen values          rules    read and validate the files
    fields    reading one mapping, mistakes collected     plan     scheme → Edits, or why it does not apply
    score     priors → evidence                           advise   ranking, verdict, limits
    stages    the three stages and their goals            weighing for which weights the winner changes
"""
