"""Odd training loops that could make the patcher break its promises; `tests/patch/test_odd_loops.py` runs them."""
