"""Tests, in folders that mirror the package; `support` holds what they share."""
