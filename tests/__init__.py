"""Tests, in folders that mirror the package.

What several test modules need is in `support`; no test module imports another. `accuracy`, `bench`, `corpus`,
`dynamic`, `fuzz`, `matrix` and `owners` are tools with their own tests beside them; `equivalence.py` compares two
versions of the program. A test that starts programs is marked `programs`, one that takes about a second of CPU time
`slow`; all others run in `make check` (see `support/purity.py`).
"""
