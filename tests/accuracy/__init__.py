"""Predicted against measured: the harness behind docs/accuracy.md."""
