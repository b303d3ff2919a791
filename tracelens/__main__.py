"""`python -m tracelens`: the same as the `tracelens` command."""

from __future__ import annotations

import sys

from tracelens.cli import main

if __name__ == "__main__":
    sys.exit(main())
