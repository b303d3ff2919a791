"""Fixtures of the tests of verification."""

from __future__ import annotations

from tests.support.verifying import project  # noqa: F401  (a fixture)
