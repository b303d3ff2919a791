"""Rewriting the user's training loop: find the places, write the patch, apply it and undo it.

In: the user's source files and the Edits of a scheme. Out: a `Patch` value, and files written or restored. Apart
because only this package reads source as a syntax tree (LibCST) and only `apply` writes into the user's project.

    source   one parsed file: positions, text, splices
    names    which names and objects a piece of code touches
    loops    the training loop around a place, and what stands in the way of changing it
    sites    the calls that wait for the GPU or copy to it, joined to what was recorded
    outside  calls that look at the screen, the disk or every name; `elsewhere` what the project's other files do
    reach    what the functions behind a call see and change; `holders` which objects are one, or hold one another
    record   what a statement must be given so that it can run later, and `captures` under which names; `deferral`
             which statements do, `moved` their new form
    host     what a call does with a value, by its name; `timing` which times are measured by events instead
    inline   a few lines of plain torch where they are enough; `movers` classes that cannot take `non_blocking`
    recipes  one module per kind of Edit; `recipes.make` is the entrance
    trust    the checks that a rewritten file must pass
    diff     what people read
    apply    write, back up, restore
"""
