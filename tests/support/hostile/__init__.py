"""Odd training loops that could make the patcher break its promises; `test_patch_hostile` runs them."""
