"""What runs in the parent: the working copy, the fresh processes, the order of their runs. Never imports torch."""
