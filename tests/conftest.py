"""Fixtures that several test files share."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support.browsing import browser, open_page  # noqa: E402, F401  (fixtures of the tests that open the page)
