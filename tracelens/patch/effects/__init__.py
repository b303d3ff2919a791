"""What a project's code reads, writes, prints, draws and stores, and whether statements of a loop may run later.

`file_effects` is asked, about one file of a project; `movable` has the question and the answer. Built on Python's
own parser alone.
"""
