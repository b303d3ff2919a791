"""Micro-benchmarks that `tracelens doctor --calibrate` runs in a child process of their own, which imports torch."""
