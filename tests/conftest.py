"""Fixtures that several test files share."""

from __future__ import annotations

from browsing import browser, open_page  # noqa: F401  (fixtures of the tests that open the page)
