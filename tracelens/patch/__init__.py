"""Rewriting the user's training loop: find the places, write the patch, apply it and undo it.

In: the user's source files and the Edits of a scheme. Out: a `Patch` value, and files written or restored. Apart
because only this package reads source as a syntax tree (LibCST) and only `files.apply` writes into the user's project.
Each folder may import those below it:

    every_place  places of a script without a recording
    recipes      one module per kind of Edit; `recipes.make` is the entrance
    proposal     what recipes are asked and answer
    deferral     statements that run later: which may, what they need to be kept, and how the loop reads then
    files        what a rewritten file must pass, what people read, writing, backing up, restoring
    loop         one training loop: its sites, its loader, its guards, who looks at its results, who changes what
    code         the text of a project: one file, the names in it, the functions of other files
    effects      what the functions of a project read, write, print, draw and store; Python's own parser only

TextColumn of the recipes:

    Site             a place in a file that an Edit could change: a read, a copy, a synchronize (`loop/sites`)
    Target           a place that the recording names: a line, and the waits recorded at it (`proposal`)
    RecipeRequest    one Edit for one file, with its Targets: the argument of every `propose`
    Proposal         one hunk that could be made, by Splices or by the numbers of Sites
    Splice           replace the characters [start, end) of a file by a text (`code/source`)
    Blocked          exception: a place stays as it is; the statement in the way, the obstacle, what to do by hand
    Declined         the same as a value: what the patch lists under "Left alone"
    covers           places that a Proposal changes although other kinds declined them, so they are not listed
    rare             Sites that run every N batches only once a Proposal is made: no other hunk changes them
    kept_by_comment  whether `# tracelens: keep` protects a statement
    unproved         what is not known of a hunk of tier `checked`, as one sentence
    Capture          a value that is kept until a deferred statement runs; its `moment` says after which side effects
                     of other captures it is taken (`deferral/captures`)
    guard            an `if` that ends the training on a bad value; `--unsafe` lets it look every N batches
"""
