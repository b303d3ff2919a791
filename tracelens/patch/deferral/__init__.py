"""Statements that run later: which may, what they need to be kept, and how the loop reads then."""
