"""Recording: `inside/` runs in the user's process, `supervisor/` in the parent, the modules here in both (no torch)."""
