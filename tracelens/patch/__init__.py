"""Rewriting the user's training loop: find the places, write the patch, apply it and undo it.

In: the user's source files and the Edits of a scheme. Out: a `Patch` value, and files written or restored. Apart
because only this package reads source as a syntax tree (LibCST) and only `files.apply` writes into the user's project.
Each folder may import those below it:

    recipes   one module per kind of Edit; `recipes.make` is the entrance, `proposal` what they are asked and answer
    later     statements that run later: which may, what they need to be kept, and how the loop reads then
    files     what a rewritten file must pass, what people read, writing, backing up, restoring
    loop      one training loop: its sites, its loader, its guards, who looks at its results, who changes what
    code      the text of a project: one file, the names in it, the functions of other files
"""
